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
const COMMAND: &str = "A COMMAND is started and watched until it ends. A run that ends first (Ctrl-C, --duration, -N) asks it to\nend, too, by SIGTERM.";

/// Writes how a monitor is called, in short.
pub fn write_usage(monitor: &Monitor, called: &str, out: &mut dyn Write) -> io::Result<()> {
    let words: Vec<String> = monitor.options.iter().map(called_with).collect();
    let mut line = format!("Usage: perilune {called}");
    for word in words {
        line = line + " " + &word;
    }
    writeln!(out, "{line} [OPTION…] [COMMAND [ARG…]]")
}

/// Writes the help of a command that is no monitor.
pub fn write_command(name: &str, out: &mut dyn Write) -> io::Result<()> {
    for (command, follows, help) in COMMANDS.iter().filter(|c| c.0 == name) {
        writeln!(out, "{command} - {help}\n")?;
        writeln!(out, "Usage: {}", format!("perilune {command} {follows}").trim_end())?;
    }
    Ok(())
}

/// How a monitor's help is asked for: `perilune signal --help`.
pub fn call(called: &str) -> String {
    format!("perilune {called} --help")
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
