//! Whether a CPU's idle task leaves records: a kernel may stop writing them, without a word and for
//! good.
//!
//! Seen on 6.18: from some moment on, what happens on a CPU while its idle task is current (the
//! switch away from it, timers, wakeups by interrupts) leaves no record there, in any ring. So each
//! CPU is made idle a few times, and its switches to the idle task, which other tasks report, are
//! compared with those away from it.

use super::attr::Attr;
use super::perf::{Event, Target};
use super::ring::Ring;
use super::tracefs::Tracefs;
use perf_event_open_sys::bindings as b;
use std::io;
use std::time::Duration;

/// What a CPU did and reported.
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
    /// Records of these.
    pub written: u64,
}

/// So often each CPU is made idle.
const SLEEPS: u32 = 6;
/// Switches to the idle task from which on those away from it can be judged: at both ends one may
/// be missing.
const JUDGED: u64 = 4;
/// Data pages of each ring, enough for some milliseconds of any CPU's idle task.
const PAGES: usize = 8;

impl IdleRecords {
    /// Whether the idle task was switched to.
    pub fn was_idle(&self) -> bool {
        self.entered > 0
    }

    /// Whether records of the idle task are missing.
    pub fn is_silent(&self) -> bool {
        self.counted > self.written || self.entered >= JUDGED && self.left < self.entered / 2
    }
}

/// Makes each CPU idle for some milliseconds and looks at what its idle task reports.
///
/// # Errors
/// The events cannot be opened, as by a user who may not watch whole CPUs.
pub fn idle_records(tracefs: &Tracefs, cpus: &[u32]) -> io::Result<Vec<IdleRecords>> {
    let mut seen = Vec::with_capacity(cpus.len());
    // The last close of a tracepoint takes some 30 ms, so those of one CPU stay open until the end.
    let mut first = None;
    for &cpu in cpus {
        let of = |sys, name, filter| Watch::open(tracefs, (sys, name), filter, cpu);
        let entered = of("sched", "sched_switch", "next_pid == 0")?;
        let left = of("sched", "sched_switch", "prev_pid == 0")?;
        let timers = of("timer", "hrtimer_expire_entry", "common_pid == 0")?;
        let watches = [entered, left, timers];
        watches.iter().try_for_each(|watch| watch.event.enable())?;
        // A thread of its own, so that this one may go on to run anywhere.
        let _ = std::thread::spawn(move || sleep_on(cpu)).join();
        watches.iter().try_for_each(|watch| watch.event.disable())?;
        // What was interrupted while it wrote.
        std::thread::sleep(Duration::from_millis(1));
        let [entered, left, timers] = &watches;
        let (entered, left, timers) = (entered.seen()?, left.seen()?, timers.seen()?);
        seen.push(IdleRecords {
            cpu,
            entered: entered.written,
            left: left.written,
            counted: left.counted + timers.counted,
            written: left.written + timers.written,
        });
        first.get_or_insert(watches);
    }
    Ok(seen)
}

/// An event with a ring of its own.
struct Watch {
    event: Event,
    ring: Ring,
}

struct Seen {
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
        let target = Target { pid: -1, cpu: cpu as i32 };
        let event = Event::open(&attr, target, &format!("{sys}:{name}"));
        let event = event.map_err(io::Error::other)?.event;
        event.set_filter(filter).map_err(io::Error::other)?;
        let ring = Ring::map(&event, PAGES).map_err(io::Error::other)?;
        Ok(Watch { event, ring })
    }

    fn seen(&self) -> io::Result<Seen> {
        let counts = self.event.read_counts()?;
        let (mut at, head, mut written) = (self.ring.tail(), self.ring.head(), 0);
        while let Some(piece) = self.ring.piece(at, head).map_err(io::Error::other)? {
            written += u64::from(piece.kind() == b::PERF_RECORD_SAMPLE);
            at += piece.len() as u64;
        }
        // A kernel before 6.0 does not count what it dropped: then nothing can be compared.
        let counted = counts.lost.map_or(written, |lost| counts.value.saturating_sub(lost));
        Ok(Seen { counted, written })
    }
}

/// Sleeps a few times on a CPU, which is idle meanwhile unless others are busy there.
fn sleep_on(cpu: u32) {
    // SAFETY: zero is a value of it: no CPU.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = size_of_val(&set);
    if cpu as usize >= 8 * size {
        return;
    }
    // SAFETY: the CPU is one of the set, and the call reads the set.
    let moved = unsafe {
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size, &raw const set)
    };
    // Where it may not run, such as outside of its cpuset, the CPU does what it does.
    for _ in 0..if moved == 0 { SLEEPS } else { 1 } {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::cpus::online_cpus;

    #[test]
    fn a_cpu_that_is_left_as_often_as_it_idles_is_well() {
        let seen = |entered, left, counted, written| {
            IdleRecords { cpu: 0, entered, left, counted, written }.is_silent()
        };
        assert!(!seen(6, 6, 9, 9) && !seen(6, 5, 9, 9) && !seen(1, 0, 0, 0) && !seen(0, 0, 0, 0));
        assert!(seen(6, 0, 0, 0) && seen(6, 6, 9, 8));
    }

    #[test]
    fn each_cpu_of_this_machine_reports_what_its_idle_task_does() {
        if !crate::sys::trial::needs_root("the idle task of each CPU") {
            return;
        }
        let cpus = online_cpus();
        let seen = idle_records(&Tracefs::find().unwrap(), &cpus).unwrap();
        assert_eq!(seen.iter().map(|of| of.cpu).collect::<Vec<_>>(), cpus);
        for of in seen {
            // A kernel that has stopped is what the check is for: the test cannot mend it.
            if of.is_silent() {
                assert!(of.written < of.counted || of.left < of.entered, "{of:?}");
                continue;
            }
            assert_eq!(of.written, of.counted, "{of:?}");
        }
    }
}
