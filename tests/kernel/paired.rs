//! Pairs of events in the kernel: equal to those of user space and to what the load did.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::counting::{can_count, leaves_no_program, usual_refusal};
use crate::live::{live_tests, skip_anywhere};
use crate::load::{self, Load};
use crate::tool::{Run, Tool};

live_tests! {
    each_call_is_timed_in_the_kernel_and_by_records_beside_it,
    sleeps_are_as_long_as_the_sleeper_measured,
    errors_and_calls_without_a_return_are_counted_in_the_kernel,
    a_pair_has_the_histogram_of_its_delays,
    filters_of_pairs_read_the_task_and_the_cpu,
    a_replaced_start_is_unmatched,
    an_event_of_both_stages_is_an_end_before_it_is_a_start,
    a_start_without_an_end_is_listed,
    starts_without_room_are_evicted,
    the_starts_of_ended_threads_are_removed,
    a_script_pairs_in_the_kernel_by_declaring,
    soft_interrupts_are_timed_in_the_kernel,
    a_killed_run_leaves_no_program_of_pairs,
    pairs_that_need_records_are_refused_or_taken_in_user_space,
    only_events_that_are_never_missed_are_paired_in_the_kernel_by_default,
}

/// A number of a call that no other process makes: it was never implemented.
const UNUSED: i64 = 181;
/// `ENOSYS`
const NOT_THERE: i32 = 38;

pub(crate) fn start(place: &str, args: &[&str]) -> Tool {
    can_count();
    Tool::attach(&[args, &["--where", place]].concat())
}

/// Runs a load while it is paired in both places.
pub(crate) fn both(args: &[&str], load: Load) -> [Run; 2] {
    let tools = ["kernel", "user"].map(|place| start(place, args));
    load.run();
    tools.map(Tool::finish)
}

/// Fails unless the kernel paired everything without records.
pub(crate) fn is_exact(run: &Run) {
    run.is_complete();
    assert_eq!(run.coverage()["undelivered"], 0, "{}", run.coverage());
}

/// Returns the sum of a column over the rows of a table that meet a condition.
pub(crate) fn sum(run: &Run, table: &str, column: &str, is: impl Fn(&Value) -> bool) -> f64 {
    let rows = run.of("row").filter(|row| row["table"] == table && is(row));
    rows.filter_map(|row| row[column].as_f64()).sum()
}

/// Returns the number of events that the kernel did not deliver.
pub(crate) fn undelivered(run: &Run) -> u64 {
    run.coverage()["undelivered"].as_u64().unwrap_or_default()
}

fn lost(run: &Run) -> f64 {
    run.coverage()["lost"].as_f64().unwrap_or_default()
}

fn each_call_is_timed_in_the_kernel_and_by_records_beside_it() {
    const CALLS: u32 = 200_000;
    let load = load::getppid(CALLS);
    let tid = load.pid();
    let [kernel, user] = both(&["syscalls", "--only", "getppid", "--perins"], load);
    let calls = |run: &Run| sum(run, "latency", "calls", |row| row["tid"] == tid);
    assert_eq!(calls(&kernel), f64::from(CALLS), "{}", kernel.stderr);
    is_exact(&kernel);
    assert_eq!(kernel.coverage()["unmatched"], 0, "{}", kernel.coverage());
    // A program at the tracepoint takes no record from another perf user.
    assert!(calls(&user) + lost(&user) >= f64::from(CALLS), "{}", user.stderr);
    for row in kernel.of("row").filter(|row| row["tid"] == tid) {
        let time = |column: &str| row[column].as_f64().unwrap_or_else(|| panic!("{row}"));
        let times = ["min_us", "p50_us", "p95_us", "p99_us", "max_us"].map(time);
        assert!(times[0] > 0.0 && times.is_sorted(), "{row}");
        let average = time("total_us") / time("calls");
        assert!((times[0]..=times[4]).contains(&average), "{row}");
    }
}

fn sleeps_are_as_long_as_the_sleeper_measured() {
    const SLEEPS: usize = 30;
    let (load, measured) = load::sleeps::<SLEEPS>();
    let tid = load.pid();
    let args = ["syscalls", "--only", "clock_nanosleep", "--perins", "-i", "60000"];
    let runs = both(&args, load);
    let asked: f64 = (0..SLEEPS).map(|i| 1000.0 + 150.0 * i as f64).sum();
    let [median, all] = [0, 2].map(|index| measured.get(index) as f64 / 1e3);
    for run in &runs {
        let of = |column: &str| sum(run, "latency", column, |row| row["tid"] == tid);
        assert_eq!(of("calls"), SLEEPS as f64, "{:?}", run.objects);
        assert!((asked..=all).contains(&of("total_us")), "{} of {all}", of("total_us"));
        // A bucket is at most 1 % wide.
        assert!((3000.0..=median * 1.01).contains(&of("p50_us")), "{} {median}", of("p50_us"));
        is_exact(run);
    }
}

/// Makes a call that fails `n` times.
fn unused_calls(n: u32) -> Load {
    Load::new(move || {
        for _ in 0..n {
            // SAFETY: no kernel implements the call.
            unsafe { libc::syscall(UNUSED) };
        }
    })
}

fn errors_and_calls_without_a_return_are_counted_in_the_kernel() {
    let of_calls = format!("id == {UNUSED} || id == {}", libc::SYS_exit_group);
    let [enter, exit] =
        ["enter", "exit"].map(|event| format!("raw_syscalls:sys_{event}/{of_calls}/"));
    let args = ["multi-trace", "--impl", "syscalls", "-e", &enter, "-e", &exit];
    for run in both(&args, unused_calls(700)) {
        let name = format!("syscall_{UNUSED}");
        let is_unused = |row: &Value| {
            let of = row["syscall"].as_str().unwrap_or_default();
            of == name || of == "getpmsg"
        };
        assert_eq!(sum(&run, "latency", "calls", is_unused), 700.0, "{:?}", run.objects);
        let is_error = |row: &Value| {
            is_unused(row) && row["error"].as_str().is_some_and(|name| name.contains("ENOSYS"))
        };
        assert_eq!(libc::ENOSYS, NOT_THERE);
        assert_eq!(sum(&run, "errors", "errors", is_error), 700.0, "{:?}", run.objects);
        let does_not_return = |row: &Value| row["unpaired"] == "does not return";
        assert!(sum(&run, "calls", "calls", does_not_return) >= 1.0, "{:?}", run.objects);
        assert!(run.coverage()["exited"].as_u64() >= Some(1), "{}", run.coverage());
        run.is_complete();
    }
}

/// Returns arguments of `multi-trace` for two stages.
pub(crate) fn stages<'a>(from: &'a str, to: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    [&["multi-trace", "-e", from, "-e", to][..], further].concat()
}

fn a_pair_has_the_histogram_of_its_delays() {
    const CALLS: u32 = 5000;
    let load = load::getppid(CALLS);
    let filter = format!("id=={} && common_pid=={}", libc::SYS_getppid, load.pid());
    let [enter, exit] =
        ["enter", "exit"].map(|event| format!("raw_syscalls:sys_{event}/{filter}/"));
    for run in both(&stages(&enter, &exit, &["-k", "_tid", "--histogram"]), load) {
        assert_eq!(sum(&run, "latency", "calls", |_| true), f64::from(CALLS), "{:?}", run.objects);
        let least = sum(&run, "latency", "min_us", |_| true) * 1e3;
        let buckets = run.of("hist").flat_map(|hist| hist["buckets"].as_array()).flatten();
        let buckets: Vec<&Value> = buckets.collect();
        // The first value, the last one and the count.
        let count = |bucket: &&Value| bucket[2].as_u64().unwrap_or_default();
        assert_eq!(buckets.iter().map(count).sum::<u64>(), u64::from(CALLS), "{:?}", run.objects);
        let filled = buckets.iter().find(|bucket| count(bucket) > 0).expect("a bucket");
        let bound = |index: usize| filled[index].as_f64().unwrap_or_default();
        assert!((bound(0)..=bound(1)).contains(&least), "{filled} {least}");
        assert_eq!(run.coverage()["events"], 2 * CALLS);
        is_exact(&run);
    }
}

fn filters_of_pairs_read_the_task_and_the_cpu() {
    can_count();
    let load = load::getppid(500);
    let filter = format!("id=={} && _pid == {} && _cpu + 1 > 0", libc::SYS_getppid, load.pid());
    let [enter, exit] =
        ["enter", "exit"].map(|event| format!("raw_syscalls:sys_{event}/{filter}/"));
    for run in both(&stages(&enter, &exit, &["-k", "_tid"]), load) {
        assert_eq!(sum(&run, "latency", "calls", |_| true), 500.0, "{:?}", run.objects);
        is_exact(&run);
    }
}

fn a_replaced_start_is_unmatched() {
    const CALLS: u32 = 3000;
    let load = load::between_two_calls(CALLS);
    let pid = load.pid();
    let of = |event: &str, number: i64| {
        format!("raw_syscalls:sys_{event}/id=={number} && common_pid=={pid}/")
    };
    let (from, to) = (of("enter", libc::SYS_getppid), of("exit", libc::SYS_getgid));
    for run in both(&stages(&from, &to, &["-k", "_tid"]), load) {
        assert_eq!(sum(&run, "latency", "calls", |_| true), 1.0, "{:?}", run.objects);
        assert_eq!(run.coverage()["unmatched"], CALLS - 1, "{}", run.coverage());
        is_exact(&run);
    }
}

/// A selector of the calls of [`load::getppid_with_arguments`].
pub(crate) fn with_arguments(pid: u32, key: &str) -> String {
    let (number, shift) = (libc::SYS_getppid, load::PROCESS_SHIFT);
    format!("raw_syscalls:sys_enter/id=={number} && args[0] >> {shift} == {pid}/key={key}/")
}

fn an_event_of_both_stages_is_an_end_before_it_is_a_start() {
    const CALLS: u32 = 20_000;
    let load = load::getppid_with_arguments(CALLS);
    let pid = load.pid();
    let (from, to) = (with_arguments(pid, "args[0]"), with_arguments(pid, "args[0]-1"));
    for run in both(&stages(&from, &to, &["-m", "4096"]), load) {
        let pairs = f64::from(CALLS) - 1.0;
        assert_eq!(sum(&run, "latency", "calls", |_| true) + lost(&run), pairs, "{}", run.stderr);
        assert_eq!(run.coverage()["open"], 1, "{}", run.coverage());
        is_exact(&run);
    }
}

fn a_start_without_an_end_is_listed() {
    let mut sleeper = load::sleep_ms(60_000);
    let filter = format!("id=={}", libc::SYS_clock_nanosleep);
    let [enter, exit] =
        ["enter", "exit"].map(|event| format!("raw_syscalls:sys_{event}/{filter}/"));
    let args = stages(&enter, &exit, &["-k", "_tid"]);
    let tools = ["kernel", "user"].map(|place| start(place, &args));
    sleeper.start();
    std::thread::sleep(Duration::from_millis(1500));
    for run in tools.map(Tool::finish) {
        let mut open = run.of("row").filter(|row| row["table"] == "no_end_yet");
        let row = open.find(|row| row["tid"] == sleeper.pid() || row["_tid"] == sleeper.pid());
        let row = row.unwrap_or_else(|| panic!("{:?}", run.objects));
        assert_eq!(row["start"], "raw_syscalls:sys_enter");
        let waited = row["for_ms"].as_f64().unwrap_or_default();
        assert!((1000.0..30_000.0).contains(&waited), "{row}");
        assert!(run.coverage()["open"].as_u64() >= Some(1), "{}", run.coverage());
    }
}

fn starts_without_room_are_evicted() {
    const CALLS: u32 = 70_000;
    let load = load::getppid_with_arguments(CALLS);
    let from = with_arguments(load.pid(), "args[0]");
    let to = format!("raw_syscalls:sys_enter/id=={UNUSED}/key=args[0]/");
    let tool = start("kernel", &stages(&from, &to, &[]));
    load.run();
    let run = tool.finish();
    is_exact(&run);
    assert_eq!(run.coverage()["evicted"], CALLS - 65_536, "{}", run.coverage());
    assert_eq!(run.coverage()["open"], 65_536, "{}", run.coverage());
}

fn the_starts_of_ended_threads_are_removed() {
    const FORKS: u32 = 3000;
    let load = load::forks(FORKS);
    let from = format!("raw_syscalls:sys_enter/id=={}/", libc::SYS_exit_group);
    let to = format!("raw_syscalls:sys_exit/id=={UNUSED}/");
    let tool = start("kernel", &stages(&from, &to, &["-k", "_tid"]));
    load.run();
    let run = tool.finish();
    is_exact(&run);
    assert!(run.coverage()["exited"].as_u64() >= Some(FORKS.into()), "{}", run.coverage());
    assert_eq!(run.coverage()["evicted"], 0, "{}", run.coverage());
}

const SCRIPT: &str = r#"
local m = monitor { summary = "time off the CPU by name", order = true, every = "1s" }
function m.init()
  local times = latency { "tid", "name", title = "away" }
  local errors = kv { "name", count = "long" }
  local filter = { filter = "prev_state > 0" }
  times:between({ evsel("sched:sched_switch", filter), key = "prev_pid", where = "prev_pid != 0" },
    { evsel "sched:sched_switch", key = "next_pid", where = "next_pid != 0" }, {
      threads = true, rows = { "next_pid", "next_comm" },
      counts = { { errors, at = "pair", where = "next_prio > 0", key = { "next_comm" } } },
    })
end
return m
"#;

fn a_script_pairs_in_the_kernel_by_declaring() {
    // An event in an interrupt that hits another program is missed, and counted as that.
    let complete = (0..20).find(|_| both_pair_the_same_sleeps());
    assert!(complete.is_some(), "each of 20 runs missed events");
}

/// Pairs one load in both places. Returns whether nothing was missed.
fn both_pair_the_same_sleeps() -> bool {
    // Records of an idle task may be missing, but its events are counted.
    let _busy = load::never_idle();
    let (load, _) = load::sleeps::<30>();
    let pid = load.pid();
    let file = tempfile::Builder::new().suffix(".lua").tempfile().expect("a temporary file");
    std::fs::write(file.path(), SCRIPT).expect("a script can be written");
    let path = file.path().to_str().expect("a path in UTF-8");
    let [kernel, user] = both(&[path, "-m", "2048"], load);
    let calls = |run: &Run| sum(run, "away", "calls", |row| row["tid"] == pid);
    let total = |run: &Run| sum(run, "away", "total_us", |row| row["tid"] == pid);
    kernel.is_complete();
    // Records of an idle task may be missing without a count.
    if undelivered(&kernel) + undelivered(&user) > 0 || calls(&user) < calls(&kernel) {
        return false;
    }
    assert!(calls(&kernel) >= 30.0, "{:?}", kernel.objects);
    assert_eq!(calls(&kernel), calls(&user), "{:?}", kernel.objects);
    // Each delay is measured between the same two switches, some microseconds apart.
    let difference = (total(&kernel) - total(&user)).abs();
    assert!(difference < 0.05 * total(&user), "{} {}", total(&kernel), total(&user));
    let name = |run: &Run| {
        let row = run.of("row").find(|row| row["table"] == "away" && row["tid"] == pid).cloned();
        row.map(|row| row["name"].clone())
    };
    assert_eq!(name(&kernel), name(&user));
    true
}

fn soft_interrupts_are_timed_in_the_kernel() {
    let (load, _) = load::sleeps::<30>();
    let tool = start("kernel", &["irq", "--soft", "--self"]);
    load.run();
    let run = tool.finish();
    run.is_complete();
    let rows: Vec<&Value> = run.of("row").filter(|row| row["table"] == "softirq").collect();
    let names: Vec<&Value> = rows.iter().map(|row| &row["softirq"]).collect();
    assert!(names.iter().any(|name| *name == "TIMER" || *name == "SCHED"), "{names:?}");
    let calls = sum(&run, "softirq", "calls", |_| true);
    let events = run.coverage()["events"].as_f64().unwrap_or_default();
    assert!(calls > 0.0 && 2.0 * calls <= events, "{calls} {events}");
}

fn a_killed_run_leaves_no_program_of_pairs() {
    let tool = start("kernel", &["syscalls"]);
    // A program for each event, and one for the end of threads.
    leaves_no_program(tool, 3);
}

/// Runs a monitor for a moment. Returns its exit code and its messages.
pub(crate) fn run_briefly(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(args)
        .args(["--duration", "300ms", "-v"])
        .output()
        .expect("the built command runs");
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    (output.status.code(), text.into_owned())
}

fn pairs_that_need_records_are_refused_or_taken_in_user_space() {
    can_count();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let picture = folder.path().join("calls.svg");
    let picture = picture.to_str().expect("a path in UTF-8");
    // Its bins are narrower than the kernel's buckets.
    let linear = folder.path().join("linear.lua");
    let script = "local m = monitor { summary = 'calls' }\n\
        function m.init() latency { 'thread' }:between(evsel 'raw_syscalls:sys_enter',\n\
        evsel 'raw_syscalls:sys_exit', { key = '_tid', rows = { '_tid' }, threads = true,\n\
        histogram = { hist.linear { step = 1000, max = 2000000 } } }) end return m";
    std::fs::write(&linear, script).expect("a script can be written");
    let linear = linear.to_str().expect("a path in UTF-8");
    let (enter, exit) = ("raw_syscalls:sys_enter", "raw_syscalls:sys_exit");
    let pair = stages(enter, exit, &["-k", "_tid"]);
    let with = |further: &[&'static str]| [&pair[..], further].concat();
    for (args, why) in [
        (vec!["syscalls", "--heatmap", picture], "--heatmap needs records"),
        (vec!["syscalls", "-N", "5"], "-N needs records"),
        (vec![linear], "a linear histogram"),
        (with(&["--max-age", "1s"]), "a maximum age of starts"),
        (with(&["--than", "1s", "--detail"]), "a handler takes its records"),
        (stages(enter, exit, &["-k", "_time"]), "raw_syscalls:sys_enter: `_time`"),
    ] {
        let (code, text) = run_briefly(&[&args[..], &["--where", "kernel"]].concat());
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(&format!("cannot be counted in the kernel: {why}")), "{why}: {text}");
        let (code, text) = run_briefly(&[&args[..], &["--where", "auto"]].concat());
        assert_eq!(code, Some(0), "{text}");
        let reasons = [Some(why), usual_refusal()].into_iter().flatten();
        let mut notes = reasons.map(|why| format!("counted in user space: {why}"));
        assert!(notes.any(|note| text.contains(&note)), "{why}: {text}");
    }
}

fn only_events_that_are_never_missed_are_paired_in_the_kernel_by_default() {
    can_count();
    if let Some(why) = usual_refusal() {
        skip_anywhere(why);
    }
    let switches = "sched:sched_switch//key=prev_pid/";
    let back = "sched:sched_switch//key=next_pid/";
    let queued = "workqueue:workqueue_queue_work//key=cpu/";
    for (start, why) in [
        (queued, "it may hit another BPF program and be missed"),
        (switches, "a start may remain after the end of its thread"),
    ] {
        let (code, text) = run_briefly(&stages(start, back, &["--where", "auto"]));
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(why), "{text}");
    }
    let (code, text) = run_briefly(&stages(switches, back, &["--where", "kernel"]));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("sched:sched_switch: counted in the kernel"), "{text}");
    let (code, text) = run_briefly(&["syscalls"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("raw_syscalls:sys_enter: counted in the kernel"), "{text}");
}
