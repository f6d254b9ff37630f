//! Names, lengths, first lines and forbidden contents of files.

use crate::{Finding, source::Source};

/// Maximum number of lines of a file, code and tests.
const LONGEST: usize = 400;

/// Files that may be longer because they are tables, with the reason.
const TABLES: &[(&str, &str)] = &[];

/// Maximum number of code lines of a bundled monitor: one screen.
const SCREEN: usize = 40;

/// Words that do not describe contents.
const EMPTY_WORDS: &[&str] = &["util", "utils", "common", "manager", "helper", "helpers", "misc"];

/// Markers of postponed work, joined here so that this file does not contain them.
const LATER: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Folders of one developer's machine, also joined.
const MACHINE: &[&str] = &[concat!("/wo", "rk/"), concat!("/tmp", "/wt")];

/// Reports files that are too long: a file has one concept.
pub(crate) fn files_are_short(file: &Source) -> Vec<Finding> {
    let lines = file.text.lines().count();
    let table = TABLES.iter().any(|(path, _)| *path == file.path);
    if !(file.is("rs") || file.is("lua")) || lines <= LONGEST || table {
        return Vec::new();
    }
    vec![file.at(LONGEST, format!("{lines} lines, {LONGEST} at most; split it by concept"))]
}

/// Reports Rust files whose first line does not state what the file is.
pub(crate) fn rust_opens_with_a_sentence(file: &Source) -> Vec<Finding> {
    if !file.is("rs") || file.text.starts_with("//! ") {
        return Vec::new();
    }
    vec![file.at(0, "does not open with `//! `; describe the file in one sentence")]
}

/// Reports Lua files whose first line does not state what the file is.
pub(crate) fn lua_opens_with_a_sentence(file: &Source) -> Vec<Finding> {
    let first = file.text.lines().find(|l| !l.starts_with("#!")).unwrap_or_default();
    if !file.is("lua") || first.starts_with("---") {
        return Vec::new();
    }
    vec![file.at(0, "does not open with `---`; describe the file in one sentence")]
}

/// Names of monitors that are established elsewhere.
const GIVEN_NAMES: &[&str] = &["cpu-util"];

/// Reports names that would fit any file.
pub(crate) fn file_names_describe_their_content(file: &Source) -> Vec<Finding> {
    let path = GIVEN_NAMES.iter().fold(file.path.clone(), |path, name| path.replace(name, ""));
    let words = path.split(['/', '.', '_', '-']);
    let empty: Vec<&str> = words.filter(|w| EMPTY_WORDS.contains(w)).collect();
    empty
        .iter()
        .map(|word| file.at(0, format!("`{word}` in the path; name it after its content")))
        .collect()
}

/// Reports markers of postponed work.
pub(crate) fn nothing_is_left_for_later(file: &Source) -> Vec<Finding> {
    each_line(file, |line| {
        let mut words = line.split(|c: char| !c.is_alphanumeric());
        let word = words.find(|w| LATER.contains(w))?;
        Some(format!("`{word}`; do it, or remove it"))
    })
}

/// Reports tabs and trailing blanks, because rustfmt does not check comments and literals.
pub(crate) fn rust_has_no_stray_blanks(file: &Source) -> Vec<Finding> {
    if !file.is("rs") {
        return Vec::new();
    }
    each_line(file, |line| {
        if line.contains('\t') {
            return Some("a tab; write blanks, or \\t in a literal".into());
        }
        line.ends_with(' ').then(|| "a blank at the end of the line; remove it".into())
    })
}

/// Reports bundled monitors that do not fit one screen.
pub(crate) fn a_monitor_fits_a_screen(file: &Source) -> Vec<Finding> {
    if !(file.path.starts_with("scripts/") && file.is("lua")) {
        return Vec::new();
    }
    let code = |l: &&str| !l.trim().is_empty() && !l.trim_start().starts_with("--");
    let lines = file.text.lines().filter(code).count();
    if lines <= SCREEN {
        return Vec::new();
    }
    let what = format!("{lines} lines of code, {SCREEN} at most; move a common part to stdlib");
    vec![file.at(0, what)]
}

/// Reports paths of one machine: the tree must work wherever it is cloned.
pub(crate) fn no_path_of_one_machine(file: &Source) -> Vec<Finding> {
    each_line(file, |line| {
        let path = MACHINE.iter().find(|p| line.contains(**p))?;
        Some(format!("`{path}` is a path of one machine; make it relative, or a temporary folder"))
    })
}

fn each_line(file: &Source, rule: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let lines = file.text.split('\n').enumerate();
    lines.filter_map(|(i, line)| Some(file.at(i, rule(line)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of findings of a rule in a file.
    fn count(rule: fn(&Source) -> Vec<Finding>, path: &str, text: &str) -> usize {
        rule(&Source::new(path, text)).len()
    }

    #[test]
    fn a_long_file_is_found() {
        for path in ["src/a.rs", "scripts/a.lua"] {
            assert_eq!(count(files_are_short, path, &"x\n".repeat(LONGEST + 1)), 1);
            assert_eq!(count(files_are_short, path, &"x\n".repeat(LONGEST)), 0);
        }
        assert_eq!(count(files_are_short, "LICENSE", &"x\n".repeat(LONGEST + 1)), 0);
    }

    #[test]
    fn a_file_without_a_first_sentence_is_found() {
        assert_eq!(count(rust_opens_with_a_sentence, "src/a.rs", "use std::fs;"), 1);
        assert_eq!(count(rust_opens_with_a_sentence, "src/a.rs", "//! Rings.\nuse std::fs;"), 0);
        assert_eq!(count(lua_opens_with_a_sentence, "scripts/a.lua", "local m = 1"), 1);
        assert_eq!(count(lua_opens_with_a_sentence, "a.lua", "#!/usr/bin/env x\nlocal m"), 1);
        assert_eq!(count(lua_opens_with_a_sentence, "a.lua", "#!/usr/bin/env x\n--- A."), 0);
    }

    #[test]
    fn a_name_without_content_is_found() {
        for path in ["src/util.rs", "src/common/a.rs", "tests/ring_helpers.rs", "stdlib/misc.lua"] {
            assert_eq!(count(file_names_describe_their_content, path, ""), 1, "{path}");
        }
        assert_eq!(count(file_names_describe_their_content, "src/base/utilisation.rs", ""), 0);
    }

    #[test]
    fn work_put_off_is_found() {
        for word in LATER {
            assert_eq!(count(nothing_is_left_for_later, "README.md", &format!("a {word}: b")), 1);
        }
        assert_eq!(
            count(nothing_is_left_for_later, "a.sh", &format!("mktemp {}", "X".repeat(6))),
            0
        );
    }

    #[test]
    fn stray_blanks_are_found() {
        assert_eq!(count(rust_has_no_stray_blanks, "a.rs", "a \nb\t\nc"), 2);
        assert_eq!(count(rust_has_no_stray_blanks, "a.md", "a \n"), 0);
    }

    #[test]
    fn a_monitor_of_two_screens_is_found() {
        let long = "x()\n".repeat(SCREEN + 1);
        assert_eq!(count(a_monitor_fits_a_screen, "scripts/a.lua", &long), 1);
        assert_eq!(count(a_monitor_fits_a_screen, "stdlib/a.lua", &long), 0);
        let short = format!("{}{}", "-- why\n\n".repeat(SCREEN), "x()\n".repeat(SCREEN));
        assert_eq!(count(a_monitor_fits_a_screen, "scripts/a.lua", &short), 0);
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        for path in MACHINE {
            assert_eq!(count(no_path_of_one_machine, "a.sh", &format!("cd {path}main")), 1);
        }
        assert_eq!(count(no_path_of_one_machine, "a.sh", "cd /tmp/x"), 0);
    }
}
