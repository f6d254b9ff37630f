//! The checks: each judges one aspect of the machine.

use super::machine::KallsymsAccess;
use super::{Check, CheckState, MachineFacts};
use crate::base::text::units::counted;
use crate::cli::runtime::Bundled;
use crate::script::vm::guard::NO_HOOK;
use crate::source::counting::WITH_MISSES;
use crate::sys::machine::{is_linux_since, page_size};

/// All checks, in output order.
pub(super) const ALL: [fn(&MachineFacts) -> Check; 18] = [
    kernel,
    perf_events,
    tracefs,
    formats,
    print_formats,
    locked_memory,
    open_files,
    counters,
    breakpoints,
    idle_tasks,
    functions,
    counting,
    clock,
    stopping,
    symbols,
    types,
    monitors,
    fallbacks,
];

fn kernel(machine: &MachineFacts) -> Check {
    let facts = &machine.facts;
    let cpus = counted(facts.online.len() as u64, "CPU");
    let lockdown = match facts.lockdown.as_deref() {
        Some("none") | None => String::new(),
        Some(mode) => format!(", locked down ({mode})"),
    };
    let found = format!("{}, {cpus}{lockdown}", facts.kernel);
    Check::new("kernel", CheckState::Ok, found)
}

fn perf_events(machine: &MachineFacts) -> Check {
    let Some(paranoid) = machine.facts.paranoid else {
        let advice = "it needs CONFIG_PERF_EVENTS=y";
        return Check::new("perf events", CheckState::Missing, "this kernel has none")
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
        (Ok(()), _) => {
            Check::new("perf events", CheckState::Ok, found("every task and the kernel"))
        }
        (Err(why), Ok(())) => {
            Check::new("perf events", CheckState::Limited, found("this user's own programs only"))
                .advice(why)
        }
        (Err(_), Err(why)) => {
            Check::new("perf events", CheckState::Missing, found("refused")).advice(why)
        }
    };
    check.needed()
}

fn tracefs(machine: &MachineFacts) -> Check {
    match &machine.tracing {
        Ok(tracing) => {
            let how =
                if tracing.mounted_here { ", mounted just now; it stays mounted" } else { "" };
            let (root, count) = (tracing.root.display(), tracing.tracepoints);
            Check::new("tracefs", CheckState::Ok, format!("{count} tracepoints at {root}{how}"))
        }
        Err(why) => {
            Check::new("tracefs", CheckState::Missing, "no tracepoint can be read").advice(why)
        }
    }
    .needed()
}

/// Checks the formats of tracepoint records, and lists those that are not understood.
fn formats(machine: &MachineFacts) -> Check {
    let Ok(tracing) = &machine.tracing else {
        return Check::new("formats", CheckState::Missing, "unknown without tracefs");
    };
    let (all, list) = (tracing.tracepoints, tracing.unreadable.clone());
    if list.is_empty() {
        return Check::new(
            "formats",
            CheckState::Ok,
            format!("the formats of all {all} tracepoints can be parsed"),
        );
    }
    let found = format!("{} of {all} tracepoints have a format that cannot be parsed", list.len());
    let check = Check::new("formats", CheckState::Limited, found).advice("they cannot be watched:");
    Check { list, ..check }
}

/// Checks the print formats, and lists those that cannot be evaluated. They only affect the output.
fn print_formats(machine: &MachineFacts) -> Check {
    let Ok(tracing) = &machine.tracing else {
        return Check::new("print formats", CheckState::Missing, "unknown without tracefs");
    };
    let (all, list) = (tracing.tracepoints, tracing.unprintable.clone());
    let printed = format!(
        "{} of {all} tracepoints print as the kernel would",
        all.saturating_sub(list.len())
    );
    let found = match list.is_empty() {
        true => printed,
        false => format!("{printed}, the others partly or as name=value:"),
    };
    Check { list, ..Check::new("print formats", CheckState::Ok, found) }
}

/// Default data pages of each ring.
const PAGES: u64 = 512;

fn locked_memory(machine: &MachineFacts) -> Check {
    let facts = &machine.facts;
    let unlimited = machine.ipc_lock || facts.paranoid.is_some_and(|paranoid| paranoid < 0);
    let (Some(per_cpu), false) = (facts.mlock_kb, unlimited) else {
        return Check::new("ring memory", CheckState::Ok, "not limited");
    };
    let (cpus, page_kb) = (facts.online.len().max(1) as u64, page_size() as u64 / 1024);
    let Some(locked) = facts.memlock_kb else {
        return Check::new("ring memory", CheckState::Ok, "not limited (RLIMIT_MEMLOCK)");
    };
    // A ring has a page for its head in addition to its data.
    let fit = (per_cpu + locked / cpus) / page_kb.max(1);
    let pages = fit.saturating_sub(1);
    let found = format!(
        "about {pages} pages per ring (perf_event_mlock_kb {per_cpu}, RLIMIT_MEMLOCK {locked} \
         KiB), shared with other tools"
    );
    if pages >= PAGES {
        return Check::new("ring memory", CheckState::Ok, found);
    }
    let wanted = (PAGES + 1) * page_kb;
    Check::new("ring memory", CheckState::Limited, found).advice(format!(
        "small rings lose more records: sysctl kernel.perf_event_mlock_kb={wanted}"
    ))
}

fn open_files(machine: &MachineFacts) -> Check {
    let (soft, hard) = (machine.files.soft, machine.files.hard);
    let raised = match soft < hard {
        true => format!(" (a run raises its limit from {soft})"),
        false => String::new(),
    };
    let found = format!("{hard} at most{raised}");
    // Enough for 64 threads on 16 CPUs and a few events.
    if hard >= 4096 {
        return Check::new("open files", CheckState::Ok, found);
    }
    Check::new("open files", CheckState::Limited, found)
        .advice("-p needs a file per thread, CPU and event; raise the limit with ulimit -Hn")
}

fn counters(machine: &MachineFacts) -> Check {
    match &machine.hardware {
        Ok(()) => Check::new("hardware counters", CheckState::Ok, "cycles can be counted"),
        Err(why) => Check::new("hardware counters", CheckState::Missing, "no cycles").advice(why),
    }
}

/// Checks that each hit of a hardware breakpoint is counted.
fn breakpoints(machine: &MachineFacts) -> Check {
    let name = "breakpoints";
    match &machine.breakpoints {
        Ok(hits) if hits.counted >= hits.written => {
            Check::new(name, CheckState::Ok, format!("{} of {} hits", hits.counted, hits.written))
        }
        Ok(hits) => {
            let found = format!("hits are lost: {} of {}", hits.counted, hits.written);
            Check::new(name, CheckState::Limited, found).advice(
                "mem: events are incomplete, and SIGTRAP may end a watched program; use another \
                 machine, as this one does not keep the debug registers of its CPUs",
            )
        }
        Err(why) => Check::new(name, CheckState::Missing, "no hardware breakpoint").advice(why),
    }
}

/// Checks that events of each CPU's idle task leave records. Without them, wakeups, completions and
/// timers are missing.
fn idle_tasks(machine: &MachineFacts) -> Check {
    let name = "idle tasks";
    let seen = match &machine.idle {
        Ok(seen) => seen,
        Err(why) => {
            return Check::new(name, CheckState::Missing, "their records cannot be checked")
                .advice(why);
        }
    };
    let silent: Vec<String> =
        seen.iter().filter(|of| of.is_silent()).map(|of| of.cpu.to_string()).collect();
    if silent.is_empty() {
        let idled = seen.iter().filter(|of| of.was_idle()).count();
        let cpus = counted(seen.len() as u64, "CPU");
        if idled == 0 {
            return Check::new(
                name,
                CheckState::Limited,
                "not checked: no CPU was idle; run it again",
            );
        }
        let found = format!("their events are recorded on {idled} of {cpus}");
        let busy = if idled < seen.len() { "; the others were busy" } else { "" };
        return Check::new(name, CheckState::Ok, format!("{found}{busy}"));
    }
    let found = format!("events of CPU {} are not recorded while it is idle", silent.join(","));
    Check::new(name, CheckState::Limited, found).advice(
        "wakeups, completions and timers of these CPUs are missing, so delays have no end; a \
         reboot fixes it",
    )
}

fn functions(machine: &MachineFacts) -> Check {
    let (state, found, lacks) = match machine.probes {
        [true, true] => (CheckState::Ok, "kprobe: (kernel) and uprobe: (programs)", ""),
        [false, true] => (CheckState::Limited, "uprobe: (programs) only", "KPROBE"),
        [true, false] => (CheckState::Limited, "kprobe: (kernel) only", "UPROBE"),
        [false, false] => {
            (CheckState::Missing, "neither kprobe: nor uprobe:", "KPROBE_EVENTS and CONFIG_UPROBE")
        }
    };
    let found = match machine.traced {
        true => format!("{found}; fprobe:, fretprobe: and tprobe:"),
        false => found.to_owned(),
    };
    let check = Check::new("functions", state, found);
    match lacks {
        "" => check,
        lacks => {
            check.advice(format!("the rest needs kernel 4.17 or later with CONFIG_{lacks}_EVENTS"))
        }
    }
}

/// Checks whether BPF programs can count.
fn counting(machine: &MachineFacts) -> Check {
    let check = |state, found| Check::new("counting", state, found);
    match &machine.counting {
        Ok(()) if is_linux_since(WITH_MISSES) => {
            check(CheckState::Ok, "by key in the kernel, without records")
        }
        Ok(()) => {
            let advice = "before Linux 6.7, events that it misses while another BPF program runs \
                          on the CPU are not counted as missed";
            check(CheckState::Limited, "by key in the kernel with --where kernel").advice(advice)
        }
        Err(why) => check(CheckState::Limited, "in user space, from records").advice(why),
    }
}

fn clock(machine: &MachineFacts) -> Check {
    let source = machine.clocksource.as_deref().unwrap_or("unknown");
    let slow = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"].contains(&source);
    let found = format!("timestamps use CLOCK_MONOTONIC, from {source}");
    match (machine.monotonic, slow) {
        (false, _) => Check::new("clock", CheckState::Limited, "timestamps use perf's own clock")
            .advice("they cannot be compared with other logs; CLOCK_MONOTONIC needs kernel 4.1"),
        (_, true) => Check::new("clock", CheckState::Limited, found).advice(
            "reading it costs about 1 us per event; see available_clocksource for a faster one",
        ),
        _ => Check::new("clock", CheckState::Ok, found),
    }
}

fn stopping(machine: &MachineFacts) -> Check {
    match machine.hook {
        true => {
            Check::new("runaway scripts", CheckState::Ok, "LuaJIT can stop compiled endless loops")
        }
        false => Check::new("runaway scripts", CheckState::Limited, NO_HOOK),
    }
}

fn symbols(machine: &MachineFacts) -> Check {
    let name = "kernel symbols";
    match machine.symbols {
        KallsymsAccess::Shown => Check::new(name, CheckState::Ok, "/proc/kallsyms shows addresses"),
        KallsymsAccess::Hidden => {
            let restrict = machine.kptr_restrict.map_or("unknown".to_owned(), |n| n.to_string());
            let found = format!("/proc/kallsyms hides addresses (kptr_restrict is {restrict})");
            // With 0, users who may profile the kernel see addresses.
            let other = match machine.kptr_restrict {
                Some(0) => ", or sysctl kernel.perf_event_paranoid=1",
                _ => "",
            };
            let advice = format!("kernel frames are shown as addresses: run as root{other}");
            Check::new(name, CheckState::Limited, found).advice(advice)
        }
        KallsymsAccess::Absent => {
            Check::new(name, CheckState::Missing, "/proc/kallsyms cannot be read")
                .advice("kernel frames are shown as addresses; names need CONFIG_KALLSYMS=y")
        }
    }
}

/// Checks for BTF. No monitor needs it, since tracepoints describe themselves; programs at raw
/// tracepoints and some print formats use it.
fn types(machine: &MachineFacts) -> Check {
    match machine.btf {
        true => Check::new("BTF", CheckState::Ok, "present; for raw tracepoints and print formats"),
        false => Check::new(
            "BTF",
            CheckState::Missing,
            "no /sys/kernel/btf/vmlinux: some print formats cannot be evaluated, and rundelay \
             measures from records by default",
        ),
    }
}

/// Lists the bundled monitors that cannot begin here with their default events, and those that can
/// only watch this user's own programs.
fn monitors(machine: &MachineFacts) -> Check {
    let all = machine.monitors.len();
    let lack = |of: &Bundled| Some(format!("{}: {}", of.name, of.lacks.as_ref()?));
    let own = |of: &Bundled| Some(format!("{}: {}", of.name, of.only_own.as_ref()?));
    let mut list: Vec<String> = machine.monitors.iter().filter_map(lack).collect();
    let limited: Vec<String> = machine.monitors.iter().filter_map(own).collect();
    let (begin, limit) = (all - list.len(), limited.len());
    if list.is_empty() && limited.is_empty() {
        let found = format!("all {all} bundled monitors can run");
        return Check::new("monitors", CheckState::Ok, found);
    }
    let mut found = format!("{begin} of {all} bundled monitors can run");
    if limit > 0 {
        found += &format!(", {limit} of them only with -p or a COMMAND of this user");
        list.extend(limited.iter().map(|line| format!("only own programs: {line}")));
    }
    let advice = if begin < all { "the others lack:" } else { "these lack:" };
    Check { list, ..Check::new("monitors", CheckState::Limited, found).advice(advice) }
}

/// Lists the monitors that use a fallback on this machine.
fn fallbacks(machine: &MachineFacts) -> Check {
    let name = "fallbacks";
    let of = |of: &Bundled| {
        of.fallbacks.iter().map(|line| format!("{}: {line}", of.name)).collect::<Vec<_>>()
    };
    let list: Vec<String> = machine.monitors.iter().flat_map(of).collect();
    let monitors = machine.monitors.iter().filter(|of| !of.fallbacks.is_empty()).count() as u64;
    if monitors == 0 {
        return Check::new(name, CheckState::Ok, "none: every monitor uses its own events");
    }
    let verb = if monitors == 1 { "uses" } else { "use" };
    let found = format!("{} {verb} other events here:", counted(monitors, "monitor"));
    Check { list, ..Check::new(name, CheckState::Limited, found) }
}
