//! `list [-v] [--json] [GLOB]`: the events that this machine has; with `-v`, what their records hold. `kprobe:GLOB` and
//! `uprobe:FILE:GLOB` list functions.
//!
//! With `--json` one object an event: `type` (`event`), `event`, `aliases`, `sort`; with `-v` those of
//! [`describe`].

use std::io::{self, Write};
use std::rc::Rc;

use serde_json::json;

use super::{
    Failed, begin, describe,
    run::{EventName, Runtime},
};
use crate::base::text::message;
use crate::base::{
    glob,
    nearest::{did_you_mean, nearest},
};
use crate::event::catalog::Event;
use crate::event::function::Named;
use crate::script::option::{Attr, Attrs};

/// How to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way {
    /// `-v`: what the records hold, too.
    pub verbose: bool,
    /// `--json`.
    pub json: bool,
}

/// Writes a line for each event whose name or alias matches `pattern`, or holds it if it is a plain word.
pub fn write(
    pattern: Option<&str>,
    way: Way,
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, Failed> {
    if way.verbose && pattern.is_none() {
        let why = "list: -v needs an event, or a glob: perilune list -v 'sched:*'";
        return Err(Failed::Usage(why.to_owned()));
    }
    if let Some(named) = pattern.and_then(Named::parse) {
        return functions(&named, way, runtime, out);
    }
    let events = runtime.events()?;
    let wanted = pattern.unwrap_or("*");
    let exact = |event: &&EventName| names(event).any(|name| name == wanted);
    let matching: Vec<&EventName> = match events.iter().find(exact) {
        // A name that begins others' means itself where much would be printed of each.
        Some(event) if way.verbose => vec![event],
        _ => events.iter().filter(|e| names(e).any(|name| is_wanted(wanted, name))).collect(),
    };
    if matching.is_empty() {
        return Err(Failed::Running(anyhow::anyhow!(
            "no event matches '{wanted}'{}",
            hint(wanted, &events)
        )));
    }
    if way.verbose {
        return describe_all(&matching, way, runtime, out);
    }
    Ok(write_names(&matching, way, out)?)
}

/// The functions whose names match, or hold a plain word; of a FILE alone, or `kprobe:`, all of them.
fn functions(
    named: &Named,
    way: Way,
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, Failed> {
    if named.file.as_deref() == Some("") {
        let usage = named.kind.usage();
        return Err(Failed::Usage(format!("list: a FILE is missing: perilune list '{usage}'")));
    }
    let catalog = runtime.catalog(None)?;
    let word = &named.function;
    let glob = if glob::is_glob(word) { word.clone() } else { format!("*{word}*") };
    let found = catalog.functions(&named.with(&glob), usize::MAX)?;
    let event =
        |one: &Named| EventName { name: one.to_string(), aliases: Vec::new(), sort: "function" };
    let matching: Vec<EventName> = match found.iter().find(|one| one.function == *word) {
        Some(one) if way.verbose => vec![event(one)],
        _ => found.iter().map(event).collect(),
    };
    if matching.is_empty() {
        // What there is to say of a name that is none, whoever looks for it has to say.
        let described = catalog.describe(&named.to_string()).map(drop);
        let none = || anyhow::anyhow!("no function matches '{named}'");
        return Err(Failed::Running(
            described.err().filter(|_| glob != *word).unwrap_or_else(none),
        ));
    }
    let matching: Vec<&EventName> = matching.iter().collect();
    match way.verbose {
        true => describe_all(&matching, way, runtime, out),
        false => Ok(write_names(&matching, way, out)?),
    }
}

fn write_names(matching: &[&EventName], way: Way, out: &mut dyn Write) -> io::Result<u8> {
    let width = matching.iter().map(|event| shown(event).len()).max().unwrap_or(0);
    for event in matching {
        let EventName { name, aliases, sort } = event;
        if way.json {
            let object =
                json!({ "type": "event", "event": name, "aliases": aliases, "sort": sort });
            writeln!(out, "{}", message::json(&object.to_string()))?;
        } else {
            writeln!(out, "{:width$}  {sort}", shown(event))?;
        }
    }
    Ok(0)
}

fn describe_all(
    matching: &[&EventName],
    way: Way,
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, Failed> {
    let most = if way.json { matching.len() } else { describe::EVENTS };
    let catalog = runtime.catalog(None)?;
    let events: Vec<Rc<Event>> = matching
        .iter()
        .take(most)
        .map(|event| catalog.describe(&event.name))
        .collect::<anyhow::Result<_>>()?;
    let commands = match &events[..] {
        [event] => commands(event),
        _ => Vec::new(),
    };
    let borrowed: Vec<&Event> = events.iter().map(|event| &**event).collect();
    describe::write(&borrowed, &commands, way.json, out)?;
    if let Some(more @ 1..) = matching.len().checked_sub(most) {
        writeln!(out, "and {more} more match; narrow the glob, or take --json, which has all")?;
    }
    Ok(0)
}

/// What to begin with: the event printed, and counted.
fn commands(event: &Rc<Event>) -> Vec<String> {
    let attrs = ["key", "comm", "top-by"].map(|name| (name.to_owned(), Attr::Expr));
    let counted = begin::selectors(std::slice::from_ref(event), &Attrs::from(attrs));
    vec![
        format!("perilune trace -e {}", begin::quoted(&event.name)),
        format!("perilune top -e {}", begin::quoted(&counted)),
    ]
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
