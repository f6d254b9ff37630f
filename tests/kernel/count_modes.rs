//! stat: events in user mode and in the kernel, events that a user may not count, and the end of a
//! run.

use std::io::Write as _;
use std::process::Command;

use serde_json::Value;

use crate::counters::{count_of, refused};
use crate::live::live_tests;
use crate::load;
use crate::profile::unprivileged;
use crate::user::require_paranoid_2;

live_tests! {
    modes_that_the_kernel_does_not_separate_are_refused,
    faults_of_user_mode_are_counted_apart,
    an_ordinary_user_counts_what_the_kernel_allows,
    a_run_ends_with_its_tasks_and_reports_it,
    calls_of_a_function_are_not_estimated,
    a_value_that_a_monitor_refuses_is_a_usage_error,
    typed_events_are_checked_even_if_they_are_the_default,
}

fn modes_that_the_kernel_does_not_separate_are_refused() {
    let only_kernel = "it occurs only in the kernel; omit the modifier u and --exclude-kernel";
    let guests = "only hardware counters distinguish guests from their host";
    for (args, name, why) in [
        (&["-e", "context-switches:u"][..], "context-switches:u", only_kernel),
        (&["-e", "cpu-migrations:u"], "cpu-migrations:u", only_kernel),
        (&["-e", "cgroup-switches", "--exclude-kernel"], "cgroup-switches", only_kernel),
        (&["-e", "sched:sched_switch", "--exclude-kernel"], "sched:sched_switch", only_kernel),
        (&["-e", "task-clock:u"], "task-clock:u", "its count always includes user mode and the"),
        (&["-e", "page-faults:G"], "page-faults:G", guests),
        (&["-e", "page-faults", "--exclude-guest"], "page-faults", guests),
        (&["-e", "page-faults", "-G"], "page-faults", guests),
        (&["-G"], "no event can be opened: task-clock", guests),
    ] {
        let (code, text) = refused(&[&["stat"], args].concat());
        let wanted = format!("perilune: {name}");
        assert!(code == Some(1) && text.starts_with(&wanted) && text.contains(why), "{text}");
    }
}

fn faults_of_user_mode_are_counted_apart() {
    let load = load::forks(100);
    let of = load.pid().to_string();
    let events = "page-faults,page-faults:u,page-faults:k,context-switches:k,context-switches";
    let run = crate::watch(&["stat", "-e", events, "-p", &of], load);
    let count = |event: &str| count_of(&run, event);
    assert!(count("page-faults:u") > 0, "{:?}", run.objects);
    assert_eq!(count("page-faults"), count("page-faults:u") + count("page-faults:k"));
    assert_eq!(count("context-switches"), count("context-switches:k"));
}

fn an_ordinary_user_counts_what_the_kernel_allows() {
    require_paranoid_2();
    let spin = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let output = unprivileged(&["stat", "--json", "--", "sh", "-c", spin]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let objects: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let count = |event: &str| {
        let mut rows = objects.iter().filter(|row| row["event"] == event);
        rows.next().map(|row| row["count"].as_u64().expect("a count"))
    };
    // The kernel's share is included: the clock needs no permission that changes its count.
    assert!(count("task-clock").is_some_and(|ns| ns > 1_000_000), "{text}");
    assert!(count("page-faults:u").is_some_and(|faults| faults > 0), "{text}");
    assert_eq!((count("context-switches"), count("context-switches:u")), (None, None), "{text}");
    let notes = || objects.iter().filter_map(|object| object["text"].as_str());
    let omitted = "omitted context-switches, cpu-migrations: permission denied; \
                   perf_event_paranoid is 2";
    assert_eq!(notes().filter(|note| note.starts_with(omitted)).count(), 1, "{text}");
    let in_user_mode = "page-faults:u: this user may not watch the kernel, so only user mode is \
                        counted";
    assert_eq!(notes().filter(|note| note.contains("only user mode")).count(), 1, "{text}");
    assert!(notes().any(|note| note.starts_with(in_user_mode)), "{text}");
}

fn a_run_ends_with_its_tasks_and_reports_it() {
    let mut child = Command::new("sleep").arg("2").spawn().expect("sleep runs");
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.args(["stat", "-p", &child.id().to_string()]);
    let output = command.output().expect("it runs");
    // Until now, it was a zombie.
    child.wait().expect("it has ended");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("the watched tasks have ended"), "{said}");
}

fn calls_of_a_function_are_not_estimated() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("our own");
    let mut paths = maps.lines().filter_map(|line| line.split_whitespace().last());
    let libc = paths.find(|path| path.contains("libc.so")).expect("tests have a libc");
    let event = format!("uprobe:{libc}:getppid");
    let run = crate::watch(&["stat", "-a", "-e", &event, "-i", "100"], load::getppid(5000));
    let rows: Vec<&Value> = run.of("row").filter(|row| row["event"] == event.as_str()).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["counted_percent"] == 100.0), "{rows:?}");
}

fn a_value_that_a_monitor_refuses_is_a_usage_error() {
    for (args, why) in [
        (&["stat", "--metric", "ipc"][..], "perilune: --metric: 'ipc' is not NAME=EXPRESSION"),
        (&["watchdog", "--than", "30"], "perilune: --than: the kernel's timer expires"),
        (&["split-lock", "-T", "-1"], "perilune: split-lock: -T: `-1` is not a whole number"),
        (&["split-lock", "-e", "page-faults", "-c", "5"], "perilune: -F, -c: use -T"),
        (&["irq-off", "-L", "1us"], "perilune: irq-off: -L: `1us` is too short; use 20us"),
    ] {
        let (code, text) = refused(args);
        assert!(code == Some(2) && text.starts_with(why), "{args:?}: {code:?} {text}");
    }
    // Not about an option.
    let (code, text) = refused(&["stat", "-e", "context-switches:u"]);
    assert_eq!(code, Some(1), "{text}");
}

/// Has an event option with a default, and does not use it.
const UNUSED: &str = r#"
local m = monitor {
  summary = "an event that is not used",
  options = { event { "event", short = "e", default = "sched:no_such", help = "event" } },
}
function m.init()
  return counters { evsel("page-faults", { count = true }) }
end
return m
"#;

fn typed_events_are_checked_even_if_they_are_the_default() {
    let mut script = tempfile::Builder::new().suffix(".lua").tempfile().expect("a temporary file");
    script.write_all(UNUSED.as_bytes()).expect("it can be written");
    let path = script.path().to_string_lossy().into_owned();
    let (code, text) = refused(&[&path, "-e", "sched:no_such"]);
    assert!(code == Some(1) && text.contains("-e: no event 'sched:no_such'"), "{code:?} {text}");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
        command.args(args).status().expect("it runs").code()
    };
    assert_eq!(run(&[&path, "--duration", "0.1s"]), Some(0), "a default is not checked");
}
