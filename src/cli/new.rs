//! `new NAME -e EVENT,…`: a monitor to begin with, and a case to test it by.
//!
//! `NAME.lua` counts the events by task and by the field that looks most like a key, and lists all fields beside each handler;
//! `NAME.events` holds some events to replay through it, `NAME.out` what that prints. Nothing is overwritten.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Result, anyhow};

use super::{Failed, begin, cases, run::Runtime, types};
use crate::base::glob;
use crate::decode::format::{Element, Field, Format, Kind};
use crate::event::catalog::Event;
use crate::event::expr::lua_name;
use crate::event::filter::split::Split;
use crate::event::selector::Selector;
use crate::output::file as files;

/// What is watched: as typed, and what it is.
type Watched = (Selector, Rc<Event>);

/// Writes the files that `words` ask for, and says to `out` what to do with them.
///
/// # Errors
/// A call without a name or events; an event that there is not, or that has not what its filter names; a file that is there
/// already.
pub fn write(
    words: &[OsString],
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, Failed> {
    let (path, selectors) = parse(words)?;
    let catalog = runtime.catalog(None)?;
    let mut watched = Vec::new();
    for selector in selectors {
        let event = catalog.describe(&selector.name)?;
        if let Some(filter) = &selector.filter {
            Split::parse(filter, &event).map_err(|why| Failed::Usage(format!("new: -e: {why}")))?;
        }
        watched.push((selector, event));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = |extension: &str| PathBuf::from(format!("{}.{extension}", path.display()));
    let (script, case) = (file("lua"), file("events"));
    for file in [&script, &case, &file("out")] {
        if file.exists() {
            return Err(Failed::Usage(format!(
                "new: '{}' is there already; take another name",
                file.display()
            )));
        }
    }
    create(&script, &monitor(&name, &watched))?;
    create(&case, &recording(&name, &watched))?;
    cases::bless(&case)?;
    let (script, case) = (begin::quoted(&script.to_string_lossy()), case.display());
    writeln!(out, "{script}: a monitor to begin with; {case} and its .out: a case to test it by")?;
    writeln!(out, "Run it:     perilune {script}")?;
    writeln!(out, "Test it:    perilune test {script}")?;
    writeln!(
        out,
        "Your editor: perilune types   describes the API and the fields of events to it"
    )?;
    Ok(0)
}

/// The path without `.lua`, and the events.
fn parse(words: &[OsString]) -> Result<(PathBuf, Vec<Selector>), Failed> {
    let usage = |what: String| Failed::Usage(format!("new: {what}; perilune new NAME -e EVENT,…"));
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
            selectors.extend(list.map_err(|why| Failed::Usage(format!("new: -e: {why}")))?);
        } else if word.starts_with('-') {
            return Err(usage(format!("no option '{word}'")));
        } else if path.replace(PathBuf::from(word.trim_end_matches(".lua"))).is_some() {
            return Err(usage(format!("'{word}' is one word too many")));
        }
    }
    let path = path.ok_or_else(|| usage("it needs a name".to_owned()))?;
    // Not `file_name`, which does not see a slash at the end.
    let path_text = path.to_string_lossy();
    let name = path_text.rsplit('/').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(plain) {
        return Err(usage(format!("'{path_text}' is no name of letters, digits, '-' and '_'")));
    }
    drop(path_text);
    if selectors.is_empty() {
        return Err(usage("it needs an event (perilune list shows them)".to_owned()));
    }
    match selectors.iter().find(|s| glob::is_glob(&s.name) && !s.name.contains('/')) {
        Some(many) => Err(usage(format!("'{}' is many events; name each", many.name))),
        None => Ok((path, selectors)),
    }
}

fn create(path: &Path, text: &str) -> Result<()> {
    files::write_new(path, text.as_bytes()).map_err(|why| {
        let kind = why.root_cause().downcast_ref().map(io::Error::kind);
        let way = match kind {
            Some(ErrorKind::NotFound) => "make the folder first",
            Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
                "give a path in a folder that you may write"
            }
            _ => "give another path",
        };
        anyhow!("{why:#}; {way}")
    })
}

/// The script. Writing to a String does not fail.
fn monitor(name: &str, watched: &[Watched]) -> String {
    let names: Vec<&str> = watched.iter().map(|(_, event)| event.name.as_str()).collect();
    let names = names.join(" and ");
    let (one, key) = match watched {
        [(_, event)] => (true, event.format().and_then(begin::first_key).map(|f| f.name.clone())),
        _ => (false, Some("key".to_owned())),
    };
    let columns = [(!one).then(|| "event".to_owned()), Some("comm".to_owned()), key];
    let columns: Vec<String> =
        columns.iter().flatten().map(|title| format!("\"{title}\"")).collect();
    let mut text = format!(
        "#!/usr/bin/env perilune\n\
         --- How often tasks cause {names}.\n\
         -- How to read what it shows belongs here; lines with three blanks are the examples of its help.\n\
         --   perilune {name}.lua -i 1000\n\
         local m = monitor {{\n\
         \x20 summary = \"{names} by task\", -- a line for `perilune monitors`\n\
         \x20 options = {{}}, -- flag {{ \"all\", help = \"…\" }}, duration {{ \"than\", unit = \"ms\" }}, \"call-graph\"; as opt.all, opt.than\n\
         }}\n\
         \n\
         function m.init(opt)\n\
         \x20 local seen = kv {{ {} }} -- counts by these; also latency {{}}, hist.log2 {{}}, flame_graph {{}}\n",
        columns.join(", ")
    );
    for (selector, event) in watched {
        text += &handler(selector, event, one);
    }
    text += "end\n\nreturn m\n";
    text
}

/// One event's handler, with what its record has.
fn handler(selector: &Selector, event: &Event, one: bool) -> String {
    let mut text = format!("\n  -- {}: besides _time (ns), _cpu, _pid, _tid, _comm\n", event.name);
    let own: Vec<&Field> = event.format().map_or(Vec::new(), own);
    let width = own.iter().map(|f| lua_name(&f.name).len()).max().unwrap_or(0);
    for field in &own {
        let _ = writeln!(text, "  --   e.{:width$}  {}", lua_name(&field.name), field.type_text);
    }
    let mut values = vec!["e._comm".to_owned()];
    if !one {
        values.insert(0, "e._event.title".to_owned());
    }
    let key = event.format().and_then(begin::first_key);
    match key {
        Some(key) => values.push(format!("e.{}", lua_name(&key.name))),
        None if !one => values.push("0".to_owned()),
        None => {}
    }
    // The type of the record goes by the name alone, so a filter stands beside it.
    let (selected, wishes) = match (&selector.filter, event.format()) {
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
        "  evsel({:?}, {wishes}function(e)\n    seen:add({})\n  end)\n",
        selected,
        values.join(", ")
    );
    text
}

fn own(format: &Format) -> Vec<&Field> {
    format.fields.iter().filter(|field| !field.common).collect()
}

/// A recording of each event, some times over.
fn recording(name: &str, watched: &[Watched]) -> String {
    let mut text = format!(
        "# run {name}.lua\n\
         # A line is TIME CPU TID COMM EVENT: field=value … | frame;frame. Real ones: perilune trace --events -e EVENT >FILE\n\
         # What else may happen to a task or a CPU, to be put among the events:\n\
         #   0.005 1 0 - LOST: n=3          three records of CPU 1 were lost\n\
         #   0.005 0 100 web EXIT:          the thread 100 ends;  FORK: ppid=PID begins one, COMM: and EXEC: comm=NEW rename it\n\
         #   0.005@0.009 0 100 web EVENT:   happened at 5 ms and came only at 9 ms\n"
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

/// A value that such a field might have.
fn value(field: &Field, tid: u32, comm: &str) -> String {
    match field.kind {
        Kind::Int if !matches!(field.size, 1 | 2 | 4 | 8) => "hex:00".to_owned(),
        Kind::Int if field.name.ends_with("pid") || field.name.ends_with("tid") => tid.to_string(),
        Kind::Int => "1".to_owned(),
        Kind::Pointer => "0xffffffff81000000".to_owned(),
        Kind::Chars | Kind::DataLoc(Element::Char) | Kind::RelLoc(Element::Char) => comm.to_owned(),
        Kind::Array(_) | Kind::DataLoc(Element::Int(_)) | Kind::RelLoc(Element::Int(_)) => {
            "[1,2]".to_owned()
        }
        Kind::Bytes | Kind::DataLoc(_) | Kind::RelLoc(_) => "hex:00ff".to_owned(),
    }
}
