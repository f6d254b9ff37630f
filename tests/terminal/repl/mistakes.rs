//! Mistakes in typed lines are reported before anything is opened, and are not saved.

use std::process::Command;
use std::time::{Duration, Instant};

use super::piped::{NO_FILES, Session, close_in_vain, counting};
use crate::live::live_tests;
use crate::pty::PATIENCE;

live_tests! {
    a_misspelt_field_is_reported_before_any_event_is_opened,
    a_misspelt_field_of_eval_is_reported_before_any_event_is_opened,
    a_failed_handler_is_not_saved_as_a_working_one,
    nothing_is_saved_if_the_handlers_of_all_events_have_failed,
    a_count_whose_key_is_misspelt_leaves_no_event_behind,
    a_line_stops_at_its_mistake_and_a_refused_probe_leaves_no_state,
    a_line_that_other_lines_need_is_saved_although_its_handler_failed,
}

const MISSPELT: &str = "syscalls:sys_enter_close has no field 'fdd'; did you mean 'fd'?";

fn a_misspelt_field_is_reported_before_any_event_is_opened() {
    let first = NO_FILES[8];
    let mut session = Session::heard(&[]);
    assert_eq!(session.ask("n = 0"), "");
    let before = session.events();
    for (number, word) in [(3, "probe"), (6, "evsel")] {
        let line = format!("{word}(\"syscalls:sys_enter_close\",\nfunction(e) n = e.fdd end)");
        let wanted = format!("perilune: prompt:{}: {MISSPELT}", number + 1);
        assert_eq!(session.ask(&line), wanted);
    }
    assert_eq!(session.events(), before);
    session.ask(&format!("p = probe(\"syscalls:sys_enter_close\", {})", counting(first, 1)));
    assert!(session.events() > before);
    for word in ["replace", "each"] {
        let answer = session.ask(&format!("p:{word}(function(e) n = e.fdd end)"));
        assert!(answer.ends_with(MISSPELT), "{answer}");
    }
    close_in_vain(first, 10);
    session.reaches("n", 10);
    // Both methods replace the handler of an open event.
    session.ask(&format!("p:each({})", counting(first, 100)));
    close_in_vain(first, 1);
    session.reaches("n", 110);
    assert_eq!(session.end(), 1, "lines have failed");
}

fn a_misspelt_field_of_eval_is_reported_before_any_event_is_opened() {
    let probe = "probe(\"syscalls:sys_enter_close\", function(e) n = e.fdd end)";
    for words in [&["-e", "syscalls:sys_enter_close", "n = e.fdd"][..], &[probe]] {
        let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .arg("eval")
            .args(words)
            .args(["--duration", "120s"])
            .env_remove("PERILUNE_PATH")
            .output()
            .expect("the built command runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said, format!("perilune: eval:1: {MISSPELT}\n"));
        assert_eq!(output.status.code(), Some(1));
    }
}

fn a_failed_handler_is_not_saved_as_a_working_one() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("closes.lua");
    let path = path.to_str().expect("a path in UTF-8");
    let first = NO_FILES[9];
    let mut session = Session::heard(&[]);
    session.ask("n = 0");
    let probe =
        |text: &str| format!("probe(\"syscalls:sys_enter_close\", function(e)\n{text} end)");
    let fails = format!("if e.fd == {first} then n = 1 error \"bad\" end");
    for line in [probe(&fails), format!("p = {}", probe(&fails))] {
        session.ask(&line);
        session.ask("n = 0");
        close_in_vain(first, 1);
        session.reaches("n", 1);
    }
    session.ask(&probe("n = n + 0"));
    session.ask(&format!(":save {path}"));
    let saved = session.ask(&format!(":save {path}"));
    assert!(saved.contains("; omitted 1 handler that failed here; fix 1 handler in it"), "{saved}");
    let text = std::fs::read_to_string(path).expect("it was written");
    let remarks: Vec<&str> = text.lines().filter(|line| line.starts_with("  -- ")).collect();
    let why = "  -- Its handler failed at the prompt:";
    let [said, probe, rest, again] = remarks[..] else { panic!("{text}") };
    assert_eq!([said, again], [why, why]);
    assert!(probe.starts_with("  -- probe(") && rest.ends_with("end)"), "{text}");
    // The other line may be needed, because it assigns a global.
    assert!(text.contains("\n  p = probe("), "{text}");
    session.end();
}

fn nothing_is_saved_if_the_handlers_of_all_events_have_failed() {
    let first = NO_FILES[9] + 5;
    let mut session = Session::heard(&[]);
    session.ask("n = 0");
    session.ask(&format!(
        "probe(\"syscalls:sys_enter_close/fd == {first}/\", function(e) n = 1 error \"bad\" end)"
    ));
    session.ask("n = 0");
    close_in_vain(first, 1);
    session.reaches("n", 1);
    let why = session.ask(":save closes");
    assert!(why.contains("save: the handlers of all events have failed"), "{why}");
    session.end();
}

fn a_count_whose_key_is_misspelt_leaves_no_event_behind() {
    let mut session = Session::heard(&[]);
    assert_eq!(session.ask("n = 0"), "");
    let before = session.events();
    let why = session.ask("count(\"syscalls:sys_enter_close\", \"fdd\")");
    assert!(why.contains(MISSPELT), "{why}");
    let since = Instant::now();
    // Another thread closes the events.
    while session.events() != before && since.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(session.events(), before);
    close_in_vain(NO_FILES[8], 10);
    assert_eq!(session.ask("run \"100ms\""), "");
    assert_eq!(session.end(), 1, "a line has failed");
}

fn a_line_stops_at_its_mistake_and_a_refused_probe_leaves_no_state() {
    let first = NO_FILES[4];
    let mut session = Session::heard(&[]);
    session.ask("n = 0");
    session.ask(&format!("p = probe(\"syscalls:sys_enter_close\", {})", counting(first, 1)));
    let other = "q = probe(\"syscalls:sys_enter_getppid\", function() end)";
    let before = session.events();
    for change in ["replace(function(e) n = e.fdd end)", "filter(\"fdd == 1\")"] {
        let why = session.ask(&format!("p:{change} {other}"));
        assert!(why.contains("'fd'"), "{why}");
        assert_eq!(session.events(), before);
        assert!(session.ask("q").contains("no global 'q'"));
    }
    // Neither affects the next line, or the existing probe.
    assert_eq!(session.ask(other), "");
    assert!(session.events() > before);
    close_in_vain(first, 10);
    session.reaches("n", 10);
    // The tables of a rejected handler are freed: it is rejected more often than there is room for
    // tables.
    let refused = "function() local t = kv { \"x\" } \
                   return probe(\"syscalls:sys_enter_close\", function(e) t:add(e.fdd) end) end";
    let printed =
        session.ask(&format!("for i = 1, 1100 do ok, why = pcall({refused}) end print(why)"));
    assert!(printed.ends_with(MISSPELT), "{printed}");
    session.end();
}

fn a_line_that_other_lines_need_is_saved_although_its_handler_failed() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("closes.lua");
    let path = path.to_str().expect("a path in UTF-8");
    let first = NO_FILES[10];
    let fails = |then: &str| {
        format!(
            "probe(\"syscalls:sys_enter_close\", function(e) if e.fd == {first} then n = n + 1 \
             error \"bad\" end end) {then}"
        )
    };
    let mut session = Session::heard(&[]);
    session.ask("n = 0");
    // The first line also defines a table that other lines may read, the second an event that
    // works.
    session.ask(&fails("by = kv { \"x\" }"));
    session.ask(&fails("probe(\"syscalls:sys_enter_getppid\", function() by:add(1) end)"));
    close_in_vain(first, 1);
    session.reaches("n", 2);
    session.ask(&format!(":save {path}"));
    let saved = session.ask(&format!(":save {path}"));
    assert!(saved.contains("; fix 2 handlers in it") && !saved.contains("omitted"), "{saved}");
    let text = std::fs::read_to_string(path).expect("it was written");
    assert!(!text.contains("-- probe("), "{text}");
    session.end();
}
