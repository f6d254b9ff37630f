//! Checks whether each hit of a hardware breakpoint is counted: a virtual machine may lose the
//! debug registers of a running task.
//!
//! Seen in a guest of 6.18: from some write on, after some thousand, a breakpoint of a task was not
//! hit any more, or hits without an event ended the task by SIGTRAP; the kernel reported nothing.

use std::io::{self, Read as _, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings as abi;

use super::attr::{Attr, PerfTarget};
use super::perf::PerfEvent;

/// Writes to watched memory, and the hits that the kernel counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakpointHits {
    /// Number of writes.
    pub written: u64,
    /// Number of hits.
    pub counted: u64,
}

/// Number of writes of a check, which take about 30 ms.
pub const WRITES: u64 = 20_000;

/// The watched memory, of which the child has a copy at the same address.
static WATCHED: AtomicU64 = AtomicU64::new(0);

/// Returns the hits of the first check in this process if some were lost; None if none was, or if
/// breakpoints cannot be opened.
pub fn lost_hits() -> Option<BreakpointHits> {
    static SEEN: OnceLock<Option<BreakpointHits>> = OnceLock::new();
    let hits = SEEN.get_or_init(|| breakpoint_hits(WRITES).ok());
    hits.filter(|hits| hits.counted < hits.written)
}

/// Counts the hits of a breakpoint on memory that a child writes `writes` times.
///
/// # Errors
/// The breakpoint cannot be opened, or no process can be created.
pub fn breakpoint_hits(writes: u64) -> io::Result<BreakpointHits> {
    let (mut wait, mut go) = io::pipe()?;
    // SAFETY: the child makes only async-signal-safe calls and never returns.
    let child = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {
            drop(go);
            // The read fails if the parent could not open the event.
            let begins = wait.read_exact(&mut [0]).is_ok();
            for write in 0..if begins { writes } else { 0 } {
                WATCHED.store(write, Ordering::Relaxed);
            }
            // SAFETY: _exit has no preconditions.
            unsafe { libc::_exit(0) }
        }
        child => child,
    };
    drop(wait);
    let event = PerfEvent::open(&attr(), PerfTarget { pid: child, cpu: -1 }, "a breakpoint");
    if event.is_ok() {
        // The pipe is broken if the child was killed.
        let _ = go.write_all(&[1]);
    }
    drop(go);
    reap(child);
    let event = event.map_err(io::Error::other)?.event;
    Ok(BreakpointHits { written: writes, counted: event.read_counts()?.value })
}

/// Returns the attr of a breakpoint at writes to [`WATCHED`] in user mode.
fn attr() -> Attr {
    let mut attr = Attr::counter(abi::PERF_TYPE_BREAKPOINT, 0);
    let raw = attr.raw();
    raw.bp_type = abi::HW_BREAKPOINT_W;
    raw.__bindgen_anon_3.bp_addr = (&raw const WATCHED).addr() as u64;
    raw.__bindgen_anon_4.bp_len = u64::from(abi::HW_BREAKPOINT_LEN_8);
    raw.set_exclude_kernel(1);
    raw.set_exclude_hv(1);
    attr
}

fn reap(child: i32) {
    loop {
        // SAFETY: the kernel writes no status to a null pointer.
        let reaped = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        let interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        if reaped != -1 || !interrupted {
            return;
        }
    }
}
