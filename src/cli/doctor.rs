//! `doctor [--json]`: what this machine lets a run do, a line for each thing, and what to do about the rest.
//!
//! Each check is a function of what was seen ([`Machine`]) in `checks::ALL`. Exit code 1 if something is missing that
//! every monitor needs, else 0: a virtual machine without counters is no failure. With `--json` one object a
//! check: `type` (`check`), `check`, `state` (`ok limited missing`), `found`, `advice` (or null), `list`. Like those of
//! `list` they belong to no run, and carry neither time nor monitor.

mod checks;
mod machine;

use std::io::{self, Write};

use serde_json::json;

use crate::base::text::{escape, message};
pub use machine::Machine;

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// As a run wants it.
    Ok,
    /// Some of what perilune does will not work, or not as well.
    Limited,
    /// It is not there.
    Missing,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Limited => "limited",
            State::Missing => "missing",
        }
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    /// What was looked at.
    name: &'static str,
    state: State,
    /// Every monitor needs it.
    needed: bool,
    found: String,
    /// What to do; None where nothing has to be done.
    advice: Option<String>,
    /// What it concerns, one a line.
    list: Vec<String>,
}

impl Check {
    fn new(name: &'static str, state: State, found: impl Into<String>) -> Check {
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

/// Writes every check; gives the exit code.
pub fn write(machine: &Machine, json: bool, out: &mut dyn Write) -> io::Result<u8> {
    let checks: Vec<Check> = checks::ALL.iter().map(|check| check(machine)).collect();
    let failed = checks.iter().any(|check| check.needed && check.state == State::Missing);
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
