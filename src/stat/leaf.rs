//! Leaves: the functions that compiled Lua calls through its FFI. They are the only unsafe code of
//! this folder. Those of a single aggregate are in the `leaf.rs` of its folder.
//!
//! A leaf takes a pointer, some doubles and flags, and returns a number. It never calls back into
//! Lua, never panics (its code is total; a panic would abort the process instead of unwinding
//! through frames of compiled Lua) and allocates only when a table grows.
//!
//! Lua gets the addresses as light userdata and casts them, so nothing has to be exported and a
//! static binary works. Each pointer refers to a [`RefCell`]: if Rust holds the aggregate while a
//! script runs, the leaf does nothing instead of aliasing it. This check costs less than a
//! nanosecond.

use super::strings::Strings;
use crate::base::event::slot::Slot;
use std::{cell::RefCell, ffi::c_void, rc::Rc};

/// An aggregate that Rust and compiled Lua share.
pub type SharedAggregate<T> = Rc<RefCell<T>>;

/// An aggregate that takes doubles. Each type defines what they and the bits of `flags` mean.
pub trait Leaf {
    /// Takes one event's doubles. The result is returned to Lua as a number.
    fn take(&mut self, doubles: &[f64], flags: u32) -> u32;
}

/// An aggregate that also takes the event itself, or none.
pub trait EventLeaf {
    /// Takes one event and its doubles. The result is returned to Lua as a number.
    fn take_event(&mut self, event: Option<BorrowedEvent<'_>>, doubles: &[f64], flags: u32) -> u32;
}

/// Returns the pointer that Lua passes as the first argument of a leaf. It is valid as long as the
/// `Rc` lives.
pub fn pointer<T>(shared: &SharedAggregate<T>) -> *mut c_void {
    Rc::as_ptr(shared).cast_mut().cast()
}

macro_rules! leaves {
    ($($name:ident $open:ident ($($arg:ident),*);)*) => {
        $(
            unsafe extern "C" fn $name<T: Leaf>(
                this: *const RefCell<T>,
                $($arg: f64,)*
                flags: u32,
            ) -> u32 {
                // SAFETY: Lua passes the pointer that came with this function's address;
                // `script::aggregate` keeps the Rc behind it until the Lua state is gone.
                let this = unsafe { &*this };
                this.try_borrow_mut().map_or(0, |mut this| this.take(&[$($arg),*], flags))
            }

            unsafe extern "C" fn $open<T: EventLeaf>(
                this: *const RefCell<T>,
                slot: *const Slot,
                $($arg: f64,)*
                flags: u32,
            ) -> u32 {
                // SAFETY: the pointer is the one that Lua got with this function's address, and the
                // Rc behind it lives as long as the Lua state.
                let this = unsafe { &*this };
                // SAFETY: Lua passes null or the slot at its cursor, which is valid until the batch
                // ends.
                let event = unsafe { event_at(slot) };
                this.try_borrow_mut()
                    .map_or(0, |mut this| this.take_event(event, &[$($arg),*], flags))
            }
        )*

        /// Returns the address of `take` for this number of doubles, to be cast to
        /// `uint32_t (*)(void *, double…, uint32_t)`; None above 10.
        pub fn take<T: Leaf>(doubles: usize) -> Option<*mut c_void> {
            let all = [$($name::<T> as *mut c_void),*];
            all.get(doubles).copied()
        }

        /// Returns the address of `take_event`,
        /// `uint32_t (*)(void *, const void *slot, double…, uint32_t)`; None above 10.
        pub fn open<T: EventLeaf>(doubles: usize) -> Option<*mut c_void> {
            let all = [$($open::<T> as *mut c_void),*];
            all.get(doubles).copied()
        }
    };
}

leaves! {
    take0 open0 ();
    take1 open1 (a);
    take2 open2 (a, b);
    take3 open3 (a, b, c);
    take4 open4 (a, b, c, d);
    take5 open5 (a, b, c, d, e);
    take6 open6 (a, b, c, d, e, f);
    take7 open7 (a, b, c, d, e, f, g);
    take8 open8 (a, b, c, d, e, f, g, h);
    take9 open9 (a, b, c, d, e, f, g, h, i);
    take10 open10 (a, b, c, d, e, f, g, h, i, j);
}

/// An event whose memory is borrowed for the length of one call.
#[derive(Clone, Copy, Debug)]
pub struct BorrowedEvent<'a> {
    /// The slot, its pointers included.
    pub slot: &'a Slot,
    /// The bytes at `slot.raw`.
    pub raw: &'a [u8],
    /// The entries at `slot.chain`.
    pub chain: &'a [u64],
}

/// Returns the event at a slot; None if the slot is null.
///
/// # Safety
/// `slot` is null or points to a slot whose own pointers are null or valid for their sizes, for as
/// long as `'a`.
pub(super) unsafe fn event_at<'a>(slot: *const Slot) -> Option<BorrowedEvent<'a>> {
    // SAFETY: `slot` is null or valid, as this function requires.
    let slot = unsafe { slot.as_ref() }?;
    let raw = if slot.raw.is_null() {
        &[]
    } else {
        // SAFETY: `raw` points to `raw_size` bytes, which have no alignment.
        unsafe { std::slice::from_raw_parts(slot.raw, slot.raw_size as usize) }
    };
    let chain = if slot.chain.is_null() {
        &[]
    } else {
        // SAFETY: `chain` points to `chain_len` entries, 8-byte aligned by the ABI of records.
        unsafe { std::slice::from_raw_parts(slot.chain, slot.chain_len as usize) }
    };
    Some(BorrowedEvent { slot, raw, chain })
}

/// Returns the address of [`Strings::intern`], `uint32_t (*)(void *, const char *, size_t)`.
pub fn intern() -> *mut c_void {
    unsafe extern "C" fn intern(this: *const RefCell<Strings>, text: *const u8, len: usize) -> u32 {
        // SAFETY: as for every leaf.
        let this = unsafe { &*this };
        // SAFETY: Lua passes a string and its length; the string is on Lua's stack during the call.
        let text = unsafe { std::slice::from_raw_parts(text, len) };
        this.try_borrow_mut().map_or(super::strings::OTHER, |mut this| this.intern(text))
    }
    intern as *mut c_void
}
