//! Names of addresses: of the kernel's, of programs' and libraries', of code that is made while it runs; and all that texts
//! of events ask of the running kernel.
//!
//! ```text
//! kernel address → made (KSYMBOL records) → kallsyms
//! user address → its mapping → the object behind it → its tables, or those of its debug file
//!                            ↘ no object → the perf map that a just-in-time compiler wrote
//! name of a function → where it begins, for who watches it
//! ```
//!
//! Nothing is read before somebody asks for a name. What was made of an object is dropped with the object.

mod debug_file;
mod functions;
mod kernel;
mod made;
mod mini;
mod perf_map;
mod ranges;
mod running;
mod spelling;
mod symbols;
mod tables;

pub use functions::MachineFunctions;
pub use kernel::KernelSymbols;
pub use made::MadeSymbol;
pub use running::RunningKernel;
pub use symbols::Symbols;
pub use tables::Tables;

use crate::base::frame::{Frame, Space};

/// What names the addresses of call chains: live the tables of kernel and processes, in a replay the recording.
pub trait Names {
    /// Appends the functions that an address lies in, the innermost first: more than one where functions were inlined.
    /// Always at least one, without a symbol if nothing is known. `caller`: the address is one to return to, so that
    /// the instruction asked about is the one in front of it.
    fn frames(
        &mut self,
        space: Space,
        address: u64,
        kernel: bool,
        caller: bool,
        out: &mut Vec<Frame>,
    );

    /// The process of a space has ended: what it leaves behind may be gone when its addresses are
    /// named.
    fn on_exit(&mut self, _space: Space) {}

    /// Changes whenever an address that was asked about may have another name now: answers of before are then asked anew. Every
    /// drawing begins by asking this.
    fn version(&self) -> u64 {
        0
    }
}
