//! A slot as the table keeps it, and as Lua reads it.

use super::{NONE, VALUES};
use crate::{
    base::slot::Slot,
    stat::{strings::Marks, word::Word},
};

/// A slot's content as Lua reads it; `script/prelude/pending.lua` declares the same struct.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// When it was opened, in nanoseconds since the run began.
    pub time: f64,
    /// How long it was open, once closed.
    pub delay: f64,
    /// The key: a number, or the id of a string when bit 0 of `kinds` is set.
    pub key: f64,
    /// The values: numbers, ids of strings (bit 1 + i of `kinds`), or 0 and 1 as booleans (bit 9 + i).
    pub values: [f64; VALUES],
    /// What the doubles above are.
    pub kinds: u32,
    /// The slot that this was read from, to write to it.
    pub index: u32,
    /// The slot's count of uses when it was read.
    pub generation: u32,
    /// Whether events were lost since it was opened, so that its end may be among them: 1 or 0.
    pub unsure: u32,
    /// The copy of the event, or null.
    pub event: *const Slot,
}

impl State {
    pub(in crate::stat) const EMPTY: State = State {
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

/// One slot, open or free; its values stand elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Open {
    pub(super) time: f64,
    pub(super) key: Word,
    pub(super) kinds: u32,
    pub(super) generation: u32,
    /// The slot opened just before, or [`NONE`].
    pub(super) older: u32,
    /// The slot opened just after; of a free slot, the next free one.
    pub(super) newer: u32,
    /// Of a stack, the slot that this one is inside of, or [`NONE`].
    pub(super) below: u32,
    /// How many slots it is inside of, and how many that found no room were opened inside of it.
    pub(super) depth: u16,
    pub(super) deeper: u16,
    pub(super) open: bool,
}

/// Whether the slot at `index` has this key.
#[inline]
pub(super) fn is_at(slots: &[Open], index: u32, key: Word) -> bool {
    slots.get(index as usize).is_some_and(|slot| slot.key == key)
}

/// Marks the strings among the values of a slot, and its numbers.
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
