//! Monitors whose events another script takes: their handlers, columns, state and errors.

use std::process::{Command, Stdio};

/// A source that emits each event with its number and a text.
const INNER: &str = r#"local m, nth = monitor { summary = "counts",
  emits = { number { "nth" }, text { "t" } } }, 0
function m.init() evsel "s:x" end
function m.sample(e)
  nth = nth + 1
  emit(e, { nth = nth, t = ("v"):rep(e.n) })
end
return m
"#;

/// Replays four events through `outer`, beside the monitor `inner`. Returns whether it succeeded,
/// stdout and stderr.
fn replay(inner: &str, outer: &str) -> (bool, String, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let outer = format!("local m = monitor {{ summary = 'takes' }}\n{outer}\nreturn m\n");
    let events: String =
        (1..=4).map(|n| format!("0.{n} 0 7 task s:x: n={n} old=old{n}\n")).collect();
    for (name, text) in [("inner.lua", inner), ("outer.lua", &outer), ("r.events", &events)] {
        std::fs::write(path(name), text).expect("the file can be written");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .arg(path("outer.lua"))
        .args(["--json", "--replay"])
        .arg(path("r.events"))
        .env("PERILUNE_PATH", folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("the built command runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn each_use_of_a_source_has_its_own_state_and_options() {
    let outer = "function m.init()\n\
                 for _ = 1, 2 do evsel('inner//', function(e) emit { nth = e.nth, n = e.n } end) \
                 end end";
    let (ok, out, err) = replay(INNER, outer);
    assert!(ok, "{err}");
    for nth in 1..=4 {
        let row = format!("\"n\":{nth},\"nth\":{nth}");
        assert_eq!(out.matches(&row).count(), 2, "{row}: {out}");
    }
}

#[test]
fn a_filter_of_emitted_events_compares_their_columns() {
    for filter in ["nth > 2 && t == \"vvv\"", "t == \"vvv\"", "nth == 3", "n == 3"] {
        let outer = format!("function m.init() evsel('inner//', emit):filter('{filter}') end");
        let (ok, out, err) = replay(INNER, &outer);
        assert!(ok, "{err}");
        assert_eq!(out.matches("\"type\":\"event\"").count(), 1, "{filter}: {out}");
        let columns = "\"nth\":3,\"t\":\"vvv\",\"n\":3,\"old\":\"old3\"";
        assert!(out.contains(columns), "{filter}: {out}");
    }
}

#[test]
fn a_text_of_any_length_and_bytes_is_cut_to_what_a_record_holds() {
    let inner = INNER.replace("(\"v\"):rep(e.n)", "(\"\\27\\255\\0v\"):rep(30000)");
    let outer = "function m.init() evsel('inner//', function(e) emit { size = #e.t } end) end";
    let (ok, out, err) = replay(&inner, outer);
    assert!(ok, "{err}");
    // The text of a field ends at its first NUL, as that of a kernel's.
    assert_eq!(out.matches("\"size\":2").count(), 4, "{out}");
    let inner = inner.replace("\\0", "");
    let (ok, out, err) = replay(&inner, outer);
    assert!(ok, "{err}");
    let size = out.split("\"size\":").nth(1).and_then(|text| text.split('}').next());
    let size: usize = size.and_then(|text| text.parse().ok()).expect("a size");
    assert!((60_000..65_536).contains(&size), "{size}");
}

#[test]
fn an_error_in_a_handler_of_a_source_has_the_line_of_the_source() {
    let inner = INNER.replace("nth = nth, t", "nht = nth, t");
    let takes = "function m.init() evsel('inner//', emit) end";
    let (_, out, _) = replay(&inner, takes);
    assert!(out.contains("inner.lua:6: inner emits 'nht'; add it to `emits`"), "{out}");
    let inner = INNER.replace("nth = nth, t", "nth = \"1\", t");
    let (_, out, _) = replay(&inner, takes);
    assert!(out.contains("inner.lua:6: inner emits string 'nth'"), "{out}");
}

#[test]
fn an_emitted_event_is_valid_during_its_handler_only() {
    let outer = "local kept\n\
                 function m.init() evsel('inner//', function(e) kept = e end) end\n\
                 function m.deinit() emit(kept) end";
    let (_, out, err) = replay(INNER, outer);
    assert!((out + &err).contains("is valid during its handler only"), "{err}");
}

#[test]
fn a_monitor_that_cannot_be_a_source_is_refused_with_the_reason() {
    let takes = "function m.init() evsel('inner//', emit) end";
    let refused = |inner: &str, outer: &str| {
        let (ok, _, err) = replay(inner, outer);
        assert!(!ok, "{err}");
        err
    };
    let with = |more: &str| INNER.replace("return m", &format!("{more}\nreturn m"));
    let why = refused(&with("function m.on_exec() end"), takes);
    assert!(why.contains("inner: it has m.on_exec"), "{why}");
    let timer = INNER.replace("evsel \"s:x\"", "every(\"1s\", print)");
    let why = refused(&timer, takes);
    assert!(why.contains("inner.lua:3: every: this monitor uses a timer"), "{why}");
    let columns = "emits = { number { \"nth\" }, text { \"t\" } }";
    let why = refused(&INNER.replace(columns, ""), takes);
    assert!(why.contains("inner: this monitor emits no events"), "{why}");
    let why = refused(&INNER.replace("evsel \"s:x\"", "evsel \"inner//\""), takes);
    assert!(why.contains("inner: a monitor cannot take its own events"), "{why}");
    let why = refused(INNER, "function m.init() evsel('{inner//,s:x}', emit) end");
    assert!(why.contains("inner: the kernel counts the events of a group"), "{why}");
    let why = refused(INNER, "function m.init() evsel('inner/--no/', emit) end");
    assert!(why.contains("inner: no option '--no'"), "{why}");
    let why = refused(INNER, "function m.init() evsel.from('inner', { nope = 1 }, emit) end");
    assert!(why.contains("inner: no option 'nope'"), "{why}");
    let why = refused(INNER, "function m.init() evsel('inner//freq=9/', emit) end");
    assert!(why.contains("inner: 'freq' is an attribute of events"), "{why}");
    let why = refused(INNER, "function m.init() evsel('inner//', { count = true }) end");
    assert!(why.contains("inner: a monitor emits its events"), "{why}");
}

#[test]
fn a_path_reveals_no_text_of_other_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the file can be written");
        path.display().to_string()
    };
    let paths = [
        file("key", "password hunter2"),
        file("config.lua", "password = 'hunter2'"),
        folder.path().join("absent").display().to_string(),
    ];
    for path in paths {
        let outer = format!(
            "function m.init()
               print(pcall(evsel.from, '{path}', emit))
               evsel 's:x'
             end"
        );
        let (_, out, err) = replay(INNER, &outer);
        let said = out + &err;
        let why = format!("{path}: failed to find a monitor with `emits` that can be read");
        assert!(said.contains(&why) && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_file_that_is_loaded_cannot_take_events() {
    let inner = INNER.replace("function m.init()", "evsel.from('inner', emit)\nfunction m.init()");
    let (ok, _, err) = replay(&inner, "function m.init() evsel('inner//', emit) end");
    assert!(!ok && err.contains("inner: inner.lua:3: call evsel in init"), "{err}");
    let (ok, _, err) = replay(INNER, "evsel.from('inner', emit)");
    assert!(!ok && err.contains("outer.lua:2: call evsel in init"), "{err}");
}
