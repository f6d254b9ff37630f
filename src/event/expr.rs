//! The expression of an attribute (`key=prev_pid`): what it reads, and the Lua that reads it from the record `e`.
//!
//! An expression is a field, a value of the sample, or a number. The language is meant to become C's
//! (`key=(__cpu<<32)|vec`); until then anything else is refused, not guessed at.

use crate::{
    decode::format::Format,
    event::{field, syntax::SyntaxError},
};

/// A checked expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// A field of the event.
    Field(String),
    /// A value of the sample; its name on the record.
    Sample(&'static str),
    /// A whole number.
    Number(i64),
}

/// The sample's values: as written in an expression, and on the record.
const SAMPLE: [(&str, &str); 7] = [
    ("_pid", "_pid"),
    ("_tid", "_tid"),
    ("_cpu", "_cpu"),
    ("_time", "_time"),
    ("_comm", "_comm"),
    // The words of the older tool, where pid is the thread.
    ("__pid", "_tid"),
    ("__cpu", "_cpu"),
];

impl Expr {
    /// Parses an expression over an event's fields. `event` is its name, for messages.
    ///
    /// The event's own fields come first, so a field that is named like a sample's value stays reachable.
    pub fn parse(text: &str, event: &str, format: &Format) -> Result<Expr, SyntaxError> {
        let start = text.len() - text.trim_start().len();
        let word = text.trim();
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if word.is_empty() {
            return Err(SyntaxError::new(text, start, "an expression is missing"));
        }
        if let Some(number) = integer(word) {
            return Ok(Expr::Number(number));
        }
        let end = word.find(|c| !is_word(c)).unwrap_or(word.len());
        if end < word.len() || word.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(SyntaxError::new(
                text,
                start + end,
                "expressions may be a field or a number",
            ));
        }
        if format.field(word).is_some() {
            return Ok(Expr::Field(word.to_owned()));
        }
        match SAMPLE.iter().find(|(name, _)| *name == word) {
            Some((_, value)) => Ok(Expr::Sample(value)),
            None => Err(SyntaxError::new(text, start, field::unknown(event, word, format))),
        }
    }

    /// Lua source of the value, read from the record `e`.
    pub fn lua(&self) -> String {
        match self {
            Expr::Field(name) => format!("e.{}", lua_name(name)),
            Expr::Sample(name) => format!("e.{name}"),
            // The parentheses keep `2^-1` and `x--1` from meaning something else where it is put in.
            Expr::Number(number) if *number < 0 => format!("({number})"),
            Expr::Number(number) => number.to_string(),
        }
    }
}

/// What a field is called on a record in Lua: a keyword gets an underscore (`e.end_`).
pub fn lua_name(field: &str) -> String {
    let underscore = if KEYWORDS.contains(&field) { "_" } else { "" };
    format!("{field}{underscore}")
}

/// LuaJIT's keywords, `goto` included.
const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
    "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// A number that Lua holds exactly, decimal or hexadecimal.
fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None if digits.starts_with(|c: char| c.is_ascii_digit()) => digits.parse().ok()?,
        None => return None,
    };
    let value = i64::try_from(value).ok().filter(|value| *value <= 1 << 53)?;
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lua(text: &str) -> String {
        parse(text).unwrap().lua()
    }

    fn parse(text: &str) -> Result<Expr, SyntaxError> {
        let format = "name: x\nID: 1\nfield:int pid; offset:8; size:4; signed:1;\n\
                      field:int end; offset:12; size:4; signed:1;\n\
                      field:int __pid; offset:16; size:4; signed:1;\n\
                      field:int common_pid; offset:4; size:4; signed:1;\n";
        Expr::parse(text, "sys:x", &Format::parse(format).unwrap())
    }

    #[test]
    fn fields_samples_and_numbers_become_lua() {
        assert_eq!(lua("pid"), "e.pid");
        assert_eq!(lua(" common_pid "), "e.common_pid");
        assert_eq!(lua("end"), "e.end_");
        assert_eq!(lua("_tid"), "e._tid");
        assert_eq!(lua("__cpu"), "e._cpu");
        assert_eq!(lua("1000"), "1000");
        assert_eq!(lua("0x10"), "16");
        assert_eq!(lua("-5"), "(-5)");
    }

    #[test]
    fn the_events_own_field_comes_before_the_samples() {
        assert_eq!(lua("__pid"), "e.__pid");
    }

    #[test]
    fn keywords_get_an_underscore() {
        assert_eq!(lua_name("function"), "function_");
        assert_eq!(lua_name("goto"), "goto_");
        assert_eq!(lua_name("functions"), "functions");
    }

    #[test]
    fn anything_else_is_refused_with_its_place() {
        let fault = |text: &str| parse(text).map_err(|e| (e.message, e.place)).unwrap_err();
        let beyond = "expressions may be a field or a number".to_owned();
        assert_eq!(fault("pid+1"), (beyond.clone(), 3));
        assert_eq!(fault("(pid)"), (beyond.clone(), 0));
        assert_eq!(fault("12abc"), (beyond.clone(), 5));
        assert_eq!(fault("ksymbol(ip)"), (beyond.clone(), 7));
        assert_eq!(fault("99999999999999999999").0, beyond);
        assert_eq!(fault("").0, "an expression is missing");
        assert_eq!(
            fault("pidd").0,
            "sys:x has no field 'pidd'; did you mean 'pid'? It has pid, end, __pid"
        );
    }
}
