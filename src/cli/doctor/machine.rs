//! What the doctor sees of a machine: facts that are read, and attempts at what a run would do.

use std::path::PathBuf;
use std::rc::Rc;

use perf_event_open_sys::bindings as abi;

use crate::cli::run::Bundled;
use crate::decode::format::Format;
use crate::decode::print::Program;
use crate::script::guard::hook_stops_compiled_loops;
use crate::symbol::RunningKernel;
use crate::sys::attr::Attr;
use crate::sys::clock::ticks_per_second;
use crate::sys::facts::{CAP_IPC_LOCK, Facts, capability};
use crate::sys::idle_records::{IdleRecords, idle_records};
use crate::sys::limits::{self, OpenFiles};
use crate::sys::machine;
use crate::sys::perf::{Event, Target};
use crate::sys::tracefs::Tracefs;

/// Everything that the checks judge.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(super) facts: Facts,
    pub(super) root: bool,
    /// Rings take memory without the limit on locked memory.
    pub(super) ipc_lock: bool,
    pub(super) files: OpenFiles,
    /// The tracepoints, or why there are none.
    pub(super) tracing: Result<Tracing, String>,
    /// Whether a tracepoint's records can be had of every task of a CPU; if not, why.
    pub(super) system: Result<(), String>,
    /// Whether this process can be watched; if not, why.
    pub(super) own: Result<(), String>,
    /// Whether cycles can be counted; if not, why.
    pub(super) hardware: Result<(), String>,
    /// Whether functions of the kernel can be watched, and those of programs.
    pub(super) probes: [bool; 2],
    /// Whether records are stamped with `CLOCK_MONOTONIC`.
    pub(super) monotonic: bool,
    pub(super) clocksource: Option<String>,
    /// Whether the script of an endless loop can be stopped.
    pub(super) hook: bool,
    /// The records of each CPU's idle task, or why they could not be read.
    pub(super) idle: Result<Vec<IdleRecords>, String>,
    pub(super) symbols: Symbols,
    pub(super) kptr_restrict: Option<i64>,
    pub(super) btf: bool,
    /// The bundled monitors, as they would begin.
    pub(super) monitors: Vec<Bundled>,
}

/// What tracefs has.
#[derive(Clone, Debug)]
pub(super) struct Tracing {
    pub(super) root: PathBuf,
    pub(super) mounted_here: bool,
    pub(super) tracepoints: usize,
    /// `sys:name: why`, of formats that cannot be read.
    pub(super) unreadable: Vec<String>,
    /// `sys:name: why`, of print formats that cannot be evaluated as a whole.
    pub(super) unprintable: Vec<String>,
}

/// What /proc/kallsyms shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbols {
    Shown,
    /// All addresses are 0.
    Hidden,
    Absent,
}

impl Machine {
    /// Looks at this machine, with the eyes of this user. Mounts tracefs where it is not, as a run would.
    pub fn look(monitors: Vec<Bundled>) -> Machine {
        let tracefs = Tracefs::find().map_err(|refusal| refusal.why);
        let tracing = tracefs.as_ref().map_err(Clone::clone).and_then(tracing);
        let facts = Facts::read();
        let cpu = facts.online.first().map_or(0, |cpu| *cpu as i32);
        let everyone = Target { pid: -1, cpu };
        let own = Target { pid: 0, cpu: -1 };
        let task_clock = user_only(software(abi::PERF_COUNT_SW_TASK_CLOCK));
        let probes = facts.probes.map(|pmu| pmu.is_some());
        Machine {
            root: machine::is_root(),
            ipc_lock: capability(CAP_IPC_LOCK),
            files: limits::nofile(),
            system: attempt(&records(tracefs.as_ref().ok()), everyone, "every task"),
            own: attempt(&task_clock, own, "this process"),
            hardware: attempt(&user_only(cycles()), own, "cycles"),
            probes,
            monotonic: stamps_with_monotonic(),
            clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            hook: hook_stops_compiled_loops(),
            idle: idle(tracefs.as_ref().ok(), &facts.online),
            symbols: symbols(),
            kptr_restrict: machine::sysctl("kernel/kptr_restrict"),
            btf: std::fs::File::open("/sys/kernel/btf/vmlinux").is_ok(),
            monitors,
            tracing,
            facts,
        }
    }
}

/// The tracepoints, and the formats among them that cannot be read.
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
            Err(why) => {
                unreadable.push(format!("{sys}:{name}: {why}"));
                continue;
            }
        };
        match Program::compile(&format, &kernel).map(|program| program.unknown()) {
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

/// Opens an event and closes it again, for the answer.
fn attempt(attr: &Attr, target: Target, name: &str) -> Result<(), String> {
    Event::open(attr, target, name).map(drop).map_err(|refusal| refusal.why)
}

/// Of a task's own doing only: whoever may watch nothing but himself is not refused for the kernel's part.
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

/// What a run opens: a tracepoint with its records, where tracefs can be read.
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
    Event::open(&attr, Target { pid: 0, cpu: -1 }, "the clock")
        .is_ok_and(|opened| opened.dropped.is_empty())
}

fn symbols() -> Symbols {
    use std::io::{BufRead as _, BufReader};
    let Ok(file) = std::fs::File::open("/proc/kallsyms") else { return Symbols::Absent };
    // The first few are per-CPU offsets that may well be 0.
    let mut lines = BufReader::new(file).lines().map_while(Result::ok).take(2000).peekable();
    if lines.peek().is_none() {
        return Symbols::Absent;
    }
    let zero = |line: &String| {
        line.split(' ').next().is_some_and(|address| address.bytes().all(|b| b == b'0'))
    };
    if lines.all(|line| zero(&line)) { Symbols::Hidden } else { Symbols::Shown }
}

fn read(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}
