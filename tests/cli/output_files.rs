//! The files of several options in one run: each has what it shows, and no two have one name.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Runs `trace` in the folder, over a recording of four switches, three of them with a stack.
fn trace(folder: &TempDir, more: &[&str]) -> Output {
    let events = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts/stacks.events");
    Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["trace", "-e", "sched:sched_switch"])
        .args(more)
        .arg("--replay")
        .arg(events)
        .current_dir(folder.path())
        .output()
        .expect("perilune can be executed")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn each_file_has_the_events() {
    for options in [
        &["--flame-graph", "x"][..],
        &["--perfetto", "t", "--flame-graph", "x", "--pprof", "p"][..],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let ran = trace(&folder, &[options, &["--parquet", "d"]].concat());
        let said = text(&ran.stderr);
        assert!(ran.status.success() && ran.stdout.is_empty(), "{options:?}: {said}");
        // The fifth one is the coverage.
        assert!(said.contains("wrote 5 rows in 2 files"), "{options:?}: {said}");
        let folded = options.contains(&"--flame-graph").then(|| {
            let folded = fs::read_to_string(folder.path().join("x.folded")).unwrap();
            folded.lines().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
        });
        let expected: Vec<String> = vec!["1".to_owned(), "2".to_owned()];
        assert!(folded.is_none_or(|counts: Vec<_>| counts == expected), "{options:?}: {said}");
        assert_eq!(said.contains("p (2 stacks)"), options.contains(&"--pprof"), "{said}");
    }
}

#[test]
fn two_files_of_one_name_are_refused_before_the_run() {
    for (options, why) in [
        (["--flame-graph", "x", "--heatmap", "x.svg"], "--flame-graph and --heatmap"),
        (["--flame-graph", "x", "-o", "x.folded"], "-o and --flame-graph"),
        (["--flame-graph", "x", "--perfetto", "./x.svg"], "--perfetto and --flame-graph"),
        (["--pprof", "x", "--firefox", "x"], "--pprof and --firefox"),
        (["--heatmap", "x", "-o", "x.lat"], "-o and --heatmap"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let ran = trace(&folder, &options);
        let said = text(&ran.stderr);
        assert!(!ran.status.success(), "{options:?}: {said}");
        assert!(said.contains(&format!("{why} may both write ")), "{options:?}: {said}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{options:?}");
    }
}
