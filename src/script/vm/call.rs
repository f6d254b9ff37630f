//! Calls script functions under the guard, and adds a location to errors that have none.

use mlua::{FromLuaMulti, Function, IntoLuaMulti};

use crate::script::vm::guard::{Failure, Guard, Phase};
use crate::script::vm::script_error::{STDLIB, ScriptError, file_name};

/// Advice for refused memory.
const MORE: &str = "--lua-mem raises the limit";

/// Calls `function`, which a script wrote.
///
/// # Errors
/// The script's error, or the reason why the guard stopped it.
pub(in crate::script) fn call<R: FromLuaMulti>(
    guard: &Guard,
    phase: Phase,
    function: &Function,
    args: impl IntoLuaMulti,
) -> Result<R, Failure> {
    guard
        .run(phase, || function.call(args))
        .map_err(|why| explained(why, place_of(function).as_deref()))
}

/// Returns the failure, with the location where the script's function begins if Lua knew no line.
pub(in crate::script) fn explained(why: Failure, place: Option<&str>) -> Failure {
    match why {
        Failure::Script(error) => Failure::Script(explained_error(error, place)),
        Failure::Stopped(_) => why,
    }
}

/// Does the same for a script's error. Where memory is refused Lua runs no error handler, so the
/// line is unknown; the error then also names the fix.
pub(in crate::script) fn explained_error(error: ScriptError, place: Option<&str>) -> ScriptError {
    if !error.out_of_memory {
        return error.at(place);
    }
    let error = error.at(place);
    ScriptError { message: format!("{}; {MORE}", error.message), ..error }
}

/// Returns `file.lua:31`, the location where a script's function begins.
pub(in crate::script) fn place_of(function: &Function) -> Option<String> {
    let info = function.info();
    let source = info.source?;
    let path = match source.strip_prefix('=') {
        Some(ours) => ours.strip_prefix(STDLIB)?,
        None => source.strip_prefix('@')?,
    };
    Some(format!("{}:{}", file_name(path), info.line_defined?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::vm::script_error::describe_text;

    #[test]
    fn refused_memory_has_a_location_and_names_the_fix() {
        let error = explained_error(describe_text("not enough memory"), Some("a.lua:3"));
        assert_eq!(error.message, "a.lua:3: not enough memory; --lua-mem raises the limit");
        let error = explained_error(describe_text("b.lua:7: no"), Some("a.lua:3"));
        assert_eq!(error.message, "b.lua:7: no");
    }

    #[test]
    fn the_place_of_a_function_is_its_first_line() {
        let lua = mlua::Lua::new();
        let load = |name: &str| {
            lua.load("\n\nreturn function() end").set_name(name).eval::<Function>().unwrap()
        };
        assert_eq!(place_of(&load("@/etc/a.lua")).as_deref(), Some("a.lua:3"));
        assert_eq!(place_of(&load("=perilune:view")), None);
        assert_eq!(place_of(&load("=perilune:stdlib/b.lua")).as_deref(), Some("b.lua:3"));
    }
}
