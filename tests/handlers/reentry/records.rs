//! Records that script code reads while the table that stores them changes, and operations that are
//! rejected meanwhile.

use std::process::{Command, Stdio};

use serde_json::Value;

/// Replays six events through a script with this `m.init`; see [`replay_events`].
fn replay(init: &str) -> (Vec<Value>, String) {
    replay_events(6, init)
}

/// Replays `count` events, `x:a` and `x:b` alternately, each with its number `n` and a list.
fn replay_events(count: usize, init: &str) -> (Vec<Value>, String) {
    let folder = tempfile::tempdir().expect("a folder for the script");
    let (script, events) = (folder.path().join("s.lua"), folder.path().join("s.events"));
    let text = format!(
        "--- Keeps records.\nlocal m = monitor {{ summary = \"keeps records\", order = true \
         }}\nfunction m.init() {init} end\nreturn m"
    );
    let lines = (1..=count).map(|n| {
        let name = if n % 2 == 1 { "a" } else { "b" };
        format!(
            "0.{n:03} 0 100 w x:{name}: n={n} text={}{n} list=[{n},{}]\n",
            name.repeat(n.min(6) * 30),
            2 * n
        )
    });
    std::fs::write(&script, text).expect("the script can be written");
    std::fs::write(&events, lines.collect::<String>()).expect("the recording can be written");
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .arg(&script)
        .args(["--json", "--replay"])
        .arg(&events)
        .stdin(Stdio::null())
        .output()
        .expect("the built command runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let objects = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    (objects, text + &String::from_utf8_lossy(&output.stderr))
}

/// Returns the texts of the script's notes.
fn notes(init: &str) -> Vec<String> {
    let (objects, _) = replay(init);
    let notes =
        objects.iter().filter(|object| object["type"] == "note" && object["level"] == "info");
    notes.map(|note| note["text"].as_str().unwrap_or_default().to_owned()).collect()
}

const STALE: &str = "the record `e` is valid during its handler only";

#[test]
fn a_record_that_was_kept_from_an_earlier_event_of_the_same_kind_is_an_error() {
    let init = r#"
        local last
        evsel("x:a", function(e)
          if last then note("%s", select(2, pcall(function() return last.n end))) end
          if last then note("%s", select(2, pcall(function() return last.list[0] end))) end
          last = e
        end)"#;
    let notes = notes(init);
    assert_eq!(notes.len(), 4, "{notes:?}");
    assert!(notes.iter().all(|note| note.contains(STALE)), "{notes:?}");
}

#[test]
fn a_record_that_was_kept_over_any_number_of_events_is_an_error() {
    // All of them are kept, and read again at each later event, in one batch, compiled or not.
    let init = r##"
        local kept, read, stale = {}, 0, 0
        local function number(e) return e.n end
        evsel("x:a", function(e)
          for i = 1, #kept do
            local ok, why = pcall(number, kept[i])
            if ok then read = read + 1 end
            if not ok and why:find "valid during its handler only" then stale = stale + 1 end
          end
          kept[#kept + 1] = e
          if e.n == 399 then note("%d read, %d stale", read, stale) end
        end)"##;
    let (_, text) = replay_events(400, init);
    assert!(text.contains(&format!("0 read, {} stale", 200 * 199 / 2)), "{text}");
}

#[test]
fn a_record_whose_number_a_script_has_changed_is_read_as_its_own_kind_or_not_at_all() {
    let init = r##"
        local kept
        evsel("x:a", function(e) kept = e end)
        evsel("x:b", function(e)
          kept["#"] = e["#"]
          local ok, why = pcall(function() return kept.n end)
          note("%s", ok and "read" or why)
        end)"##;
    let notes = notes(init);
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes.iter().all(|note| note.contains(STALE)), "{notes:?}");
}

#[test]
fn an_array_that_was_kept_from_an_earlier_event_is_an_error() {
    let init = r#"
        local list
        evsel("x:a", function(e)
          if list then note("%s %d", pcall(function() return list[0] end), #list) end
          list = e.list
        end)"#;
    assert_eq!(notes(init), ["false 0", "false 0"]);
}

#[test]
fn an_array_of_a_kept_event_is_its_own() {
    let init = r#"
        local p = pending { "v", keep = true }
        evsel("x:a", function(e)
          local s = p:close(1, e)
          if s then note("%d %d %d %d", s.event.list[0], s.event.list[1], #s.event.list, e.list[0]) end
          p:open(1, e, e.n)
        end)"#;
    assert_eq!(notes(init), ["1 2 2 3", "3 6 2 5"]);
}

#[test]
fn a_printer_that_opens_a_state_reads_only_its_own_event() {
    let init = r#"
        local st, inner
        local function show(e)
          if not inner then
            inner = true
            for state = 1, 4 do st:enter(1, e, state) st:enter(2, e, state) end
            inner = false
          end
          return e._event.name .. " " .. e.n .. " " .. e.text:sub(1, 1) .. #e.text .. " " .. e.list[1]
        end
        printer("x:a", show)
        printer("x:b", show)
        st = states { "state", keep = true, than = "1ns", longer = function(stay) if not inner then emit(stay.event) end end }
        evsel("x:a", function(e) st:enter(1, e, 1) end)
        evsel("x:b", function(e) st:enter(1, e, 2) end)"#;
    let (objects, text) = replay(init);
    let events = objects.iter().filter(|object| object["type"] == "event");
    let shown: Vec<&str> = events.filter_map(|event| event["text"].as_str()).collect();
    // At each printed event after the first, the printer has entered a state.
    assert!(!shown.is_empty() && shown.iter().all(|shown| *shown == "x:a 1 a31 2"), "{text}");
}

#[test]
fn a_printer_that_evicts_its_own_event_still_reads_it() {
    let init = r#"
        local p = pending { "v", keep = true, key = "any" }
        printer("x:a", function(e)
          for i = 1, 20000 do p:open(i, e, i) p:close(i, e) end
          p:open("own", e, 1)
          for i = 1, 200000 do p:open(i, e, i) end
          return e.n .. " " .. #e.text
        end)
        evsel("x:a", function(e)
          if e.n == 1 then p:open("own", e, 1) else emit(p:get("own").event) stop() end
        end)"#;
    let (objects, text) = replay(init);
    let events = objects.iter().filter(|object| object["type"] == "event");
    let shown: Vec<&Value> = events.map(|event| &event["text"]).collect();
    assert_eq!(shown, ["1 31"], "{text}");
}

#[test]
fn functions_that_the_runtime_calls_cannot_yield() {
    for (what, init) in [
        (
            "printer",
            r#"printer("x:a", function() coroutine.yield() return "x" end)
            evsel("x:a", function(e) coroutine.wrap(function() emit(e) end)() end)"#,
        ),
        (
            "longer",
            r#"local st = states { "state", than = "1ns", longer = function() coroutine.yield() end }
            evsel("x:a", function(e) coroutine.wrap(function() st:enter(1, e, 1) end)() end)"#,
        ),
        (
            "where",
            r#"local past = history()
            evsel("x:a", function(e) coroutine.wrap(function() past:between(0, e, { where = function() coroutine.yield() end }) end)() end)"#,
        ),
        (
            "metamethod",
            r#"evsel("x:a", function(e)
              coroutine.wrap(function() emit { v = setmetatable({}, { __tostring = function() coroutine.yield() return "x" end }) } end)()
            end)"#,
        ),
    ] {
        let (_, text) = replay(init);
        assert!(text.contains("cannot yield"), "{what}: {text}");
    }
}

#[test]
fn a_coroutine_created_by_a_printer_may_yield() {
    let init = r#"
        printer("x:a", function(e)
          local next = coroutine.wrap(function() coroutine.yield("first") coroutine.yield("second") end)
          return next() .. " " .. next() .. " " .. e.n
        end)
        evsel("x:a", function(e) emit(e) end)"#;
    let (objects, text) = replay(init);
    let events = objects.iter().filter(|object| object["type"] == "event");
    let shown: Vec<&Value> = events.map(|event| &event["text"]).collect();
    assert_eq!(shown, ["first second 1", "first second 3", "first second 5"], "{text}");
}
