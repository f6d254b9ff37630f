//! Scripts of all kinds over recordings, run by the built command. Here: actions of a script on the
//! loop that calls its handlers: stop it, store its record, fail with any bytes.

mod callbacks;
mod compiled;
mod history;
mod memory;
mod pairs;
mod printed;
mod printers;
mod reentry;
mod sandbox;
mod sources;

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

/// Replays `tests/scripts/EVENTS.events` through a script, with `--json`.
fn replay(name: &str, events: &str, script: &str) -> Output {
    replay_with(name, events, script, &[])
}

/// Like [`replay`], with further options.
fn replay_with(name: &str, events: &str, script: &str, options: &[&str]) -> Output {
    let recording = format!("{}/tests/scripts/{events}.events", env!("CARGO_MANIFEST_DIR"));
    replay_file(name, &recording, script, options)
}

/// Like [`replay_with`], for a recording at a path.
fn replay_file(name: &str, recording: &str, script: &str, options: &[&str]) -> Output {
    let path = std::env::temp_dir().join(format!("perilune-{}-{name}.lua", std::process::id()));
    let mut file = std::fs::File::create(&path).expect("a file in the temporary folder");
    file.write_all(script.as_bytes()).expect("the script can be written");
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .arg(&path)
        .args(["--json", "--replay", recording])
        .args(options)
        .stdin(Stdio::null())
        .output()
        .expect("the built command runs");
    std::fs::remove_file(&path).expect("the script is still there");
    output
}

/// Returns the coverage of the whole run, and everything that was printed.
fn last_coverage(output: &Output) -> (serde_json::Value, String) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("\"final\":true"));
    let line = line.unwrap_or_else(|| panic!("no final coverage in {text}{errors}"));
    (serde_json::from_str(line).expect("a line of JSON"), text)
}

#[test]
fn after_stop_no_event_is_handled_or_counted() {
    let script = r#"
        local m = monitor { summary = "stops at once", order = true }
        function m.init()
          for _ = 1, 3 do
            evsel("signal:signal_generate", function(e) emit(e) stop() end)
          end
        end
        return m
    "#;
    let (coverage, text) = last_coverage(&replay("stop", "signal", script));
    assert_eq!(coverage["events"], 1, "{text}");
    assert_eq!(text.matches("\"type\":\"event\"").count(), 1, "{text}");
}

#[test]
fn a_record_that_was_kept_cannot_be_printed_after_its_handler() {
    let script = r#"
        local m = monitor { summary = "keeps a record" }
        local kept
        function m.init() evsel "signal:signal_generate" end
        function m.sample(e) kept = e end
        function m.deinit() emit(kept) end
        return m
    "#;
    let (coverage, text) = last_coverage(&replay("keep", "signal", script));
    assert_eq!(coverage["errors"], 1, "{text}");
    assert!(text.contains("is valid during its handler only"), "{text}");
    assert!(!text.contains("\"type\":\"event\""), "{text}");
}

#[test]
fn an_error_message_of_arbitrary_bytes_is_counted() {
    let script = r#"
        local m = monitor { summary = "fails" }
        function m.init() evsel "signal:signal_generate" end
        function m.sample(e) error("\255\254", 0) end
        return m
    "#;
    let output = replay("bytes", "signal", script);
    let (coverage, text) = last_coverage(&output);
    let expected = coverage["events"].as_u64().map(|events| events.min(10));
    assert_eq!(coverage["errors"].as_u64(), expected, "{text}");
    assert!(text.contains("signal:signal_generate"), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_evsel_that_is_off_gets_no_events_while_another_of_the_same_event_does() {
    let script = r#"
        local m = monitor { summary = "one of two" }
        function m.init()
          local first
          first = evsel("signal:signal_generate", function(e) emit(e) first:off() end)
          evsel("signal:signal_generate", function(e) end)
        end
        return m
    "#;
    let (coverage, text) = last_coverage(&replay("off", "signal", script));
    assert_eq!(text.matches("\"type\":\"event\"").count(), 1, "{text}");
    assert!(coverage["events"].as_u64() > Some(2), "{text}");
}

#[test]
fn an_event_declared_once_the_run_has_begun_is_refused_at_its_line() {
    let script = r#"
        local m = monitor { summary = "too late" }
        function m.init() evsel "signal:signal_generate" end
        function m.sample(e) end
        function m.deinit()
          evsel "signal:signal_deliver"
        end
        return m
    "#;
    let (coverage, text) = last_coverage(&replay("late", "signal", script));
    assert_eq!(coverage["errors"], 1, "{text}");
    assert!(text.contains(":6: events are opened when the run begins"), "{text}");
}

#[test]
fn a_column_that_cannot_be_drawn_loses_no_other_table() {
    let script = r#"
        local m = monitor { summary = "one table fails" }
        function m.init()
          local bad = kv { { "sig", function() error("no name for it") end }, count = "bad" }
          local good = kv { "sig", count = "good" }
          evsel("signal:signal_generate", function(e) bad:add(e.sig) good:add(e.sig) end)
        end
        return m
    "#;
    let (coverage, text) = last_coverage(&replay("column", "signal", script));
    assert_eq!(coverage["errors"], 1, "{text}");
    assert!(text.contains("no name for it"), "{text}");
    assert_eq!(text.matches("\"good\":1").count(), 3, "{text}");
}

#[test]
fn a_handler_that_never_ends_does_not_cost_the_others_events() {
    for order in ["true", "false"] {
        let script = format!(
            r#"
            local m = monitor {{ summary = "one of two never ends", order = {order} }}
            local handled = 0
            function m.init()
              evsel("signal:signal_generate", function(e) while true do end end)
              evsel("signal:signal_generate", function(e) handled = handled + 1 end)
            end
            function m.deinit() emit {{ handled = handled }} end
            return m
        "#
        );
        let (coverage, text) = last_coverage(&replay("endless", "signal", &script));
        assert_eq!(coverage["errors"], 1, "{text}");
        assert!(text.contains("endless.lua:5: handler stopped"), "{text}");
        let events = coverage["events"].as_u64().expect("a count");
        assert!(events > 4 && text.contains(&format!("\"handled\":{}", events / 2)), "{text}");
    }
}

#[test]
fn after_a_failing_event_the_others_are_handled_once_and_in_order() {
    for order in ["true", "false"] {
        let script = format!(
            r#"
            local m = monitor {{ summary = "fails now and then", order = {order} }}
            local handled, failed, late = 0, 0, 0
            local last = 0
            local function see(e)
              if e._time < last then late = late + 1 end
              if {order} then last = e._time end
              handled = handled + 1
              if handled % 2 == 0 then failed = failed + 1 error("now") end
            end
            function m.init()
              for _ = 1, 3 do evsel("signal:signal_generate", see) end
            end
            function m.deinit() emit {{ handled = handled, failed = failed, late = late }} end
            return m
        "#
        );
        let (coverage, text) = last_coverage(&replay("fails", "signal", &script));
        let (events, errors) = (&coverage["events"], &coverage["errors"]);
        assert!(events.as_u64() > Some(5) && errors.as_u64() > Some(2), "{text}");
        assert!(text.contains(&format!("\"handled\":{events}")), "{text}");
        assert!(text.contains(&format!("\"failed\":{errors}")), "{text}");
        assert!(text.contains("\"late\":0"), "{text}");
    }
}

/// Returns the error of the command when the script's `init` contains `evsel`.
fn refusal(name: &str, evsel: &str) -> String {
    let script = format!(
        "local m = monitor {{ summary = 'declares' }}\nfunction m.init() {evsel} end\n\
         function m.sample(e) end\nreturn m\n"
    );
    let output = replay(name, "signal", &script);
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_count_is_filtered_by_the_kernel_alone() {
    let text = refusal("count", "evsel('signal:signal_generate/sig+1==10/', { count = true })");
    assert!(
        text.contains(
            "the kernel cannot filter by `sig+1==10`, and a count has no records to filter"
        ),
        "{text}"
    );
}

#[test]
fn a_filter_that_is_wrong_is_shown_with_its_place_at_the_scripts_line() {
    let text = refusal("caret", "evsel('signal:signal_generate'):filter('sig==9 && pid+1 > sigg')");
    let shown = "'sigg'; did you mean 'sig'? \
                 It has sig, errno, code, comm, pid, group, result\n    \
                 sig==9 && pid+1 > sigg\n                      ^";
    assert!(text.contains(shown), "{text}");
    assert!(text.contains(".lua:2: signal:signal_generate has no field"), "{text}");
}

#[test]
fn a_filter_of_too_many_conditions_is_refused_at_its_line_and_at_once() {
    let filter = "evsel('signal:signal_generate'):filter(('sig && '):rep(200000) .. 'sig')";
    let text = refusal("many", filter);
    assert!(text.contains("200001 conditions; a filter has at most 1000"), "{text}");
    // The longest accepted condition compiles.
    let all =
        "evsel('signal:signal_generate'):filter(('sig + 1 > 0 && '):rep(999) .. 'sig + 1 == 10')";
    let script = format!(
        "local m = monitor {{ summary = 'many' }} function m.init() {all} end\n\
         function m.sample(e) end return m"
    );
    let (coverage, _) = last_coverage(&replay("many", "signal", &script));
    assert_eq!((&coverage["events"], &coverage["filtered"]), (&1.into(), &2.into()), "{coverage}");
}

#[test]
fn filtered_events_are_not_counted_for_the_handler() {
    let script = r#"
        local m = monitor { summary = "filters", order = true }
        local before
        function m.init()
          evsel("signal:signal_generate", { filter = "sig * 2 == 30" }, function(e) emit(e) end)
          evsel("signal:signal_generate/sig < 16/", function(e) emit(e) end):filter("pid - %d == 0", 100):filter("pid % 3 == 1")
        end
        return m
    "#;
    let (coverage, text) = last_coverage(&replay("filtered", "signal", script));
    assert_eq!(text.matches("\"type\":\"event\"").count(), 2, "{text}");
    assert_eq!(text.matches("\"sig\":15").count(), 1, "{text}");
    assert_eq!(coverage["events"], 2, "{text}");
}

#[test]
fn a_run_ends_with_its_last_handler_unless_something_else_is_watched() {
    let script = |more: &str| {
        format!(
            r#"
            local m = monitor {{ summary = "never ends" }}
            local exits = 0
            function m.init() evsel("signal:signal_generate", function(e) while true do end end) end
            {more}
            return m
        "#
        )
    };
    const ENDS: &str = "every handler is switched off, so the run ends";
    let output = replay("spent", "signal", &script(""));
    let (coverage, text) = last_coverage(&output);
    assert_eq!((text.matches(ENDS).count(), &coverage["events"]), (1, &1.into()), "{text}");
    assert_eq!(output.status.code(), Some(1));

    let output = replay("tasks", "signal", &script("function m.on_exit() exits = exits + 1 end"));
    let (coverage, text) = last_coverage(&output);
    assert!(!text.contains(ENDS) && coverage["events"].as_u64() > Some(1), "{text}");
}

#[test]
fn a_latency_too_long_for_its_percentiles_is_counted() {
    let script = r#"
        local m = monitor { summary = "hours" }
        function m.init()
          local long = latency { "sig" }
          evsel("signal:signal_generate", function(e) long:add(2e13, e.sig) end)
        end
        return m
    "#;
    let (coverage, text) = last_coverage(&replay("hours", "signal", script));
    assert_eq!(coverage["clamped"], coverage["events"], "{text}");
    assert_eq!(coverage["events"], 3, "{text}");
}

#[test]
fn a_note_within_the_tostring_of_a_note_is_an_error_at_its_line() {
    let script = r#"
        local m = monitor { summary = "notes itself" }
        local own = setmetatable({}, { __tostring = function(x) note("%s", x) return "x" end })
        local plain = setmetatable({}, { __tostring = function() return "plain" end })
        function m.init() evsel "signal:signal_generate" end
        function m.sample(e)
          for _, what in ipairs { own, plain } do
            local ok, why = pcall(note, "%s", what)
            note("%s, %s", ok, why)
          end
          note(plain)
          local ok, why = pcall(note, "%d", "x")
          note(why)
          stop()
        end
        return m
    "#;
    let output = replay("note", "signal", script);
    let (_, text) = last_coverage(&output);
    let notes: Vec<String> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|line| line["type"] == "note")
        .map(|line| line["text"].as_str().unwrap_or_default().to_owned())
        .collect();
    let [own, plain, said, only, wrong] = &notes[..] else { panic!("{notes:?}") };
    assert!(
        own.starts_with("false, ")
            && own.ends_with("note.lua:3: note was called by the __tostring of its own argument"),
        "{own}"
    );
    assert_eq!([plain, said, only], ["plain", "true, nil", "plain"]);
    assert!(wrong.contains("bad argument #2 to 'note' (number expected, got string)"), "{wrong}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
}

#[test]
fn a_report_has_as_many_rows_as_a_script_makes() {
    let script = r#"
        local m = monitor { summary = "many rows" }
        function m.init() evsel "signal:signal_generate" end
        function m.sample(e) end
        function m.deinit()
          local rows = {}
          for i = 1, 20000 do rows[i] = { i } end
          return report("many", { "n" }, rows)
        end
        return m
    "#;
    let (_, text) = last_coverage(&replay("rows", "signal", script));
    assert_eq!(text.matches("\"type\":\"row\"").count(), 20000, "{}", &text[..text.len().min(500)]);
}

#[test]
fn the_total_has_what_a_script_cleared_before_the_only_report() {
    let script = |work: &str| {
        format!(
            "local m = monitor {{ summary = 'totals' }}
            function m.init()
              local by = kv {{ 'comm' }}
              evsel('signal:signal_generate', function(e) by:add(e._comm) end)
              {work}
            end
            return m"
        )
    };
    let counts = |name: &str, work: &str| {
        let (_, text) = last_coverage(&replay_with(name, "signal", &script(work), &["--total"]));
        let rows = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        let rows = rows.filter(|row: &serde_json::Value| row["comm"] == "bash");
        rows.map(|row| row["count"].as_u64().unwrap_or_default()).collect::<Vec<u64>>()
    };
    assert_eq!(counts("totals", ""), [1], "the only report is the total");
    assert_eq!(
        counts("cleared", "every('200ms', function() by:clear() end)"),
        [1],
        "the total does"
    );
}
