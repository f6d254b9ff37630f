//! A table of the current interval and its total over the run.

use std::cell::RefCell;

use crate::stat::{Aggregate, leaf::SharedAggregate, strings::Marks};

/// A table of the current interval, and of the run so far if totals are wanted.
pub(super) struct Interval<T> {
    pub(super) live: SharedAggregate<T>,
    total: RefCell<Option<T>>,
}

impl<T: Aggregate> Interval<T> {
    pub(super) fn new(live: SharedAggregate<T>) -> Interval<T> {
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

    /// Marks the strings and numbers in use.
    pub(super) fn mark(&self, marks: &mut Marks) {
        self.each(|table| table.mark(marks));
    }

    /// Draws the interval's table, or the run's (`total`) if there is one.
    pub(super) fn draw<R>(&self, total: bool, draw: impl FnOnce(&RefCell<T>) -> R) -> R {
        // Taken out while it is drawn, because drawing calls Lua.
        match if total { self.total.take() } else { None } {
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
