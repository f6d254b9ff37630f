//! The text of events: each event's print format, compiled when it is printed for the first time.

use crate::base::text::field;
use crate::decode::format::Format;
use crate::decode::print::{Kernel, Program, Unknown};
use crate::event::catalog::Event;

/// How the events of a run print, by role.
pub struct Texts {
    kernel: Box<dyn Kernel>,
    programs: Vec<Compiled>,
}

/// What has become of a role's print format.
enum Compiled {
    /// Nothing has been printed yet.
    NotYet,
    /// There is none, or it cannot be evaluated: the fields are printed.
    Fields,
    /// This.
    Program(Program),
}

impl Default for Texts {
    /// Texts without a kernel: addresses stay numbers.
    fn default() -> Texts {
        Texts::new(Box::new(Unknown))
    }
}

impl Texts {
    /// Texts that ask a kernel for names.
    pub fn new(kernel: Box<dyn Kernel>) -> Texts {
        Texts { kernel, programs: Vec::new() }
    }

    /// Appends the text of a record: what its format prints, else its fields as `name=value`.
    pub fn push(&mut self, out: &mut Vec<u8>, role: usize, event: &Event, raw: &[u8]) {
        let Some(format) = event.format() else { return };
        let printed = self.printer(role, format, raw).is_some_and(|print| print(out));
        if !printed {
            field::push_fields(out, format.values(raw));
        }
    }

    /// What appends a record's text, if its event has a format that can be evaluated; false when the record is too short.
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
            *compiled = match Program::compile(format, kernel) {
                Ok(program) => Compiled::Program(program),
                Err(_) => Compiled::Fields,
            };
        }
        let Compiled::Program(program) = compiled else { return None };
        let program = &*program;
        Some(move |out: &mut Vec<u8>| program.push(out, raw, kernel).is_ok())
    }
}
