//! Events that the history holds: copied only when they are read, or before the history evicts
//! them.

use super::{NONE, Pending};
use crate::stat::event_copy::CopyPosition;
use crate::stat::history::History;

impl Pending {
    /// Returns when the oldest open slot was opened, in nanoseconds of the run; infinity if none is
    /// open.
    pub fn oldest_time(&self) -> f64 {
        self.slots.get(self.oldest as usize).map_or(f64::INFINITY, |slot| slot.time)
    }

    /// Copies the kept events that stand in the history before `until`, where they will be evicted.
    pub fn rescue(&mut self, history: &History, until: CopyPosition) {
        self.recall_closed(history, until);
        // Slots were opened in the order of their positions in the history.
        while let Some(kept) = self.kept.get(self.fresh as usize) {
            if until <= kept.at && kept.at != CopyPosition::NONE {
                break;
            }
            self.recall_open(self.fresh, history);
            self.fresh = self.slots.get(self.fresh as usize).map_or(NONE, |slot| slot.newer);
        }
        self.evict_for_bytes(NONE);
    }

    /// Makes the event of the closed slot readable.
    pub fn recall(&mut self) {
        let past = self.owner_lookup.as_ref().and_then(|lookup| lookup.past()).cloned();
        past.iter().for_each(|past| self.recall_closed(&past.borrow(), CopyPosition::NONE));
    }

    /// Makes the event of an open slot readable.
    pub(super) fn recall_to_read(&mut self, index: u32) {
        let past = self.owner_lookup.as_ref().and_then(|lookup| lookup.past()).cloned();
        past.iter().for_each(|past| self.recall_open(index, &past.borrow()));
    }

    fn recall_closed(&mut self, history: &History, until: CopyPosition) {
        if self.closed_kept.at < until {
            history.recall(&mut self.closed_kept);
            let ended = self.owner_lookup.as_ref().map(|lookup| &lookup.ended);
            ended.iter().for_each(|place| place.owner.set(self.closed_kept.owner));
        }
    }

    fn recall_open(&mut self, index: u32, history: &History) {
        let Some(kept) = self.kept.get_mut(index as usize) else { return };
        if kept.at != CopyPosition::NONE {
            let before = kept.bytes();
            history.recall(kept);
            self.kept_bytes = self.kept_bytes.saturating_add(kept.bytes()).saturating_sub(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{event::slot::Slot, report::frame::Space};
    use crate::stat::event_copy::{EventCopy, EventOwner};
    use crate::stat::leaf::BorrowedEvent;
    use crate::stat::{owners::Owners, pending::PendingOptions, word::Word};
    use std::rc::Rc;

    const SHAPE: PendingOptions = PendingOptions {
        values: 1,
        by_task: true,
        keep_lost: false,
        nested: false,
        uretprobes: false,
        keep_event: true,
        age: f64::INFINITY,
        bound: 1 << 20,
    };

    fn number(n: u32) -> Word {
        Word::number(f64::from(n))
    }

    #[test]
    fn an_event_is_copied_before_the_history_evicts_it() {
        let owners = Rc::new(Owners::default());
        // Blocks of 256 bytes hold three copies each, 48 in all. Open slots are older than that.
        let past = owners.past_or_begin(4096).clone();
        let mut pending = Pending::new(SHAPE).with_owners(&owners);
        let (mut read, mut rescued) = (0, 0);
        for n in 0..1000u32 {
            let raw = n.to_ne_bytes();
            let slot = [Slot { tid: n, ..Slot::of(&raw) }];
            let event = BorrowedEvent { slot: &slot[0], raw: &raw, chain: &[] };
            let owner = EventOwner { space: Space(n), comm: [n as u8; 16] };
            {
                let mut history = past.borrow_mut();
                history.begin_batch(&slot);
                while !history.push(&event, &owner, false) {
                    let room = history.room(f64::NEG_INFINITY);
                    pending.rescue(&history, room);
                    history.turn(room);
                }
            }
            pending.open(Some(event), &[f64::from(n), 1.0, 0.0], 0);
            assert!(pending.kept.iter().any(|kept| kept.at != CopyPosition::NONE));
            // By `n % 5`: 0 closes its own slot, 1 reads the previous one, 2 and 4 close a slot
            // that was opened 200 and 100 events ago, 3 does nothing.
            let due = match n % 5 {
                0 => n,
                1 => n - 1 + u32::from(n < 5),
                2 => n.saturating_sub(200) / 5 * 5 + 2,
                3 => continue,
                _ => n.saturating_sub(100) / 5 * 5 + 4,
            };
            let reads = n % 5 == 1;
            if !reads && !pending.close(number(due), 2.0) || reads && !pending.get(number(due)) {
                continue;
            }
            pending.recall();
            let kept = match reads {
                true => pending.read_slot.as_ref(),
                false => &pending.closed_kept.slot,
            };
            assert_eq!((kept.tid, kept.raw_size), (due, 4));
            assert_eq!(
                owners.of(kept),
                Some(EventOwner { space: Space(due), comm: [due as u8; 16] })
            );
            (read, rescued) = (read + 1, rescued + u32::from(n > due + 48));
        }
        assert!(read > 500 && rescued > 300, "{read} read, {rescued} of them copied before");
        let held: usize = pending.kept.iter().map(EventCopy::bytes).sum();
        assert_eq!(held, pending.kept_bytes);
    }
}
