//! `--stats` tells which handlers LuaJIT cannot compile.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

/// What `--stats` says of a handler with this text, over as many events as make it hot.
fn told(name: &str, body: &str) -> Vec<String> {
    let base = std::env::temp_dir().join(format!("perilune-{}-{name}", std::process::id()));
    let (script, events) = (base.with_extension("lua"), base.with_extension("events"));
    let monitor = format!(
        "local m = monitor {{ summary = 'x' }}\nfunction m.init()\n  local by = kv {{ 'comm' }}\n  \
         evsel('signal:signal_generate', function(e)\n    {body}\n  end)\nend\nreturn m\n"
    );
    std::fs::write(&script, monitor).expect("the script can be written");
    let lines = (0..20_000u32).fold(String::new(), |mut lines, i| {
        let _ = writeln!(
            lines,
            "{}.{:06} 0 7 sh signal:signal_generate: sig={}",
            i / 1000,
            i % 1000,
            i % 9
        );
        lines
    });
    std::fs::write(&events, lines).expect("the recording can be written");
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
fn a_function_made_for_each_event_is_told_with_its_line() {
    let lines = told(
        "closure",
        "local of = function()\n      return e.sig\n    end\n    by:add(e._comm .. of())",
    );
    assert_eq!(
        lines,
        ["5: is not compiled: a function is made for each event; make it once, in init"]
    );
}

#[test]
fn nothing_is_told_of_what_is_compiled_or_cheap() {
    let loops =
        "local n = 0 for i = 1, 3 do n = n + e.sig * i end by:add(e._comm:match('%a+') .. n)";
    for (name, body) in [("plain", "by:add(e._comm)"), ("loops", loops)] {
        assert_eq!(told(name, body), [""; 0], "{body}");
    }
}
