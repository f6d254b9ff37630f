//! `list [GLOB]`: the events that this machine has.

use std::io::Write;

use super::{
    Failed,
    run::{EventName, Runtime},
};
use crate::base::{
    glob,
    nearest::{did_you_mean, nearest},
};

/// Writes a line for each event whose name or alias matches `pattern`, or holds it if it is a plain word.
pub fn write(
    pattern: Option<&str>,
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, Failed> {
    let events = runtime.events()?;
    let wanted = pattern.unwrap_or("*");
    let matching: Vec<(String, &str)> = events
        .iter()
        .filter(|event| names(event).any(|name| is_wanted(wanted, name)))
        .map(|event| (shown(event), event.sort))
        .collect();
    if matching.is_empty() {
        return Err(Failed::Running(anyhow::anyhow!(
            "no event matches '{wanted}'{}",
            hint(wanted, &events)
        )));
    }
    let width = matching.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, sort) in matching {
        writeln!(out, "{name:width$}  {sort}")?;
    }
    Ok(0)
}

fn names(event: &EventName) -> impl Iterator<Item = &str> {
    std::iter::once(event.name.as_str()).chain(event.aliases.iter().map(String::as_str))
}

fn is_wanted(pattern: &str, name: &str) -> bool {
    if glob::is_glob(pattern) {
        glob::matches(pattern.as_bytes(), name.as_bytes())
    } else {
        name.contains(pattern)
    }
}

fn shown(event: &EventName) -> String {
    names(event).collect::<Vec<_>>().join(" OR ")
}

/// The nearest names; of a glob over a system's events, the nearest systems.
fn hint(pattern: &str, events: &[EventName]) -> String {
    let all = events.iter().flat_map(names);
    let near: Vec<String> = match pattern.split_once(':') {
        Some((system, rest)) if glob::is_glob(rest) => {
            let systems = all.filter_map(|name| Some(name.split_once(':')?.0));
            nearest(system, systems).iter().map(|near| format!("{near}:{rest}")).collect()
        }
        _ => nearest(pattern, all).iter().map(|near| (*near).to_owned()).collect(),
    };
    let near: Vec<&str> = near.iter().map(String::as_str).collect();
    match near.is_empty() {
        true => " (perilune list shows all)".to_owned(),
        false => did_you_mean(&near),
    }
}
