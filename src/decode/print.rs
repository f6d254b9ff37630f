//! Compiles a tracepoint's `print fmt` and evaluates it for each record as the kernel does.
//!
//! [`PrintProgram::compile`] resolves everything that does not depend on the event: field
//! positions, tables of names, the layout of each conversion. [`PrintProgram::push`] then appends
//! an event's text to the caller's buffer: it does not allocate other memory, is bounded by
//! [`TEXT_MAX`], and accepts any bytes.
//!
//! The text equals the text after the event's name in tracefs' `trace`, with these differences:
//! - `%p` and `%pK` print the address with 16 digits, as with the trace option `nohash-ptr`,
//!   instead of a hash of it.
//! - The base of the array of pages (`vmemmap_base`) is known only to the kernel: `page=` is `?`,
//!   and `pfn=` next to it identifies the page. [`PrintProgram::unknown`] returns the missing name.
//! - Terminal control characters in the text of a record are escaped; tabs of the format itself are
//!   kept.
//! - A kernel string to which a record only points is the result of [`KernelData::text`], or else
//!   its address.
//! - A newline at the end is omitted.
//! - Events of `syscalls` have a `print fmt`, but `trace` uses a separate printer for them
//!   (`sys_close(fd: 3)`); here the format is used (`fd: 0x00000003`), as in perf.

mod arithmetic;
mod call;
mod compile;
mod evaluate;
mod expression;
mod functions;
mod kernel_data;
mod network;
mod number;
mod operand;
mod pointer;
mod step;
mod template;
#[cfg(test)]
mod tests;
mod value;

use std::cell::Cell;

use super::format::{Format, TooShort};
pub use compile::parse;
use evaluate::Evaluator;
pub use kernel_data::{KernelData, Symbol, Unknown};
pub use number::TEXT_MAX;
use step::PrintStep;

/// Why a format cannot be evaluated; its events are printed as `name=value`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnsupportedFormat(pub String);

/// A compiled `print fmt`.
#[derive(Clone, Debug, PartialEq)]
pub struct PrintProgram {
    steps: Box<[PrintStep]>,
    /// Minimum size of a record in bytes.
    fixed_size: usize,
    /// The name that only the kernel knows and that is printed as `?`.
    unknown: Option<&'static str>,
}

impl PrintProgram {
    /// Compiles the `print fmt` of a format.
    ///
    /// # Errors
    /// The format cannot be evaluated: it uses a name that only the kernel knows, or follows a
    /// pointer into kernel memory.
    pub fn compile(
        format: &Format,
        kernel: &dyn KernelData,
    ) -> Result<PrintProgram, UnsupportedFormat> {
        let steps =
            compile::steps(format, kernel).map_err(|fault| UnsupportedFormat(fault.message))?;
        let (steps, unknown) = (steps.all.into(), steps.unknown);
        Ok(PrintProgram { steps, fixed_size: format.fixed_size, unknown })
    }

    /// Returns the name that a conversion needs and only the kernel knows; the conversion prints
    /// `?`.
    pub fn unknown(&self) -> Option<&'static str> {
        self.unknown
    }

    /// Appends the text of a raw record.
    ///
    /// # Errors
    /// The record is shorter than its format or its own location words require; nothing is appended
    /// then.
    pub fn push(
        &self,
        out: &mut Vec<u8>,
        raw: &[u8],
        kernel: &dyn KernelData,
    ) -> Result<(), TooShort> {
        if raw.len() < self.fixed_size {
            return Err(TooShort);
        }
        let start = out.len();
        let machine = Evaluator { raw, kernel, short: Cell::new(false), start };
        for step in &self.steps {
            step.push(out, &machine);
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
