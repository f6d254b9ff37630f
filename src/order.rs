//! One time order out of many rings: a merge of their heads that copies nothing and mends small steps back.
//!
//! # Contract
//!
//! Each ring is nearly sorted by time; across rings nothing is. The owner of the rings offers the time
//! of each ring's first unread record, and takes the earliest of them:
//!
//! ```text
//!   ring 0   [12] 17  21              offer(0, 12)      take(20) → ring 1, time 11
//!   ring 1   [11] 13  30              offer(1, 11)      offer(1, 13)
//!   ring 2    -- empty --             offer(2, …)  no   take(20) → ring 0, time 12
//!                                                       …
//!                       limit = 20    the 21 and the 30 stay in their rings
//! ```
//!
//! After each `take` the owner handles that record, moves on in that ring and offers the time of the next
//! one, if there is one. A ring has at most one head here. A ring without a head is empty, which is to
//! say: nothing in it is older than the limit.
//!
//! **The limit is the owner's promise** that whatever is not later has been written: it reads the clock
//! first, less a small slack, and then the position of every ring. A record that was stamped before
//! that clock reading lies in its ring by then, so the heads are complete up to the limit, also of
//! rings that look empty. A record later than the limit stays where it is until a later pass. Limits
//! must not fall from one pass to the next.
//!
//! Records stay in their rings until they are taken; here are 16 bytes for each ring, so the rings
//! themselves bound the memory of ordering.
//!
//! # Mending
//!
//! Times that come out never fall. A record that is older than one already taken is lifted to the time
//! of that one. This happens even with right limits: an interrupt between stamping a record and reserving its
//! place puts younger records before it in its ring, and a record that another CPU is still copying is not
//! there yet when its ring is looked at. Such steps are short, and are counted as [`Counts::lifted`]. A step
//! of more than [`STEP_NS`] has no such excuse: it is mended all the same, and counted as
//! [`Counts::disordered`].
//!
//! # Cost
//!
//! The earliest head stands apart from a binary heap of the others. While one ring stays the earliest
//! (runs are common: a CPU writes many records before another one's turn comes), an offer is a single
//! comparison with the top of that heap.

/// The longest step back, in nanoseconds, that counts as lifted: 1 ms, far beyond an interrupt handler
/// or a copy in flight, and far below what a missing order would show (a task that changes its CPU was
/// seen to go back by 170 ms without any).
pub const STEP_NS: u64 = 1_000_000;

/// Merges the heads of several rings by time.
#[derive(Clone, Debug)]
pub struct Order {
    /// The earliest head; None after it was taken, until the next offer fills its place.
    first: Option<Head>,
    /// The other heads, a heap with the earliest on top.
    others: Vec<Head>,
    /// Heads that may be offered at a time.
    rings: usize,
    /// The time that came out last.
    last: u64,
    step_ns: u64,
    counts: Counts,
}

/// A record to handle now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The ring whose first unread record it is.
    pub ring: usize,
    /// Its time, mended, in the unit of the offers: nanoseconds of the event clock.
    pub time: u64,
}

/// Records that were older than one taken before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By no more than the bound.
    pub lifted: u64,
    /// By more.
    pub disordered: u64,
}

/// The first unread record of a ring. Heads compare by time, and by ring where the times are equal, so
/// that the order is the same every time.
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
    /// For that many rings, numbered from 0.
    pub fn new(rings: usize) -> Order {
        Order::with_step(rings, STEP_NS)
    }

    /// The same with another bound for [`Counts::lifted`], nanoseconds.
    pub fn with_step(rings: usize, step_ns: u64) -> Order {
        Order {
            first: None,
            others: Vec::with_capacity(rings),
            rings,
            last: 0,
            step_ns,
            counts: Counts::default(),
        }
    }

    /// Says when the first unread record of a ring was written. The ring must have no head here: it was
    /// never offered, or its head was taken.
    #[inline]
    pub fn offer(&mut self, ring: usize, time: u64) {
        debug_assert!(ring < self.rings, "ring {ring} of {}", self.rings);
        debug_assert!(self.len() < self.rings, "a ring offered two heads");
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

    /// Takes the earliest head unless it is later than `limit`; None then, or when there is no head.
    #[inline]
    pub fn take(&mut self, limit: u64) -> Option<Next> {
        if self.first.is_none() {
            // The ring that was taken last has nothing more: the earliest of the others moves up.
            self.first = self.pop();
        }
        let head = self.first.take_if(|head| head.time <= limit)?;
        if head.time < self.last {
            self.count(self.last - head.time);
        } else {
            self.last = head.time;
        }
        Some(Next { ring: head.ring as usize, time: self.last })
    }

    /// The time that came out last.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// How many rings have a head here.
    pub fn len(&self) -> usize {
        self.others.len() + usize::from(self.first.is_some())
    }

    /// Whether no ring has a head here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was mended since the beginning.
    pub fn counts(&self) -> Counts {
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

    /// Moves the top of the heap down to where it belongs. Out of line, so that `offer` stays small.
    #[inline(never)]
    fn sink(&mut self) {
        let heads = self.others.as_mut_slice();
        let Some(&head) = heads.first() else { return };
        let mut at = 0;
        loop {
            let left = 2 * at + 1;
            let child = match heads.get(left..left + 2) {
                // Which of the two is as good as random, so it is added rather than branched on.
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
