//! Callbacks other than handlers: timers, reports and functions that draw columns.

use std::fmt::Write as _;

use crate::{last_coverage, replay_file, replay_with};

#[test]
fn a_callback_that_fails_ten_times_is_disabled_and_reported_once() {
    let script = r#"
        local m = monitor { summary = "fails in its callbacks" }
        function m.init()
          evsel("signal:signal_generate", function(e) end)
          every("1ms", function() error "timer" end)
        end
        function m.interval() error "interval" end
        return m
    "#;
    let output = replay_with("callbacks", "signal", script, &["-i", "5"]);
    let (coverage, text) = last_coverage(&output);
    for (name, line) in [("timer", 5), ("interval", 7)] {
        let failed = format!(".lua:{line}: {name}\"");
        // The first error has a traceback.
        let (first, others) = (text.matches(&format!(".lua:{line}: {name}")).count(), 9);
        assert!(first >= 10 && text.matches(&failed).count() >= others, "{name}: {text}");
        assert!(first < 13, "{name}: {text}");
    }
    assert_eq!(coverage["errors"], 20, "{text}");
    assert_eq!(coverage["events"], 3, "{text}");
    for off in [
        ".lua:5: every failed 10 times and is switched off",
        ".lua:7: interval failed 10 times and is switched off",
    ] {
        assert_eq!(text.matches(off).count(), 1, "{off}: {text}");
    }
}

#[test]
fn each_callback_of_task_records_is_disabled_alone_after_ten_errors() {
    let script = r#"
        local m = monitor { summary = "fails in its callbacks" }
        local exits = 0
        function m.init() evsel("signal:signal_generate", function(e) end) end
        function m.on_fork(r) error "fork" end
        function m.on_exec(r) error "exec" end
        function m.on_comm(r) error "comm" end
        function m.on_exit(r) exits = exits + 1 end
        function m.deinit() emit { exits = exits } end
        return m
    "#;
    const TASKS: u32 = 12;
    let mut lines = String::new();
    for tid in 200..200 + TASKS {
        for (order, change) in
            ["FORK: ppid=100 ptid=100", "EXEC: comm=sh", "COMM: comm=job", "EXIT:"]
                .iter()
                .enumerate()
        {
            writeln!(lines, "0.{tid}{order} 0 {tid} sh {change}").expect("memory");
        }
    }
    lines.push_str("0.9 0 100 sh signal:signal_generate: sig=9\n");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tasks.events");
    std::fs::write(&path, lines).expect("the recording can be written");
    let path = path.to_str().expect("a path in UTF-8");
    let (coverage, text) = last_coverage(&replay_file("task-callbacks", path, script, &[]));
    for (name, line) in [("on_fork", 5), ("on_exec", 6), ("on_comm", 7)] {
        let off = format!(".lua:{line}: {name} failed 10 times and is switched off");
        assert_eq!(text.matches(&off).count(), 1, "{off}: {text}");
    }
    // Ten of each; the callback that works is called for every task.
    assert_eq!(coverage["errors"], 30, "{text}");
    assert!(text.contains(&format!("\"exits\":{TASKS}")), "{text}");
    assert_eq!(coverage["events"], 1, "{text}");
}

#[test]
fn a_timer_and_a_column_that_never_end_are_disabled_and_the_results_are_printed() {
    let script = r#"
        local m = monitor { summary = "spins outside of its handler" }
        local by
        function m.init()
          by = kv { { "signal", function(n) while true do end end } }
          evsel("signal:signal_generate", function(e) by:add(e.sig) end)
          every("200ms", function() xpcall(function() while true do end end, function() while true do end end) end)
        end
        function m.interval() while true do end end
        return m
    "#;
    let output = replay_with("spinning", "signal", script, &[]);
    let (coverage, text) = last_coverage(&output);
    assert_eq!((&coverage["events"], &coverage["errors"]), (&3.into(), &3.into()), "{text}");
    for said in [
        ".lua:7: every was stopped and is switched off",
        ".lua:9: report stopped: it ran for over 5 s of CPU on one report",
        ".lua:9: interval was stopped and is switched off",
        ".lua:5: report stopped: it ran for over 5 s of CPU on one report",
        "drawing was stopped: columns show plain values from here on",
    ] {
        assert_eq!(text.matches(said).count(), 1, "{said}: {text}");
    }
    for signal in [9, 15, 17] {
        assert!(text.contains(&format!("\"signal\":{signal}")), "{text}");
    }
}

#[test]
fn a_stopped_note_does_not_suppress_later_ones() {
    let script = r#"
        local m = monitor { summary = "notes a value that takes for ever" }
        local slow = setmetatable({}, { __tostring = function() while true do end end })
        function m.init()
          evsel("signal:signal_generate", function(e) end)
          every("200ms", function() note(slow) end)
        end
        function m.deinit() note("the end") end
        return m
    "#;
    let output = replay_with("slow-note", "signal", script, &[]);
    let (coverage, text) = last_coverage(&output);
    assert_eq!(coverage["errors"], 1, "{text}");
    assert_eq!(text.matches(".lua:6: every was stopped and is switched off").count(), 1, "{text}");
    assert_eq!(text.matches("the end").count(), 1, "{text}");
}

#[test]
fn a_timer_that_returns_a_period_has_it_from_then_on() {
    let script = r#"
        local m = monitor { summary = "doubles the period of its timer" }
        local first, turns = nil, 0
        function m.init()
          evsel("signal:signal_generate", function(e) end)
          every("1ms", function(time)
            first, turns = first or time, turns + 1
            if turns < 6 then note("turn %d after %d ms", turns, (time - first) / 1e6) end
            if turns < 4 then return 2 ^ turns / 1000 end
            if turns == 6 then return "1ns" end
            return false
          end)
        end
        return m
    "#;
    let output = replay_with("doubling", "signal", script, &[]);
    let (coverage, text) = last_coverage(&output);
    for (turn, ms) in [(1, 0), (2, 2), (3, 6), (4, 14), (5, 22)] {
        assert_eq!(text.matches(&format!("turn {turn} after {ms} ms")).count(), 1, "{text}");
    }
    assert_eq!(text.matches("turn ").count(), 5, "{text}");
    assert_eq!(
        (&coverage["errors"], text.matches("at least 1ms").count()),
        (&1.into(), 1),
        "{text}"
    );
}

#[test]
fn a_note_of_init_is_printed_once_the_run_begins() {
    let script = r#"
        local m = monitor { summary = "notes while it is set up" }
        function m.init()
          note("limit %d", 7)
          alert { "low limit" }
          evsel("signal:signal_generate", function(e) end)
        end
        function m.deinit() note("the end") end
        return m
    "#;
    let (_, text) = last_coverage(&replay_with("early-note", "signal", script, &[]));
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no '{what}' in {text}"));
    assert!(at("limit 7") < at("the end"), "{text}");
    assert_eq!(text.matches("limit 7").count(), 1, "{text}");
    assert!(at("limit 7") < at("low limit") && at("low limit") < at("the end"), "{text}");
    assert!(text.contains("\"level\":\"alert\""), "{text}");
}
