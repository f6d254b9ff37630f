//! The ids of this process's threads in tracepoint records: `common_pid` is the id in the root pid
//! namespace.
//!
//! A run excludes itself by a filter on `common_pid`. In a container `gettid()` returns another
//! number, and nothing in the container shows the outer one; so the thread records one event of its
//! own and reads `common_pid` from it.

use super::attr::{Attr, PerfTarget};
use super::namespace::in_root_pid_namespace;
use super::perf::PerfEvent;
use super::ring::{Ring, Scratch};
use super::tracefs::Tracefs;
use perf_event_open_sys::bindings as b;
use std::io;

/// Returns the calling thread's id as `common_pid` shows it.
///
/// # Errors
/// In another pid namespace: this thread may not open the tracepoints, or none of them left a
/// record.
pub fn kernel_tid(tracefs: &Tracefs) -> io::Result<i32> {
    if in_root_pid_namespace() {
        // SAFETY: it has no preconditions and cannot fail.
        return Ok(unsafe { libc::gettid() });
    }
    let mut failure = io::Error::other("no tracepoint shows it");
    for trigger in TRIGGERS {
        match trigger.common_pid(tracefs) {
            Ok(tid) => return Ok(tid),
            Err(error) => failure = error,
        }
    }
    Err(io::Error::new(
        failure.kind(),
        format!("failed to find the id of this thread in the initial pid namespace: {failure}"),
    ))
}

/// Like [`kernel_tid`], but falls back to `gettid()`, for uses where a wrong id only means that one
/// of perilune's own threads is traced.
pub fn tid_in_records() -> i32 {
    let found = || kernel_tid(&Tracefs::find().ok()?).ok();
    // SAFETY: gettid has no arguments and cannot fail.
    let here = unsafe { libc::gettid() };
    if in_root_pid_namespace() { here } else { found().unwrap_or(here) }
}

/// A tracepoint that this thread can trigger.
struct Trigger {
    system: &'static str,
    name: &'static str,
    run: fn(),
}

/// Tried in order; the first needs CONFIG_FTRACE_SYSCALLS.
const TRIGGERS: &[Trigger] = &[
    Trigger {
        system: "raw_syscalls",
        name: "sys_enter",
        // SAFETY: it has no preconditions.
        run: || unsafe {
            libc::getppid();
        },
    },
    Trigger { system: "task", name: "task_rename", run: rename_to_the_same },
];

impl Trigger {
    /// Opens the tracepoint for this thread, triggers one record and reads `common_pid` from it.
    fn common_pid(&self, tracefs: &Tracefs) -> io::Result<i32> {
        let offset = common_pid_offset(&tracefs.format(self.system, self.name)?)
            .ok_or_else(|| io::Error::other("the format has no common_pid"))?;
        let mut attr = Attr::tracepoint(tracefs.id(self.system, self.name)?);
        let raw = attr.raw();
        raw.sample_type = u64::from(b::PERF_SAMPLE_RAW);
        raw.__bindgen_anon_1.sample_period = 1;
        raw.set_disabled(1);
        let name = format!("{}:{}", self.system, self.name);
        let event = PerfEvent::open(&attr, PerfTarget { pid: 0, cpu: -1 }, &name)
            .map_err(io::Error::other)?
            .event;
        let ring = Ring::map(&event, 1).map_err(io::Error::other)?;
        event.enable()?;
        (self.run)();
        event.disable()?;

        let (head, mut at) = (ring.head(), ring.tail());
        let mut scratch = Scratch::new();
        while let Some(piece) = ring.piece(at, head).map_err(io::Error::other)? {
            if piece.kind() == b::PERF_RECORD_SAMPLE {
                // header, u32 raw size, raw record
                let field = piece.copy_into(&mut scratch).get(8 + 4 + offset..);
                let tid = field.and_then(|bytes| bytes.first_chunk());
                return tid
                    .map(|bytes| i32::from_ne_bytes(*bytes))
                    .ok_or_else(|| io::Error::other("the record is too short"));
            }
            at += piece.len() as u64;
        }
        Err(io::Error::other(format!("{name} left no record")))
    }
}

/// Returns the offset of `common_pid`, always an int, from the line
/// `field:int common_pid; offset:4; size:4; signed:1;`, whose separators are tabs.
fn common_pid_offset(format: &str) -> Option<usize> {
    let line = format.lines().find(|line| line.contains(" common_pid;"))?;
    let (_, rest) = line.split_once("offset:")?;
    rest.split(';').next()?.parse().ok().filter(|offset| *offset < 4096)
}

fn rename_to_the_same() {
    let mut comm = [0u8; 16];
    // SAFETY: the kernel writes, then reads, at most 16 bytes with a NUL at the end.
    unsafe {
        libc::prctl(libc::PR_GET_NAME, comm.as_mut_ptr());
        libc::prctl(libc::PR_SET_NAME, comm.as_ptr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_read_from_the_format() {
        let format = "name: x\nformat:\n\tfield:int common_pid;\toffset:12;\tsize:4;\tsigned:1;\n";
        assert_eq!(common_pid_offset(format), Some(12));
        assert_eq!(common_pid_offset(""), None);
        assert_eq!(common_pid_offset("\tfield:int common_pid;\toffset:99999999;"), None);
    }

    #[test]
    fn each_trigger_works() {
        if !crate::sys::live_tests::needs_root("a tracepoint of this thread") {
            return;
        }
        let tracefs = Tracefs::find().unwrap();
        for trigger in TRIGGERS {
            let found = trigger.common_pid(&tracefs).unwrap();
            if in_root_pid_namespace() {
                // SAFETY: it has no preconditions.
                assert_eq!(found, unsafe { libc::gettid() }, "{}", trigger.name);
            }
        }
    }
}
