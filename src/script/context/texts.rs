//! Text of events: each event's print format, compiled at first use.

use crate::base::text::field;
use crate::decode::format::Format;
use crate::decode::print::{KernelData, PrintProgram, Unknown};
use crate::event::kind::Event;

/// Print formats of a run's events, by role.
pub struct Texts {
    kernel: Box<dyn KernelData>,
    programs: Vec<Compiled>,
}

/// State of a role's print format.
enum Compiled {
    /// Not used yet.
    NotYet,
    /// It is absent or cannot be evaluated: the fields are printed.
    Fields,
    /// Compiled.
    Program(PrintProgram),
}

impl Default for Texts {
    /// Creates texts without a kernel: addresses stay numbers.
    fn default() -> Texts {
        Texts::new(Box::new(Unknown))
    }
}

impl Texts {
    /// Creates texts that look up names in `kernel`.
    pub fn new(kernel: Box<dyn KernelData>) -> Texts {
        Texts { kernel, programs: Vec::new() }
    }

    /// Appends the text of a record, as its format prints it, else the fields as `name=value`.
    pub fn push(&mut self, out: &mut Vec<u8>, role: usize, event: &Event, raw: &[u8]) {
        let Some(format) = event.format() else { return };
        let printed = self.printer(role, format, raw).is_some_and(|print| print(out));
        if !printed {
            field::push_fields(out, format.values(raw));
        }
    }

    /// Returns a function that appends a record's text, if its event has a format that can be
    /// evaluated. The function returns false if the record is too short.
    pub fn printer<'a>(
        &'a mut self,
        role: usize,
        format: &Format,
        raw: &'a [u8],
    ) -> Option<impl Fn(&mut Vec<u8>) -> bool + use<'a>> {
        if role >= self.programs.len() {
            self.programs.resize_with(role + 1, || Compiled::NotYet);
        }
        let kernel = &*self.kernel;
        let compiled = self.programs.get_mut(role)?;
        if let Compiled::NotYet = compiled {
            *compiled = match PrintProgram::compile(format, kernel) {
                Ok(program) => Compiled::Program(program),
                Err(_) => Compiled::Fields,
            };
        }
        let Compiled::Program(program) = compiled else { return None };
        let program = &*program;
        Some(move |out: &mut Vec<u8>| program.push(out, raw, kernel).is_ok())
    }
}
