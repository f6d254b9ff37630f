//! `repl [OPTION…] [FILE.lua]`: a prompt over live events. This is the terminal's side; the session
//! is [`crate::run::session`].
//!
//! One thread reads lines, so that rings are drained while the user types, and another one prints
//! above them. The reading thread sends its lines over a channel and writes to a pipe that wakes
//! the session's poll. It has no access to the session's Lua state: it checks whether a line is
//! complete with a separate Lua state that only compiles, and asks the session for completions.

mod above;
mod editor;
mod highlight;
mod history;
mod pipe;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, PipeWriter, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use anyhow::Context as _;

use super::command::{self, Parsed};
use super::runtime::Runtime;
use super::{CommandError, help};
use crate::output::format::OutputFormat;
use crate::run::session::{Completions, Console, ConsoleMessage, Outlet};
use crate::script::load::library::{Script, ScriptOrigin};
use crate::script::option::value::OptionValue;
use crate::sys::own_tid::tid_in_records;
use crate::sys::sched;
use crate::sys::signal::{self, listener};
use crate::sys::streams::{self, stdout};
use crate::sys::threads;

/// A script in place of a monitor, for the options of the prompt.
const MONITOR: &str = include_str!("repl/prompt.lua");

/// Time that the prompt waits for completions.
const PATIENCE: Duration = Duration::from_millis(300);

/// Runs a prompt until its lines end.
///
/// # Errors
/// The arguments are invalid, or the session fails.
pub fn run(
    words: &[OsString],
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    if is_terminal() {
        // Before anything that takes time, so that a Ctrl-C meanwhile ends nothing. On failure the
        // default action stays.
        let _ = signal::disregard_interrupts();
    }
    let script =
        Script { name: "repl".to_owned(), origin: ScriptOrigin::Bundled, text: MONITOR.to_owned() };
    let monitor = runtime.load_text(&script)?;
    let request = match command::parse(&monitor, "repl", words)? {
        Parsed::Help => return super::done(help::write(&monitor, "repl", out)),
        Parsed::Usage => return super::done(help::write_usage(&monitor, "repl", out)),
        Parsed::Events(_) => {
            return Err(CommandError::Usage(
                "repl: -e is not an option here; type the event at the prompt".to_owned(),
            ));
        }
        Parsed::Run(request) => *request,
    };
    let common = &request.options;
    let format = format!("--{}", common.format.option());
    let elsewhere = [
        (format.as_str(), common.format != OutputFormat::Text),
        ("-o", common.output.is_some()),
        ("--parquet", common.parquet.is_some()),
        ("--prometheus", common.prometheus.is_some()),
        ("--otlp", common.otlp.is_some()),
        ("a command", !common.workload.is_empty()),
        ("-i", common.interval_ns.is_some()),
        ("-N", common.exit_after.is_some()),
        ("--duration", common.duration_ns.is_some()),
        ("--start-at", common.start_at.is_some()),
        ("--total", common.total),
        ("--stats", common.stats),
        ("--realtime", common.realtime),
        ("--budget", common.budget.is_some()),
    ];
    if let Some((what, _)) = elsewhere.iter().find(|(_, given)| *given) {
        return Err(CommandError::Usage(format!("repl: {what} applies only to monitors; omit it")));
    }
    let begin = match request.values.get("file") {
        Some(OptionValue::Text(path)) => Some(path.clone()),
        _ => None,
    };
    Ok(runtime.session(request, begin)?)
}

/// Starts the thread that reads lines and, on a terminal, the one that takes signals. On a
/// terminal, lines are edited, and the session's output appears above them.
///
/// # Errors
/// A thread or a pipe cannot be created, or the terminal cannot be queried.
pub fn console(unsafe_mode: bool) -> anyhow::Result<(Console, Outlet)> {
    let terminal = is_terminal();
    // A script that may start programs must start them with the default signal handling.
    let listening = match terminal && !unsafe_mode {
        true => Some(listener::start().context("failed to start the thread that takes signals")?),
        false => None,
    };
    let (sender, typed) = mpsc::channel();
    let (ready, go) = mpsc::sync_channel(1);
    let (bell, ringer) = io::pipe().context("failed to make a pipe")?;
    let line = LineReader { typed: sender, ringer, go };
    let (hello, greeted) = mpsc::channel();
    let listens = listening.is_some();
    let read = move || {
        signal::keep_off_this_thread();
        // A key should not wait until a task that never sleeps is preempted.
        sched::request_short_slices();
        if terminal {
            editor::read(line, listens, &hello);
        } else {
            // The receiver waits for the id until it comes.
            let _ = hello.send(Ok((vec![tid_in_records()], None)));
            pipe::read(&line);
        }
    };
    threads::start("perilune:read", read)?;
    let (mut tids, above) = greeted.recv().context("the thread that reads lines has ended")??;
    tids.extend(listening);
    let (outlet, wait_until_printed): (Outlet, Box<dyn Fn()>) = match above {
        Some(above) => {
            let (results, messages) = (Box::new(above.doubled()), Box::new(above.doubled()));
            (Outlet { results, messages, terminal }, Box::new(move || above.wait_until_printed()))
        }
        None => {
            let (results, messages) = (Box::new(stdout()), Box::new(streams::stderr()));
            (Outlet { results, messages, terminal }, Box::new(|| {}))
        }
    };
    Ok((Console { typed, bell, ready, wait_until_printed, tids }, outlet))
}

/// Returns whether lines are edited on a terminal.
fn is_terminal() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
    io::stdin().is_terminal() && streams::stdout_is_terminal() && !dumb
}

/// The reading thread's end of the console.
struct LineReader {
    typed: Sender<ConsoleMessage>,
    ringer: PipeWriter,
    go: Receiver<()>,
}

impl LineReader {
    /// Waits until the session requests the next line. Returns false when it has ended.
    fn is_wanted(&self) -> bool {
        self.go.recv().is_ok()
    }

    fn send(&self, typed: ConsoleMessage) {
        // After the end of the session, both are without effect.
        if self.typed.send(typed).is_ok() {
            let _ = (&self.ringer).write_all(b"!");
        }
    }

    /// Returns the completions of the end of the line; none if the session is busy.
    fn names(&self, before: &str) -> Completions {
        let (reply, answer) = mpsc::channel();
        self.send(ConsoleMessage::Names { before: before.to_owned(), reply });
        answer.recv_timeout(PATIENCE).unwrap_or((before.len(), Vec::new()))
    }
}
