//! Settings of the host that the constructors read, and the state that aggregates share with it.

use super::flame::{DrawnGraph, FlameOptions};
use crate::{
    base::report::flame::Flame,
    stack::{Stacks, naming::Naming},
    stat::{
        budget::Budget, heat_map::HeatMap, kv::Kv, leaf::SharedAggregate, owners::Owners,
        sql::SqlEvents, weight::EventWeight,
    },
    task::cgroups::Cgroups,
};
use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
};

/// Writes a flame graph to files. Arguments: file name without extension, graph.
pub type WriteFlame = Box<dyn FnMut(&str, &Flame) -> Result<(), String>>;

/// Settings of the host that the constructors read, and the state they share with it.
#[derive(Clone, Default)]
pub struct AggregateSettings {
    /// `--perins`: a table per instance.
    pub perins: Rc<Cell<bool>>,
    /// `-v`: show percentiles also where they are omitted by default.
    pub verbose: Rc<Cell<bool>>,
    /// Whether an instance is a thread, as with `-p`, and not a CPU.
    pub by_thread: Rc<Cell<bool>>,
    /// `--total`: merge the table of each interval into a total for the end of the run.
    pub totals: Rc<Cell<bool>>,
    /// Stacks that scripts hold as ids.
    pub stacks: Rc<RefCell<Stacks>>,
    /// Names of the stacks' frames.
    pub naming: Rc<RefCell<Naming>>,
    /// `--flame-graph`: tables of stacks are drawn as flame graphs instead of printed.
    pub flame: Rc<RefCell<Option<FlameOptions>>>,
    /// Flame graphs that were drawn and not taken yet.
    pub flames: Rc<RefCell<Vec<DrawnGraph>>>,
    /// Writes the flame graphs that a script draws itself to files of a given name; an error is a
    /// sentence for the script's author.
    pub write_flame: Rc<RefCell<Option<WriteFlame>>>,
    /// The heat map of the run, once a script has declared one.
    pub heat_map: Rc<OnceCell<SharedAggregate<HeatMap>>>,
    /// Stacks over time and the unit of their weights, once a script has declared them.
    pub stack_map: Rc<OnceCell<(SharedAggregate<Kv>, String)>>,
    /// Whether each report also collects the measurements of its tables, for metrics.
    pub measured: Rc<Cell<bool>>,
    /// Owners of the events that `pending` and `states` keep.
    pub owners: Rc<Owners>,
    /// Paths and containers of cgroups, for keys that the kernel has counted by ID.
    pub cgroups: Rc<RefCell<Cgroups>>,
    /// The events of the run, for `sql`.
    pub sql: Rc<SqlEvents>,
    /// Memory budget of all aggregates together.
    pub budget: Rc<Budget>,
    /// Weight of the event that is being handled; varies with `--budget`.
    pub weight: Rc<EventWeight>,
    /// Whether columns show raw values, without calling the script's functions.
    pub plain: Rc<Cell<bool>>,
    /// Whether aggregates are declared by the source of another monitor's events, which has no
    /// reports.
    pub undrawn: Rc<Cell<bool>>,
    /// Upper bound of CPU numbers (exclusive).
    pub cpus: u32,
}
