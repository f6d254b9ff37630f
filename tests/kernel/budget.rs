//! `--budget`: a heavy load is thinned, and its counts are estimates within their errors; a light
//! load is counted exactly.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::live::live_tests;
use crate::load::{self, CALLS, Load};
use crate::tool::{Run, Tool};

live_tests! { alone: [
    a_heavy_load_stays_within_its_budget_and_its_counts_within_their_errors,
    events_whose_counts_exceed_the_budget_are_on_in_slices_of_time,
    the_errors_of_slices_cover_a_load_that_is_slower_in_them,
    the_cost_of_events_that_are_off_is_known,
    a_short_run_stays_within_its_budget_from_its_begin,
    a_light_load_is_not_thinned_and_its_counts_are_exact,
    a_strict_run_ends_when_it_exceeds_its_budget,
    counts_in_the_kernel_are_exact_as_long_as_they_stay_within_the_budget,
    counts_of_the_kernel_in_slices_are_near_the_truth,
    counts_of_the_kernel_in_slices_cover_a_load_that_is_slower_in_them,
    what_cannot_be_estimated_is_refused_with_a_reason,
] }

/// Returns the selector of the system calls of two processes.
fn calls_of(loads: [&Load; 2]) -> String {
    let [one, other] = loads.map(Load::pid);
    format!("raw_syscalls:sys_enter/common_pid=={one}||common_pid=={other}/")
}

/// Returns whether a run with a budget of 1 % stayed within it. On a machine that others slow down,
/// this process, which is built without optimisation, takes half of it or more by itself: then only
/// the events, which it can thin, must stay within 0.7 %.
fn is_within_budget(stats: &serde_json::Value) -> bool {
    let percent = |key: &str| stats[key].as_f64().expect("a cost is a number");
    let (own, kernel) = (percent("own_percent"), percent("kernel_percent"));
    own + kernel <= 1.2 || own > 0.5 && kernel <= 0.7
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

/// Runs both loads to their end, and ends the run that watches them.
fn watched(tool: Tool, [one, mut other]: [Load; 2]) -> Run {
    other.start();
    one.run();
    other.wait();
    tool.finish()
}

/// Returns how often two loads of so many mixed calls each make each call.
fn calls_of_both(calls: u64) -> BTreeMap<i64, u64> {
    let mut truth = load::numbers_of(calls, 0);
    for (number, count) in load::numbers_of(calls, 1) {
        *truth.entry(number).or_default() += count;
    }
    truth
}

/// Watches two loads of 4,000,000 lookups each with a budget, by process. Returns the true number
/// of allocations, then of releases, and the estimated one with its error, of each, and the object
/// `stats`.
fn watched_in_slices(loads: [Load; 2]) -> (Vec<(f64, f64, f64)>, serde_json::Value) {
    let event = lookups_of(loads.each_ref().map(Load::pid));
    watched_with(&event, loads)
}

/// The same for other selectors of the two events.
fn watched_with(event: &str, loads: [Load; 2]) -> (Vec<(f64, f64, f64)>, serde_json::Value) {
    let pids = loads.each_ref().map(Load::pid);
    let args = ["top", "-e", event, "-k", "common_pid", "--budget", "1%", "--stats"];
    // One report: the parts of the errors of several that come from slower tasks would add up.
    let tool = Tool::attach(&[&args[..], &["-i", "60000"]].concat());
    let run = watched(tool, loads);
    let stats = run.of("stats").next().expect("--stats prints an object").clone();
    assert!(is_within_budget(&stats), "{stats} {}", run.stderr);
    let judge = |(event, pid): (&str, u32)| {
        let row = run.of("row").find(|row| row["common_pid"] == pid);
        let row = row.unwrap_or_else(|| panic!("no row of {pid}: {stats}"));
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"));
        ((BURSTS * CALLS_OF_BURST) as f64, number(event), number(&format!("{event}_error")))
    };
    let all = ["kmem_cache_alloc", "kmem_cache_free"].map(|event| pids.map(|pid| (event, pid)));
    let judged = all.into_iter().flatten().map(judge).collect();
    (judged, stats)
}

/// Returns the selectors of the allocations and releases of names by two processes.
fn lookups_of([one, other]: [u32; 2]) -> String {
    let filter = format!("name==\"names_cache\"&&(common_pid=={one}||common_pid=={other})");
    format!("kmem:kmem_cache_alloc/{filter}/,kmem:kmem_cache_free/{filter}/")
}

/// Returns the same selectors without the name, which only records have: the kernel counts them.
fn counted_lookups_of([one, other]: [u32; 2]) -> String {
    let filter = format!("common_pid=={one}||common_pid=={other}");
    format!("kmem:kmem_cache_alloc/{filter}/,kmem:kmem_cache_free/{filter}/")
}

/// Two million events a second: counting them costs some 5 % of two CPUs or more.
const BURSTS: u64 = 8000;
const CALLS_OF_BURST: u64 = 500;

fn events_whose_counts_exceed_the_budget_are_on_in_slices_of_time() {
    let loads = [0, 1].map(|_| load::paced_lookups(BURSTS, CALLS_OF_BURST, 1000));
    let (judged, stats) = watched_in_slices(loads);
    // Where counts are expensive, slices are rare (with R of 50, there are 16 in 8 s), and some
    // bursts in them last longer than a millisecond.
    let parts = stats["one_in_time_max"].as_f64().expect("a number");
    assert!(parts > 1.0, "{stats}");
    let most = 0.03 * (parts / 15.0).max(1.0);
    for (truth, count, error) in &judged {
        assert!((count - truth).abs() <= 2.0 * error, "{judged:?} {stats}");
        assert!((count / truth - 1.0).abs() < most, "{judged:?} {stats}");
    }
}

fn the_errors_of_slices_cover_a_load_that_is_slower_in_them() {
    // It sleeps as long as it would without the cost of the allocations.
    let (judged, stats) =
        watched_in_slices([0, 1].map(|_| load::lookups(BURSTS, CALLS_OF_BURST, 700)));
    assert!(stats["one_in_time_max"].as_u64() > Some(1), "{stats}");
    for (truth, count, error) in &judged {
        assert!((count - truth).abs() <= 1.5 * error, "{judged:?} {stats}");
        assert!(*count < 1.05 * truth && error < truth, "{judged:?} {stats}");
    }
}

fn counts_in_the_kernel_are_exact_as_long_as_they_stay_within_the_budget() {
    // Records of 60,000 calls per second would cost several percent; counts cost 0.3 %, beside this
    // process without optimisation.
    const BURSTS: u64 = 4000;
    let loads = [0, 1].map(|seed| load::mixed_calls(BURSTS, 30, 1000, seed));
    let truth = calls_of_both(BURSTS * 30);
    let event = calls_of([&loads[0], &loads[1]]);
    let tool = Tool::attach(&["top", "-e", &event, "-k", "id", "--budget", "2%", "--stats"]);
    let run = watched(tool, loads);
    run.is_complete();
    let stats = run.of("stats").next().expect("--stats prints an object");
    assert_eq!((&stats["one_in_max"], &run.coverage()["thinned"]), (&1.into(), &0.into()));
    let estimates = estimates(&run);
    for (number, _) in CALLS {
        let exact = (truth[&number] as f64, 0.0);
        assert_eq!(estimates.get(&number).copied().unwrap_or_default(), exact, "{number}");
    }
}

fn counts_of_the_kernel_in_slices_are_near_the_truth() {
    let loads = [0, 1].map(|_| load::paced_lookups(BURSTS, CALLS_OF_BURST, 1000));
    let event = counted_lookups_of(loads.each_ref().map(Load::pid));
    let (judged, stats) = watched_with(&event, loads);
    let parts = stats["one_in_time_max"].as_f64().expect("a number");
    assert!(parts > 1.0, "{stats}");
    // The first slice, while the load begins, stands for a fortieth of the time, and for more where
    // slices are rare.
    let most = 0.08 * (parts / 20.0).max(1.0);
    for (truth, count, error) in &judged {
        assert!((count - truth).abs() <= 1.5 * error, "{judged:?} {stats}");
        assert!((count / truth - 1.0).abs() < most, "{judged:?} {stats}");
    }
}

fn counts_of_the_kernel_in_slices_cover_a_load_that_is_slower_in_them() {
    let loads = [0, 1].map(|_| load::lookups(BURSTS, CALLS_OF_BURST, 700));
    let event = counted_lookups_of(loads.each_ref().map(Load::pid));
    let (judged, stats) = watched_with(&event, loads);
    assert!(stats["one_in_time_max"].as_u64() > Some(1), "{stats}");
    for (truth, count, error) in &judged {
        assert!((count - truth).abs() <= 1.5 * error, "{judged:?} {stats}");
        assert!(*error < 0.5 * truth, "{judged:?} {stats}");
    }
}

/// While events of system calls are open, each call is slower, in slices and between them.
fn the_cost_of_events_that_are_off_is_known() {
    let loads = [0, 1].map(|seed| load::paced_calls(6000, 1000, 1000, seed));
    let event = calls_of([&loads[0], &loads[1]]);
    let args = ["top", "-e", &event, "-k", "id", "--budget", "1%", "--stats", "--where", "user"];
    let tool = Tool::attach(&args);
    let run = watched(tool, loads);
    let stats = run.of("stats").next().expect("--stats prints an object");
    let warns = |note: &serde_json::Value| {
        note["text"].as_str().is_some_and(|text| text.contains("exceeds it even if it records"))
    };
    assert!(is_within_budget(stats) || run.of("note").any(warns), "{stats} {}", run.stderr);
    assert!(stats["one_in_time_max"].as_u64() > Some(1), "{stats}");
}

fn a_heavy_load_stays_within_its_budget_and_its_counts_within_their_errors() {
    // Each load makes 80 calls a millisecond: with a record of each, a run would cost some 3 % of
    // two CPUs, and with a count of each 0.4 %.
    const BURSTS: u64 = 8000;
    let loads = [0, 1].map(|seed| load::mixed_calls(BURSTS, 80, 1000, seed));
    let truth = calls_of_both(BURSTS * 80);
    let [one, other] = &loads;
    let event = calls_of([one, other]);
    let args = ["top", "-e", &event, "-k", "id", "-i", "1000", "--budget", "1%", "--stats"];
    let tool = Tool::attach(&[&args[..], &["--where", "user"]].concat());
    let run = watched(tool, loads);
    run.is_complete();
    let stats = run.of("stats").next().expect("--stats prints an object").clone();
    assert!(is_within_budget(&stats), "{stats}");
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
    if stats["one_in_time_max"] != 1 {
        // Counts are expensive on this machine, so that events are on in slices of time.
        return;
    }
    for (number, truth, count, error) in judged.iter().filter(|(_, truth, ..)| *truth > 2e5) {
        assert!((count / truth - 1.0).abs() < 0.03, "{number}: {count} of {truth} ± {error}");
    }
    let all = |of: fn(&(i64, f64, f64, f64)) -> f64| judged.iter().map(of).sum::<f64>();
    let (truth, count) = (all(|one| one.1), all(|one| one.2));
    // The kernel counts all.
    assert!((count / truth - 1.0).abs() < 0.005, "{count} of {truth}: {stats}");
}

fn a_short_run_stays_within_its_budget_from_its_begin() {
    let [mut one, mut other] = [0, 1].map(|_| load::paced_lookups(5000, CALLS_OF_BURST, 1000));
    let event = lookups_of([one.pid(), other.pid()]);
    one.start();
    other.start();
    for monitor in [&["top", "-k", "common_pid"][..], &["trace"]] {
        let limit = ["-e", &event, "--budget", "1%", "--stats", "--duration", "4"];
        let run = Tool::attach(&[monitor, &limit].concat()).output();
        assert_eq!(run.code, Some(0), "{monitor:?}: {} {}", run.coverage(), run.stderr);
        let stats = run.of("stats").next().expect("--stats prints an object");
        assert!(is_within_budget(stats), "{monitor:?}: {stats}");
        assert!(stats["one_in_time_max"].as_u64() > Some(1), "{monitor:?}: {stats}");
    }
    drop((one, other));
}

fn a_light_load_is_not_thinned_and_its_counts_are_exact() {
    let loads = [0, 1].map(|seed| load::mixed_calls(20, 100, 20_000, seed));
    let truth = calls_of_both(2000);
    let [one, other] = &loads;
    let event = calls_of([one, other]);
    // Unmeasured machines differ, so the budget has some room.
    let tool = Tool::attach(&["top", "-e", &event, "-k", "id", "-i", "1000", "--budget", "20%"]);
    let run = watched(tool, loads);
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
