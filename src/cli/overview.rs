//! `perilune` alone: the monitors by purpose, and the three ways to use them.

use std::io::{self, Write};

use super::{monitors, run::Runtime};

/// How the program is called, in short.
pub const USAGE: &str = "perilune MONITOR|FILE.lua [OPTION…] [COMMAND [ARG…]]";

/// What the bundled monitors are for. Any other is yours.
const PURPOSES: [(&str, &[&str]); 7] = [
    ("Any event", &["trace", "top", "stat", "multi-trace", "mpdelay", "nested", "eval"]),
    ("What tasks do", &["syscalls", "signal", "task-state", "rundelay", "sched-migrate"]),
    ("CPUs", &["profile", "cpu-util", "percpu-stat", "split-lock"]),
    ("Delays and lockups", &["irq", "irq-off", "hrtimer-latency", "watchdog"]),
    ("Disks", &["blktrace"]),
    ("Memory", &["kmemleak", "kmemprof", "page-faults"]),
    ("Virtual machines", &["kvm-exit"]),
];

/// The ways in. Each command is one that works.
const WAYS: &str = "\
Run      perilune syscalls                   what all tasks ask of the kernel, until Ctrl-C
         perilune syscalls ls -l             what one command asks
         perilune help syscalls              its options
Write    a file forks.lua, a few lines that are a whole monitor:
           local m = monitor { summary = \"forks, as they happen\" }
           function m.init() evsel(\"sched:sched_process_fork\", function(e) emit(e) end) end
           return m
         perilune forks.lua                  runs like any other
         perilune help new                   a longer one to begin with; help test, help types: cases, your editor
Explore  perilune list 'sched:*'             the events of this machine
         perilune trace -e sched:sched_switch help
                                             its fields, and a command to begin with
         perilune trace -e sched:sched_process_exec
         perilune trace -e uprobe:bash:shell_execve
                                             a function of a program; kprobe:FUNCTION is one of the kernel, and
                                             uretprobe:, kretprobe: are their returns
         perilune repl                       a prompt: open, count, time and draw events as they come
         perilune monitors                   where each monitor comes from
         perilune doctor                     what this machine lets a run do
         perilune --symbols FILE             names for the addresses in stdin, as pprof --symbols
";

/// Writes the overview.
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

/// The names that are there, in the order of [`PURPOSES`], then the rest.
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
