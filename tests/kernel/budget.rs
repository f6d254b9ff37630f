//! `--budget`: a heavy load is thinned, and its counts are estimates within their errors; a light
//! load is counted exactly.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::live::live_tests;
use crate::load::{self, CALLS, Load};
use crate::tool::{Run, Tool};

live_tests! {
    a_heavy_load_stays_within_its_budget_and_its_counts_within_their_errors,
    events_whose_counts_exceed_the_budget_are_on_in_slices_of_time,
    the_errors_of_slices_cover_a_load_that_is_slower_in_them,
    a_light_load_is_not_thinned_and_its_counts_are_exact,
    a_strict_run_ends_when_it_exceeds_its_budget,
    what_cannot_be_estimated_is_refused_with_a_reason,
}

/// Returns the selector of the system calls of two processes.
fn calls_of(loads: [&Load; 2]) -> String {
    let [one, other] = loads.map(Load::pid);
    format!("raw_syscalls:sys_enter/common_pid=={one}||common_pid=={other}/")
}

/// Returns each system call's estimated count and the variance of it, over all intervals.
fn estimates(run: &Run) -> BTreeMap<i64, (f64, f64)> {
    let mut all: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for row in run.of("row") {
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"));
        let (count, variance) = all.entry(number("id") as i64).or_default();
        *count += number("sys_enter");
        *variance += number("sys_enter_error").powi(2);
    }
    all
}

/// Returns each system call with its true and its estimated count, and the error of that.
fn judged(run: &Run, truth: &BTreeMap<i64, u64>) -> Vec<(i64, f64, f64, f64)> {
    let estimates = estimates(run);
    let of = |(number, _): &(i64, u64)| {
        let (count, variance) = estimates.get(number).copied().unwrap_or_default();
        (*number, truth[number] as f64, count, variance.sqrt())
    };
    CALLS.iter().map(of).collect()
}

/// Watches two loads of 8,000,000 calls each with a budget. Returns the calls as [`judged`], and
/// the object `stats`.
fn watched_in_slices(loads: [Load; 2]) -> (Vec<(i64, f64, f64, f64)>, serde_json::Value) {
    let mut truth = load::numbers_of(BURSTS * 1000, 0);
    for (number, count) in load::numbers_of(BURSTS * 1000, 1) {
        *truth.entry(number).or_default() += count;
    }
    let [one, other] = &loads;
    let event = calls_of([one, other]);
    // One report: the parts of the errors of several that come from slower tasks would add up.
    let limit = ["--budget", "1%", "--stats", "-i", "60000"];
    let tool = Tool::attach(&[&["top", "-e", &event, "-k", "id"], &limit[..]].concat());
    let [one, mut other] = loads;
    other.start();
    one.run();
    other.wait();
    let run = tool.finish();
    let stats = run.of("stats").next().expect("--stats prints an object").clone();
    let cost = stats["cost_percent"].as_f64().expect("the cost is a number");
    assert!(cost <= 1.2, "{stats} {}", run.stderr);
    (judged(&run, &truth), stats)
}

/// Two million calls a second: counting them costs some 5 % of two CPUs.
const BURSTS: u64 = 8000;

fn events_whose_counts_exceed_the_budget_are_on_in_slices_of_time() {
    let (judged, stats) =
        watched_in_slices([0, 1].map(|seed| load::paced_calls(BURSTS, 1000, 1000, seed)));
    for (number, truth, count, error) in &judged {
        assert!((count - truth).abs() <= 2.0 * error, "{number}: {judged:?} {stats}");
        // The samples of the other calls are too few for this.
        if *truth > 3e6 {
            assert!((count / truth - 1.0).abs() < 0.03, "{judged:?} {stats}");
        }
    }
}

fn the_errors_of_slices_cover_a_load_that_is_slower_in_them() {
    // It sleeps as long as it would without the cost of the calls.
    let (judged, stats) =
        watched_in_slices([0, 1].map(|seed| load::mixed_calls(BURSTS, 1000, 700, seed)));
    for (number, truth, count, error) in &judged {
        assert!((count - truth).abs() <= 1.5 * error, "{number}: {judged:?} {stats}");
    }
}

fn a_heavy_load_stays_within_its_budget_and_its_counts_within_their_errors() {
    // Each load makes 125 calls a millisecond: with a record of each, a run would cost some 4 % of
    // two CPUs.
    const BURSTS: u64 = 6000;
    let loads = [0, 1].map(|seed| load::mixed_calls(BURSTS, 125, 1000, seed));
    let mut truth = load::numbers_of(BURSTS * 125, 0);
    for (number, count) in load::numbers_of(BURSTS * 125, 1) {
        *truth.entry(number).or_default() += count;
    }
    let [one, other] = &loads;
    let event = calls_of([one, other]);
    let watched = ["top", "-e", &event, "-k", "id", "-i", "1000", "--budget", "1%", "--stats"];
    let tool = Tool::attach(&watched);
    let [one, mut other] = loads;
    other.start();
    one.run();
    other.wait();
    let run = tool.finish();
    run.is_complete();
    let stats = run.of("stats").next().expect("--stats prints an object").clone();
    let cost = stats["cost_percent"].as_f64().expect("the cost is a number");
    assert!(cost <= 1.2, "{stats}");
    assert!(stats["one_in_max"].as_u64() > Some(1), "{stats}");
    assert!(run.coverage()["thinned"].as_u64() > Some(0), "{}", run.coverage());
    let judged = judged(&run, &truth);
    // A true value is outside of its error once in 20 times, and outside of twice the error once in
    // 10,000 times.
    let within = |factor: f64| {
        let is_near = |&&(_, truth, count, error): &&(i64, f64, f64, f64)| {
            (count - truth).abs() <= factor * error
        };
        judged.iter().filter(is_near).count()
    };
    assert!(within(1.0) >= 4 && within(2.0) == judged.len(), "{judged:?} {stats}");
    for (number, truth, count, error) in judged.iter().filter(|(_, truth, ..)| *truth > 2e5) {
        assert!((count / truth - 1.0).abs() < 0.03, "{number}: {count} of {truth} ± {error}");
    }
    let all = |of: fn(&(i64, f64, f64, f64)) -> f64| judged.iter().map(of).sum::<f64>();
    let (truth, count) = (all(|one| one.1), all(|one| one.2));
    // The kernel counts all, unless counts are dear here and the events are on in slices of time.
    let most = if stats["one_in_max"].as_u64() > Some(200) { 0.03 } else { 0.005 };
    assert!((count / truth - 1.0).abs() < most, "{count} of {truth}: {stats}");
}

fn a_light_load_is_not_thinned_and_its_counts_are_exact() {
    let loads = [0, 1].map(|seed| load::mixed_calls(20, 100, 20_000, seed));
    let mut truth = load::numbers_of(2000, 0);
    for (number, count) in load::numbers_of(2000, 1) {
        *truth.entry(number).or_default() += count;
    }
    let [one, other] = &loads;
    let event = calls_of([one, other]);
    // Unmeasured machines differ, so the budget has some room.
    let tool = Tool::attach(&["top", "-e", &event, "-k", "id", "-i", "1000", "--budget", "20%"]);
    let [one, mut other] = loads;
    other.start();
    one.run();
    other.wait();
    let run = tool.finish();
    run.is_complete();
    assert_eq!(run.coverage()["thinned"], 0, "{}", run.coverage());
    let estimates = estimates(&run);
    for (number, _) in CALLS {
        let exact = (truth[&number] as f64, 0.0);
        assert_eq!(estimates.get(&number).copied().unwrap_or_default(), exact, "{number}");
    }
}

fn a_strict_run_ends_when_it_exceeds_its_budget() {
    let loads = [0, 1].map(|seed| load::mixed_calls(6000, 125, 1000, seed));
    let [one, other] = &loads;
    let event = calls_of([one, other]);
    let tool = Tool::attach(&["top", "-e", &event, "-k", "id", "--budget", "0.5%", "--strict"]);
    let [mut one, mut other] = loads;
    one.start();
    other.start();
    let (text, code) = tool.finish_by_itself();
    drop((one, other));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("\"thinned\":0"), "{text}");
}

fn what_cannot_be_estimated_is_refused_with_a_reason() {
    let refused = |args: &[&str]| {
        let run = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .args(args)
            .args(["--budget", "1%", "--duration", "1"])
            .stdin(Stdio::null())
            .output()
            .expect("the built command runs");
        assert!(!run.status.success(), "{args:?}");
        String::from_utf8_lossy(&run.stderr).into_owned()
    };
    let script = tempfile::Builder::new().suffix(".lua").tempfile().expect("a temporary file");
    let source = "local m = monitor { summary = 'early', independent = true }
        local rows = kv { 'cpu', count = 'calls' }
        function m.init() evsel('raw_syscalls:sys_enter', function(e) rows:add(e._cpu) end) end
        return m";
    std::fs::write(script.path(), source).expect("it can be written");
    let path = script.path().to_str().expect("a path in UTF-8");
    assert!(refused(&[path]).contains("declares a table before m.init"), "{}", refused(&[path]));
    for (args, why) in [
        (&["task-state"][..], "relates events to each other"),
        (&["top", "-e", "sched:sched_switch", "-p", "1"], "inherited by their children"),
        (&["top", "-e", "sched:sched_stat_runtime"], "counts nanoseconds"),
        (&["top", "-e", "cpu-clock"], "is sampled by time"),
        (&["top", "-e", "page-faults/period=10/"], "period"),
    ] {
        let stderr = refused(args);
        assert!(stderr.contains("--budget") && stderr.contains(why), "{args:?}: {stderr}");
    }
}
