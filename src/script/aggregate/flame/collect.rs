//! The flame graphs of a run: those of its tables, and that of the events it emits.

use std::rc::Rc;

use super::super::Aggregates;
use super::super::stack::of_stacks;
use super::fold::{SplitKey, fold, name_and_unit, sum_of};
use super::{BYTES, DrawnGraph, FlameCounts, FlameOptions};
use crate::base::report::flame::Flame;
use crate::base::text::message::utf8;
use crate::stat::Aggregate as _;
use crate::stat::kv::{Kv, KvOptions};
use crate::stat::weight::EventWeight;
use crate::stat::word::{Word, WordContent};
use mlua::Lua;
use std::cell::RefCell;

impl Aggregates {
    /// Draws tables of stacks as flame graphs from now on, for [`Aggregates::take_flames`]. Returns
    /// the collector for the stacks of emitted events, or None if a table of the script already has
    /// a column of stacks.
    pub fn want_flames(&self, options: FlameOptions) -> Option<FlameCounts> {
        let weight = options.weight.clone();
        self.0.shared.flame.replace(Some(options));
        let declared = self.0.declared.borrow();
        if declared.values().any(|one| one.body.can_be_flame() && of_stacks(&one.columns)) {
            return None;
        }
        let (first, named, bound) = (Vec::new(), false, BYTES);
        let kv = Kv::new(KvOptions { keys: 2, sums: 1, first, named, bound })
            .with_weight(EventWeight::of_aggregate(&self.0.shared.weight));
        let kv = Rc::new(RefCell::new(kv));
        self.0.emitted.replace(Some(kv.clone()));
        Some(FlameCounts { strings: self.0.strings.clone(), kv, weight })
    }

    /// Returns the flame graphs drawn since the last call, and that of the events emitted since.
    pub fn take_flames(&self) -> Vec<DrawnGraph> {
        let mut drawn: Vec<DrawnGraph> = self.0.shared.flames.take();
        if let Some(kv) = &*self.0.emitted.borrow() {
            let kv = &mut *kv.borrow_mut();
            let weight =
                self.0.shared.flame.borrow().as_ref().and_then(|options| options.weight.clone());
            let rows = kv.rows().map(|row| (row.key.to_vec(), sum_of(row.sums.first())));
            let rows: Vec<(Vec<Word>, u64)> = rows.collect();
            let (_, unit) = name_and_unit(weight.as_deref().unwrap_or("events"));
            let evicted = sum_of(kv.folded().sums.first());
            let flame = fold(&self.0.shared, Flame::new("", unit), evicted, rows, |key| {
                let [comm, stack] = *key else { return Ok(SplitKey::default()) };
                let name = |id| utf8(self.0.strings.borrow().get(id)).into();
                let roots = match comm.part() {
                    WordContent::String(id) => vec![name(id)],
                    WordContent::Number(_) => Vec::new(),
                };
                Ok(SplitKey { roots, stack: Some(stack), ..SplitKey::default() })
            });
            kv.clear();
            let of = |flame| DrawnGraph { table: String::new(), flame, snapshot: false };
            drawn.extend(flame.ok().map(of));
        }
        drawn
    }

    /// Returns the flame graph of the current rows of a table, or None if it has no stacks.
    ///
    /// # Errors
    /// A column's own function failed.
    pub(in super::super) fn flame_of(&self, lua: &Lua, id: usize) -> mlua::Result<Option<Flame>> {
        let Some(declared) = self.one(id) else { return Ok(None) };
        declared.body.flame(&self.parts(lua, &declared))
    }
}
