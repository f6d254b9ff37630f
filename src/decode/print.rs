//! A tracepoint's `print fmt`, compiled once, evaluated for each record as the kernel would.
//!
//! [`Program::compile`] resolves everything that an event does not change: where fields lie, tables of names, the
//! layout of each conversion. [`Program::push`] then appends an event's text to the caller's buffer: it allocates
//! nothing of its own, is bounded by [`TEXT_MAX`], and takes any bytes.
//!
//! The text is what the kernel writes behind the event's name in tracefs' `trace`, but for these:
//! - `%p` writes the address, as the trace option `nohash-ptr` does, not a hash of it: 16 digits. `%pK` does, too.
//! - The base of the array of pages (`vmemmap_base`) is known to the kernel alone: `page=` is `?`,
//!   and the `pfn=` beside it tells the page. [`Program::unknown`] names what is missing.
//! - What controls a terminal in the text of a record is escaped; tabs of the format itself stay.
//! - A string of the kernel to which a record only points is what [`Kernel::text`] knows of it, else its address.
//! - A line break at the end is left out.
//! - Events of `syscalls` have a `print fmt`, but `trace` shows them by a printer of their own
//!   (`sys_close(fd: 3)`); here the format counts (`fd: 0x00000003`), as it does for perf.

mod call;
mod compile;
mod expression;
mod functions;
mod network;
mod number;
mod pointer;
mod template;
#[cfg(test)]
mod tests;
mod value;

use std::cell::Cell;

use super::format::{Format, TooShort};
use crate::base::text::escape;
pub use compile::parse;
use number::{Base, Layout};
use pointer::Extension;
use template::Flags;
use value::{At, Machine, Place, Value};

/// The most bytes that an event's text has, as much as the kernel gives a line. What is longer is cut.
pub const TEXT_MAX: usize = 8 << 10;

/// What of the running kernel a text may need beside the record.
pub trait Kernel {
    /// Ticks a second, for times in jiffies; 0 when unknown. Asked when a format is compiled.
    fn hz(&self) -> u32;
    /// The number of an enumerator that a format names. Asked when a format is compiled.
    fn enumerator(&self, name: &str) -> Option<i64>;
    /// The function or variable at an address; None when unknown, and the address is shown.
    fn symbol(&self, address: u64) -> Option<Symbol<'_>>;
    /// The text that the kernel keeps at an address (`printk_formats` in tracefs lists such).
    fn text(&self, address: u64) -> Option<&[u8]>;
}

/// What stands at an address of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its name.
    pub name: &'a str,
    /// Bytes from its start to the address.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its module; None for the kernel itself.
    pub module: Option<&'a str>,
}

/// No kernel at hand: addresses stay numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unknown;

impl Kernel for Unknown {
    fn hz(&self) -> u32 {
        0
    }
    fn enumerator(&self, _: &str) -> Option<i64> {
        None
    }
    fn symbol(&self, _: u64) -> Option<Symbol<'_>> {
        None
    }
    fn text(&self, _: u64) -> Option<&[u8]> {
        None
    }
}

/// Why a format cannot be evaluated, for whoever lists such events; these print `name=value`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// A compiled `print fmt`.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    steps: Box<[Step]>,
    /// Bytes that a record has to have.
    fixed_size: usize,
    /// What only the kernel knows, for which there is a `?`.
    unknown: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Literal(Box<[u8]>),
    /// A decimal number that is laid out in no way.
    Decimal(Value, bool),
    /// Text that is laid out in no way.
    Text(Place),
    /// Anything.
    Conversion(Box<(Conversion, Spec)>),
}

#[derive(Clone, Debug, PartialEq)]
enum Conversion {
    Number(Value, Base),
    Char(Value),
    Text(Place),
    Pointer(Extension, Place),
}

/// Flags, width and precision before the event has its say.
#[derive(Clone, Debug, PartialEq)]
struct Spec {
    flags: Flags,
    width: Option<Value>,
    precision: Option<Value>,
}

impl Program {
    /// Compiles the `print fmt` of a format.
    ///
    /// # Errors
    /// What in it cannot be evaluated: a name that only the kernel knows, a pointer into its memory.
    pub fn compile(format: &Format, kernel: &dyn Kernel) -> Result<Program, Refused> {
        let steps = compile::steps(format, kernel).map_err(|fault| Refused(fault.message))?;
        let (steps, unknown) = (steps.all.into(), steps.unknown);
        Ok(Program { steps, fixed_size: format.fixed_size, unknown })
    }

    /// The name of the kernel's that a conversion needs and nobody else knows: it writes `?`.
    pub fn unknown(&self) -> Option<&'static str> {
        self.unknown
    }

    /// Appends the text of a raw record.
    ///
    /// # Errors
    /// A record that ends before what its format or itself says; nothing is appended then.
    pub fn push(&self, out: &mut Vec<u8>, raw: &[u8], kernel: &dyn Kernel) -> Result<(), TooShort> {
        if raw.len() < self.fixed_size {
            return Err(TooShort);
        }
        let start = out.len();
        let machine = Machine { raw, kernel, short: Cell::new(false), start };
        for step in &self.steps {
            match step {
                Step::Literal(text) => out.extend_from_slice(text),
                Step::Decimal(value, signed) => {
                    let base = if *signed { Base::Signed } else { Base::Unsigned };
                    number::push(out, machine.value(value), base, Layout::default());
                }
                Step::Text(place) => push_text(out, &machine, place, None),
                Step::Conversion(both) => both.0.push(out, &machine, &both.1),
            }
            if machine.is_full(out) {
                break;
            }
        }
        if machine.short.get() {
            out.truncate(start);
            return Err(TooShort);
        }
        out.truncate(start.saturating_add(TEXT_MAX).min(out.len()));
        Ok(())
    }
}

impl Conversion {
    fn push<'a>(&'a self, out: &mut Vec<u8>, machine: &Machine<'a>, spec: &'a Spec) {
        let layout = spec.layout(machine);
        match self {
            Conversion::Number(value, base) => {
                number::push(out, machine.value(value), *base, layout);
            }
            Conversion::Char(value) => {
                let shown = [machine.value(value) as u8];
                number::widen(out, layout, |out| {
                    escape::push_shown(out, &shown);
                });
            }
            Conversion::Text(place) => {
                number::widen(out, layout, |out| push_text(out, machine, place, layout.precision));
            }
            Conversion::Pointer(extension, place) => {
                extension.push(out, machine, place, layout, spec.width.is_some());
            }
        }
    }
}

impl Spec {
    /// A width below zero is a flag `-`, a precision below zero is 0.
    fn layout<'a>(&'a self, machine: &Machine<'a>) -> Layout {
        let amount = |value: &'a Value| machine.value(value).cast_signed();
        let width = self.width.as_ref().map_or(0, amount);
        let mut flags = self.flags;
        flags.left |= width < 0;
        let precision = self.precision.as_ref().map(amount);
        let most = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Layout {
            flags,
            width: most(width.unsigned_abs()),
            precision: precision.map(|n| most(n.max(0).cast_unsigned())),
        }
    }
}

/// Writes text up to its NUL, and no more than `most` bytes.
fn push_text<'a>(out: &mut Vec<u8>, machine: &Machine<'a>, place: &'a Place, most: Option<usize>) {
    let most = most.unwrap_or(usize::MAX);
    let until = |text: &'a [u8]| {
        let text = text.get(..most).unwrap_or(text);
        text.iter().position(|byte| *byte == 0).map_or(text, |end| &text[..end])
    };
    let start = out.len();
    match machine.at(place) {
        At::Bytes(text) => {
            escape::push_shown(out, until(text));
            return;
        }
        At::Call(call) => call.push(out, machine),
        At::Address(0) => out.extend_from_slice(b"(null)"),
        At::Address(address) => match machine.kernel.text(address) {
            Some(text) => {
                escape::push_shown(out, text);
            }
            None => number::push_hex(out, address),
        },
    }
    out.truncate(start.saturating_add(most).min(out.len()));
}
