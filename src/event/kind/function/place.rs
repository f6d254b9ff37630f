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
    /// Returns the string that `kprobe_func` or `uprobe_path` of an attr points to.
    pub fn text(&self) -> &CStr {
        match self {
            FunctionLocation::Kernel(name) => name,
            FunctionLocation::File(code, _) => code.path(),
        }
    }

    /// Returns `probe_offset` of an attr.
    pub fn offset(&self) -> u64 {
        match self {
            FunctionLocation::Kernel(_) => 0,
            FunctionLocation::File(_, offset) => *offset,
        }
    }
}
