//! Function `history`: the events of the run so far, and what happened between two of them.
//!
//! Every batch is copied before its handlers run ([`stat::history`](crate::stat::history)), so that
//! an event can still be printed when a later event shows that it matters. Nothing is filtered on
//! copying: which events to print (same CPU or key) is decided when a window is printed, on the
//! copy, by the code that would have run on the event. Rare queries therefore cost nothing per
//! event. `prelude/history.lua` prints; this module provides its native functions.

use mlua::{LightUserData, Lua, Table, Value};

use super::registry::Registry;
use crate::base::report::cell::Cell;
use crate::base::report::draw::Report;
use crate::base::text::units::parse_size;
use crate::script::context::RunContext;
use crate::script::vm::cell::cell;
use crate::script::vm::trusted::address;
use crate::stat::history::{BYTES, Missing};

const HISTORY: &str = include_str!("../prelude/history.lua");

/// Adds the function.
///
/// # Errors
/// The prelude failed to load.
pub(super) fn register(api: &Registry<'_>) -> mlua::Result<()> {
    let native = native(api)?;
    native.set("slot_of_kept", api.slot_of_kept()?)?;
    api.trusted.run::<()>("history", HISTORY, native)?;
    api.publish(&["history"])
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
fn native(api: &Registry<'_>) -> mlua::Result<Table> {
    let (lua, shared) = (api.lua(), api.shared);
    let native = lua.create_table()?;
    let (declared, context) = (api.state.clone(), shared.clone());
    let budget = api.aggregates.shared().budget.clone();
    let open = move |_: &Lua, (memory, before): (Value, Option<f64>)| {
        let begun = context.with(|context| context.looks_back());
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
    let past = context.owners.past_or_begin(bytes);
    address(&raw const *past.borrow().read())
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
    let mut row = vec![("detail".to_owned(), Cell::whole(number.into()))];
    row.extend(values);
    for (name, count) in [("earlier_events_gone", gone), ("events_lost", lost)] {
        if count > 0 {
            row.push((name.to_owned(), Cell::whole(count.into())));
        }
    }
    let stamp = context.stamp(window.stop);
    context.printed += 1;
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
