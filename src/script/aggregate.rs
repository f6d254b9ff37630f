//! Constructors of aggregates: `latency`, `kv`, `hist`, `heat_map`, `pending`, `states`,
//! `flame_graph`, `rate`, `per_cpu`, `perins`.
//!
//! A constructor reads its table here, creates the aggregate in [`crate::stat`] and returns a plan
//! to the prelude; the prelude generates an `add` that calls the leaf directly. A script's `add`
//! therefore never passes through this file, which only draws, drops and restarts aggregates.
//!
//! An aggregate lives as long as the Lua state, even if the Lua object that stands for it is
//! collected, because compiled code holds its address. Only a session frees unreferenced
//! aggregates, between lines ([`Aggregates::free_unheld`]).

mod cells;
mod declare;
mod draw;
pub mod flame;
mod interval;
mod native;
mod spec;
mod stack;
mod sweep;
mod upkeep;

use crate::{
    base::{coverage::Coverage, draw::Report, flame::Flame, stack_style::StackStyle},
    stack::{Stacks, naming::Naming},
    stat::{
        budget::Budget, event_copy::Owners, heat_map::HeatMap, hist::Histograms, kv::Kv,
        latency::Latency, leaf::SharedAggregate as Leaf, pending::Pending, rate::Rates,
        states::States, strings::Strings,
    },
};
use draw::{KvLook, LatencyLook, TableParts};
use flame::DrawnGraph;
use interval::Interval;
use mlua::{Function, Lua, Table, Value};
pub(super) use stack::frames_of;
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    ops::Range,
    rc::Rc,
};

/// Bytes of all strings in keys.
const STRING_BYTES: usize = 2 << 20;

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
    pub flame: Rc<RefCell<Option<flame::FlameOptions>>>,
    /// Flame graphs that were drawn and not taken yet.
    pub flames: Rc<RefCell<Vec<DrawnGraph>>>,
    /// Writes the flame graphs that a script draws itself to files of a given name; an error is a
    /// sentence for the script's author.
    pub write_flame: Rc<RefCell<Option<WriteFlame>>>,
    /// Owners of the events that `pending` and `states` keep.
    pub owners: Rc<Owners>,
    /// Memory budget of all aggregates together.
    pub budget: Rc<Budget>,
    /// Whether columns show raw values, without calling the script's functions.
    pub plain: Rc<Cell<bool>>,
    /// Upper bound of CPU numbers (exclusive).
    pub cpus: u32,
}

/// All aggregates that scripts declared, in order.
#[derive(Clone)]
pub struct Aggregates(Rc<AggregatesState>);

/// Weak reference to [`Aggregates`].
pub(super) struct Weak(std::rc::Weak<AggregatesState>);

impl Weak {
    /// Returns the aggregates, or `None` once they are freed.
    pub(super) fn upgrade(&self) -> Option<Aggregates> {
        self.0.upgrade().map(Aggregates)
    }
}

struct AggregatesState {
    shared: AggregateSettings,
    strings: Leaf<Strings>,
    /// Aggregates by number; a number is never reused.
    declared: RefCell<BTreeMap<usize, Rc<DeclaredAggregate>>>,
    next: Cell<usize>,
    /// Names in use, and the suffix that the next aggregate of each name gets.
    names: RefCell<HashMap<String, u32>>,
    /// Number of aggregates left by the last sweep of unreferenced ones.
    left: Cell<usize>,
    /// Losses of the aggregates that were freed.
    missed: RefCell<Coverage>,
    /// Stacks of emitted events, with `--flame-graph`.
    emitted: RefCell<Option<Leaf<Kv>>>,
    /// Script functions that draw stacks.
    stack_functions: RefCell<Vec<(Function, Rc<StackStyle>)>>,
    /// Number of the aggregate that each Lua object stands for; keys are weak.
    handles: Table,
    /// Values that the prelude shares with other trusted Lua.
    trusted: Table,
}

/// One aggregate.
struct DeclaredAggregate {
    /// Its key in JSON.
    name: String,
    title: Option<String>,
    columns: Vec<Option<spec::KeyColumn>>,
    /// Whether it keeps its rows over intervals.
    keep: bool,
    body: Body,
}

enum Body {
    Latency(Interval<Latency>, LatencyLook),
    Kv(Interval<Kv>, KvLook),
    Hist(Interval<Histograms>, String),
    Pending(Leaf<Pending>),
    States(Leaf<States>, Interval<Latency>, LatencyLook),
    Rate(Leaf<Rates>),
    HeatMap(Leaf<HeatMap>),
}

impl DeclaredAggregate {
    /// Returns an aggregate that is never drawn.
    fn hidden(body: Body) -> DeclaredAggregate {
        DeclaredAggregate {
            name: String::new(),
            title: None,
            columns: Vec::new(),
            keep: true,
            body,
        }
    }
}

impl Aggregates {
    /// Adds the constructors to `env`, the environment of scripts.
    ///
    /// `lua` must have its `ffi`, and no script may have run in it: the prelude copies what it
    /// needs from the globals.
    ///
    /// # Errors
    /// The prelude failed to load.
    pub fn register(lua: &Lua, env: &Table, shared: AggregateSettings) -> mlua::Result<Aggregates> {
        let weak = lua.create_table()?;
        weak.set("__mode", "k")?;
        let handles = lua.create_table()?;
        handles.set_metatable(Some(weak))?;
        let trusted = lua.create_table()?;
        let strings = Rc::new(RefCell::new(Strings::new(STRING_BYTES)));
        let aggregates = Aggregates(Rc::new(AggregatesState {
            shared,
            strings,
            declared: RefCell::default(),
            next: Cell::default(),
            names: RefCell::default(),
            left: Cell::default(),
            missed: RefCell::default(),
            emitted: RefCell::default(),
            stack_functions: RefCell::default(),
            handles,
            trusted: trusted.clone(),
        }));
        let native = aggregates.native(lua)?;
        for (name, source) in [
            ("=perilune:aggregate", include_str!("prelude/aggregate.lua")),
            ("=perilune:pending", include_str!("prelude/pending.lua")),
            ("=perilune:states", include_str!("prelude/states.lua")),
        ] {
            lua.load(source).set_name(name).call::<()>((&native, env, &trusted))?;
        }
        // Compiled Lua holds addresses into the aggregates.
        lua.set_app_data(aggregates.clone());
        Ok(aggregates)
    }

    /// Returns the table that trusted Lua reads and sets:
    ///
    /// - `slot_of(kept)`: the `const void *` behind `s.event`, nil for anything else,
    /// - `hooks.slot_of(e)`: set by the host; the `const void *` slot of a live event, which `keep`
    ///   copies,
    /// - `hooks.kept(pointer, name)`: set by the host; field `name` of a kept event.
    pub fn trusted(&self) -> &Table {
        &self.0.trusted
    }

    /// Returns whether `value` is an object that one of the constructors made.
    pub fn is_aggregate(&self, value: &Value) -> bool {
        self.number(value).is_some()
    }

    /// Returns the host's settings.
    pub(super) fn shared(&self) -> &AggregateSettings {
        &self.0.shared
    }

    /// Returns a weak reference, for functions that the Lua state owns.
    pub(super) fn downgrade(&self) -> Weak {
        Weak(Rc::downgrade(&self.0))
    }

    fn number(&self, value: &Value) -> Option<usize> {
        value.as_table()?;
        self.0.handles.raw_get(value).ok().flatten()
    }

    /// Returns the number of aggregates declared so far, which is the number of the next one.
    pub fn len(&self) -> usize {
        self.0.next.get()
    }

    /// Returns whether no aggregate was declared.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Draws the reports of `handles` in their order, or of all aggregates. Values that are not an
    /// aggregate of this state, and aggregates without a report (`pending`, `rate`, `heat_map`),
    /// are skipped.
    ///
    /// # Errors
    /// A column's own function failed.
    pub fn draw(&self, lua: &Lua, handles: Option<&[Value]>) -> mlua::Result<Vec<Report>> {
        let mut reports = Vec::new();
        for id in self.chosen(handles) {
            reports.extend(self.draw_one(lua, id, false)?);
        }
        Ok(reports)
    }

    /// Draws the reports of the aggregates with these numbers.
    ///
    /// # Errors
    /// A column's own function failed.
    pub(super) fn draw_some(&self, lua: &Lua, ids: Range<usize>) -> mlua::Result<Vec<Report>> {
        let mut reports = Vec::new();
        for id in ids {
            reports.extend(self.draw_one(lua, id, false)?);
        }
        Ok(reports)
    }

    /// Starts the next interval of the aggregates with these numbers.
    pub(super) fn restart_some(&self, ids: Range<usize>) {
        self.restart(ids.collect(), false);
    }

    /// Draws the reports that can be drawn, in order of declaration. Used when [`Aggregates::draw`]
    /// failed, so that the report is not lost.
    pub fn draw_what_can(&self, lua: &Lua) -> Vec<Report> {
        let each =
            self.chosen(None).into_iter().filter_map(|id| self.draw_one(lua, id, false).ok());
        each.flatten().collect()
    }

    /// Draws the reports of the whole run, in order of declaration; they include what was not drawn
    /// yet.
    ///
    /// # Errors
    /// A column's own function failed.
    pub fn draw_totals(&self, lua: &Lua) -> mlua::Result<Vec<Report>> {
        self.restart(self.chosen(None), true);
        let mut reports = Vec::new();
        for id in self.chosen(None) {
            reports.extend(self.draw_one(lua, id, true)?);
        }
        Ok(reports)
    }

    /// Restarts a table because the script has read it. A table that keeps its rows is a snapshot:
    /// it does not add up over a run.
    fn clear(&self, id: usize) {
        if let Some(declared) = self.one(id)
            && let Body::Kv(interval, _) = &declared.body
        {
            interval.restart(self.0.shared.totals.get() && !declared.keep);
        }
    }

    fn chosen(&self, handles: Option<&[Value]>) -> Vec<usize> {
        match handles {
            Some(handles) => handles.iter().filter_map(|handle| self.number(handle)).collect(),
            None => self.0.declared.borrow().keys().copied().collect(),
        }
    }

    /// Returns a shared reference, because drawing calls Lua, which may declare more aggregates.
    fn one(&self, id: usize) -> Option<Rc<DeclaredAggregate>> {
        self.0.declared.borrow().get(&id).cloned()
    }

    fn restart(&self, ids: Vec<usize>, totals: bool) {
        for declared in ids.into_iter().filter_map(|id| self.one(id)).filter(|one| !one.keep) {
            match &declared.body {
                Body::Latency(interval, _) | Body::States(_, interval, _) => {
                    interval.restart(totals);
                }
                Body::Kv(interval, _) => interval.restart(totals),
                Body::Hist(interval, _) => interval.restart(totals),
                Body::Pending(_) | Body::Rate(_) | Body::HeatMap(_) => {}
            }
        }
    }

    fn draw_one(&self, lua: &Lua, id: usize, total: bool) -> mlua::Result<Vec<Report>> {
        let Some(declared) = self.one(id) else { return Ok(Vec::new()) };
        let frame = self.frame(lua, &declared);
        if let Body::Kv(of, look) = &declared.body
            && self.0.shared.flame.borrow().is_some()
            && flame::of_stacks(&declared.columns)
        {
            if total {
                // The intervals' flame graphs add up to that of the run.
                let drawn = of.with_total(|of| frame.beside_stacks(of, look))?;
                return Ok(drawn.into_iter().collect());
            }
            let flame = self.flame_of(lua, id)?.map(|flame| DrawnGraph {
                table: declared.name.clone(),
                flame,
                snapshot: declared.keep,
            });
            self.0.shared.flames.borrow_mut().extend(flame);
            return Ok(frame.beside_stacks(&of.live, look)?.into_iter().collect());
        }
        let one = |report: mlua::Result<Report>| report.map(|report| vec![report]);
        match &declared.body {
            Body::Latency(of, look) | Body::States(_, of, look) if total => {
                one(of.with_total(|of| frame.latency(of, look)))
            }
            Body::Latency(of, look) | Body::States(_, of, look) => {
                one(frame.latency(&of.live, look))
            }
            Body::Kv(of, look) if total => one(of.with_total(|of| frame.counted(of, look))),
            Body::Kv(of, look) => one(frame.counted(&of.live, look)),
            Body::Hist(of, unit) if total => of.with_total(|of| frame.hist(of, unit)),
            Body::Hist(of, unit) => frame.hist(&of.live, unit),
            Body::Pending(_) | Body::Rate(_) | Body::HeatMap(_) => Ok(Vec::new()),
        }
    }

    fn frame<'a>(&'a self, lua: &'a Lua, declared: &'a DeclaredAggregate) -> TableParts<'a> {
        TableParts {
            lua,
            strings: &self.0.strings,
            shared: &self.0.shared,
            name: &declared.name,
            title: declared.title.as_deref(),
            columns: &declared.columns,
        }
    }
}
