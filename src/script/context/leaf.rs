//! Leaves of a run: the functions that compiled Lua calls directly.
//!
//! A leaf does not call back, and never unwinds: it panics only on an error of the runtime itself,
//! and then ends the process.

use std::ffi::c_void;

use super::emit::EmitExtras;
use super::record::{chain_of, raw_of};
use super::shared::{ContextCell, enter};
use crate::base::event::chain;
use crate::base::event::slot::Slot;
use crate::base::kernel::address::is_kernel_address;
use crate::stat::leaf::BorrowedEvent;

/// Returns the name of a task, NUL-terminated, valid until the next call. FFI leaf.
///
/// # Safety
/// `context` is `SharedContext::address` of a living context.
pub(in crate::script) unsafe extern "C" fn comm(
    context: *const c_void,
    tid: u32,
    cpu: u32,
) -> *const u8 {
    // SAFETY: `context` is the address of a living context, as this function requires.
    let inner = unsafe { &*context.cast::<ContextCell>() };
    enter(inner, |context| {
        context.comm = context.comm_of(tid, cpu);
        context.comm.as_ptr()
    })
}

/// Returns the name of a slot's task, NUL-terminated, valid until the next call. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(in crate::script) unsafe extern "C" fn own_comm(
    context: *const c_void,
    slot: *const Slot,
) -> *const u8 {
    // SAFETY: the context is alive and the slot is valid, as this function requires.
    let (inner, event) = unsafe { borrowed(context, slot) };
    enter(inner, |context| {
        context.comm = context.comm_of_event(event.slot, event.raw);
        context.comm.as_ptr()
    })
}

/// Returns the id of the stack of a slot that has a call chain. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(in crate::script) unsafe extern "C" fn stack_of(
    context: *const c_void,
    slot: *const Slot,
) -> f64 {
    // SAFETY: the context is alive and the slot is valid, as this function requires.
    let (inner, event) = unsafe { borrowed(context, slot) };
    // Ids are below 2^53.
    enter(inner, |context| context.stack_of(event.slot, event.chain) as f64)
}

/// Returns the id of a stack of one frame: the function that contains a slot's `ip`. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(in crate::script) unsafe extern "C" fn function_of(
    context: *const c_void,
    slot: *const Slot,
) -> f64 {
    // SAFETY: the context is alive and the slot is valid, as this function requires.
    let (inner, event) = unsafe { borrowed(context, slot) };
    let ip = event.slot.ip;
    let chain = [if is_kernel_address(ip) { chain::KERNEL } else { chain::USER }, ip];
    enter(inner, |context| context.stack_of(event.slot, &chain) as f64)
}

/// Returns a field of a sample that is text, by its row of [`SAMPLE_FIELDS`], NUL-terminated, valid
/// until the next call; empty if the record has no tail. FFI leaf.
///
/// [`SAMPLE_FIELDS`]: crate::event::sample_field::SAMPLE_FIELDS
///
/// # Safety
/// As [`emit`].
pub(in crate::script) unsafe extern "C" fn sampled_text(
    context: *const c_void,
    slot: *const Slot,
    row: u32,
) -> *const u8 {
    // SAFETY: the context is alive and the slot is valid, as this function requires.
    let (inner, event) = unsafe { borrowed(context, slot) };
    enter(inner, |context| context.sampled_text(event.raw, row as usize).as_ptr())
}

/// Copies a kept event to a slot that does not change until the next call, and returns that slot:
/// script code that runs while it is read may change the table that keeps the event. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(in crate::script) unsafe extern "C" fn show(
    context: *const c_void,
    slot: *const Slot,
) -> *const Slot {
    // SAFETY: the context is alive and the slot is valid, as this function requires.
    let (inner, event) = unsafe { borrowed(context, slot) };
    enter(inner, |context| context.shown.show(&context.owners, event))
}

/// Prints the event of a slot. FFI leaf.
///
/// # Safety
/// `context` is `SharedContext::address` of a living context; `slot` is a slot of the running batch
/// or a kept one.
pub(in crate::script) unsafe extern "C" fn emit(context: *const c_void, slot: *const Slot) {
    // SAFETY: the context is alive and the slot is valid, as this function requires.
    let (inner, event) = unsafe { borrowed(context, slot) };
    enter(inner, |context| context.emit(event.slot, event.raw, event.chain, EmitExtras::default()));
}

/// Adds the event of a slot to the timeline. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(in crate::script) unsafe extern "C" fn tap(context: *const c_void, slot: *const Slot) {
    // SAFETY: the context is alive and the slot is valid, as this function requires.
    let (inner, event) = unsafe { borrowed(context, slot) };
    enter(inner, |context| context.tap(event.slot, event.raw, event.chain));
}

/// Begins the event with this number, without values in its columns: a copy of `event` at the time
/// of `handled`, the slot under the cursor. FFI leaf.
///
/// # Safety
/// `context` is `SharedContext::address` of a living context; both are slots of the running batch
/// or kept ones.
pub(in crate::script) unsafe extern "C" fn derive(
    context: *const c_void,
    number: u32,
    handled: *const Slot,
    event: *const Slot,
) {
    // SAFETY: the context lives, and `event` is a slot of the batch or a kept one.
    let (inner, event) = unsafe { (&*context.cast::<ContextCell>(), &*event) };
    // SAFETY: slots of the batch and kept ones refer to memory of their own; so is `handled`.
    let (raw, chain, time) = unsafe { (raw_of(event), chain_of(event), (*handled).time) };
    enter(inner, |context| {
        context.derived.push(number, handled, &BorrowedEvent { slot: event, raw, chain });
        context.derived.set_time(time);
    });
}

/// Sets a column of the event that was begun last. FFI leaf.
///
/// # Safety
/// `context` is `SharedContext::address` of a living context.
pub(in crate::script) unsafe extern "C" fn set_derived_number(
    context: *const c_void,
    offset: u32,
    value: f64,
) {
    // SAFETY: the context lives.
    let inner = unsafe { &*context.cast::<ContextCell>() };
    enter(inner, |context| context.derived.set_number(offset, value));
}

/// Sets a column of the event that was begun last. FFI leaf.
///
/// # Safety
/// As [`set_derived_number`]; `text` has `size` readable bytes.
pub(in crate::script) unsafe extern "C" fn set_derived_text(
    context: *const c_void,
    offset: u32,
    text: *const u8,
    size: u32,
) {
    if text.is_null() {
        return;
    }
    // SAFETY: the context lives.
    let inner = unsafe { &*context.cast::<ContextCell>() };
    // SAFETY: `text` is not NULL and has `size` readable bytes.
    let text = unsafe { std::slice::from_raw_parts(text, size as usize) };
    enter(inner, |context| context.derived.set_text(offset, text));
}

/// Returns a slot's event as text, without its name, valid until the next call; its length is
/// [`text_size`]. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(in crate::script) unsafe extern "C" fn text_of(
    context: *const c_void,
    slot: *const Slot,
) -> *const u8 {
    // SAFETY: the context is alive and the slot is valid, as this function requires.
    let (inner, event) = unsafe { borrowed(context, slot) };
    enter(inner, |context| {
        context.text.clear();
        let role = event.slot.ev as usize;
        if let Some(of_role) = context.roles.get(role) {
            context.texts.push(&mut context.text, role, of_role, event.raw);
        }
        context.text.as_ptr()
    })
}

/// Returns whether the event of a slot passes a filter of the context. FFI leaf.
///
/// # Safety
/// As [`emit`].
pub(in crate::script) unsafe extern "C" fn met(
    context: *const c_void,
    filter: u32,
    slot: *const Slot,
) -> bool {
    // SAFETY: the context is alive and the slot is valid, as this function requires.
    let (inner, event) = unsafe { borrowed(context, slot) };
    enter(inner, |context| context.meets(filter as usize, event.slot, event.raw))
}

/// Returns the length in bytes of the last [`text_of`]. FFI leaf.
///
/// # Safety
/// `context` is `SharedContext::address` of a living context.
pub(in crate::script) unsafe extern "C" fn text_size(context: *const c_void) -> u32 {
    // SAFETY: `context` is the address of a living context, as this function requires.
    let inner = unsafe { &*context.cast::<ContextCell>() };
    enter(inner, |context| context.text.len() as u32)
}

/// Returns the context, and the event of a slot.
///
/// # Safety
/// As [`emit`].
#[inline(always)]
unsafe fn borrowed<'a>(
    context: *const c_void,
    slot: *const Slot,
) -> (&'a ContextCell, BorrowedEvent<'a>) {
    // SAFETY: the context is alive and the slot is valid, as this function requires; the record and
    // the chain of a slot live as long as it does.
    unsafe {
        let slot = &*slot;
        let (raw, chain) = (raw_of(slot), chain_of(slot));
        (&*context.cast::<ContextCell>(), BorrowedEvent { slot, raw, chain })
    }
}
