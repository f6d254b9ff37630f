//! Counts of the events of a group since the sample before.
//!
//! The samples of a group's leader have the totals of its events (`PERF_SAMPLE_READ` with
//! `PERF_FORMAT_GROUP`, `perf_output_read_group()` in kernel/events/core.c). Each event of a CPU or
//! task has an ID. A task's events are inherited by its children under the same ID, with totals of
//! each thread, so the thread belongs to the key.
//!
//! If a thread other than the first one of its process executes a program, it gets the number of
//! the first one, which has ended; its totals go on. No record has its old number: it is the one
//! thread of the process whose end was not recorded. A run that does not order its records may
//! handle its samples before the end of the first thread; they then have too many counts.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use crate::decode::cursor::Words;
use crate::decode::sample::Sample;

/// Maximum number of threads and CPUs whose totals are kept: 16 MiB with ten events.
const KNOWN_MAX: usize = 1 << 18;

/// The totals of the last samples of one leader's events.
pub(in crate::source) struct GroupCounts {
    /// Number of events in the group.
    width: usize,
    /// Whether the events are inherited.
    by_thread: bool,
    /// Whether scripts read the totals, too.
    with_totals: bool,
    last: RefCell<LastTotals>,
}

#[derive(Default)]
struct LastTotals {
    /// By event ID and thread.
    known: HashMap<(u64, u32), Known>,
    totals: Vec<u64>,
    /// Processes whose first thread has ended, with the time of its EXIT record.
    without_first: HashMap<u32, u64>,
    /// Positions of ended threads.
    free: Vec<usize>,
    /// Threads that have ended since the last drain, and before it.
    ended: [Vec<u32>; 2],
    /// The counts and the totals of the current sample.
    words: Vec<[u8; 8]>,
}

/// The totals of an event and thread.
struct Known {
    /// Position in [`LastTotals::totals`].
    at: usize,
    pid: u32,
}

impl GroupCounts {
    /// Returns the counts of a group with `width` events.
    pub(in crate::source) fn new(width: usize, by_thread: bool, with_totals: bool) -> GroupCounts {
        GroupCounts { width, by_thread, with_totals, last: RefCell::default() }
    }

    /// Calls `then` with the counts since the sample before of the same event and thread, and the
    /// totals if scripts read them. Returns None if the sample has another number of counts, or too
    /// many threads are known.
    pub(in crate::source) fn with<R>(
        &self,
        sample: &Sample<'_>,
        then: impl FnOnce(Words<'_>, Words<'_>) -> R,
    ) -> Option<R> {
        if sample.read.counts().count() != self.width {
            return None;
        }
        let mut last = self.last.borrow_mut();
        let (pid, tid) = if self.by_thread { (sample.pid, sample.tid) } else { (0, 0) };
        if pid == tid && last.is_renumbered(pid, sample.time) {
            last.renumber(pid);
        }
        let at = last.position((sample.id, tid), pid, self.width)?;
        let LastTotals { totals, words, .. } = &mut *last;
        words.clear();
        let known = totals.get_mut(at..at + self.width)?;
        for (before, now) in known.iter_mut().zip(sample.read.counts()) {
            // A total decreases only if its thread's number was used again.
            let added = now.value.checked_sub(*before).unwrap_or(now.value);
            words.push(added.to_ne_bytes());
            *before = now.value;
        }
        if self.with_totals {
            words.extend(known.iter().map(|total| total.to_ne_bytes()));
        }
        let (counts, totals) = words.split_at_checked(self.width)?;
        Some(then(Words::new(counts.as_flattened()), Words::new(totals.as_flattened())))
    }

    /// Takes the totals of a sample that nothing takes: the next one must not have its counts.
    pub(in crate::source) fn pass(&self, sample: &Sample<'_>) {
        self.with(sample, |_, _| ());
    }

    /// Remembers that a thread ended at `time`. Rings may still hold samples of it.
    pub(in crate::source) fn end(&self, pid: u32, tid: u32, time: u64) {
        if !self.by_thread {
            return;
        }
        let mut last = self.last.borrow_mut();
        last.ended[0].push(tid);
        if pid == tid {
            last.without_first.insert(pid, time);
        }
    }

    /// Forgets the threads that had ended before the last call: the rings have been read since.
    pub(in crate::source) fn forget_ended(&self) {
        if self.by_thread {
            self.last.borrow_mut().forget_ended();
        }
    }
}

impl LastTotals {
    fn position(&mut self, key: (u64, u32), pid: u32, width: usize) -> Option<usize> {
        if let Some(known) = self.known.get(&key) {
            return Some(known.at);
        }
        if self.known.len() == KNOWN_MAX {
            return None;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            let end = self.totals.len();
            self.totals.resize(end + width, 0);
            end
        });
        self.totals.get_mut(at..at + width)?.fill(0);
        self.known.insert(key, Known { at, pid });
        Some(at)
    }

    /// Returns whether a sample at `time` with the number of a first thread that has ended is of
    /// another one.
    fn is_renumbered(&self, pid: u32, time: u64) -> bool {
        !self.without_first.is_empty()
            && self.without_first.get(&pid).is_some_and(|ended| time > *ended)
    }

    /// Gives the only thread of a process that has not ended the number of the first one.
    fn renumber(&mut self, pid: u32) {
        self.without_first.remove(&pid);
        self.ended.iter_mut().for_each(|ended| ended.retain(|tid| *tid != pid));
        let has_ended = |tid: &u32| self.ended.iter().any(|ended| ended.contains(tid));
        let (mut left, mut of_first) = (Vec::new(), Vec::new());
        for (key, _) in self.known.iter().filter(|(_, known)| known.pid == pid) {
            match key.1 == pid {
                true => of_first.push(*key),
                false if !has_ended(&key.1) => left.push(*key),
                false => {}
            }
        }
        self.free.extend(of_first.iter().filter_map(|key| self.known.remove(key)).map(|k| k.at));
        if left.iter().all(|key| key.1 == left[0].1) {
            for (id, tid) in left {
                let known = self.known.remove(&(id, tid));
                self.known.extend(known.map(|known| ((id, pid), known)));
            }
        }
    }

    fn forget_ended(&mut self) {
        let [now, before] = &mut self.ended;
        if !before.is_empty() {
            before.sort_unstable();
            let free = &mut self.free;
            let mut living = HashSet::new();
            self.known.retain(|(_, tid), known| {
                let is_kept = before.binary_search(tid).is_err();
                if !is_kept {
                    free.push(known.at);
                } else if self.without_first.contains_key(&known.pid) {
                    living.insert(known.pid);
                }
                is_kept
            });
            self.without_first.retain(|pid, _| living.contains(pid));
            before.clear();
        }
        std::mem::swap(now, before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::record_attrs::RecordAttrs;
    use crate::decode::sample::RecordLayout;
    use perf_event_open_sys::bindings as abi;

    const PID: u32 = 1;
    const TIME: u64 = 5;

    /// Returns the bytes of a sample of an event and thread with these totals, as the kernel writes
    /// them: IDENTIFIER, TID, TIME, READ with nr and (value, id, lost) of each event.
    fn bytes(id: u64, tid: u32, totals: &[u64]) -> Vec<u8> {
        let head = [id, u64::from(tid) << 32 | u64::from(PID), TIME, totals.len() as u64];
        let each = totals.iter().enumerate().flat_map(|(at, total)| [*total, id + at as u64, 0]);
        head.into_iter().chain(each).flat_map(u64::to_ne_bytes).collect()
    }

    fn layout() -> RecordLayout {
        let kinds = abi::PERF_SAMPLE_IDENTIFIER
            | abi::PERF_SAMPLE_TID
            | abi::PERF_SAMPLE_TIME
            | abi::PERF_SAMPLE_READ;
        let read = abi::PERF_FORMAT_GROUP | abi::PERF_FORMAT_ID | abi::PERF_FORMAT_LOST;
        RecordLayout::new(RecordAttrs {
            sample_type: kinds.into(),
            read_format: read.into(),
            ..RecordAttrs::default()
        })
    }

    /// Returns the counts and totals that scripts see.
    fn seen(counts: &GroupCounts, id: u64, tid: u32, totals: &[u64]) -> Option<[Vec<u64>; 2]> {
        let bytes = bytes(id, tid, totals);
        let layout = layout();
        let sample = layout.sample(&bytes).unwrap();
        counts.with(&sample, |counts, totals| [counts, totals].map(|words| words.iter().collect()))
    }

    #[test]
    fn counts_are_the_difference_to_the_sample_before_of_the_same_event() {
        let counts = GroupCounts::new(2, false, true);
        let of = |id, tid, totals: &[u64]| seen(&counts, id, tid, totals).unwrap();
        assert_eq!(of(7, 1, &[100, 3]), [[100, 3], [100, 3]]);
        assert_eq!(of(7, 2, &[200, 8]), [[100, 5], [200, 8]], "of a CPU, whatever the thread");
        assert_eq!(of(9, 1, &[50, 1]), [[50, 1], [50, 1]], "of another CPU");
        assert_eq!(of(7, 1, &[300, 8]), [[100, 0], [300, 8]]);
        assert_eq!(seen(&counts, 7, 1, &[1, 2, 3]), None, "another number of events");
    }

    #[test]
    fn inherited_events_have_counts_of_each_thread_until_it_has_ended() {
        let counts = GroupCounts::new(1, true, false);
        let of = |tid, total| seen(&counts, 7, tid, &[total]).unwrap()[0][0];
        assert_eq!([of(1, 10), of(2, 4), of(1, 15), of(2, 5)], [10, 4, 5, 1]);
        counts.end(PID, 2, TIME - 1);
        counts.forget_ended();
        assert_eq!(of(2, 6), 1, "from a ring that was read later");
        counts.forget_ended();
        assert_eq!([of(1, 16), of(2, 3)], [1, 3], "a new thread of that number");
        assert_eq!(counts.last.borrow().totals.len(), 2, "in the place of the ended one");
        assert!(seen(&counts, 7, 1, &[16]).unwrap()[1].is_empty(), "no totals");
    }

    #[test]
    fn samples_of_a_first_thread_that_are_read_after_its_end_have_its_counts() {
        let counts = GroupCounts::new(1, true, false);
        let of = |total| seen(&counts, 7, PID, &[total]).unwrap()[0][0];
        assert_eq!(of(100), 100);
        counts.end(PID, PID, TIME + 1);
        assert_eq!(of(110), 10, "from a ring that was read later");
        [(); 2].iter().for_each(|()| counts.forget_ended());
        assert!(counts.last.borrow().known.is_empty());
    }
    #[test]
    fn the_counts_of_a_thread_go_on_when_it_executes_a_program_as_another_one() {
        let counts = GroupCounts::new(1, true, false);
        let of = |id, tid, total| seen(&counts, id, tid, &[total]).unwrap()[0][0];
        let before = [of(7, PID, 100), of(7, 2, 30), of(8, 2, 5), of(7, 3, 50)];
        assert_eq!(before, [100, 30, 5, 50]);
        counts.end(PID, 3, TIME - 1);
        counts.end(PID, PID, TIME - 1);
        // Thread 2 is PID from here on.
        assert_eq!([of(7, PID, 31), of(8, PID, 9)], [1, 4]);
        counts.forget_ended();
        counts.forget_ended();
        assert_eq!(of(7, PID, 33), 2, "it has not ended");
        counts.end(PID, PID, TIME - 1);
        assert_eq!(of(7, PID, 4), 4, "another process of that number");
        let totals = counts.last.borrow().known.len();
        assert_eq!(totals, 1, "the others are forgotten");
    }

    #[test]
    fn processes_without_their_first_thread_are_forgotten_with_their_last_one() {
        let counts = GroupCounts::new(1, true, false);
        seen(&counts, 7, 2, &[1]).unwrap();
        counts.end(PID, PID, TIME - 1);
        [(); 3].iter().for_each(|()| counts.forget_ended());
        assert!(counts.last.borrow().without_first.contains_key(&PID));
        counts.end(PID, 2, TIME - 1);
        [(); 2].iter().for_each(|()| counts.forget_ended());
        assert!(counts.last.borrow().without_first.is_empty());
    }
}
