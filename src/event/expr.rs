//! C expressions of options and attributes (`key=(__cpu<<32)|vec`): checked against an event and
//! translated to Lua source.
//!
//! # The language
//!
//! | | |
//! |-|-|
//! | fields | the event's, by name: integers have the C type of their size and sign |
//! | | `char[]` is text |
//! | `field[i]` | an element of an array, or a character of text |
//! | `_cpu _pid _tid _time _comm` | values of the sample; numbers are `long` |
//! | `_period _ip _addr` | values of the sample, `unsigned long` |
//! | `_weight _cgroup …` | fields of [`super::sample_field`], `unsigned long` or text |
//! | `_stack` | the number of the sample's stack, for use in a key |
//! | `__cpu __pid` | the CPU and the *thread*: names of an older tool |
//! | `key` | the only name in an expression of a key (`printkey`): a `long` |
//! | `10 0x1f 017 0b11 10UL 'a'` | integers, typed as in C |
//! | `"text"` | with C's escapes; text ends at its first NUL |
//! | `* / % + - << >> < <= > >= & ^ \| && \|\| ! ~ ?:` | as in C |
//! | `(type) sizeof` | as in C |
//! | `== !=` | of numbers, and of text |
//! | `text ~ "glob"` | as in filters: `* ? [a-z] [!a-z]`; has the precedence of `==` |
//! | `printf("%d %s", …)` | text; `d i u x X o c s p` with flags, width, precision, length |
//! | `ksymbol(address)` | the kernel function or variable there; the address if there is none |
//! | `comm_get(pid)` | the name of a task |
//! | `syscall_name(nr)` | the name of a system call of this machine's architecture |
//! | `exit_reason_str(reason)` | why a guest exited, on this CPU's vendor |
//! | `exit_reason_str(isa, reason)` | the same for VMX (`isa` 1) or SVM (`isa` 2) |
//! | `ntohl ntohs htonl htons` | network byte order |
//! | `strncmp(a, b, n)` | -1, 0 or 1 |
//! | `system("command")` | the exit status of a shell command; only with `--unsafe` |
//!
//! Operators have C's precedence, promotions and conversions. Assignment, the comma operator and
//! access through addresses are not supported. The event's own fields take precedence over the
//! sample's values of the same name. Never pass the name of a task to `system`: any user can choose
//! it.
//!
//! # Values
//!
//! Arithmetic is exact in 64 bits, with the types of a 64-bit machine. Signed overflow wraps. Other
//! operations that C leaves undefined yield 0, and each is counted as `undefined` in the coverage:
//! division by zero, or of the minimum value by -1; a shift by a negative count, or by the width or
//! more; an element outside its array. A dynamic field that the record does not contain is counted,
//! too, and yields "".
//!
//! A result is a Lua number if a double holds it exactly, read as a signed 64-bit integer;
//! otherwise it is hexadecimal text, as for fields (`0x20000000000001`). Two keys are therefore
//! equal only if all 64 bits are equal. A kernel pointer is a negative number, which costs no
//! string per event. [`Expr::integer_type`] returns how to show it.

mod arithmetic;
mod call;
mod check;
mod checked;
pub mod in_kernel;
mod printf;
mod sample;
mod scope;
#[cfg(test)]
mod tests;
mod text;
mod value;

use crate::{
    base::text::number::IntegerType,
    decode::{c, format::Format},
    event::{sample_field::SampleFields, syntax::SyntaxError},
};
use check::Checker;
use checked::{CheckedExpr, OperandChecker as _};
pub use scope::{ExprNames, ExprScope};
use value::{IntExpr, LuaRepr};

/// A checked expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    kind: ResultKind,
    result: String,
    mixed: String,
    condition: Option<String>,
    integer_type: Option<IntegerType>,
    extra: SampleFields,
}

/// Type of an expression's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// An integer: a number in Lua, or hexadecimal text if a double cannot hold it.
    Number,
    /// Text.
    Text,
}

impl Expr {
    /// Parses an expression over an event's fields, without `system`. `event` is the event's name,
    /// for messages.
    ///
    /// # Errors
    /// The expression is invalid. The error has the position and, for an unknown name, the existing
    /// names.
    pub fn parse(text: &str, event: &str, format: &Format) -> Result<Expr, SyntaxError> {
        Expr::parse_in(
            text,
            &ExprScope { names: ExprNames::Event { event, format }, system: false },
        )
    }

    /// Parses an expression over the names and functions of a scope.
    ///
    /// # Errors
    /// As [`Expr::parse`].
    pub fn parse_in(text: &str, scope: &ExprScope<'_>) -> Result<Expr, SyntaxError> {
        if text.trim().is_empty() {
            return Err(SyntaxError::new(text, text.len(), "an expression is missing"));
        }
        let mut checker = Checker { scope, depth: 0, extra: SampleFields::default() };
        let checked = c::parse(text).and_then(|tree| checker.check(&tree));
        let extra = checker.extra;
        match checked {
            Ok(CheckedExpr::Number(value)) => Ok(Expr {
                kind: ResultKind::Number,
                result: value.lua(),
                mixed: mixed(&value),
                condition: Some(value.condition()),
                integer_type: Some(value.integer_type()),
                extra,
            }),
            Ok(CheckedExpr::Text(text)) => Ok(Expr {
                kind: ResultKind::Text,
                mixed: text.code.clone(),
                result: text.code,
                condition: None,
                integer_type: None,
                extra,
            }),
            Err(fault) => Err(SyntaxError::new(text, fault.at, fault.message)),
        }
    }

    /// Returns the type of the result.
    pub fn kind(&self) -> ResultKind {
        self.kind
    }

    /// Returns Lua source of the value: an expression over the locals that
    /// `prelude/expression.lua` sets up, which are the slot `s` or the `key`, and the functions
    /// that generated code calls.
    pub fn lua(&self) -> &str {
        &self.result
    }

    /// Like [`Expr::lua`], for use beside values of other integer types: a value that a double
    /// cannot hold becomes signed hexadecimal text, so that 2^64 - 1 differs from -1. Costs a
    /// string per such value.
    pub fn lua_mixed(&self) -> &str {
        &self.mixed
    }

    /// Returns how its 64 bits are interpreted; None for text.
    pub fn integer_type(&self) -> Option<IntegerType> {
        self.integer_type
    }

    /// Returns the fields that it reads and that are recorded only on request.
    pub fn extra(&self) -> SampleFields {
        self.extra
    }

    /// Returns Lua source of its truth value, a Lua boolean over the same locals; None for text.
    pub fn condition(&self) -> Option<&str> {
        self.condition.as_deref()
    }
}

/// Returns the code of a value for use beside values of other integer types.
fn mixed(value: &IntExpr) -> String {
    let is_box = value.repr == LuaRepr::Box;
    match value.integer_type() {
        _ if !is_box => value.number(),
        IntegerType::Signed => format!("mixed_signed({})", value.in_box(true)),
        _ => format!("mixed_unsigned({})", value.in_box(false)),
    }
}
