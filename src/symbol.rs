//! Names of addresses: in the kernel, in programs and libraries, and in code generated at run time.
//! Also what the text of events needs from the running kernel.
//!
//! ```text
//! kernel address → made (KSYMBOL records) → kallsyms
//! user address → its mapping → the object behind it → its tables, or those of its debug file
//!                            ↘ no object → the perf map that a just-in-time compiler wrote
//! name of a function → its first address, for a probe
//! user address of data → its mapping → the variable in the tables of the file
//! ```
//!
//! Nothing is read before a name is requested. Data derived from an object is dropped with the
//! object.

mod debug_file;
mod demangle;
mod functions;
mod kernel;
mod kernel_info;
mod ksymbols;
mod minidebuginfo;
mod perf_map;
mod ranges;
mod raw_tracepoints;
mod symbols;
mod tables;
mod variables;

pub use functions::MachineFunctions;
pub use kernel::KernelSymbols;
pub use kernel_info::RunningKernel;
pub use ksymbols::Ksymbol;
pub use raw_tracepoints::RawTracepoints;
pub use symbols::Symbols;
pub use tables::ObjectSymbols;
pub use variables::ProcessVariables;

use crate::base::report::frame::{Frame, Space};

/// Symbols that were omitted because of limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OmittedSymbols {
    /// Bytes of perf maps that were not read.
    pub perf_map_bytes: u64,
    /// Symbols of code that the kernel generated.
    pub ksymbols: u64,
}

/// Names the addresses of call chains: live, from the tables of the kernel and of processes; in a
/// replay, from the recording.
pub trait Symbolizer {
    /// Appends the functions that contain an address, the innermost first: more than one if
    /// functions were inlined, and always at least one, without a symbol if nothing is known. With
    /// `caller`, the address is a return address, so the instruction before it is looked up.
    fn frames(
        &mut self,
        space: Space,
        address: u64,
        kernel: bool,
        caller: bool,
        out: &mut Vec<Frame>,
    );

    /// Handles the end of a space's process: the files that it leaves may be gone when its
    /// addresses are named.
    fn on_exit(&mut self, _space: Space) {}

    /// Returns how many symbols were omitted because of limits.
    fn omitted(&self) -> OmittedSymbols {
        OmittedSymbols::default()
    }

    /// Returns a number that changes whenever an address that was looked up may have another name;
    /// earlier answers must then be looked up again. Each drawing starts with a call of this.
    fn version(&self) -> u64 {
        0
    }
}
