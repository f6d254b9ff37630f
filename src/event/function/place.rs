//! Where a function begins: by its name in the kernel, by its place in a file otherwise.

use std::ffi::{CStr, CString};
use std::rc::Rc;

use crate::sys::code::Code;

/// Where.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// In the kernel, by this name.
    Kernel(CString),
    /// In a file, so many bytes from its beginning.
    File(Rc<Code>, u64),
}

impl Place {
    /// What `kprobe_func` or `uprobe_path` of an attr points to.
    pub fn text(&self) -> &CStr {
        match self {
            Place::Kernel(name) => name,
            Place::File(code, _) => code.path(),
        }
    }

    /// `probe_offset` of an attr.
    pub fn offset(&self) -> u64 {
        match self {
            Place::Kernel(_) => 0,
            Place::File(_, offset) => *offset,
        }
    }
}
