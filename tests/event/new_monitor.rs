//! `perilune new` and `perilune test` with the events of this machine.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::live::live_tests;

live_tests! {
    a_new_monitor_works_lists_its_fields_and_has_a_case,
    a_filter_that_the_event_does_not_support_makes_no_monitor,
    a_script_that_reads_an_unknown_field_fails_its_test,
}

/// Returns the exit code, stdout and stderr of `perilune WORDS…` in a folder.
fn perilune(folder: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(words)
        .current_dir(folder)
        .output()
        .expect("the built command runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn read(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap()
}

fn a_new_monitor_works_lists_its_fields_and_has_a_case() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path();
    let events = "sched:sched_switch/prev_pid > 0/,signal:signal_generate";
    let (code, out, err) = perilune(path, &["new", "mine", "-e", events, "-e", "cpu-clock"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("perilune test mine.lua"), "{out}");
    let script = read(path, "mine.lua");
    for line in [
        "  -- sched:sched_switch: besides _time (ns), _cpu, _pid, _tid, _comm",
        "  --   e.prev_comm   char[16]",
        "  --   e.sig     int",
        "  ---@param e perilune.sched.sched_switch",
        "  evsel(\"sched:sched_switch\", { filter = \"prev_pid > 0\" }, function(e)",
        "  evsel(\"cpu-clock\", { freq = 100 }, function(e)",
    ] {
        assert!(script.lines().any(|l| l == line), "no {line:?} in\n{script}");
    }
    let (code, out, _) = perilune(path, &["test"]);
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "ok       ./mine.events\n1 case, all as expected\n")
    );
    let out = read(path, "mine.out");
    // Three events of each kind, by two tasks.
    for event in ["sched_switch", "signal_generate", "cpu-clock"] {
        let counts: Vec<u32> = out
            .lines()
            .filter(|line| line.split_whitespace().next() == Some(event))
            .map(|line| line.split_whitespace().last().unwrap().parse().unwrap())
            .collect();
        assert_eq!(counts, [2, 1], "{event} in {out}");
    }
    let (code, _, err) = perilune(path, &["new", "mine", "-e", "signal:signal_generate"]);
    assert_eq!(code, Some(2));
    assert_eq!(err, "perilune: new: 'mine.lua' already exists; use another name\n");
    assert_eq!(read(path, "mine.lua"), script);
}

fn a_filter_that_the_event_does_not_support_makes_no_monitor() {
    let here = tempfile::tempdir().unwrap();
    for (filter, why) in [("prev_pd > 1", "no field 'prev_pd'"), ("prev_pid >", "missing")] {
        let event = format!("sched:sched_switch/{filter}/");
        let (code, out, err) = perilune(here.path(), &["new", "x", "-e", &event]);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
        assert!(err.starts_with("perilune: new: -e: ") && err.contains(why), "{err}");
    }
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0);
}

fn a_script_that_reads_an_unknown_field_fails_its_test() {
    let here = tempfile::tempdir().unwrap();
    let script = "local m = monitor { summary = 'faults' }\nfunction m.init()\n\
                  evsel('page-faults', function(e) print(e._tidd) end) end\nreturn m\n";
    fs::write(here.path().join("t.lua"), script).unwrap();
    let (code, out, _) = perilune(here.path(), &["test", "t.lua"]);
    let why =
        "FAILED   t.lua\n    t.lua:3: page-faults has no field '_tidd'; did you mean '_tid'?\n";
    assert_eq!((code, out.as_str()), (Some(1), why));
}
