//! The full screen on a pseudo terminal: it reacts to keys and sizes, and restores the terminal
//! however the run ends.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use crate::live::live_tests;
use crate::pty::{CTRL_C, DOWN, OnTerminal, UP};

live_tests! {
    the_screen_sorts_by_keys_and_leaves_a_report_behind,
    the_second_interrupt_stops_a_pattern_that_backtracks_and_leaves_the_terminal_as_it_was,
    a_quit_signal_leaves_the_terminal_as_it_was,
    a_stop_signal_restores_the_terminal_first,
    a_stopped_run_does_not_write_to_the_terminal_in_the_background,
    a_stopped_handler_is_reported_on_the_screen_and_after_it,
    a_terminal_that_is_too_small_gets_text_until_it_is_resized,
    batch_and_json_are_never_a_screen,
    a_table_of_times_omits_the_minimum_to_fit_the_terminal,
    a_long_close_shows_its_progress_and_removes_it,
}

fn a_table_of_times_omits_the_minimum_to_fit_the_terminal() {
    let words = ["locks", "--holder", "--replay", "tests/scripts/locks.events"];
    let (status, text) = OnTerminal::start(80, 20, &words).finish();
    assert_eq!(status.code(), Some(0), "{text}");
    let without_colours = |line: &str| {
        let mut parts = line.split("\x1b[");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.filter_map(|part| part.split_once('m')).fold(first, |all, (_, text)| all + text)
    };
    let lines: Vec<String> = text.lines().map(without_colours).collect();
    let titles = lines.iter().find(|line| line.contains("held by")).expect("titles");
    assert!(titles.contains("avg(us)") && !titles.contains("min(us)"), "{text}");
    let mut rows = lines.iter().filter(|line| !line.starts_with("perilune:"));
    assert!(rows.all(|row| row.trim_end().chars().count() <= 80), "{text}");
}

fn a_long_close_shows_its_progress_and_removes_it() {
    // The kernel needs 35 ms for each of these tracepoints.
    let words = ["trace", "-e", "syscalls:sys_enter_s*", "--json", "--duration", "50ms"];
    let mut trace = OnTerminal::start(100, 20, &words);
    trace.wait_for("perilune: closing events: ");
    let (status, after) = trace.finish();
    assert_eq!(status.code(), Some(0), "{after}");
    assert!(after.ends_with("\r\x1b[K"), "{after:?}");
}

fn the_screen_sorts_by_keys_and_leaves_a_report_behind() {
    for end in ["q", CTRL_C] {
        let mut top = top(100, 20, &["-i", "200"]);
        top.wait_for(UP);
        top.wait_for("SCHED_SWITCH");
        top.press(">");
        // Unchanged blanks are not written, so the words arrive one by one.
        top.wait_for("[by");
        top.press("\x1b[C");
        top.wait_for("SCHED_SWITCH]");
        top.press("/swap\r");
        top.wait_for("[/swap]");
        top.press(end);
        let (status, after) = top.finish();
        assert_eq!(status.code(), Some(0), "{end:?}: {after}");
        assert!(after.contains("  sample ") && after.contains("COMM"), "{end:?}: {after}");
    }
}

fn the_second_interrupt_stops_a_pattern_that_backtracks_and_leaves_the_terminal_as_it_was() {
    let mut stuck = script("local s = ('a'):rep(40) s:find(('a?'):rep(40) .. s)");
    stuck.wait_for(UP);
    stuck.wait_until_it_spins();
    for _ in 0..2 {
        stuck.press(CTRL_C);
        std::thread::sleep(Duration::from_millis(100));
    }
    let (status, after) = stuck.finish();
    assert_eq!(status.code(), Some(1), "{after}");
    assert!(after.contains("handler stopped by Ctrl-C"), "{after}");
}

fn a_quit_signal_leaves_the_terminal_as_it_was() {
    let mut top = top(100, 20, &["-i", "200"]);
    top.wait_for(UP);
    top.wait_for("SCHED_SWITCH");
    // SAFETY: a child of this process that has not been waited for.
    unsafe { libc::kill(top.child.id() as i32, libc::SIGQUIT) };
    let (status, after) = top.finish();
    assert_eq!(status.signal(), Some(libc::SIGQUIT), "{after}");
}

fn a_stop_signal_restores_the_terminal_first() {
    let mut top = top(100, 20, &["-i", "200"]);
    top.wait_for(UP);
    top.wait_for("SCHED_SWITCH");
    // SAFETY: a child of this process that has not been waited for. Without a shell that could
    // continue it, it continues immediately.
    unsafe { libc::kill(top.child.id() as i32, libc::SIGTSTP) };
    top.wait_for(DOWN);
    top.wait_for(UP);
    top.press("q");
    let (status, after) = top.finish();
    assert_eq!(status.code(), Some(0), "{after}");
}

fn a_stopped_run_does_not_write_to_the_terminal_in_the_background() {
    let job = "set -m; \"$@\"; echo stopped $?; bg; read -r line; echo got $line; fg; exit $?";
    let command = env!("CARGO_BIN_EXE_perilune");
    // If the test fails, the shell may leave it running.
    let bounded = ["--duration", "60s", "-i", "200"];
    let top = [command, "top", "-e", "sched:sched_switch"].into_iter().chain(bounded);
    let words: Vec<&str> = ["-c", job, "sh"].into_iter().chain(top).collect();
    let mut shell = OnTerminal::run("sh", 100, 20, &words);
    shell.wait_for(UP);
    shell.wait_for("SCHED_SWITCH");
    shell.press("\x1a");
    shell.wait_for(DOWN);
    shell.wait_for("stopped ");
    // In the background it prints text.
    shell.wait_for("  sample ");
    shell.press("a line\r");
    shell.wait_for("got a line");
    shell.wait_for(UP);
    shell.press("q");
    let (status, after) = shell.finish();
    assert_eq!(status.code(), Some(0), "{after}");
}

fn a_stopped_handler_is_reported_on_the_screen_and_after_it() {
    let mut runaway = script("while true do end");
    runaway.wait_for(UP);
    runaway.wait_for("it ran for over");
    runaway.press("q");
    let (status, after) = runaway.finish();
    assert_eq!(status.code(), Some(1), "{after}");
    assert!(after.contains("it ran for over"), "{after}");
}

fn a_terminal_that_is_too_small_gets_text_until_it_is_resized() {
    let mut top = top(30, 5, &["-i", "200"]);
    top.wait_for("  sample ");
    assert!(!top.text().contains(UP), "{}", top.text());
    top.resize(100, 20);
    top.wait_for(UP);
    top.wait_for("q quit");
    top.resize(20, 4);
    top.wait_for(DOWN);
    top.wait_for("  sample ");
    top.press(CTRL_C);
    let (status, after) = top.finish();
    assert_eq!(status.code(), Some(0), "{after}");
}

fn batch_and_json_are_never_a_screen() {
    for (option, sign) in [("--batch", "  sample "), ("--json", "\"coverage\"")] {
        let mut top = top(100, 20, &["-i", "200", option]);
        top.wait_for(sign);
        top.press(CTRL_C);
        let text = top.text();
        let (status, after) = top.finish();
        assert_eq!(status.code(), Some(0), "{after}");
        assert!(!text.contains(UP) && !after.contains(DOWN), "{option}: {text}{after}");
    }
}

fn top(columns: u16, rows: u16, options: &[&str]) -> OnTerminal {
    let mut words = vec!["top", "-e", "sched:sched_switch"];
    words.extend(options);
    OnTerminal::start(columns, rows, &words)
}

/// Starts a monitor with a screen and this handler.
fn script(handler: &str) -> OnTerminal {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("x.lua");
    let text = format!(
        "local m = monitor {{ summary = \"x\", screen = true, every = \"200ms\" }}\n\
         function m.init()\n local t = kv {{ \"comm\" }}\n \
         evsel(\"sched:sched_switch\", \
         function(e) t:add(e.prev_comm) {handler} end)\nend\nreturn m\n"
    );
    std::fs::write(&path, text).expect("a script can be written");
    let mut started = OnTerminal::start(100, 20, &[path.to_str().expect("a path in UTF-8")]);
    // By then the script has been read.
    started.wait_for(UP);
    started.at = 0;
    started
}
