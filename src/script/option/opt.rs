//! The table `opt` that `init` gets: a value for each option; selectors are tables.

use anyhow::Context as _;
use mlua::{Lua, Table, Value};

use crate::event::selector::Selector;
use crate::script::option::value::{
    OptionValue, OptionValues, lua_name, selectors, to_lua, unparsed,
};
use crate::script::option::{AttrKind, Attrs, OptionKind, OptionSpec};

/// Creates the table from the declared options and the typed values.
///
/// # Errors
/// A selector does not parse, or has an attribute that the monitor does not declare.
pub fn table(lua: &Lua, options: &[OptionSpec], values: &OptionValues) -> anyhow::Result<Table> {
    let table = to_lua(lua, values)?;
    for option in options.iter().filter(|o| !values.contains_key(&o.long)) {
        table.raw_set(lua_name(&option.long), false)?;
    }
    for (key, option, value) in unparsed(options, values) {
        let parsed = match (value, &option.kind) {
            (OptionValue::Events(typed), OptionKind::Events { attrs, .. }) => {
                groups(lua, option, attrs, typed)?
            }
            (OptionValue::Event(typed), OptionKind::Event { attrs }) => {
                let all = selectors(attrs, typed).with_context(|| option.typed())?;
                let one = all.first().context("a selector without an event")?;
                Value::Table(selector(lua, one, attrs)?)
            }
            (OptionValue::Expr(source), _) => Value::String(lua.create_string(source)?),
            _ => continue,
        };
        table.raw_set(key, parsed)?;
    }
    Ok(table)
}

fn groups(
    lua: &Lua,
    option: &OptionSpec,
    attrs: &Attrs,
    typed: &[String],
) -> anyhow::Result<Value> {
    let groups = lua.create_table()?;
    for text in typed {
        let group = lua.create_table()?;
        for one in selectors(attrs, text).with_context(|| option.typed())? {
            group.push(selector(lua, &one, attrs)?)?;
        }
        groups.push(group)?;
    }
    Ok(Value::Table(groups))
}

/// Creates `{ text, name, filter, stack, options, attr = { key = …, { "key", … } … } }`; absent
/// values are false. An event in braces also has `group`, their text, and `weak`.
///
/// # Errors
/// Lua is out of memory.
pub(in crate::script) fn selector(lua: &Lua, one: &Selector, attrs: &Attrs) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("text", one.text.as_str())?;
    table.raw_set("name", one.name.as_str())?;
    table.raw_set(
        "filter",
        one.filter.as_deref().map_or(Ok(Value::Boolean(false)), |f| text(lua, f))?,
    )?;
    table.raw_set("stack", one.stack())?;
    table.raw_set("options", one.options.as_deref().unwrap_or_default())?;
    if let Some(group) = &one.group {
        table.raw_set("group", &*group.name)?;
        table.raw_set("weak", group.is_weak)?;
    }
    let listed = lua.create_table()?;
    for name in attrs.keys() {
        listed.raw_set(name.as_str(), false)?;
    }
    for (name, value) in &one.attrs {
        let value = match value {
            Some(value) if !matches!(attrs.get(name), Some(AttrKind::Flag)) => text(lua, value)?,
            _ => Value::Boolean(true),
        };
        listed.raw_set(name.as_str(), &value)?;
        let pair = lua.create_table()?;
        pair.push(name.as_str())?;
        pair.push(value)?;
        listed.push(pair)?;
    }
    table.raw_set("attr", listed)?;
    Ok(table)
}

fn text(lua: &Lua, text: &str) -> mlua::Result<Value> {
    lua.create_string(text).map(Value::String)
}
