//! The doctor's view of a machine: facts, and attempts to do what a run does.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use perf_event_open_sys::bindings as abi;

use crate::cli::runtime::Bundled;
use crate::decode::format::Format;
use crate::decode::print::PrintProgram;
use crate::script::vm::guard::hook_stops_compiled_loops;
use crate::source::counting;
use crate::symbol::RunningKernel;
use crate::sys::attr::Attr;
use crate::sys::attr::{EVERY_TASK, PerfTarget};
use crate::sys::breakpoint_hits::{BreakpointHits, WRITES, breakpoint_hits};
use crate::sys::clock::ticks_per_second;
use crate::sys::idle_records::{IdleRecords, idle_records};
use crate::sys::limits::{self, OpenFiles};
use crate::sys::machine;
use crate::sys::mapped_file::KERNEL_TYPES;
use crate::sys::perf::PerfEvent;
use crate::sys::privileges::{CAP_IPC_LOCK, Privileges, capability};
use crate::sys::probe_type::ProbeType;
use crate::sys::tracefs::Tracefs;

/// The input of the checks.
#[derive(Clone, Debug)]
pub struct MachineFacts {
    pub(super) facts: Privileges,
    pub(super) root: bool,
    /// Rings are exempt from the limit on locked memory.
    pub(super) ipc_lock: bool,
    pub(super) files: OpenFiles,
    /// The tracepoints, or why they are not available.
    pub(super) tracing: Result<Tracing, String>,
    /// Whether a tracepoint can be recorded for all tasks of a CPU; if not, why.
    pub(super) system: Result<(), String>,
    /// Whether this process can be watched; if not, why.
    pub(super) own: Result<(), String>,
    /// Whether cycles can be counted; if not, why.
    pub(super) hardware: Result<(), String>,
    /// Whether functions of the kernel can be watched, and those of programs.
    pub(super) probes: [bool; 2],
    /// Whether the kernel has fprobes and tprobes.
    pub(super) traced: bool,
    /// Whether the kernel can count events by key, or why not.
    pub(super) counting: Result<(), String>,
    /// Whether records are stamped with `CLOCK_MONOTONIC`.
    pub(super) monotonic: bool,
    pub(super) clocksource: Option<String>,
    /// Whether a script can be stopped in an endless loop.
    pub(super) hook: bool,
    /// The hits of a hardware breakpoint in a test, or why it could not be opened.
    pub(super) breakpoints: Result<BreakpointHits, String>,
    /// The records of each CPU's idle task, or why they could not be read.
    pub(super) idle: Result<Vec<IdleRecords>, String>,
    pub(super) symbols: KallsymsAccess,
    pub(super) kptr_restrict: Option<i64>,
    pub(super) btf: bool,
    /// The bundled monitors, and how they would begin.
    pub(super) monitors: Vec<Bundled>,
}

/// The contents of tracefs.
#[derive(Clone, Debug)]
pub(super) struct Tracing {
    pub(super) root: PathBuf,
    pub(super) mounted_here: bool,
    pub(super) tracepoints: usize,
    /// `sys:name: why` for formats that cannot be read.
    pub(super) unreadable: Vec<String>,
    /// `sys:name: why` for print formats that cannot be evaluated completely.
    pub(super) unprintable: Vec<String>,
}

/// The visibility of addresses in /proc/kallsyms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KallsymsAccess {
    Shown,
    /// All addresses are 0.
    Hidden,
    Absent,
}

impl MachineFacts {
    /// Inspects this machine with the permissions of this user. Mounts tracefs if it is not
    /// mounted, as a run would.
    pub fn look(monitors: Vec<Bundled>) -> MachineFacts {
        let tracefs = Tracefs::find().map_err(|refusal| refusal.why);
        let tracing = tracefs.as_ref().map_err(Clone::clone).and_then(tracing);
        let facts = Privileges::read();
        let cpu = facts.online.first().map_or(0, |cpu| *cpu as i32);
        let everyone = PerfTarget { pid: EVERY_TASK, cpu };
        let own = PerfTarget { pid: 0, cpu: -1 };
        let task_clock = user_only(software(abi::PERF_COUNT_SW_TASK_CLOCK));
        MachineFacts {
            root: machine::is_root(),
            ipc_lock: capability(CAP_IPC_LOCK),
            files: limits::nofile(),
            system: attempt(&records(tracefs.as_ref().ok()), everyone, "every task"),
            own: attempt(&task_clock, own, "this process"),
            hardware: attempt(&user_only(cycles()), own, "cycles"),
            probes: ["kprobe", "uprobe"].map(|pmu| machine::pmu_type(pmu).is_some()),
            traced: tracefs
                .as_ref()
                .is_ok_and(|tracefs| tracefs.has_probes(ProbeType::Tprobe).unwrap_or(false)),
            counting: counting::refusal().map_or(Ok(()), |refusal| Err(refusal.why)),
            monotonic: stamps_with_monotonic(),
            clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            hook: hook_stops_compiled_loops(),
            breakpoints: breakpoint_hits(WRITES).map_err(|why| why.to_string()),
            idle: idle(tracefs.as_ref().ok(), &facts.online),
            symbols: symbols(),
            kptr_restrict: machine::sysctl("kernel/kptr_restrict"),
            btf: std::fs::metadata(KERNEL_TYPES).is_ok_and(|file| file.len() > 0),
            monitors,
            tracing,
            facts,
        }
    }
}

/// Reads the tracepoints, and finds the formats that cannot be read or printed.
fn tracing(tracefs: &Tracefs) -> Result<Tracing, String> {
    let events = tracefs.events().map_err(|why| why.to_string())?;
    let kernel = RunningKernel::new(ticks_per_second(), tracefs.root(), Rc::default());
    let (mut unreadable, mut unprintable) = (Vec::new(), Vec::new());
    for (sys, name) in &events {
        let format = match tracefs.format(sys, name).map(|text| Format::parse(&text)) {
            Ok(Ok(format)) => format,
            Ok(Err(why)) => {
                unreadable.push(format!("{sys}:{name}: {why}"));
                continue;
            }
            // A dynamic event that another program has removed meanwhile.
            Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
            Err(why) => {
                unreadable.push(format!("{sys}:{name}: {why}"));
                continue;
            }
        };
        match PrintProgram::compile(&format, &kernel).map(|program| program.unknown()) {
            Ok(None) => {}
            Ok(Some(unknown)) => {
                let why = format!("only the kernel knows `{unknown}`; printed as `?`");
                unprintable.push(format!("{sys}:{name}: {why}"));
            }
            Err(why) => unprintable.push(format!("{sys}:{name}: {why}; prints name=value")),
        }
    }
    Ok(Tracing {
        root: tracefs.root().to_owned(),
        mounted_here: tracefs.mounted_here,
        tracepoints: events.len(),
        unreadable,
        unprintable,
    })
}

fn idle(tracefs: Option<&Tracefs>, cpus: &[u32]) -> Result<Vec<IdleRecords>, String> {
    let tracefs = tracefs.ok_or("there are no tracepoints")?;
    idle_records(tracefs, cpus).map_err(|why| why.to_string())
}

/// Tries to open an event, and closes it again.
fn attempt(attr: &Attr, target: PerfTarget, name: &str) -> Result<(), String> {
    PerfEvent::open(attr, target, name).map(drop).map_err(|refusal| refusal.why)
}

/// Limits an event to user mode: a user who may only watch their own tasks is then not refused
/// because of the kernel part.
fn user_only(mut attr: Attr) -> Attr {
    attr.raw().set_exclude_kernel(1);
    attr.raw().set_exclude_hv(1);
    attr
}

fn software(config: u32) -> Attr {
    Attr::software(config.into())
}

fn cycles() -> Attr {
    Attr::counter(abi::PERF_TYPE_HARDWARE, abi::PERF_COUNT_HW_CPU_CYCLES.into())
}

/// Returns the event that a run opens: a tracepoint with records if tracefs can be read.
fn records(tracefs: Option<&Tracefs>) -> Attr {
    let id = tracefs.and_then(|tracefs| tracefs.id("sched", "sched_switch").ok());
    let Some(id) = id else { return software(abi::PERF_COUNT_SW_CPU_CLOCK) };
    let mut attr = Attr::tracepoint(id);
    attr.raw().sample_type = u64::from(abi::PERF_SAMPLE_RAW);
    attr
}

fn stamps_with_monotonic() -> bool {
    let mut attr = user_only(software(abi::PERF_COUNT_SW_DUMMY));
    attr.raw().set_use_clockid(1);
    attr.raw().clockid = libc::CLOCK_MONOTONIC;
    PerfEvent::open(&attr, PerfTarget { pid: 0, cpu: -1 }, "the clock")
        .is_ok_and(|opened| opened.dropped.is_empty())
}

fn symbols() -> KallsymsAccess {
    use std::io::{BufRead as _, BufReader};
    let Ok(file) = std::fs::File::open("/proc/kallsyms") else { return KallsymsAccess::Absent };
    // The first few are per-CPU offsets that may be 0.
    let mut lines = BufReader::new(file).lines().map_while(Result::ok).take(2000).peekable();
    if lines.peek().is_none() {
        return KallsymsAccess::Absent;
    }
    let zero = |line: &String| {
        line.split(' ').next().is_some_and(|address| address.bytes().all(|b| b == b'0'))
    };
    if lines.all(|line| zero(&line)) { KallsymsAccess::Hidden } else { KallsymsAccess::Shown }
}

fn read(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}
