//! Tables of stacks as flame graphs, and the stacks of emitted events.
//!
//! A table with a column of stacks is also a flame graph. Its other columns become the frames at
//! the root in their order, usually the process name first. The weight of a stack is the count of
//! its row, or the sum that `--weight` names.

use crate::base::report::cell::Cell;
use crate::base::report::flame::Flame;
use crate::stat::kv::Kv;
use crate::stat::leaf::SharedAggregate;
use crate::stat::strings::Strings;
use crate::stat::word::Word;

mod collect;
pub(super) mod fold;
mod over_time;

/// Size limit of a table of stacks in bytes: room for some hundred thousand stacks.
pub(super) const BYTES: usize = 32 << 20;

/// Flame graph options of the command line.
#[derive(Clone, Debug, Default)]
pub struct FlameOptions {
    /// `--weight`: the sum, or the extra field of an emitted event, used as weight; None counts.
    pub weight: Option<String>,
    /// Whether a table counts although it declares a weight: `--weight count`.
    pub counts: bool,
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
    strings: SharedAggregate<Strings>,
    kv: SharedAggregate<Kv>,
    weight: Option<String>,
}

impl FlameCounts {
    /// Adds a stack. `further` are the extra fields that the script emitted with the event.
    pub fn add(&self, comm: &[u8], stack: u64, further: &[(String, Cell)]) {
        let named = |wanted: &String| {
            let field = further.iter().find(|(name, _)| name == wanted);
            field.and_then(|(_, cell)| match cell {
                Cell::Int(value) => Some(value.get() as f64),
                Cell::Num(value) => Some(*value),
                _ => None,
            })
        };
        let weight = self.weight.as_ref().and_then(named).unwrap_or(1.0);
        let comm = Word::string(self.strings.borrow_mut().intern(comm));
        self.kv.borrow_mut().add(&[comm, Word::number(stack as f64)], 0, &[weight]);
    }
}
