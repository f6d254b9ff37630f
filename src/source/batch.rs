//! A batch: slots of many events, and the runs (of one role each) in which drivers walk them.

use super::chain_memory::ChainMemory;
use crate::base::event::slot::{BATCH, Slot};

/// Slots and the order to walk them in. Its memory never moves: Lua holds its addresses.
pub struct Batch {
    slots: Box<[Slot; BATCH]>,
    order: Box<[u16; BATCH]>,
    kinds: Box<[u16; BATCH]>,
    starts: Box<[u16; BATCH + 1]>,
    /// Weight of each slot, in a run whose records are weighed.
    weights: Box<[u32; BATCH]>,
    counts: Vec<u16>,
    len: usize,
    /// Slots that it accepts; fewer if there is no room for more chains.
    limit: usize,
    chains: ChainMemory,
}

/// Addresses of a batch's arrays, for a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The slots.
    pub slots: *const Slot,
    /// Indices of slots, in walking order.
    pub order: *const u16,
    /// Role of each run.
    pub kinds: *const u16,
    /// First position in `order` of each run, and one past the last run.
    pub starts: *const u16,
    /// Weight of each slot.
    pub weights: *const u32,
}

impl Batch {
    /// Returns an empty batch for events of `roles` roles.
    pub fn new(roles: usize) -> Self {
        Batch {
            slots: boxed(Slot::EMPTY),
            order: boxed(0),
            kinds: boxed(0),
            starts: boxed(0),
            weights: boxed(1),
            counts: vec![0; roles],
            len: 0,
            limit: BATCH,
            chains: ChainMemory::default(),
        }
    }

    /// Raises the number of roles to `roles`.
    pub fn set_roles(&mut self, roles: usize) {
        self.counts.resize(roles.max(self.counts.len()), 0);
    }

    /// Returns the addresses of its arrays.
    pub fn addresses(&self) -> Addresses {
        Addresses {
            slots: self.slots.as_ptr(),
            order: self.order.as_ptr(),
            kinds: self.kinds.as_ptr(),
            starts: self.starts.as_ptr(),
            weights: self.weights.as_ptr(),
        }
    }

    /// Returns the number of filled slots.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no slot is filled.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether the next record must wait for the next batch. `room` is the number of slots
    /// that one record may need.
    #[inline]
    pub fn is_full(&self, room: usize) -> bool {
        self.len + room > self.limit
    }

    /// Adds a slot. Returns false and drops the slot if the batch is full; callers check
    /// [`Batch::is_full`] first.
    #[inline]
    pub fn push(&mut self, slot: Slot) -> bool {
        match self.slots.get_mut(self.len) {
            Some(place) => {
                *place = slot;
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// Returns the place of the next slot, to be written in place and added by
    /// [`Batch::add_written`], and the storage of its chain and record; None if there is none.
    #[inline]
    pub(in crate::source) fn place(&mut self) -> Option<(&mut Slot, &mut ChainMemory)> {
        self.slots.get_mut(self.len).map(|place| (place, &mut self.chains))
    }

    /// Adds the slot that was written to [`Batch::place`]. The batch is full if the next event
    /// might not fit.
    #[inline]
    pub(in crate::source) fn add_written(&mut self) {
        self.len += usize::from(self.len < self.slots.len());
        self.mark_full_if_chains_low();
    }

    /// Sets the weight of the slot that was added last.
    pub(super) fn weigh_last(&mut self, weight: u32) {
        if let Some(place) = self.len.checked_sub(1).and_then(|last| self.weights.get_mut(last)) {
            *place = weight;
        }
    }

    /// Returns the filled slots.
    pub fn slots(&self) -> &[Slot] {
        &self.slots[..self.len]
    }

    /// Keeps only the first `len` slots.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Replaces the slots by others that are valid as long as the batch is, at most [`BATCH`] of
    /// them.
    pub fn replace(&mut self, slots: impl Iterator<Item = Slot>) {
        self.len = 0;
        for (place, slot) in self.slots.iter_mut().zip(slots) {
            *place = slot;
            self.len += 1;
        }
    }

    /// Removes all slots and chains.
    pub fn clear(&mut self) {
        self.len = 0;
        self.limit = BATCH;
        self.chains.clear();
    }

    /// Returns the storage of the chains and records that slots cannot use as they are in the ring.
    pub(super) fn chains(&mut self) -> &mut ChainMemory {
        &mut self.chains
    }

    /// Declares the batch full if the next event might not fit. To be called when a record's chain
    /// and further fields are in a slot.
    pub(super) fn mark_full_if_chains_low(&mut self) {
        if self.chains.is_low() {
            self.limit = 0;
        }
    }

    /// Returns how many chains so far contain only the inner part of their stack.
    pub fn truncated(&self) -> u64 {
        self.chains.truncated
    }

    /// Makes a run of every slot, for events that must be handled in order. Returns the number of
    /// runs.
    ///
    /// Runs of several slots would be short where roles alternate, and a loop of a few iterations
    /// costs more than none.
    pub fn runs_in_order(&mut self) -> usize {
        if self.counts.len() <= 1 {
            return self.one_run();
        }
        for (i, slot) in self.slots[..self.len].iter().enumerate() {
            self.order[i] = i as u16;
            self.starts[i] = i as u16;
            self.kinds[i] = slot.ev;
        }
        self.starts[self.len] = self.len as u16;
        self.len
    }

    /// Makes one run of all slots, which have the same role.
    fn one_run(&mut self) -> usize {
        for i in 0..self.len {
            self.order[i] = i as u16;
        }
        self.kinds[0] = 0;
        self.starts[0] = 0;
        self.starts[1] = self.len as u16;
        usize::from(self.len > 0)
    }

    /// Returns the role of the first run.
    pub fn first_role(&self) -> u16 {
        self.kinds[0]
    }

    /// Makes one run per role, each in order of arrival, for events that are handled independently.
    /// Returns the number of runs.
    pub fn runs_by_role(&mut self) -> usize {
        if self.counts.len() <= 1 {
            return self.one_run();
        }
        self.counts.fill(0);
        for slot in &self.slots[..self.len] {
            if let Some(count) = self.counts.get_mut(slot.ev as usize) {
                *count += 1;
            }
        }
        let mut runs = 0;
        let mut start = 0;
        for (role, count) in self.counts.iter_mut().enumerate() {
            if *count > 0 {
                self.kinds[runs] = role as u16;
                self.starts[runs] = start;
                runs += 1;
                start += std::mem::replace(count, start);
            }
        }
        self.starts[runs] = start;
        for (i, slot) in self.slots[..self.len].iter().enumerate() {
            if let Some(next) = self.counts.get_mut(slot.ev as usize) {
                self.order[usize::from(*next)] = i as u16;
                *next += 1;
            }
        }
        runs
    }
}

fn boxed<T: Copy, const N: usize>(value: T) -> Box<[T; N]> {
    match vec![value; N].into_boxed_slice().try_into() {
        Ok(array) => array,
        Err(_) => unreachable!("the vector has N elements"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch_of(roles: &[u16]) -> Batch {
        let mut batch = Batch::new(4);
        for &ev in roles {
            assert!(batch.push(Slot { ev, ..Slot::EMPTY }));
        }
        batch
    }

    fn runs(batch: &Batch, n: usize) -> Vec<(u16, Vec<u16>)> {
        (0..n)
            .map(|r| {
                let (from, to) = (usize::from(batch.starts[r]), usize::from(batch.starts[r + 1]));
                (batch.kinds[r], batch.order[from..to].to_vec())
            })
            .collect()
    }

    #[test]
    fn ordered_runs_keep_the_order_of_arrival() {
        let mut batch = batch_of(&[1, 1, 0, 1]);
        let n = batch.runs_in_order();
        assert_eq!(runs(&batch, n), [(1, vec![0]), (1, vec![1]), (0, vec![2]), (1, vec![3])]);
    }

    #[test]
    fn unordered_runs_gather_each_role_in_order_of_arrival() {
        let mut batch = batch_of(&[1, 3, 0, 1, 3, 3]);
        let n = batch.runs_by_role();
        assert_eq!(runs(&batch, n), [(0, vec![2]), (1, vec![0, 3]), (3, vec![1, 4, 5])]);
    }

    #[test]
    fn a_full_batch_refuses_a_slot() {
        let mut batch = Batch::new(1);
        for _ in 0..BATCH {
            assert!(batch.push(Slot::EMPTY));
        }
        assert!(batch.is_full(1));
        assert!(!batch.push(Slot::EMPTY));
        assert_eq!(batch.runs_by_role(), 1);
        assert_eq!(usize::from(batch.starts[1]), BATCH);
    }
}
