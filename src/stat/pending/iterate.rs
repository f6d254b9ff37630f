//! Visits of the open slots in the order in which they were opened, so that they print in time
//! order.

use super::Pending;

/// The slots that were open when the visit began, oldest first, each with its use count then.
#[derive(Default)]
pub(super) struct SlotWalk(Vec<(u32, u32)>);

impl Pending {
    /// Reads the slot at `place` of a visit, or the first later one that is still open. Returns the
    /// place after it, or 0 if there is none. Place 0 begins a visit.
    ///
    /// Slots may be opened and closed between two calls; a slot that stays open throughout is
    /// visited once.
    pub fn next(&mut self, place: u32) -> u32 {
        if place == 0 {
            self.begin_walk();
        }
        let is_open = |&(index, generation): &(u32, u32)| {
            let slot = self.slots.get(index as usize);
            slot.is_some_and(|slot| slot.open && slot.generation == generation)
        };
        let mut rest = self.walk.0.iter().enumerate().skip(place as usize);
        let Some((at, &(index, _))) = rest.find(|(_, visit)| is_open(visit)) else { return 0 };
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
