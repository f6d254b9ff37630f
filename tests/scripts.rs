//! Replayed cases: each line of `tests/scripts/cases` is a monitor over a file of events, with its
//! expected output.
//!
//! The format of a line is `NAME EVENTS MONITOR [options]`: `EVENTS.events` is replayed, `NAME.out`
//! and `NAME.json` have the results. `BLESS=1 cargo test --test scripts` rewrites them; review the
//! difference before committing it.

use std::path::{Path, PathBuf};
use std::process::Command;

struct Case<'a> {
    name: &'a str,
    events: &'a str,
    words: Vec<&'a str>,
}

#[test]
fn every_case_prints_the_expected_output() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let text = std::fs::read_to_string(folder.join("cases")).expect("tests/scripts/cases is there");
    let cases: Vec<Case> = text.lines().filter_map(case).collect();
    assert!(cases.len() >= 8, "only {} cases were found", cases.len());
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = Vec::new();
    for case in &cases {
        for (suffix, extra) in [("out", None), ("json", Some("--json"))] {
            let got = replay(&folder, case, extra);
            let file = folder.join(format!("{}.{suffix}", case.name));
            if bless {
                std::fs::write(&file, &got).expect("the expected output can be written");
            } else if std::fs::read_to_string(&file).ok().as_deref() != Some(&got) {
                wrong.push(difference(&file, &got));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_expected_output_is_without_its_case() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let text = std::fs::read_to_string(folder.join("cases")).expect("tests/scripts/cases is there");
    let names: Vec<&str> = text.lines().filter_map(case).map(|c| c.name).collect();
    for entry in std::fs::read_dir(&folder).expect("tests/scripts can be listed").flatten() {
        let path = entry.path();
        let expected = path.extension().is_some_and(|e| e == "out" || e == "json");
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        assert!(!expected || names.contains(&stem), "{} belongs to no case", path.display());
    }
}

fn case(line: &str) -> Option<Case<'_>> {
    let mut words = line.split_whitespace();
    let name = words.next().filter(|w| !w.starts_with('#'))?;
    Some(Case { name, events: words.next()?, words: words.collect() })
}

fn replay(folder: &Path, case: &Case, extra: Option<&str>) -> String {
    let events: PathBuf = folder.join(format!("{}.events", case.events));
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(&case.words)
        .arg("--replay")
        .arg(&events)
        .args(extra)
        .env("TZ", "UTC")
        .env("NO_COLOR", "1")
        .env_remove("PERILUNE_PATH")
        .output()
        .expect("perilune can be executed");
    // Errors are part of the case; the exit status in front of them marks them.
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        text += &format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    text
}

fn difference(file: &Path, got: &str) -> String {
    let expected = std::fs::read_to_string(file).unwrap_or_default();
    let mut text = format!("{} differs:\n", file.display());
    let (mut old, mut new) = (expected.lines(), got.lines());
    loop {
        match (old.next(), new.next()) {
            (None, None) => return text,
            (a, b) if a == b => text += &format!("    {}\n", a.unwrap_or_default()),
            (a, b) => {
                text += &a.map_or(String::new(), |a| format!("  - {a}\n"));
                text += &b.map_or(String::new(), |b| format!("  + {b}\n"));
            }
        }
    }
}
