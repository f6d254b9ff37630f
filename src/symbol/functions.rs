//! Finds functions and variables by their names: in files through their symbol tables or those of
//! their debug files, in the kernel through `/proc/kallsyms`.
//!
//! Only the first byte of an instruction is ever returned for a probe: a software breakpoint in the
//! middle of one kills the process that executes it.

mod in_file;
mod in_kernel;
mod kernel_parameters;
mod kernel_symbols;
mod traced;

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use anyhow::Result;

use crate::event::kind::breakpoint::{FoundSymbol, SymbolFinder};
use crate::event::kind::function::typed::register_names;
use crate::event::kind::function::{
    CodeLocation, FunctionLocation, FunctionName, Functions, ProbeKind, ProbeValues,
};
use crate::sys::probe_type::ProbeType;
use in_file::ProgramFile;
use in_kernel::KernelFunctions;
use kernel_parameters::KernelParameters;
pub(super) use kernel_parameters::kernel_types;
use kernel_symbols::KernelSymbolIndex;

/// Finds functions on this machine.
#[derive(Default)]
pub struct MachineFunctions {
    /// Recently used files, the latest at the end.
    programs: RefCell<Vec<Rc<ProgramFile>>>,
    kernel: RefCell<Option<Rc<KernelFunctions>>>,
    kernel_symbols: RefCell<Option<Rc<KernelSymbolIndex>>>,
    kernel_parameters: KernelParameters,
    /// The functions that ftrace can trace.
    traceable: RefCell<Option<Rc<HashSet<Box<str>>>>>,
    /// Types of probes that this kernel is known to have.
    supported: RefCell<Vec<ProbeType>>,
}

/// Maximum number of files that are kept open for the next name: a user often names several
/// functions of one file.
const PROGRAMS_MAX: usize = 4;

impl MachineFunctions {
    fn program(&self, file: &str) -> Result<Rc<ProgramFile>> {
        let mut programs = self.programs.borrow_mut();
        if let Some(at) = programs.iter().position(|known| known.is(file)) {
            let known = programs.remove(at);
            programs.push(known.clone());
            return Ok(known);
        }
        let program = Rc::new(ProgramFile::open(file)?);
        programs.retain(|known| known.name() != file);
        if programs.len() >= PROGRAMS_MAX {
            programs.remove(0);
        }
        programs.push(program.clone());
        Ok(program)
    }

    fn kernel_function(&self, location: CodeLocation<'_>) -> Result<FunctionLocation> {
        let kernel = match location {
            CodeLocation::Function(name, _) => self.kernel_with(name)?,
            CodeLocation::Address(_) => self.kernel(false)?,
        };
        kernel.find(location)
    }

    /// Returns the kernel's functions, read again if none has this name.
    fn kernel_with(&self, name: &str) -> Result<Rc<KernelFunctions>> {
        let is_known = self.kernel(false)?.count(name) > 0;
        self.kernel(!is_known)
    }

    /// Returns the kernel's functions. With `anew` they are read again, since modules are loaded
    /// and unloaded.
    fn kernel(&self, anew: bool) -> Result<Rc<KernelFunctions>> {
        let mut kernel = self.kernel.borrow_mut();
        match &*kernel {
            Some(known) if !anew || known.is_fresh() => Ok(known.clone()),
            _ => Ok(kernel.insert(Rc::new(KernelFunctions::read()?)).clone()),
        }
    }
}

impl Functions for MachineFunctions {
    fn find(&self, named: &FunctionName) -> Result<FunctionLocation> {
        match &named.file {
            Some(file) => self.program(file)?.find(named),
            None if named.kind.pmu().is_none() => self.traced(named),
            None => {
                let mut found = self.kernel_function(named.location())?;
                self.kernel_parameters.add(named, &mut found)?;
                Ok(found)
            }
        }
    }

    fn names(
        &self,
        of: &FunctionName,
        wanted: &dyn Fn(&str) -> bool,
        most: usize,
    ) -> Result<Vec<String>> {
        match &of.file {
            Some(file) => self.program(file)?.names(of.kind, wanted, most),
            None if of.kind.pmu().is_none() => self.traced_names(of.kind, wanted, most),
            None => match self.kernel(false)?.names(wanted, most) {
                none if none.is_empty() => Ok(self.kernel(true)?.names(wanted, most)),
                found => Ok(found),
            },
        }
    }

    fn parameters(&self, of: &FunctionName, path: &[&str]) -> Vec<String> {
        if of.kind.pmu().is_none() {
            return self.traced_parameters(of, path).unwrap_or_default();
        }
        let Ok(found) = self.find(of) else { return Vec::new() };
        let mut names = match (of.kind, &of.file) {
            (ProbeKind::Kprobe, _) => self.kernel_parameters.names(of, path),
            (ProbeKind::Uprobe, Some(file)) => {
                self.program(file).map_or(Vec::new(), |program| program.parameter_names(of, path))
            }
            (ProbeKind::Usdt, _) => match found.values {
                ProbeValues::Fetched(fields) if path.is_empty() => {
                    return fields.into_iter().map(|field| field.name).collect();
                }
                _ => Vec::new(),
            },
            _ => return Vec::new(),
        };
        names.extend(register_names(path));
        names
    }
}

impl SymbolFinder for MachineFunctions {
    fn symbol(&self, file: Option<&str>, name: &str) -> Result<FoundSymbol> {
        match file {
            Some(file) => self.program(file)?.symbol(name),
            None => KernelSymbolIndex::cached(&mut self.kernel_symbols.borrow_mut())?.find(name),
        }
    }

    fn check_instruction(&self, file: &str, function: &str, offset: u64) -> Result<()> {
        let program = self.program(file)?;
        program.check_instruction(function, program.symbol(function)?.address, offset)
    }

    fn symbols(
        &self,
        file: Option<&str>,
        wanted: &dyn Fn(&str) -> bool,
        most: usize,
    ) -> Result<Vec<String>> {
        match file {
            Some(file) => Ok(self.program(file)?.symbol_names(wanted, most)),
            None => {
                let kernel = KernelSymbolIndex::cached(&mut self.kernel_symbols.borrow_mut())?;
                Ok(kernel.names(wanted, most))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_module_loaded_later_are_found() {
        let known = KernelFunctions::of("0 T before\n", "").unwrap();
        let functions =
            MachineFunctions { kernel: RefCell::new(Some(Rc::new(known))), ..Default::default() };
        let of = FunctionName::parse("kprobe:*").unwrap();
        let names = |wanted: &str| functions.names(&of, &|name| name == wanted, 9).unwrap();
        assert_eq!(names("before"), ["before"], "the known list is searched first");
        assert_eq!(names("vfs_read"), ["vfs_read"]);
    }
}
