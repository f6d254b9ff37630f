//! The checks: each judges one thing of what was seen.

use super::machine::Symbols;
use super::{Check, Machine, State};
use crate::base::units::counted;
use crate::cli::run::Bundled;
use crate::script::guard::NO_HOOK;
use crate::sys::machine::page_size;

/// All, in the order in which they are told.
pub(super) const ALL: [fn(&Machine) -> Check; 16] = [
    kernel,
    perf_events,
    tracefs,
    formats,
    print_formats,
    locked_memory,
    open_files,
    counters,
    idle_tasks,
    functions,
    clock,
    stopping,
    symbols,
    types,
    monitors,
    fallbacks,
];

fn kernel(machine: &Machine) -> Check {
    let facts = &machine.facts;
    let cpus = counted(facts.online.len() as u64, "CPU");
    let lockdown = match facts.lockdown.as_deref() {
        Some("none") | None => String::new(),
        Some(mode) => format!(", locked down ({mode})"),
    };
    let found = format!("{}, {cpus}{lockdown}", facts.kernel);
    Check::new("kernel", State::Ok, found)
}

fn perf_events(machine: &Machine) -> Check {
    let Some(paranoid) = machine.facts.paranoid else {
        let advice = "it needs CONFIG_PERF_EVENTS=y";
        return Check::new("perf events", State::Missing, "this kernel has none")
            .advice(advice)
            .needed();
    };
    let who = match (machine.root, machine.facts.perfmon) {
        (true, true) => "root",
        (true, false) if machine.facts.in_user_namespace => "root of a user namespace",
        (true, false) => "root without CAP_PERFMON",
        (false, true) => "CAP_PERFMON",
        (false, false) => "an ordinary user",
    };
    let found = |what: &str| format!("{what} ({who}, perf_event_paranoid is {paranoid})");
    let check = match (&machine.system, &machine.own) {
        (Ok(()), _) => Check::new("perf events", State::Ok, found("every task and the kernel")),
        (Err(why), Ok(())) => {
            Check::new("perf events", State::Limited, found("this user's own programs only"))
                .advice(why)
        }
        (Err(_), Err(why)) => {
            Check::new("perf events", State::Missing, found("refused")).advice(why)
        }
    };
    check.needed()
}

fn tracefs(machine: &Machine) -> Check {
    match &machine.tracing {
        Ok(tracing) => {
            let how =
                if tracing.mounted_here { ", mounted just now; it stays mounted" } else { "" };
            let (root, count) = (tracing.root.display(), tracing.tracepoints);
            Check::new("tracefs", State::Ok, format!("{count} tracepoints at {root}{how}"))
        }
        Err(why) => Check::new("tracefs", State::Missing, "no tracepoint can be read").advice(why),
    }
    .needed()
}

/// What the kernel says of its records, and which of it is not understood.
fn formats(machine: &Machine) -> Check {
    let Ok(tracing) = &machine.tracing else {
        return Check::new("formats", State::Missing, "unknown without tracefs");
    };
    let (all, list) = (tracing.tracepoints, tracing.unreadable.clone());
    if list.is_empty() {
        return Check::new(
            "formats",
            State::Ok,
            format!("the formats of all {all} tracepoints are understood"),
        );
    }
    let found = format!("{} of {all} tracepoints have a format that is not understood", list.len());
    let check = Check::new("formats", State::Limited, found).advice("they cannot be watched:");
    Check { list, ..check }
}

/// What the kernel says of its events' text, and which of it cannot be evaluated: that is a matter of looks.
fn print_formats(machine: &Machine) -> Check {
    let Ok(tracing) = &machine.tracing else {
        return Check::new("print formats", State::Missing, "unknown without tracefs");
    };
    let (all, list) = (tracing.tracepoints, tracing.unprintable.clone());
    let printed = format!(
        "{} of {all} tracepoints print as the kernel would",
        all.saturating_sub(list.len())
    );
    let found = match list.is_empty() {
        true => printed,
        false => format!("{printed}, the others in part or as name=value:"),
    };
    Check { list, ..Check::new("print formats", State::Ok, found) }
}

/// Data pages of each ring that a run takes by itself.
const PAGES: u64 = 512;

fn locked_memory(machine: &Machine) -> Check {
    let facts = &machine.facts;
    let unlimited = machine.ipc_lock || facts.paranoid.is_some_and(|paranoid| paranoid < 0);
    let (Some(per_cpu), false) = (facts.mlock_kb, unlimited) else {
        return Check::new("ring memory", State::Ok, "not limited");
    };
    let (cpus, page_kb) = (facts.online.len().max(1) as u64, page_size() as u64 / 1024);
    let Some(locked) = facts.memlock_kb else {
        return Check::new("ring memory", State::Ok, "not limited (RLIMIT_MEMLOCK)");
    };
    // A ring has a page for its head besides its data.
    let fit = (per_cpu + locked / cpus) / page_kb.max(1);
    let pages = fit.saturating_sub(1);
    let found = format!(
        "about {pages} pages a ring (perf_event_mlock_kb {per_cpu}, RLIMIT_MEMLOCK {locked} KiB), shared with other tools"
    );
    if pages >= PAGES {
        return Check::new("ring memory", State::Ok, found);
    }
    let wanted = (PAGES + 1) * page_kb;
    Check::new("ring memory", State::Limited, found)
        .advice(format!("small rings lose more: sysctl kernel.perf_event_mlock_kb={wanted}"))
}

fn open_files(machine: &Machine) -> Check {
    let (soft, hard) = (machine.files.soft, machine.files.hard);
    let raised = match soft < hard {
        true => format!(" (a run raises its own from {soft})"),
        false => String::new(),
    };
    let found = format!("{hard} at most{raised}");
    // 64 threads on 16 CPUs and a few events.
    if hard >= 4096 {
        return Check::new("open files", State::Ok, found);
    }
    Check::new("open files", State::Limited, found)
        .advice("-p takes a file for each thread, CPU and event: raise it with ulimit -Hn")
}

fn counters(machine: &Machine) -> Check {
    match &machine.hardware {
        Ok(()) => Check::new("hardware counters", State::Ok, "cycles can be counted"),
        Err(why) => Check::new("hardware counters", State::Missing, "no cycles").advice(why),
    }
}

/// Checks that events of each CPU's idle task leave records. Without them, wakeups, completions and
/// timers are missing.
fn idle_tasks(machine: &Machine) -> Check {
    let name = "idle tasks";
    let seen = match &machine.idle {
        Ok(seen) => seen,
        Err(why) => {
            return Check::new(name, State::Missing, "their records cannot be checked").advice(why);
        }
    };
    let silent: Vec<String> =
        seen.iter().filter(|of| of.is_silent()).map(|of| of.cpu.to_string()).collect();
    if silent.is_empty() {
        let idled = seen.iter().filter(|of| of.was_idle()).count();
        let cpus = counted(seen.len() as u64, "CPU");
        if idled == 0 {
            return Check::new(name, State::Limited, "not checked: no CPU was idle; run it again");
        }
        let found = format!("their events leave records, on {idled} of {cpus}");
        let busy = if idled < seen.len() { "; the others were busy" } else { "" };
        return Check::new(name, State::Ok, format!("{found}{busy}"));
    }
    let found = format!("events of CPU {} leave no record while it is idle", silent.join(","));
    Check::new(name, State::Limited, found).advice(
        "wakeups, completions and timers of these CPUs are missing, so delays have no end; a reboot fixes it",
    )
}

fn functions(machine: &Machine) -> Check {
    let (state, found, lacks) = match machine.probes {
        [true, true] => (State::Ok, "kprobe: and uprobe: watch the kernel's and programs'", ""),
        [false, true] => (State::Limited, "uprobe: watches programs', not the kernel's", "KPROBE"),
        [true, false] => (State::Limited, "kprobe: watches the kernel's, not programs'", "UPROBE"),
        [false, false] => {
            (State::Missing, "none can be watched", "KPROBE_EVENTS and CONFIG_UPROBE")
        }
    };
    let check = Check::new("functions", state, found);
    match lacks {
        "" => check,
        lacks => check.advice(format!("it takes a kernel from 4.17 on with CONFIG_{lacks}_EVENTS")),
    }
}

fn clock(machine: &Machine) -> Check {
    let source = machine.clocksource.as_deref().unwrap_or("unknown");
    let slow = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"].contains(&source);
    let found = format!("records are stamped with CLOCK_MONOTONIC, from {source}");
    match (machine.monotonic, slow) {
        (false, _) => Check::new("clock", State::Limited, "records keep perf's own clock")
            .advice("stamps cannot be compared with other logs; it needs kernel 4.1"),
        (_, true) => Check::new("clock", State::Limited, found).advice(
            "reading it costs about 1 us an event; see whether another is available_clocksource",
        ),
        _ => Check::new("clock", State::Ok, found),
    }
}

fn stopping(machine: &Machine) -> Check {
    match machine.hook {
        true => Check::new("runaway scripts", State::Ok, "LuaJIT stops a compiled endless loop"),
        false => Check::new("runaway scripts", State::Limited, NO_HOOK),
    }
}

fn symbols(machine: &Machine) -> Check {
    let name = "kernel symbols";
    match machine.symbols {
        Symbols::Shown => Check::new(name, State::Ok, "/proc/kallsyms shows addresses"),
        Symbols::Hidden => {
            let restrict = machine.kptr_restrict.map_or("unknown".to_owned(), |n| n.to_string());
            let found = format!("/proc/kallsyms hides addresses (kptr_restrict is {restrict})");
            // With 0, whoever may profile the kernel sees them.
            let other = match machine.kptr_restrict {
                Some(0) => ", or sysctl kernel.perf_event_paranoid=1",
                _ => "",
            };
            let advice = format!("the kernel's frames stay numbers: run as root{other}");
            Check::new(name, State::Limited, found).advice(advice)
        }
        Symbols::Absent => Check::new(name, State::Missing, "/proc/kallsyms cannot be read")
            .advice("the kernel's frames stay numbers; it needs CONFIG_KALLSYMS=y"),
    }
}

/// Nothing needs it: tracepoints describe themselves. Told for whoever wonders which tools would work here.
fn types(machine: &Machine) -> Check {
    match machine.btf {
        true => Check::new("BTF", State::Ok, "present; some print formats take names from it"),
        false => Check::new(
            "BTF",
            State::Missing,
            "no /sys/kernel/btf/vmlinux: some print formats cannot be evaluated",
        ),
    }
}

/// What the bundled monitors would watch if nothing else were asked of them, and this machine has not.
fn monitors(machine: &Machine) -> Check {
    let all = machine.monitors.len();
    let lack = |of: &Bundled| Some(format!("{}: {}", of.name, of.lacks.as_ref()?));
    let list: Vec<String> = machine.monitors.iter().filter_map(lack).collect();
    if list.is_empty() {
        return Check::new("monitors", State::Ok, format!("all {all} bundled monitors begin"));
    }
    let begin = all - list.len();
    let verb = if begin == 1 { "begins" } else { "begin" };
    let found = format!("{begin} of {all} bundled monitors {verb}");
    let check = Check::new("monitors", State::Limited, found).advice("the others lack:");
    Check { list, ..check }
}

/// The monitors that measure something else here than on a machine that has everything.
fn fallbacks(machine: &Machine) -> Check {
    let name = "fallbacks";
    let of = |of: &Bundled| {
        of.fallbacks.iter().map(|line| format!("{}: {line}", of.name)).collect::<Vec<_>>()
    };
    let list: Vec<String> = machine.monitors.iter().flat_map(of).collect();
    let monitors = machine.monitors.iter().filter(|of| !of.fallbacks.is_empty()).count() as u64;
    if monitors == 0 {
        return Check::new(name, State::Ok, "none: every monitor measures what it is meant to");
    }
    let verb = if monitors == 1 { "measures" } else { "measure" };
    let found = format!("{} {verb} something else here:", counted(monitors, "monitor"));
    Check { list, ..Check::new(name, State::Limited, found) }
}
