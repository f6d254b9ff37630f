//! Counts and sums by key: a GROUP BY.
//!
//! Each key counts how often it was added to and has as many exact sums as the table. At the bound,
//! the half of the keys that would be drawn last is folded into one row, so the columns still add
//! up.

use super::{
    Aggregate,
    budget::{Budget, BudgetGrant},
    keys::{Keys, first_half, gather},
    strings::Marks,
    sum::Sum,
    word::Word,
};
use estimate::KvEstimate;
pub use estimate::KvVariances;
pub use leaf::{FIRST_SHIFT, MORE, NAME};
use std::cmp::Ordering;
use std::rc::Rc;

mod estimate;
mod leaf;

/// Options of a table.
#[derive(Clone, Debug)]
pub struct KvOptions {
    /// Number of words in a key; at most 8.
    pub keys: usize,
    /// Number of sums in a row.
    pub sums: usize,
    /// Indices of the sums that sort before the others, most important first.
    pub first: Vec<usize>,
    /// Whether rows get names from [`Kv::name`].
    pub named: bool,
    /// Maximum size in bytes.
    pub bound: usize,
}

impl KvOptions {
    /// Returns the number of names of a row.
    fn names(&self) -> usize {
        usize::from(self.named)
    }
}

/// Rows of counts and sums.
pub struct Kv {
    shape: KvOptions,
    ranks: Vec<usize>,
    /// Bytes of a row; `capacity` is the number of rows that fit.
    row_bytes: usize,
    capacity: usize,
    room: BudgetGrant,
    keys: Keys,
    counts: Vec<u64>,
    sums: Vec<Sum>,
    /// Empty if rows have no names.
    names: Vec<Option<u32>>,
    folded: Folded,
    evicted: u64,
    survivors: Vec<u32>,
    /// None if each record stands for one event.
    estimate: Option<Box<KvEstimate>>,
}

/// The values that the bound folded: without keys, but part of every total.
#[derive(Clone, Debug, Default)]
pub struct Folded {
    /// Keys folded since the last [`Aggregate::clear`]; 0 if there is nothing to show.
    pub keys: u64,
    /// Their count.
    pub count: u64,
    /// Their sums.
    pub sums: Vec<Sum>,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct KvRow<'a> {
    /// Its key.
    pub key: &'a [Word],
    /// How often it was added to.
    pub count: u64,
    /// Its sums.
    pub sums: &'a [Sum],
    /// Variances of the count, then of the sums.
    pub variances: KvVariances<'a>,
    /// The string id of its name.
    pub name: Option<u32>,
}

impl Kv {
    /// Returns an empty table.
    pub fn new(shape: KvOptions) -> Kv {
        let keys = Keys::new(shape.keys);
        let row = keys.bytes_per_key()
            + size_of::<u64>()
            + shape.names() * size_of::<Option<u32>>()
            + shape.sums * size_of::<Sum>();
        let mut ranks = shape.first.clone();
        ranks.extend((0..shape.sums).filter(|i| !shape.first.contains(i)));
        Kv {
            ranks,
            row_bytes: row,
            capacity: (shape.bound / row).max(2),
            room: BudgetGrant::new(shape.bound),
            keys,
            counts: Vec::new(),
            sums: Vec::new(),
            names: Vec::new(),
            folded: Folded { sums: vec![Sum::default(); shape.sums], ..Folded::default() },
            evicted: 0,
            survivors: Vec::new(),
            estimate: None,
            shape,
        }
    }

    /// Takes its memory from a budget.
    pub fn with_budget(self, budget: &Rc<Budget>) -> Kv {
        let room = self.room.with_budget(budget);
        Kv { capacity: 0, room, ..self }
    }

    /// Counts `key` and adds `values` to its sums from `first` on. Returns whether the row still
    /// lacks a name.
    #[inline]
    pub fn add(&mut self, key: &[Word], first: usize, values: &[f64]) -> bool {
        let row = self.row(key);
        self.add_at(row, first, values)
    }

    #[inline(always)]
    fn add_at(&mut self, row: usize, first: usize, values: &[f64]) -> bool {
        if self.estimate.is_some() {
            self.estimate_at(row, first, values, true);
        } else {
            if let Some(count) = self.counts.get_mut(row) {
                *count += 1;
            }
            self.sum_up(row, first, values);
        }
        self.names.get(row).is_some_and(Option::is_none)
    }

    #[inline(always)]
    fn sum_up(&mut self, row: usize, first: usize, values: &[f64]) {
        let start = row * self.shape.sums + first;
        if let Some(sums) = self.sums.get_mut(start..start + values.len()) {
            sums.iter_mut().zip(values).for_each(|(sum, value)| sum.add(*value));
        }
    }

    /// Adds the count and the sums of further events of a key; without one, of events whose keys
    /// are not known, to those that the bound folded. Each event has the current weight.
    pub fn add_row(&mut self, key: Option<&[Word]>, count: u64, sums: &[Sum], name: Option<u32>) {
        let row = key.map(|key| self.row(key));
        let estimated = self.estimate_row(row, count, sums);
        let (events, sums) = estimated.as_ref().map_or((count, sums), |of| (of.0, &of.1[..]));
        let Some(row) = row else {
            self.folded.keys += count;
            self.evicted += count;
            self.folded.count += events;
            return self.folded.sums.iter_mut().zip(sums).for_each(|(into, sum)| into.merge(sum));
        };
        if let Some(into) = self.counts.get_mut(row) {
            *into += events;
        }
        let into = self.sums.iter_mut().skip(row * self.shape.sums);
        into.zip(sums).for_each(|(into, sum)| into.merge(sum));
        if let Some(known) = self.names.get_mut(row).filter(|known| known.is_none()) {
            *known = name;
        }
    }

    /// Names a row by the id of a string; does nothing if the key is no longer in the table.
    pub fn name(&mut self, key: &[Word], name: u32) {
        if let Some(place) = self.keys.find(key).and_then(|row| self.names.get_mut(row)) {
            *place = Some(name);
        }
    }

    #[inline(always)]
    fn row(&mut self, key: &[Word]) -> usize {
        match self.keys.find_recent(key) {
            Some(row) => row,
            None => self.new_row(key),
        }
    }

    #[cold]
    #[inline(never)]
    fn new_row(&mut self, key: &[Word]) -> usize {
        if self.keys.len() >= self.capacity && !self.grow() {
            self.fold();
        }
        self.counts.push(0);
        self.names.extend(self.shape.named.then_some(None));
        self.sums.resize(self.sums.len() + self.shape.sums, Sum::default());
        self.keys.insert(key)
    }

    /// Requests memory for more rows and returns whether there is room.
    fn grow(&mut self) -> bool {
        let grown = self.room.grow();
        self.capacity = (self.room.bytes() / self.row_bytes).max(2);
        if grown {
            // Reserves exactly what was granted: vectors that grow on demand take up to twice as
            // much.
            let more = self.capacity.saturating_sub(self.counts.len());
            self.keys.reserve(more);
            self.counts.reserve_exact(more);
            self.names.reserve_exact(self.shape.names() * more);
            self.sums.reserve_exact(more * self.shape.sums);
        }
        self.keys.len() < self.capacity
    }

    fn fold(&mut self) {
        let mut survivors = std::mem::take(&mut self.survivors);
        first_half(self.keys.len(), &mut survivors, |a, b| self.order(a, b));
        let mut next = survivors.iter().peekable();
        for row in 0..self.keys.len() {
            if next.next_if(|survivor| **survivor as usize == row).is_some() {
                continue;
            }
            let count = self.counts.get(row).copied().unwrap_or(0);
            if count == 0 {
                continue;
            }
            self.folded.keys += 1;
            self.evicted += 1;
            self.folded.count += count;
            let sums = self.sums.iter().skip(row * self.shape.sums);
            self.folded.sums.iter_mut().zip(sums).for_each(|(into, sum)| into.merge(sum));
            self.estimate.iter_mut().for_each(|estimate| estimate.fold_row(row));
        }
        if let Some(estimate) = &mut self.estimate {
            estimate.keep(self.keys.len(), &survivors);
        }
        gather(&mut self.counts, 1, &survivors);
        gather(&mut self.names, self.shape.names(), &survivors);
        gather(&mut self.sums, self.shape.sums, &survivors);
        self.keys.keep(&survivors);
        self.survivors = survivors;
    }

    /// Compares two rows in drawing order: by the sums of [`KvOptions::first`], the other sums,
    /// then the count, each descending.
    pub fn order(&self, a: usize, b: usize) -> Ordering {
        let (a, b) = (self.row_at(a), self.row_at(b));
        let sums = self.ranks.iter().map(|&i| match (a.sums.get(i), b.sums.get(i)) {
            (Some(a), Some(b)) => b.order(a),
            _ => Ordering::Equal,
        });
        sums.fold(Ordering::Equal, Ordering::then).then(b.count.cmp(&a.count))
    }

    /// Returns the same rows under other keys: `change` replaces each word of a key, given its
    /// index. Rows whose keys become equal are merged.
    pub fn rekeyed(&self, change: impl Fn(usize, Word) -> Word) -> Kv {
        let mut changed = self.same_shape();
        changed.take_in(self, change);
        changed
    }

    fn take_in(&mut self, other: &Self, change: impl Fn(usize, Word) -> Word) {
        let mut key = Vec::with_capacity(self.shape.keys);
        for from in other.rows() {
            key.clear();
            key.extend(from.key.iter().enumerate().map(|(place, word)| change(place, *word)));
            let row = self.row(&key);
            if let Some(count) = self.counts.get_mut(row) {
                *count += from.count;
            }
            let into = self.sums.iter_mut().skip(row * self.shape.sums);
            into.zip(from.sums).for_each(|(into, sum)| into.merge(sum));
            if let Some(name) = self.names.get_mut(row) {
                *name = from.name.or(*name);
            }
            self.estimate.iter_mut().for_each(|to| to.merge_row(row, from.variances));
        }
        self.folded.keys += other.folded.keys;
        self.folded.count += other.folded.count;
        let sums = self.folded.sums.iter_mut().zip(&other.folded.sums);
        sums.for_each(|(into, sum)| into.merge(sum));
        if let (Some(into), Some(other)) = (&mut self.estimate, &other.estimate) {
            into.merge_folded(other);
        }
    }

    /// Returns the row with a number of [`Kv::numbered_rows`].
    pub fn row_at(&self, row: usize) -> KvRow<'_> {
        let sums = row * self.shape.sums..(row + 1) * self.shape.sums;
        KvRow {
            key: self.keys.key(row),
            count: self.counts.get(row).copied().unwrap_or(0),
            sums: self.sums.get(sums).unwrap_or_default(),
            variances: self.estimate.as_ref().map(|estimate| estimate.row(row)).unwrap_or_default(),
            name: self.names.get(row).copied().flatten(),
        }
    }

    /// Returns every row that was added to, in no particular order, without [`Kv::folded`].
    pub fn rows(&self) -> impl Iterator<Item = KvRow<'_>> {
        self.numbered_rows().map(|(_, row)| row)
    }

    /// Returns the same rows with their numbers, for [`Kv::order`].
    pub fn numbered_rows(&self) -> impl Iterator<Item = (usize, KvRow<'_>)> {
        (0..self.keys.len()).map(|row| (row, self.row_at(row))).filter(|(_, row)| row.count > 0)
    }

    /// Returns what the bound folded.
    pub fn folded(&self) -> &Folded {
        &self.folded
    }

    /// Returns the number of additions since the last [`Aggregate::clear`], including folded ones.
    pub fn samples(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.folded.count
    }

    /// Returns the number of sums of a row.
    pub fn sums(&self) -> usize {
        self.shape.sums
    }

    /// Returns whether rows get names.
    pub fn is_named(&self) -> bool {
        self.shape.named
    }

    /// Returns the number of keys folded since the table was made.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }
}

impl Aggregate for Kv {
    /// Clears the table. A named row stays for one more interval, without a count, because the next
    /// event may not carry the name.
    fn clear(&mut self) {
        let mut survivors = std::mem::take(&mut self.survivors);
        survivors.clear();
        if self.shape.named {
            let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
            survivors.extend(counted.map(|(row, _)| row as u32));
        }
        gather(&mut self.names, 1, &survivors);
        self.keys.keep(&survivors);
        self.counts.clear();
        self.counts.resize(survivors.len(), 0);
        self.sums.clear();
        self.sums.resize(survivors.len() * self.shape.sums, Sum::default());
        self.survivors = survivors;
        self.estimate.iter_mut().for_each(|estimate| estimate.clear());
        self.folded = Folded { sums: vec![Sum::default(); self.shape.sums], ..Folded::default() };
    }

    fn merge(&mut self, other: &Self) {
        self.take_in(other, |_, word| word);
    }

    fn mark(&self, marks: &mut Marks) {
        self.keys.iter().flatten().for_each(|word| marks.mark_word(*word));
        self.names.iter().flatten().for_each(|id| marks.mark(*id));
    }

    fn same_shape(&self) -> Self {
        let estimate = self.estimate.as_ref().map(|estimate| Box::new(estimate.empty()));
        let (room, row_bytes) = (self.room.another(), self.row_bytes);
        Kv { capacity: 0, room, row_bytes, estimate, ..Kv::new(self.shape.clone()) }
    }
}

#[cfg(test)]
mod tests;
