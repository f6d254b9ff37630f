//! Events that the history has: they are copied only when they are asked for, or are to be forgotten there while they are kept here.

use super::{NONE, Pending};
use crate::stat::history::{History, Position};

impl Pending {
    /// When what has been open longest was opened, nanoseconds of the run; infinite where nothing is.
    pub fn oldest_time(&self) -> f64 {
        self.slots.get(self.oldest as usize).map_or(f64::INFINITY, |slot| slot.time)
    }

    /// Copies the events that are kept here and stand in the history before `until`, where they will be forgotten.
    pub fn rescue(&mut self, history: &History, until: Position) {
        self.recall_closed(history, until);
        // They were opened in the order in which they stand there.
        while let Some(kept) = self.kept.get(self.fresh as usize) {
            if until <= kept.at && kept.at != Position::NONE {
                break;
            }
            self.recall_open(self.fresh, history);
            self.fresh = self.slots.get(self.fresh as usize).map_or(NONE, |slot| slot.newer);
        }
        self.evict_for_bytes(NONE);
    }

    /// Makes the event of what was closed one that can be read.
    pub fn recall(&mut self) {
        let past = self.kinship.as_ref().and_then(|kin| kin.owners.past()).cloned();
        past.iter().for_each(|past| self.recall_closed(&past.borrow(), Position::NONE));
    }

    /// The same of what is open.
    pub(super) fn recall_to_read(&mut self, index: u32) {
        let past = self.kinship.as_ref().and_then(|kin| kin.owners.past()).cloned();
        past.iter().for_each(|past| self.recall_open(index, &past.borrow()));
    }

    fn recall_closed(&mut self, history: &History, until: Position) {
        if self.closed_kept.at < until {
            self.closed_kept.recall(history);
            let ended = self.kinship.as_ref().map(|kin| &kin.ended);
            ended.iter().for_each(|place| place.whose.set(self.closed_kept.whose));
        }
    }

    fn recall_open(&mut self, index: u32, history: &History) {
        let Some(kept) = self.kept.get_mut(index as usize) else { return };
        if kept.at != Position::NONE {
            let before = kept.bytes();
            kept.recall(history);
            self.kept_bytes = self.kept_bytes.saturating_add(kept.bytes()).saturating_sub(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{frame::Space, slot::Slot};
    use crate::stat::kept::{Kept, Owners, Whose};
    use crate::stat::{leaf::Event, pending::Shape, word::Word};
    use std::rc::Rc;

    const SHAPE: Shape = Shape {
        values: 1,
        by_task: true,
        keep_lost: false,
        nested: false,
        keep_event: true,
        age: f64::INFINITY,
        bound: 1 << 20,
    };

    fn number(n: u32) -> Word {
        Word::number(f64::from(n))
    }

    #[test]
    fn an_event_that_the_history_has_is_kept_when_it_is_forgotten_there() {
        let owners = Rc::new(Owners::default());
        // Blocks of 256 bytes: three copies each, 48 in all. What is open is older than that.
        let past = owners.past_or(|| History::new(4096)).clone();
        let mut pending = Pending::new(SHAPE).asking(&owners);
        let (mut read, mut rescued) = (0, 0);
        for n in 0..1000u32 {
            let raw = n.to_ne_bytes();
            let slot = [Slot { tid: n, ..Slot::of(&raw) }];
            let event = Event { slot: &slot[0], raw: &raw, chain: &[] };
            let whose = Whose { space: Space(n), comm: [n as u8; 16] };
            {
                let mut history = past.borrow_mut();
                history.begin_batch(&slot);
                while !history.push(&event, &whose, false) {
                    let room = history.room(f64::NEG_INFINITY);
                    pending.rescue(&history, room);
                    history.turn(room);
                }
            }
            pending.open(Some(event), &[f64::from(n), 1.0, 0.0], 0);
            assert!(pending.kept.iter().any(|kept| kept.at != Position::NONE));
            // One is closed at once, one within the history, one long after, one only looked at, and one is closed and read later.
            let due = match n % 5 {
                0 => n,
                1 => n - 1 + u32::from(n < 5),
                2 => n.saturating_sub(200) / 5 * 5 + 2,
                3 => continue,
                _ => n.saturating_sub(100) / 5 * 5 + 4,
            };
            let looks = n % 5 == 1;
            if !looks && !pending.close(number(due), 2.0) || looks && !pending.get(number(due)) {
                continue;
            }
            pending.recall();
            let kept = match looks {
                true => pending.read_slot.as_ref(),
                false => &pending.closed_kept.slot,
            };
            assert_eq!((kept.tid, kept.raw_size), (due, 4));
            assert_eq!(owners.of(kept), Some(Whose { space: Space(due), comm: [due as u8; 16] }));
            (read, rescued) = (read + 1, rescued + u32::from(n > due + 48));
        }
        assert!(read > 500 && rescued > 300, "{read} read, {rescued} of them copied before");
        let held: usize = pending.kept.iter().map(Kept::bytes).sum();
        assert_eq!(held, pending.kept_bytes);
    }
}
