//! profile: shares that add up, correctly named events, also for an ordinary user.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::{
    functions::Program,
    live::{live_tests, skip_anywhere},
    load,
    tool::{Run, Tool},
    user::{command_of_user, require_paranoid_2},
};

live_tests! {
    root: [
        shares_add_up_to_a_hundred,
        a_machine_without_counters_is_sampled_by_its_clock_with_a_note,
        samples_are_printed_while_a_cpu_is_busier_than_asked,
        modifiers_that_a_clock_does_not_support_are_refused,
        an_ordinary_user_profiles_an_own_program_in_user_mode,
        a_refused_user_gets_the_reason_and_a_permitted_alternative,
        a_thread_that_moves_between_cpus_has_its_share_counted_and_not_estimated,
        a_thread_that_wakes_others_has_the_share_of_its_own_time,
    ],
    any: [
        a_period_and_a_frequency_exclude_each_other,
        an_event_without_samples_or_shares_is_refused,
    ]
}

fn hundredths(run: &Run, table: &str) -> Vec<u64> {
    let percent = |row: &serde_json::Value| row["share_percent"].as_f64().unwrap_or(f64::NAN);
    of_table(run, table).map(|row| (percent(row) * 100.0).round() as u64).collect()
}

fn of_table<'a>(run: &'a Run, table: &'a str) -> impl Iterator<Item = &'a serde_json::Value> {
    run.of("row").filter(move |row| row["table"] == table)
}

fn shares_add_up_to_a_hundred() {
    let (load, measured) = load::alternate(3, 200);
    let pid = load.pid();
    let run = crate::watch(&["profile", "-F", "997", "-p", &pid.to_string()], load);
    for table in ["processes", "functions"] {
        let sum: u64 = hundredths(&run, table).iter().sum();
        assert_eq!(sum, 10_000, "{table}: {:?}", run.objects);
    }
    // One sample per millisecond of its CPU time; the kernel may attribute the first and the last
    // of a slice to itself.
    let samples = |table: &str| -> u64 {
        of_table(&run, table).filter_map(|row| row["samples"].as_u64()).sum()
    };
    assert_eq!(samples("processes"), samples("functions"));
    let expected = measured.get(2) as f64 / 1e9 * 997.0;
    let got = samples("functions") as f64;
    // Timers of a virtual machine may be late, which must be noted; a timer is never early.
    let is_noted = run.of("note").any(|note| {
        note["text"].to_string().contains("samples arrived, but its running time implies")
    });
    assert!(got > 0.0 && got < expected * 1.1 + 5.0, "{got} of {expected}");
    assert!(is_noted || got > expected * 0.8 - 5.0, "{got} of {expected}: {}", run.stderr);
    assert!(of_table(&run, "processes").all(|row| row["pid"] == pid), "{:?}", run.objects);
    run.is_complete();
}

fn a_machine_without_counters_is_sampled_by_its_clock_with_a_note() {
    let run = crate::watch(&["profile"], load::sleep_ms(50));
    let opened = run.stderr.lines().find(|line| line.contains("watching")).unwrap_or_default();
    let notes: Vec<_> = run.of("note").filter_map(|note| note["text"].as_str()).collect();
    if std::path::Path::new("/sys/bus/event_source/devices/cpu").exists() {
        assert!(opened.contains("cycles"), "{opened}");
    } else {
        assert!(opened.contains("watching cpu-clock on"), "{opened}");
        let passed =
            "cycles:ppp, cycles:pp, cycles:p, cycles: this machine has no such hardware counter";
        assert!(notes.iter().any(|note| note.starts_with(passed)), "{notes:?}");
    }
}

fn a_period_and_a_frequency_exclude_each_other() {
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["profile", "-c", "1000", "-F", "99"])
        .output()
        .expect("the built command runs");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("-c sets a period and -F a frequency: omit one"), "{said}");
}

fn samples_are_printed_while_a_cpu_is_busier_than_asked() {
    let load = load::getppid(10_000_000);
    let pid = load.pid();
    let of = pid.to_string();
    let run = crate::watch(&["profile", "-p", &of, "--exclude-user", "--than", "2"], load);
    assert!(run.of("event").count() > 0, "{}", run.stderr);
    for event in run.of("event") {
        let innermost = event["stack"][0].as_str().unwrap_or_default();
        // A program of BPF that another test has attached is a part of the kernel.
        let is_kernel = innermost.ends_with("([kernel])") || innermost.ends_with("([bpf])");
        assert!(event["pid"] == pid && is_kernel, "{event}");
    }
    run.is_complete();

    let load = load::sleep_ms(1200);
    let of = load.pid().to_string();
    let run = crate::watch(&["profile", "-p", &of, "--than", "10"], load);
    assert_eq!(run.of("event").count(), 0, "{:?}", run.objects);
}

fn modifiers_that_a_clock_does_not_support_are_refused() {
    for (options, why) in [
        (&["-e", "cpu-clock", "-G"][..], "cpu-clock: only hardware counters distinguish guests"),
        (&["-e", "task-clock", "-F0"], "task-clock: its count always includes user mode and the"),
        (&["-e", "sched:sched_stat_runtime", "-F0"], "its count always includes user mode and"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .args(["profile", "--exclude-user", "--duration", "0.1"])
            .args(options)
            .output()
            .expect("the built command runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{said}");
    }
}

fn an_ordinary_user_profiles_an_own_program_in_user_mode() {
    require_paranoid_2();
    let spin = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
    let output = unprivileged(&["profile", "-F", "997", "-g", "--json", "--", "sh", "-c", spin]);
    let (text, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(said.contains("watching cpu-clock:u on") || said.contains("watching cycles"), "{said}");
    let events: Vec<serde_json::Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let samples: Vec<_> = events.iter().filter(|event| event["type"] == "event").collect();
    assert!(samples.len() > 5, "{} samples; {said}", samples.len());
    assert!(samples.iter().all(|sample| sample["event"] == "cpu-clock:u"), "{:?}", samples.first());
    let kernel = "may not watch the kernel";
    let left_out = events.iter().filter(|event| event["type"] == "note");
    let left_out =
        left_out.filter(|note| note["text"].as_str().is_some_and(|t| t.contains(kernel)));
    assert_eq!(left_out.count(), 1, "{text}");
}

fn a_refused_user_gets_the_reason_and_a_permitted_alternative() {
    require_paranoid_2();
    let output = unprivileged(&["profile", "-e", "cpu-clock"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let why = "perilune: cpu-clock: permission denied; perf_event_paranoid is 2: run as root, or \
               set it to 0, or watch your own command: perilune profile -- COMMAND\n";
    assert!(said.ends_with(why), "{said}");
}

/// Runs the command as an unprivileged user.
pub(crate) fn unprivileged(args: &[&str]) -> Output {
    let (_folder, mut command) = command_of_user();
    command.args(args).stdin(Stdio::null()).output().expect("the command runs")
}

fn a_thread_that_moves_between_cpus_has_its_share_counted_and_not_estimated() {
    let (load, measured) = load::alternate(3, 100);
    let of = load.pid().to_string();
    let run = crate::watch(&["profile", "-F", "0", "-e", "task-clock", "-p", &of], load);
    assert_eq!(run.coverage()["multiplexed"], 0, "{:?}", run.objects);
    let share = run.of("row").filter_map(|row| row["share_percent"].as_f64()).sum::<f64>();
    // The share of a run that began before the load and ended after it. Not computed from the
    // load's CPU time: that excludes time that a hypervisor took, which the kernel's clock of the
    // task includes.
    let awake = measured.get(0) - measured.get(1);
    let most = 100.0 * awake as f64 / measured.get(0) as f64;
    assert!(share > 1.0 && share < most * 1.1, "{share} of {most}: {:?}", run.objects);
}

fn a_thread_that_wakes_others_has_the_share_of_its_own_time() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        skip_anywhere("this machine has one CPU");
    }
    let program = Program::of(crate::containers::WAKES, &[]);
    let mut command = Command::new(program.path());
    let waker = command.arg("60000").stdout(Stdio::piped()).spawn().expect("it was built");
    let mut waker = EndedOnDrop(waker);
    let mut hog = String::new();
    let stdout = waker.0.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut hog).expect("it prints a line");
    for pid in [waker.0.id(), hog.trim().parse().expect("a number")] {
        let (longest, first) = (Instant::now(), run_ns(pid));
        let tool = Tool::attach(&["profile", "-F", "0", "-i", "60000", "-p", &pid.to_string()]);
        let (shortest, second) = (Instant::now(), run_ns(pid));
        std::thread::sleep(Duration::from_secs(1));
        let (least_ns, shortest) = (run_ns(pid) - second, shortest.elapsed());
        let run = tool.finish();
        let (most_ns, longest) = (run_ns(pid) - first, longest.elapsed());
        let share = run.of("row").filter_map(|row| row["share_percent"].as_f64()).sum::<f64>();
        let percent = |ns: f64, of: Duration| 100.0 * ns / of.as_nanos() as f64;
        // The kernel updates the time of a running task at each tick. Parts of each switch belong
        // to the time of the task, but not to its clock.
        let range = percent(0.6 * least_ns - 1e7, longest)..percent(1.02 * most_ns + 1e7, shortest);
        assert!(range.contains(&share), "{share} not in {range:?}: {:?}", run.objects);
    }
}

/// A process that is killed at the end of the test, and its children with it.
struct EndedOnDrop(Child);

impl Drop for EndedOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the nanoseconds that a thread has run.
fn run_ns(tid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat"));
    let Ok(text) = text else { skip_anywhere("the kernel has no /proc/PID/schedstat") };
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}

fn an_event_without_samples_or_shares_is_refused() {
    for (options, why) in [
        (&["-F0", "-g"][..], "-F 0 takes no samples"),
        (&["-F0", "--than", "5"], "-F 0 takes no samples"),
        (&["--than", "5", "-e", "page-faults"], "--than: page-faults does not measure how busy"),
        (&["--than", "5", "--idle"], "--idle: --than prints samples of busy CPUs"),
        (&["-F0", "-e", "page-faults"], "-F 0: page-faults does not measure how busy a CPU is"),
        (&["-F0", "-e", "task-clock"], "-F 0: task-clock of a CPU includes its idle time"),
        (&["-F0", "--by", "process"], "--by: -F 0 takes no samples"),
        (&["-F0", "--rows", "12"], "--rows: -F 0 takes no samples"),
        (&["-F0", "--idle"], "--idle: -F 0 takes no samples"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .arg("profile")
            .args(options)
            .output()
            .expect("the built command runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        if load::is_root() {
            assert!(said.contains(why), "{options:?}: {said}");
        }
    }
}
