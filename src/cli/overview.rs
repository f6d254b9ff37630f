//! `perilune` without arguments: the monitors by purpose, and the three ways to use them.

use std::io::{self, Write};

use super::{monitors, runtime::Runtime};

/// The usage of the program.
pub const USAGE: &str = "perilune MONITOR|FILE.lua [OPTION…] [COMMAND [ARG…]]";

/// The bundled monitors by purpose. All others are the user's.
const PURPOSES: [(&str, &[&str]); 7] = [
    (
        "Any event",
        &[
            "trace",
            "top",
            "stat",
            "multi-trace",
            "mpdelay",
            "nested",
            "num-dist",
            "hrtimer",
            "eval",
        ],
    ),
    (
        "What tasks do",
        &["syscalls", "signal", "task-state", "offcpu", "locks", "rundelay", "sched-migrate"],
    ),
    (
        "CPUs",
        &[
            "profile",
            "cpu-util",
            "oncpu",
            "cpudist",
            "runqlen",
            "cpufreq",
            "percpu-stat",
            "split-lock",
        ],
    ),
    ("Delays and lockups", &["irq", "irq-off", "hrtimer-latency", "watchdog"]),
    ("Disks", &["blktrace"]),
    ("Memory", &["kmemleak", "kmemprof", "page-faults"]),
    ("Virtual machines", &["kvm-exit"]),
];

/// The ways to start. Each command works as it is.
const WAYS: &str = "\
Run      perilune syscalls                   system calls of all tasks, until Ctrl-C
         perilune syscalls ls -l             system calls of one command
         perilune help syscalls              its options
Write    forks.lua, a whole monitor:
           local m = monitor { summary = \"forks as they happen\" }
           function m.init() evsel(\"sched:sched_process_fork\", function(e) emit(e) end) end
           return m
         perilune forks.lua                  run it like a bundled monitor
         perilune help new                   create one from a template; see also help test, types
Explore  perilune list 'sched:*'             the events of this machine
         perilune trace -e sched:sched_switch help
                                             its fields, and a command to start with
         perilune trace -e sched:sched_process_exec
         perilune trace -e uprobe:bash:shell_execve
                                             a function of a program; kprobe:FUNCTION for the
                                             kernel; uretprobe:, kretprobe: for returns;
                                             usdt:FILE:PROVIDER:NAME for USDT probes
         perilune repl                       prompt to open, count, time and draw events
         perilune monitors                   all monitors and their origin
         perilune doctor                     what works on this machine
         perilune --symbols FILE             name the addresses in stdin, as pprof --symbols
";

/// Writes the overview.
///
/// # Errors
/// The output cannot be written.
pub fn write(runtime: &mut dyn Runtime, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "perilune watches a Linux machine live. Every monitor is a Lua script.\n")?;
    let names = runtime.monitors();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    for (purpose, members) in by_purpose(&names) {
        writeln!(out, "{purpose}")?;
        for name in members {
            let (summary, _) = monitors::described(name, runtime);
            writeln!(out, "  {name:width$}  {summary}")?;
        }
    }
    writeln!(out, "\n{WAYS}\nUsage: {USAGE}")
}

/// Groups the names that exist in the order of [`PURPOSES`], then the others.
fn by_purpose(names: &[String]) -> Vec<(&str, Vec<&str>)> {
    let known = |name: &str| PURPOSES.iter().any(|(_, members)| members.contains(&name));
    let bundled = PURPOSES.iter().map(|(purpose, members)| {
        let there = members.iter().copied().filter(|m| names.iter().any(|name| name == m));
        (*purpose, there.collect())
    });
    let yours = names.iter().map(String::as_str).filter(|name| !known(name)).collect();
    let all = bundled.chain([("Yours", yours)]);
    all.filter(|(_, members): &(&str, Vec<&str>)| !members.is_empty()).collect()
}
