//! Location of a function: its name in the kernel, or its offset in a file.

use std::ffi::CString;
use std::rc::Rc;

use crate::sys::code::Code;
use crate::sys::dynamic_event::ProbePoint;

/// Where a function begins.
#[derive(Clone, Debug, PartialEq)]
pub enum FunctionLocation {
    /// In the kernel, at the symbol of this name.
    Kernel(CString),
    /// In a file, at this byte offset.
    File(Rc<Code>, u64),
}

impl FunctionLocation {
    /// Returns a probe at the function's call, or at its return.
    pub fn probe(&self, at_return: bool) -> ProbePoint<'_> {
        let (place, offset) = match self {
            FunctionLocation::Kernel(name) => (name.as_c_str(), None),
            FunctionLocation::File(code, offset) => (code.path(), Some(*offset)),
        };
        ProbePoint { place, offset, at_return }
    }
}
