//! `list [-v] [--json] [GLOB]`: the events of this machine; with `-v`, the fields of their records.
//! `kprobe:GLOB` and `uprobe:FILE:GLOB` list functions, `usdt:FILE:GLOB` USDT probes, and
//! `mem:GLOB` and `mem:FILE:GLOB` symbols. A category lists its events: `software`, or `sw` as in
//! perf.
//!
//! With `--json`, one object per event: `type` (`event`), `event`, `aliases`, `category`, and
//! `unavailable`, the reason, if this machine cannot open it; with `-v`, the objects of
//! [`describe`].

use std::io::{self, Write};
use std::rc::Rc;

use serde_json::json;

use super::{
    CommandError, describe,
    runtime::{EventName, Runtime},
    suggest,
};
use crate::base::text::message;
use crate::base::{
    matching::glob,
    matching::nearest::{did_you_mean, nearest},
};
use crate::event::kind::function::{CodeLocation, FunctionName};
use crate::event::kind::{self, Event, FoundNames};
use crate::event::other_tools;
use crate::script::option::{AttrKind, Attrs};

/// Maximum width of the column of names.
const WIDTH_MAX: usize = 100;

/// Output options of the list.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListOptions {
    /// `-v`: include the fields of the records.
    pub verbose: bool,
    /// `--json`.
    pub json: bool,
}

/// Writes a line for each event whose name or alias matches `pattern`, or contains it if it is not
/// a glob.
///
/// # Errors
/// No event matches, `-v` lacks a pattern, or the events cannot be read.
pub fn write(
    pattern: Option<&str>,
    options: ListOptions,
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    if options.verbose && pattern.is_none() {
        let why = "list: -v needs an event, or a glob: perilune list -v 'sched:*'";
        return Err(CommandError::Usage(why.to_owned()));
    }
    if let Some(named) = pattern.and_then(FunctionName::parse) {
        return functions(&named, options, runtime, out);
    }
    if let Some(pattern) = pattern.filter(|pattern| kind::prefix_of(pattern).is_some()) {
        return looked_up(pattern, options, runtime, out);
    }
    let events = runtime.events()?;
    let wanted = pattern.unwrap_or("*");
    let category = match wanted {
        "hw" => "hardware",
        "sw" => "software",
        other => other,
    };
    let is_category = events.iter().any(|event| event.category == category);
    let exact = |event: &&EventName| names(event).any(|name| name == wanted);
    let matching: Vec<&EventName> = match events.iter().find(exact) {
        // With -v, an exact name selects only itself, since each event prints much.
        Some(event) if options.verbose => vec![event],
        _ if is_category => events.iter().filter(|event| event.category == category).collect(),
        _ => events
            .iter()
            .filter(|e| names(e).any(|name| glob::matches_or_contains(wanted, name)))
            .collect(),
    };
    if matching.is_empty() {
        return Err(CommandError::Running(anyhow::anyhow!(
            "no event matches '{wanted}'{}",
            hint(wanted, &events)
        )));
    }
    if options.verbose {
        return describe_all(&matching, options, runtime, out);
    }
    Ok(write_names(&matching, options, out)?)
}

/// Lists the functions whose names match, or contain a plain text; all functions of a FILE, or of
/// the kernel, if no name is given.
fn functions(
    named: &FunctionName,
    options: ListOptions,
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    if let Some(file) = named.file.as_deref().filter(|file| file.is_empty() || *file == "*") {
        let usage = named.kind.usage();
        let what = if file.is_empty() { "a FILE is missing" } else { "FILE is not a glob" };
        return Err(CommandError::Usage(format!("list: {what}: perilune list '{usage}'")));
    }
    let catalog = runtime.catalog(None)?;
    let word = &named.function;
    let glob = if glob::is_glob(word) { word.clone() } else { format!("*{word}*") };
    let found = match named.location() {
        CodeLocation::Address(_) => Vec::new(),
        CodeLocation::Function(..) => catalog.functions(&named.with(&glob), usize::MAX)?,
    };
    let event = |one: &FunctionName| EventName {
        name: one.to_string(),
        aliases: Vec::new(),
        category: one.kind.label(),
        unavailable: None,
    };
    let mut matching: Vec<EventName> = match found.iter().find(|one| one.function == *word) {
        Some(one) if options.verbose => vec![event(one)],
        _ => found.iter().map(event).collect(),
    };
    if matching.is_empty() && glob != *word {
        // Explains why the name has no match, or finds the instruction FUNCTION+OFFSET.
        catalog.describe(&named.to_string()).map_err(CommandError::Running)?;
        matching.push(event(named));
    }
    if matching.is_empty() {
        let why = anyhow::anyhow!("no {} matches '{named}'", named.kind.noun());
        return Err(CommandError::Running(why));
    }
    let matching: Vec<&EventName> = matching.iter().collect();
    match options.verbose {
        true => describe_all(&matching, options, runtime, out),
        false => Ok(write_names(&matching, options, out)?),
    }
}

/// Lists the names of another kind that is looked up. With -v, an exact name selects only itself.
fn looked_up(
    pattern: &str,
    options: ListOptions,
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let catalog = runtime.catalog(None)?;
    let found = catalog.look_up(pattern, usize::MAX)?.filter(|found| !found.names.is_empty());
    let Some(FoundNames { category, mut names }) = found else {
        let described = catalog.describe(pattern).map(drop);
        let none = || anyhow::anyhow!("no event matches '{pattern}'");
        let why = described.err().filter(|_| !glob::is_glob(pattern)).unwrap_or_else(none);
        return Err(CommandError::Running(why));
    };
    if options.verbose && names.iter().any(|name| name == pattern) {
        names = vec![pattern.to_owned()];
    }
    let event = |name: String| EventName { name, aliases: Vec::new(), category, unavailable: None };
    let events: Vec<EventName> = names.into_iter().map(event).collect();
    let events: Vec<&EventName> = events.iter().collect();
    match options.verbose {
        true => describe_all(&events, options, runtime, out),
        false => Ok(write_names(&events, options, out)?),
    }
}

fn write_names(
    matching: &[&EventName],
    options: ListOptions,
    out: &mut dyn Write,
) -> io::Result<u8> {
    let width = matching.iter().map(|event| shown(event).len()).max().unwrap_or(0).min(WIDTH_MAX);
    for event in matching {
        let EventName { name, aliases, category, unavailable } = event;
        if options.json {
            let mut object =
                json!({ "type": "event", "event": name, "aliases": aliases, "category": category });
            if let Some(why) = unavailable {
                object["unavailable"] = json!(why);
            }
            writeln!(out, "{}", message::json(&object.to_string()))?;
        } else {
            let why =
                unavailable.as_ref().map_or(String::new(), |why| format!("  unavailable: {why}"));
            writeln!(out, "{:width$}  {category}{why}", shown(event))?;
        }
    }
    Ok(0)
}

fn describe_all(
    matching: &[&EventName],
    options: ListOptions,
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let most = if options.json { matching.len() } else { describe::EVENTS };
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
    describe::write(&borrowed, &commands, options.json, out)?;
    if let Some(more @ 1..) = matching.len().checked_sub(most) {
        writeln!(out, "and {more} more match; narrow the glob, or use --json to print all")?;
    }
    Ok(0)
}

/// Returns commands to start from: one prints the event, one counts it; only the latter if it
/// cannot be sampled.
fn commands(event: &Rc<Event>) -> Vec<String> {
    if event.kind().only_counts() {
        return vec![format!("perilune stat -e {}", suggest::quoted(&event.name))];
    }
    if event.kind().is_derived() {
        let related = format!("{}//untraced/", event.name);
        return vec![
            format!("perilune trace -e {}", suggest::quoted(&event.name)),
            format!(
                "perilune multi-trace -e A -e B,{} --than 1ms --detail",
                suggest::quoted(&related)
            ),
        ];
    }
    let attrs = ["key", "comm", "top-by"].map(|name| (name.to_owned(), AttrKind::Expr));
    let counted = suggest::selectors(std::slice::from_ref(event), &Attrs::from(attrs));
    vec![
        format!("perilune trace -e {}", suggest::quoted(&event.name)),
        format!("perilune top -e {}", suggest::quoted(&counted)),
    ]
}

fn names(event: &EventName) -> impl Iterator<Item = &str> {
    std::iter::once(event.name.as_str()).chain(event.aliases.iter().map(String::as_str))
}

fn shown(event: &EventName) -> String {
    names(event).collect::<Vec<_>>().join(" OR ")
}

/// Returns a hint with the replacement of another tool's prefix, or the nearest names; for a glob
/// over a system's events, the nearest systems.
fn hint(pattern: &str, events: &[EventName]) -> String {
    let of_other_tool = other_tools::event_hint(pattern);
    if !of_other_tool.is_empty() {
        return of_other_tool;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::kind::{EventFiles, parse};

    #[test]
    fn an_event_without_samples_is_suggested_for_stat_only() {
        let suggested =
            |name: &str| commands(&Rc::new(parse(name, &EventFiles::NONE).unwrap().unwrap()));
        assert_eq!(suggested("steal-time"), ["perilune stat -e steal-time"]);
        assert_eq!(suggested("cs").len(), 2);
    }
}
