//! Merges the records of many rings into one time order. Copies no record; corrects small backward
//! steps.
//!
//! # Contract
//!
//! Each ring is nearly sorted by time; there is no order across rings. The owner of the rings
//! offers the time of each ring's first unread record, and takes the earliest of them:
//!
//! ```text
//!   ring 0   [12] 17  21              offer(0, 12)      take(20) → ring 1, time 11
//!   ring 1   [11] 13  30              offer(1, 11)      offer(1, 13)
//!   ring 2    -- empty --             offer(2, …)  no   take(20) → ring 0, time 12
//!                                                       …
//!                       limit = 20    the 21 and the 30 stay in their rings
//! ```
//!
//! After each `take` the owner handles that record, moves on in that ring, and offers the time of
//! the next record, if there is one. A ring has at most one head here. A ring without a head counts
//! as empty: it has no record older than the limit.
//!
//! **The limit is a promise of the owner** that every record not later than it has been written.
//! The owner reads the clock first, subtracts a small slack, and then reads the position of every
//! ring. A record stamped before that clock reading is in its ring by then, so the heads are
//! complete up to the limit, even for rings that look empty. A later record stays in its ring until
//! a later pass. Limits must not decrease from one pass to the next.
//!
//! Records stay in their rings until they are taken. The merge keeps 16 bytes per ring, so the
//! rings themselves bound the memory of ordering.
//!
//! # Corrections
//!
//! Returned times never decrease. A record that is older than one already taken gets the time of
//! that one. This happens even with correct limits: an interrupt between stamping a record and
//! reserving its space puts younger records before it in its ring, and a record that another CPU is
//! still copying is not yet visible when its ring is read. Such steps are short, and are counted as
//! [`LateRecords::lifted`]. A step of more than [`STEP_NS`] has another cause: it is corrected,
//! too, but counted as [`LateRecords::disordered`].
//!
//! # Cost
//!
//! The earliest head is kept apart from a binary heap of the others. While one ring stays the
//! earliest, an offer is a single comparison with the top of that heap. Such runs are common: a CPU
//! writes many records before the next one is from another CPU. The owner may take a run without
//! offers ([`Order::run_end`], [`Order::pass`]).

/// Longest backward step, in nanoseconds, that counts as lifted: 1 ms. This is far longer than an
/// interrupt handler or a copy in flight, and far shorter than the steps of records in a wrong
/// order (without ordering, a task that changed its CPU went back by 170 ms).
pub const STEP_NS: u64 = 1_000_000;

/// Merges the heads of several rings by time.
#[derive(Clone, Debug)]
pub struct Order {
    /// The earliest head; `None` after it was taken, until the next offer.
    first: Option<Head>,
    /// The other heads: a heap with the earliest on top.
    others: Vec<Head>,
    /// Number of rings; at most this many heads are held.
    rings: usize,
    /// The last time returned.
    last: u64,
    step_ns: u64,
    counts: LateRecords,
}

/// A record to handle now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextRecord {
    /// The ring whose first unread record this is.
    pub ring: usize,
    /// Its corrected time, in the unit of the offers: nanoseconds of the event clock.
    pub time: u64,
}

/// Records that were older than one taken before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateRecords {
    /// Older by at most the bound.
    pub lifted: u64,
    /// Older by more.
    pub disordered: u64,
}

/// The first unread record of a ring. Heads compare by time, then by ring, so that the order is
/// deterministic.
#[derive(Clone, Copy, Debug)]
struct Head {
    time: u64,
    ring: u32,
}

impl Head {
    #[inline]
    fn is_before(self, other: Head) -> bool {
        let key = |head: Head| (u128::from(head.time) << 64) | u128::from(head.ring);
        key(self) < key(other)
    }
}

impl Order {
    /// Creates a merge of `rings` rings, numbered from 0.
    pub fn new(rings: usize) -> Order {
        Order::with_step(rings, STEP_NS)
    }

    /// Like [`Order::new`], with another bound for [`LateRecords::lifted`], in nanoseconds.
    pub fn with_step(rings: usize, step_ns: u64) -> Order {
        Order {
            first: None,
            others: Vec::with_capacity(rings),
            rings,
            last: 0,
            step_ns,
            counts: LateRecords::default(),
        }
    }

    /// Adds the time of a ring's first unread record. The ring must have no head here: it was never
    /// offered, or its head was taken.
    #[inline]
    pub fn offer(&mut self, ring: usize, time: u64) {
        debug_assert!(ring < self.rings, "ring {ring} of {}", self.rings);
        debug_assert!(self.len() < self.rings, "a ring has at most one head");
        let head = Head { time, ring: ring as u32 };
        match self.first {
            None => match self.others.first_mut() {
                Some(top) if top.is_before(head) => {
                    self.first = Some(std::mem::replace(top, head));
                    if self.others.len() > 1 {
                        self.sink();
                    }
                }
                _ => self.first = Some(head),
            },
            Some(first) if head.is_before(first) => {
                self.first = Some(head);
                self.push(first);
            }
            Some(_) => self.push(head),
        }
    }

    /// Takes the earliest head. Returns `None` if it is later than `limit`, or if there is no head.
    #[inline]
    pub fn take(&mut self, limit: u64) -> Option<NextRecord> {
        if self.first.is_none() {
            // The ring taken last has no further record: the earliest of the others moves up.
            self.first = self.pop();
        }
        let head = self.first.take_if(|head| head.time <= limit)?;
        if head.time < self.last {
            self.count(self.last - head.time);
        } else {
            self.last = head.time;
        }
        Some(NextRecord { ring: head.ring as usize, time: self.last })
    }

    /// Returns the time before which the ring that was taken last is the earliest: that of the
    /// earliest other head, or the end of time.
    #[inline]
    pub fn run_end(&self) -> u64 {
        self.others.first().map_or(u64::MAX, |head| head.time)
    }

    /// Takes a record without an offer: the next one of the ring that was taken last, at a time
    /// that is before [`Order::run_end`] and not before [`Order::last`].
    #[inline]
    pub fn pass(&mut self, time: u64) {
        debug_assert!(self.first.is_none() && (self.last..self.run_end()).contains(&time));
        self.last = time;
    }

    /// Returns the last time that [`Order::take`] returned.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns how many rings have a head.
    pub fn len(&self) -> usize {
        self.others.len() + usize::from(self.first.is_some())
    }

    /// Returns whether no ring has a head.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of corrections since the beginning.
    pub fn counts(&self) -> LateRecords {
        self.counts
    }

    #[cold]
    fn count(&mut self, step_ns: u64) {
        if step_ns <= self.step_ns {
            self.counts.lifted += 1;
        } else {
            self.counts.disordered += 1;
        }
    }

    /// Adds a head to the heap.
    fn push(&mut self, head: Head) {
        let mut at = self.others.len();
        self.others.push(head);
        while at > 0 {
            let parent = (at - 1) / 2;
            if !head.is_before(self.others[parent]) {
                break;
            }
            self.others.swap(at, parent);
            at = parent;
        }
    }

    /// Removes the top of the heap.
    fn pop(&mut self) -> Option<Head> {
        if self.others.is_empty() {
            return None;
        }
        let top = self.others.swap_remove(0);
        self.sink();
        Some(top)
    }

    /// Moves the top of the heap down to its place. Kept out of line so that `offer` stays small.
    #[inline(never)]
    fn sink(&mut self) {
        let heads = self.others.as_mut_slice();
        let Some(&head) = heads.first() else { return };
        let mut at = 0;
        loop {
            let left = 2 * at + 1;
            let child = match heads.get(left..left + 2) {
                // Which of the two is earlier is unpredictable, so the result is added, not
                // branched on.
                Some(pair) => left + usize::from(pair[1].is_before(pair[0])),
                None => left,
            };
            match heads.get(child) {
                Some(&next) if next.is_before(head) => heads[at] = next,
                _ => break,
            }
            at = child;
        }
        heads[at] = head;
    }
}

#[cfg(test)]
mod tests;
