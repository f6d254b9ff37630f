//! Which number tracepoints have for a thread of ours: `common_pid` is that of the root pid namespace.
//!
//! A run keeps itself out of what it watches by a filter on `common_pid`. In a container `gettid()` is another
//! number, and nothing in the container tells the outer one; so the thread records itself once and reads it.

use super::attr::Attr;
use super::perf::{Event, Target};
use super::ring::{Ring, Scratch};
use super::tracefs::Tracefs;
use perf_event_open_sys::bindings as b;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Whether this process lives in the pid namespace that the kernel began with.
pub fn in_root_pid_namespace() -> bool {
    // PROC_PID_INIT_INO of include/linux/proc_ns.h, part of the ABI by now.
    const ROOT: u64 = 0xEFFF_FFFC;
    number_of("pid") == Some(ROOT)
}

/// Whether this process lives in the user namespace that the kernel began with, or in one that
/// cannot be told: without /proc, or with a kernel that has none.
pub fn in_initial_user_namespace() -> bool {
    // PROC_USER_INIT_INO.
    const INITIAL: u64 = 0xEFFF_FFFD;
    number_of("user").is_none_or(|number| number == INITIAL)
}

fn number_of(namespace: &str) -> Option<u64> {
    std::fs::metadata(format!("/proc/self/ns/{namespace}")).ok().map(|file| file.ino())
}

/// This thread's id as `common_pid` shows it.
///
/// # Errors
/// In a pid namespace: the thread may not record itself, or no tracepoint came of the attempt.
pub fn kernel_tid(tracefs: &Tracefs) -> io::Result<i32> {
    if in_root_pid_namespace() {
        // SAFETY: it has no preconditions and cannot fail.
        return Ok(unsafe { libc::gettid() });
    }
    let mut failure = io::Error::other("no tracepoint to learn it from");
    for provocation in PROVOCATIONS {
        match provocation.common_pid(tracefs) {
            Ok(tid) => return Ok(tid),
            Err(error) => failure = error,
        }
    }
    Err(io::Error::new(
        failure.kind(),
        format!("failed to learn this thread's number outside its pid namespace: {failure}"),
    ))
}

/// The same where a wrong answer does no more harm than that a thread of ours is watched.
pub fn tid_in_records() -> i32 {
    let told = || kernel_tid(&Tracefs::find().ok()?).ok();
    // SAFETY: as above.
    let here = unsafe { libc::gettid() };
    if in_root_pid_namespace() { here } else { told().unwrap_or(here) }
}

/// A tracepoint that this thread can make fire.
struct Provocation {
    system: &'static str,
    name: &'static str,
    provoke: fn(),
}

/// The first is not there without CONFIG_FTRACE_SYSCALLS.
const PROVOCATIONS: &[Provocation] = &[
    Provocation {
        system: "raw_syscalls",
        name: "sys_enter",
        // SAFETY: it has no preconditions.
        provoke: || unsafe {
            libc::getppid();
        },
    },
    Provocation { system: "task", name: "task_rename", provoke: rename_to_the_same },
];

impl Provocation {
    /// Opens the tracepoint for this thread, provokes one record, reads `common_pid` from it.
    fn common_pid(&self, tracefs: &Tracefs) -> io::Result<i32> {
        let offset = common_pid_offset(&tracefs.format(self.system, self.name)?)
            .ok_or_else(|| io::Error::other("the format has no common_pid"))?;
        let mut attr = Attr::tracepoint(tracefs.id(self.system, self.name)?);
        let raw = attr.raw();
        raw.sample_type = u64::from(b::PERF_SAMPLE_RAW);
        raw.__bindgen_anon_1.sample_period = 1;
        raw.set_disabled(1);
        let name = format!("{}:{}", self.system, self.name);
        let event =
            Event::open(&attr, Target { pid: 0, cpu: -1 }, &name).map_err(io::Error::other)?.event;
        let ring = Ring::map(&event, 1).map_err(io::Error::other)?;
        event.enable()?;
        (self.provoke)();
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

/// Where `common_pid`, always an int, lies: from the line `field:int common_pid; offset:4; size:4; signed:1;`,
/// whose blanks are tabs.
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
    fn the_offset_is_that_of_the_file() {
        let format = "name: x\nformat:\n\tfield:int common_pid;\toffset:12;\tsize:4;\tsigned:1;\n";
        assert_eq!(common_pid_offset(format), Some(12));
        assert_eq!(common_pid_offset(""), None);
        assert_eq!(common_pid_offset("\tfield:int common_pid;\toffset:99999999;"), None);
    }

    #[test]
    fn each_provocation_works() {
        if !crate::sys::trial::needs_root("a tracepoint of this thread") {
            return;
        }
        let tracefs = Tracefs::find().unwrap();
        for provocation in PROVOCATIONS {
            let told = provocation.common_pid(&tracefs).unwrap();
            if in_root_pid_namespace() {
                // SAFETY: it has no preconditions.
                assert_eq!(told, unsafe { libc::gettid() }, "{}", provocation.name);
            }
        }
    }
}
