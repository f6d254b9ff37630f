//! `repl [OPTION…] [FILE.lua]`: a prompt over live events. Here is the terminal's side; the session is [`crate::run::session`].
//!
//! A thread of its own reads lines, so that rings are drained while somebody types, and another one prints above them. The first
//! sends its lines over a channel and rings a bell (a pipe) that the session's poll hears. It has no part in the session's Lua: whether a line is complete it asks a
//! Lua of its own that only compiles, and what a word could become it asks the session.

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
use super::run::Runtime;
use super::{Failed, help};
use crate::run::session::{Console, Names, Outlet, Typed};
use crate::script::bundle::{Origin, Script};
use crate::script::option::value::OptionValue;
use crate::sys::namespace::tid_in_records;
use crate::sys::signal::{self, listener};
use crate::sys::slice;
use crate::sys::streams::{self, stdout};
use crate::sys::threads;

/// What stands in the place of a monitor: its options are those of the prompt.
const MONITOR: &str = include_str!("prompt.lua");

/// How long somebody waits for completions.
const PATIENCE: Duration = Duration::from_millis(300);

/// Runs a prompt until its lines end.
pub fn run(
    words: &[OsString],
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, Failed> {
    if is_terminal() {
        // Before anything that takes time: a Ctrl-C meanwhile ends nothing. A failure leaves it as
        // it was.
        let _ = signal::disregard_interrupts();
    }
    let script =
        Script { name: "repl".to_owned(), origin: Origin::Bundled, text: MONITOR.to_owned() };
    let monitor = runtime.load_text(&script)?;
    let request = match command::parse(&monitor, "repl", words)? {
        Parsed::Help => return super::done(help::write(&monitor, "repl", out)),
        Parsed::Usage => return super::done(help::write_usage(&monitor, "repl", out)),
        Parsed::Events(_) => {
            return Err(Failed::Usage(
                "repl: it has no -e; type the event at the prompt".to_owned(),
            ));
        }
        Parsed::Run(request) => *request,
    };
    let host = &request.host;
    let elsewhere = [
        ("--json", host.json),
        ("--events", host.events),
        ("-o", host.output.is_some()),
        ("a command", !host.workload.is_empty()),
        ("-i", host.interval_ns.is_some()),
        ("-N", host.exit_after.is_some()),
        ("--duration", host.duration_ns.is_some()),
        ("--total", host.total),
        ("--stats", host.stats),
        ("--realtime", host.realtime),
    ];
    if let Some((what, _)) = elsewhere.iter().find(|(_, given)| *given) {
        return Err(Failed::Usage(format!("repl: {what} is for monitors; leave it away")));
    }
    let begin = match request.values.get("file") {
        Some(OptionValue::Text(path)) => Some(path.clone()),
        _ => None,
    };
    Ok(runtime.session(request, begin)?)
}

/// Starts the thread that reads, and on a terminal the one that takes signals. On a terminal it
/// edits lines there, and what the session prints appears above them.
///
/// # Errors
/// No thread, no pipe, or a terminal that cannot be asked.
pub fn console(unsafe_mode: bool) -> anyhow::Result<(Console, Outlet)> {
    let terminal = is_terminal();
    // A script that may start programs has to start them with their signals as usual.
    let listening = match terminal && !unsafe_mode {
        true => Some(listener::start().context("failed to start the thread that takes signals")?),
        false => None,
    };
    let (sender, typed) = mpsc::channel();
    let (ready, go) = mpsc::sync_channel(1);
    let (bell, ringer) = io::pipe().context("failed to make a pipe")?;
    let line = Line { typed: sender, ringer, go };
    let (hello, greeted) = mpsc::channel();
    let listens = listening.is_some();
    let read = move || {
        signal::keep_off_this_thread();
        // A key should not wait for the turn of a task that never sleeps.
        slice::ask_for_short_turns();
        if terminal {
            editor::read(line, listens, &hello);
        } else {
            // Whoever waits for it is there until it comes.
            let _ = hello.send(Ok((vec![tid_in_records()], None)));
            pipe::read(&line);
        }
    };
    threads::start("perilune:read", read)?;
    let (mut tids, above) = greeted.recv().context("the thread that reads lines has ended")??;
    tids.extend(listening);
    let (outlet, settle): (Outlet, Box<dyn Fn()>) = match above {
        Some(above) => {
            let (results, messages) = (Box::new(above.doubled()), Box::new(above.doubled()));
            (Outlet { results, messages, terminal }, Box::new(move || above.settle()))
        }
        None => {
            let (results, messages) = (Box::new(stdout()), Box::new(streams::stderr()));
            (Outlet { results, messages, terminal }, Box::new(|| {}))
        }
    };
    Ok((Console { typed, bell, ready, settle, tids }, outlet))
}

/// Whether lines are edited on a terminal.
fn is_terminal() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
    io::stdin().is_terminal() && streams::stdout_is_terminal() && !dumb
}

/// The reading thread's end of the console.
struct Line {
    typed: Sender<Typed>,
    ringer: PipeWriter,
    go: Receiver<()>,
}

impl Line {
    /// Waits until the session wants the next line; false when it has ended.
    fn is_wanted(&self) -> bool {
        self.go.recv().is_ok()
    }

    fn send(&self, typed: Typed) {
        // A session that has ended hears neither.
        if self.typed.send(typed).is_ok() {
            let _ = (&self.ringer).write_all(b"!");
        }
    }

    /// What the end of a line could become; nothing if the session is busy.
    fn names(&self, before: &str) -> Names {
        let (reply, answer) = mpsc::channel();
        self.send(Typed::Names { before: before.to_owned(), reply });
        answer.recv_timeout(PATIENCE).unwrap_or((before.len(), Vec::new()))
    }
}
