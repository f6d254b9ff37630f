//! `help NAME` and `NAME --help`: what it is, how it is called, examples, options.

use std::io::{self, Write};

use super::{COMMANDS, command};
use crate::script::{
    monitor::Monitor,
    option::{Kind, OptionSpec},
};

/// Writes a monitor's help; `called` is the word that it was called by, a name or a path.
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
    // Headings and wrapping are clap's; the rest of its page is ours above.
    let options = command::command(monitor).help_template("{all-args}").render_help();
    writeln!(out, "\n{}", options.to_string().trim_end())?;
    writeln!(out, "\n{COMMAND}\n\nFrom {}", monitor.origin)
}

/// What becomes of a workload.
const COMMAND: &str = "A COMMAND is started and watched until it ends: then comes the report of the whole, with -i others on the way. A\n\
     run that ends first (Ctrl-C, --duration, -N) asks it to end, too, by SIGTERM, and exits with 0. Otherwise the exit\n\
     code is the COMMAND's, or 128 and the signal that ended it; 127 if it is not found and 126 if it cannot be executed,\n\
     125 if perilune itself fails.\n\
     Ctrl-C, SIGTERM and SIGHUP end the run, which prints its last report; SIGUSR1 and SIGUSR2 print a report at once.";

/// Writes how a monitor is called, in short.
pub fn write_usage(monitor: &Monitor, called: &str, out: &mut dyn Write) -> io::Result<()> {
    let words: Vec<String> = monitor.options.iter().map(called_with).collect();
    let mut line = format!("Usage: perilune {called}");
    for word in words {
        line = line + " " + &word;
    }
    writeln!(out, "{line} [OPTION…] [COMMAND [ARG…]]")
}

/// What is not said by a line about a command.
const MORE: [(&str, &str); 2] = [
    (
        "new",
        "NAME.lua counts the events by task and lists the fields of each; NAME.events holds some to replay, NAME.out what\n\
         that prints. Nothing is overwritten.\n\nExamples:\n  perilune new forks -e sched:sched_process_fork\n  perilune forks.lua\n",
    ),
    (
        "test",
        "A FILE is a case, a monitor (NAME.events and NAME-*.events beside it) or a folder; none is this folder. A case has\n\
         lines as `trace --events` prints them, and says by `# run MONITOR [OPTION…]` what is run over it: NAME.lua beside it\n\
         if it does not. NAME.out is what it must print. No privilege is needed. Exit code 1 if a case fails.\n\
         A monitor without a case is loaded and declares its events, and its fields are looked for; nothing is opened. It\n\
         fails if one of them is not there.\n\n\
         \x20 # run who.lua --than 1ms\n\
         \x20 0.001 0 100 web signal:signal_generate: sig=9 pid=200\n\
         \x20 0.002@0.009 1 200 db signal:signal_generate: sig=9 pid=100    happened at 2 ms and came at 9\n\
         \x20 0.003 1 0 - LOST: n=312                                       records of CPU 1 that were lost\n\
         \x20 0.004 0 100 web EXIT:       also FORK: ppid=PID ptid=TID, COMM: comm=NEW, EXEC: comm=NEW\n",
    ),
];

/// Writes the help of a command that is no monitor.
pub fn write_command(name: &str, out: &mut dyn Write) -> io::Result<()> {
    for (command, follows, help) in COMMANDS.iter().filter(|c| c.0 == name) {
        writeln!(out, "{command} - {help}\n")?;
        writeln!(out, "Usage: {}", format!("perilune {command} {follows}").trim_end())?;
        for (_, more) in MORE.iter().filter(|more| more.0 == name) {
            write!(out, "\n{more}")?;
        }
    }
    Ok(())
}

/// An option in the usage line: `-e EVENT,…`, `[--than TIME]`.
fn called_with(option: &OptionSpec) -> String {
    let word = option.typed_with_value();
    let again = match &option.kind {
        Kind::Events { groups, .. } if groups.most > 1 => format!(" [{} …]", option.typed()),
        _ => String::new(),
    };
    if option.required { word + &again } else { format!("[{word}]{again}") }
}

/// The doc's sentences and its indented example lines.
fn split_doc(doc: &str) -> (Vec<&str>, Vec<&str>) {
    let lines = doc.lines().filter(|line| !line.trim().is_empty());
    lines.partition(|line| !line.starts_with("  "))
}
