//! `-e EVENT help` and `list -v EVENT`: the fields of an event's records, and a command to start
//! from.
//!
//! Read from tracefs (or a recording) only, so no perf event is opened. With `--json`, one object
//! per event: `type` (`event_format`), `event`, `id`, `fields`
//! (`name type offset size signed common`), `constants` (per field: `field flags values`, each
//! `[number or text, name]`), `print_fmt`, `filter` (an example); then one object per command:
//! `type` (`command`), `command`. These objects do not belong to a run, so they have neither time
//! nor monitor.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{CommandError, command::EventsHelp, runtime::Runtime, suggest};
use crate::base::text::{escape, message};
use crate::decode::format::{Element, Field, FieldKind, Format};
use crate::event::catalog::expand;
use crate::event::constants::{self, Constant, Constants};
use crate::event::kind::Event;
use crate::event::selector::Selector;

/// Limit of events described as text at once, since a glob may match thousands. JSON has all.
pub const EVENTS: usize = 32;

/// Limit of value names shown for a field as text. JSON has all.
const CONSTANTS: usize = 24;

/// Prints the output of `perilune NAME -e EVENT help`: each event once, and the command to start
/// from.
///
/// # Errors
/// An event does not exist (the error has the nearest names), or a recording cannot be read.
pub fn asked(
    name: &str,
    asked: &EventsHelp,
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let catalog = runtime.catalog(asked.replay.as_deref())?;
    let (mut all, mut command) = (Vec::new(), format!("perilune {name}"));
    for (option, attrs, selectors) in &asked.groups {
        let mut group = Vec::new();
        let mut members = Vec::new();
        for selector in selectors {
            group.extend(expand(&*catalog, selector)?);
            for member in &selector.members {
                members.extend(expand(&*catalog, member)?);
            }
        }
        let in_braces = |s: &Selector| s.group.is_some() || !s.members.is_empty();
        let list = match group.len() > selectors.len() {
            _ if selectors.iter().any(in_braces) => typed(selectors),
            // Keep a glob: a line with a hundred names cannot be edited.
            true => selectors.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(","),
            false => suggest::selectors(&group, attrs),
        };
        command += &format!(" {option} {}", suggest::quoted(&list));
        all.extend(group);
        all.extend(members);
    }
    if !all.is_empty() && all.iter().all(|event| event.kind().only_counts()) {
        // No other monitor takes them.
        let names: Vec<&str> = all.iter().map(|event| event.name.as_str()).collect();
        command = format!("perilune stat -e {}", suggest::quoted(&names.join(",")));
    } else if let Some(path) = &asked.replay {
        command += &format!(" --replay {}", suggest::quoted(&path.to_string_lossy()));
    }
    let mut events: Vec<&Event> = Vec::new();
    for event in &all {
        if events.iter().all(|known| known.name != event.name) {
            events.push(event);
        }
    }
    let most = if asked.json { events.len() } else { EVENTS };
    let more = events.len().saturating_sub(most);
    events.truncate(most);
    write(&events, &[command], asked.json, out)?;
    if !asked.json {
        describe_groups(asked, out)?;
    }
    if more > 0 {
        writeln!(out, "and {more} more events; --json describes all")?;
    }
    Ok(0)
}

/// Writes which samples have the counts of a group.
fn describe_groups(asked: &EventsHelp, out: &mut dyn Write) -> io::Result<()> {
    let selectors = asked.groups.iter().flat_map(|(_, _, selectors)| selectors);
    for leader in selectors.filter(|one| !one.members.is_empty()) {
        let name = &leader.name;
        writeln!(out, "a sample of {name} has the counts of its group: e._counts, e._totals")?;
    }
    Ok(())
}

/// Returns selectors as typed, with the braces of groups.
fn typed(selectors: &[Selector]) -> String {
    let text = |one: &Selector| match &one.group {
        Some(group) => group.name.to_string(),
        None => one.text.clone(),
    };
    let mut texts: Vec<String> = selectors.iter().map(text).collect();
    texts.dedup();
    texts.join(",")
}

/// Writes a description of each event, then the commands, each of which runs as it is.
///
/// # Errors
/// The output cannot be written.
pub fn write(
    events: &[&Event],
    commands: &[String],
    json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    if json {
        for event in events {
            writeln!(out, "{}", message::json(&object(event).to_string()))?;
        }
        for command in commands {
            let object = json!({ "type": "command", "command": command });
            writeln!(out, "{}", message::json(&object.to_string()))?;
        }
        return Ok(());
    }
    let mut text = Vec::new();
    for event in events {
        write_event(event, &mut text)?;
        writeln!(text)?;
    }
    for (i, command) in commands.iter().enumerate() {
        let lead = if i == 0 { "Begin with:" } else { "           " };
        writeln!(text, "{lead} {command}")?;
    }
    // Names may also come from a recording, which is not trusted.
    let mut shown = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        escape::push_shown(&mut shown, line.strip_suffix(b"\n").unwrap_or(line));
        shown.push(b'\n');
    }
    out.write_all(&shown)
}

fn write_event(event: &Event, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}", event.name, event.kind().title())?;
    if let Some(format) = event.format() {
        write_fields(format, out)?;
    }
    for note in event.kind().notes() {
        writeln!(out, "  {note}")?;
    }
    let Some(format) = event.kind().raw_format() else { return Ok(()) };
    for constants in constants::of(&format.print_fmt) {
        writeln!(out, "  {}", shown(&constants))?;
    }
    let common: Vec<&str> =
        format.fields.iter().filter(|f| f.common).map(|f| f.name.as_str()).collect();
    writeln!(out, "  common fields:    {}", common.join(", "))?;
    if let Some(filter) = suggest::filter(format) {
        writeln!(out, "  in-kernel filter: {}/{filter}/", event.name)?;
    }
    Ok(())
}

fn write_fields(format: &Format, out: &mut dyn Write) -> io::Result<()> {
    let own: Vec<&Field> = format.fields.iter().filter(|f| !f.common).collect();
    let width = |text: fn(&Field) -> &str, title: &str| {
        let widest = own.iter().map(|f| text(f).chars().count()).max().unwrap_or(0);
        widest.max(title.len())
    };
    let (types, names) = (width(|f| &f.type_text, "TYPE"), width(|f| &f.name, "FIELD"));
    if own.is_empty() {
        writeln!(out, "  no fields of its own")?;
    } else {
        writeln!(out, "  {:types$}  {:names$}  OFFSET  SIZE  SIGN", "TYPE", "FIELD")?;
    }
    for field in own {
        let Field { name, type_text, offset, size, .. } = field;
        let line = format!(
            "  {type_text:types$}  {name:names$}  {offset:>6}  {size:>4}  {}",
            sign(field).unwrap_or_default()
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Returns a 64-bit number, signed if negative.
fn integer(number: i128) -> Value {
    u64::try_from(number).map_or_else(|_| json!(number as i64), |number| json!(number))
}

/// Returns whether integers are signed; `None` for other fields.
fn sign(field: &Field) -> Option<&'static str> {
    let integers = matches!(
        field.kind,
        FieldKind::Int
            | FieldKind::Array(_)
            | FieldKind::DataLoc(Element::Int(_))
            | FieldKind::RelLoc(Element::Int(_))
    );
    integers.then_some(if field.signed { "signed" } else { "unsigned" })
}

/// Formats the names of a field's values: `prev_state is any of 0x1 S, 0x2 D`.
fn shown(constants: &Constants) -> String {
    let value = |c: &Constant| match c.number {
        Some(number) if constants.flags => format!("{:#x} {}", number as u64, c.name),
        Some(number) => format!("{number} {}", c.name),
        // The text is too long to be useful.
        None if c.text.len() > 20 => c.name.clone(),
        None => format!("{} {}", c.text, c.name),
    };
    let few: Vec<String> = constants.values.iter().take(CONSTANTS).map(value).collect();
    let of = if constants.flags { "any of" } else { "one of" };
    let more = match constants.values.len().saturating_sub(CONSTANTS) {
        0 => String::new(),
        more => format!(" and {more} more (--json has all)"),
    };
    format!("{} is {of} {}{more}", constants.field, few.join(", "))
}

fn object(event: &Event) -> Value {
    if let Some(format) = event.kind().raw_format() {
        return tracepoint(&event.name, format);
    }
    let (label, attr) = (event.kind().label(), event.kind().attr());
    json!({
        "type": "event_format", "event": event.name,
        "fields": event.format().map_or(Vec::new(), fields),
        (label): { "type": attr.type_, "config": attr.config },
    })
}

fn fields(format: &Format) -> Vec<Value> {
    let field = |field: &Field| {
        json!({
            "name": field.name, "type": field.type_text, "offset": field.offset, "size": field.size,
            "signed": field.signed, "common": field.common,
        })
    };
    format.fields.iter().map(field).collect()
}

fn tracepoint(name: &str, format: &Format) -> Value {
    let value = |c: &Constant| json!([c.number.map_or_else(|| json!(c.text), integer), c.name]);
    let constants = constants::of(&format.print_fmt).into_iter().map(|c| {
        let values: Vec<Value> = c.values.iter().map(value).collect();
        json!({ "field": c.field, "flags": c.flags, "values": values })
    });
    json!({
        "type": "event_format", "event": name, "id": format.id, "fields": fields(format),
        "constants": constants.collect::<Vec<_>>(), "print_fmt": format.print_fmt,
        "filter": suggest::filter(format),
    })
}
