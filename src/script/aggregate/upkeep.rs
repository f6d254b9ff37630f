//! Maintenance of aggregates between events: drops state that lost events made doubtful, counts
//! what was dropped, and limits the number of aggregates.

use super::{Aggregates, DeclaredAggregate, SharedAggregate, body::OpenState};
use crate::base::report::coverage::Coverage;
use crate::stat::event_copy::CopyPosition;
use crate::stat::heat_map::HeatMap;
use crate::stat::history::History;
use mlua::{Lua, Value};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// Maximum number of aggregates per Lua state. They live as long as the state, and their memory is
/// not part of the script's memory limit.
const MOST: usize = 1024;

impl Aggregates {
    /// Adds an aggregate and returns its number.
    pub(super) fn declare(&self, mut declared: DeclaredAggregate) -> usize {
        if !declared.name.is_empty() {
            declared.name = self.free_name(&declared.name);
        }
        let id = self.0.next.replace(self.0.next.get() + 1);
        self.0.declared.borrow_mut().insert(id, Rc::new(declared));
        if self.0.shared.undrawn.get() {
            self.0.undrawn.borrow_mut().push(id);
        }
        id
    }

    /// Lets the aggregates check what depends on the events of the run.
    ///
    /// # Errors
    /// A mistake of the script; a sentence.
    pub(in crate::script) fn begin(&self) -> Result<(), String> {
        self.0.declared.borrow().values().try_for_each(|declared| declared.body.begin())
    }

    /// Keeps the events of the first `sql` in a database in the empty file at `path`. Returns
    /// whether there is one.
    ///
    /// # Errors
    /// The file cannot be opened; a sentence.
    pub(in crate::script) fn keep_events(&self, path: &Path) -> Result<bool, String> {
        for declared in self.0.declared.borrow().values() {
            if declared.body.keep_events(path)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Completes that database. Returns a summary.
    ///
    /// # Errors
    /// The file cannot be written; a sentence.
    pub(in crate::script) fn complete_events(
        &self,
        coverage: &Coverage,
    ) -> Result<Option<String>, String> {
        for declared in self.0.declared.borrow().values() {
            if let Some(summary) = declared.body.complete_events(coverage)? {
                return Ok(Some(summary));
            }
        }
        Ok(None)
    }

    /// Returns `name`, with a number appended if another aggregate has it.
    fn free_name(&self, name: &str) -> String {
        let mut names = self.0.names.borrow_mut();
        let mut free = name.to_owned();
        while names.contains_key(&free) {
            let next = names.entry(name.to_owned()).or_insert(2);
            free = format!("{name}_{next}");
            *next += 1;
        }
        names.insert(free.clone(), 2);
        free
    }

    /// Returns the error message for one more `kind` if the limit is reached.
    pub(super) fn full(&self, kind: &str) -> Option<String> {
        (self.0.declared.borrow().len() >= MOST).then(|| {
            format!(
                "a run has at most {MOST} tables, histograms and states; make each {kind} once, in \
                 init, and distinguish things by its columns; a prompt drops unreferenced ones \
                 between two lines"
            )
        })
    }

    /// Returns whether tables show what they omit by default: `-v`.
    pub(in crate::script) fn are_verbose(&self) -> bool {
        self.0.shared.verbose.get()
    }

    /// Returns whether to sweep unreferenced aggregates.
    ///
    /// A sweep flushes all JIT traces, so it waits until the number has doubled since the last one,
    /// or reached the limit. Within a line (`in_line`) it runs only at the limit, and only if the
    /// number has grown since the last sweep: only the line's own aggregates can be new.
    fn is_look_due(&self, in_line: bool) -> bool {
        let (now, left) = (self.0.declared.borrow().len(), self.0.left.get());
        if in_line { now >= MOST && now > left } else { now >= (2 * left).clamp(MOST / 2, MOST) }
    }

    /// Frees tables, histograms and rates that no Lua object or function references, once there are
    /// many. `is_kept` returns true for the numbers of those that are drawn without a reference.
    ///
    /// Lua must not be running, but a line may be suspended (`in_line`): the sweep flushes compiled
    /// code, which contains the addresses.
    ///
    /// # Errors
    /// The trusted Lua code failed.
    pub fn free_unheld(
        &self,
        lua: &Lua,
        in_line: bool,
        is_kept: impl Fn(usize) -> bool,
    ) -> mlua::Result<()> {
        if !self.is_look_due(in_line) {
            return Ok(());
        }
        let held: mlua::Table = self.0.trusted.get::<mlua::Function>("held")?.call(())?;
        // Collects twice: objects that a finalizer held are freed by the second collection.
        lua.gc_collect()?;
        lua.gc_collect()?;
        let mut unheld = Vec::new();
        for (id, declared) in self.0.declared.borrow().iter() {
            if declared.body.is_freed_unheld()
                && !is_kept(*id)
                && held.raw_get::<Value>(*id)?.is_nil()
            {
                unheld.push(*id);
            }
        }
        let before = self.counts();
        for id in unheld {
            let Some(freed) = self.0.declared.borrow_mut().remove(&id) else { continue };
            self.0.names.borrow_mut().remove(&freed.name);
            self.0.counted.borrow_mut().remove(&id);
        }
        self.0.left.set(self.0.declared.borrow().len());
        let gone = before.since(&self.counts());
        let mut missed = self.0.missed.borrow_mut();
        missed.evicted += gone.evicted;
        missed.disordered += gone.disordered;
        missed.clamped += gone.clamped;
        Ok(())
    }

    /// Drops open states that lost events make doubtful: all opened at or before `time`, in
    /// nanoseconds of the run. Resets all `per_cpu` tables.
    pub fn drop_before(&self, time: f64) {
        self.each_state(|state| state.drop_before(time));
        if let Ok(forget) = self.0.trusted.get::<mlua::Function>("forget_cpus") {
            // Cannot fail: it only assigns to existing keys.
            let _ = forget.call::<()>(());
        }
    }

    /// Records that a thread was renamed.
    pub fn rename_task(&self, tid: u32) {
        self.each_state(|state| state.rename_task(tid));
    }

    /// Drops the open states of the previous thread with this id: `tid` is a new thread.
    pub fn forget_task(&self, tid: u32) {
        self.each_state(|state| state.forget_task(tid));
    }

    /// Drops the open states of a thread that ended.
    pub fn drop_task(&self, tid: u32) {
        self.each_state(|state| state.drop_task(tid));
    }

    /// Returns the history of the events, if there is one.
    pub(in crate::script) fn past(&self) -> Option<Rc<RefCell<History>>> {
        self.0.shared.owners.past().cloned()
    }

    /// Copies kept events out of the part of the history before `until`, which will be dropped.
    pub(in crate::script) fn rescue(&self, history: &History, until: CopyPosition) {
        self.each_state(|state| state.rescue(history, until));
    }

    /// Returns when the oldest open state was opened, in nanoseconds of the run; infinity if none
    /// is open.
    pub(in crate::script) fn oldest_time(&self) -> f64 {
        let oldest = Cell::new(f64::INFINITY);
        self.each_state(|state| oldest.set(oldest.get().min(state.oldest_time())));
        oldest.get()
    }

    fn each_state(&self, visit: impl Fn(&dyn OpenState)) {
        let declared = self.0.declared.borrow();
        declared.values().filter_map(|one| one.body.open_state()).for_each(visit);
    }

    /// Returns the heat map of the script, if it has one.
    pub fn heat_map(&self) -> Option<SharedAggregate<HeatMap>> {
        self.0.shared.heat_map.get().cloned()
    }

    /// Starts the next interval of the values in `drawn`, or of everything (`None`). Aggregates
    /// declared with `keep` are not cleared.
    pub fn reset_after_interval(&self, drawn: Option<&[Value]>) {
        self.restart_drawn(self.chosen(drawn));
    }

    /// Like [`Aggregates::reset_after_interval`], of the aggregates with these numbers.
    pub(in crate::script) fn restart_drawn(&self, ids: Vec<usize>) {
        self.restart(self.0.undrawn.borrow().clone(), false);
        self.restart(ids, self.0.shared.totals.get());
    }

    /// Lets the next aggregates have names that others have: those of another monitor, whose
    /// reports are separate.
    pub(in crate::script) fn begin_names(&self) {
        self.0.names.borrow_mut().clear();
    }

    /// Draws columns as their plain values from now on, without calling functions of the script.
    pub fn draw_plainly(&self) {
        self.0.shared.plain.set(true);
    }

    /// Returns whether totals of earlier intervals exist beside the current values.
    pub fn have_totals(&self) -> bool {
        self.0.declared.borrow().values().any(|one| one.body.has_total())
    }

    /// Returns whether a script keeps state between events.
    pub fn has_state(&self) -> bool {
        self.0.declared.borrow().values().any(|one| one.body.open_state().is_some())
    }

    /// Returns the number of starts in tables of open state in which no state was ever closed.
    /// Tables keyed by task are not counted.
    pub fn starts_without_any_end(&self) -> u64 {
        let starts = Cell::new(0);
        self.each_state(|state| starts.set(starts.get() + state.starts_without_any_end()));
        starts.get()
    }

    /// Returns what was dropped or not recorded since the start: `unmatched`, `unsafe_`, `exited`,
    /// `evicted`, `disordered`, `clamped`, `starts` and `open`.
    pub fn counts(&self) -> Coverage {
        let mut counts = *self.0.missed.borrow();
        counts.unmatched += self.0.unmatched.get() as u64;
        counts.evicted += self.evicted_texts();
        for declared in self.0.declared.borrow().values() {
            declared.body.count(&mut counts);
        }
        counts.evicted += self.0.emitted.borrow().as_ref().map_or(0, |kv| kv.borrow().evicted());
        counts
    }

    /// Returns what the aggregates with these numbers have dropped or not recorded; see
    /// [`Aggregates::counts`]. `events` are those that the kernel has counted in them.
    pub(in crate::script) fn counts_of(&self, ids: Range<usize>) -> Coverage {
        let mut counts = Coverage::default();
        for (_, declared) in self.0.declared.borrow().range(ids.clone()) {
            declared.body.count(&mut counts);
        }
        counts.events = self.0.counted.borrow().range(ids).map(|(_, events)| events).sum();
        counts
    }

    /// Counts events that the kernel has counted in an aggregate.
    pub(in crate::script) fn count_events(&self, id: usize, events: u64) {
        *self.0.counted.borrow_mut().entry(id).or_default() += events;
    }

    /// Returns how many strings and stacks of keys had no room.
    pub(in crate::script) fn evicted_texts(&self) -> u64 {
        self.0.strings.borrow().overflowed() + self.0.shared.stacks.borrow().overflowed()
    }
}
