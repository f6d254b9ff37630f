//! Imports point down the layer table.

use crate::{Finding, source::Source};

/// A module of the crate's root and its layer. A file may import from lower layers and from its own
/// module.
const LAYERS: &[(&str, u8)] = &[
    ("base", 0),
    ("bpf", 1),
    ("sys", 1),
    ("decode", 1),
    ("stat", 1),
    ("event", 2),
    ("order", 2),
    ("task", 2),
    ("source", 3),
    ("symbol", 3),
    ("stack", 4),
    ("unwind", 4),
    ("script", 5),
    ("output", 5),
    ("run", 6),
    ("cli", 7),
];

/// Allowed imports between modules of one layer: from, to, the reason.
const SIDEWAYS: &[(&str, &str, &str)] = &[];

/// Files of the crate's root, which may import everything.
const ROOT: &[&str] = &["src/lib.rs", "src/main.rs"];

/// Reports imports from layers that are not below the module's own.
pub(crate) fn imports_point_down(file: &Source) -> Vec<Finding> {
    let Some(inside) = file.path.strip_prefix("src/").filter(|_| file.is("rs")) else {
        return Vec::new();
    };
    if ROOT.contains(&file.path.as_str()) {
        return Vec::new();
    }
    let own = inside.split(['/', '.']).next().unwrap_or_default();
    let Some(own_layer) = layer(own) else {
        return vec![file.at(0, format!("`{own}` has no layer; add it in tests/tidy/layers.rs"))];
    };
    let mut findings = Vec::new();
    for (line, module) in imports(&file.code, depth(inside)) {
        let Some(layer) = layer(&module) else { continue };
        let sideways = SIDEWAYS.iter().any(|(from, to, _)| (*from, *to) == (own, module.as_str()));
        if module != own && layer >= own_layer && !sideways {
            findings.push(file.at(
                line,
                format!(
                    "`{own}` (layer {own_layer}) imports `{module}` (layer {layer}); imports point \
                     down: move what both need to a lower layer"
                ),
            ));
        }
    }
    findings
}

fn layer(module: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer)
}

/// Returns the number of `super` from the file's module to the root.
fn depth(inside: &str) -> usize {
    inside.split('/').filter(|part| *part != "mod.rs").count()
}

/// Returns each root module that a path in the code names, with its line: `crate::a`, `crate::{a,
/// b::c}`, `super::super::a`.
fn imports(code: &str, depth: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (start, path) in [("crate::", 1), ("super::", depth)] {
        let prefix = start.repeat(path);
        for (at, _) in code.match_indices(&prefix) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let line = code[..at].matches('\n').count();
            found.extend(first_names(&code[at + prefix.len()..]).into_iter().map(|n| (line, n)));
        }
    }
    found
}

/// Returns the first name of a path, or of each path of a `{…}` group.
fn first_names(rest: &str) -> Vec<String> {
    let name = |s: &str| {
        s.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
    };
    let Some(group) = rest.strip_prefix('{') else { return vec![name(rest)] };
    let (mut names, mut nested, mut from) = (Vec::new(), 0, 0);
    for (i, c) in group.char_indices() {
        match c {
            '{' => nested += 1,
            '}' if nested > 0 => nested -= 1,
            ',' | '}' if nested == 0 => {
                names.push(name(&group[from..i]));
                from = i + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

#[test]
fn an_upward_import_is_found_however_it_is_written() {
    for (path, text) in [
        ("src/decode/record.rs", "use crate::script::dispatch::view;"),
        ("src/decode/record.rs", "use crate::{base::value, output::{json, text}};"),
        ("src/decode/record.rs", "fn f() { crate::run::start() }"),
        ("src/decode/record.rs", "use super::super::cli;"),
        ("src/decode.rs", "use super::cli;"),
        ("src/order.rs", "use crate::task::Tasks;"),
        ("src/sys/ring.rs", "use crate::decode::record;"),
    ] {
        assert_eq!(imports_point_down(&Source::new(path, text)).len(), 1, "{path}: {text}");
    }
}

#[test]
fn an_import_from_below_or_of_the_same_folder_is_fine() {
    for (path, text) in [
        ("src/script/vm.rs", "use crate::{base::{draw, value}, stat, script::view, task::Tasks};"),
        ("src/script/vm.rs", "use super::view; // crate::cli"),
        ("src/cli/run.rs", "use crate::run;"),
        ("src/main.rs", "use perilune::cli; mod x { use crate::cli; }"),
        ("tests/cli.rs", "use crate::run;"),
    ] {
        let findings = imports_point_down(&Source::new(path, text));
        assert!(findings.is_empty(), "{findings:?}");
    }
}

#[test]
fn a_module_without_a_layer_is_found() {
    assert_eq!(imports_point_down(&Source::new("src/gadget/wheel.rs", "")).len(), 1);
}
