//! Results that cannot be written: a closed standard output, a full disk.

use std::process::Command;

/// Returns the exit code and stderr of the built command with its stdout redirected by a shell.
fn redirected(words: &str, to: &str) -> (Option<i32>, String) {
    let shell = format!("exec \"$0\" {words} {to}");
    let ran = Command::new("sh")
        .args(["-c", &shell, env!("CARGO_BIN_EXE_perilune")])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("a shell");
    (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

/// Commands that print something and need no privilege.
const PRINTING: [&str; 10] = [
    "--help",
    "--version",
    "monitors",
    "doctor",
    "help top",
    "syscalls --help",
    "signal --replay tests/scripts/signal.events",
    "signal --replay tests/scripts/signal.events --json",
    "syscalls --replay tests/scripts/sys.events",
    "syscalls --replay tests/scripts/sys.events --csv",
];

#[test]
fn results_that_cannot_be_written_are_reported_as_a_failure() {
    for words in PRINTING {
        for (to, why) in [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
        {
            let (code, said) = redirected(words, to);
            assert_eq!(code, Some(1), "{words} {to}: {said}");
            let line = format!("perilune: failed to write the results: {why}");
            assert!(said.contains(&line), "{words} {to}: {said}");
        }
    }
}

#[test]
fn results_that_go_to_a_file_need_no_stdout() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("out");
    let words = format!("signal --replay tests/scripts/signal.events -q -o {}", file.display());
    assert_eq!(redirected(&words, ">&-"), (Some(0), String::new()));
    assert!(std::fs::read_to_string(&file).expect("it was written").contains("comm=nginx"));
    assert_eq!(redirected("monitors", ">/dev/null"), (Some(0), String::new()));
}

#[test]
fn a_file_of_results_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let fifo = folder.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.is_ok_and(|status| status.success()));
    let fifo = fifo.display().to_string();
    for (file, why) in [
        ("/dev/full", "failed to write the results: /dev/full: No space left on device".to_owned()),
        (&*fifo, format!("-o: no process reads the FIFO `{fifo}`; start its reader first")),
    ] {
        for format in ["", "--json", "--events"] {
            let words = format!("signal --replay tests/scripts/signal.events {format} -o {file}");
            let (code, said) = redirected(&words, "");
            assert_eq!(code, Some(1), "{words}: {said}");
            assert!(said.contains(&format!("perilune: {why}")), "{words}: {said}");
        }
    }
}

#[test]
fn results_of_a_prompt_with_a_pipe_that_cannot_be_written_are_a_failure() {
    let lines = "<<END\nprint(1)\nEND";
    let words = "repl --replay tests/scripts/sched.events";
    for (to, why) in [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")] {
        let (code, said) = redirected(words, &format!("{to} {lines}"));
        assert_eq!(code, Some(1), "{to}: {said}");
        assert!(said.contains(&format!("failed to write the results: {why}")), "{to}: {said}");
    }
    // A reader that closes the pipe early is not an error.
    let shell = format!("(sleep 0.2; echo 'print(1)') | {{ \"$0\" {words}; echo $? >&2; }} | true");
    let ran = Command::new("bash")
        .args(["-c", &shell, env!("CARGO_BIN_EXE_perilune")])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("a shell");
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "0\n");
}
