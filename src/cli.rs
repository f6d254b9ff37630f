//! The command line: maps the arguments to one command, and its result to an exit code.
//!
//! Results go to `out`, the single line of an error to `err`. A usage error exits with 2, and a
//! failure with 1, or with 125 where the exit code is otherwise that of a command, as with env(1)
//! and timeout(1). A closed output pipe is not an error. Monitors, events and the run are behind
//! [`Runtime`], so this module needs no privilege, and is tested without a kernel.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
};

use anyhow::Context as _;

use crate::{
    base::matching::nearest::{did_you_mean, nearest},
    base::text::message::{EscapingWriter, message},
    cli::{command::Parsed, runtime::Runtime},
    event::other_tools,
    script::load::monitor::Monitor,
};

pub mod cases;
pub mod command;
pub mod describe;
pub mod doctor;
pub mod expr;
pub mod help;
pub mod list;
pub mod machine_runtime;
pub mod monitors;
pub mod new;
pub mod overview;
pub mod repl;
pub mod run_options;
pub mod runtime;
pub mod serve;
mod sources;
pub mod split_locks;
mod suggest;
pub mod symbols;
mod text_files;
pub mod types;

/// Why a command failed. Each is one error line.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The arguments are wrong.
    #[error("{0}")]
    Usage(String),
    /// The arguments are right, but the command failed.
    #[error("{0:#}")]
    Running(#[from] anyhow::Error),
    /// Like `Running`, where the exit code is otherwise that of a workload.
    #[error("{0:#}")]
    Watching(anyhow::Error),
}

/// A monitor refused the value of an option when it began: a usage error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct OptionError(String);

/// The exit code of a failure of perilune itself where it is otherwise that of a workload.
const BESIDE_A_COMMAND: u8 = 125;

/// Converts a failure to write results.
impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> CommandError {
        CommandError::Running(anyhow::Error::from(error).context("failed to write the results"))
    }
}

/// Commands other than monitors: name, arguments, description.
pub const COMMANDS: [(&str, &str, &str); 11] = [
    ("repl", "[OPTION…] [FILE.lua]", "prompt to open, count, time and draw events live"),
    (
        "list",
        "[-v] [--json] [GLOB]",
        "list the events whose name matches GLOB or contains it, or of a category such as \
         software; with -v, the fields of their records",
    ),
    ("monitors", "", "list all monitors with their summary and origin"),
    (
        "serve",
        "[OPTION…] MONITOR[:OPTIONS]…|FILE.toml",
        "run several monitors at once, and export their reports as metrics",
    ),
    ("doctor", "[--json]", "check what works on this machine, and how to fix the rest"),
    (
        "expr",
        "EXPRESSION [-e EVENT]",
        "print the value and type of an expression on constants, or its type for the fields of \
         EVENT",
    ),
    ("new", "NAME -e EVENT,…", "create a monitor and a test case for it"),
    (
        "test",
        "[--bless] [FILE…]",
        "run the test cases (.events) of monitors and compare their output; --bless accepts it. A \
         monitor without a case is only loaded",
    ),
    (
        "types",
        "[DIR]",
        "describe the API and the events of this kernel for editors and checkers, in DIR/types and \
         DIR/.luarc.json",
    ),
    (
        "split-locks",
        "[N]",
        "make N split locks (default 100000) and print the time of each; for `split-lock --test`",
    ),
    ("help", "[NAME]", "describe a monitor or command, and its options"),
];

/// Executes the command line `argv`, whose first element is the program's name. Returns the exit
/// code.
pub fn main_with(
    argv: &[OsString],
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let words = argv.get(1..).unwrap_or_default();
    let out = &mut EscapingWriter::new(out);
    let result = dispatch(words, runtime, out).and_then(|code| {
        out.flush()?;
        Ok(code)
    });
    // A run prints its warnings itself. A failure to write them cannot be reported.
    for warning in runtime.take_warnings() {
        let _ = err.write_all(&message(&format!("warning: {warning}")));
    }
    match result {
        Ok(code) => code,
        Err(failed) if is_closed_pipe(&failed) => 0,
        Err(failed) => {
            let _ = err.write_all(&message(&failed.to_string()));
            match failed {
                CommandError::Usage(_) => 2,
                CommandError::Running(_) => 1,
                CommandError::Watching(_) => BESIDE_A_COMMAND,
            }
        }
    }
}

fn is_closed_pipe(failed: &CommandError) -> bool {
    let (CommandError::Running(error) | CommandError::Watching(error)) = failed else {
        return false;
    };
    let closed = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(closed)
}

fn dispatch(
    words: &[OsString],
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
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
            _ => Err(CommandError::Usage(
                "--symbols needs one program, and reads its addresses from stdin: perilune \
                 --symbols FILE"
                    .to_owned(),
            )),
        },
        Some(option) if option.starts_with('-') => {
            Err(CommandError::Usage(misplaced(option, rest, runtime)))
        }
        Some(name) if rest_is_help && COMMANDS.iter().any(|c| c.0 == name) => {
            done(help::write_command(name, out))
        }
        Some("list") => {
            let (flags, rest) = flags("list", &["-v", "--json"], rest)?;
            let options = list::ListOptions { verbose: flags[0], json: flags[1] };
            list::write(optional_argument("list", &rest)?, options, runtime, out)
        }
        Some("doctor") => {
            let (flags, rest) = flags("doctor", &["--json"], rest)?;
            match &rest[..] {
                [] => {
                    let machine = doctor::MachineFacts::look(runtime.bundled());
                    Ok(doctor::write(&machine, flags[0], out)?)
                }
                [word, ..] => Err(unexpected_argument("doctor", word)),
            }
        }
        Some("expr") => expr::write(&utf8("expr", rest)?, runtime, out),
        Some("repl") => repl::run(rest, runtime, out),
        Some("monitors") => match rest {
            [] => done(monitors::write(runtime, out)),
            [word, ..] => Err(unexpected_argument("monitors", word)),
        },
        Some("serve") => serve::run(rest, runtime),
        Some("new") => new::write(rest, runtime, out),
        Some("test") => {
            let (flags, rest) = flags("test", &["--bless"], rest)?;
            cases::run(&rest, flags[0], runtime, out)
        }
        Some("types") => {
            let folder = optional_argument("types", rest)?.unwrap_or(".");
            types::check_folder(folder)?;
            types::write(folder.as_ref(), runtime, out)
        }
        Some("split-locks") => split_locks::run(rest, out),
        Some("help") => match optional_argument("help", rest)? {
            None => done(overview::write(runtime, out)),
            Some(name) if COMMANDS.iter().any(|c| c.0 == name) => {
                done(help::write_command(name, out))
            }
            Some(name) => help_on(name, runtime, out),
        },
        Some(name) => run_monitor(name, rest, runtime, out),
        None => Err(CommandError::Usage(format!("{first:?}: the name of a monitor must be UTF-8"))),
    }
}

fn done<T: Into<CommandError>>(result: Result<(), T>) -> Result<u8, CommandError> {
    result.map(|()| 0).map_err(Into::into)
}

fn is_help(word: &OsStr) -> bool {
    matches!(word.to_str(), Some("-h" | "-?" | "--help" | "--usage"))
}

/// Describes a monitor, or an event as `list -v` does.
fn help_on(name: &str, runtime: &mut dyn Runtime, out: &mut dyn Write) -> Result<u8, CommandError> {
    if !name.contains(':') || std::path::Path::new(name).exists() {
        return done(help::write(&monitor(name, runtime)?, name, out));
    }
    let options = list::ListOptions { verbose: true, json: false };
    list::write(Some(name), options, runtime, out)
}

fn run_monitor(
    name: &str,
    words: &[OsString],
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let monitor = monitor(name, runtime)?;
    match command::parse(&monitor, name, words)? {
        Parsed::Help => done(help::write(&monitor, name, out)),
        Parsed::Usage => done(help::write_usage(&monitor, name, out)),
        Parsed::Events(asked) => describe::asked(name, &asked, runtime, out),
        // The only place where a run begins.
        Parsed::Run(request) => {
            let alone = request.options.workload.is_empty();
            runtime.run(*request).map_err(|why| match why.downcast::<OptionError>() {
                Ok(OptionError(text)) => CommandError::Usage(text),
                Err(why) if alone => CommandError::Running(why),
                Err(why) => CommandError::Watching(why),
            })
        }
    }
}

/// Loads the monitor with that name or path.
fn monitor(name: &str, runtime: &mut dyn Runtime) -> Result<Monitor, CommandError> {
    if let Some(monitor) = runtime.load(name)? {
        return Ok(monitor);
    }
    if name.contains('/') || name.ends_with(".lua") {
        return Err(CommandError::Usage(format!("no file '{name}'; check the path")));
    }
    let known = runtime.monitors();
    let plain = other_tools::without_suffix(name);
    let commands = COMMANDS.iter().map(|c| c.0);
    let near = nearest(plain, known.iter().map(String::as_str).chain(commands));
    let hint = match other_tools::hint("", plain) {
        none if none.is_empty() => help::listing_hint(name).unwrap_or_else(|| did_you_mean(&near)),
        hint => hint,
    };
    Err(CommandError::Usage(format!(
        "no monitor or command '{name}'{hint} (perilune monitors lists them)"
    )))
}

/// Returns the error for an option before the monitor, which may be a valid one in the wrong place.
fn misplaced(option: &str, rest: &[OsString], runtime: &mut dyn Runtime) -> String {
    if !run_options::is_option(option) {
        let hint = other_tools::hint("perilune", option);
        return format!("no option '{option}'{hint} (perilune --help shows the usage)");
    }
    let known = runtime.monitors();
    let mut words = rest.iter().filter_map(|w| w.to_str());
    let monitor = words.find(|w| known.iter().any(|name| name == w)).unwrap_or("MONITOR");
    format!("'{option}' must follow the monitor: perilune {monitor} {option} …")
}

/// Returns which of a command's `known` flags are given, and the other arguments.
fn flags(
    command: &str,
    known: &[&str],
    words: &[OsString],
) -> Result<(Vec<bool>, Vec<OsString>), CommandError> {
    let of = |word: &OsString| known.iter().position(|flag| word == flag);
    let given = known.iter().map(|flag| words.iter().any(|word| word == flag)).collect();
    let rest: Vec<OsString> = words.iter().filter(|word| of(word).is_none()).cloned().collect();
    match rest.iter().find(|word| word.as_encoded_bytes().starts_with(b"-")) {
        None => Ok((given, rest)),
        Some(word) => {
            let word = word.to_string_lossy();
            let hint = other_tools::hint(command, &word);
            Err(CommandError::Usage(format!(
                "{command}: no option '{word}'{hint} (perilune {command} --help shows the usage)"
            )))
        }
    }
}

/// Returns the arguments as text.
fn utf8<'a>(command: &str, words: &'a [OsString]) -> Result<Vec<&'a str>, CommandError> {
    let text = |word: &'a OsString| {
        word.to_str()
            .ok_or_else(|| CommandError::Usage(format!("{command}: {word:?} is not UTF-8")))
    };
    words.iter().map(text).collect()
}

fn optional_argument<'a>(
    command: &str,
    rest: &'a [OsString],
) -> Result<Option<&'a str>, CommandError> {
    match rest {
        [] => Ok(None),
        [word] => match word.to_str() {
            Some(text) if text.starts_with('-') => Err(CommandError::Usage(format!(
                "{command}: no option '{text}' (perilune {command} --help shows the usage)"
            ))),
            Some(text) => Ok(Some(text)),
            None => Err(CommandError::Usage(format!("{command}: {word:?} is not UTF-8"))),
        },
        [_, second, ..] => Err(unexpected_argument(command, second)),
    }
}

fn unexpected_argument(command: &str, word: &OsStr) -> CommandError {
    let word = word.to_string_lossy();
    CommandError::Usage(format!(
        "{command}: unexpected argument '{word}' (perilune {command} --help shows the usage)"
    ))
}
