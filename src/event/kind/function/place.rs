//! Location of a function: its name in the kernel, or its offset in a file.

use std::ffi::{CStr, CString};
use std::rc::Rc;

use crate::sys::code::Code;

/// Where a function begins.
#[derive(Clone, Debug, PartialEq)]
pub enum FunctionLocation {
    /// In the kernel, at the symbol of this name.
    Kernel(CString),
    /// In a file, at this byte offset.
    File(Rc<Code>, u64),
}

impl FunctionLocation {
    /// Returns the name of a kernel function, or a path of the file.
    pub fn text(&self) -> &CStr {
        match self {
            FunctionLocation::Kernel(name) => name,
            FunctionLocation::File(code, _) => code.path(),
        }
    }

    /// Returns the offset in the file; None for a function of the kernel.
    pub fn offset(&self) -> Option<u64> {
        match self {
            FunctionLocation::Kernel(_) => None,
            FunctionLocation::File(_, offset) => Some(*offset),
        }
    }
}
