//! Tables of stacks as flame graphs, and the stacks of emitted events.
//!
//! A table with a column of stacks is also a flame graph. Its other columns become the frames at
//! the root in their order, usually the process name first. The weight of a stack is the count of
//! its row, or the sum that `--weight` names.

use std::rc::Rc;

use super::draw::{KvLook, TableParts};
use super::spec::KeyColumn;
use super::{Aggregates, Body, Interval};
use crate::base::draw::Cell;
use crate::base::flame::{Flame, FrameKind};
use crate::script::guard::pause::off_the_clock;
use crate::stack::fold::Fold;
use crate::stat::Aggregate as _;
use crate::stat::kv::{Kv, KvOptions};
use crate::stat::leaf::SharedAggregate as Leaf;
use crate::stat::strings::Strings;
use crate::stat::sum::Sum;
use crate::stat::word::{Word, WordContent};
use mlua::Lua;
use std::cell::RefCell;

/// Size limit of a table of stacks in bytes: room for some hundred thousand stacks.
pub(super) const BYTES: usize = 32 << 20;

/// Flame graph options of the command line.
#[derive(Clone, Debug, Default)]
pub struct FlameOptions {
    /// `--weight`: the sum, or the extra field of an emitted event, used as weight; None counts.
    pub weight: Option<String>,
}

/// A flame graph that was drawn.
pub struct DrawnGraph {
    /// The name of its table; empty for the emitted events.
    pub table: String,
    /// Its stacks.
    pub flame: Flame,
    /// Whether it shows a current state. Snapshots are not added up over intervals.
    pub snapshot: bool,
}

/// Collects the stacks of emitted events with `--flame-graph`.
pub struct FlameCounts {
    strings: Leaf<Strings>,
    kv: Leaf<Kv>,
    weight: Option<String>,
}

impl FlameCounts {
    /// Adds a stack. `further` are the extra fields that the script emitted with the event.
    pub fn add(&self, comm: &[u8], stack: u64, further: &[(String, Cell)]) {
        let named = |wanted: &String| {
            let field = further.iter().find(|(name, _)| name == wanted);
            field.and_then(|(_, cell)| match cell {
                Cell::Int(value) => Some(*value as f64),
                Cell::Num(value) => Some(*value),
                _ => None,
            })
        };
        let weight = self.weight.as_ref().and_then(named).unwrap_or(1.0);
        let comm = Word::string(self.strings.borrow_mut().intern(comm));
        self.kv.borrow_mut().add(&[comm, Word::number(stack as f64)], 0, &[weight]);
    }
}

impl Aggregates {
    /// Draws tables of stacks as flame graphs from now on, for [`Aggregates::take_flames`]. Returns
    /// the collector for the stacks of emitted events, or None if a table of the script already has
    /// a column of stacks.
    pub fn want_flames(&self, options: FlameOptions) -> Option<FlameCounts> {
        let weight = options.weight.clone();
        self.0.shared.flame.replace(Some(options));
        if self.has_stacks() {
            return None;
        }
        let (first, named, bound) = (Vec::new(), false, BYTES);
        let kv =
            Rc::new(RefCell::new(Kv::new(KvOptions { keys: 2, sums: 1, first, named, bound })));
        self.0.emitted.replace(Some(kv.clone()));
        Some(FlameCounts { strings: self.0.strings.clone(), kv, weight })
    }

    /// Returns whether a table has a column of stacks.
    fn has_stacks(&self) -> bool {
        let declared = self.0.declared.borrow();
        declared.values().any(|one| matches!(one.body, Body::Kv(..)) && of_stacks(&one.columns))
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
            let unit = unit(weight.as_deref().unwrap_or("events"));
            let evicted = sum_of(kv.folded().sums.first());
            let flame = self.fold(Flame::new("", unit), evicted, rows, |key| {
                let [comm, stack] = *key else { return Ok((Vec::new(), Word::ZERO)) };
                let WordContent::String(id) = comm.part() else { return Ok((Vec::new(), stack)) };
                let name = String::from_utf8_lossy(self.0.strings.borrow().get(id)).into_owned();
                Ok((vec![name], stack))
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
    pub(super) fn flame_of(&self, lua: &Lua, id: usize) -> mlua::Result<Option<Flame>> {
        let Some(declared) = self.one(id) else { return Ok(None) };
        let Body::Kv(Interval { live, .. }, look) = &declared.body else { return Ok(None) };
        if !of_stacks(&declared.columns) {
            return Ok(None);
        }
        let frame = self.frame(lua, &declared);
        let options = self.0.shared.flame.borrow().clone().unwrap_or_default();
        let (weigh, unit) = frame.weigh(look, &options);
        let (rows, folded) = {
            let kv = live.borrow();
            let weight = |count, sums: &[Sum]| match weigh {
                Some(sum) => sum_of(sums.get(sum)),
                None => count,
            };
            let rows = kv.rows().map(|row| (row.key.to_vec(), weight(row.count, row.sums)));
            (rows.collect::<Vec<_>>(), weight(kv.folded().count, &kv.folded().sums))
        };
        let flame = Flame::new(declared.title.as_deref().unwrap_or(""), unit);
        self.fold(flame, folded, rows, |key| frame.roots(key)).map(Some)
    }

    /// Folds rows; `split` returns the root frames and the stack of a key.
    fn fold(
        &self,
        flame: Flame,
        evicted: u64,
        rows: Vec<(Vec<Word>, u64)>,
        split: impl Fn(&[Word]) -> mlua::Result<(Vec<String>, Word)>,
    ) -> mlua::Result<Flame> {
        let split = |(key, weight): (Vec<Word>, u64)| Ok((split(&key)?, weight));
        // Drawing a column calls Lua, which may itself read stacks: draw all before folding any.
        let rows = rows.into_iter().map(split).collect::<mlua::Result<Vec<_>>>()?;
        let (stacks, mut naming) =
            (self.0.shared.stacks.borrow(), self.0.shared.naming.borrow_mut());
        let mut fold = Fold::new(&stacks, &mut naming, flame);
        for ((roots, stack), weight) in &rows {
            let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
            if let WordContent::Number(id) = stack.part() {
                off_the_clock(|| fold.add(&roots, id as u64, *weight));
            }
        }
        let mut flame = fold.finish();
        if evicted > 0 {
            let name = flame.name("(evicted)", FrameKind::Plain);
            flame.push(&[name], evicted);
            flame.settle();
        }
        Ok(flame)
    }
}

impl TableParts<'_> {
    /// Returns the index of the sum used as weight (None: the count), and the unit of a weight.
    fn weigh<'l>(&self, look: &'l KvLook, options: &FlameOptions) -> (Option<usize>, &'l str) {
        let named = |wanted: &String| {
            look.sums.iter().position(|sum| sum.title.eq_ignore_ascii_case(wanted))
        };
        let sum = if look.flame { Some(0) } else { options.weight.as_ref().and_then(named) };
        match sum.and_then(|at| look.sums.get(at)) {
            Some(column) => (sum, unit(&column.title)),
            None => (None, look.count.as_deref().unwrap_or("stacks")),
        }
    }

    /// Returns the texts of the other columns of a key, and its stack.
    fn roots(&self, key: &[Word]) -> mlua::Result<(Vec<String>, Word)> {
        let (mut roots, mut stack) = (Vec::new(), None);
        for (column, word) in self.columns.iter().flatten().zip(key) {
            if column.stack.is_some() && stack.is_none() {
                stack = Some(*word);
                continue;
            }
            let text = match self.text(&mut Default::default(), column, *word)? {
                Cell::Text(text) => text,
                Cell::Int(value) => value.to_string(),
                Cell::Num(value) => value.to_string(),
                Cell::Bool(value) => value.to_string(),
                Cell::Empty | Cell::Stack { .. } => continue,
            };
            if !text.is_empty() {
                roots.push(text);
            }
        }
        Ok((roots, stack.unwrap_or(Word::ZERO)))
    }
}

/// Returns the unit of a weight with this name: times are in nanoseconds.
fn unit(weight: &str) -> &str {
    if weight == "time" { "ns" } else { weight }
}

/// Returns whether one of the columns shows stacks.
pub(super) fn of_stacks(columns: &[Option<KeyColumn>]) -> bool {
    columns.iter().flatten().any(|column| column.stack.is_some())
}

fn sum_of(sum: Option<&Sum>) -> u64 {
    sum.map_or(0, |sum| sum.value().max(0.0) as u64)
}
