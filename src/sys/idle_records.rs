//! Checks whether the idle task of a CPU leaves records: a kernel may stop writing them, silently
//! and permanently.
//!
//! Seen on 6.18: from some moment on, events on a CPU while its idle task is current (the switch
//! away from it, timers, wakeups by interrupts) leave no record there, in any ring. Therefore each
//! CPU is made idle a few times, and its switches to the idle task, which other tasks report, are
//! compared with those away from it.

use super::attr::Attr;
use super::attr::{EVERY_TASK, PerfTarget};
use super::perf::PerfEvent;
use super::ring::Ring;
use super::tracefs::Tracefs;
use perf_event_open_sys::bindings as b;
use std::io;
use std::time::Duration;

/// Events and records of the idle task of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleRecords {
    /// The CPU.
    pub cpu: u32,
    /// Records of switches to its idle task.
    pub entered: u64,
    /// Records of switches away from it.
    pub left: u64,
    /// Events of the idle task that the kernel counted, and did not count as lost.
    pub counted: u64,
    /// Records of these events.
    pub written: u64,
}

/// How often each CPU is made idle.
const SLEEPS: u32 = 6;
/// Minimum number of switches to the idle task for judging those away from it: one may be missing
/// at each end.
const JUDGED: u64 = 4;
/// Data pages of each ring, enough for some milliseconds of any CPU's idle task.
const PAGES: usize = 8;

impl IdleRecords {
    /// Returns whether the CPU switched to its idle task.
    pub fn was_idle(&self) -> bool {
        self.entered > 0
    }

    /// Returns whether records of the idle task are missing.
    pub fn is_silent(&self) -> bool {
        self.counted > self.written || self.entered >= JUDGED && self.left < self.entered / 2
    }
}

/// Makes each CPU idle for some milliseconds and counts the records of its idle task.
///
/// # Errors
/// The events cannot be opened, for example by a user who may not trace whole CPUs.
pub fn idle_records(tracefs: &Tracefs, cpus: &[u32]) -> io::Result<Vec<IdleRecords>> {
    let mut records = Vec::with_capacity(cpus.len());
    // The last close of a tracepoint takes some 30 ms, so the events of one CPU stay open until the
    // end.
    let mut first = None;
    for &cpu in cpus {
        let of = |sys, name, filter| Watch::open(tracefs, (sys, name), filter, cpu);
        let entered = of("sched", "sched_switch", "next_pid == 0")?;
        let left = of("sched", "sched_switch", "prev_pid == 0")?;
        let timers = of("timer", "hrtimer_expire_entry", "common_pid == 0")?;
        let watches = [entered, left, timers];
        watches.iter().try_for_each(|watch| watch.event.enable())?;
        // Uses a separate thread, so that this one can continue to run on any CPU.
        let _ = std::thread::spawn(move || sleep_on(cpu)).join();
        watches.iter().try_for_each(|watch| watch.event.disable())?;
        // Waits for records whose writing was interrupted.
        std::thread::sleep(Duration::from_millis(1));
        let [entered, left, timers] = &watches;
        let (entered, left, timers) = (entered.counts()?, left.counts()?, timers.counts()?);
        records.push(IdleRecords {
            cpu,
            entered: entered.written,
            left: left.written,
            counted: left.counted + timers.counted,
            written: left.written + timers.written,
        });
        first.get_or_insert(watches);
    }
    Ok(records)
}

/// An event with a ring of its own.
struct Watch {
    event: PerfEvent,
    ring: Ring,
}

struct RecordCounts {
    counted: u64,
    written: u64,
}

impl Watch {
    fn open(
        tracefs: &Tracefs,
        (sys, name): (&str, &str),
        filter: &str,
        cpu: u32,
    ) -> io::Result<Watch> {
        let mut attr = Attr::tracepoint(tracefs.id(sys, name)?);
        let raw = attr.raw();
        raw.sample_type = u64::from(b::PERF_SAMPLE_RAW);
        raw.read_format = u64::from(b::PERF_FORMAT_LOST);
        raw.__bindgen_anon_1.sample_period = 1;
        raw.set_disabled(1);
        let target = PerfTarget { pid: EVERY_TASK, cpu: cpu as i32 };
        let event = PerfEvent::open(&attr, target, &format!("{sys}:{name}"));
        let event = event.map_err(io::Error::other)?.event;
        event.set_filter(filter).map_err(io::Error::other)?;
        let ring = Ring::map(&event, PAGES).map_err(io::Error::other)?;
        Ok(Watch { event, ring })
    }

    fn counts(&self) -> io::Result<RecordCounts> {
        let counts = self.event.read_counts()?;
        let (mut at, head, mut written) = (self.ring.tail(), self.ring.head(), 0);
        while let Some(piece) = self.ring.piece(at, head).map_err(io::Error::other)? {
            written += u64::from(piece.kind() == b::PERF_RECORD_SAMPLE);
            at += piece.len() as u64;
        }
        // A kernel before 6.0 does not count dropped records, so nothing can be compared.
        let counted = counts.lost.map_or(written, |lost| counts.value.saturating_sub(lost));
        Ok(RecordCounts { counted, written })
    }
}

/// Sleeps a few times on a CPU, which is idle meanwhile unless other tasks run there.
fn sleep_on(cpu: u32) {
    // SAFETY: zero is a value of it: the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = size_of_val(&set);
    if cpu as usize >= 8 * size {
        return;
    }
    // SAFETY: the CPU is within the set's size, and the call reads the set.
    let moved = unsafe {
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size, &raw const set)
    };
    // Sleeps once if this thread may not run there, for example outside of its cpuset.
    for _ in 0..if moved == 0 { SLEEPS } else { 1 } {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::cpus::online_cpus;

    #[test]
    fn a_cpu_is_silent_if_exits_or_records_are_missing() {
        let silent = |entered, left, counted, written| {
            IdleRecords { cpu: 0, entered, left, counted, written }.is_silent()
        };
        assert!(
            !silent(6, 6, 9, 9)
                && !silent(6, 5, 9, 9)
                && !silent(1, 0, 0, 0)
                && !silent(0, 0, 0, 0)
        );
        assert!(silent(6, 0, 0, 0) && silent(6, 6, 9, 8));
    }

    #[test]
    fn each_cpu_of_this_machine_reports_what_its_idle_task_does() {
        if !crate::sys::live_tests::needs_root("the idle task of each CPU") {
            return;
        }
        let cpus = online_cpus();
        let records = idle_records(&Tracefs::find().unwrap(), &cpus).unwrap();
        assert_eq!(records.iter().map(|of| of.cpu).collect::<Vec<_>>(), cpus);
        for of in records {
            // The check exists to find such a kernel; the test cannot repair it.
            if of.is_silent() {
                assert!(of.written < of.counted || of.left < of.entered, "{of:?}");
                continue;
            }
            assert_eq!(of.written, of.counted, "{of:?}");
        }
    }
}
