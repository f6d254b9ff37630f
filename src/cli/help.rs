//! `help NAME` and `NAME --help`: description, usage, examples, options.

use std::io::{self, Write};

use super::{COMMANDS, command, serve};
use crate::event::kind;
use crate::script::{
    load::monitor::Monitor,
    option::{OptionKind, OptionSpec},
};

/// Writes a monitor's help; `called` is the name or path by which it was called.
///
/// # Errors
/// The output cannot be written.
pub fn write(monitor: &Monitor, called: &str, out: &mut dyn Write) -> io::Result<()> {
    let (sentences, examples) = split_doc(&monitor.doc);
    writeln!(out, "{} - {}", monitor.name, monitor.summary)?;
    if !sentences.is_empty() {
        writeln!(out, "\n{}", sentences.join("\n"))?;
    }
    writeln!(out)?;
    write_usage(monitor, called, out)?;
    if !examples.is_empty() {
        writeln!(out, "\nExamples:")?;
        for line in examples {
            writeln!(out, "  {}", line.trim_start())?;
        }
    }
    // clap makes the headings and wraps lines; the rest of its page is replaced by the text above.
    let options = command::command(monitor).help_template("{all-args}").render_help();
    writeln!(out, "\n{}", options.to_string().trim_end())?;
    writeln!(out, "\n{COMMAND}\n\nFrom {}", monitor.origin)
}

/// The help text about workloads.
const COMMAND: &str = "\
     A COMMAND is started and watched until it ends. One report covers the whole\n\
     run; with -i, there is one per interval instead. A run that ends first (Ctrl-C,\n\
     --duration, -N) sends SIGTERM to the COMMAND and exits with 0. Otherwise the\n\
     exit code is that of the COMMAND, or 128 plus the signal that ended it; 127 if\n\
     it is not found, 126 if it cannot be executed, 125 if perilune itself fails or\n\
     a handler of the monitor failed (1 without a COMMAND).\n\
     Ctrl-C, SIGTERM and SIGHUP end the run, which prints its last report; SIGUSR1\n\
     and SIGUSR2 print a report at once.";

/// Writes a monitor's usage line.
///
/// # Errors
/// The output cannot be written.
pub fn write_usage(monitor: &Monitor, called: &str, out: &mut dyn Write) -> io::Result<()> {
    let words: Vec<String> = monitor.options.iter().map(called_with).collect();
    let mut line = format!("Usage: perilune {called}");
    for word in words {
        line = line + " " + &word;
    }
    writeln!(out, "{line} [OPTION…] [COMMAND [ARG…]]")
}

/// Help beyond the one-line description of a command.
const MORE: [(&str, &str); 3] = [
    (
        "new",
        "NAME.lua counts the events by task and lists the fields of each; NAME.events\n\
         contains events to replay, NAME.out the expected output. No file is overwritten.\n\n\
         Examples:\n\
         \x20 perilune new forks -e sched:sched_process_fork\n\
         \x20 perilune forks.lua\n",
    ),
    (
        "serve",
        "OPTIONS are those of the monitor, quoted as in a shell. NAME=MONITOR names it in\n\
         the metrics, so that a monitor can run twice. FILE.toml has options of serve,\n\
         by their long names, and a table for each monitor:\n\n\
         \x20 prometheus = 9464              # perilune serve --prometheus 9464 …\n\
         \x20 [syscalls]                     # … syscalls 'slow=profile:-F 49 -g'\n\
         \x20 [slow]\n\
         \x20 monitor = \"profile\"\n\
         \x20 freq = 49\n\
         \x20 options = \"-g\"\n\n\
         Ctrl-C, SIGTERM and SIGHUP end the run after its last interval is exported.\n\
         A monitor whose handler is switched off has perilune_monitor_up 0.\n",
    ),
    (
        "test",
        "FILE is a case, a monitor (its cases are NAME.events and NAME-*.events beside\n\
         it) or a folder; the default is the current folder. A case has lines in the\n\
         format of `trace --events`. A line `# run MONITOR [OPTION…]` sets what replays\n\
         it; the default is NAME.lua beside it. NAME.out is the expected output. No\n\
         privilege is needed. The exit code is 1 if a case fails.\n\
         A monitor without a case is loaded, and its events and fields are checked;\n\
         nothing is opened. It fails if one of them does not exist.\n\n\
         \x20 # run who.lua --than 1ms\n\
         \x20 0.001 0 100 web signal:signal_generate: sig=9 pid=200\n\
         \x20 0.002@0.009 1 200 db signal:signal_generate: sig=9 pid=100    happened at 2 ms, \
         arrived at 9 ms\n\
         \x20 0.003 1 0 - LOST: n=312                                       312 records of CPU 1 \
         were lost\n\
         \x20 0.004 0 100 web EXIT:       also FORK: ppid=PID ptid=TID, COMM: comm=NEW, EXEC: \
         comm=NEW\n\
         \x20 # cpus 0-3                                                    watched CPUs; \
         default: those of the lines\n\
         \x20 # end 12.5                                                    end of the run in \
         seconds; default: the last line\n",
    ),
];

/// Writes the help of a command that is not a monitor.
///
/// # Errors
/// The output cannot be written.
pub fn write_command(name: &str, out: &mut dyn Write) -> io::Result<()> {
    for (command, follows, help) in COMMANDS.iter().filter(|c| c.0 == name) {
        writeln!(out, "{command} - {help}\n")?;
        writeln!(out, "Usage: {}", format!("perilune {command} {follows}").trim_end())?;
        for (_, more) in MORE.iter().filter(|more| more.0 == name) {
            write!(out, "\n{more}")?;
        }
        if command == &"serve" {
            writeln!(out, "\n{}", serve::options_help())?;
        }
    }
    Ok(())
}

/// Returns the end of a message about a word that belongs to events: `uprobe`, `events`, an event.
pub fn listing_hint(word: &str) -> Option<String> {
    let prefixes = kind::PREFIXES.iter().copied().flatten().map(|known| known.prefix);
    let glob = match word {
        "event" | "events" | "tracepoint" | "tracepoints" => "'*:*'".to_owned(),
        _ if prefixes.clone().any(|prefix| prefix == word) => match word {
            "uprobe" | "uretprobe" | "usdt" => format!("'{word}:FILE:*'"),
            _ => format!("'{word}:*'"),
        },
        _ if word.contains(':') || kind::lookup(word).is_some() => {
            return Some(format!(
                "; for an event, write perilune list -v '{word}' or perilune trace -e '{word}'"
            ));
        }
        _ => return None,
    };
    Some(format!("; perilune list {glob} lists events of this kind, docs/events.md describes them"))
}

/// Returns an option for the usage line: `-e EVENT,…`, `[--than TIME]`.
fn called_with(option: &OptionSpec) -> String {
    let word = option.typed_with_value();
    let again = match &option.kind {
        OptionKind::Events { groups, .. } if groups.most > 1 => format!(" [{} …]", option.typed()),
        _ => String::new(),
    };
    if option.required { word + &again } else { format!("[{word}]{again}") }
}

/// Splits the doc into its sentences and its indented example lines.
fn split_doc(doc: &str) -> (Vec<&str>, Vec<&str>) {
    let lines = doc.lines().filter(|line| !line.trim().is_empty());
    lines.partition(|line| !line.starts_with("  "))
}
