//! Aggregates: what the constructors `latency`, `kv`, `hist`, … return; `kind.rs` lists them all.
//!
//! A constructor reads its table here, creates the aggregate in [`crate::stat`] and returns a plan
//! to the prelude; the prelude generates an `add` that calls the leaf directly. A script's `add`
//! therefore never passes through this file, which only draws, drops and restarts aggregates.
//!
//! An aggregate lives as long as the Lua state, even if the Lua object that stands for it is
//! collected, because compiled code holds its address. Only a session frees unreferenced
//! aggregates, between lines ([`Aggregates::free_unheld`]).

mod body;
mod cells;
pub(super) mod column;
mod counted;
mod declare;
mod draw;
pub mod flame;
mod interval;
mod kind;
mod measure;
mod native;
mod paired;
mod settings;
mod spec;
mod stack;
mod sweep;
mod upkeep;

use crate::{
    base::{report::coverage::Coverage, report::draw::Report, text::stack_style::StackStyle},
    stat::{kv::Kv, leaf::SharedAggregate, strings::Strings},
};
use cells::TableParts;
use declare::DeclaredAggregate;
pub(super) use kind::drawn_kinds;
use mlua::{Function, Lua, Table, Value};
pub use paired::PairLosses;
pub use settings::{AggregateSettings, WriteFlame};
pub(super) use spec::check_names;
pub(super) use stack::frames_of;
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    ops::Range,
    rc::Rc,
};

/// Bytes of all strings in keys.
const STRING_BYTES: usize = 2 << 20;

/// All aggregates that scripts declared, in order.
#[derive(Clone)]
pub struct Aggregates(Rc<AggregatesState>);

/// Weak reference to [`Aggregates`].
pub(super) struct WeakAggregates(std::rc::Weak<AggregatesState>);

impl WeakAggregates {
    /// Returns the aggregates, or `None` once they are freed.
    pub(super) fn upgrade(&self) -> Option<Aggregates> {
        self.0.upgrade().map(Aggregates)
    }
}

struct AggregatesState {
    shared: AggregateSettings,
    strings: SharedAggregate<Strings>,
    /// Aggregates by number; a number is never reused.
    declared: RefCell<BTreeMap<usize, Rc<DeclaredAggregate>>>,
    next: Cell<usize>,
    /// Events that the kernel has counted, each in one aggregate, by its number.
    counted: RefCell<BTreeMap<usize, u64>>,
    /// Names in use, and the suffix that the next aggregate of each name gets.
    names: RefCell<HashMap<String, u32>>,
    /// Number of aggregates left by the last sweep of unreferenced ones.
    left: Cell<usize>,
    /// Losses of the aggregates that were freed.
    missed: RefCell<Coverage>,
    /// States that scripts have counted as unmatched; compiled Lua increments it in place.
    unmatched: Cell<f64>,
    /// Numbers of the aggregates that are never drawn, because their monitor is the source of
    /// another one's events.
    undrawn: RefCell<Vec<usize>>,
    /// Stacks of emitted events, with `--flame-graph`.
    emitted: RefCell<Option<SharedAggregate<Kv>>>,
    /// Script functions that draw stacks.
    stack_functions: RefCell<Vec<(Function, Rc<StackStyle>)>>,
    /// Number of the aggregate that each Lua object stands for; keys are weak.
    handles: Table,
    /// Values that the prelude shares with other trusted Lua.
    trusted: Table,
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
        let aggregates = Aggregates(Rc::new(AggregatesState {
            shared,
            strings: Rc::new(RefCell::new(Strings::new(STRING_BYTES))),
            declared: RefCell::default(),
            next: Cell::default(),
            counted: RefCell::default(),
            names: RefCell::default(),
            left: Cell::default(),
            missed: RefCell::default(),
            unmatched: Cell::default(),
            undrawn: RefCell::default(),
            emitted: RefCell::default(),
            stack_functions: RefCell::default(),
            handles,
            trusted: lua.create_table()?,
        }));
        aggregates.load_preludes(lua, env)?;
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

    /// Returns whether `value` is an object that a constructor returned and a report can draw.
    pub(super) fn is_drawn(&self, value: &Value) -> bool {
        self.number(value).and_then(|id| self.one(id)).is_some_and(|one| one.is_drawn())
    }

    /// Returns the host's settings.
    pub(super) fn shared(&self) -> &AggregateSettings {
        &self.0.shared
    }

    /// Returns a weak reference, for functions that the Lua state owns.
    pub(super) fn downgrade(&self) -> WeakAggregates {
        WeakAggregates(Rc::downgrade(&self.0))
    }

    /// Registers a function that draws stacks in `style`; a column drawn by it is a stack column.
    pub(super) fn draws_stacks(&self, function: &Function, style: Rc<StackStyle>) {
        self.0.stack_functions.borrow_mut().push((function.clone(), style));
    }

    /// Returns the number of the aggregate that an object stands for.
    pub(super) fn number(&self, value: &Value) -> Option<usize> {
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
    /// aggregate of this state, and aggregates without a report (`pending`, `rate`, …),
    /// are skipped.
    ///
    /// # Errors
    /// A column's own function failed.
    pub fn draw(&self, lua: &Lua, handles: Option<&[Value]>) -> mlua::Result<Vec<Report>> {
        self.draw_each(lua, self.chosen(handles), false)
    }

    /// Draws the reports of the aggregates with these numbers.
    ///
    /// # Errors
    /// A column's own function failed.
    pub(super) fn draw_some(&self, lua: &Lua, ids: Range<usize>) -> mlua::Result<Vec<Report>> {
        self.draw_each(lua, ids, false)
    }

    /// Draws the reports that can be drawn, in order of declaration. Used when [`Aggregates::draw`]
    /// failed, so that the report is not lost.
    pub fn draw_what_can(&self, lua: &Lua) -> Vec<Report> {
        self.draw_each_that_can(lua, self.chosen(None))
    }

    /// Draws those of the reports with these numbers that can be drawn.
    pub(super) fn draw_each_that_can(
        &self,
        lua: &Lua,
        ids: impl IntoIterator<Item = usize>,
    ) -> Vec<Report> {
        let each = ids.into_iter().filter_map(|id| self.draw_one(lua, id, false).ok());
        each.flatten().collect()
    }

    /// Draws the reports of the whole run, in order of declaration; they include what was not drawn
    /// yet.
    ///
    /// # Errors
    /// A column's own function failed.
    pub fn draw_totals(&self, lua: &Lua) -> mlua::Result<Vec<Report>> {
        self.restart(self.chosen(None), true);
        self.draw_each(lua, self.chosen(None), true)
    }

    /// Restarts a table because the script has read it. A table that keeps its rows is a snapshot:
    /// it does not add up over a run.
    fn clear(&self, id: usize) {
        if let Some(declared) = self.one(id) {
            declared.body.restart(self.0.shared.totals.get() && !declared.keep);
        }
    }

    /// Returns the numbers of these aggregates, or of all.
    pub(super) fn chosen(&self, handles: Option<&[Value]>) -> Vec<usize> {
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
        let restarted = ids.into_iter().filter_map(|id| self.one(id)).filter(|one| !one.keep);
        restarted.for_each(|one| one.body.restart(totals));
    }

    fn draw_each(
        &self,
        lua: &Lua,
        ids: impl IntoIterator<Item = usize>,
        total: bool,
    ) -> mlua::Result<Vec<Report>> {
        let mut reports = Vec::new();
        for id in ids {
            reports.extend(self.draw_one(lua, id, total)?);
        }
        Ok(reports)
    }

    fn draw_one(&self, lua: &Lua, id: usize, total: bool) -> mlua::Result<Vec<Report>> {
        let is_drawn = !self.0.undrawn.borrow().contains(&id);
        let Some(declared) = self.one(id).filter(|_| is_drawn) else { return Ok(Vec::new()) };
        declared.body.draw(&self.parts(lua, &declared), total)
    }

    fn parts<'a>(&'a self, lua: &'a Lua, declared: &'a DeclaredAggregate) -> TableParts<'a> {
        TableParts {
            lua,
            strings: &self.0.strings,
            shared: &self.0.shared,
            name: &declared.name,
            title: declared.title.as_deref(),
            columns: &declared.columns,
            keep: declared.keep,
        }
    }
}
