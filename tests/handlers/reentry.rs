//! Random functions of the API, called from every kind of callback while others run: no record is
//! read as a mixture of two, nothing crashes, and the run ends with its report. `fuzz/reentry.sh`
//! runs the same under valgrind.

mod records;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SCRIPT: &str = include_str!("reentry/monitor.lua");

/// Returns a small recording whose events, tasks and losses are determined by a seed. The fields of
/// an event are determined by its `n`.
fn recording(seed: u64, events: u64) -> String {
    let mut state = seed;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut lines = String::new();
    for n in 1..=events {
        let (cpu, tid) = (random(2), 100 + n % 5);
        let (name, letter, length) =
            [("big", "b", 200), ("small", "s", 3), ("tick", "t", 20)][random(3) as usize];
        let text = letter.repeat(length + n as usize % 7);
        let _ = write!(
            lines,
            "0.{n:03} {cpu} {tid} worker{tid} x:{name}: n={n} text={text}{n} list=[{n},{}]",
            2 * n
        );
        lines.push_str(if random(2) == 0 { " | inner;outer\n" } else { "\n" });
        let _ = match random(12) {
            0 => writeln!(lines, "0.{n:03}1 {cpu} 0 - LOST: n=3"),
            1 => writeln!(lines, "0.{n:03}1 {cpu} {tid} worker EXIT:"),
            2 => writeln!(lines, "0.{n:03}1 {cpu} {tid} worker COMM: comm=other{n}"),
            3 => writeln!(lines, "0.{n:03}1 {cpu} {tid} worker EXEC: comm=exec{n}"),
            4 => writeln!(lines, "0.{n:03}1 {cpu} {} child FORK: ppid={tid} ptid={tid}", 500 + n),
            _ => Ok(()),
        };
    }
    lines
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("the file can be written");
    path
}

/// Writes the script and the recording of this seed.
fn write_both(folder: &Path, seed: u64, calls: u64, events: u64) -> (PathBuf, PathBuf) {
    let script = SCRIPT.replace("SEED_HERE", &seed.to_string());
    let script = write(folder, "reentry.lua", &script.replace("CALLS_HERE", &calls.to_string()));
    (script, write(folder, "reentry.events", &recording(seed, events)))
}

/// Runs the script over the recording of this seed.
fn run(folder: &Path, seed: u64, calls: u64) -> Output {
    let (script, events) = write_both(folder, seed, calls, 100);
    let command = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .arg(script)
        .args(["--json", "-i", "10", "--total", "--replay"])
        .arg(events)
        .stdin(Stdio::null())
        .output();
    command.expect("the built command runs")
}

#[test]
#[ignore = "writes what fuzz/reentry.sh runs"]
fn writes_the_files_of_a_seed() {
    let folder = PathBuf::from(std::env::var_os("PERILUNE_REENTRY").expect("a folder"));
    let seed = std::env::var("PERILUNE_SEED").expect("a seed").parse().expect("a number");
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    write_both(&folder, seed, 100_000, 900);
}

#[test]
fn random_calls_from_every_callback_never_mix_records_and_never_crash() {
    let folder = tempfile::tempdir().expect("a folder for the script");
    let mut calls = 0;
    for seed in 1..=24 {
        let output = run(folder.path(), seed, 20_000);
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1)), "seed {seed}: {:?}\n{text}{errors}", output.status);
        assert!(text.contains("\"final\":true"), "seed {seed}: no last report\n{text}{errors}");
        let said = text.split("calls=").nth(1).and_then(|rest| rest.split_once(" wrong="));
        let (of_seed, rest) =
            said.unwrap_or_else(|| panic!("seed {seed}: no count\n{text}{errors}"));
        assert!(rest.starts_with("0\""), "seed {seed}:\n{text}{errors}");
        calls += of_seed.parse::<u64>().expect("a number of calls");
    }
    assert!(calls > 10_000, "only {calls} calls");
}
