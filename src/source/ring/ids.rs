//! Maps the ID in a sample to the decoder of its event, at the cost of a load.
//!
//! The kernel numbers events consecutively, so those of a run are close together: a dense table
//! starts at the first ID. IDs outside of it (such as those of events opened much later) go to a
//! map.

use std::collections::HashMap;

/// Index of a decoder by event ID.
#[derive(Debug, Default)]
pub(in crate::source) struct Ids {
    base: u64,
    dense: Vec<u32>,
    far: HashMap<u64, u32>,
}

const NONE: u32 = u32::MAX;
/// Maximum number of entries of the dense table: 4 MiB.
const SPAN: u64 = 1 << 20;

impl Ids {
    /// Registers decoder `index` for event `id`.
    pub(in crate::source) fn insert(&mut self, id: u64, index: u32) {
        if self.dense.is_empty() {
            self.base = id;
        }
        match id.checked_sub(self.base) {
            Some(at) if at < SPAN => {
                let at = at as usize;
                if at >= self.dense.len() {
                    self.dense.resize(at + 1, NONE);
                }
                self.dense[at] = index;
            }
            _ => {
                self.far.insert(id, index);
            }
        }
    }

    /// Returns the decoder of `id`.
    #[inline]
    pub(in crate::source) fn get(&self, id: u64) -> Option<u32> {
        match self.dense.get(id.wrapping_sub(self.base) as usize) {
            Some(&index) if index != NONE => Some(index),
            _ => self.far.get(&id).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_far_and_lower_ids_are_found_and_unknown_ids_are_not() {
        let mut ids = Ids::default();
        for (id, index) in [(1000, 0), (1003, 1), (7, 2), (1000 + SPAN * 4, 3)] {
            ids.insert(id, index);
        }
        let found = [1000, 1003, 7, 1000 + SPAN * 4, 1001, 0, u64::MAX].map(|id| ids.get(id));
        assert_eq!(found, [Some(0), Some(1), Some(2), Some(3), None, None, None]);
    }
}
