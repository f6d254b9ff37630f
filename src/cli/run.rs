//! What commands stand on: where monitors come from, which events there are, and the run itself.

use std::path::Path;
use std::rc::Rc;

use anyhow::{Result, bail};

use crate::{
    event::catalog::Catalog,
    run::request::RunRequest,
    script::{bundle::Script, monitor::Monitor},
};

/// How a bundled monitor would begin on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundled {
    /// Its name.
    pub name: String,
    /// Why it would not.
    pub lacks: Option<String>,
    /// What it would measure instead of what it is meant to, a line for each event.
    pub fallbacks: Vec<String>,
}

/// The part of the program that reads scripts, asks the kernel and runs monitors.
pub trait Runtime {
    /// Names of all monitors that can be found, sorted.
    fn monitors(&mut self) -> Vec<String>;

    /// The monitor of that name, or of that path when it holds a `/` or ends in `.lua`. `None` if there is
    /// none; an error if there is one and it does not load. Opens nothing but the script.
    fn load(&mut self, name: &str) -> Result<Option<Monitor>>;

    /// The events of this machine, in the order to be listed. What cannot be listed is a warning.
    fn events(&mut self) -> Result<Vec<EventName>>;

    /// What the events of this machine are, or those of a recording.
    fn catalog(&mut self, replay: Option<&Path>) -> Result<Rc<dyn Catalog>>;

    /// The monitor that a text declares, which stands in no folder.
    fn load_text(&mut self, script: &Script) -> Result<Monitor> {
        bail!("{}: there is nothing here to load it", script.name)
    }

    /// Runs a session at a prompt, after the lines of the file `begin`, and returns the exit code.
    fn session(&mut self, request: RunRequest, begin: Option<String>) -> Result<u8> {
        let _ = begin;
        bail!("{}: there is no prompt here", request.called)
    }

    /// Runs to the end and returns the exit code. An error is printed by the caller as the one error line.
    fn run(&mut self, request: RunRequest) -> Result<u8>;

    /// Loads the script at that path and lets it declare what it watches; nothing is opened. Gives why its events were not looked at,
    /// where this machine does not tell them.
    ///
    /// # Errors
    /// The script does not load, or declares an event or reads a field that is not there.
    fn check(&mut self, path: &str) -> Result<Option<String>> {
        bail!("{path}: there is nothing here to load it")
    }

    /// The bundled monitors, as they would begin here. One that has to be told its events begins.
    fn bundled(&mut self) -> Vec<Bundled> {
        Vec::new()
    }

    /// What was left out on the way, such as a script that others can write; each is said once.
    fn take_warnings(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// An event as `list` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventName {
    /// The name, `sched:sched_switch` or `cpu-cycles`.
    pub name: String,
    /// Other names for the same: `cycles`.
    pub aliases: Vec<String>,
    /// What sort it is, one word: `tracepoint`, `software`, `hardware`, `accounting`.
    pub sort: &'static str,
}
