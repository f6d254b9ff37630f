//! The words `expr_of` and `exprs_of`: expressions of options and attributes, as functions of the record.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Function, Lua, Table, Value};

use super::state::State;
use crate::decode::format::Format;
use crate::event::expr::Expr;

/// Registers the Rust half: `compile(sources, index) → function | nil, why`.
pub(super) fn compiler(
    lua: &Lua,
    env: &Table,
    state: &Rc<RefCell<State>>,
) -> mlua::Result<Function> {
    let (state, env) = (state.clone(), env.clone());
    lua.create_function(move |lua, (sources, index): (Vec<String>, usize)| {
        match compile(lua, &env, &state.borrow(), &sources, index) {
            Ok(function) => Ok((Value::Function(function), None)),
            Err(why) => Ok((Value::Nil, Some(why))),
        }
    })
}

fn compile(
    lua: &Lua,
    env: &Table,
    state: &State,
    sources: &[String],
    index: usize,
) -> Result<Function, String> {
    let evsels = state.evsels.borrow();
    let roles = evsels.roles_of(index);
    let mut values = Vec::new();
    for source in sources {
        let mut value = None;
        for role in roles {
            let empty = Format::default();
            let format = role.event.format().unwrap_or(&empty);
            value =
                Some(Expr::parse(source, &role.event.name, format).map_err(|why| why.to_string())?);
        }
        let value = value
            .ok_or("an expression needs the evsel whose fields it names: expr_of(source, ev)")?;
        values.push(value.lua());
    }
    let text = format!("return function(e) return {} end", values.join(", "));
    lua.load(text)
        .set_name("=perilune:expression")
        .set_environment(env.clone())
        .eval()
        .map_err(|why| why.to_string())
}
