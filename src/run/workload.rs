//! The command that a run starts: forked first, told when it outlives the run, and named where nothing else may be watched.

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::anyhow;

use super::request::{HostOptions, RunRequest};
use crate::base::draw::Level;
use crate::event::catalog::What;
use crate::script::evsel::Role;
use crate::script::leaf::Shared;
use crate::source::attr::OWNER;
use crate::sys::child::Workload;
use crate::sys::machine::paranoid;
use crate::sys::refusal::{Call, FUNCTIONS_ARE_FOR, Refusal};
use crate::sys::signal;

/// The most restrictive `perf_event_paranoid` of the kernel itself, which lets users watch what is their own in user mode;
/// distributions have added 3 and 4, which do not.
const OWN_ALLOWED: i64 = 2;

/// So long a command that Ctrl-C has reached as well may take to end by itself.
const GRACE: Duration = Duration::from_millis(50);

/// Forks the command, if there is one.
///
/// # Errors
/// No process is to be had.
pub(super) fn prepare(settings: &HostOptions) -> anyhow::Result<Option<Workload>> {
    if settings.workload.is_empty() {
        return Ok(None);
    }
    // Forked before anything else: no thread, no ring and no Lua is copied into it.
    let prepared = Workload::prepare(&settings.workload).map_err(|why| match why.raw_os_error() {
        Some(errno) => {
            let command = settings.workload.first().map(|word| word.to_string_lossy());
            Refusal::new(&command.unwrap_or_default(), Call::Start, errno).into()
        }
        None => anyhow!(why),
    });
    prepared.map(Some)
}

/// Why the command was not started; and what was meant, if the number of a process stands in its place.
pub(super) fn not_started(why: &io::Error, command: &[OsString]) -> String {
    let word = command.first().and_then(|word| word.to_str());
    match word.filter(|word| word.parse::<u32>().is_ok()) {
        Some(pid) if why.kind() == io::ErrorKind::NotFound => {
            format!("{why}; -p {pid} watches the process of that number")
        }
        _ => why.to_string(),
    }
}

/// Asks a command that outlives the run to end, as perf does: it was started to be watched, and a terminal that shows its prompt
/// again should not have it running behind. Gives how one ended that did so by itself: not by Ctrl-C, which ends both.
pub(super) fn end(workload: Option<&mut Workload>, shared: &Shared) -> Option<ExitStatus> {
    let workload = workload?;
    if let Ok(Some(status)) = workload.try_wait() {
        return (signal::interrupts() == 0).then_some(status);
    }
    let mut runs = || matches!(workload.try_wait(), Ok(None));
    if runs() && signal::interrupts() > 0 {
        // A terminal sends Ctrl-C to both.
        std::thread::sleep(GRACE);
    }
    if runs() && workload.terminate().is_ok() {
        let pid = workload.pid();
        let text =
            format!("the command (pid {pid}) was still running and was asked to end (SIGTERM)");
        shared.with(|context| context.note(Level::Info, &text));
    }
    None
}

/// A refusal in the words of what was asked for: what owns the rings is our own affair.
pub(super) fn refusal(why: anyhow::Error, request: &RunRequest, roles: &[Role]) -> anyhow::Error {
    let refusal = match why.downcast::<Refusal>() {
        Ok(refusal) if refusal.what == OWNER => refusal,
        Ok(refusal) => return refusal.into(),
        Err(why) => return why,
    };
    let way_out = format!("a command of your own: perilune {} -- COMMAND", request.called);
    let may = request.host.workload.is_empty();
    refused(&refusal, roles, if may { &way_out } else { "" })
}

/// The refusal of what owns the rings, for who wanted these roles. Counters of what is one's own take no privilege: `own` says
/// how it is watched.
pub(super) fn refused(refusal: &Refusal, roles: &[Role], own: &str) -> anyhow::Error {
    let counted = roles.iter().all(|role| matches!(role.event.what, What::Counter(_)));
    let allowed = paranoid().is_none_or(|level| level <= OWN_ALLOWED);
    let instead = match refusal.is_permission() && counted && allowed && !own.is_empty() {
        true => format!(", or watch {own}"),
        false => String::new(),
    };
    let what = roles.first().map_or("events", |role| role.event.name.as_str());
    if let Some(function) = roles.iter().find(|role| role.event.function().is_some())
        && refusal.is_permission()
    {
        // No perf_event_paranoid would help.
        let name = &function.event.name;
        return anyhow!("{name}: {FUNCTIONS_ARE_FOR}");
    }
    anyhow!("{what}: {}{instead}", refusal.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_the_place_of_a_command_is_taken_for_a_process() {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        let hint =
            |word: &str| not_started(&missing, &[word.into()]).replace(&missing.to_string(), "");
        assert_eq!(hint("1234"), "; -p 1234 watches the process of that number");
        assert_eq!(hint("nginx"), "");
    }
}
