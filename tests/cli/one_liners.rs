//! Runs each line of `docs/one-liners.md` that has a recording, and compares its output, byte for
//! byte. `tests/event` runs the others.
//!
//! `BLESS=1 cargo test --test cli one_liner` rewrites `tests/scripts/one-liners.txt`; review the
//! difference.

use std::path::Path;

use crate::one_liner::{one_liners, run, text};

#[test]
fn each_one_liner_over_a_recording_prints_the_expected_output() {
    let mut got = String::new();
    for one in one_liners().iter().filter(|one| one.from.starts_with("events:")) {
        let events = format!("tests/scripts/{}.events", one.from.trim_start_matches("events:"));
        let output = run(&one.line, &format!("--replay {events}"));
        got += &format!("$ {}\n{}", one.line, text(&output));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts/one-liners.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &got).expect("the expected output can be written");
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(got == expected, "{} differs; now it is\n{got}", file.display());
}

#[test]
fn there_are_at_least_twenty_one_liners() {
    assert!(one_liners().len() >= 20, "{}", one_liners().len());
}
