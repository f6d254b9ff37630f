//! Words that draw: a value becomes text. Scripts call them, and columns name them as their `draw`.
//!
//! A word takes a number or text. Text that is a number is read as one, since a 64-bit field that no double
//! holds reaches scripts as its hexadecimal text; other text passes unchanged, so a field that a kernel prints
//! as text on one version and as a number on another needs no test. Anything else is an error at the
//! script's own line.
//!
//! `duration` and `percent` are kinds of option, too: with a table they are what stood there before.

use mlua::{Function, Lua, Table, Value};

use crate::base::{
    names,
    number::{self, Number},
};

/// How a word draws a number.
pub type DrawNumber = fn(Number) -> String;

/// What every record has besides the event's own fields; see `sample_getters` of `prelude/view.lua`.
pub const OF_THE_SAMPLE: [&str; 13] = [
    "_time",
    "_cpu",
    "_pid",
    "_tid",
    "_comm",
    "_instance",
    "_event",
    "_stack",
    "_function",
    "_period",
    "_ip",
    "_addr",
    "_text",
];

/// Each word as it is called in Lua, in alphabetical order.
pub const WORDS: &[(&str, DrawNumber)] = &[
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

/// Puts each word into `env`, where the kinds of option already are: a word of the same name hands them its tables.
pub fn register(lua: &Lua, env: &Table) -> mlua::Result<()> {
    let word: Function = lua.load(WORD).set_name("=words").eval()?;
    for &(name, draw) in WORDS {
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
                    let why = format!("{name}: wants a number or text, not {kind}");
                    return Ok((Value::Nil, Some(why)));
                }
            };
            Ok((Value::String(lua.create_string(text)?), None))
        })?;
        let declare: Option<Function> = env.get(name)?;
        env.set(name, word.call::<Function>((drawn, declare))?)?;
    }
    Ok(())
}

/// A word of `draw`: raises what that found wrong at the line that called the word.
pub(super) const WORD: &str = "
local error, type = error, type
return function(draw, declare)
  return function(value)
    if declare and type(value) == 'table' then return declare(value) end
    local text, why = draw(value)
    if text then return text end
    error(why, 2)
  end
end
";

/// The text drawn, or `None` if it passes unchanged. An address's bytes are text to Lua.
fn draw_text(name: &str, draw: DrawNumber, text: &[u8]) -> Option<String> {
    if name == "ip" {
        return names::ip_bytes(text);
    }
    Number::parse(text).map(draw)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a line of a script named `site.lua` yields.
    fn eval(line: &str) -> mlua::Result<Vec<u8>> {
        let lua = Lua::new();
        let env = lua.create_table()?;
        register(&lua, &env)?;
        let text: mlua::LuaString =
            lua.load(line).set_name("@site.lua").set_environment(env).eval()?;
        Ok(text.as_bytes().to_vec())
    }

    #[test]
    fn a_word_draws_numbers_and_numbers_in_text() {
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
    fn text_that_is_no_number_passes_unchanged() {
        for name in WORDS.iter().map(|(name, _)| name) {
            assert_eq!(eval(&format!("return {name}('a\\255b')")).unwrap(), b"a\xffb", "{name}");
        }
    }

    #[test]
    fn a_kind_of_option_of_the_same_name_takes_the_tables() {
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
        assert!(error.contains("site.lua:2: hex: wants a number or text, not table"), "{error}");
        let error = eval("local t = ip(nil) return t").unwrap_err().to_string();
        assert!(error.contains("site.lua:1: ip: wants a number or text, not nil"), "{error}");
    }
}
