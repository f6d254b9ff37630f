//! Function `history`: the events of the run so far, and what happened between two of them.
//!
//! Every batch is copied before its handlers run ([`stat::history`](crate::stat::history)), so that
//! an event can still be printed when a later event shows that it matters. Nothing is filtered on
//! copying: which events to print (same CPU or key) is decided when a window is printed, on the
//! copy, by the code that would have run on the event. Rare queries therefore cost nothing per
//! event. `prelude/history.lua` prints; this module provides its native functions.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::ensure;
use mlua::{LightUserData, Lua, Table, Value};

use super::context::RunContext;
use super::host::Host;
use super::leaf::{self, SharedContext};
use super::state::ScriptState;
use super::table::cell;
use crate::base::draw::{Cell, Report};
use crate::base::slot::Slot;
use crate::base::units::parse_size;
use crate::source::Batch;
use crate::stat::budget::Budget;
use crate::stat::history::{BYTES, History, Missing};

/// State of the windows over a run's history, if it has one.
pub struct Past {
    /// Longest time by which a window begins before a state that is open, in nanoseconds; infinite
    /// if unknown.
    before: f64,
    /// When the first waiting window is complete, in nanoseconds of the run.
    due: f64,
    /// Start of the earliest waiting window.
    from: f64,
    /// Requested events that were evicted, and windows that could not wait for lack of room.
    evicted: u64,
}

impl Default for Past {
    fn default() -> Past {
        Past { before: 0.0, due: f64::INFINITY, from: f64::INFINITY, evicted: 0 }
    }
}

impl RunContext {
    /// Returns whether two slots of one record are the same event, for two roles.
    pub(super) fn are_of_one_event(&self, one: &Slot, other: &Slot) -> bool {
        let name = |slot: &Slot| self.roles.get(slot.ev as usize).map(|event| &event.name);
        name(one) == name(other)
    }

    /// Records that events were lost between two times.
    pub(super) fn lose(&mut self, from: f64, to: f64, count: u64) {
        self.owners.past().iter().for_each(|past| past.borrow_mut().lose(from, to, count));
    }
}

impl Host {
    /// Copies the events of a batch that is about to be handled.
    pub(super) fn remember(&mut self, batch: &Batch) {
        let Some(past) = self.aggregates.past() else { return };
        let mut history = past.borrow_mut();
        history.begin_batch(batch.slots());
        let mut at = 0;
        loop {
            at = self.shared.with(|context| leaf::remember(context, batch, at, &mut history));
            if at == batch.len() {
                return;
            }
            let room = history.room(self.asked_from(batch));
            self.aggregates.rescue(&history, room);
            history.turn(room);
        }
    }

    /// Returns the time from which on events may still be requested, in nanoseconds of the run.
    /// Without order, as at a prompt, an open state may be older than one that was opened before
    /// it.
    fn asked_from(&self, batch: &Batch) -> f64 {
        let (before, from) = self.shared.with(|context| (context.past.before, context.past.from));
        let first = batch.slots().first().filter(|_| self.ordered);
        let first = first.map_or(f64::NEG_INFINITY, |slot| slot.time);
        from.min(self.aggregates.oldest_time().min(first) - before)
    }

    /// Checks that a script that looks back gets events in order of time; without order, some
    /// events between two others come later and would be missing.
    ///
    /// # Errors
    /// The run has a history and is not ordered.
    pub(super) fn check_order(&self) -> anyhow::Result<()> {
        let looks_back = self.shared.with(|context| context.owners.past().is_some());
        let (what, other) = match self.rules.order {
            Some(_) => ("--no-order", "--detail"),
            None => ("order = false", "history()"),
        };
        ensure!(
            self.ordered || !looks_back,
            "{what}: {other} needs events in time order; omit one of the two"
        );
        Ok(())
    }

    /// Returns whether the script relates events: by state that it keeps, or by looking back.
    pub(super) fn has_state(&self) -> bool {
        let looks_back = self.shared.with(|context| context.owners.past().is_some());
        self.aggregates.has_state() || looks_back
    }

    /// Prints the windows whose last event came before `time`.
    pub(super) fn print_waiting(&mut self, time: f64) {
        if self.shared.with(|context| context.past.due) >= time {
            return;
        }
        if let Err(why) = self.dispatch.print_waiting(&self.guard, time) {
            self.failed(&why.to_string());
        }
    }

    /// Prints the complete windows before a report, and at the end also those that still wait.
    pub(super) fn print_waiting_before_report(&mut self) {
        let now = self.shared.with(|context| context.now);
        self.print_waiting(if self.finishing { f64::INFINITY } else { now });
    }

    /// Returns how many requested events were evicted, and windows that could not wait.
    pub(super) fn forgotten(&self) -> u64 {
        self.shared.with(|context| context.past.evicted)
    }
}

/// Creates the native functions of the prelude:
///
/// - `open(memory, before) → slot | nil, why`: starts the history, or returns the existing one; the
///   slot is the one that `next` fills,
/// - `begin(number, from, start, stop, to, values) → reaches`: starts the visit of a window and
///   prints its heading with the missing events; returns whether the history reaches back to its
///   start,
/// - `next() → again | nil`: reads the next event; returns whether it is the same record as the one
///   before,
/// - `due(time, from)`: sets when a window is complete, and the earliest start of the waiting ones;
///   `full()`: counts a window that had no room to wait.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn native(
    lua: &Lua,
    state: &Rc<RefCell<ScriptState>>,
    shared: &SharedContext,
    budget: &Rc<Budget>,
) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    let (declared, context) = (state.clone(), shared.clone());
    let budget = budget.clone();
    let open = move |_: &Lua, (memory, before): (Value, Option<f64>)| {
        let begun = context.with(|context| context.owners.past().is_some());
        if declared.borrow().evsels.borrow().sealed && !begun {
            return Ok((None, Some("a history begins with the run; call history in init".into())));
        }
        let bytes = match bytes(&memory) {
            Ok(bytes) => bytes,
            Err(why) => return Ok((None, Some(why))),
        };
        let before = before.unwrap_or(f64::INFINITY);
        let bytes = if begun { 0 } else { budget.take(bytes) };
        Ok((Some(context.with(|context| open(context, bytes, before))), None))
    };
    native.set("open", lua.create_function(open)?)?;
    let context = shared.clone();
    type WindowArgs = (f64, f64, f64, f64, f64, Option<Table>);
    let begin = move |_: &Lua, (number, from, start, stop, to, values): WindowArgs| {
        let values = values.as_ref().map(pairs).transpose()?.unwrap_or_default();
        let window = Window { from, start, stop, to };
        Ok(context.with(|context| begin(context, number as u64, &window, values)))
    };
    native.set("begin", lua.create_function(begin)?)?;
    let context = shared.clone();
    let next = move |_: &Lua, ()| {
        let next = |context: &mut RunContext| context.owners.past()?.borrow_mut().advance();
        Ok(context.with(next))
    };
    native.set("next", lua.create_function(next)?)?;
    let context = shared.clone();
    let due = move |_: &Lua, (time, from): (f64, f64)| {
        context.with(|context| (context.past.due, context.past.from) = (time, from));
        Ok(())
    };
    native.set("due", lua.create_function(due)?)?;
    let context = shared.clone();
    let full = move |_: &Lua, ()| {
        context.with(|context| context.past.evicted += 1);
        Ok(())
    };
    native.set("full", lua.create_function(full)?)?;
    Ok(native)
}

fn bytes(memory: &Value) -> Result<usize, String> {
    let wrong = || "memory is a number of bytes or text, \"1MiB\"".to_owned();
    let bytes = match memory {
        Value::Nil => return Ok(BYTES),
        Value::Integer(bytes) => u64::try_from(*bytes).map_err(|_| wrong())?,
        Value::Number(bytes) => *bytes as u64,
        Value::String(text) => {
            parse_size(&text.to_string_lossy()).map_err(|why| format!("memory: {why:#}"))?
        }
        _ => return Err(wrong()),
    };
    Ok(bytes.min(BYTES as u64) as usize)
}

fn open(context: &mut RunContext, bytes: usize, before: f64) -> LightUserData {
    context.past.before = context.past.before.max(before);
    let owners = context.owners.clone();
    let past = owners.past_or(|| History::new(bytes).telling(&owners));
    LightUserData((&raw const *past.borrow().read()).cast_mut().cast())
}

/// Times of a window, in nanoseconds of the run; the long state began and ended inside of it.
struct Window {
    from: f64,
    start: f64,
    stop: f64,
    to: f64,
}

/// Starts a window. Its heading is a row of its own, whose `detail` number the events that follow
/// carry.
fn begin(
    context: &mut RunContext,
    number: u64,
    window: &Window,
    values: Vec<(String, Cell)>,
) -> bool {
    let Some(past) = context.owners.past() else { return true };
    let Missing { gone, lost } = past.borrow_mut().between(window.from, window.to);
    let reaches = past.borrow().reaches(window.start);
    context.past.evicted += gone;
    let mut row = vec![("detail".to_owned(), Cell::Int(number.into()))];
    row.extend(values);
    for (name, count) in [("earlier_events_gone", gone), ("events_lost", lost)] {
        if count > 0 {
            row.push((name.to_owned(), Cell::Int(count.into())));
        }
    }
    let stamp = context.clock.stamp(context.clock.clock_ns(window.stop));
    context.out.report(stamp, &[Report::Row(row)]);
    reaches
}

/// Reads a list of names and values.
fn pairs(list: &Table) -> mlua::Result<Vec<(String, Cell)>> {
    let pair = |pair: mlua::Result<Table>| {
        let pair = pair?;
        Ok((pair.get::<String>(1)?, cell(pair.get(2)?)))
    };
    list.sequence_values::<Table>().map(pair).collect()
}
