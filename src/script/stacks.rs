//! The words that draw stacks: `stack_text`, and those that `stack.format` makes.
//!
//! A stack is a number in a script's hands. What such a word draws is known to be one: a column that has it as its `draw`
//! is a column of stacks, an array of frames in JSON and a flame graph with `--flame-graph`.

use std::rc::Rc;

use mlua::{Function, Lua, Table, Value};

use super::aggregate::{Aggregates, frames_of};
use super::words::WORD;
use crate::base::stack_style::StackStyle;

/// Puts the words into `env`.
pub(super) fn register(lua: &Lua, env: &Table, aggregates: &Aggregates) -> mlua::Result<()> {
    env.set("stack_text", word(lua, aggregates, "stack_text", StackStyle::symbols())?)?;
    // The Lua state owns this function, and the aggregates own values of the state.
    let weak = aggregates.downgrade();
    let format =
        lua.create_function(move |lua, spec: Value| match (style(&spec), weak.upgrade()) {
            (Ok(style), Some(own)) => Ok((Some(word(lua, &own, "a stack's format", style)?), None)),
            (Ok(_), None) => Ok((None, Some("the run has ended".to_owned()))),
            (Err(why), _) => Ok((None, Some(why))),
        })?;
    let raise: Function = lua.load(WORD).set_name("=words").eval()?;
    let stack = lua.create_table()?;
    stack.set("format", raise.call::<Function>(format)?)?;
    env.set("stack", stack)
}

/// A word that draws in a style.
fn word(
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
    let raise: Function = lua.load(WORD).set_name("=words").eval()?;
    let word: Function = raise.call(draw)?;
    aggregates.draws_stacks(&word, style);
    Ok(word)
}

/// `stack.format "symbol,offset"` or `stack.format { "symbol", "offset", frames = " <- " }`.
fn style(spec: &Value) -> Result<StackStyle, String> {
    let usage = "stack.format takes words: stack.format { \"symbol\", \"offset\", frames = \";\" }";
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

/// In a table's cell and in a text, frames are joined.
fn joined(style: StackStyle) -> Result<StackStyle, String> {
    let between = style.between.unwrap_or_else(|| ";".to_owned());
    Ok(StackStyle { between: Some(between), ..style })
}
