//! Functions that control and query the run: `stop every note alert comm cpus cpu_times per_thread
//! now sysctl machine event_name ancestry`.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{FromLua, Function, IntoLua, Lua, LuaString, Table, Value};

use super::callback::Callback;
use super::leaf::SharedContext;
use super::state::{ScriptState, Timer};
use crate::base::draw::Level;
use crate::base::text::unescape::until_nul;
use crate::base::units::{Unit, parse_duration};
use crate::sys::cpu_model::{CpuModel, split_lock_detection};
use crate::sys::cpu_time::away_times;

/// Maximum number of timers in a run: `every` in a handler would add one per event.
const TIMERS: usize = 256;

/// Adds the functions to `env`.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn register(
    lua: &Lua,
    env: &Table,
    state: &Rc<RefCell<ScriptState>>,
    shared: &SharedContext,
    views: &Table,
) -> mlua::Result<()> {
    env.set("every", every(lua, state, shared)?)?;
    env.set("note", note(lua, shared, views)?)?;
    env.set("alert", alert(lua, state, shared)?)?;
    env.set("event_name", event_name(lua, shared)?)?;
    env.set("comm", comm(lua, shared)?)?;
    env.set("ancestry", ancestry(lua, shared)?)?;
    env.set("sysctl", lua.create_function(|lua, name: String| sysctl(lua, &name))?)?;
    env.set("cpus", cpus(lua, state)?)?;
    env.set("cpu_times", cpu_times(lua, state)?)?;
    env.set("per_thread", per_thread(lua, state)?)?;
    env.set("now", now(lua, shared)?)?;
    env.set("machine", machine(lua)?)
}

/// Creates the Rust half of `stop`, which requests the stop; the Lua half also ends the current
/// batch.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn stop(
    lua: &Lua,
    state: &Rc<RefCell<ScriptState>>,
    shared: &SharedContext,
) -> mlua::Result<Function> {
    let (state, shared) = (state.clone(), shared.clone());
    lua.create_function(move |lua, why: Value| {
        let kind = why.type_name();
        let why = match lua.coerce_string(why.clone())? {
            _ if why.is_nil() => None,
            Some(text) => Some(text.to_string_lossy()),
            None => return Err(misuse(&format!("stop takes a text, not a {kind}"))),
        };
        let mut state = state.borrow_mut();
        if state.stop.is_none() {
            if let Some(why) = &why {
                shared.with(|context| context.note(Level::Info, &format!("stopped: {why}")));
            }
            state.stop = Some(why.unwrap_or_default());
        }
        Ok(())
    })
}

fn every(
    lua: &Lua,
    state: &Rc<RefCell<ScriptState>>,
    shared: &SharedContext,
) -> mlua::Result<Function> {
    let (state, shared) = (state.clone(), shared.clone());
    lua.create_function(move |_, (period, handler): (Period, Function)| {
        let period = period.ns;
        let now = shared.with(|context| context.now);
        let mut state = state.borrow_mut();
        if state.timers.len() >= TIMERS {
            return Err(misuse("a run has at most 256 timers; call every once, in init"));
        }
        let callback = Callback::new("every", handler);
        state.timers.push(Timer { period, next: now + period, callback });
        Ok(())
    })
}

/// Formats the text in Lua, and refuses a call from a `__tostring` of another call: nested calls
/// would use up mlua's few references. `views.noting` is reset when the guard stops a call.
const NOTE: &str = r#"
local views, say, format, tostring, pcall, error, select, type = ...
return function(text, ...)
  if views.noting then error("note was called by the __tostring of its own argument", 2) end
  views.noting = true
  local ok, made = pcall(select('#', ...) == 0 and tostring or format, text, ...)
  views.noting = false
  if ok then return say(made) end
  if type(made) == "string" and not made:find "^[^:]+:%d+: " then error((made:gsub("'%?'", "'note'", 1)), 2) end
  error(made, 0)
end"#;

fn note(lua: &Lua, shared: &SharedContext, views: &Table) -> mlua::Result<Function> {
    let shared = shared.clone();
    let say = lua.create_function(move |_, text: LuaString| {
        shared.with(|context| context.script_note(&text.to_string_lossy()));
        Ok(())
    })?;
    let globals = lua.globals();
    let of = |name| globals.get::<Function>(name);
    let format: Function = globals.get::<Table>("string")?.get("format")?;
    let words = (
        views,
        say,
        format,
        of("tostring")?,
        of("pcall")?,
        of("error")?,
        of("select")?,
        of("type")?,
    );
    lua.load(NOTE).set_name("=perilune:note").call(words)
}

fn alert(
    lua: &Lua,
    state: &Rc<RefCell<ScriptState>>,
    shared: &SharedContext,
) -> mlua::Result<Function> {
    let (state, shared) = (state.clone(), shared.clone());
    lua.create_function(move |lua, what: Table| {
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
            shared.with(|context| context.note(Level::Alert, &text));
        }
        Ok(())
    })
}

fn event_name(lua: &Lua, shared: &SharedContext) -> mlua::Result<Function> {
    let shared = shared.clone();
    lua.create_function(move |_, id: f64| {
        let name = shared.with(|context| context.roles.get(id as usize).map(|e| e.name.clone()));
        Ok(name.unwrap_or_else(|| format!("event {id}")))
    })
}

fn comm(lua: &Lua, shared: &SharedContext) -> mlua::Result<Function> {
    let shared = shared.clone();
    lua.create_function(move |lua, tid: f64| {
        let name = shared.with(|context| context.comm_of(tid as u32, 0));
        lua.create_string(if tid == 0.0 { b"swapper" } else { until_nul(&name) })
    })
}

fn ancestry(lua: &Lua, shared: &SharedContext) -> mlua::Result<Function> {
    let shared = shared.clone();
    lua.create_function(move |_, tid: f64| {
        Ok(shared.with(|context| {
            let line = context.tasks.ancestry(tid as u32);
            let names: Vec<String> = line
                .map(|tid| {
                    let name = context.comm_of(tid, 0);
                    String::from_utf8_lossy(until_nul(&name)).into_owned()
                })
                .collect();
            names.join(" <- ")
        }))
    })
}

/// Returns the value of a sysctl, as a number if it is one; nil if there is none.
fn sysctl(lua: &Lua, name: &str) -> mlua::Result<Value> {
    use crate::sys::machine;
    let path = name.replace('.', "/");
    if path.split('/').any(str::is_empty) {
        return Ok(Value::Nil);
    }
    let Some(text) = machine::sysctl::<String>(&path) else { return Ok(Value::Nil) };
    match text.parse() {
        Ok(number) => Ok(Value::Number(number)),
        Err(_) => text.into_lua(lua),
    }
}

fn cpus(lua: &Lua, state: &Rc<RefCell<ScriptState>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |lua, ()| {
        lua.create_sequence_from(state.borrow().cpus.iter().copied())
    })
}

/// Returns idle and stolen time of each CPU; empty for a recording.
fn cpu_times(lua: &Lua, state: &Rc<RefCell<ScriptState>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |lua, ()| {
        let table = lua.create_table()?;
        let is_live = state.borrow().declarer.as_ref().is_some_and(|of| of.cpus.is_some());
        let times = if is_live { away_times() } else { Vec::new() };
        for (cpu, away) in times {
            let of_cpu = lua.create_table_with_capacity(0, 2)?;
            of_cpu.set("idle", away.idle_ns as f64)?;
            of_cpu.set("stolen", away.stolen_ns as f64)?;
            table.set(cpu, of_cpu)?;
        }
        Ok(table)
    })
}

fn per_thread(lua: &Lua, state: &Rc<RefCell<ScriptState>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |_, ()| Ok(state.borrow().per_thread))
}

fn now(lua: &Lua, shared: &SharedContext) -> mlua::Result<Function> {
    let shared = shared.clone();
    lua.create_function(move |_, ()| Ok(shared.with(|context| context.now)))
}

fn machine(lua: &Lua) -> mlua::Result<Table> {
    use crate::sys::machine;
    let table = lua.create_table()?;
    table.set("kernel", machine::kernel_release())?;
    table.set("cpus", crate::sys::cpus::online_cpus().len())?;
    table.set("page_size", machine::page_size())?;
    // Measured or read only on access.
    let lazy = lua.create_table()?;
    let measured = |lua: &Lua, (_, name): (Value, String)| match name.as_str() {
        "tsc_khz" => crate::sys::clock::tsc_khz().map(|khz| khz as f64).into_lua(lua),
        "cpu" => cpu_model(lua)?.into_lua(lua),
        "split_lock_detect" => split_lock_detection().into_lua(lua),
        _ => Ok(Value::Nil),
    };
    lazy.set("__index", lua.create_function(measured)?)?;
    lazy.set("__metatable", false)?;
    table.set_metatable(Some(lazy))?;
    Ok(table)
}

fn cpu_model(lua: &Lua) -> mlua::Result<Table> {
    let model = CpuModel::read();
    let table = lua.create_table()?;
    table.set("vendor", model.vendor)?;
    table.set("family", model.family)?;
    table.set("model", model.model)?;
    table.set("name", model.name)?;
    Ok(table)
}

/// A period argument: `"10s"`, or a number of seconds.
pub(super) struct Period {
    /// Nanoseconds.
    pub ns: f64,
}

impl FromLua for Period {
    fn from_lua(value: Value, _: &Lua) -> mlua::Result<Period> {
        let ns = match &value {
            Value::Integer(n) => *n as f64 * 1e9,
            Value::Number(n) => n * 1e9,
            Value::String(text) => parse_duration(&text.to_string_lossy(), Unit::Second)
                .map_err(|why| misuse(&format!("{why:#}")))?
                as f64,
            other => {
                let kind = other.type_name();
                return Err(misuse(&format!(
                    "a period is text such as \"10s\" or a number of seconds, not a {kind}"
                )));
            }
        };
        // A shorter period would leave no time for anything else.
        if ns >= 1e6 { Ok(Period { ns }) } else { Err(misuse("a period is at least 1ms")) }
    }
}

fn misuse(why: &str) -> mlua::Error {
    mlua::Error::runtime(why)
}
