//! Location of a function event: the instructions that raise it, and what is read there.

use std::ffi::{CStr, CString};
use std::rc::Rc;

use anyhow::Result;

use super::fetched::{FetchedArgument, FetchedType};
use super::named::ProbeKind;
use super::typed::TypedParameters;
use crate::decode::ctypes::{Prototype, RESULT, TypeTable};
use crate::decode::format::OmittedField;
use crate::sys::code::Code;
use crate::sys::dynamic_event::{ProbePoint, ProbeSite};

/// Where a function event is raised, and what its samples have. Two of them are equal if they have
/// the same records; `omitted` and `notes` may differ, because reading the debug information has a
/// limit of time.
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

/// The place of a probe.
#[derive(Clone, Debug, PartialEq)]
pub enum ProbedCode {
    /// The function or tracepoint of the kernel with this name.
    Kernel(CString),
    /// A program or library.
    File(Rc<Code>),
}

/// The data that a sample of a function event has.
#[derive(Clone, Debug, PartialEq)]
pub enum ProbeValues {
    /// The registers of the function's arguments or of its return value.
    Call,
    /// The register of the return value, of this type; None if it does not have the value.
    Returned(Option<FetchedType>),
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

    /// Sets the fields of its samples: values that the kernel reads.
    pub fn set_fields(&mut self, typed: TypedParameters) {
        self.sites[0].arguments = typed.arguments;
        self.values = ProbeValues::Fetched(typed.fields);
        self.omitted = typed.omitted;
    }

    /// Sets the fields of a return: those of `paths`, or the result. Its type and what it points to
    /// are read from `known` types.
    ///
    /// # Errors
    /// A path leads to nothing that can be read at the return.
    pub fn set_result<T: TypeTable>(
        &mut self,
        known: Option<(&T, &Prototype<T::Id>)>,
        paths: Option<&[&str]>,
    ) -> Result<()> {
        if let Some(paths) = paths {
            self.set_fields(TypedParameters::at_return(known, paths)?);
        } else if let Some((types, prototype)) = known {
            match TypedParameters::result_type(types, prototype) {
                Ok(None) => {}
                Ok(value) => self.values = ProbeValues::Returned(value),
                Err(why) => {
                    self.values = ProbeValues::Returned(None);
                    let (name, why) = (RESULT.to_owned(), why.to_owned());
                    self.omitted.push(OmittedField { name, why });
                }
            }
        }
        Ok(())
    }

    /// Returns what must be made in tracefs for a kind of probe.
    pub fn point(&self, kind: ProbeKind) -> ProbePoint<'_> {
        let (type_, at_return) = (kind.probe_type(), kind.at_return());
        ProbePoint { type_, place: self.text(), at_return, sites: &self.sites }
    }

    /// Returns the name in the kernel, or a path of the file.
    fn text(&self) -> &CStr {
        match &self.code {
            ProbedCode::Kernel(name) => name,
            ProbedCode::File(code) => code.path(),
        }
    }
}
