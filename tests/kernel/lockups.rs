//! irq-off, watchdog and split-lock: CPUs that are held for a known time, and healthy ones.
//!
//! The module `hold` (tests/vm/hold) holds a CPU and measures for how long. The emulated machine of
//! `tests/vm/run` loads it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{
    live::{can_trace, live_tests, skip, skip_anywhere},
    load,
    tool::{Run, Tool},
};

live_tests! {
    root: [
        split_locks_are_refused_with_the_model_and_the_reason_where_nothing_counts_them,
    ],
    any: [
        irq_off_bounds_the_known_time_of_disabled_interrupts,
        a_cpu_that_handles_no_interrupt_is_predicted_to_be_in_a_hard_lockup,
        a_cpu_that_switches_no_task_is_predicted_to_be_in_a_soft_lockup_before_the_kernel_sees_it,
        the_kernels_watchdog_turns_within_its_threshold_and_nothing_is_predicted,
        ticks_that_come_on_time_are_no_time_with_interrupts_off,
        split_locks_are_made_and_timed_beside_locks_within_a_cache_line,
        a_period_of_split_locks_is_a_whole_number,
    ]
}

const HOLD: &str = "/sys/module/hold/parameters/hold";
const THRESH: &str = "/proc/sys/kernel/watchdog_thresh";

/// The CPU that is held; perilune and the tests run on the other.
const HELD_CPU: u32 = 1;

/// Ends the test if the module is not loaded. Build machines do not need it.
fn can_hold() {
    if !Path::new(HOLD).exists() {
        skip_anywhere("the module `hold` is not loaded; tests/vm/run loads it");
    }
    can_trace();
}

/// Holds CPU 1 for `ms`, with `irqs` or `preemption` off. Returns the nanoseconds that the module
/// measured.
fn hold(ms: u64, what: &str) -> u64 {
    fs::write(HOLD, format!("{HELD_CPU} {ms} {what}")).expect("the CPU can be held");
    let measured = fs::read_to_string(HOLD).expect("the module measures");
    let held = measured.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds");
    assert!(held >= ms * 1_000_000, "held for {held} ns only");
    held
}

/// Changes `watchdog_thresh` until it is dropped.
struct Threshold(String);

impl Threshold {
    fn set(seconds: u32) -> Threshold {
        let before = fs::read_to_string(THRESH).expect("the kernel has a lockup detector");
        fs::write(THRESH, seconds.to_string()).expect("root may set it");
        Threshold(before)
    }
}

impl Drop for Threshold {
    fn drop(&mut self) {
        // A failing write leaves a value that the test's output shows.
        let _ = fs::write(THRESH, self.0.trim());
    }
}

/// Runs `work`, and the programs that it starts, on the CPU that is not held.
fn elsewhere(work: impl FnOnce() + Send + 'static) {
    let pinned = std::thread::spawn(|| {
        load::pin_to_cpu_0();
        work();
    });
    pinned.join().unwrap_or_else(|why| std::panic::resume_unwind(why));
}

fn lockups<'a>(run: &'a Run, kind: &'a str, field: &'a str) -> impl Iterator<Item = &'a Value> {
    let is_it = move |o: &&Value| o["lockup"] == kind && !o[field].is_null();
    run.objects.iter().filter(is_it)
}

fn stack(event: &Value) -> String {
    event["stack"].to_string()
}

fn irq_off_bounds_the_known_time_of_disabled_interrupts() {
    can_hold();
    elsewhere(irq_off_bounds);
}

fn irq_off_bounds() {
    let tool = Tool::attach(&["irq-off", "-g"]);
    // A tick of the idle CPU shows that its idle task delivers records.
    std::thread::sleep(Duration::from_millis(100));
    let held: Vec<f64> = [50, 500, 3000].map(|ms| hold(ms, "irqs") as f64 / 1e3).to_vec();
    let run = tool.finish();
    let seen: Vec<&Value> = run.of("event").filter(|e| e["comm"] == "hold/1").collect();
    assert_eq!(seen.len(), held.len(), "{held:?}: {:?}", run.objects);
    for (event, us) in seen.iter().zip(&held) {
        let bound = |key: &str| event[key].as_f64().unwrap_or(f64::NAN);
        let (min, max) = (bound("off_min_us"), bound("off_max_us"));
        // An emulated timer fires some milliseconds late.
        assert!(min <= us + 5000.0 && max >= *us, "held {us} us: {event}");
        assert!(max - min <= 10_001.0, "a half of -L: {event}");
        assert!(event["cpu"] == HELD_CPU && stack(event).contains("hold_thread"), "{event}");
    }
    run.is_complete();
}

fn a_cpu_that_handles_no_interrupt_is_predicted_to_be_in_a_hard_lockup() {
    can_hold();
    elsewhere(hard_lockup);
}

fn hard_lockup() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    let out = out.to_str().expect("its path is UTF-8");
    let tool = Tool::attach(&["watchdog", "-g", "-o", out]);
    // The threshold may be lowered during a run.
    let _threshold = Threshold::set(1);
    // The timer expires every 0.4 s; one expiry before the lockup is needed.
    std::thread::sleep(Duration::from_millis(1500));
    let (since, holder) = (Instant::now(), std::thread::spawn(|| hold(3000, "irqs")));
    let printed = || fs::read_to_string(out).unwrap_or_default().contains("\"lockup\":\"hard\"");
    while !printed() && since.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let passed = since.elapsed();
    let held = holder.join().expect("the CPU was held") as f64 / 1e6;
    std::thread::sleep(Duration::from_millis(1500));
    tool.finish();
    let text = fs::read_to_string(out).expect("the run has written it");
    let objects: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |field: &str| -> Vec<f64> {
        let hard = objects.iter().filter(|o| o["lockup"] == "hard" && o["locked_cpu"] == HELD_CPU);
        hard.filter_map(|o| o[field].as_f64()).collect()
    };
    let (silent, over) = (of("silent_ms"), of("over_after_ms"));
    assert!(silent.len() == 1 && (600.0..1000.0).contains(&silent[0]), "{silent:?}: {text}");
    // From an expiry before the lockup to the first one after it.
    assert!(over.len() == 1 && (held..held + 500.0).contains(&over[0]), "{held} ms: {over:?}");
    assert!(
        passed < Duration::from_millis(2500),
        "printed {passed:?} after it began, not during it"
    );
    assert!(text.contains("hard lockups are predicted from timers"), "{text}");
}

fn a_cpu_that_switches_no_task_is_predicted_to_be_in_a_soft_lockup_before_the_kernel_sees_it() {
    can_hold();
    elsewhere(soft_lockup);
}

fn soft_lockup() {
    let _threshold = Threshold::set(1);
    let reported = soft_lockups_in_log();
    let tool = Tool::attach(&["watchdog", "-g"]);
    std::thread::sleep(Duration::from_millis(1500));
    let held = hold(5000, "preemption") as f64 / 1e6;
    std::thread::sleep(Duration::from_millis(1500));
    let run = tool.finish();
    let soft: Vec<&Value> = lockups(&run, "soft", "silent_ms").collect();
    assert_eq!(soft.len(), 1, "{:?}", run.objects);
    let silent = soft[0]["silent_ms"].as_f64().unwrap_or_default();
    assert!((1200.0..2000.0).contains(&silent), "{}", soft[0]);
    assert!(soft[0]["comm"] == "hold/1" && stack(soft[0]).contains("hold_cpu"), "{}", soft[0]);
    let over = lockups(&run, "soft", "over_after_ms").next().map(|o| o["over_after_ms"].clone());
    let over = over.and_then(|ms| ms.as_f64()).unwrap_or_default();
    assert!((held..held + 500.0).contains(&over), "{held} ms: {over}");
    assert_eq!(lockups(&run, "hard", "silent_ms").count(), 0, "{:?}", run.objects);
    assert!(soft_lockups_in_log() > reported, "the kernel reported none");
    run.is_complete();
}

/// Returns the number of soft lockups of CPU 1 in the kernel's log.
fn soft_lockups_in_log() -> usize {
    let log = Command::new("dmesg").output().expect("dmesg runs").stdout;
    String::from_utf8_lossy(&log).matches("soft lockup - CPU#1 stuck for").count()
}

fn the_kernels_watchdog_turns_within_its_threshold_and_nothing_is_predicted() {
    can_hold();
    let _threshold = Threshold::set(5);
    let tool = Tool::attach(&["watchdog"]);
    std::thread::sleep(Duration::from_millis(6500));
    let run = tool.finish();
    assert!(run.objects.iter().all(|o| o["lockup"].is_null()), "{:?}", run.objects);
    let rows: Vec<&Value> = run.of("row").collect();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(rows.len() >= cpus.min(2), "{:?}", run.objects);
    for row in rows {
        // Migrations wake the thread as well, and shorten its turns.
        let of = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        assert!(of("max_ms") < 5000.0 && of("total_ms") > 2400.0, "{row}");
    }
    run.is_complete();
}

fn ticks_that_come_on_time_are_no_time_with_interrupts_off() {
    can_hold();
    let _busy = load::never_idle();
    let (tool, since) =
        (Tool::attach(&["irq-off", "-L", "100ms", "--precise", "-C", "0"]), Instant::now());
    std::thread::sleep(Duration::from_secs(3));
    let passed = since.elapsed().as_secs_f64();
    let run = tool.finish();
    assert_eq!(run.of("event").count(), 0, "{:?}", run.objects);
    // Interrupts of other timers are events as well.
    let (events, due) = (run.coverage()["events"].as_f64().unwrap_or_default(), passed / 0.05);
    assert!(events >= due * 0.8, "{events} events, {due} ticks");
    run.is_complete();
}

fn split_locks_are_refused_with_the_model_and_the_reason_where_nothing_counts_them() {
    for more in [&["-T", "0"][..], &["--test"]] {
        let output = own().arg("split-lock").args(more).output().expect("the command runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").expect("it can be read");
        let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name\t: "));
        assert!(said.contains(name.unwrap_or("this CPU")), "{said}");
        let why = ["hardware counters are not available here", "no hardware event is known"];
        assert!(why.iter().any(|why| said.contains(why)), "{said}");
        assert!(said.contains("the kernel "), "{said}");
    }
}

#[cfg(target_arch = "x86_64")]
fn split_locks_are_made_and_timed_beside_locks_within_a_cache_line() {
    use std::os::unix::process::ExitStatusExt;
    let output = own().args(["split-locks", "20000"]).output().expect("the command runs");
    if output.status.signal() == Some(libc::SIGBUS) {
        skip("the kernel kills the task that makes one");
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [made, split, aligned] = numbers[..] else { panic!("{said}: {:?}", output.status) };
    assert!(made == 20_000.0 && split > 0.0 && aligned > 0.0, "{said}");
}

fn a_period_of_split_locks_is_a_whole_number() {
    for trigger in ["0.5", "1.5", "-1"] {
        let output = own().args(["split-lock", "-T", trigger]).output().expect("the command runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        let why = format!("-T: `{trigger}` is not a whole number of at least 0");
        assert!(said.contains(&why), "{trigger}: {said}");
    }
}

fn own() -> Command {
    let mut own = Command::new(env!("CARGO_BIN_EXE_perilune"));
    own.stdin(Stdio::null());
    own
}
