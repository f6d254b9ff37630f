//! The loop of a run: opens the events that a script declared, delivers them to it, and shows its
//! results.
//!
//! `live` runs on the kernel, `replayed` on a recording. Both end in `show`, which draws reports
//! with their coverage.

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Instant;

use anyhow::anyhow;

use crate::base::report::draw::{Draw, OpenedEvent, Stamp};
use crate::output::colour;
use crate::output::file::{self, GrowingFile};
use crate::output::format::{OutputFormat, OutputParts};
use crate::output::messages::MessagesOutput;
use crate::output::screen::Screen;
use crate::output::text::TextOptions;
use crate::script::evsel::role::Role;
use crate::script::host::Host;
use crate::sys::clock::local_zone;
use crate::sys::streams::{self, stdout};
use crate::sys::terminal::{self, Terminal};
use request::{RunOptions, RunRequest};

mod banner;
mod budget;
pub mod catalog;
mod cgroups;
mod closing;
mod counted_tasks;
mod counters_only;
mod database;
mod exports;
pub mod expression;
mod files;
mod filters;
mod flames;
mod gaps;
mod heatmap;
mod kernel_counts;
mod live;
mod machine;
mod machine_changes;
mod metrics;
mod missing_symbols;
mod openings;
mod otlp;
mod pace;
mod prepare;
mod profiles;
mod recorded_counts;
mod recorded_frames;
mod recorded_tasks;
mod replayed;
pub mod request;
mod schedule;
mod scope;
pub mod serve;
pub mod session;
mod show;
pub mod start_at;
mod timeline;
mod upkeep;
mod workload;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As requested.
    Done,
    /// With script errors, each shown when it happened.
    ScriptErrors,
    /// As requested; the workload ended by itself, with this status.
    Workload(ExitStatus),
    /// The workload could not be executed, for this reason.
    NoWorkload(ErrorKind),
}

impl Outcome {
    /// Returns the outcome with the status of a workload that ended by itself.
    fn of_workload(self, ended: Option<ExitStatus>) -> Outcome {
        match (self, ended) {
            (Outcome::Done, Some(status)) => Outcome::Workload(status),
            (outcome, _) => outcome,
        }
    }
}

/// Runs the script that `host` has loaded until the run ends. `started` is when the process began.
///
/// # Errors
/// The run cannot begin: an event does not exist, a permission is missing, `init` failed.
pub fn run(host: Host, request: &RunRequest, started: Instant) -> anyhow::Result<Outcome> {
    let context = host.context().clone();
    let outcome = match &request.options.replay {
        Some(path) => replayed::run(host, request, path, started),
        None => live::run(host, request, started),
    };
    if outcome.is_err() {
        // Notes of `init` may say why the run cannot begin.
        for (_, text) in context.take_early_notes() {
            streams::print_message(&format!("note: {text}"));
        }
    }
    outcome
}

/// Opens the screen if the monitor has one and reports while it runs, the results are text, and no
/// other process writes to the terminal: a workload shares it, and so do commands that an unsafe
/// script starts.
fn screen(request: &RunRequest, pages: usize) -> Option<Screen> {
    let options = &request.options;
    let text = options.format == OutputFormat::Text;
    let elsewhere = !text || options.batch || options.output.is_some();
    let reports = request.interval_ns().is_some();
    let shared = !options.workload.is_empty() || options.allow_unsafe;
    if !request.monitor.screen || !reports || elsewhere || shared {
        return None;
    }
    let terminal = Terminal::open()?;
    Some(Screen::new(terminal, &request.monitor.name, text_options(options, pages)))
}

/// Returns the events of the roles, each once.
fn opened(roles: &[Role]) -> Vec<OpenedEvent> {
    let mut events: Vec<OpenedEvent> = Vec::new();
    for role in roles {
        if !events.iter().any(|event| event.name == role.event.name) {
            events.push(role.event.opened());
        }
    }
    events
}

/// Creates the output for the options. `start` is where a recording's time begins; `pages` is the
/// ring size that messages about lost events contain.
fn output(request: &RunRequest, start: Stamp, pages: usize) -> anyhow::Result<Box<dyn Draw>> {
    let options = &request.options;
    let results: Box<dyn std::io::Write> = match &options.output {
        Some(path) => Box::new(create(path)?),
        None => Box::new(stdout()),
    };
    options.format.create(OutputParts {
        results,
        messages: Box::new(streams::stderr()),
        monitor: &request.monitor.name,
        start,
        look: text_options(options, pages),
        parquet: options.parquet.as_ref(),
    })
}

/// Creates the output of a run that prints messages only.
fn messages(options: &RunOptions, pages: usize) -> Box<dyn Draw> {
    let look = text_options(options, pages);
    Box::new(MessagesOutput::new(Box::new(streams::stderr()), look))
}

fn text_options(options: &RunOptions, pages: usize) -> TextOptions {
    TextOptions {
        zone: local_zone(),
        colour: colours(options),
        quiet: options.quiet,
        stacks: options.stack_style.clone(),
        // Queried for each stack that is printed.
        columns: if is_on_terminal(options) { terminal::columns } else { || None },
        together: false,
        pages,
    }
}

/// Creates the file of `-o`, empty.
fn create(path: &Path) -> anyhow::Result<GrowingFile> {
    let folder = path.parent().filter(|folder| *folder != "").unwrap_or(Path::new("."));
    let (shown, folder_shown) = (path.display(), folder.display());
    let kind = |why: &anyhow::Error| why.root_cause().downcast_ref().map(std::io::Error::kind);
    file::open_growing(path).map_err(|why| match kind(&why) {
        Some(ErrorKind::NotFound) if !folder.is_dir() => anyhow!(
            "-o {shown}: there is no folder {folder_shown}; create it (mkdir -p {folder_shown}), \
             or name another file"
        ),
        Some(ErrorKind::NotADirectory) => {
            anyhow!("-o {shown}: {folder_shown} is not a folder; name a file in a folder")
        }
        _ if path.is_dir() => {
            anyhow!(
                "-o {shown}: it is a folder; name a file in it, such as {}",
                path.join("out.txt").display()
            )
        }
        Some(ErrorKind::PermissionDenied) => {
            anyhow!("-o {shown}: permission denied; name a file in a folder that you can write to")
        }
        _ => why.context("-o"),
    })
}

fn is_on_terminal(options: &RunOptions) -> bool {
    options.output.is_none() && streams::stdout_is_terminal()
}

fn colours(options: &RunOptions) -> crate::output::Colour {
    colour(options.color, is_on_terminal(options), std::env::var_os("NO_COLOR").as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_file_error_names_the_folder_and_the_fix() {
        let refused = |path: &str| create(Path::new(path)).unwrap_err().to_string();
        assert_eq!(
            refused("/no/such/folder/out.txt"),
            "-o /no/such/folder/out.txt: there is no folder /no/such/folder; create it \
             (mkdir -p /no/such/folder), or name another file"
        );
        assert_eq!(
            refused("/etc/hostname/out.txt"),
            "-o /etc/hostname/out.txt: /etc/hostname is not a folder; name a file in a folder"
        );
        assert_eq!(refused("/"), "-o /: it is a folder; name a file in it, such as /out.txt");
    }
}
