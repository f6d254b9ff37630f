//! `perilune` without arguments: the monitors by question, and the three ways to use them.

use std::io::{self, Write};

use super::{monitors, runtime::Runtime};

/// The usage of the program.
pub const USAGE: &str = "perilune MONITOR|FILE.lua [OPTION…] [COMMAND [ARG…]]";

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
                                             usdt:FILE:PROVIDER:NAME for USDT probes,
                                             tprobe:NAME for the arguments of a tracepoint
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
    let groups = monitors::grouped(runtime);
    let names = groups.iter().flat_map(|(_, lines)| lines).map(|line| line.name.len());
    let width = names.max().unwrap_or(0);
    for (title, lines) in &groups {
        writeln!(out, "{title}")?;
        for line in lines {
            writeln!(out, "  {:width$}  {}", line.name, line.summary)?;
        }
    }
    writeln!(out, "\n{WAYS}\nUsage: {USAGE}")
}
