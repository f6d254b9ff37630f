//! A memory limit for all aggregates of a run together.
//!
//! Each aggregate has its own limit, but a script may declare a thousand of them. A growing
//! aggregate therefore takes bytes from the budget, and behaves as at its own limit when none are
//! left.

use std::cell::Cell;
use std::rc::Rc;

/// Default size of the budget in bytes.
pub const BYTES: usize = 512 << 20;

/// Bytes of an aggregate's first request. Each later request doubles its memory.
const FIRST: usize = 16 << 10;

/// The bytes of a run's aggregates.
#[derive(Debug)]
pub struct Budget {
    size: Cell<usize>,
    taken: Cell<usize>,
    refused: Cell<u64>,
}

/// The text of a report is larger than the budget.
#[derive(Debug, thiserror::Error)]
#[error("the text of the report is larger than {0} bytes (--aggregate-mem); shorten it")]
pub struct TextTooLarge(usize);

impl Default for Budget {
    fn default() -> Budget {
        Budget { size: Cell::new(BYTES), taken: Cell::new(0), refused: Cell::new(0) }
    }
}

impl Budget {
    /// Sets the size. Bytes that are already taken stay taken.
    pub fn set_size(&self, bytes: usize) {
        self.size.set(bytes);
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> usize {
        self.size.get()
    }

    /// Checks the size of a report's text, which is not taken from the budget but has its limit.
    ///
    /// # Errors
    /// It is larger than the budget.
    pub fn check_text(&self, bytes: usize) -> Result<(), TextTooLarge> {
        if bytes <= self.size.get() { Ok(()) } else { Err(TextTooLarge(self.size.get())) }
    }

    /// Returns the bytes that are taken.
    pub fn taken(&self) -> usize {
        self.taken.get()
    }

    /// Returns the number of requests that were refused entirely.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Takes up to `wanted` bytes and returns how many were granted.
    pub fn take(&self, wanted: usize) -> usize {
        let got = wanted.min(self.size.get().saturating_sub(self.taken.get()));
        self.taken.set(self.taken.get() + got);
        if got == 0 && wanted > 0 {
            self.refused.set(self.refused.get() + 1);
        }
        got
    }

    fn give_back(&self, bytes: usize) {
        self.taken.set(self.taken.get().saturating_sub(bytes));
    }
}

/// The bytes granted to one aggregate: up to its limit, taken from a budget as it grows.
#[derive(Debug)]
pub(super) struct BudgetGrant {
    bound: usize,
    granted: usize,
    budget: Option<Rc<Budget>>,
}

impl BudgetGrant {
    /// Returns room for `bound` bytes without a budget.
    pub(super) fn new(bound: usize) -> BudgetGrant {
        BudgetGrant { bound, granted: bound, budget: None }
    }

    /// Returns room with the same bound, taken from a budget as it grows.
    pub(super) fn with_budget(&self, budget: &Rc<Budget>) -> BudgetGrant {
        BudgetGrant { bound: self.bound, granted: 0, budget: Some(budget.clone()) }
    }

    /// Returns empty room of the same kind for another aggregate.
    pub(super) fn another(&self) -> BudgetGrant {
        let empty = BudgetGrant::new(self.bound);
        self.budget.as_ref().map_or(empty, |budget| self.with_budget(budget))
    }

    /// Returns the number of granted bytes.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.granted
    }

    /// Requests more bytes, and returns whether any were granted.
    #[cold]
    pub(super) fn grow(&mut self) -> bool {
        let Some(budget) = &self.budget else { return false };
        let wanted = self.granted.max(FIRST).min(self.bound.saturating_sub(self.granted));
        let got = budget.take(wanted);
        self.granted += got;
        got > 0
    }
}

impl Drop for BudgetGrant {
    fn drop(&mut self) {
        self.budget.iter().for_each(|budget| budget.give_back(self.granted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregates_grow_to_their_limits_and_the_budget_and_return_their_bytes() {
        let budget = Rc::new(Budget::default());
        budget.set_size(5 * FIRST);
        let mut one = BudgetGrant::new(3 * FIRST).with_budget(&budget);
        assert_eq!((one.bytes(), one.grow(), one.grow(), one.grow()), (0, true, true, true));
        assert_eq!((one.bytes(), one.grow(), budget.refused()), (3 * FIRST, false, 0));
        let mut other = one.another();
        assert_eq!((other.grow(), other.grow(), other.grow()), (true, true, false));
        assert_eq!((other.bytes(), budget.taken(), budget.refused()), (2 * FIRST, 5 * FIRST, 1));
        drop(one);
        assert_eq!((other.grow(), other.bytes(), budget.taken()), (true, 3 * FIRST, 3 * FIRST));
    }
}
