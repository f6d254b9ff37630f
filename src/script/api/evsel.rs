//! Functions `evsel`, `expr_of` and `exprs_of`: see `prelude/evsel.lua`.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Function, IntoLuaMulti, Lua, MultiValue, Table, Value, Variadic};

use super::expression;
use super::registry::Registry;
use crate::event::rate::SamplingRate;
use crate::event::selector::Selector;
use crate::script::aggregate::check_names;
use crate::script::context::state::ScriptState;
use crate::script::evsel::declare::EvselInfo;
use crate::script::evsel::derived::NamedSource;
use crate::script::evsel::role::DeclaredCount;
use crate::script::option::Attrs;
use crate::script::option::opt::selector;
use crate::script::vm::trusted::template_function;

const EVSEL: &str = include_str!("../prelude/evsel.lua");

type State = Rc<RefCell<ScriptState>>;

/// Adds the functions. With `system`, expressions may start programs.
///
/// # Errors
/// The prelude failed to load.
pub(super) fn register(api: &Registry<'_>, system: bool) -> mlua::Result<()> {
    let (lua, state) = (api.lua(), api.state);
    let native = lua.create_table()?;
    native.set("declare", declare(lua, state)?)?;
    native.set("selectors", selectors(lua)?)?;
    native.set("narrow", narrow(lua, state)?)?;
    native.set("matching", matching(lua, state)?)?;
    native.set("switch", switch(lua, state)?)?;
    native.set("replaced", replaced(lua, state)?)?;
    native.set("fields", fields(lua, state)?)?;
    native.set("counted", counted(lua, state)?)?;
    native.set("check_options", lua.create_function(check_options)?)?;
    native.set("fill", template_function(lua)?)?;
    native.set("compile", expression::compiler(api, system)?)?;
    api.trusted.run::<()>("evsel", EVSEL, native)?;
    api.publish(&["evsel", "expr_of", "exprs_of"])?;
    api.aggregates.trusted().set("count", api.trusted.export("count_by")?)?;
    // A prompt has its own version; text that was typed there also runs in a monitor.
    api.globals.set("probe", api.trusted.export("evsel")?)
}

/// Returns whether all options of a table are among `known`, or the error.
fn check_options(
    _: &Lua,
    (what, of, known): (String, Table, String),
) -> mlua::Result<(bool, String)> {
    let known: Vec<&str> = known.split_whitespace().collect();
    let checked = check_names(&what, &of, &known);
    Ok((checked.is_ok(), checked.err().unwrap_or_default()))
}

/// Creates the function that declares a count: see `exports.count_by`.
fn counted(lua: &Lua, state: &State) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |_, (evsel, of): (usize, Table)| {
        let count = DeclaredCount {
            evsel,
            table: of.get("table")?,
            keys: of.get("keys")?,
            sums: of.get("sums")?,
            first: of.get::<usize>("first")? - 1,
            name: of.get("name")?,
            condition: of.get("where")?,
            mixed: of.get("mixed")?,
            late_names: of.get("late_names")?,
        };
        state.borrow().evsels.borrow_mut().counts.push(count);
        Ok(())
    })
}

fn declare(lua: &Lua, state: &State) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |lua, (selector, options): (Value, Table)| {
        let state = state.borrow();
        let Some(declarer) = &state.declarer else {
            return refuse(lua, "call evsel in init: no event is opened while a file is loaded");
        };
        match declarer.source_of(&selector) {
            Ok(None) => {}
            Ok(Some(source)) if options.raw_get::<Option<bool>>("count")?.unwrap_or(false) => {
                let why = "a monitor emits its events, the kernel cannot count them; use top";
                return refuse(lua, &format!("{}: {why}", source.name));
            }
            Ok(Some(source)) => return (Value::Nil, asked(lua, &source)?).into_lua_multi(lua),
            Err(why) => return refuse(lua, &why),
        }
        match declarer.declare(&selector, &options) {
            Ok(Some((index, info))) => {
                (index, info_table(lua, &info)?, attrs(lua, &info.attrs)?).into_lua_multi(lua)
            }
            Ok(None) => Ok(MultiValue::new()),
            Err(why) => refuse(lua, &why),
        }
    })
}

/// Creates the function that returns the selectors of a list, as `opt.event` has them.
fn selectors(lua: &Lua) -> mlua::Result<Function> {
    lua.create_function(|lua, text: String| {
        let all = match Selector::parse_list(&text) {
            Ok(all) => all,
            Err(why) => return refuse(lua, &why.to_string()),
        };
        let tables = all.iter().map(|one| selector(lua, one, &Attrs::new()));
        tables.collect::<mlua::Result<Vec<Table>>>()?.into_lua_multi(lua)
    })
}

/// Creates the table `asked` that `begin` of `prelude/source.lua` takes.
fn asked(lua: &Lua, source: &NamedSource) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("name", source.name.as_str())?;
    table.set("options", source.options.as_str())?;
    table.set("stack", source.stack)?;
    table.set("title", source.title.as_deref())?;
    table.set("attrs", attrs(lua, &source.attrs)?)?;
    Ok(table)
}

pub(super) fn refuse(lua: &Lua, why: &str) -> mlua::Result<MultiValue> {
    (Value::Nil, why).into_lua_multi(lua)
}

pub(super) fn info_table(lua: &Lua, info: &EvselInfo) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("name", info.name.as_str())?;
    table.set("id", info.first)?;
    table.set("title", info.title.as_deref())?;
    table.set("count", info.count_only)?;
    table.set("unit", info.unit.as_deref())?;
    table.set("names", info.names.clone())?;
    match info.rate {
        Some(SamplingRate::Frequency(hz)) => table.set("freq", hz)?,
        Some(SamplingRate::Period(events)) => table.set("period", events)?,
        None => {}
    }
    table.set("roles", (info.first..info.first + info.names.len()).collect::<Vec<_>>())?;
    Ok(table)
}

fn attrs(lua: &Lua, all: &[(String, Option<String>)]) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, value) in all {
        match value {
            Some(value) => table.set(name.as_str(), value.as_str())?,
            None => table.set(name.as_str(), true)?,
        }
    }
    Ok(table)
}

fn narrow(lua: &Lua, state: &State) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |lua, (index, format, args): (usize, String, Variadic<Value>)| {
        let state = state.borrow();
        let Some(declarer) = &state.declarer else {
            return refuse(lua, "there is no run to filter");
        };
        match declarer.narrow(index, &format, &args) {
            Ok(()) => true.into_lua_multi(lua),
            Err(why) => refuse(lua, &why),
        }
    })
}

fn matching(lua: &Lua, state: &State) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |lua, (index, field, list): (usize, String, String)| {
        let state = state.borrow();
        let Some(declarer) = &state.declarer else {
            return refuse(lua, "there is no run to filter");
        };
        match declarer.matching(index, &field, &list) {
            Ok(()) => true.into_lua_multi(lua),
            Err(why) => refuse(lua, &why),
        }
    })
}

fn switch(lua: &Lua, state: &State) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |_, (index, on): (usize, bool)| {
        if let Some(declarer) = &state.borrow().declarer {
            declarer.switch(index, on);
        }
        Ok(())
    })
}

fn replaced(lua: &Lua, state: &State) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |lua, index: usize| {
        let state = state.borrow();
        let Some(declarer) = &state.declarer else {
            return refuse(lua, "there is no run whose handler can be replaced");
        };
        match declarer.replaced(index) {
            Ok(()) => true.into_lua_multi(lua),
            Err(why) => refuse(lua, &why),
        }
    })
}

fn fields(lua: &Lua, state: &State) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |lua, index: usize| match &state.borrow().declarer {
        Some(declarer) => declarer.fields(lua, index),
        None => lua.create_table(),
    })
}
