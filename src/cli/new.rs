//! `new NAME -e EVENT,…`: creates a monitor to start from, and a case to test it with.
//!
//! `NAME.lua` counts the events by task and by the field that is most likely a key, and lists all
//! fields at each handler. `NAME.events` has example events to replay, and `NAME.out` the output
//! for them. Existing files are not overwritten.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Result, anyhow};

use super::{CommandError, cases, runtime::Runtime, suggest, types};
use crate::base::matching::glob;
use crate::base::text::lua::field_name;
use crate::decode::format::{Element, Field, FieldKind, Format};
use crate::event::filter::split::Split;
use crate::event::kind::Event;
use crate::event::selector::Selector;
use crate::output::file as files;

/// A watched event: its selector as typed, and its description.
type Watched = (Selector, Rc<Event>);

/// Creates the files that `words` request, and prints to `out` how to use them.
///
/// # Errors
/// The name or the events are missing, an event does not exist or lacks a field of its filter, or a
/// file exists already.
pub fn write(
    words: &[OsString],
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let (path, selectors) = parse(words)?;
    let catalog = runtime.catalog(None)?;
    let mut watched = Vec::new();
    for selector in selectors {
        let event = catalog.describe(&selector.name)?;
        if let Some(filter) = &selector.filter {
            Split::parse(filter, &event)
                .map_err(|why| CommandError::Usage(format!("new: -e: {why}")))?;
        }
        watched.push((selector, event));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = |extension: &str| PathBuf::from(format!("{}.{extension}", path.display()));
    let (script, case) = (file("lua"), file("events"));
    for file in [&script, &case, &file("out")] {
        if file.exists() {
            return Err(CommandError::Usage(format!(
                "new: '{}' already exists; use another name",
                file.display()
            )));
        }
    }
    create(&script, &monitor(&name, &watched))?;
    create(&case, &recording(&name, &watched))?;
    cases::bless(&case)?;
    let (script, case) = (suggest::quoted(&script.to_string_lossy()), case.display());
    writeln!(out, "{script}: the monitor; {case} and its .out file: a test case for it")?;
    writeln!(out, "Run it:     perilune {script}")?;
    writeln!(out, "Test it:    perilune test {script}")?;
    writeln!(
        out,
        "Editor:     perilune types   describes the API and the fields of events to editors"
    )?;
    Ok(0)
}

/// Returns the path without `.lua`, and the events.
fn parse(words: &[OsString]) -> Result<(PathBuf, Vec<Selector>), CommandError> {
    let usage =
        |what: String| CommandError::Usage(format!("new: {what}; perilune new NAME -e EVENT,…"));
    let (mut path, mut selectors) = (None, Vec::new());
    let mut words = words.iter().map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        if let Some(glued) = word.strip_prefix("-e") {
            let list = match glued {
                "" => words.next().unwrap_or_default().into_owned(),
                list => list.trim_start_matches('=').to_owned(),
            };
            if list.is_empty() {
                return Err(usage("-e needs an event (perilune list shows them)".to_owned()));
            }
            let list = Selector::parse_list(&list);
            selectors.extend(list.map_err(|why| CommandError::Usage(format!("new: -e: {why}")))?);
        } else if word.starts_with('-') {
            return Err(usage(format!("no option '{word}'")));
        } else if path.replace(PathBuf::from(word.trim_end_matches(".lua"))).is_some() {
            return Err(usage(format!("unexpected argument '{word}'")));
        }
    }
    let path = path.ok_or_else(|| usage("it needs a name".to_owned()))?;
    // Not `file_name`, which ignores a trailing slash.
    let path_text = path.to_string_lossy();
    let name = path_text.rsplit('/').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(plain) {
        return Err(usage(format!(
            "'{path_text}' is not a valid name; use letters, digits, '-' and '_'"
        )));
    }
    drop(path_text);
    if selectors.is_empty() {
        return Err(usage("it needs an event (perilune list shows them)".to_owned()));
    }
    match selectors.iter().find(|s| glob::is_glob(&s.name) && !s.name.contains('/')) {
        Some(many) => Err(usage(format!("'{}' matches several events; name each", many.name))),
        None => Ok((path, selectors)),
    }
}

fn create(path: &Path, text: &str) -> Result<()> {
    files::write_new(path, text.as_bytes()).map_err(|why| {
        let kind = why.root_cause().downcast_ref().map(io::Error::kind);
        let fix = match kind {
            Some(ErrorKind::NotFound) => "create the folder first",
            Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
                "use a folder that you can write to"
            }
            _ => "use another path",
        };
        anyhow!("{why:#}; {fix}")
    })
}

/// Generates the script. Writing to a String does not fail.
fn monitor(name: &str, watched: &[Watched]) -> String {
    let names: Vec<&str> = watched.iter().map(|(_, event)| event.name.as_str()).collect();
    let names = names.join(" and ");
    let (one, key) = match watched {
        [(_, event)] => (true, event.format().and_then(suggest::first_key).map(|f| f.name.clone())),
        _ => (false, Some("key".to_owned())),
    };
    let columns = [(!one).then(|| "event".to_owned()), Some("comm".to_owned()), key];
    let columns: Vec<String> =
        columns.iter().flatten().map(|title| format!("\"{title}\"")).collect();
    let mut text = format!(
        "#!/usr/bin/env perilune\n\
         --- How often tasks cause {names}.\n\
         -- Explain the output here; lines indented by three blanks are examples in the help.\n\
         --   perilune {name}.lua -i 1000\n\
         local m = monitor {{\n\
         \x20 summary = \"{names} by task\", -- a line for `perilune monitors`\n\
         \x20 api = 1,\n\
         \x20 options = {{}}, -- flag {{ \"all\", help = \"…\" }}, duration {{ \"than\", unit = \
         \"ms\" }}, \"call-graph\"; as opt.all, opt.than\n\
         }}\n\
         \n\
         function m.init(opt)\n\
         \x20 local counts = kv {{ {} }} -- count by these; see also latency {{}}, hist.log2 {{}}, \
         flame_graph {{}}\n",
        columns.join(", ")
    );
    for (selector, event) in watched {
        text += &handler(selector, event, one);
    }
    text += "end\n\nreturn m\n";
    text
}

/// Generates the handler of one event, with a list of its fields.
fn handler(selector: &Selector, event: &Event, one: bool) -> String {
    let mut text = format!("\n  -- {}: besides _time (ns), _cpu, _pid, _tid, _comm\n", event.name);
    let own: Vec<&Field> = event.format().map_or(Vec::new(), own);
    let width = own.iter().map(|f| field_name(&f.name).len()).max().unwrap_or(0);
    for field in &own {
        let _ = writeln!(text, "  --   e.{:width$}  {}", field_name(&field.name), field.type_text);
    }
    let mut values = vec!["e._comm".to_owned()];
    if !one {
        values.insert(0, "e._event.title".to_owned());
    }
    let key = event.format().and_then(suggest::first_key);
    match key {
        Some(key) => values.push(format!("e.{}", field_name(&key.name))),
        None if !one => values.push("0".to_owned()),
        None => {}
    }
    // The type of a record depends on the event's name only, so a filter is a separate attribute.
    let (selected, attrs) = match (&selector.filter, event.format()) {
        (_, None) => (&selector.text, "{ freq = 100 }, ".to_owned()),
        (Some(filter), _) if selector.attrs.is_empty() => {
            (&selector.name, format!("{{ filter = {filter:?} }}, "))
        }
        _ => (&selector.text, String::new()),
    };
    if event.format().is_some() {
        let _ = writeln!(text, "  ---@param e {}", types::class_of(&event.name));
    }
    let _ = write!(
        text,
        "  evsel({:?}, {attrs}function(e)\n    counts:add({})\n  end)\n",
        selected,
        values.join(", ")
    );
    text
}

fn own(format: &Format) -> Vec<&Field> {
    format.fields.iter().filter(|field| !field.common).collect()
}

/// Generates a recording that contains each event several times.
fn recording(name: &str, watched: &[Watched]) -> String {
    let mut text = format!(
        "# run {name}.lua\n\
         # Line format: TIME CPU TID COMM EVENT: field=value … | frame;frame\n\
         # To record events: perilune trace --events -e EVENT >FILE\n\
         # Other lines that may stand between the events:\n\
         #   0.005 1 0 - LOST: n=3          three records of CPU 1 were lost\n\
         #   0.005 0 100 web EXIT:          thread 100 ends;  FORK: ppid=PID starts one, COMM: and \
         EXEC: comm=NEW rename it\n\
         #   0.005@0.009 0 100 web EVENT:   happened at 5 ms, arrived at 9 ms\n"
    );
    let tasks = [(0, 100, "web"), (1, 200, "db"), (0, 100, "web")];
    let mut ms = 0;
    for (cpu, tid, comm) in tasks {
        for (_, event) in watched {
            ms += 1;
            let _ = write!(text, "0.{ms:03} {cpu} {tid} {comm} {}:", event.name);
            for field in event.format().map_or(Vec::new(), own) {
                let _ = write!(text, " {}={}", field.name, value(field, tid, comm));
            }
            text.push('\n');
        }
    }
    text
}

/// Returns an example value of a field.
fn value(field: &Field, tid: u32, comm: &str) -> String {
    match field.kind {
        FieldKind::Int if !matches!(field.size, 1 | 2 | 4 | 8) => "hex:00".to_owned(),
        FieldKind::Int if field.name.ends_with("pid") || field.name.ends_with("tid") => {
            tid.to_string()
        }
        FieldKind::Int => "1".to_owned(),
        FieldKind::Float => "1.5".to_owned(),
        FieldKind::Pointer => "0xffffffff81000000".to_owned(),
        FieldKind::Chars
        | FieldKind::DataLoc(Element::Char | Element::Fetched)
        | FieldKind::RelLoc(Element::Char) => comm.to_owned(),
        FieldKind::Array(_)
        | FieldKind::DataLoc(Element::Int(_))
        | FieldKind::RelLoc(Element::Int(_)) => "[1,2]".to_owned(),
        FieldKind::Bytes | FieldKind::DataLoc(_) | FieldKind::RelLoc(_) => "hex:00ff".to_owned(),
    }
}
