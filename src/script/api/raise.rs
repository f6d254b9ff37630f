//! Raises the errors of native functions at the line of the caller.

use mlua::{Function, Lua};

use crate::script::vm::trusted::run;

const RAISE: &str = include_str!("../prelude/raise.lua");

/// Returns a function that wraps a function which returns `result | nil, why`. Its second argument,
/// if any, is the function for tables.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn at_caller(lua: &Lua) -> mlua::Result<Function> {
    run(lua, "api", RAISE, ())
}
