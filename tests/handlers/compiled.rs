//! `--stats`, and `:cost` at a prompt, report which handlers LuaJIT cannot compile.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Creates a file for this process in the temporary folder.
fn file(name: &str, text: &str) -> PathBuf {
    let path =
        std::env::temp_dir().join(format!("perilune-compiled-{}-{name}", std::process::id()));
    std::fs::write(&path, text).expect("it can be written");
    path
}

/// Creates a recording with enough events to make a handler hot.
fn recording(name: &str) -> PathBuf {
    let lines = (0..20_000u32).fold(String::new(), |mut lines, i| {
        let (second, ms) = (i / 1000, i % 1000);
        let _ = writeln!(lines, "{second}.{ms:03} 0 7 sh signal:signal_generate: sig={}", i % 9);
        lines
    });
    file(name, &lines)
}

/// Returns what `--stats` reports about a handler with this body.
fn reported(name: &str, body: &str) -> Vec<String> {
    let monitor = format!(
        "local m = monitor {{ summary = 'x' }}\nfunction m.init()\n  local by = kv {{ 'comm' }}\n  \
         evsel('signal:signal_generate', function(e)\n    {body}\n  end)\nend\nreturn m\n"
    );
    let (script, events) = (file(&format!("{name}.lua"), &monitor), recording(name));
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args([script.as_os_str(), "--stats".as_ref(), "--replay".as_ref(), events.as_os_str()])
        .stdin(Stdio::null())
        .output()
        .expect("the built command runs");
    std::fs::remove_file(&script).expect("the script is still there");
    std::fs::remove_file(&events).expect("the recording is still there");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("20000 events"), "{errors}");
    errors.lines().filter_map(|line| Some(line.split_once(".lua:")?.1.to_owned())).collect()
}

#[test]
fn a_function_created_for_each_event_is_reported_with_its_line() {
    let lines = reported(
        "closure",
        "local of = function()\n      return e.sig\n    end\n    by:add(e._comm .. of())",
    );
    assert_eq!(
        lines,
        ["5: is not compiled: a function is created for each event; create it once, in init"]
    );
}

#[test]
fn compiled_or_cheap_code_is_not_reported() {
    let loops =
        "local n = 0 for i = 1, 3 do n = n + e.sig * i end by:add(e._comm:match('%a+') .. n)";
    for (name, body) in [("plain", "by:add(e._comm)"), ("loops", loops)] {
        assert_eq!(reported(name, body), [""; 0], "{body}");
    }
}

#[test]
fn a_session_reports_it_with_the_cost_of_events() {
    let events = recording("prompt");
    let mut child = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["repl", "--replay"])
        .arg(&events)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the built command runs");
    let lines = "by = kv { 'comm' }\n\
                 p = probe('signal:signal_generate', \
                 function(e) by:add((function() return e._comm end)()) end)\n\
                 run()\n:cost\n";
    let mut input = child.stdin.take().expect("it was piped");
    input.write_all(lines.as_bytes()).expect("lines can be sent");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    std::fs::remove_file(&events).expect("the recording is still there");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("\nprompt:2: is not compiled: a function is created for each event"),
        "{text}"
    );
}

/// Returns the statistics of a run of a handler with this body; `before` runs in `init`.
fn stats(name: &str, before: &str, body: &str) -> serde_json::Value {
    let monitor = format!(
        "local m = monitor {{ summary = 'x' }}\nfunction m.init()\n  local by = kv {{ 'n' }}\n  \
         {before}\n  \
         evsel('signal:signal_generate', function(e)\n    {body}\n  end)\nend\nreturn m\n"
    );
    let (script, events) = (file(&format!("{name}.lua"), &monitor), recording(name));
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args([script.as_os_str(), "--stats".as_ref(), "--json".as_ref(), "--replay".as_ref()])
        .arg(&events)
        .stdin(Stdio::null())
        .output()
        .expect("the built command runs");
    std::fs::remove_file(&script).expect("the script is still there");
    std::fs::remove_file(&events).expect("the recording is still there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("\"type\":\"stats\""));
    let line = line.unwrap_or_else(|| panic!("no statistics in {text}"));
    serde_json::from_str(line).expect("a line of JSON")
}

#[test]
fn the_share_of_interpreted_time_is_reported() {
    let compiled = stats("fast", "", "local n = 0 for i = 1, 4e5 do n = n + i % 7 end by:add(n)");
    let part = compiled["interpreted"].as_f64().expect("enough samples");
    assert!(part < 0.3, "{compiled}");
    let closures =
        "local n = 0 for i = 1, 1000 do n = n + (function() return i end)() end by:add(n)";
    let interpreted = stats("slow", "", closures);
    let part = interpreted["interpreted"].as_f64().expect("enough samples");
    assert!(part > 0.7, "{interpreted}");
}

#[test]
fn a_script_of_many_loops_keeps_its_traces() {
    let many = "local loops = {} for i = 1, 3000 do \
                loops[i] = load('local n = ... for i = 1, 100 do n = n + i end return n') end";
    let stats = stats(
        "many",
        many,
        "for i = 1, 3 do by:add(loops[(e._time / 1e6 * 3 + i) % 3000 + 1](i)) end",
    );
    let traces = stats["traces"].as_u64().expect("a number");
    assert!(traces >= 3000, "{stats}");
    assert_eq!(stats["traces_flushed"], 0, "{stats}");
}

#[test]
fn a_handler_that_reads_many_fields_is_compiled() {
    let event = "local n = 0 ".to_owned() + &"n = n + e.sig + e._pid ".repeat(10) + "by:add(n)";
    let state = "open:open(1, e, 2) local s, n = open:get(1), 0 ".to_owned()
        + &"n = n + s.number + s.time ".repeat(10)
        + "by:add(n)";
    let before = "local open = pending { 'number', key = 'any' }";
    for (name, before, body) in [("fields", "", event), ("state", before, state)] {
        let stats = stats(name, before, &body);
        assert_eq!(stats["traces_aborted"], 0, "{body}: {stats}");
    }
}
