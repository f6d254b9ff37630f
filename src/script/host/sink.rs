//! Handling of what a source yields: passes batches to handlers, and records of tasks to callbacks
//! and state.

use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::Host;
use super::callbacks::Callbacks;
use crate::base::event::chain::ChainBuilder;
use crate::base::report::run_record::RecordedSide;
use crate::decode::side_band::FileIdentity;
use crate::script::dispatch::WalkError;
use crate::script::vm::callback::Callback;
use crate::script::vm::guard::Phase;
use crate::source::side_record::{SideRecord, SideValue};
use crate::source::{Batch, SideBand, SideBandKind, Sink, UserStack};
use crate::sys::signal;
use crate::task::Fork;

impl Host {
    /// Updates the known tasks by a new name. If it is that of an executed program, drops the open
    /// states of a thread that has ended by the exec without a record.
    fn rename(&mut self, side: &SideBand<'_>) {
        let SideBandKind::Comm { pid, tid, comm, exec } = side.what else { return };
        let replaced = self.context.with(|context| {
            if exec && tid == pid {
                return context.tasks.on_exec(pid, comm, side.time);
            }
            context.tasks.on_comm(tid, pid, comm, side.time);
            Vec::new()
        });
        replaced.into_iter().for_each(|tid| self.aggregates.drop_task(tid));
        self.context.with(|context| context.tap_task(tid));
        self.aggregates.rename_task(tid);
    }

    /// Calls the callbacks for a task's record. Skips callbacks for watched tasks if the task is
    /// not watched.
    fn call_side(
        &mut self,
        watched: bool,
        which: impl Fn(&Callbacks) -> &Option<Rc<Callback>>,
        fill: impl Fn(&Table) -> mlua::Result<()>,
    ) {
        for callback in self.callbacks_for(watched, which) {
            if self.satisfied() {
                return;
            }
            let record = match self.vm.lua().create_table().and_then(|t| fill(&t).map(|()| t)) {
                Ok(record) => record,
                Err(why) => return self.failed(&why.to_string()),
            };
            self.call_back::<()>(&callback, Phase::Handler, record);
        }
    }

    /// Calls the callbacks for a record that only scripts want.
    fn call_recorded(&mut self, side: &SideBand<'_>, record: &SideRecord<'_>) {
        let (lua, kind) = (self.vm.lua().clone(), record.kind);
        self.call_side(
            side.watched,
            |all| all.recorded(kind),
            |r| {
                for (name, value) in record.fields() {
                    match value {
                        SideValue::Number(bits) => r.set(name, exact(&lua, bits)?)?,
                        // As in records of events: -1 for a task that is being released.
                        SideValue::Task(id) => r.set(name, id as i32)?,
                        SideValue::Flag(on) => r.set(name, on)?,
                        SideValue::Text(text) => r.set(name, lua.create_string(text)?)?,
                        SideValue::Hex(bytes) => {
                            let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
                            r.set(name, digits)?;
                        }
                    }
                }
                r.set("cpu", side.cpu)?;
                r.set("time", side.time)
            },
        );
    }

    /// Returns the callbacks of the script and of the monitors beside each other.
    pub(super) fn all_callbacks(&self) -> impl Iterator<Item = &Rc<Callbacks>> {
        std::iter::once(&self.callbacks).chain(&self.further_callbacks)
    }

    /// Returns the active callbacks of the script and of the monitors that a session has started.
    fn callbacks_for(
        &self,
        watched: bool,
        which: impl Fn(&Callbacks) -> &Option<Rc<Callback>>,
    ) -> Vec<Rc<Callback>> {
        let all = self.all_callbacks().filter(|all| watched || all.all_tasks);
        all.filter_map(|all| which(all).clone()).filter(|callback| callback.is_on()).collect()
    }

    /// Handles a loss window: events must not be related across it, on any CPU.
    fn report_window(&mut self, from: f64, to: f64, cpu: u32) {
        self.aggregates.drop_before(to);
        for callback in self.callbacks_for(true, |all| &all.on_lost) {
            self.call_back::<()>(&callback, Phase::Handler, (from, to, cpu));
        }
    }

    /// Counts lost records, or handles the count of a recording.
    fn count_loss(&mut self, side: &SideBand<'_>) {
        match side.what {
            SideBandKind::Lost { count, from, .. } => {
                self.coverage.lost += count;
                self.context.with(|context| context.lose(from, side.time, count, side.cpu));
            }
            // It was written for a report a nanosecond later.
            SideBandKind::LostSoFar { events, of_tasks } => {
                self.lost_so_far(side.time + 1.0, Some(events), of_tasks);
            }
            _ => {}
        }
    }

    /// Handles the kernel's own count of lost events, None if it does not count them, and its count
    /// of lost records of tasks, both up to `time`. Losses without a LOST record so far may include
    /// the ends of states that are open now. No LOST record follows if nothing else happens on that
    /// CPU, as at the end of a burst.
    pub fn lost_so_far(&mut self, time: f64, events: Option<u64>, of_tasks: u64) {
        let count = events.unwrap_or(0) + of_tasks;
        if let Some(events) = events.filter(|_| count > 0 || self.coverage.lost > 0) {
            // Just before the report that they are counted in.
            self.record_side(time - 1.0, 0, RecordedSide::LostSoFar { events, of_tasks });
        }
        if count > self.coverage.lost.max(self.lost_before) {
            self.lost_before = count;
            self.aggregates.drop_before(time);
        }
    }

    /// Returns the time of the last event that was handled, if no further one is wanted.
    pub fn satisfied_at(&self) -> Option<f64> {
        self.satisfied().then(|| self.context.with(|context| context.now))
    }

    /// Lets the drivers count, because only they know which events pass the predicates, and stop at
    /// `max` events in all.
    fn limit_to(&mut self, max: u64) {
        let left = max.saturating_sub(self.counted);
        if let Err(why) = self.dispatch.limit(left) {
            self.failed(&why.to_string());
        }
    }

    /// Cuts a batch so that at most `max` events are handled in all. Events of perilune itself,
    /// which are handled but never printed, do not count, so that `-N 5` prints 5 events.
    fn cut_to(&mut self, batch: &mut Batch, max: u64) {
        let left = max.saturating_sub(self.counted) as usize;
        let slots = batch.slots();
        let last = self.context.with(|context| {
            let shown = slots.iter().enumerate().filter(|(_, slot)| !context.hides(slot));
            let last = left.checked_sub(1).and_then(|last| shown.clone().nth(last));
            last.map(|(last, _)| last).ok_or_else(|| shown.count())
        });
        match last {
            Ok(last) => {
                self.counted = max;
                batch.truncate(last + 1);
            }
            Err(fewer) => self.counted += fewer as u64,
        }
    }
}

impl Host {
    /// Prepares a batch to be handled: applies the limit of events and copies it to the history.
    /// Returns its number of runs of one role, or `None` if it is not wanted.
    pub(in crate::script) fn prepare(&mut self, batch: &mut Batch) -> Option<usize> {
        // After `stop`, what the rings still hold is not wanted either.
        if self.satisfied() {
            return None;
        }
        match self.rules.max_events {
            Some(max) if self.dispatch.chooses() => self.limit_to(max),
            Some(max) => self.cut_to(batch, max),
            None => {}
        }
        let last = batch.slots().last().map(|slot| slot.time)?;
        self.context.with(|context| {
            context.heats.add_all(batch.slots().iter().map(|slot| slot.time));
        });
        self.remember(batch);
        let runs = if self.ordered { batch.runs_in_order() } else { batch.runs_by_role() };
        self.set_now(last);
        Some(runs)
    }

    /// Passes a prepared batch to the handlers.
    pub(in crate::script) fn handle(&mut self, batch: &Batch, runs: usize) {
        let mut from = 0;
        loop {
            match self.dispatch.walk(&self.guard, batch, runs, from) {
                Ok(seen) => {
                    self.coverage.events += seen;
                    return;
                }
                Err(WalkError { why, rest }) => {
                    self.failed(&why);
                    let Some(rest) = rest else {
                        self.coverage.events += batch.len() as u64;
                        return;
                    };
                    from = rest;
                    if self.satisfied() {
                        self.coverage.events += from;
                        return;
                    }
                }
            }
        }
    }

    /// Ends a batch that was handled: counts, prints what has waited for it, and frees memory.
    pub(in crate::script) fn conclude(&mut self, batch: &Batch) {
        if let (Some(max), true) = (self.rules.max_events, self.dispatch.chooses()) {
            self.counted = max.saturating_sub(self.dispatch.left().unwrap_or_default());
        }
        if let Some(last) = batch.slots().last() {
            self.print_waiting(last.time);
        }
        if self.aggregates.stacks_want_sweep()
            && let Err(why) = self.aggregates.sweep()
        {
            self.failed(&why.to_string());
        }
        if self.vm.out_of_memory() {
            self.out_of_memory(batch);
        } else if self.is_idle() {
            self.end_idle();
        }
    }
}

/// Returns 64 bits as scripts see them: a number if a double holds them as a signed integer, else
/// hexadecimal text.
fn exact(lua: &Lua, bits: u64) -> mlua::Result<Value> {
    let signed = bits as i64;
    if (-EXACT..=EXACT).contains(&signed) {
        return Ok(Value::Number(signed as f64));
    }
    Ok(Value::String(lua.create_string(format!("{bits:#x}"))?))
}

/// A double holds every integer within ± this.
const EXACT: i64 = 1 << 53;

impl Sink for Host {
    unsafe fn dispatch(&mut self, batch: &mut Batch) {
        self.pass(batch, Host::handle);
    }

    fn handed_over(&mut self, until_ns: u64) {
        self.set_handled(until_ns);
    }

    fn side(&mut self, side: SideBand<'_>) {
        self.follow(&side);
        self.record(&side);
        match side.what {
            SideBandKind::Fork { pid, tid, parent_pid, parent_tid } => {
                self.context.with(|context| {
                    context.tasks.on_fork(Fork { tid, pid, parent_tid, parent_pid }, side.time);
                    context.tap_task(tid);
                });
                // The thread id may be a reused one with state that was opened after the record of
                // the previous thread's end.
                self.aggregates.forget_task(tid);
                self.call_side(
                    side.watched,
                    |all| &all.on_fork,
                    |r| {
                        r.set("pid", pid)?;
                        r.set("tid", tid)?;
                        r.set("ppid", parent_pid)?;
                        r.set("ptid", parent_tid)?;
                        r.set("time", side.time)
                    },
                );
            }
            SideBandKind::Comm { pid, tid, comm, exec } => {
                self.rename(&side);
                let of_exec: fn(&Callbacks) -> &Option<Rc<Callback>> = |all| &all.on_exec;
                let lua = self.vm.lua().clone();
                let of_comm: fn(&Callbacks) -> &Option<Rc<Callback>> = |all| &all.on_comm;
                let which = if exec { of_exec } else { of_comm };
                self.call_side(side.watched, which, |r| {
                    r.set("pid", pid)?;
                    r.set("tid", tid)?;
                    r.set("comm", lua.create_string(comm)?)?;
                    r.set("time", side.time)
                });
            }
            SideBandKind::Exit { pid, tid } => {
                self.call_side(
                    side.watched,
                    |all| &all.on_exit,
                    |r| {
                        r.set("pid", pid)?;
                        r.set("tid", tid)?;
                        r.set("time", side.time)
                    },
                );
                self.aggregates.drop_task(tid);
                self.context.with(|context| context.tasks.on_exit(tid, pid, side.time));
            }
            SideBandKind::Mmap { pid, tid, address, length, offset, path, file } => {
                let lua = self.vm.lua().clone();
                self.call_side(
                    side.watched,
                    |all| &all.on_mmap,
                    |r| {
                        r.set("pid", pid)?;
                        r.set("tid", tid)?;
                        r.set("address", address as f64)?;
                        r.set("length", length as f64)?;
                        r.set("offset", offset as f64)?;
                        r.set("path", lua.create_string(path)?)?;
                        r.set("build_id", build_id(file))?;
                        r.set("time", side.time)
                    },
                );
            }
            SideBandKind::ForCallback(record) => self.call_recorded(&side, record),
            SideBandKind::Made { .. } | SideBandKind::TasksLost => {}
            SideBandKind::LossWindow { from, to } => self.report_window(from, to, side.cpu),
            SideBandKind::Lost { .. } | SideBandKind::LostSoFar { .. } => self.count_loss(&side),
            SideBandKind::Throttled => self.coverage.throttled += 1,
            SideBandKind::Undecodable => self.coverage.undecodable += 1,
        }
    }

    fn unwind(&mut self, stack: &UserStack<'_>, frames: &mut ChainBuilder<'_>) {
        self.context.with(|context| context.unwind(stack, frames));
    }

    fn process_of(&self, tid: u32) -> Option<u32> {
        self.context.with(|context| context.tasks.process(tid))
    }

    fn stopped(&self) -> bool {
        let enough = if self.finishing { 1 } else { 0 };
        self.satisfied() || signal::interrupts() > enough
    }
}

/// Returns the build id of a file in hexadecimal digits; None if it is known by its inode.
fn build_id(file: FileIdentity<'_>) -> Option<String> {
    let FileIdentity::BuildId(id) = file else { return None };
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}
