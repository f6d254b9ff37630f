//! Runs each line of `docs/one-liners.md` and compares its output: over a recording, byte for byte,
//! or live, with a command.
//!
//! `BLESS=1 cargo test --test cli one_liner` rewrites `tests/scripts/one-liners.txt`; review the
//! difference.

use std::path::Path;
use std::process::{Command, Output};

/// A line, and the source of its events: `events:NAME` or `with:COMMAND`.
struct OneLiner {
    line: String,
    from: String,
}

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

/// A part of a line, and a check of the line's output.
type Check = (&'static str, fn(&str) -> bool);

/// Checks of the live lines' output, by a part of the line. The programs of
/// [`each_live_one_liner_counts_its_command`] are three times `/bin/true`, and the shell that
/// starts them.
const LIVE: [Check; 9] = [
    ("emit { pid = e._pid, file", |text| text.matches("file=/bin/true").count() == 3),
    ("by:add(e.filename)", |text| has_row(text, &["/bin/true", "3"])),
    ("uprobe:bash:shell_execve", |text| has_row(text, &["bash", "3"])),
    ("uretprobe:bash:make_child", |text| {
        text.lines().any(|line| line.split_whitespace().take(2).eq(["bash", "3"]))
    }),
    ("by:add(e.parent_comm)", |text| has_row(text, &["sh", "3"])),
    ("'probe \"sched:sched_process_exec\"'", |text| {
        text.matches("filename=/bin/true").count() == 3
    }),
    ("raw_syscalls:sys_enter", |text| has_row(text, &["execve", "3"])),
    ("sys_enter_openat", |text| text.lines().any(|line| line.trim_start().starts_with("true "))),
    ("\"page-faults\"", |text| text.lines().any(|line| line.trim_start().starts_with("true "))),
];

#[test]
fn each_live_one_liner_counts_its_command() {
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        assert!(std::env::var_os("CI").is_none(), "cannot run on a build machine: not root");
        return;
    }
    let live = one_liners().into_iter().filter(|one| one.from.starts_with("with:"));
    let mut seen = 0;
    for one in live {
        let command = one.from.trim_start_matches("with:");
        let output = run(&one.line, &format!("-- {command}"));
        let (_, holds) =
            LIVE.iter().find(|(part, _)| one.line.contains(part)).expect("it has a check comment");
        let text = text(&output);
        assert!(output.status.success() && holds(&text), "{}:\n{text}", one.line);
        seen += 1;
    }
    assert_eq!(seen, LIVE.len());
}

#[test]
fn there_are_at_least_twenty_one_liners() {
    assert!(one_liners().len() >= 20, "{}", one_liners().len());
}

/// Returns whether a line consists of exactly these words.
fn has_row(text: &str, words: &[&str]) -> bool {
    text.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == words)
}

fn one_liners() -> Vec<OneLiner> {
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
fn run(line: &str, more: &str) -> Output {
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

fn text(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => text,
        false => format!("{text}{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)),
    }
}
