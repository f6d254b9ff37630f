//! Visiting the open slots in the order in which they were opened: for whoever prints them, that is the order of time.

use super::Pending;

/// The slots that were open when the visit began, oldest first, each with its count of uses then.
#[derive(Default)]
pub(super) struct Walk(Vec<(u32, u32)>);

impl Pending {
    /// Reads the slot at `place` of a visit, or the first behind it that is still open; returns the place after it, or 0 when there
    /// is none. Place 0 begins a visit.
    ///
    /// Slots may be opened and closed between two calls: one that stays open throughout is seen once.
    pub fn next(&mut self, place: u32) -> u32 {
        if place == 0 {
            self.begin_walk();
        }
        let is_open = |&(index, generation): &(u32, u32)| {
            let slot = self.slots.get(index as usize);
            slot.is_some_and(|slot| slot.open && slot.generation == generation)
        };
        let mut rest = self.walk.0.iter().enumerate().skip(place as usize);
        let Some((at, &(index, _))) = rest.find(|(_, seen)| is_open(seen)) else { return 0 };
        if self.read_at(index) { at as u32 + 1 } else { 0 }
    }

    fn begin_walk(&mut self) {
        self.walk.0.clear();
        let mut index = self.oldest;
        while let Some(slot) = self.slots.get(index as usize) {
            self.walk.0.push((index, slot.generation));
            index = slot.newer;
        }
    }
}
