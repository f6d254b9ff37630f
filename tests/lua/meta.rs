//! The description of the API for editors and checkers, `stdlib/meta/`, compared with the host.

use std::{fs, path::Path};

use mlua::Lua;
use perilune::event::sample_field::SAMPLE_FIELDS;
use perilune::script::api::format::FORMATTERS;

/// Returns each file's name and text.
fn files() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("stdlib/meta");
    let entries = fs::read_dir(folder).expect("stdlib/meta can be read");
    let paths = entries.map(|e| e.expect("an entry can be read").path());
    let read = |path: std::path::PathBuf| {
        let text = fs::read_to_string(&path).expect("a file can be read");
        (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text)
    };
    paths.map(read).collect()
}

#[test]
fn each_file_is_lua_and_refuses_to_be_required() {
    let files = files();
    assert!(files.len() >= 8, "{}", files.len());
    for (name, text) in files {
        assert!(text.starts_with("---@meta\n"), "{name}");
        let lua = Lua::new();
        let chunk = lua.load(&text).set_name(&name).into_function();
        let chunk = chunk.unwrap_or_else(|e| panic!("{e}"));
        let error = chunk.call::<()>(()).unwrap_err().to_string();
        assert!(error.contains("cannot be required"), "{name}: {error}");
    }
}

#[test]
fn each_drawing_function_is_described() {
    let all: String = files().into_iter().map(|(_, text)| text).collect();
    for (word, _) in FORMATTERS {
        assert!(all.contains(&format!("\nfunction {word}(")), "`{word}` is in no file");
    }
}

#[test]
fn each_shared_option_is_described_by_its_name_and_as_a_field_of_opt() {
    let files = files();
    let (_, text) = files.iter().find(|(name, _)| name == "option.lua").expect("it is there");
    for option in perilune::script::option::shared::options() {
        let (name, field) = (format!("---| \"{}\" # ", option.long), option.long.replace('-', "_"));
        assert!(text.contains(&name), "`{}` is not a perilune.SharedOption", option.long);
        let is_field = |line: &str| {
            let line = line.strip_prefix("---@field ").unwrap_or_default();
            line.split([' ', '?']).next() == Some(&field)
        };
        assert!(text.lines().any(is_field), "`{field}` is not a field of perilune.Options");
    }
}

#[test]
fn each_field_of_a_sample_is_described() {
    let files = files();
    let (_, text) = files.iter().find(|(name, _)| name == "record.lua").expect("it is there");
    for field in SAMPLE_FIELDS {
        assert!(text.contains(&format!("\n---@field {} ", field.name)), "`{}`", field.name);
    }
}

#[test]
fn nothing_is_described_twice() {
    let mut seen = std::collections::HashMap::new();
    for (name, text) in files() {
        for line in
            text.lines().filter(|l| l.starts_with("function ") || l.starts_with("---@class "))
        {
            let what = line.split('(').next().unwrap_or_default().to_owned();
            if let Some(other) = seen.insert(what.clone(), name.clone()) {
                panic!("`{what}` is in {other} and in {name}");
            }
        }
    }
}
