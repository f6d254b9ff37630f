//! A slot as the table stores it, and as Lua reads it.

use super::{NONE, VALUES};
use crate::{
    base::event::slot::Slot,
    stat::{strings::Marks, word::Word},
};

/// A slot's content as Lua reads it; `script/prelude/pending.lua` declares the same struct.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PendingState {
    /// Time at which it was opened, in nanoseconds since the run began.
    pub time: f64,
    /// Nanoseconds for which it was open, once closed.
    pub delay: f64,
    /// The key: a number, or the id of a string if bit 0 of `kinds` is set.
    pub key: f64,
    /// The values: numbers, ids of strings (bit 1 + i of `kinds`), or 0 and 1 as booleans (bit
    /// 9 + i).
    pub values: [f64; VALUES],
    /// Types of the doubles above.
    pub kinds: u32,
    /// Index of the slot that this was read from; needed to write to it.
    pub index: u32,
    /// The slot's use count when it was read.
    pub generation: u32,
    /// 1 if events were lost since it was opened, so that its end may be among them; otherwise 0.
    pub unsure: u32,
    /// The copy of the event, or null.
    pub event: *const Slot,
}

impl PendingState {
    pub(in crate::stat) const EMPTY: PendingState = PendingState {
        time: 0.0,
        delay: 0.0,
        key: 0.0,
        values: [0.0; VALUES],
        kinds: 0,
        index: NONE,
        generation: 0,
        unsure: 0,
        event: std::ptr::null(),
    };
}

/// One slot, open or free; its values are stored separately.
#[derive(Clone, Copy)]
pub(super) struct PendingSlot {
    pub(super) time: f64,
    pub(super) key: Word,
    pub(super) kinds: u32,
    pub(super) generation: u32,
    /// The slot opened just before, or [`NONE`].
    pub(super) older: u32,
    /// The slot opened just after; for a free slot, the next free one.
    pub(super) newer: u32,
    /// In a stack, the slot that contains this one, or [`NONE`].
    pub(super) below: u32,
    /// Number of slots that contain this one.
    pub(super) depth: u16,
    /// Number of calls inside this one that exceeded the maximum depth.
    pub(super) deeper: u16,
    pub(super) open: bool,
}

/// Returns whether the slot at `index` has this key.
#[inline]
pub(super) fn is_at(slots: &[PendingSlot], index: u32, key: Word) -> bool {
    slots.get(index as usize).is_some_and(|slot| slot.key == key)
}

/// Marks the strings and the numbers among the values of a slot.
pub(super) fn mark_values<'a>(
    values: impl Iterator<Item = &'a f64>,
    kinds: u32,
    marks: &mut Marks,
) {
    for (i, value) in values.enumerate() {
        if kinds >> (1 + i) & 1 != 0 {
            marks.mark(*value as u32);
        } else {
            marks.mark_number(*value);
        }
    }
}
