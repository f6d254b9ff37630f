//! The words that add up: `latency`, `kv`, `hist`, `heat_map`, `pending`, `rate`, `per_cpu`, `perins`.
//!
//! A constructor reads its table here, makes the aggregate in [`crate::stat`] and gives the prelude a plan; the
//! prelude generates an `add` that calls the leaf directly. So a script's `add` never passes through this
//! file, and this file is only asked when something is drawn, dropped or begun anew.
//!
//! An aggregate lives as long as the Lua state, whatever becomes of the object that stands for it: compiled
//! code holds its address. Only a session frees what nothing holds any more, between lines ([`Aggregates::free_unheld`]).

mod declare;
mod draw;
pub mod flame;
mod native;
mod spec;
mod stack;
mod sweep;
mod upkeep;

use crate::{
    base::{coverage::Coverage, draw::Report, flame::Flame, stack_style::StackStyle},
    stack::{Stacks, naming::Naming},
    stat::{
        Aggregate, budget::Budget, heat_map::HeatMap, hist::Hist, kept::Owners, kv::Kv,
        latency::Latency, leaf::Shared as Leaf, pending::Pending, rate::Rate, states::States,
        strings::Strings,
    },
};
use draw::{Frame, KvLook, LatencyLook};
use flame::Drawn;
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

/// Writes a flame graph to files: their name without its ending, and the graph.
pub type WriteFlame = Box<dyn FnMut(&str, &Flame) -> Result<(), String>>;

/// What the host decides and scripts see through these words.
#[derive(Clone, Default)]
pub struct Shared {
    /// `--perins`: a table per instance.
    pub perins: Rc<Cell<bool>>,
    /// `-v`: percentiles are shown where they are left out otherwise.
    pub verbose: Rc<Cell<bool>>,
    /// Whether an instance is a thread, as with `-p`, and not a CPU.
    pub by_thread: Rc<Cell<bool>>,
    /// `--total`: what an interval drew is added up for the end.
    pub totals: Rc<Cell<bool>>,
    /// The stacks that scripts hold as numbers.
    pub stacks: Rc<RefCell<Stacks>>,
    /// Names of their frames.
    pub naming: Rc<RefCell<Naming>>,
    /// `--flame-graph`: tables of stacks are not shown but drawn here.
    pub flame: Rc<RefCell<Option<flame::Wish>>>,
    /// What was drawn so and not taken yet.
    pub flames: Rc<RefCell<Vec<Drawn>>>,
    /// Writes what a script has itself drawn to files of that name; an error is a sentence for the script's author.
    pub write_flame: Rc<RefCell<Option<WriteFlame>>>,
    /// Whose the events are that `pending` and `states` keep.
    pub owners: Rc<Owners>,
    /// The bytes of all aggregates together.
    pub budget: Rc<Budget>,
    /// Whether columns show what they hold, without asking the script.
    pub plain: Rc<Cell<bool>>,
    /// CPU numbers are below this.
    pub cpus: u32,
}

/// Every aggregate that scripts declared, in order.
#[derive(Clone)]
pub struct Aggregates(Rc<Inner>);

/// [`Aggregates`] that do not keep themselves alive.
pub(super) struct Weak(std::rc::Weak<Inner>);

impl Weak {
    /// The aggregates, as long as there are any.
    pub(super) fn upgrade(&self) -> Option<Aggregates> {
        self.0.upgrade().map(Aggregates)
    }
}

struct Inner {
    shared: Shared,
    strings: Leaf<Strings>,
    /// By their numbers, of which none is given twice.
    declared: RefCell<BTreeMap<usize, Rc<Declared>>>,
    next: Cell<usize>,
    /// The names that were given, and the number that the next of each is to have.
    names: RefCell<HashMap<String, u32>>,
    /// How many there were when those were freed that nothing held.
    left: Cell<usize>,
    /// What those had missed that were freed.
    missed: RefCell<Coverage>,
    /// The stacks of emitted events, with `--flame-graph`.
    emitted: RefCell<Option<Leaf<Kv>>>,
    /// The words that draw stacks.
    stack_words: RefCell<Vec<(Function, Rc<StackStyle>)>>,
    /// The number of an object that stands for an aggregate; keys are weak.
    handles: Table,
    /// What the prelude shares with other trusted Lua.
    trusted: Table,
}

/// One aggregate.
struct Declared {
    /// Its key in JSON.
    name: String,
    title: Option<String>,
    columns: Vec<Option<spec::Column>>,
    /// Never restarts.
    keep: bool,
    body: Body,
}

enum Body {
    Latency(Interval<Latency>, LatencyLook),
    Kv(Interval<Kv>, KvLook),
    Hist(Interval<Hist>, String),
    Pending(Leaf<Pending>),
    States(Leaf<States>, Interval<Latency>, LatencyLook),
    Rate(Leaf<Rate>),
    HeatMap(Leaf<HeatMap>),
}

/// A table of the current interval, and of the run before it when totals are wanted.
struct Interval<T> {
    live: Leaf<T>,
    total: RefCell<Option<T>>,
}

impl Declared {
    /// Something that is never drawn.
    fn hidden(body: Body) -> Declared {
        Declared { name: String::new(), title: None, columns: Vec::new(), keep: true, body }
    }
}

impl<T: Aggregate> Interval<T> {
    fn new(live: Leaf<T>) -> Interval<T> {
        Interval { live, total: RefCell::new(None) }
    }

    /// Starts over; with `totals` what was there is added up first.
    fn restart(&self, totals: bool) {
        let mut live = self.live.borrow_mut();
        if totals {
            let mut total = self.total.borrow_mut();
            total.get_or_insert_with(|| live.same_shape()).merge(&live);
        }
        live.clear();
    }

    fn has_total(&self) -> bool {
        self.total.borrow().is_some()
    }

    /// The interval's table, and the run's if there is one.
    fn each(&self, mut visit: impl FnMut(&T)) {
        visit(&self.live.borrow());
        self.total.borrow().as_ref().into_iter().for_each(visit);
    }

    /// A table to draw: the run's, or the interval's as long as nothing was added up.
    fn with_total<R>(&self, draw: impl FnOnce(&RefCell<T>) -> R) -> R {
        // Taken out while it is drawn: drawing calls Lua.
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

impl Aggregates {
    /// Puts the words into `env`, the scripts' environment.
    ///
    /// `lua` must have its `ffi` and must not have been used by a script yet: the prelude takes what it needs
    /// from the globals now.
    pub fn register(lua: &Lua, env: &Table, shared: Shared) -> mlua::Result<Aggregates> {
        let weak = lua.create_table()?;
        weak.set("__mode", "k")?;
        let handles = lua.create_table()?;
        handles.set_metatable(Some(weak))?;
        let trusted = lua.create_table()?;
        let strings = Rc::new(RefCell::new(Strings::new(STRING_BYTES)));
        let aggregates = Aggregates(Rc::new(Inner {
            shared,
            strings,
            declared: RefCell::default(),
            next: Cell::default(),
            names: RefCell::default(),
            left: Cell::default(),
            missed: RefCell::default(),
            emitted: RefCell::default(),
            stack_words: RefCell::default(),
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
        // Compiled Lua holds addresses of what is inside.
        lua.set_app_data(aggregates.clone());
        Ok(aggregates)
    }

    /// What trusted Lua may use and set:
    ///
    /// - `slot_of(kept)`: the `const void *` behind `s.event`, nil for anything else,
    /// - `hooks.slot_of(e)`: set by the host; the `const void *` slot of a live event, which `keep` copies,
    /// - `hooks.kept(pointer, name)`: set by the host; field `name` of a kept event.
    pub fn trusted(&self) -> &Table {
        &self.0.trusted
    }

    /// Whether `value` is an object that one of the constructors made.
    pub fn is_aggregate(&self, value: &Value) -> bool {
        self.number(value).is_some()
    }

    /// What the host decides.
    pub(super) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    /// The same for functions that the Lua state owns: they must not own it.
    pub(super) fn downgrade(&self) -> Weak {
        Weak(Rc::downgrade(&self.0))
    }

    fn number(&self, value: &Value) -> Option<usize> {
        value.as_table()?;
        self.0.handles.raw_get(value).ok().flatten()
    }

    /// How many were declared: the number of the next one.
    pub fn len(&self) -> usize {
        self.0.next.get()
    }

    /// Whether none was declared.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The parts of a report: of `handles` in their order, or of everything declared. What is not an aggregate of
    /// this state, and what has no drawing in a report (`pending`, `rate`, `heat_map`), is passed over.
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

    /// The parts of those with these numbers.
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

    /// Begins the next interval of those with these numbers.
    pub(super) fn restart_some(&self, ids: Range<usize>) {
        self.restart(ids.collect(), false);
    }

    /// The parts that can be drawn, as declared: for when [`Aggregates::draw`] failed and the report must not be lost.
    pub fn draw_what_can(&self, lua: &Lua) -> Vec<Report> {
        let each =
            self.chosen(None).into_iter().filter_map(|id| self.draw_one(lua, id, false).ok());
        each.flatten().collect()
    }

    /// The parts of the report on the whole run, as declared; what was not drawn before is in it.
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

    /// Begins a table anew because the script has read it. Of one that it keeps, what it says is how things stand: that adds up
    /// to nothing over a run.
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

    /// Held by itself: whoever draws calls Lua, which may declare more.
    fn one(&self, id: usize) -> Option<Rc<Declared>> {
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
                // A picture of the run is what those of its intervals add up to.
                let drawn = of.with_total(|of| frame.beside_stacks(of, look))?;
                return Ok(drawn.into_iter().collect());
            }
            let flame = self.flame_of(lua, id)?.map(|flame| Drawn {
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

    fn frame<'a>(&'a self, lua: &'a Lua, declared: &'a Declared) -> Frame<'a> {
        Frame {
            lua,
            strings: &self.0.strings,
            shared: &self.0.shared,
            name: &declared.name,
            title: declared.title.as_deref(),
            columns: &declared.columns,
        }
    }
}
