//! `types [DIR]`: describes the API and this kernel's events to editors and checkers of Lua
//! (LuaCATS).
//!
//! `DIR/types/` gets the files of `stdlib/meta`, and for each system of tracepoints a file with one
//! class per event: its record fields as `e.FIELD`, from the parser that decodes them.
//! `DIR/.luarc.json` makes lua-language-server and emmylua read them; an existing one is not
//! changed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _, Write};
use std::path::Path;

use anyhow::{Context as _, Result};

use super::{CommandError, runtime::Runtime};
use crate::base::text::lua::field_name;
use crate::base::text::units::counted;
use crate::decode::format::{Element, Field, FieldKind, Format};
use crate::event::kind;
use crate::output::file;
use crate::script::load::library;
use crate::sys::mapped_file::{Links, open_regular};

/// The beginning of generated files. A file of that name with another beginning belongs to the
/// user.
const OURS: &str = "---@meta\n";

/// Editor settings that find the types. A monitor's locals get their values in `init`, so they are
/// not nil where they are used.
const SETTINGS: &str = r#"{
  "$schema": "https://raw.githubusercontent.com/LuaLS/vscode-lua/master/setting/schema.json",
  "runtime.version": "LuaJIT",
  "runtime.builtin": {
    "ffi": "disable",
    "io": "disable",
    "debug": "disable",
    "package": "disable",
    "jit": "disable"
  },
  "workspace.library": ["types"],
  "workspace.checkThirdParty": false,
  "diagnostics.disable": ["lowercase-global", "need-check-nil"]
}
"#;

/// Refuses the name of an event in place of a folder that does not exist; a path that begins with
/// `/` or `.` is not one.
///
/// # Errors
/// The text is probably an event.
pub fn check_folder(folder: &str) -> Result<(), CommandError> {
    if !folder.contains(':') || folder.starts_with(['/', '.']) || Path::new(folder).exists() {
        return Ok(());
    }
    Err(CommandError::Usage(format!(
        "types: '{folder}' is an event, not a folder: perilune list -v '{folder}' shows its \
         fields; for a folder of this name, write './{folder}'"
    )))
}

/// Writes the files into `folder`, and prints to `out` what they contain.
///
/// # Errors
/// Tracepoints cannot be read, the folder cannot be written, or a file with one of the names was
/// not written by this command.
pub fn write(
    folder: &Path,
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let catalog = runtime.catalog(None)?;
    let mut systems: BTreeMap<String, Vec<(String, Format)>> = BTreeMap::new();
    let mut unread = 0;
    for name in catalog.names()? {
        let Some((system, _)) = name.split_once(':') else { continue };
        match catalog.describe(&name).map(|event| event.format().cloned()) {
            Ok(Some(format)) => systems.entry(system.to_owned()).or_default().push((name, format)),
            _ => unread += 1,
        }
    }
    let types = folder.join("types");
    for (file, text) in library::api_files() {
        put(&types, &file, &text)?;
    }
    for (system, events) in &systems {
        put(&types.join("events"), &format!("{system}.lua"), &described(system, events))?;
    }
    let sources = catalog.sources().iter();
    let sources: Vec<(String, Format)> =
        sources.filter_map(|event| Some((event.name.clone(), event.format()?.clone()))).collect();
    put(&types.join("events"), "monitors.lua", &described("monitors", &sources))?;
    let events: usize = systems.values().map(Vec::len).sum();
    let (shown, settings) = (types.display(), folder.join(".luarc.json"));
    writeln!(out, "{shown}: the API, and {}", counted(events as u64, "event"))?;
    if unread > 0 {
        writeln!(out, "{} omitted: perilune doctor shows why", counted(unread, "event"))?;
    }
    match open_regular(&settings, Links::Followed).and_then(io::read_to_string) {
        Ok(text) if text == SETTINGS => {}
        Ok(_) => writeln!(
            out,
            "{}: not changed; it needs \"workspace.library\": [\"types\"]",
            settings.display()
        )?,
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            file::write(&settings, SETTINGS.as_bytes())?;
            writeln!(out, "{}: editor settings that use them", settings.display())?;
        }
        Err(why) => return Err(anyhow::Error::new(why).context(failed(&settings)).into()),
    }
    Ok(0)
}

fn failed(path: &Path) -> String {
    format!("failed to write `{}`", path.display())
}

fn put(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    fs::create_dir_all(folder).with_context(|| failed(folder))?;
    if is_of_another(&path) {
        anyhow::bail!(
            "{}: not written by perilune types, so it is not overwritten; use another folder",
            path.display()
        );
    }
    file::write(&path, text.as_bytes())
}

/// Returns whether the path is a file that this command did not write. A FIFO or a device is
/// refused when it is written.
fn is_of_another(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read = open_regular(path, Links::Followed)
        .and_then(|file| file.take(OURS.len() as u64).read_to_end(&mut begin));
    read.is_ok() && begin != OURS.as_bytes()
}

/// Generates the file of one system.
fn described(system: &str, events: &[(String, Format)]) -> String {
    let mut text = format!(
        "{OURS}--- The events of `{system}`, as this machine describes them; written by \
         `perilune types`.\n\
         error \"this file describes events to editors and checkers; it cannot be required\"\n"
    );
    for (name, format) in events {
        let class = class_of(name);
        // Writing to a String does not fail.
        let _ = writeln!(text, "\n--- `{name}`\n---@class {class}: perilune.Sample");
        for field in &format.fields {
            let read = format.text_of(&field.name).unwrap_or(field);
            let (name, type_) = (field_name(&field.name), type_of(read));
            let _ = writeln!(text, "---@field {name} {type_} {}", field.type_text);
        }
    }
    text.push_str("\n---@class perilune.Records\n");
    for (name, _) in events {
        let _ = writeln!(text, "---@field [\"{name}\"] {}", class_of(name));
    }
    text
}

/// Returns the class of an event's records: `perilune.sched.sched_switch`. The events of a
/// prefix share classes.
pub(super) fn class_of(event: &str) -> String {
    if let Some((prefix, _)) = kind::prefix_of(event) {
        return prefix.class.to_owned();
    }
    let word = |word: &str| {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
        let word: String = word.chars().map(plain).collect();
        if word.starts_with(|c: char| c.is_ascii_digit()) { format!("_{word}") } else { word }
    };
    let (system, name) = event.split_once(':').unwrap_or(("monitors", event));
    format!("perilune.{}.{}", word(system), word(name))
}

/// Returns the Lua type of `e.FIELD`; see `script::dispatch::view`.
fn type_of(field: &Field) -> &'static str {
    match field.kind {
        FieldKind::Int | FieldKind::Pointer if !matches!(field.size, 1 | 2 | 4 | 8) => "string",
        // A double cannot hold every pointer.
        FieldKind::Pointer => "integer|string",
        FieldKind::Int => "integer",
        FieldKind::Float => "number",
        FieldKind::Array(_)
        | FieldKind::DataLoc(Element::Int(_))
        | FieldKind::RelLoc(Element::Int(_)) => "integer[]",
        FieldKind::Chars | FieldKind::Bytes | FieldKind::DataLoc(_) | FieldKind::RelLoc(_) => {
            "string"
        }
    }
}
