//! Sessions as files: `tests/sessions/NAME.txt` has the typed lines, `NAME.out` the same lines with
//! the answers of the prompt.
//!
//! The first line is `# EVENTS: SUBJECT`; `EVENTS.events` of `tests/scripts/` is the recording.
//! Lines begin with `> `, continuation lines with `.. `. `BLESS=1 cargo test --test terminal
//! every_session` rewrites the answers; review the difference.

use crate::live::live_tests;
use std::io::Write as _;
use std::path::{Path, PathBuf};

live_tests! {
    root: [],
    any: [
        every_session_prints_the_expected_answers,
    ]
}

/// Separates the answers.
const MARK: &str = "-- next --";

fn every_session_prints_the_expected_answers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sessions");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("it is there")
        .map(|e| e.expect("an entry").path())
        .collect();
    files.sort();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    assert!(files.len() >= 6, "only {} sessions were found", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a session can be read");
        let got = answered(&text);
        let out = file.with_extension("out");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&out, &got).expect("the answers can be written");
        } else if std::fs::read_to_string(&out).ok().as_deref() != Some(&got) {
            wrong.push(format!("{} differs; now it is\n{got}", out.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the session with its answers.
fn answered(text: &str) -> String {
    let statements = statements(text);
    let events = text.trim_start_matches("# ").split(':').next().unwrap_or_default();
    let answers = run(&statements, &format!("{events}.events"));
    let mut got: String =
        text.lines().take_while(|l| l.starts_with('#')).map(|l| format!("{l}\n")).collect();
    for (statement, answer) in statements.iter().zip(answers) {
        for (i, line) in statement.lines().enumerate() {
            got += &format!("{}{line}\n", if i == 0 { "> " } else { ".. " });
        }
        got += &answer;
    }
    got
}

fn statements(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for line in text.lines() {
        if let Some(first) = line.strip_prefix("> ") {
            all.push(first.to_owned());
        } else if let (Some(more), Some(last)) = (line.strip_prefix(".. "), all.last_mut()) {
            last.push('\n');
            last.push_str(more);
        }
    }
    all
}

/// Returns the output after each statement, messages and results in their order.
fn run(statements: &[String], events: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let mut child = super::prompt()
        .arg("--replay")
        .arg(folder.join(events))
        .env("TZ", "UTC")
        .stdout(writer.try_clone().expect("a descriptor can be doubled"))
        .stderr(writer)
        .spawn()
        .expect("the built command runs");
    let mut input = child.stdin.take().expect("it was piped");
    for statement in statements {
        writeln!(input, "{statement}\nprint \"{MARK}\"").expect("lines can be sent");
    }
    drop(input);
    let mut output = String::new();
    std::io::Read::read_to_string(&mut reader, &mut output).expect("text comes back");
    child.wait().expect("our own child can be waited for");
    output.split(&format!("{MARK}\n")).map(str::to_owned).collect()
}
