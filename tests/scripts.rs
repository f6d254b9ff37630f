//! Replayed cases: each line of `tests/scripts/cases` is a monitor over a file of events, with its
//! expected output.
//!
//! The format of a line is `NAME EVENTS MONITOR [options]`: `EVENTS.events` is replayed, `NAME.out`
//! and `NAME.json` have the results; a case with `--csv` has only the first. Each case is a test of
//! this name: `cargo test --test scripts NAME` runs those whose names contain NAME. With `BLESS=1`
//! it rewrites their results; review the difference before committing it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};

/// Minimum number of cases: fewer are a mistake in reading them.
const CASES_MIN: usize = 8;

struct Case {
    name: String,
    events: String,
    words: Vec<String>,
}

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let text = std::fs::read_to_string(folder.join("cases")).expect("tests/scripts/cases is there");
    let cases: Vec<Case> = text.lines().filter_map(case).collect();
    let names: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    let mut tests: Vec<Trial> = cases
        .into_iter()
        .map(|case| {
            let folder = folder.clone();
            Trial::test(case.name.clone(), move || prints_the_expected_output(&folder, &case))
        })
        .collect();
    let rest = move || each_expected_output_has_a_case(&folder, &names);
    tests.push(Trial::test("each_expected_output_has_a_case", rest));
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

fn prints_the_expected_output(folder: &Path, case: &Case) -> Result<(), Failed> {
    let mut wrong = String::new();
    let all = [("out", None), ("json", Some("--json"))];
    let formats = if case.words.iter().any(|word| word == "--csv") { &all[..1] } else { &all };
    for &(suffix, extra) in formats {
        let got = replay(folder, case, extra);
        let file = folder.join(format!("{}.{suffix}", case.name));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&file, &got).expect("the expected output can be written");
        } else if std::fs::read_to_string(&file).ok().as_deref() != Some(&got) {
            wrong += &difference(&file, &got);
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.into()) }
}

fn each_expected_output_has_a_case(folder: &Path, names: &[String]) -> Result<(), Failed> {
    assert!(names.len() >= CASES_MIN, "only {} cases were found", names.len());
    for entry in std::fs::read_dir(folder).expect("tests/scripts can be listed").flatten() {
        let path = entry.path();
        let expected = path.extension().is_some_and(|e| e == "out" || e == "json");
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        if expected && !names.iter().any(|name| name == stem) {
            return Err(format!("{} belongs to no case", path.display()).into());
        }
    }
    Ok(())
}

fn case(line: &str) -> Option<Case> {
    let mut words = line.split_whitespace().map(str::to_owned);
    let name = words.next().filter(|word| !word.starts_with('#'))?;
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
