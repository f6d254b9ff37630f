//! Location of a function event: the instructions that raise it, and what is read there.

use std::ffi::{CStr, CString};
use std::rc::Rc;

use super::fetched::FetchedArgument;
use crate::decode::format::OmittedField;
use crate::sys::code::Code;
use crate::sys::dynamic_event::{ProbePoint, ProbeSite};

/// Where a function event is raised, and what its samples have. Two of them are equal if they have
/// the same records; the remarks may differ, because reading the debug information has a limit of
/// time.
#[derive(Clone, Debug)]
pub struct FunctionLocation {
    /// Where the instructions are.
    pub code: ProbedCode,
    /// The instructions that raise the event, at least one.
    pub sites: Vec<ProbeSite>,
    /// The data that a sample has.
    pub values: ProbeValues,
    /// Parameters that are not fields.
    pub omitted: Vec<OmittedField>,
    /// Remarks.
    pub notes: Vec<String>,
}

impl PartialEq for FunctionLocation {
    fn eq(&self, other: &FunctionLocation) -> bool {
        self.code == other.code && self.sites == other.sites && self.values == other.values
    }
}

/// Code with a probe.
#[derive(Clone, Debug, PartialEq)]
pub enum ProbedCode {
    /// The function of the kernel with this name.
    Kernel(CString),
    /// A program or library.
    File(Rc<Code>),
}

/// The data that a sample of a function event has.
#[derive(Clone, Debug, PartialEq)]
pub enum ProbeValues {
    /// The registers of the function's arguments or of its return value.
    Call,
    /// All general registers: the instruction is not the first one of its function.
    Registers,
    /// Values that the kernel reads into a record.
    Fetched(Vec<FetchedArgument>),
}

impl FunctionLocation {
    /// Returns the location of a function, at the byte `offset` from its beginning.
    pub fn in_kernel(function: CString, offset: u64) -> FunctionLocation {
        FunctionLocation::of(ProbedCode::Kernel(function), offset, offset == 0)
    }

    /// Returns the location of the instruction at this offset of a file. `is_entry`: it is the
    /// first one of its function.
    pub fn in_file(code: Rc<Code>, offset: u64, is_entry: bool) -> FunctionLocation {
        FunctionLocation::of(ProbedCode::File(code), offset, is_entry)
    }

    fn of(code: ProbedCode, offset: u64, is_entry: bool) -> FunctionLocation {
        FunctionLocation {
            code,
            sites: vec![ProbeSite { offset, ..ProbeSite::default() }],
            values: if is_entry { ProbeValues::Call } else { ProbeValues::Registers },
            omitted: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Returns what must be made in tracefs.
    pub fn point(&self, at_return: bool) -> ProbePoint<'_> {
        let of_kernel = matches!(self.code, ProbedCode::Kernel(_));
        ProbePoint { place: self.text(), of_kernel, at_return, sites: &self.sites }
    }

    /// Returns the name of a kernel function, or a path of the file.
    fn text(&self) -> &CStr {
        match &self.code {
            ProbedCode::Kernel(name) => name,
            ProbedCode::File(code) => code.path(),
        }
    }
}
