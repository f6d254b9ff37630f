//! Overhead of a tracepoint for the traced task, in the kernel: measured on this thread, with a
//! system call.

use std::io;

use perf_event_open_sys::bindings as b;

use super::attr::Attr;
use super::attr::PerfTarget;
use super::clock;
use super::perf::PerfEvent;
use super::registers;
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

/// Overhead per event that can be thinned, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThinnedOverhead {
    /// Overhead of an event with a record.
    pub record: f64,
    /// Overhead of an event that is counted, without a record.
    pub skipped: f64,
    /// Overhead of a system call while its event is open, but disabled.
    pub off: f64,
}

/// The part of a stack that a record contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StackCopy {
    /// Bytes of the user stack that are copied; 0 for none.
    pub bytes: u32,
    /// Whether the kernel walks the stack.
    pub is_walked: bool,
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

/// Measures the overhead of an event that is thinned, whose records have this part of a stack, and
/// whose filter has so many conditions. Takes some 50 ms, because it closes the event.
///
/// # Errors
/// The same as for [`measure`].
pub fn measure_thinned(
    tracefs: &Tracefs,
    stack: StackCopy,
    conditions: usize,
) -> io::Result<ThinnedOverhead> {
    /// A period that does not end during the measurement.
    const NEVER: u64 = 1 << 40;
    // Without an open event, before and after: it makes every system call slower.
    let mut bare = Rounds::default();
    (0..SHORT_ROUNDS / 2).for_each(|_| bare.add(SHORT_CALLS));
    let event = open_thinned(tracefs, stack)?;
    if conditions > 0 {
        // Each is met, so that the kernel looks at all of them.
        let filter = vec!["common_pid != 0"; conditions.min(MOST_CONDITIONS)].join(" && ");
        event.set_filter(&filter).map_err(io::Error::other)?;
    }
    let mut ring = Ring::map(&event, PAGES).map_err(io::Error::other)?;
    let room = ring.capacity() / (u64::from(stack.bytes) + MOST_OTHER_BYTES);
    let calls = SHORT_CALLS.min(u32::try_from(room).unwrap_or(SHORT_CALLS)).max(1);
    let [mut record, mut skipped, mut off] = <[Rounds; 3]>::default();
    for _ in 0..SHORT_ROUNDS {
        off.add(calls);
        for (period, rounds) in [(1, &mut record), (NEVER, &mut skipped)] {
            event.period(period)?;
            let head = ring.head();
            ring.release(head);
            event.enable()?;
            rounds.add(calls);
            event.disable()?;
        }
    }
    drop((ring, event));
    (0..SHORT_ROUNDS / 2).for_each(|_| bare.add(SHORT_CALLS));
    let above = |rounds: &Rounds| (rounds.per_call() - bare.per_call()).max(0.0) * bare.per_step();
    Ok(ThinnedOverhead { record: above(&record), skipped: above(&skipped), off: above(&off) })
}

/// Most conditions of a filter whose cost is measured.
const MOST_CONDITIONS: usize = 64;
/// Short rounds, in turns.
const SHORT_ROUNDS: usize = 40;
/// Steps of a computation in user mode whose time shows how fast the CPU is.
const STEPS: u32 = 10_000;

/// Rounds of system calls. A CPU is slower while others share its core or lower its frequency, for
/// longer than a round; a call therefore counts in steps of a computation beside it.
#[derive(Default)]
struct Rounds {
    /// Steps per call, and nanoseconds per step, of each round.
    calls: Vec<f64>,
    steps: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, calls: u32) {
        let per_call = per_call(calls);
        let begun = clock::thread_cpu_ns();
        let mut state = 1u64;
        for _ in 0..STEPS {
            state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005));
        }
        let per_step = (clock::thread_cpu_ns() - begun) as f64 / f64::from(STEPS);
        self.calls.push(per_call / per_step);
        self.steps.push(per_step);
    }

    /// Returns the steps that a call takes: the median, as an interrupt prolongs few rounds.
    fn per_call(&self) -> f64 {
        median(&self.calls)
    }

    /// Returns the nanoseconds of a step.
    fn per_step(&self) -> f64 {
        median(&self.steps)
    }
}

fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// System calls per short round, unless the ring has room for fewer records.
const SHORT_CALLS: u32 = 250;
/// Bytes of a record beside the copy of the stack: at most 127 frames, and some fields.
const MOST_OTHER_BYTES: u64 = 2048;

/// Returns the CPU time per call of some system calls, in nanoseconds.
fn per_call(calls: u32) -> f64 {
    let begun = clock::thread_cpu_ns();
    for _ in 0..calls {
        // SAFETY: getppid has no preconditions.
        unsafe { libc::getppid() };
    }
    (clock::thread_cpu_ns() - begun) as f64 / f64::from(calls)
}

fn open_thinned(tracefs: &Tracefs, stack: StackCopy) -> io::Result<PerfEvent> {
    let mut attr = attr_of_record(tracefs)?;
    let raw = attr.raw();
    raw.sample_type |= u64::from(b::PERF_SAMPLE_IDENTIFIER | b::PERF_SAMPLE_READ);
    raw.read_format = u64::from(b::PERF_FORMAT_ID);
    if stack.is_walked {
        raw.sample_type |= u64::from(b::PERF_SAMPLE_CALLCHAIN);
    }
    if stack.bytes > 0 {
        raw.sample_type |= u64::from(b::PERF_SAMPLE_REGS_USER | b::PERF_SAMPLE_STACK_USER);
        raw.sample_regs_user = registers::UNWOUND;
        raw.sample_stack_user = stack.bytes;
    }
    open_here(&attr)
}

fn open(tracefs: &Tracefs) -> io::Result<PerfEvent> {
    open_here(&attr_of_record(tracefs)?)
}

fn attr_of_record(tracefs: &Tracefs) -> io::Result<Attr> {
    let mut attr = Attr::tracepoint(tracefs.id("raw_syscalls", "sys_enter")?);
    let raw = attr.raw();
    let sample = b::PERF_SAMPLE_RAW | b::PERF_SAMPLE_TIME | b::PERF_SAMPLE_TID | b::PERF_SAMPLE_CPU;
    raw.sample_type = u64::from(sample);
    raw.__bindgen_anon_1.sample_period = 1;
    raw.set_disabled(1);
    Ok(attr)
}

/// Opens an event of system calls of this thread.
fn open_here(attr: &Attr) -> io::Result<PerfEvent> {
    let target = PerfTarget { pid: 0, cpu: -1 };
    Ok(PerfEvent::open(attr, target, "raw_syscalls:sys_enter").map_err(io::Error::other)?.event)
}

/// Returns the CPU time per call of the fastest round, in nanoseconds.
fn least(
    mut before: impl FnMut() -> io::Result<()>,
    after: impl Fn() -> io::Result<()>,
) -> io::Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        before()?;
        least = least.min(per_call(CALLS));
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

    #[test]
    fn an_event_that_is_only_counted_costs_less_than_its_record() {
        if !crate::sys::live_tests::needs_root("a tracepoint of this thread") {
            return;
        }
        let tracefs = Tracefs::find().unwrap();
        for stack in [
            StackCopy::default(),
            StackCopy { is_walked: true, bytes: 0 },
            StackCopy { is_walked: false, bytes: 8192 },
        ] {
            let overhead = measure_thinned(&tracefs, stack, 0).unwrap();
            assert!(overhead.record > overhead.skipped && overhead.record < 1e5, "{overhead:?}");
        }
    }

    #[test]
    fn the_conditions_of_a_filter_are_part_of_the_overhead() {
        if !crate::sys::live_tests::needs_root("a tracepoint of this thread") {
            return;
        }
        let tracefs = Tracefs::find().unwrap();
        // Other tests run beside: the least of some is compared.
        let skipped = |conditions| {
            let measured = || measure_thinned(&tracefs, StackCopy::default(), conditions).unwrap();
            (0..4).map(|_| measured().skipped).fold(f64::INFINITY, f64::min)
        };
        let (none, many) = (skipped(0), skipped(MOST_CONDITIONS));
        // A condition takes half a nanosecond at least.
        assert!(many > none + 0.5 * MOST_CONDITIONS as f64, "{none} {many}");
    }
}
