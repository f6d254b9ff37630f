//! The loop: opens what a script declared, carries events to it, and shows what it has to say.
//!
//! `live` runs on the kernel, `replayed` on a recording; both end in `show`, which draws reports with the
//! coverage that belongs to them.

use std::io::IsTerminal as _;
use std::time::Instant;

use anyhow::Context as _;

use crate::base::draw::{Draw, Stamp};
use crate::output::events::Events;
use crate::output::json::Json;
use crate::output::text::{Look, Text};
use crate::output::{ColourChoice, colour};
use crate::script::host::Host;
use request::{Color, HostOptions, RunRequest};

mod live;
mod pace;
mod replayed;
pub mod request;
mod show;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As asked.
    Done,
    /// With errors of the script, each shown when it happened.
    ScriptErrors,
    /// The workload could not be executed.
    NoWorkload,
}

/// Runs the script that `host` has loaded until it ends. `started` is when the process began.
///
/// # Errors
/// What keeps the run from beginning: an event that is not there, a permission, an error in `init`.
pub fn run(host: Host, request: &RunRequest, started: Instant) -> anyhow::Result<Outcome> {
    match &request.host.replay {
        Some(path) => replayed::run(host, request, path, started),
        None => live::run(host, request, started),
    }
}

/// The output that was asked for. `start` is where a recording's time begins; `pages` is named when events are lost.
fn output(request: &RunRequest, start: Stamp, pages: usize) -> anyhow::Result<Box<dyn Draw>> {
    let options = &request.host;
    let results: Box<dyn std::io::Write> = match &options.output {
        Some(path) => Box::new(
            std::fs::File::create(path)
                .with_context(|| format!("failed to create `{}`", path.display()))?,
        ),
        None => Box::new(std::io::stdout()),
    };
    if options.json {
        return Ok(Box::new(Json::new(results, &request.monitor.name)));
    }
    if options.events {
        return Ok(Box::new(Events::new(results, start)));
    }
    let look = Look {
        zone: jiff::tz::TimeZone::system(),
        colour: colours(options),
        quiet: options.quiet,
        pages,
    };
    Ok(Box::new(Text::new(results, Box::new(std::io::stderr()), look)))
}

fn colours(options: &HostOptions) -> crate::output::Colour {
    let choice = match options.color {
        Color::Auto => ColourChoice::Auto,
        Color::Always => ColourChoice::Always,
        Color::Never => ColourChoice::Never,
    };
    let is_terminal = options.output.is_none() && std::io::stdout().is_terminal();
    colour(choice, is_terminal, std::env::var_os("NO_COLOR").as_deref())
}
