//! The command line: from the words typed to one command, and from its end to an exit code.
//!
//! Results go to `out`, the one line of an error to `err`. A usage error exits 2, a failure 1, or 125 where the exit code is
//! otherwise that of a command, as with env(1) and timeout(1); a reader that has closed its pipe is success. Monitors, events and the run are behind [`Runtime`], so everything here
//! works without privilege and is tested without a kernel.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
};

use anyhow::Context as _;

use crate::{
    base::nearest::{did_you_mean, nearest},
    base::text::message::{Lines, message},
    cli::{command::Parsed, run::Runtime},
    script::monitor::Monitor,
};

mod begin;
pub mod cases;
pub mod command;
pub mod describe;
pub mod doctor;
pub mod help;
pub mod host;
pub mod list;
pub mod machine;
pub mod monitors;
pub mod new;
pub mod overview;
mod refusal;
pub mod repl;
pub mod run;
pub mod split_locks;
pub mod symbols;
pub mod types;

/// Why a command did not succeed. Each is one error line.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// It was called wrongly.
    #[error("{0}")]
    Usage(String),
    /// It was called rightly and failed.
    #[error("{0:#}")]
    Running(#[from] anyhow::Error),
    /// So, where the exit code is otherwise that of a command.
    #[error("{0:#}")]
    Watching(anyhow::Error),
}

/// The exit code of a failure of perilune's own, where it is otherwise that of a command.
const BESIDE_A_COMMAND: u8 = 125;

/// Commands write their results as they find them.
impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Running(anyhow::Error::from(error).context("failed to write the results"))
    }
}

/// Commands beside the monitors: name, what may follow, what it does.
pub const COMMANDS: [(&str, &str, &str); 9] = [
    ("repl", "[OPTION…] [FILE.lua]", "a prompt: open, count, time and draw events while they come"),
    (
        "list",
        "[-v] [--json] [GLOB]",
        "the events of this machine whose name matches, or holds the word; with -v, what their records hold",
    ),
    ("monitors", "", "all monitors, what they do and where they come from"),
    ("doctor", "[--json]", "what this machine lets a run do, and what to do about the rest"),
    ("new", "NAME -e EVENT,…", "writes a monitor to begin with, and a case to test it by"),
    (
        "test",
        "[--bless] [FILE…]",
        "runs the cases (.events) of monitors, and compares what they print; --bless takes it over. Of one without: does it load",
    ),
    (
        "types",
        "[DIR]",
        "describes the API and the events of this kernel to editors and checkers, in DIR/types and DIR/.luarc.json",
    ),
    (
        "split-locks",
        "[N]",
        "makes N split locks (100000) and prints how long each took; for `split-lock --test`",
    ),
    ("help", "[NAME]", "what a monitor or command does, and its options"),
];

/// Does what `argv` asks, whose first word is the program's own name. Returns the exit code.
pub fn main_with(
    argv: &[OsString],
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let words = argv.get(1..).unwrap_or_default();
    let out = &mut Lines::new(out);
    let result = dispatch(words, runtime, out).and_then(|code| {
        out.flush()?;
        Ok(code)
    });
    // A run has said them itself. Nobody is left to be told when this cannot be written.
    for warning in runtime.take_warnings() {
        let _ = err.write_all(&message(&format!("warning: {warning}")));
    }
    match result {
        Ok(code) => code,
        Err(failed) if is_closed_pipe(&failed) => 0,
        Err(failed) => {
            let _ = err.write_all(&message(&failed.to_string()));
            match failed {
                Failed::Usage(_) => 2,
                Failed::Running(_) => 1,
                Failed::Watching(_) => BESIDE_A_COMMAND,
            }
        }
    }
}

fn is_closed_pipe(failed: &Failed) -> bool {
    let (Failed::Running(error) | Failed::Watching(error)) = failed else { return false };
    let closed = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(closed)
}

fn dispatch(
    words: &[OsString],
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, Failed> {
    let Some((first, rest)) = words.split_first() else {
        return done(overview::write(runtime, out));
    };
    let rest_is_help = rest.iter().any(|w| is_help(w));
    match first.to_str() {
        Some("-h" | "-?" | "--help") => done(overview::write(runtime, out)),
        Some("--usage") => done(writeln!(out, "Usage: {}", overview::USAGE)),
        Some("-V" | "--version") => done(writeln!(out, "perilune {}", env!("CARGO_PKG_VERSION"))),
        Some("--symbols") => match rest {
            [program] => {
                let answered = symbols::answer(program.as_ref(), io::stdin().lock(), out);
                done(answered.context("--symbols"))
            }
            _ => Err(Failed::Usage(
                "--symbols takes the program whose addresses stand in stdin: perilune --symbols FILE".to_owned(),
            )),
        },
        Some(option) if option.starts_with('-') => {
            Err(Failed::Usage(misplaced(option, rest, runtime)))
        }
        Some(name) if rest_is_help && COMMANDS.iter().any(|c| c.0 == name) => {
            done(help::write_command(name, out))
        }
        Some("list") => {
            let (flags, rest) = flags("list", &["-v", "--json"], rest)?;
            let way = list::Way { verbose: flags[0], json: flags[1] };
            list::write(one_word("list", &rest)?, way, runtime, out)
        }
        Some("doctor") => {
            let (flags, rest) = flags("doctor", &["--json"], rest)?;
            match &rest[..] {
                [] => {
                    let machine = doctor::Machine::look(runtime.bundled());
                    Ok(doctor::write(&machine, flags[0], out)?)
                }
                [word, ..] => Err(too_many("doctor", word)),
            }
        }
        Some("repl") => repl::run(rest, runtime, out),
        Some("monitors") => match rest {
            [] => done(monitors::write(runtime, out)),
            [word, ..] => Err(too_many("monitors", word)),
        },
        Some("new") => new::write(rest, runtime, out),
        Some("test") => {
            let (flags, rest) = flags("test", &["--bless"], rest)?;
            cases::run(&rest, flags[0], runtime, out)
        }
        Some("types") => {
            let folder = one_word("types", rest)?.unwrap_or(".");
            types::write(folder.as_ref(), runtime, out)
        }
        Some("split-locks") => split_locks::run(rest, out),
        Some("help") => match one_word("help", rest)? {
            None => done(overview::write(runtime, out)),
            Some(name) if COMMANDS.iter().any(|c| c.0 == name) => {
                done(help::write_command(name, out))
            }
            Some(name) => done(help::write(&monitor(name, runtime)?, name, out)),
        },
        Some(name) => run_monitor(name, rest, runtime, out),
        None => Err(Failed::Usage(format!("{first:?} is not UTF-8, so no name of a monitor"))),
    }
}

fn done<T: Into<Failed>>(result: Result<(), T>) -> Result<u8, Failed> {
    result.map(|()| 0).map_err(Into::into)
}

fn is_help(word: &OsStr) -> bool {
    matches!(word.to_str(), Some("-h" | "-?" | "--help" | "--usage"))
}

fn run_monitor(
    name: &str,
    words: &[OsString],
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, Failed> {
    let monitor = monitor(name, runtime)?;
    match command::parse(&monitor, name, words)? {
        Parsed::Help => done(help::write(&monitor, name, out)),
        Parsed::Usage => done(help::write_usage(&monitor, name, out)),
        Parsed::Events(asked) => describe::asked(name, &asked, runtime, out),
        // The one place where a run begins.
        Parsed::Run(request) => {
            let alone = request.host.workload.is_empty();
            runtime.run(*request).map_err(if alone { Failed::Running } else { Failed::Watching })
        }
    }
}

/// The monitor of that name or path.
fn monitor(name: &str, runtime: &mut dyn Runtime) -> Result<Monitor, Failed> {
    if let Some(monitor) = runtime.load(name)? {
        return Ok(monitor);
    }
    if name.contains('/') || name.ends_with(".lua") {
        return Err(Failed::Usage(format!("no file '{name}'; check the path")));
    }
    let known = runtime.monitors();
    let commands = COMMANDS.iter().map(|c| c.0);
    let near = nearest(name, known.iter().map(String::as_str).chain(commands));
    let hint = did_you_mean(&near);
    Err(Failed::Usage(format!(
        "no monitor or command '{name}'{hint} (perilune monitors lists them)"
    )))
}

/// An option before the monitor: it may well be a right one at the wrong place.
fn misplaced(option: &str, rest: &[OsString], runtime: &mut dyn Runtime) -> String {
    if !host::is_option(option) {
        return format!("no option '{option}' (perilune --help shows how to begin)");
    }
    let known = runtime.monitors();
    let mut words = rest.iter().filter_map(|w| w.to_str());
    let monitor = words.find(|w| known.iter().any(|name| name == w)).unwrap_or("MONITOR");
    format!("'{option}' stands before the monitor; put it behind: perilune {monitor} {option} …")
}

/// Which of a command's `known` flags are among its words, and the other words.
fn flags(
    command: &str,
    known: &[&str],
    words: &[OsString],
) -> Result<(Vec<bool>, Vec<OsString>), Failed> {
    let of = |word: &OsString| known.iter().position(|flag| word == flag);
    let given = known.iter().map(|flag| words.iter().any(|word| word == flag)).collect();
    let rest: Vec<OsString> = words.iter().filter(|word| of(word).is_none()).cloned().collect();
    match rest.iter().find(|word| word.as_encoded_bytes().starts_with(b"-")) {
        None => Ok((given, rest)),
        Some(word) => Err(Failed::Usage(format!(
            "{command}: no option '{}' (perilune {command} --help shows how it is called)",
            word.to_string_lossy()
        ))),
    }
}

fn one_word<'a>(command: &str, rest: &'a [OsString]) -> Result<Option<&'a str>, Failed> {
    match rest {
        [] => Ok(None),
        [word] => match word.to_str() {
            Some(text) if text.starts_with('-') => Err(Failed::Usage(format!(
                "{command}: no option '{text}' (perilune {command} --help shows how it is called)"
            ))),
            Some(text) => Ok(Some(text)),
            None => Err(Failed::Usage(format!("{command}: {word:?} is not UTF-8"))),
        },
        [_, second, ..] => Err(too_many(command, second)),
    }
}

fn too_many(command: &str, word: &OsStr) -> Failed {
    let word = word.to_string_lossy();
    Failed::Usage(format!(
        "{command}: '{word}' is one word too many (perilune {command} --help shows how it is called)"
    ))
}
