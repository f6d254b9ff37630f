//! Why a call into Lua gave nothing: the script failed, or the guard ended it.

use std::fmt;
use std::time::Duration;

use super::Phase;
use crate::script::fault::ScriptError;

/// Why a call into Lua gave nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The guard ended it.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The script failed.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

/// A call that the guard ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// What ended it.
    pub reason: Reason,
    /// What was running.
    pub phase: Phase,
    /// `file.lua:31`, the script's innermost line then.
    pub place: Option<String>,
}

/// What made the guard end a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Ctrl-C, or another signal that asks to end.
    Interrupt,
    /// More CPU time than this.
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
