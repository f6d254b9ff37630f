//! The exit code of a run with a command: the command's own code, and how a failure of perilune
//! differs from it.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Command, ExitStatus, Stdio},
};

use crate::live::live_tests;

live_tests! {
    a_command_that_ends_by_itself_gives_its_exit_code,
    a_command_has_one_report_unless_an_interval_is_given,
    realtime_applies_to_the_run_and_not_to_its_command,
    a_run_without_events_reports_this_and_a_possible_reason,
    a_failure_of_perilune_has_a_distinct_exit_code,
    a_run_that_ends_before_its_command_ends_as_asked,
    a_command_still_runs_while_the_last_report_is_made,
    a_quiet_run_prints_only_its_results,
    a_signal_asks_for_a_report_or_ends_the_run_with_the_last,
    results_beyond_the_file_size_limit_are_reported_as_an_error,
}

fn perilune(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn code(words: &[&str]) -> Option<i32> {
    perilune(words).status().expect("the built command runs").code()
}

fn a_command_that_ends_by_itself_gives_its_exit_code() {
    let run = |script: &str| code(&["profile", "-e", "cpu-clock", "--", "sh", "-c", script]);
    assert_eq!(run("exit 0"), Some(0));
    assert_eq!(run("exit 1"), Some(1));
    assert_eq!(run("exit 77"), Some(77));
    assert_eq!(run("kill -9 $$"), Some(128 + 9));
    // With -a the command only determines the length of the run.
    assert_eq!(code(&["profile", "-a", "-e", "cpu-clock", "--", "false"]), Some(1));
}

fn a_command_has_one_report_unless_an_interval_is_given() {
    let calls = |options: &[&str]| {
        let command = ["--json", "--", "sh", "-c", "sleep 0.6; sleep 0.6"];
        let output = perilune(&[&["syscalls"], options, &command].concat())
            .stdout(Stdio::piped())
            .output()
            .expect("the built command runs");
        let rows = String::from_utf8_lossy(&output.stdout).into_owned();
        let slept = |row: &serde_json::Value| row["syscall"] == "clock_nanosleep";
        let rows = rows.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(slept);
        rows.map(|row| row["calls"].as_u64().unwrap_or(0)).collect::<Vec<u64>>()
    };
    assert_eq!(calls(&[]), [2], "one report of both sleeps");
    assert_eq!(calls(&["--total"]), [2], "and no second report of the whole");
    assert_eq!(calls(&["-i", "500"]), [1, 1], "a report for each half second with an ended sleep");
}

fn realtime_applies_to_the_run_and_not_to_its_command() {
    // The 41st field of proc(5) is the policy, first that of perilune, then that of a child of the
    // command. perilune changes its own after it has started the command.
    let script = "for i in $(seq 600); do \
                    [ $(cut -d' ' -f41 /proc/$PPID/stat) = $0 ] && break; sleep 0.1; \
                  done; cut -d' ' -f41 /proc/$PPID/stat /proc/self/stat >&2";
    let policies = |options: &[&str], expected: i32| {
        let expected = expected.to_string();
        let command = ["--", "sh", "-c", script, &expected];
        let words = [&["profile", "-q", "-e", "cpu-clock"], options, &command];
        let ran = perilune(&words.concat()).stderr(Stdio::piped()).output();
        String::from_utf8_lossy(&ran.expect("the built command runs").stderr).into_owned()
    };
    let fair = libc::SCHED_OTHER;
    // SAFETY: it has no preconditions.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // A nice value other than 0 was set by the user and is not changed.
    let real_time = if nice == 0 { libc::SCHED_RR } else { fair };
    let run = policies(&["--realtime"], real_time);
    assert!(run.ends_with(&format!("{real_time}\n{fair}\n")), "{run}");
    assert_eq!(policies(&[], fair), format!("{fair}\n{fair}\n"));
}

fn a_run_without_events_reports_this_and_a_possible_reason() {
    let output = perilune(&["profile", "-e", "cpu-clock", "-F", "1", "--", "true"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .expect("the built command runs");
    let [out, err] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
    assert!(out.lines().count() == 1 && out.ends_with(" nothing to show\n"), "{out}");
    assert!(err.contains("note: no events in ") && err.contains("; try -F 9999"), "{err}");
}

fn a_failure_of_perilune_has_a_distinct_exit_code() {
    assert_eq!(code(&["profile", "-e", "cpu-clock", "--", "/there/is/no/command"]), Some(127));
    assert_eq!(code(&["profile", "-e", "cpu-clock", "--", "/etc/passwd"]), Some(126));
    assert_eq!(code(&["trace", "-e", "sched:there_is_no_event", "--", "true"]), Some(125));
    assert_eq!(code(&["trace", "-e", "sched:there_is_no_event"]), Some(1));
    let failing = "probe('sched:sched_process_exec', function(e) error 'wrong' end)";
    assert_eq!(code(&["eval", failing, "--", "true"]), Some(125));
    assert_eq!(code(&["profile", "--there-is-no-option", "--", "true"]), Some(2));
}

fn a_run_that_ends_before_its_command_ends_as_asked() {
    let sleep = ["profile", "-e", "cpu-clock", "--", "sleep", "60"];
    assert_eq!(code(&[&["profile", "--duration", "100ms"], &sleep[1..]].concat()), Some(0));
    let mut child =
        perilune(&sleep).stderr(Stdio::piped()).spawn().expect("the built command runs");
    // It prints its greeting once it handles signals.
    let mut greeting = String::new();
    let stderr = child.stderr.take().expect("a pipe");
    BufReader::new(stderr).read_line(&mut greeting).expect("it can be read");
    assert!(greeting.contains("Ctrl-C"), "{greeting}");
    let pid = i32::try_from(child.id()).expect("a pid");
    // SAFETY: it takes no pointer; the child is not reaped before it is waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    assert_eq!(child.wait().ok(), Some(ExitStatus::from_raw(0)));
}

/// Starts a run and waits for its greeting. Returns the process and its stderr.
fn begun(words: &[&str]) -> (std::process::Child, BufReader<std::process::ChildStderr>) {
    let mut command = perilune(words);
    let default_hangup = || {
        // SAFETY: async-signal-safe; it sets the default action of a valid signal.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
        Ok(())
    };
    // Under nohup, the tests ignore SIGHUP, and perilune would go on to ignore it.
    // SAFETY: the function only makes an async-signal-safe call between fork and exec.
    unsafe { command.pre_exec(default_hangup) };
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = piped.expect("the built command runs");
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut greeting = String::new();
    errors.read_line(&mut greeting).expect("it can be read");
    assert!(greeting.contains("Ctrl-C"), "{greeting}");
    (child, errors)
}

fn send(child: &std::process::Child, signal: i32) {
    let pid = i32::try_from(child.id()).expect("a pid");
    // SAFETY: it takes no pointer; the child is not reaped before it is waited for.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

fn a_signal_asks_for_a_report_or_ends_the_run_with_the_last() {
    const COUNTS: &str =
        "by = kv { 'x' } probe('sched:sched_process_exec', function(e) by:add(1) end)";
    for end in [libc::SIGTERM, libc::SIGHUP] {
        let (mut child, _errors) = begun(&["eval", COUNTS, "--json"]);
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut total = 0;
        for (programs, signal) in [(2, libc::SIGUSR1), (3, libc::SIGUSR2), (4, end)] {
            for _ in 0..programs {
                assert!(std::process::Command::new("true").status().expect("it runs").success());
            }
            total += programs;
            // Waits for the executed programs' events, so that the report includes them.
            std::thread::sleep(std::time::Duration::from_millis(100));
            send(&child, signal);
            let row = lines.find_map(|line| {
                let line = line.expect("text");
                line.contains("\"type\":\"row\"").then_some(line)
            });
            let row: serde_json::Value =
                serde_json::from_str(&row.expect("a report")).expect("a line of JSON");
            // Other tasks of the machine execute programs, too.
            assert!(row["count"].as_u64() >= Some(programs), "{row}");
        }
        let last =
            lines.map(|line| line.expect("text")).find(|line| line.contains("\"final\":true"));
        let last: serde_json::Value =
            serde_json::from_str(&last.expect("the last coverage")).expect("a line of JSON");
        assert!(last["events"].as_u64() >= Some(total), "{last}");
        assert_eq!(child.wait().ok(), Some(ExitStatus::from_raw(0)));
    }
}

fn a_command_still_runs_while_the_last_report_is_made() {
    // The loop gives a command that has been sent SIGTERM the time to end.
    const SCRIPT: &str = "local m, pid = monitor { summary = 'x' }, nil\n\
         function m.init() evsel('raw_syscalls:sys_enter', function(e) pid = e._pid end) end\n\
         function m.deinit()\n\
           for i = 1, 1e8 do pid = pid + i % 2 - (i + 1) % 2 end\n\
           print('its input is', fd_path(pid, 0))\n\
         end\nreturn m\n";
    let folder = tempfile::tempdir().expect("a folder can be made");
    let script = folder.path().join("input.lua");
    std::fs::write(&script, SCRIPT).expect("it can be written");
    let words = [script.to_str().expect("UTF-8"), "--duration", "500ms", "--", "sleep", "60"];
    let output = perilune(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .expect("the built command runs");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("its input is\t/dev/null"), "{text}");
    assert!(text.contains("perilune sent SIGTERM"), "{text}");
    assert_eq!(output.status.code(), Some(0));
}

fn a_quiet_run_prints_only_its_results() {
    const COUNT: &str = "probe('raw_syscalls:sys_enter')";
    for format in ["--json", "--csv"] {
        let output = perilune(&["eval", COUNT, format, "-q", "--duration", "200ms"])
            .stderr(Stdio::piped())
            .output()
            .expect("the built command runs");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{format}");
        assert!(output.status.success());
    }
}

fn results_beyond_the_file_size_limit_are_reported_as_an_error() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("out.txt");
    let program = env!("CARGO_BIN_EXE_perilune");
    let run = "ulimit -f 1; exec \"$0\" trace -e sched:sched_switch --duration 2s -o \"$1\"";
    let output = std::process::Command::new("bash")
        .args(["-c", run, program, path.to_str().expect("UTF-8")])
        .output()
        .expect("bash runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("File too large"), "{errors}");
}
