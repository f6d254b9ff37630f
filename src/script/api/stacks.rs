//! Functions that draw stacks: `stack_text`, and those that `stack.format` makes; `stack.none`.
//!
//! A script holds a stack as a number. A column whose `draw` is such a function is therefore a
//! column of stacks: an array of frames in JSON, and a flame graph with `--flame-graph`.

use std::rc::Rc;

use mlua::{Function, Lua, Table, Value};

use super::raise;
use crate::base::text::stack_style::StackStyle;
use crate::script::aggregate::{Aggregates, frames_of};
use crate::stack::EMPTY;

/// Adds the functions to `env`.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn register(lua: &Lua, env: &Table, aggregates: &Aggregates) -> mlua::Result<()> {
    env.set("stack_text", drawing_function(lua, aggregates, "stack_text", StackStyle::symbols())?)?;
    // Weak, because the Lua state owns this function, and the aggregates own values of the state.
    let weak = aggregates.downgrade();
    let format =
        lua.create_function(move |lua, spec: Value| match (style(&spec), weak.upgrade()) {
            (Ok(style), Some(own)) => {
                Ok((Some(drawing_function(lua, &own, "a stack's format", style)?), None))
            }
            (Ok(_), None) => Ok((None, Some("the run has ended".to_owned()))),
            (Err(why), _) => Ok((None, Some(why))),
        })?;
    let stack = lua.create_table()?;
    stack.set("format", raise::at_caller(lua)?.call::<Function>(format)?)?;
    stack.set("none", EMPTY)?;
    env.set("stack", stack)
}

/// Creates a function that draws stacks in a style.
fn drawing_function(
    lua: &Lua,
    aggregates: &Aggregates,
    name: &'static str,
    style: StackStyle,
) -> mlua::Result<Function> {
    let style = Rc::new(style);
    let (shared, shown) = (aggregates.shared().clone(), style.clone());
    let draw = lua.create_function(move |_, value: Value| {
        let id = match value {
            Value::Integer(id) => id as f64,
            Value::Number(id) => id,
            other => {
                let kind = other.type_name();
                return Ok((
                    None,
                    Some(format!("{name} draws the number of a stack, not a {kind}")),
                ));
            }
        };
        let frames = frames_of(&shared, id, &shown);
        let between = shown.between.as_deref().unwrap_or("\n");
        Ok((Some(frames.join(between) + &shown.behind), None))
    })?;
    let function: Function = raise::at_caller(lua)?.call(draw)?;
    aggregates.draws_stacks(&function, style);
    Ok(function)
}

/// Parses `stack.format "symbol,offset"` or `stack.format { "symbol", "offset", frames = " <- " }`.
fn style(spec: &Value) -> Result<StackStyle, String> {
    let usage = "stack.format takes names: stack.format { \"symbol\", \"offset\", frames = \";\" }";
    let table = match spec {
        Value::String(list) => return joined(StackStyle::parse(&list.to_string_lossy())?),
        Value::Table(table) => table,
        _ => return Err(usage.to_owned()),
    };
    let mut words = Vec::new();
    let (mut between, mut behind) = (None, None);
    for (key, value) in table.pairs::<Value, Value>().flatten() {
        let Value::String(text) = value else { return Err(usage.to_owned()) };
        let text = text.to_string_lossy();
        match key {
            Value::Integer(_) => words.push(text),
            Value::String(key) if key == "frames" => between = Some(text),
            Value::String(key) if key == "stacks" => behind = Some(text),
            _ => return Err(usage.to_owned()),
        }
    }
    let style = StackStyle::parse(&words.join(","))?;
    let between = between.or(style.between.clone());
    joined(StackStyle { between, behind: behind.unwrap_or_default(), ..style })
}

/// Sets the separator of frames, which are joined in a table's cell and in text.
fn joined(style: StackStyle) -> Result<StackStyle, String> {
    let between = style.between.unwrap_or_else(|| ";".to_owned());
    Ok(StackStyle { between: Some(between), ..style })
}
