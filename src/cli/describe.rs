//! `-e EVENT help` and `list -v EVENT`: what an event's records hold, and a command to begin with.
//!
//! Read from tracefs alone (or from a recording), so it takes no perf event. With `--json` one object an event:
//! `type` (`event_format`), `event`, `id`, `fields` (`name type offset size signed common`), `constants` (of a
//! field: `field flags values`, each `[number or text, name]`), `print_fmt`, `filter` (one to begin with); then one of `type` `command` each, with
//! `command`. These objects belong to no run, so they carry neither time nor monitor.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{Failed, begin, command::Asked, run::Runtime};
use crate::base::text::{escape, message};
use crate::decode::format::{Element, Field, Format, Kind};
use crate::event::catalog::{Event, What, expand};
use crate::event::constants::{self, Constant, Constants};
use crate::event::function::{Function, Kind as Of};

/// Events that are described as text at once: a glob may match thousands. JSON is for programs and has all.
pub const EVENTS: usize = 32;

/// Names of values that one field shows as text; JSON has all.
const CONSTANTS: usize = 24;

/// What `perilune NAME -e EVENT help` prints: each event once, and the call to begin with.
///
/// # Errors
/// An event that there is not, with the nearest; a recording that cannot be read.
pub fn asked(
    name: &str,
    asked: &Asked,
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, Failed> {
    let catalog = runtime.catalog(asked.replay.as_deref())?;
    let (mut all, mut command) = (Vec::new(), format!("perilune {name}"));
    for (option, attrs, selectors) in &asked.groups {
        let mut group = Vec::new();
        for selector in selectors {
            group.extend(expand(&*catalog, selector)?);
        }
        let list = match group.len() > selectors.len() {
            // A glob stays one: nobody edits a line of a hundred names.
            true => selectors.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(","),
            false => begin::selectors(&group, attrs),
        };
        command += &format!(" {option} {}", begin::quoted(&list));
        all.extend(group);
    }
    if let Some(path) = &asked.replay {
        command += &format!(" --replay {}", begin::quoted(&path.to_string_lossy()));
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
    if more > 0 {
        writeln!(out, "and {more} more events; --json describes all")?;
    }
    Ok(0)
}

/// Writes what each event is, then the commands, each of which is run as it stands.
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
    // Names come from a recording, too, which may be anybody's.
    let mut shown = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        escape::push_shown(&mut shown, line.strip_suffix(b"\n").unwrap_or(line));
        shown.push(b'\n');
    }
    out.write_all(&shown)
}

fn write_event(event: &Event, out: &mut dyn Write) -> io::Result<()> {
    let format = match &event.what {
        What::Tracepoint { format } => format,
        What::Counter(counter) => {
            let (type_, config) = (counter.type_, counter.config);
            writeln!(out, "{}: a counter (type {type_}, config {config:#x})", event.name)?;
            return writeln!(out, "  no fields; its samples have _period, _ip and _addr");
        }
        What::Function(function) => return write_function(event, function, out),
    };
    writeln!(out, "{}: tracepoint {}", event.name, format.id)?;
    write_fields(format, out)?;
    for constants in constants::of(&format.print_fmt) {
        writeln!(out, "  {}", shown(&constants))?;
    }
    let common: Vec<&str> =
        format.fields.iter().filter(|f| f.common).map(|f| f.name.as_str()).collect();
    writeln!(out, "  and, as every tracepoint: {}", common.join(", "))?;
    if let Some(filter) = begin::filter(format) {
        writeln!(out, "  narrowed in the kernel:   {}/{filter}/", event.name)?;
    }
    Ok(())
}

fn write_function(event: &Event, function: &Function, out: &mut dyn Write) -> io::Result<()> {
    let (when, ip) = match function.kind {
        Of::Kprobe => ("as it is called", "in it, behind the probe at its beginning"),
        Of::Kretprobe => ("as it returns", "in what the kernel has it return to, for the probe"),
        Of::Uprobe => ("as it is called", "where it begins"),
        Of::Uretprobe => ("as it returns", "where it returns to"),
    };
    writeln!(out, "{}: a function {when}", event.name)?;
    write_fields(&function.format, out)?;
    writeln!(
        out,
        "  as the registers have them: an int is (int)arg1, what is no number or address is elsewhere"
    )?;
    writeln!(out, "  _ip is {ip}")
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

/// A number of 64 bits with or without a sign.
fn integer(number: i128) -> Value {
    u64::try_from(number).map_or_else(|_| json!(number as i64), |number| json!(number))
}

/// Whether integers have a sign; None where the question does not arise.
fn sign(field: &Field) -> Option<&'static str> {
    let integers = matches!(
        field.kind,
        Kind::Int | Kind::Array(_) | Kind::DataLoc(Element::Int(_)) | Kind::RelLoc(Element::Int(_))
    );
    integers.then_some(if field.signed { "signed" } else { "unsigned" })
}

/// `prev_state is any of 0x1 S, 0x2 D`.
fn shown(constants: &Constants) -> String {
    let value = |c: &Constant| match c.number {
        Some(number) if constants.flags => format!("{:#x} {}", number as u64, c.name),
        Some(number) => format!("{number} {}", c.name),
        // Longer than its name is worth.
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
    match &event.what {
        What::Tracepoint { format } => tracepoint(&event.name, format),
        What::Function(function) => json!({
            "type": "event_format", "event": event.name, "fields": fields(&function.format),
            "function": { "type": function.counter.type_, "config": function.counter.config },
        }),
        What::Counter(counter) => json!({
            "type": "event_format", "event": event.name, "fields": [],
            "counter": { "type": counter.type_, "config": counter.config },
        }),
    }
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
        "filter": begin::filter(format),
    })
}
