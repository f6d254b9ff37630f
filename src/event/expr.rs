//! The expressions of options and attributes (`key=(__cpu<<32)|vec`): C's, checked against an event, as Lua source.
//!
//! # The language
//!
//! | | |
//! |-|-|
//! | fields | the event's, by name: integers have C's type by their size and sign, `char[]` is text |
//! | `field[i]` | an element of an array, or a character of text |
//! | `_cpu _pid _tid _time _comm _period _ip _addr` | the sample's; numbers are `long`, the last three `unsigned long` |
//! | `_stack` | the number of the sample's stack: a key for what is to be told apart by it |
//! | `__cpu __pid` | the CPU and the *thread*: the words of the older tool |
//! | `key` | instead of all these, in an expression of a key (`printkey`): a `long` |
//! | `10 0x1f 017 0b11 10UL 'a'` | whole numbers, typed as in C |
//! | `"text"` | with C's escapes; text ends at its first NUL |
//! | `* / % + - << >> < <= > >= & ^ \| && \|\| ! ~ ?: (type) sizeof` | C's, with its precedence, promotion and conversions |
//! | `== !=` | of numbers, and of text |
//! | `text ~ "glob"` | as in filters: `* ? [a-z] [!a-z]`; as tight as `==` |
//! | `printf("%d %s", …)` | text; `d i u x X o c s p` with flags, width, precision, length |
//! | `ksymbol(address)` | the kernel's function or variable there; the address where there is none |
//! | `comm_get(pid)` | the name of a task |
//! | `syscall_name(nr)` | of this machine's architecture |
//! | `exit_reason_str(reason)`, `(isa, reason)` | why a guest left: of this CPU's vendor, or `isa` 1 for VMX and 2 for SVM |
//! | `ntohl ntohs htonl htons` | network byte order |
//! | `strncmp(a, b, n)` | -1, 0 or 1 |
//! | `system("command")` | its exit status, by the shell; only with `--unsafe`. Names of tasks are anybody's words: never put one into a command |
//!
//! Assignment, the comma and everything that follows an address are no part of it. The event's own fields come
//! before the sample's values of the same name.
//!
//! # Values
//!
//! Arithmetic is exact in 64 bits, on a 64-bit machine's types. Signed overflow wraps. What C leaves undefined besides has a
//! value, and each time is counted as `undefined` in the coverage: a division by zero, or of the least value by
//! -1; a shift by a negative count, or by the width and more; an element outside its array: each gives 0. A
//! dynamic field that the record does not hold gives "".
//!
//! A result is a Lua number when a double holds it exactly, read as a signed 64-bit integer; else it is its
//! hexadecimal text, as with fields (`0xffffffff81000001`). So two keys are equal only if all 64 bits are.
//! A pointer into the kernel is therefore a negative number, which costs no string per event.
//! [`Expr::integer_type`] says how to show it.

mod arithmetic;
mod call;
mod check;
mod printf;
#[cfg(test)]
mod tests;
mod text;
mod value;

use crate::{
    base::number::IntegerType,
    decode::{c, format::Format},
    event::syntax::SyntaxError,
};
use check::{Checked, Checker};
use value::{Held, Value};

/// A checked expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    kind: Kind,
    result: String,
    mixed: String,
    condition: Option<String>,
    integer_type: Option<IntegerType>,
}

/// What an expression gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer; a number in Lua, or hexadecimal text where a double cannot hold it.
    Number,
    /// Text.
    Text,
}

/// What an expression may name.
#[derive(Clone, Copy, Debug)]
pub enum Names<'a> {
    /// The fields of an event, and the values of every sample.
    Event {
        /// Its name, for messages.
        event: &'a str,
        /// Its fields.
        format: &'a Format,
    },
    /// The variable `key`.
    Key,
}

/// What an expression may use.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Names.
    pub names: Names<'a>,
    /// Whether it may start programs.
    pub system: bool,
}

impl Expr {
    /// Parses an expression over an event's fields, without `system`. `event` is its name, for messages.
    ///
    /// # Errors
    /// What is wrong, and where; for a name, those that exist.
    pub fn parse(text: &str, event: &str, format: &Format) -> Result<Expr, SyntaxError> {
        Expr::parse_in(text, &Scope { names: Names::Event { event, format }, system: false })
    }

    /// Parses an expression over whatever the scope has.
    ///
    /// # Errors
    /// As [`Expr::parse`].
    pub fn parse_in(text: &str, scope: &Scope<'_>) -> Result<Expr, SyntaxError> {
        if text.trim().is_empty() {
            return Err(SyntaxError::new(text, text.len(), "an expression is missing"));
        }
        let checked = c::parse(text).and_then(|tree| Checker { scope, depth: 0 }.check(&tree));
        match checked {
            Ok(Checked::Number(value)) => Ok(Expr {
                kind: Kind::Number,
                result: result(&value),
                mixed: mixed(&value),
                condition: Some(value.condition()),
                integer_type: Some(value.integer_type()),
            }),
            Ok(Checked::Text(text)) => Ok(Expr {
                kind: Kind::Text,
                mixed: text.code.clone(),
                result: text.code,
                condition: None,
                integer_type: None,
            }),
            Err(fault) => Err(SyntaxError::new(text, fault.at, fault.message)),
        }
    }

    /// What it gives.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Lua source of its value: an expression over the locals that `prelude/expression.lua` sets up: the slot
    /// `s`, or the `key`, and the functions that generated code calls.
    pub fn lua(&self) -> &str {
        &self.result
    }

    /// The same for values of any type by turns: what no double holds becomes hexadecimal text of
    /// its value, with a sign, so that 2^64 - 1 is not -1. It costs a string per such value.
    pub fn lua_mixed(&self) -> &str {
        &self.mixed
    }

    /// How its 64 bits read; None if it is text.
    pub fn integer_type(&self) -> Option<IntegerType> {
        self.integer_type
    }

    /// Lua source of its truth, as a Lua boolean over the same locals; None if it is text.
    pub fn condition(&self) -> Option<&str> {
        self.condition.as_deref()
    }
}

/// The code of a value as scripts get it.
fn result(value: &Value) -> String {
    match value.held {
        Held::Box => format!("exact({})", value.in_box(true)),
        _ => value.number(),
    }
}

/// The code of a value beside which others of any type stand.
fn mixed(value: &Value) -> String {
    let is_box = value.held == Held::Box;
    match value.integer_type() {
        _ if !is_box => value.number(),
        IntegerType::Signed => format!("mixed_signed({})", value.in_box(true)),
        _ => format!("mixed_unsigned({})", value.in_box(false)),
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
