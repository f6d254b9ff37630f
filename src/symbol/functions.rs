//! Where functions begin, by their names: of files by their symbol tables or those of their debug files, of the kernel by
//! `/proc/kallsyms`.
//!
//! Only the first byte of a function is ever given: a breakpoint in the middle of an instruction kills whoever runs it.

mod in_file;
mod in_kernel;

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::Result;

use crate::event::function::{Functions, Named, Place};
use in_file::Program;
use in_kernel::Kernel;

/// Finds functions on this machine.
#[derive(Default)]
pub struct MachineFunctions {
    /// The files that were looked into last, the latest at the end.
    programs: RefCell<Vec<Rc<Program>>>,
    kernel: RefCell<Option<Rc<Kernel>>>,
}

/// Files that are kept open for the next name: a user types several of one file.
const PROGRAMS_MAX: usize = 4;

impl MachineFunctions {
    fn program(&self, file: &str) -> Result<Rc<Program>> {
        let mut programs = self.programs.borrow_mut();
        if let Some(at) = programs.iter().position(|known| known.is(file)) {
            let known = programs.remove(at);
            programs.push(known.clone());
            return Ok(known);
        }
        let program = Rc::new(Program::open(file)?);
        programs.retain(|known| known.name() != file);
        if programs.len() >= PROGRAMS_MAX {
            programs.remove(0);
        }
        programs.push(program.clone());
        Ok(program)
    }

    /// Modules come and go: each question of a new name finds those of now.
    fn kernel(&self, anew: bool) -> Result<Rc<Kernel>> {
        let mut kernel = self.kernel.borrow_mut();
        match &*kernel {
            Some(known) if !anew => Ok(known.clone()),
            _ => Ok(kernel.insert(Rc::new(Kernel::read()?)).clone()),
        }
    }
}

impl Functions for MachineFunctions {
    fn find(&self, named: &Named) -> Result<Place> {
        match &named.file {
            Some(file) => self.program(file)?.find(&named.function),
            None => match self.kernel(false)?.find(&named.function) {
                Err(_) => self.kernel(true)?.find(&named.function),
                found => found,
            },
        }
    }

    fn names(
        &self,
        file: Option<&str>,
        wanted: &dyn Fn(&str) -> bool,
        most: usize,
    ) -> Result<Vec<String>> {
        match file {
            Some(file) => self.program(file)?.names(wanted, most),
            None => match self.kernel(false)?.names(wanted, most) {
                none if none.is_empty() => Ok(self.kernel(true)?.names(wanted, most)),
                found => Ok(found),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_module_that_came_later_are_found() {
        let known = Kernel::of("0 T before\n", "").unwrap();
        let functions =
            MachineFunctions { kernel: RefCell::new(Some(Rc::new(known))), ..Default::default() };
        let names = |wanted: &str| functions.names(None, &|name| name == wanted, 9).unwrap();
        assert_eq!(names("before"), ["before"], "the list that is known is asked first");
        assert_eq!(names("vfs_read"), ["vfs_read"]);
    }
}
