//! The monitors whose events another one takes: see `prelude/source.lua`.

use std::path::Path;
use std::rc::Rc;

use anyhow::Context as _;
use mlua::{Function, IntoLuaMulti, Lua, MultiValue, Table, Value};

use super::evsel::{info_table, refuse};
use super::registry::Registry;
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::decode::format::Format;
use crate::event::kind::Event;
use crate::script::context::leaf;
use crate::script::context::state::ScriptState;
use crate::script::load::library::{Library, Script, is_path};
use crate::script::load::monitor::{Monitor, ScriptSource};
use crate::script::load::source::{self, SourceOptions};
use crate::script::option::value::{OptionValue, lua_name};
use crate::script::option::{OptionKind, OptionSpec, opt};
use crate::script::vm::describe;
use crate::script::vm::loader::ScriptLoader;
use crate::script::vm::trusted::address;

const SOURCE: &str = include_str!("../prelude/source.lua");

/// Key of the option that sources are run with.
const AS_EVENTS: &str = "as_events";
/// The option for the threshold of a monitor.
const THAN: &str = "than";

/// Adds `evsel.from`, and lets `evsel` take monitors.
///
/// # Errors
/// The prelude failed to load.
pub(super) fn register(api: &Registry<'_>, loader: ScriptLoader) -> mlua::Result<()> {
    let native = api.lua().create_table()?;
    native.set("begin", begin(api, loader)?)?;
    native.set("finish", finish(api)?)?;
    native.set("abandon", abandon(api)?)?;
    native.set("derive", address(leaf::derive as *const ()))?;
    native.set("set_number", address(leaf::set_derived_number as *const ()))?;
    native.set("set_text", address(leaf::set_derived_text as *const ()))?;
    api.trusted.run::<()>("source", SOURCE, native)?;
    // Not a function: it is called, and has `from`.
    api.globals.set("evsel", api.trusted.exports.get::<Value>("evsel")?)
}

/// Creates `begin(asked) → m, opt | nil, why`: loads a monitor, parses its options, and begins its
/// declarations. `asked` has its `name`, and `options`, a text or a table.
fn begin(api: &Registry<'_>, loader: ScriptLoader) -> mlua::Result<Function> {
    let (state, shared) = (api.state.clone(), api.aggregates.shared().clone());
    api.lua().create_function(move |lua, asked: Table| {
        let name: String = asked.get("name")?;
        // Before the file runs: it may ask for itself.
        if loader.is_running() || state.borrow().declarer.is_none() {
            return refuse(lua, "call evsel in init: no event is opened while a file is loaded");
        }
        let (monitor, parsed) = match load(lua, &loader, &name, &asked) {
            Ok(loaded) => loaded,
            Err(why) => return refuse(lua, &format!("{why:#}")),
        };
        let opt = match opt::table(lua, &monitor.options, &parsed.values) {
            Ok(opt) => opt,
            Err(why) => return refuse(lua, &format!("{name}: {why:#}")),
        };
        opt.raw_set(AS_EVENTS, true)?;
        if emits_each(&monitor, &parsed) {
            // Below each duration.
            opt.raw_set(THAN, -1)?;
        }
        monitor.table.raw_set("opt", &opt)?;
        let state = state.borrow();
        if monitor.whole_cpus && state.some_tasks {
            let why = "it watches whole CPUs; omit -p, -t and --cgroup, or add -a";
            return refuse(lua, &format!("{name}: {why}"));
        }
        if let Some(declarer) = &state.declarer
            && let Err(why) = declarer.begin_source(&monitor.name, parsed.rate)
        {
            return refuse(lua, &why);
        }
        let mut evsels = state.evsels.borrow_mut();
        evsels.sources.ordered |= monitor.order == Some(true);
        let watermarks = evsels.sources.watermark.into_iter().chain(parsed.watermark);
        evsels.sources.watermark = watermarks.min();
        shared.undrawn.set(true);
        let columns = monitor.emits.iter().flatten();
        let columns: Vec<(String, bool)> =
            columns.map(|column| (column.name.clone(), column.is_number)).collect();
        let listed = lua.create_table()?;
        for (name, is_number) in columns {
            let column = lua.create_table()?;
            column.set("name", name)?;
            column.set("is_number", is_number)?;
            listed.push(column)?;
        }
        asked.set("columns", listed)?;
        asked.set("monitor", lua.create_any_userdata(monitor.clone())?)?;
        (monitor.table, opt).into_lua_multi(lua)
    })
}

/// Returns whether each duration is emitted: without a threshold, a monitor prints none.
fn emits_each(monitor: &Monitor, parsed: &SourceOptions) -> bool {
    let is_duration = |option: &OptionSpec| matches!(option.kind, OptionKind::Duration(_));
    let is_absent = matches!(parsed.values.get(THAN), None | Some(OptionValue::Absent));
    monitor.option(THAN).is_some_and(is_duration) && is_absent
}

fn load(
    lua: &Lua,
    loader: &ScriptLoader,
    name: &str,
    asked: &Table,
) -> anyhow::Result<(Monitor, SourceOptions)> {
    let script = found(&loader.library(), name)?;
    let returned = loader
        .run(lua, &script)
        .map_err(|why| anyhow::anyhow!("{name}: {}", describe(&why).message))?;
    let origin = script.shown_origin();
    let text = ScriptSource { name: &script.name, origin: &origin, text: &script.text };
    let monitor = Monitor::load(text, &returned, &[])?;
    source::event_of(&monitor, None)?;
    let mut words = match asked.get::<Value>("options")? {
        Value::Table(options) => words_of(&monitor, &options)?,
        Value::String(typed) => {
            let typed = typed.to_string_lossy();
            source::words(&typed).map_err(|why| anyhow::anyhow!("{name}: {why:#}"))?
        }
        _ => Vec::new(),
    };
    if asked.get::<Option<bool>>("stack")?.unwrap_or(false) {
        anyhow::ensure!(
            monitor.has_shared("call-graph"),
            "{name}: 'stack': this monitor takes no stacks; omit the attribute"
        );
        words.push("--call-graph".to_owned());
    }
    let parsed = source::parse(&monitor, words)?;
    Ok((monitor, parsed))
}

/// Returns the monitor of a path or a name. Other files stay unknown to scripts: a file is run only
/// if its text has `emits`, and the error is the same for all that are not.
fn found(library: &Library, name: &str) -> anyhow::Result<Script> {
    if !is_path(name) {
        return library.find(name);
    }
    let script =
        library.at_path(Path::new(name)).ok().filter(|script| script.text.contains("emits"));
    script.with_context(|| {
        format!(
            "{name}: failed to find a monitor with `emits` that can be read (by root, only if \
             other users cannot write it)"
        )
    })
}

/// Returns the options of a script's table as words: `{ freq = 200 }` as `--freq=200`.
fn words_of(monitor: &Monitor, options: &Table) -> anyhow::Result<Vec<String>> {
    let (name, known) = (&monitor.name, source::options(monitor));
    let mut words = Vec::new();
    for pair in options.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let key = match &key {
            Value::String(key) => key.to_string_lossy(),
            _ => anyhow::bail!("{name}: options have names: {{ freq = 200 }}"),
        };
        let Some(option) = known.iter().find(|option| lua_name(&option.long) == key) else {
            let keys: Vec<String> = known.iter().map(|option| lua_name(&option.long)).collect();
            let near = did_you_mean(&nearest(&key, keys.iter().map(String::as_str)));
            anyhow::bail!("{name}: no option '{key}'{near}");
        };
        let dashed = match option.positional {
            true => String::new(),
            false => format!("--{}=", option.long),
        };
        let unit = match option.kind {
            OptionKind::Duration(_) => "ns",
            _ => "",
        };
        let mut add = |value: &Value| match value {
            Value::Boolean(false) => Ok(()),
            Value::Boolean(true) => {
                words.push(dashed.trim_end_matches('=').to_owned());
                Ok(())
            }
            Value::Integer(number) => {
                words.push(format!("{dashed}{number}{unit}"));
                Ok(())
            }
            Value::Number(number) => {
                words.push(format!("{dashed}{number}{unit}"));
                Ok(())
            }
            Value::String(text) => {
                words.push(format!("{dashed}{}", text.to_string_lossy()));
                Ok(())
            }
            other => Err(anyhow::anyhow!(
                "{name}: {key} is text, a number or true, not a {}",
                other.type_name()
            )),
        };
        match &value {
            Value::Table(list) => {
                list.sequence_values::<Value>().try_for_each(|value| add(&value?))?;
            }
            value => add(value)?,
        }
    }
    Ok(words)
}

/// Creates `finish(asked) → index, info, fields | nil, why`: ends the declarations of a monitor and
/// declares its event. `info.number` is its number for `derive`, `info.of` lists the
/// roles of the monitor's own events, and `fields` has the offset of each column.
fn finish(api: &Registry<'_>) -> mlua::Result<Function> {
    let (state, shared) = (api.state.clone(), api.shared.clone());
    let sums = api.aggregates.shared().clone();
    api.lua().create_function(move |lua, asked: Table| {
        let state = state.borrow();
        let Some(declarer) = &state.declarer else { return refuse(lua, "there is no run") };
        let Some((source, roles)) = declarer.end_source() else {
            return refuse(lua, "there is no monitor to finish");
        };
        sums.undrawn.set(state.evsels.borrow().sources.is_open());
        if roles.is_empty() {
            return refuse(lua, "init declares no event: call evsel in it");
        }
        let events: Vec<Rc<Event>> = {
            let evsels = state.evsels.borrow();
            roles.iter().map(|role| evsels.roles[*role].event.clone()).collect()
        };
        let format = common_format(&events);
        let monitor: mlua::UserDataRef<Monitor> = asked.get("monitor")?;
        let event = match source::event_of(&monitor, format) {
            Ok(event) => Rc::new(event),
            Err(why) => return refuse(lua, &format!("{why:#}")),
        };
        let title: Option<String> = asked.get("title")?;
        let declared = declarer.declare_derived(&source, event.clone(), title, Vec::new());
        let (index, info) = match declared {
            Ok(declared) => declared,
            Err(why) => return refuse(lua, &why),
        };
        let number = shared.with(|all| all.derived.add(info.first, &event, format.is_some()));
        let table = info_table(lua, &info)?;
        table.set("number", number)?;
        table.set("of", roles)?;
        let offsets = lua.create_table()?;
        for field in event.format().iter().flat_map(|format| &format.fields) {
            offsets.set(field.name.as_str(), field.offset)?;
        }
        (index, table, offsets).into_lua_multi(lua)
    })
}

/// Returns the layout that all events have.
fn common_format(events: &[Rc<Event>]) -> Option<&Format> {
    let first = events.first()?.format()?;
    // Registers are not a record.
    let is_same =
        |event: &Rc<Event>| event.kind().registers().is_none() && event.format() == Some(first);
    events.iter().all(is_same).then_some(first)
}

/// Creates `abandon()`, which removes what the innermost monitor has declared.
fn abandon(api: &Registry<'_>) -> mlua::Result<Function> {
    let (state, sums) = (api.state.clone(), api.aggregates.shared().clone());
    api.lua().create_function(move |_, ()| {
        let state: std::cell::Ref<'_, ScriptState> = state.borrow();
        if let Some(declarer) = &state.declarer
            && let Some((source, _)) = declarer.end_source()
        {
            declarer.forget_source(&source);
        }
        sums.undrawn.set(state.evsels.borrow().sources.is_open());
        Ok(MultiValue::new())
    })
}
