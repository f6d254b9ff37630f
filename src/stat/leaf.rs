//! Leaves: the functions that compiled Lua calls through its FFI, and the only unsafe code here.
//!
//! A leaf takes a pointer, some doubles and flags, and returns a number. It never calls back into
//! Lua, never panics (its code is total; a panic would abort the process instead of unwinding
//! through frames of compiled Lua) and allocates only when a table grows.
//!
//! Lua gets the addresses as light userdata and casts them, so nothing has to be exported and a
//! static binary works. Each pointer refers to a [`RefCell`]: if Rust holds the aggregate while a
//! script runs, the leaf does nothing instead of aliasing it. This check costs less than a
//! nanosecond.

use super::{pending::Pending, states::States, strings::Strings, word::Word};
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

/// Maximum number of doubles that a leaf takes.
pub const DOUBLES: usize = 10;

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
                // SAFETY: as above.
                let this = unsafe { &*this };
                // SAFETY: Lua passes null or the slot at its cursor, which is valid until the batch
                // ends.
                let event = unsafe { event_at(slot) };
                this.try_borrow_mut()
                    .map_or(0, |mut this| this.take_event(event, &[$($arg),*], flags))
            }
        )*

        /// Returns the address of `take` for this number of doubles, to be cast to
        /// `uint32_t (*)(void *, double…, uint32_t)`; None above [`DOUBLES`].
        pub fn take<T: Leaf>(doubles: usize) -> Option<*mut c_void> {
            let all = [$($name::<T> as *mut c_void),*];
            all.get(doubles).copied()
        }

        /// Returns the address of `take_event`,
        /// `uint32_t (*)(void *, const void *slot, double…, uint32_t)`; None above [`DOUBLES`].
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
unsafe fn event_at<'a>(slot: *const Slot) -> Option<BorrowedEvent<'a>> {
    // SAFETY: the caller's promise.
    let slot = unsafe { slot.as_ref() }?;
    let raw = if slot.raw.is_null() {
        &[]
    } else {
        // SAFETY: the caller's promise; the bytes have no alignment.
        unsafe { std::slice::from_raw_parts(slot.raw, slot.raw_size as usize) }
    };
    let chain = if slot.chain.is_null() {
        &[]
    } else {
        // SAFETY: the caller's promise; entries of a record are 8-byte aligned by the ABI.
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

/// Returns the other leaves of [`Pending`], as name and address:
///
/// - `close_call(p, key, time, call, kinds)`: whether there was one,
/// - `close(p, key, time, kinds)` and `get(p, key, kinds)`: whether there was one,
/// - `next(p, index)`: the index to continue with, or 0,
/// - `recall(p)`: makes the event of the closed slot readable,
/// - `set(p, index, generation, field, value, kinds)`: whether the slot is still open,
/// - `miss(p, key, kinds)`,
/// - `len(p)`.
pub fn of_pending() -> [(&'static str, *mut c_void); 8] {
    [
        ("close", close as *mut c_void),
        ("close_call", close_call as *mut c_void),
        ("get", get as *mut c_void),
        ("next", next as *mut c_void),
        ("recall", recall as *mut c_void),
        ("set", set as *mut c_void),
        ("miss", miss as *mut c_void),
        ("len", len as *mut c_void),
    ]
}

unsafe extern "C" fn close(this: *const RefCell<Pending>, key: f64, time: f64, kinds: u32) -> u32 {
    // SAFETY: as for every leaf.
    let this = unsafe { &*this };
    this.try_borrow_mut()
        .map_or(0, |mut this| u32::from(this.close(Word::passed(key, kinds & 1 != 0), time)))
}

unsafe extern "C" fn close_call(
    this: *const RefCell<Pending>,
    key: f64,
    time: f64,
    call: f64,
    kinds: u32,
) -> u32 {
    // SAFETY: as for every leaf.
    let this = unsafe { &*this };
    this.try_borrow_mut().map_or(0, |mut this| {
        u32::from(this.close_call(Word::passed(key, kinds & 1 != 0), time, call))
    })
}

unsafe extern "C" fn get(this: *const RefCell<Pending>, key: f64, kinds: u32) -> u32 {
    // SAFETY: as for every leaf.
    let this = unsafe { &*this };
    this.try_borrow_mut()
        .map_or(0, |mut this| u32::from(this.get(Word::passed(key, kinds & 1 != 0))))
}

unsafe extern "C" fn next(this: *const RefCell<Pending>, index: u32) -> u32 {
    // SAFETY: as for every leaf.
    let this = unsafe { &*this };
    this.try_borrow_mut().map_or(0, |mut this| this.next(index))
}

unsafe extern "C" fn recall(this: *const RefCell<Pending>) {
    // SAFETY: as for every leaf.
    let this = unsafe { &*this };
    this.try_borrow_mut().iter_mut().for_each(|this| this.recall());
}

unsafe extern "C" fn set(
    this: *const RefCell<Pending>,
    index: u32,
    generation: u32,
    field: u32,
    value: f64,
    kinds: u32,
) -> u32 {
    // SAFETY: as for every leaf.
    let this = unsafe { &*this };
    this.try_borrow_mut()
        .map_or(0, |mut this| u32::from(this.set(index, generation, field as usize, value, kinds)))
}

unsafe extern "C" fn miss(this: *const RefCell<Pending>, key: f64, kinds: u32) {
    // SAFETY: as for every leaf.
    let this = unsafe { &*this };
    this.try_borrow_mut().iter_mut().for_each(|this| this.miss(Word::passed(key, kinds & 1 != 0)));
}

unsafe extern "C" fn len(this: *const RefCell<Pending>) -> u32 {
    // SAFETY: as for every leaf.
    let this = unsafe { &*this };
    this.try_borrow().map_or(0, |this| this.len() as u32)
}

/// Returns the other leaves of [`States`], as name and address:
///
/// - `move(p, slot, tid, time, mask, state)`: a [`Moved`](super::states::Moved),
/// - `switch(p, slot, prev, next, time, state)`: the result of [`States::switch`],
/// - `leave(p, tid, time)`: as `move`,
/// - `still(p, index, time)`: the index to continue with, or 0.
pub fn of_states() -> [(&'static str, *mut c_void); 4] {
    [
        ("move", move_to as *mut c_void),
        ("switch", switch as *mut c_void),
        ("leave", leave as *mut c_void),
        ("still", still as *mut c_void),
    ]
}

unsafe extern "C" fn still(this: *const RefCell<States>, index: u32, time: f64) -> u32 {
    // SAFETY: as for every leaf.
    let this = unsafe { &*this };
    this.try_borrow_mut().map_or(0, |mut this| this.still(index, time))
}

unsafe extern "C" fn switch(
    this: *const RefCell<States>,
    slot: *const Slot,
    prev: u32,
    next: u32,
    time: f64,
    state: i32,
) -> u32 {
    // SAFETY: as for every leaf.
    let this = unsafe { &*this };
    // SAFETY: as in `move_to`.
    let event = unsafe { event_at(slot) };
    this.try_borrow_mut().map_or(0, |mut this| this.switch(event, prev, next, time, state))
}

unsafe extern "C" fn move_to(
    this: *const RefCell<States>,
    slot: *const Slot,
    tid: u32,
    time: f64,
    mask: u32,
    state: i32,
) -> u32 {
    // SAFETY: as for every leaf.
    let this = unsafe { &*this };
    // SAFETY: Lua passes null or the slot at its cursor, which is valid until the batch ends.
    let event = unsafe { event_at(slot) };
    this.try_borrow_mut().map_or(1, |mut this| this.move_to(event, tid, time, mask, state) as u32)
}

unsafe extern "C" fn leave(this: *const RefCell<States>, tid: u32, time: f64) -> u32 {
    // SAFETY: as for every leaf.
    let this = unsafe { &*this };
    this.try_borrow_mut().map_or(1, |mut this| this.leave(tid, time) as u32)
}
