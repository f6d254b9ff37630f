//! `doctor [--json]`: checks what runs can do on this machine, one line per check, with advice on
//! problems.
//!
//! Each check is a function of [`machine::MachineFacts`], in `checks::ALL`. The exit code is 1 if
//! something is missing that every monitor needs, else 0: a virtual machine without hardware
//! counters is not a failure. With `--json`, one object per check: `type` (`check`), `check`,
//! `state` (`ok limited missing`), `found`, `advice` (or null), `list`. Like the objects of `list`,
//! they do not belong to a run, and have neither time nor monitor.

mod checks;
mod machine;

use std::io::{self, Write};

use serde_json::json;

use crate::base::text::{escape, message};
pub use machine::MachineFacts;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckState {
    /// As runs need it.
    Ok,
    /// Some functions of perilune do not work, or not as well.
    Limited,
    /// Not available.
    Missing,
}

impl CheckState {
    fn word(self) -> &'static str {
        match self {
            CheckState::Ok => "ok",
            CheckState::Limited => "limited",
            CheckState::Missing => "missing",
        }
    }
}

/// A finished check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    /// The thing that was checked.
    name: &'static str,
    state: CheckState,
    /// Every monitor needs it.
    needed: bool,
    found: String,
    /// The advice; `None` if nothing has to be done.
    advice: Option<String>,
    /// The affected items, one per line.
    list: Vec<String>,
}

impl Check {
    fn new(name: &'static str, state: CheckState, found: impl Into<String>) -> Check {
        let found = found.into();
        Check { name, state, needed: false, found, advice: None, list: Vec::new() }
    }

    fn needed(self) -> Check {
        Check { needed: true, ..self }
    }

    fn advice(self, advice: impl Into<String>) -> Check {
        Check { advice: Some(advice.into()), ..self }
    }
}

/// Writes every check. Returns the exit code.
///
/// # Errors
/// The output cannot be written.
pub fn write(machine: &MachineFacts, json: bool, out: &mut dyn Write) -> io::Result<u8> {
    let checks: Vec<Check> = checks::ALL.iter().map(|check| check(machine)).collect();
    let failed = checks.iter().any(|check| check.needed && check.state == CheckState::Missing);
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for check in &checks {
        let Check { name, state, found, advice, list, .. } = check;
        let state = state.word();
        if json {
            let object = json!({
                "type": "check", "check": name, "state": state, "found": found, "advice": advice,
                "list": list,
            });
            writeln!(out, "{}", message::json(&object.to_string()))?;
            continue;
        }
        let advice = advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
        let mut line = format!("{name:width$}  {state:7}  ").into_bytes();
        escape::push_shown(&mut line, format!("{found}{advice}").as_bytes());
        line.push(b'\n');
        out.write_all(&line)?;
        for item in list {
            let mut line = vec![b' '; width + 11];
            escape::push_shown(&mut line, item.as_bytes());
            line.push(b'\n');
            out.write_all(&line)?;
        }
    }
    Ok(u8::from(failed))
}

#[cfg(test)]
mod tests;
