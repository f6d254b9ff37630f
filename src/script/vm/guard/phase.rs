//! The kinds of calls into Lua, and their limits of CPU time.

use std::time::Duration;

/// Kind of Lua call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Handling a batch, a timer or a side-band record.
    Handler = 1,
    /// Running a file, `init` or `filter`.
    Load = 2,
    /// `interval`, `deinit`, and the functions that draw columns. The first Ctrl-C does not stop
    /// them, so that no report is lost.
    Report = 3,
    /// A line of a prompt: the user sees how long it takes, and the first Ctrl-C ends it.
    Line = 4,
}

/// Limits of CPU time per call.
#[derive(Clone, Copy, Debug)]
pub struct CpuLimits {
    /// A batch.
    pub handler: Duration,
    /// Loading a file, `init` and `filter`, each.
    pub load: Duration,
    /// `interval` or `deinit`, and drawing what they return, each.
    pub report: Duration,
}

impl Default for CpuLimits {
    fn default() -> Self {
        CpuLimits {
            // 4 s in debug builds: LuaJIT checks the whole trace at each recorded instruction
            // there, up to a second for a long trace.
            handler: Duration::from_secs(if cfg!(debug_assertions) { 4 } else { 1 }),
            load: Duration::from_secs(5),
            report: Duration::from_secs(5),
        }
    }
}
