//! A table of the current interval and its total over the run.

use std::cell::RefCell;

use crate::stat::{Aggregate, leaf::SharedAggregate as Leaf};

/// A table of the current interval, and of the run so far if totals are wanted.
pub(super) struct Interval<T> {
    pub(super) live: Leaf<T>,
    total: RefCell<Option<T>>,
}

impl<T: Aggregate> Interval<T> {
    pub(super) fn new(live: Leaf<T>) -> Interval<T> {
        Interval { live, total: RefCell::new(None) }
    }

    /// Clears the table; with `totals`, merges it into the total first.
    pub(super) fn restart(&self, totals: bool) {
        let mut live = self.live.borrow_mut();
        if totals {
            let mut total = self.total.borrow_mut();
            total.get_or_insert_with(|| live.same_shape()).merge(&live);
        }
        live.clear();
    }

    pub(super) fn has_total(&self) -> bool {
        self.total.borrow().is_some()
    }

    /// Visits the interval's table, and the run's if there is one.
    pub(super) fn each(&self, mut visit: impl FnMut(&T)) {
        visit(&self.live.borrow());
        self.total.borrow().as_ref().into_iter().for_each(visit);
    }

    /// Draws the run's table, or the interval's while there is no total.
    pub(super) fn with_total<R>(&self, draw: impl FnOnce(&RefCell<T>) -> R) -> R {
        // Taken out while it is drawn, because drawing calls Lua.
        match self.total.take() {
            Some(total) => {
                let total = RefCell::new(total);
                let drawn = draw(&total);
                self.total.replace(Some(total.into_inner()));
                drawn
            }
            None => draw(&self.live),
        }
    }
}
