//! Periods, as functions of scripts take them.

use mlua::{FromLua, Lua, Value};

use crate::base::text::units::{Unit, parse_duration};

/// A period argument: `"10s"`, or a number of seconds.
pub(in crate::script) struct Period {
    /// Nanoseconds.
    pub(in crate::script) ns: f64,
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

/// Returns the error of a call with wrong arguments.
pub(super) fn misuse(why: &str) -> mlua::Error {
    mlua::Error::runtime(why)
}
