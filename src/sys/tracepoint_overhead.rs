//! Overhead of a tracepoint for the traced task, in the kernel: measured on this thread, with a
//! system call.

use std::io;

use perf_event_open_sys::bindings as b;

use super::attr::Attr;
use super::attr::PerfTarget;
use super::clock;
use super::perf::PerfEvent;
use super::ring::Ring;
use super::tracefs::Tracefs;

/// Overhead per event, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TracepointOverhead {
    /// Overhead of an event with a record.
    pub record: f64,
    /// Overhead of an event that its filter rejects.
    pub rejected: f64,
}

/// System calls per round; their records fit into the ring.
const CALLS: u32 = 2000;
const PAGES: usize = 256;
const ROUNDS: usize = 3;

/// Measures the overhead, in some 10 ms. Returns the events, too, since closing them takes longer.
///
/// # Errors
/// There is no tracepoint of system calls, or this thread may not open it.
pub fn measure(tracefs: &Tracefs) -> io::Result<(TracepointOverhead, Vec<PerfEvent>)> {
    let alone = least(|| Ok(()), || Ok(()))?;
    let all = open(tracefs)?;
    let mut ring = Ring::map(&all, PAGES).map_err(io::Error::other)?;
    let record = least(
        || {
            let head = ring.head();
            ring.release(head);
            all.enable()
        },
        || all.disable(),
    )?;
    let none = open(tracefs)?;
    none.set_filter("common_pid == 0").map_err(io::Error::other)?;
    let rejected = least(|| none.enable(), || none.disable())?;
    let overhead = TracepointOverhead {
        record: (record - alone).max(0.0),
        rejected: (rejected - alone).max(0.0),
    };
    drop(ring);
    Ok((overhead, vec![all, none]))
}

fn open(tracefs: &Tracefs) -> io::Result<PerfEvent> {
    let mut attr = Attr::tracepoint(tracefs.id("raw_syscalls", "sys_enter")?);
    let raw = attr.raw();
    let sample = b::PERF_SAMPLE_RAW | b::PERF_SAMPLE_TIME | b::PERF_SAMPLE_TID | b::PERF_SAMPLE_CPU;
    raw.sample_type = u64::from(sample);
    raw.__bindgen_anon_1.sample_period = 1;
    raw.set_disabled(1);
    let target = PerfTarget { pid: 0, cpu: -1 };
    Ok(PerfEvent::open(&attr, target, "raw_syscalls:sys_enter").map_err(io::Error::other)?.event)
}

/// Returns the CPU time per call of the fastest round, in nanoseconds.
fn least(
    mut before: impl FnMut() -> io::Result<()>,
    after: impl Fn() -> io::Result<()>,
) -> io::Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        before()?;
        let begun = clock::thread_cpu_ns();
        for _ in 0..CALLS {
            // SAFETY: getppid has no preconditions.
            unsafe { libc::getppid() };
        }
        least = least.min((clock::thread_cpu_ns() - begun) as f64 / f64::from(CALLS));
        after()?;
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_costs_more_than_a_rejection() {
        if !crate::sys::live_tests::needs_root("a tracepoint of this thread") {
            return;
        }
        let (overhead, _) = measure(&Tracefs::find().unwrap()).unwrap();
        assert!(overhead.record > overhead.rejected && overhead.record < 1e5, "{overhead:?}");
    }
}
