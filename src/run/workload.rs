//! The command that a run starts: forked first, ended if it outlives the run, and suggested when
//! nothing else may be watched.

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};

use super::Outcome;
use super::files::Files;
use super::request::{RunOptions, RunRequest};
use super::show::Show;
use crate::base::report::draw::Level;
use crate::script::context::shared::SharedContext;
use crate::script::evsel::role::Role;
use crate::script::host::Host;
use crate::source::open::attr::OWNER;
use crate::source::request::SourceRequest;
use crate::sys::child::{HeldUntil, Loaded, Workload};
use crate::sys::machine::paranoid;
use crate::sys::refusal::{FUNCTIONS_NEED_ROOT, Refusal, RefusedCall};
use crate::sys::signal;
use crate::sys::streams;

/// The most restrictive `perf_event_paranoid` of the mainline kernel, which lets users watch their
/// own tasks in user mode; distributions have added 3 and 4, which do not.
const OWN_ALLOWED: i64 = 2;

/// Time for a command to end by itself if Ctrl-C has reached it as well.
const GRACE: Duration = Duration::from_millis(50);

/// Time after which a note says that a command has not executed its program yet.
const WAIT_NOTED: Duration = Duration::from_secs(2);

/// Forks the command, if there is one.
///
/// # Errors
/// No process can be created.
pub(super) fn prepare(settings: &RunOptions) -> anyhow::Result<Option<Workload>> {
    if settings.workload.is_empty() {
        return Ok(None);
    }
    // Fork before anything else, so that no thread, ring or Lua state is copied into the child.
    let prepared = Workload::prepare(&settings.workload).map_err(|why| match why.raw_os_error() {
        Some(errno) => {
            let command = settings.workload.first().map(|word| word.to_string_lossy());
            Refusal::new(&command.unwrap_or_default(), RefusedCall::Start, errno).into()
        }
        None => anyhow!(why),
    });
    prepared.map(Some)
}

/// Executes the command and stops it before its first instruction, or as soon as it has mapped the
/// files of all events that need its memory; their addresses are known then. Does nothing if no
/// event does. Waits as long as the command runs, at most `--duration`.
///
/// # Errors
/// The command cannot be executed (an [`io::Error`]), or it ended, or the wait ended, before it had
/// mapped a file.
pub(super) fn load(
    workload: Option<&mut Workload>,
    roles: &[Role],
    source: &mut SourceRequest,
    settings: &RunOptions,
    shared: &SharedContext,
) -> anyhow::Result<()> {
    let waits = |role: &&Role| role.event.kind().awaits_program();
    let (Some(workload), true) = (workload, source.workload) else { return Ok(()) };
    if !roles.iter().any(|role| waits(&role)) {
        return Ok(());
    }
    // Ctrl-C ends the wait.
    signal::install()?;
    let pid = workload.pid();
    let missing = || {
        let mut waiting = roles.iter().filter(waits);
        waiting.find_map(|role| role.event.kind().attr_fields_for_task(pid).err().map(|_| role))
    };
    let event = || missing().map_or("an event", |role| &role.event.name);
    let (began, mut noted) = (Instant::now(), false);
    let limit = settings.duration_ns.map(Duration::from_nanos);
    let mut waits_on = || {
        if !noted && began.elapsed() > WAIT_NOTED {
            noted = true;
            let text = "waiting until the command executes the program, or maps the library";
            streams::print_message(&format!("note: {}: {text}", event()));
        }
        signal::interrupts() == 0 && limit.is_none_or(|limit| began.elapsed() < limit)
    };
    let loaded = workload.load(&mut HeldUntil {
        is_ready: &mut || missing().is_none(),
        waits_on: &mut waits_on,
        maps_later: roles.iter().any(|role| role.event.kind().awaits_library()),
    })?;
    for program in workload.unprivileged() {
        let text = format!(
            "{}: it runs without the privileges of its owner (set-user-ID), because perilune has \
             to trace it; run perilune as root, or start the program and use -p",
            program.display()
        );
        shared.note(Level::Warning, &text);
    }
    let what = match loaded {
        Loaded::Ready => {
            // Events are enabled while the command is stopped: there is no exec to come.
            source.workload = false;
            return Ok(());
        }
        Loaded::Ended => "the command ended and its process has not mapped this file",
        Loaded::GivenUp => {
            "the run ended before the command had mapped this file; perilune sent it SIGTERM"
        }
    };
    bail!(
        "{}: {what}; name the program that the command executes, or a library that it is linked \
         with",
        event()
    )
}

/// Returns the outcome of a command that [`load`] could not execute, and prints the reason: there
/// is not yet an output.
///
/// # Errors
/// It was executed.
pub(super) fn not_loaded(why: anyhow::Error, settings: &RunOptions) -> anyhow::Result<Outcome> {
    let why = why.downcast::<io::Error>()?;
    streams::print_message(&not_started(&why, &settings.workload));
    Ok(Outcome::NoWorkload(why.kind()))
}

/// Prints that the command was not started, and returns the outcome.
///
/// # Errors
/// The output cannot be written.
pub(super) fn fail(host: &Host, why: &io::Error, settings: &RunOptions) -> anyhow::Result<Outcome> {
    let show = Show::new(host.context().clone(), None, Files::NONE);
    show.fail(&not_started(why, &settings.workload))?;
    Ok(Outcome::NoWorkload(why.kind()))
}

/// Returns why the command was not started, with a hint if the command is the number of a process.
fn not_started(why: &io::Error, command: &[OsString]) -> String {
    let word = command.first().and_then(|word| word.to_str());
    match word.filter(|word| word.parse::<u32>().is_ok()) {
        Some(pid) if why.kind() == io::ErrorKind::NotFound => {
            format!("{why}; to watch process {pid}, use -p {pid}")
        }
        _ => why.to_string(),
    }
}

/// Returns the status of a command that has ended by itself, not by Ctrl-C, which ends both.
pub(super) fn ended(workload: Option<&mut Workload>) -> Option<ExitStatus> {
    let status = workload?.try_wait().ok()??;
    (signal::interrupts() == 0).then_some(status)
}

/// Asks a command that outlives the run to end, as perf does: it should not keep running behind the
/// prompt of the shell.
pub(super) fn end(workload: Option<&mut Workload>, shared: &SharedContext) {
    let Some(workload) = workload else { return };
    let mut runs = || matches!(workload.try_wait(), Ok(None));
    if runs() && signal::interrupts() > 0 {
        // A terminal sends Ctrl-C to both processes.
        std::thread::sleep(GRACE);
    }
    if runs() && workload.terminate().is_ok() {
        let pid = workload.pid();
        let text = format!("the command (pid {pid}) was still running; perilune sent SIGTERM");
        shared.note(Level::Info, &text);
    }
}

/// Rewrites a refusal of the event that owns the rings, which is internal, in terms of the
/// requested events.
pub(super) fn refusal(why: anyhow::Error, request: &RunRequest, roles: &[Role]) -> anyhow::Error {
    let refusal = match why.downcast::<Refusal>() {
        Ok(refusal) if refusal.what == OWNER => refusal,
        Ok(refusal) => return refusal.into(),
        Err(why) => return why,
    };
    let alternative = format!("your own command: perilune {} -- COMMAND", request.called);
    let may = request.options.workload.is_empty() && !request.monitor.whole_cpus;
    refused(&refusal, roles, if may { &alternative } else { "" })
}

/// Returns the refusal of the event that owns the rings, for the user of these roles. Counters of
/// the user's own processes need no privilege; `own` is how these can be watched.
pub(super) fn refused(refusal: &Refusal, roles: &[Role], own: &str) -> anyhow::Error {
    let counted = roles.iter().all(|role| !role.event.kind().is_tracing());
    let allowed = paranoid().is_none_or(|level| level <= OWN_ALLOWED);
    let instead = match refusal.is_permission() && counted && allowed && !own.is_empty() {
        true => format!(", or watch {own}"),
        false => String::new(),
    };
    let what = roles.first().map_or("events", |role| role.event.name.as_str());
    if let Some(function) = roles.iter().find(|role| role.event.kind().is_probe())
        && refusal.is_permission()
    {
        // No setting of perf_event_paranoid would help.
        let name = &function.event.name;
        return anyhow!("{name}: {FUNCTIONS_NEED_ROOT}");
    }
    anyhow!("{what}: {}{instead}", refusal.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_as_the_command_suggests_the_option_p() {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        let hint =
            |word: &str| not_started(&missing, &[word.into()]).replace(&missing.to_string(), "");
        assert_eq!(hint("1234"), "; to watch process 1234, use -p 1234");
        assert_eq!(hint("nginx"), "");
    }
}
