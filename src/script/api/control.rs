//! Functions that control and query the run: `stop every alert event_name cpus now
//! per_thread some_tasks`.

use mlua::{FromLua as _, Function, Value};

use super::period::{Period, misuse};
use super::registry::Registry;
use crate::base::report::draw::Level;
use crate::script::vm::callback::Callback;

const STOP: &str = include_str!("../prelude/stop.lua");

/// Adds the functions.
///
/// # Errors
/// The prelude failed to load.
pub(super) fn register(api: &Registry<'_>) -> mlua::Result<()> {
    api.globals.set("every", every(api)?)?;
    api.globals.set("alert", alert(api)?)?;
    api.globals.set("event_name", event_name(api)?)?;
    api.globals.set("cpus", cpus(api)?)?;
    api.globals.set("per_thread", per_thread(api)?)?;
    api.globals.set("some_tasks", some_tasks(api)?)?;
    api.globals.set("now", now(api)?)?;
    api.trusted.run::<()>("stop", STOP, stop(api)?)?;
    api.publish(&["stop"])
}

/// Creates the Rust half of `stop`, which requests the stop; the Lua half also ends the current
/// batch.
fn stop(api: &Registry<'_>) -> mlua::Result<Function> {
    let (state, shared) = (api.state.clone(), api.shared.clone());
    api.lua().create_function(move |lua, why: Value| {
        let kind = why.type_name();
        let why = match lua.coerce_string(why.clone())? {
            _ if why.is_nil() => None,
            Some(text) => Some(text.to_string_lossy()),
            None => return Err(misuse(&format!("stop takes a text, not a {kind}"))),
        };
        let mut state = state.borrow_mut();
        if state.stop.is_none() {
            if let Some(why) = &why {
                shared.note(Level::Info, &format!("stopped: {why}"));
            }
            state.stop = Some(why.unwrap_or_default());
        }
        Ok(())
    })
}

fn every(api: &Registry<'_>) -> mlua::Result<Function> {
    let (state, shared) = (api.state.clone(), api.shared.clone());
    api.lua().create_function(move |lua, (period, handler): (Value, Value)| {
        let Value::Function(handler) = handler else {
            return Err(misuse(
                "every takes a period and a function: every(\"1s\", function() … end)",
            ));
        };
        let period = Period::from_lua(period, lua)?.ns;
        if state.borrow().evsels.borrow().sources.is_open() {
            return Err(misuse(
                "every: this monitor uses a timer; the source of another monitor's events has \
                 events only",
            ));
        }
        let now = shared.with(|context| context.now);
        let callback = Callback::new("every", handler);
        match state.borrow_mut().timers.add(now, period, callback) {
            true => Ok(()),
            false => Err(misuse("a run has at most 256 timers; call every once, in init")),
        }
    })
}

fn alert(api: &Registry<'_>) -> mlua::Result<Function> {
    let (state, shared) = (api.state.clone(), api.shared.clone());
    api.lua().create_function(move |lua, what: Value| {
        let Value::Table(what) = what else {
            return Err(misuse("alert takes a table: alert { TEXT, key = …, every = … }"));
        };
        let show = |value: Value| -> mlua::Result<Option<String>> {
            Ok(lua.coerce_string(value)?.map(|s| s.to_string_lossy()))
        };
        // Raw access: a metamethod that calls `alert` again would use up mlua's few references.
        let text = show(what.raw_get(1)?)?
            .ok_or_else(|| misuse("alert { TEXT, key = …, every = … } needs a text"))?;
        // Without a key, the text itself is the key and is not printed twice.
        let (key, text) = match show(what.raw_get("key")?)? {
            Some(key) => (key.clone(), format!("{key}: {text}")),
            None => (text.clone(), text),
        };
        let every = match what.raw_get("every")? {
            Value::Nil => 60e9,
            period => Period::from_lua(period, lua)?.ns,
        };
        let now = shared.with(|context| context.now);
        if state.borrow_mut().may_alert(&key, now, every) {
            shared.note(Level::Alert, &text);
        }
        Ok(())
    })
}

fn event_name(api: &Registry<'_>) -> mlua::Result<Function> {
    let shared = api.shared.clone();
    api.lua().create_function(move |_, id: f64| {
        let name = shared.with(|context| context.roles.get(id as usize).map(|e| e.name.clone()));
        Ok(name.unwrap_or_else(|| format!("event {id}")))
    })
}

fn cpus(api: &Registry<'_>) -> mlua::Result<Function> {
    let state = api.state.clone();
    api.lua().create_function(move |lua, ()| {
        lua.create_sequence_from(state.borrow().cpus.iter().copied())
    })
}

fn per_thread(api: &Registry<'_>) -> mlua::Result<Function> {
    let state = api.state.clone();
    api.lua().create_function(move |_, ()| Ok(state.borrow().per_thread))
}

fn some_tasks(api: &Registry<'_>) -> mlua::Result<Function> {
    let state = api.state.clone();
    api.lua().create_function(move |_, ()| Ok(state.borrow().some_tasks))
}

fn now(api: &Registry<'_>) -> mlua::Result<Function> {
    let shared = api.shared.clone();
    api.lua().create_function(move |_, ()| Ok(shared.with(|context| context.now)))
}
