//! The lines of `docs/one-liners.md`. `tests/cli` includes this file, too.

use std::path::Path;
use std::process::{Command, Output};

/// A line, and the source of its events: `events:NAME` or `with:COMMAND`.
pub(crate) struct OneLiner {
    pub(crate) line: String,
    pub(crate) from: String,
}

/// Returns the lines of the document.
pub(crate) fn one_liners() -> Vec<OneLiner> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/one-liners.md");
    let doc = std::fs::read_to_string(path).expect("the document is there");
    let (mut all, mut from, mut inside) = (Vec::new(), String::new(), false);
    for line in doc.lines() {
        if let Some(marker) = line.strip_prefix("<!-- ").and_then(|l| l.strip_suffix(" -->")) {
            marker.clone_into(&mut from);
        } else if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside && !line.starts_with('#') && !line.is_empty() {
            assert!(line.starts_with("perilune eval "), "not a one-liner: {line}");
            all.push(OneLiner { line: line.to_owned(), from: from.clone() });
        }
    }
    all
}

/// Runs a line like a shell, with more arguments appended.
pub(crate) fn run(line: &str, more: &str) -> Output {
    let perilune = env!("CARGO_BIN_EXE_perilune");
    let line = line.replacen("perilune", perilune, 1);
    Command::new("sh")
        .args(["-c", &format!("exec {line} {more}")])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("TZ", "UTC")
        .env("NO_COLOR", "1")
        .env_remove("PERILUNE_PATH")
        .output()
        .expect("a shell runs")
}

/// Returns the output of a line, and its errors if it failed.
pub(crate) fn text(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => text,
        false => format!("{text}{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)),
    }
}
