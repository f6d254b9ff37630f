//! The record and the call chain of a slot: the one place where its addresses become references.

use super::RunContext;
use crate::base::event::slot::Slot;
use crate::source::Batch;
use crate::stat::history::History;
use crate::stat::leaf::BorrowedEvent;

/// Returns the raw record of a slot.
///
/// # Safety
/// The slot's pointers and sizes are valid.
pub(in crate::script) unsafe fn raw_of<'a>(slot: &Slot) -> &'a [u8] {
    if slot.raw.is_null() {
        return &[];
    }
    // SAFETY: `raw` points to `raw_size` bytes, as this function requires.
    unsafe { std::slice::from_raw_parts(slot.raw, slot.raw_size as usize) }
}

/// Returns the call chain of a slot.
///
/// # Safety
/// As [`raw_of`].
pub(in crate::script) unsafe fn chain_of<'a>(slot: &Slot) -> &'a [u64] {
    if slot.chain.is_null() {
        return &[];
    }
    // SAFETY: `chain` points to `chain_len` entries; records are 8-byte aligned in the ring.
    unsafe { std::slice::from_raw_parts(slot.chain, slot.chain_len as usize) }
}

/// Returns the slot at an address that trusted Lua passes as a number, with its record and chain.
///
/// # Safety
/// It is the slot under the cursor or one that a pending state keeps, and its handler runs.
pub(in crate::script) unsafe fn slot_at<'a>(address: f64) -> (&'a Slot, &'a [u8], &'a [u64]) {
    // SAFETY: `address` is that of a slot, as this function requires.
    let slot: &Slot = unsafe { &*(address as usize as *const Slot) };
    // SAFETY: the record and the chain of a slot live as long as its handler runs.
    unsafe { (slot, raw_of(slot), chain_of(slot)) }
}

/// Copies a batch into the history, from a slot on. Returns the first slot that has no room before
/// a turn, or the batch's length.
pub(in crate::script) fn remember(
    context: &RunContext,
    batch: &Batch,
    from: usize,
    history: &mut History,
) -> usize {
    let mut before = from.checked_sub(1).map_or(&Slot::EMPTY, |at| &batch.slots()[at]);
    for (at, slot) in batch.slots().iter().enumerate().skip(from) {
        // SAFETY: the batch is about to be dispatched: what its slots point to is good until then.
        let (raw, chain) = unsafe { (raw_of(slot), chain_of(slot)) };
        let event = BorrowedEvent { slot, raw, chain };
        let again = (before.raw, before.cpu) == (slot.raw, slot.cpu)
            && before.time == slot.time
            && context.are_of_one_event(before, slot);
        if !history.push(&event, &context.owner_of_event(&event), again) {
            return at;
        }
        before = slot;
    }
    batch.len()
}
