//! Errors of a call into Lua: the script failed, or the guard stopped it.

use std::fmt;
use std::time::Duration;

use super::phase::Phase;
use crate::script::vm::script_error::ScriptError;

/// Why a call into Lua did not return a result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The guard stopped it.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The script failed.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

/// A call that the guard stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Why it was stopped.
    pub reason: Reason,
    /// The phase that was running.
    pub phase: Phase,
    /// The innermost line of the script at that time: `file.lua:31`.
    pub place: Option<String>,
}

/// Why the guard stopped a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Ctrl-C, or another termination signal.
    Interrupt,
    /// It used more CPU time than this limit.
    CpuTime(Duration),
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        let (what, one) = match self.phase {
            Phase::Handler => ("handler", "on one batch"),
            Phase::Load => ("script", "while it was loaded"),
            Phase::Report => ("report", "on one report"),
            Phase::Line => ("line", ""),
        };
        match self.reason {
            Reason::Interrupt => write!(f, "{what} stopped by Ctrl-C"),
            Reason::CpuTime(limit) => {
                write!(f, "{what} stopped: it ran for over {} s of CPU {one}", limit.as_secs_f64())
            }
        }
    }
}

impl std::error::Error for Stopped {}
