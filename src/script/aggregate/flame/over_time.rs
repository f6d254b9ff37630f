//! The stacks of a `stack_map` with their times, for the page of `--heatmap FILE.html`.

use std::collections::HashMap;

use super::super::Aggregates;
use crate::base::report::flame::Flame;
use crate::base::report::stacks_over_time::StacksOverTime;
use crate::base::text::message::utf8;
use crate::script::vm::guard::pause::off_the_clock;
use crate::stack::EMPTY;
use crate::stack::fold::{Fold, FoldedStack};
use crate::stat::word::{Word, WordContent};

impl Aggregates {
    /// Returns whether the script has a `stack_map`.
    pub fn has_stack_map(&self) -> bool {
        self.0.shared.stack_map.get().is_some()
    }

    /// Returns the stacks of the script's `stack_map`; empty without one.
    pub fn stacks_over_time(&self) -> StacksOverTime {
        let Some((map, unit)) = self.0.shared.stack_map.get() else {
            return StacksOverTime::default();
        };
        let (mut numbers, mut keys, mut entries) = (HashMap::new(), Vec::new(), Vec::new());
        for row in map.borrow().rows() {
            let ([cell, key @ ..], Some(weight)) = (row.key, row.sums.first()) else { continue };
            let number = *numbers.entry(key.to_vec()).or_insert_with(|| {
                keys.push(key.to_vec());
                keys.len() as u32 - 1
            });
            let cell = number_of(*cell).min(u64::from(u32::MAX)) as u32;
            entries.push((cell, number, weight.value().max(0.0) as u64));
        }
        StacksOverTime::new(unit, &self.folded(&keys), &entries)
    }

    /// Returns the stacks of keys: comm, stack, the stack that is joined to it, and its waker. The
    /// first frame of each is the number of its key.
    fn folded(&self, keys: &[Vec<Word>]) -> Flame {
        let strings = self.0.strings.borrow();
        let text = |word: Word| match word.part() {
            WordContent::String(id) => utf8(strings.get(id)).into_owned(),
            WordContent::Number(_) => String::new(),
        };
        let (stacks, mut naming) =
            (self.0.shared.stacks.borrow(), self.0.shared.naming.borrow_mut());
        let mut fold = Fold::new(&stacks, &mut naming, Flame::default());
        for (number, key) in keys.iter().enumerate() {
            let [comm, stack, joined, waker] = *key.as_slice() else { continue };
            let (number, comm, waker) = (number.to_string(), text(comm), text(waker));
            let joined = (number_of(joined), (!waker.is_empty()).then_some(waker.as_str()));
            let is_joined = joined.0 != EMPTY || joined.1.is_some();
            let folded = FoldedStack {
                roots: vec![&number, &comm],
                id: number_of(stack),
                joined: is_joined.then(|| (joined.0, joined.1.into_iter().collect())),
            };
            off_the_clock(|| fold.add(&folded, 1));
        }
        fold.finish()
    }
}

fn number_of(word: Word) -> u64 {
    match word.part() {
        WordContent::Number(number) => number.max(0.0) as u64,
        WordContent::String(_) => 0,
    }
}
