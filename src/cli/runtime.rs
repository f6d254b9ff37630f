//! The interface to the rest of the program: monitors, events, and the run itself.

use std::path::Path;
use std::rc::Rc;

use anyhow::{Result, bail};

use crate::{
    event::catalog::Catalog,
    run::request::RunRequest,
    run::serve::ServedMonitor,
    script::load::{library::Script, monitor::Monitor},
};

/// How a bundled monitor would begin on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundled {
    /// Its name.
    pub name: String,
    /// Why it would not begin.
    pub lacks: Option<String>,
    /// Why it can only watch a COMMAND or processes of this user, if so.
    pub only_own: Option<String>,
    /// The fallbacks that it would measure, one line per event.
    pub fallbacks: Vec<String>,
}

/// The part of the program that reads scripts, asks the kernel and runs monitors.
pub trait Runtime {
    /// Returns the names of all monitors that can be found, sorted.
    fn monitors(&mut self) -> Vec<String>;

    /// Returns the monitor with that name, or with that path if it contains a `/` or ends in
    /// `.lua`; `None` if there is none. Opens nothing but the script.
    ///
    /// # Errors
    /// The monitor exists and does not load.
    fn load(&mut self, name: &str) -> Result<Option<Monitor>>;

    /// Returns the events of this machine, in list order. An unreadable group of events becomes a
    /// warning.
    ///
    /// # Errors
    /// No events can be listed.
    fn events(&mut self) -> Result<Vec<EventName>>;

    /// Returns the catalog of this machine's events, or of a recording's.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn catalog(&mut self, replay: Option<&Path>) -> Result<Rc<dyn Catalog>>;

    /// Loads a monitor from a text that is not in a file.
    ///
    /// # Errors
    /// The text does not load, or computes a value that C leaves undefined.
    fn load_text(&mut self, script: &Script) -> Result<Monitor> {
        bail!("{}: monitors cannot be loaded here", script.name)
    }

    /// Runs a session at a prompt, after the lines of the file `begin`. Returns the exit code.
    ///
    /// # Errors
    /// The session cannot begin, or its results cannot be written.
    fn session(&mut self, request: RunRequest, begin: Option<String>) -> Result<u8> {
        let _ = begin;
        bail!("{}: a prompt is not available here", request.called)
    }

    /// Runs several monitors to the end, and returns the exit code.
    ///
    /// # Errors
    /// A monitor cannot begin; the error names it.
    fn serve(&mut self, request: RunRequest, monitors: &[ServedMonitor]) -> Result<u8> {
        let _ = monitors;
        bail!("{}: monitors cannot be served here", request.called)
    }

    /// Runs to the end, and returns the exit code.
    ///
    /// # Errors
    /// The run fails; the caller prints the error as the single error line.
    fn run(&mut self, request: RunRequest) -> Result<u8>;

    /// Loads the script at that path, and lets it declare its events; nothing is opened. Returns
    /// why its events were not checked, if this machine does not list them.
    ///
    /// # Errors
    /// The script does not load, or declares an event or reads a field that is not there.
    fn check(&mut self, path: &str) -> Result<Option<String>> {
        bail!("{path}: monitors cannot be loaded here")
    }

    /// Returns the bundled monitors, and how they would begin here. A monitor that requires events
    /// as an argument counts as one that begins.
    fn bundled(&mut self) -> Vec<Bundled> {
        Vec::new()
    }

    /// Returns and clears the warnings, such as a script skipped because other users can write it.
    fn take_warnings(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// An event as `list` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventName {
    /// The name, `sched:sched_switch` or `cpu-cycles`.
    pub name: String,
    /// Other names of the event: `cycles`.
    pub aliases: Vec<String>,
    /// The category: `tracepoint`, `software`, `hardware`, `accounting`, `function`,
    /// `breakpoint`, `pmu`.
    pub category: &'static str,
    /// The reason why this machine cannot open it, if that is known.
    pub unavailable: Option<String>,
}
