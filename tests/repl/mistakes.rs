//! Mistakes in what is typed: told before anything is opened, and not saved.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::piped::{NO_FILES, Session, close_in_vain, counting};
use crate::terminal::can_trace;

const MISSPELT: &str = "syscalls:sys_enter_close has no field 'fdd'; did you mean 'fd'?";

#[test]
fn a_misspelt_field_is_told_before_anything_is_opened() {
    if !can_trace("a misspelt field") {
        return;
    }
    let first = NO_FILES[8];
    let mut session = Session::heard();
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
    // Both words give an open event another handler.
    session.ask(&format!("p:each({})", counting(first, 100)));
    close_in_vain(first, 1);
    session.reaches("n", 110);
    assert_eq!(session.end(), 1, "lines have failed");
}

#[test]
fn a_field_that_eval_misspells_is_told_before_anything_is_opened() {
    if !can_trace("a misspelt field of eval") {
        return;
    }
    let probe = "probe(\"syscalls:sys_enter_close\", function(e) n = e.fdd end)";
    for words in [&["-e", "syscalls:sys_enter_close", "n = e.fdd"][..], &[probe]] {
        let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .arg("eval")
            .args(words)
            .args(["--duration", "10s"])
            .env_remove("PERILUNE_PATH")
            .output()
            .expect("the built command runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said, format!("perilune: eval:1: {MISSPELT}\n"));
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_handler_that_failed_is_not_saved_as_one_that_works() {
    if !can_trace("a saved session with a handler that failed") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("closes.lua");
    let path = path.to_str().expect("a path in UTF-8");
    let first = NO_FILES[9];
    let mut session = Session::heard();
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
    assert!(
        saved.contains("; 1 handler that failed here left out; mend 1 handler in it"),
        "{saved}"
    );
    let text = std::fs::read_to_string(path).expect("it was written");
    let remarks: Vec<&str> = text.lines().filter(|line| line.starts_with("  -- ")).collect();
    let why = "  -- Its handler failed at the prompt:";
    let [said, probe, rest, again] = remarks[..] else { panic!("{text}") };
    assert_eq!([said, again], [why, why]);
    assert!(probe.starts_with("  -- probe(") && rest.ends_with("end)"), "{text}");
    // The other line may be needed: something has its name.
    assert!(text.contains("\n  p = probe("), "{text}");
    session.end();
}

#[test]
fn a_count_whose_key_is_misspelt_leaves_no_event_behind() {
    if !can_trace("a misspelt key of count") {
        return;
    }
    let mut session = Session::heard();
    assert_eq!(session.ask("n = 0"), "");
    let before = session.events();
    let why = session.ask("count(\"syscalls:sys_enter_close\", \"fdd\")");
    assert!(why.contains(MISSPELT), "{why}");
    let since = Instant::now();
    // Another thread closes them.
    while session.events() != before && since.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(session.events(), before);
    close_in_vain(NO_FILES[8], 10);
    assert_eq!(session.ask("run \"100ms\""), "");
    assert_eq!(session.end(), 1, "a line has failed");
}

#[test]
fn a_line_ends_where_its_mistake_stands_and_what_was_refused_is_forgotten() {
    if !can_trace("a line with a mistake and an event") {
        return;
    }
    let first = NO_FILES[4];
    let mut session = Session::heard();
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
    // Neither spoils what is typed next, nor what was there.
    assert_eq!(session.ask(other), "");
    assert!(session.events() > before);
    close_in_vain(first, 10);
    session.reaches("n", 10);
    // What a handler that was refused holds is free: there is room for it more often than there are tables.
    let refused = "function() local t = kv { \"x\" } \
                   return probe(\"syscalls:sys_enter_close\", function(e) t:add(e.fdd) end) end";
    let told =
        session.ask(&format!("for i = 1, 1100 do ok, why = pcall({refused}) end print(why)"));
    assert!(told.ends_with(MISSPELT), "{told}");
    session.end();
}

#[test]
fn a_line_that_others_need_is_saved_though_its_handler_failed() {
    if !can_trace("a saved session whose lines need each other") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("closes.lua");
    let path = path.to_str().expect("a path in UTF-8");
    let first = NO_FILES[4] + 5;
    let fails = |then: &str| {
        format!(
            "probe(\"syscalls:sys_enter_close\", function(e) if e.fd == {first} then n = n + 1 \
             error \"bad\" end end) {then}"
        )
    };
    let mut session = Session::heard();
    session.ask("n = 0");
    // The one has a table that others may read, the other an event that works.
    session.ask(&fails("by = kv { \"x\" }"));
    session.ask(&fails("probe(\"syscalls:sys_enter_getppid\", function() by:add(1) end)"));
    close_in_vain(first, 1);
    session.reaches("n", 2);
    session.ask(&format!(":save {path}"));
    let saved = session.ask(&format!(":save {path}"));
    assert!(saved.contains("; mend 2 handlers in it") && !saved.contains("left out"), "{saved}");
    let text = std::fs::read_to_string(path).expect("it was written");
    assert!(!text.contains("-- probe("), "{text}");
    session.end();
}
