//! The copy of an event that outlives its record.
//!
//! Each slot of the table owns its two vectors and uses them again, so a copy allocates only when a record is
//! longer than any before it in that slot.

use crate::{base::slot::Slot, stat::leaf::Event};

/// The copy of an event; the slot points into the two vectors.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) slot: Slot,
    pub(super) raw: Vec<u8>,
    pub(super) chain: Vec<u64>,
}

impl Kept {
    pub(super) const fn new() -> Kept {
        Kept { slot: Slot::EMPTY, raw: Vec::new(), chain: Vec::new() }
    }

    pub(super) fn copy(&mut self, event: Event<'_>) {
        self.raw.clear();
        self.raw.extend_from_slice(event.raw);
        self.chain.clear();
        self.chain.extend_from_slice(event.chain);
        self.slot = Slot {
            raw: if event.raw.is_empty() { std::ptr::null() } else { self.raw.as_ptr() },
            chain: if event.chain.is_empty() { std::ptr::null() } else { self.chain.as_ptr() },
            ..*event.slot
        };
    }

    /// Bytes held beside the struct itself.
    pub(super) fn bytes(&self) -> usize {
        self.raw.capacity() + self.chain.capacity() * size_of::<u64>()
    }
}
