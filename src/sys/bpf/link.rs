//! One attachment of a program to many functions: `BPF_LINK_CREATE` with `kprobe_multi` (5.18) or
//! `uprobe_multi` (6.6).
//!
//! Attaching and detaching cost about as much as for a single function, whereas each perf event of
//! a probe waits for the whole machine when it is closed.
//!
//! Sources: `bpf_kprobe_multi_link_attach()` and `bpf_uprobe_multi_link_attach()` in
//! kernel/trace/bpf_trace.c.

use std::ffi::{CStr, c_char};
use std::io;
use std::os::fd::OwnedFd;

use super::attr::{BpfAttr, owned};
use super::{BpfProgram, BpfProgramType};

/// Command of the call.
const LINK_CREATE: libc::c_int = 28;

/// `BPF_F_KPROBE_MULTI_RETURN` and `BPF_F_UPROBE_MULTI_RETURN`.
const AT_RETURN: u32 = 1;

/// Functions to which a program is attached.
#[derive(Clone, Copy, Debug)]
pub enum LinkedFunctions<'a> {
    /// Functions of the kernel, by name.
    Kernel(&'a [&'a CStr]),
    /// Functions of a file: a path of it, and the byte offsets of their first instructions.
    File(&'a CStr, &'a [u64]),
}

/// A program with its attachment, which ends when this is dropped.
#[derive(Debug)]
pub struct BpfLink {
    _fd: OwnedFd,
    program: BpfProgram,
}

impl LinkedFunctions<'_> {
    /// Returns the kind of program for them.
    pub fn program_type(self) -> BpfProgramType {
        match self {
            LinkedFunctions::Kernel(_) => BpfProgramType::KprobeMulti,
            LinkedFunctions::File(..) => BpfProgramType::UprobeMulti,
        }
    }

    fn count(self) -> usize {
        match self {
            LinkedFunctions::Kernel(names) => names.len(),
            LinkedFunctions::File(_, offsets) => offsets.len(),
        }
    }
}

impl BpfLink {
    /// Attaches a program to the calls or, with `at_return`, to the returns of functions.
    /// `cookies` has the number that the program reads in each.
    ///
    /// # Errors
    /// The kernel does not have such links, or refuses one of the functions; `EINVAL` if `cookies`
    /// has another length.
    pub fn create(
        program: BpfProgram,
        functions: LinkedFunctions<'_>,
        cookies: &[u64],
        at_return: bool,
    ) -> io::Result<BpfLink> {
        if cookies.len() != functions.count() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mut attr = BpfAttr::fd(0, &program.fd);
        attr.set_u32(8, functions.program_type().attach_type());
        let (count, flags) = (cookies.len() as u32, if at_return { AT_RETURN } else { 0 });
        let names: Vec<*const c_char>;
        match functions {
            LinkedFunctions::Kernel(functions) => {
                names = functions.iter().map(|name| name.as_ptr()).collect();
                attr.set_u32(16, flags);
                attr.set_u32(20, count);
                attr.set_pointer(24, names.as_ptr());
                attr.set_pointer(40, cookies.as_ptr());
            }
            LinkedFunctions::File(path, offsets) => {
                attr.set_pointer(16, path.as_ptr());
                attr.set_pointer(24, offsets.as_ptr());
                attr.set_pointer(40, cookies.as_ptr());
                attr.set_u32(48, count);
                attr.set_u32(52, flags);
            }
        }
        // SAFETY: names, path, offsets and cookies outlive the call; the lists have `count`
        // elements, and the strings end with a NUL.
        let fd = unsafe { attr.call(LINK_CREATE) }?;
        // SAFETY: the kernel just returned it.
        Ok(BpfLink { _fd: unsafe { owned(fd) }, program })
    }

    /// Returns how often the program did not run ([`BpfProgram::misses`]).
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn misses(&self) -> io::Result<u64> {
        self.program.misses()
    }
}
