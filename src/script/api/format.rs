//! Formatting functions: each turns a value into text. Scripts call them, and columns name them as
//! their `draw`.
//!
//! A function takes a number or text. Text that is a number is parsed, because a 64-bit field that
//! a double cannot hold exactly is passed to scripts as hexadecimal text. Other text passes
//! unchanged, so a field that the kernel prints as text in one version and as a number in another
//! needs no test. Anything else is an error at the script's own line.
//!
//! `duration` and `percent` are also constructors of options: called with a table they construct an
//! option.

use mlua::{Function, Lua, Table, Value};

use super::raise;
use crate::base::{
    kernel::names,
    text::number::{self, Number},
};

/// Formats a number as text.
pub type DrawNumber = fn(Number) -> String;

/// Lua name and formatter of each function, in alphabetical order.
pub const FORMATTERS: &[(&str, DrawNumber)] = &[
    ("bytes", number::bytes),
    ("device", names::device),
    ("duration", number::duration),
    ("errno_name", names::errno_name),
    ("hex", number::hex),
    ("ip", names::ip),
    ("percent", number::percent),
    ("signal_name", names::signal_name),
    ("syscall_name", names::syscall_name),
    ("task_state", names::task_state),
];

/// Adds the functions to `env`, which already has the option constructors: a function of the same
/// name passes tables on to the constructor.
///
/// # Errors
/// Lua is out of memory.
pub fn register(lua: &Lua, env: &Table) -> mlua::Result<()> {
    let wrap = raise::at_caller(lua)?;
    for &(name, draw) in FORMATTERS {
        let drawn = lua.create_function(move |lua, value: Value| {
            let text = match value {
                Value::Integer(n) => draw(Number::Int(n.into())),
                Value::Number(n) => draw(n.into()),
                Value::String(text) => match draw_text(name, draw, &text.as_bytes()) {
                    Some(drawn) => drawn,
                    None => return Ok((Value::String(text), None)),
                },
                other => {
                    let kind = other.type_name();
                    let why = format!("{name}: expected a number or text, not {kind}");
                    return Ok((Value::Nil, Some(why)));
                }
            };
            Ok((Value::String(lua.create_string(text)?), None))
        })?;
        let declare: Option<Function> = env.get(name)?;
        env.set(name, wrap.call::<Function>((drawn, declare))?)?;
    }
    Ok(())
}

/// Returns the formatted text, or `None` if it passes unchanged. The bytes of an address are text
/// to Lua.
fn draw_text(name: &str, draw: DrawNumber, text: &[u8]) -> Option<String> {
    if name == "ip" {
        return names::ip_bytes(text);
    }
    Number::parse(text).map(draw)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evaluates a line of a script named `site.lua`.
    fn eval(line: &str) -> mlua::Result<Vec<u8>> {
        let lua = Lua::new();
        let env = lua.create_table()?;
        register(&lua, &env)?;
        let text: mlua::LuaString =
            lua.load(line).set_name("@site.lua").set_environment(env).eval()?;
        Ok(text.as_bytes().to_vec())
    }

    #[test]
    fn a_function_formats_numbers_and_numeric_text() {
        for (line, text) in [
            ("return hex(-1)", "0xffffffffffffffff"),
            ("return hex('0xffffffff81000000')", "0xffffffff81000000"),
            ("return bytes(1.5 * 1024)", "1.5KiB"),
            ("return duration(12345678)", "12.3ms"),
            ("return percent(0/0)", "nan"),
            ("return errno_name(-4)", "EINTR"),
            ("return signal_name(9)", "KILL"),
            ("return task_state(256)", "R+"),
            ("return device(8388609)", "8:1"),
            ("return ip('\\10\\0\\0\\7')", "10.0.0.7"),
        ] {
            assert_eq!(eval(line).unwrap(), text.as_bytes(), "{line}");
        }
    }

    #[test]
    fn text_that_is_not_a_number_is_returned_unchanged() {
        for name in FORMATTERS.iter().map(|(name, _)| name) {
            assert_eq!(eval(&format!("return {name}('a\\255b')")).unwrap(), b"a\xffb", "{name}");
        }
    }

    #[test]
    fn an_option_function_of_the_same_name_gets_the_tables() {
        let lua = Lua::new();
        let env = lua.create_table().unwrap();
        let kind = lua.load("return function(spec) return 'option ' .. spec[1] end");
        env.set("duration", kind.eval::<Function>().unwrap()).unwrap();
        register(&lua, &env).unwrap();
        let both = lua.load("return duration { 'than' } .. ', ' .. duration(1500)");
        assert_eq!(both.set_environment(env).eval::<String>().unwrap(), "option than, 1.5us");
    }

    #[test]
    fn a_wrong_type_is_an_error_at_the_scripts_own_line() {
        let error = eval("\nlocal text = hex({})\nreturn text").unwrap_err().to_string();
        assert!(error.contains("site.lua:2: hex: expected a number or text, not table"), "{error}");
        let error = eval("local t = ip(nil) return t").unwrap_err().to_string();
        assert!(error.contains("site.lua:1: ip: expected a number or text, not nil"), "{error}");
    }
}
