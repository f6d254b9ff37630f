//! stat and percpu-stat: counts, compared with the workload and with the kernel's accounting.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::tool::{Run, Tool};
use crate::{
    live::{live_tests, skip},
    load,
};

live_tests! {
    each_call_is_counted_once_in_a_group_of_tracepoints_and_software_events,
    counts_of_cpus_and_of_one_event_with_two_filters_are_kept_apart,
    intervals_of_a_millisecond_add_up_to_all_calls,
    counts_of_children_that_end_during_the_run_are_included,
    a_cgroup_is_counted_apart_from_the_rest,
    events_that_cannot_be_counted_are_refused_with_the_reason,
    the_states_of_each_cpu_match_the_kernels_accounting,
    options_that_have_no_effect_on_counters_are_refused,
    period_and_freq_of_nanosecond_events_are_refused,
    monitors_of_whole_cpus_refuse_single_tasks,
}

const CALLS: u32 = 5000;
const ENTER: &str = "syscalls:sys_enter_getppid";

/// Returns the sum of a column over the rows of a table for which `is` holds.
fn sum(run: &Run, table: &str, column: &str, is: impl Fn(&Value) -> bool) -> u64 {
    let rows = run.of("row").filter(|row| row["table"] == table && is(row));
    rows.map(|row| row[column].as_u64().unwrap_or_else(|| panic!("{column} of {row}"))).sum()
}

pub(crate) fn count_of(run: &Run, event: &str) -> u64 {
    sum(run, "counts", "count", |row| row["event"] == event)
}

fn each_call_is_counted_once_in_a_group_of_tracepoints_and_software_events() {
    let load = load::getppid(CALLS);
    let of = load.pid().to_string();
    let exit = "syscalls:sys_exit_getppid";
    let events = format!("context-switches,{ENTER},sched:sched_stat_runtime,{exit},task-clock");
    let metric = format!("ratio={ENTER}/{exit}");
    let run = crate::watch(&["stat", "-e", &events, "--metric", &metric, "-p", &of], load);
    for event in [ENTER, exit] {
        assert_eq!(count_of(&run, event), u64::from(CALLS), "{event}: {:?}", run.objects);
    }
    // Nanoseconds of the same run, which the scheduler adds up at ticks and switches.
    let (ran, clock) = (count_of(&run, "sched:sched_stat_runtime"), count_of(&run, "task-clock"));
    assert!(clock > 100_000 && ran < 2 * clock + 4_000_000, "{ran} {clock}");
    assert!(run.of("row").all(|row| row["table"] != "counts" || row["counted_percent"] == 100.0));
    let ratios = run.of("row").filter(|row| row["table"] == "metrics" && !row["value"].is_null());
    let ratios: Vec<&Value> = ratios.collect();
    assert!(!ratios.is_empty() && ratios.iter().all(|row| row["value"] == 1.0), "{ratios:?}");
    run.is_complete();
}

fn counts_of_cpus_and_of_one_event_with_two_filters_are_kept_apart() {
    let load = load::getppid(CALLS);
    let pid = load.pid();
    let event = |id: i64, alias: &str| {
        format!("raw_syscalls:sys_enter/common_pid=={pid} && id=={id}/alias={alias}/")
    };
    let events = [event(libc::SYS_getppid, "calls"), event(libc::SYS_acct, "others")].join(",");
    let run = crate::watch(&["stat", "-a", "--perins", "-e", &events], load);
    assert_eq!(count_of(&run, "calls"), u64::from(CALLS), "{:?}", run.objects);
    assert_eq!(count_of(&run, "others"), 0);
    assert!(run.of("row").all(|row| row["cpu"].is_u64()), "{:?}", run.objects);
}

fn intervals_of_a_millisecond_add_up_to_all_calls() {
    let (mut load, calls) = load::getppid_until_stopped();
    let of = load.pid().to_string();
    let tool = Tool::attach(&["stat", "-e", ENTER, "-i", "1", "-p", &of]);
    load.start();
    // One line per interval.
    tool.wait_for_lines(20);
    calls.stop();
    load.wait();
    let run = tool.finish();
    assert_eq!(count_of(&run, ENTER), calls.get(1));
    let stamps: std::collections::BTreeSet<&str> =
        run.of("row").filter_map(|row| row["time"].as_str()).collect();
    assert!(stamps.len() >= 10, "{} intervals", stamps.len());
}

fn counts_of_children_that_end_during_the_run_are_included() {
    let load = load::forks(100);
    let of = load.pid().to_string();
    let exit = "syscalls:sys_enter_exit_group";
    let events = format!("sched:sched_process_fork,{exit},page-faults");
    let run = crate::watch(&["stat", "-e", &events, "-p", &of, "--perins"], load);
    assert_eq!(count_of(&run, "sched:sched_process_fork"), 100, "{:?}", run.objects);
    // The exits of its children, and its own if the run saw it.
    let ended = count_of(&run, exit);
    assert!((100..=101).contains(&ended), "{ended}");
    assert!(count_of(&run, "page-faults") >= 100);
}

fn a_cgroup_is_counted_apart_from_the_rest() {
    let Some(root) = cgroups() else {
        skip("no hierarchy with the perf_event controller");
    };
    let name = format!("perilune-{}", std::process::id());
    let folder = root.join(&name);
    fs::create_dir(&folder).expect("a cgroup can be made");
    let _removed = Removed(folder.clone());
    let (inside, outside) = (load::getppid(CALLS), load::getppid(2 * CALLS));
    fs::write(folder.join("cgroup.procs"), inside.pid().to_string()).expect("a task can move");
    let events = format!("{ENTER},task-clock");
    let twice = format!("{name},/{name}/");
    let tool = Tool::attach(&["stat", "-e", &events, "--cgroup", &twice, "-i", "60000"]);
    inside.run();
    outside.run();
    let run = tool.finish();
    assert_eq!(count_of(&run, ENTER), u64::from(CALLS), "{:?}", run.objects);
    assert!(run.of("row").all(|row| row["cgroup"] == name.as_str()), "{:?}", run.objects);
    assert_eq!(run.of("row").count(), 2, "a row for each event: {:?}", run.objects);
}

/// Returns where the hierarchy with the perf_event controller is mounted.
fn cgroups() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let of = |kind: &str, option: &str| {
        mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let is = words.get(2) == Some(&kind) && words.get(3)?.contains(option);
            is.then(|| PathBuf::from(words[1]))
        })
    };
    of("cgroup", "perf_event").or_else(|| of("cgroup2", ""))
}

struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // Its last task may still be exiting.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns the error of `stat` with arguments that it refuses.
pub(crate) fn refusal_of_stat(args: &[&str]) -> String {
    let (code, text) = refused(&[&["stat"], args].concat());
    assert!(code != Some(0), "{args:?} is refused");
    text
}

fn events_that_cannot_be_counted_are_refused_with_the_reason() {
    let said = refusal_of_stat(&["-e", "sched:sched_switch/prev_pid % 2 == 0/"]);
    assert!(said.contains("the kernel cannot filter by `prev_pid % 2 == 0`"), "{said}");
    let said = refusal_of_stat(&["-e", "user-time", "-p", "1"]);
    assert!(said.contains("user-time: the kernel counts it for whole CPUs only"), "{said}");
    let said = refusal_of_stat(&["-e", "page-faults", "--cgroup", "../../../etc"]);
    assert!(said.contains("`..` leads out of the hierarchy; name a folder below"), "{said}");
    let said = refusal_of_stat(&["-e", "page-faults", "--cgroup", "perilune/none"]);
    assert!(said.contains("cgroup `perilune/none`"), "{said}");
    let said = refusal_of_stat(&["-e", "page-faults", "--cgroup", ","]);
    assert!(said.contains("--cgroup: ',' names no cgroup"), "{said}");
    let said = refusal_of_stat(&["--metric", "ipc"]);
    assert!(said.contains("'ipc' is not NAME=EXPRESSION"), "{said}");
    for (expression, rest) in [
        ("page-faults (task-clock)", "(task-clock)"),
        ("page-faults task-clock", "task-clock"),
        ("(page-faults) 2", "2"),
        ("page-faults * 2e3", "e3"),
    ] {
        let said = refusal_of_stat(&["--metric", &format!("m={expression}")]);
        let why = format!("--metric: m: an operator is missing before '{rest}'");
        assert!(said.contains(&why), "{said}");
    }
    let said = refusal_of_stat(&["--metric", "x=page-faults/0"]);
    assert!(said.contains("--metric: x: divides by 0"), "{said}");
    let said = refusal_of_stat(&["-e", "page-faults", "--cgroup", "/", "--", "true"]);
    assert!(said.contains("already selects the tasks; add -a before the command"), "{said}");
    if !has_hardware_counters() {
        let said = refusal_of_stat(&["--metric", "ipc=instructions/cycles"]);
        assert!(said.contains("instructions: this machine has no such hardware counter"), "{said}");
    }
}

/// Returns whether the CPUs have hardware counters.
pub(crate) fn has_hardware_counters() -> bool {
    std::path::Path::new("/sys/bus/event_source/devices/cpu").exists()
}

/// The kernel's counts for the whole machine, by column of percpu-stat and CPU.
type Accounts = BTreeMap<(String, u64), u64>;

const INTERRUPTS: [(&str, &str); 4] =
    [("LOC:", "tick"), ("RES:", "resched"), ("CAL:", "call"), ("IWI:", "irq_work")];

fn accounts() -> Accounts {
    let mut all = Accounts::new();
    let read = |path| fs::read_to_string(path).expect("the kernel accounts");
    for line in read("/proc/softirqs").lines().skip(1) {
        let (name, rest) = line.split_once(':').expect("a name");
        let column = format!("soft_{}", name.trim().to_lowercase());
        for (cpu, count) in (0..).zip(rest.split_whitespace()) {
            all.insert((column.clone(), cpu), count.parse().expect("a count"));
        }
    }
    let interrupts = read("/proc/interrupts");
    for line in interrupts.lines() {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        if let Some((_, column)) = INTERRUPTS.iter().find(|(row, _)| *row == name) {
            for (cpu, count) in (0..).zip(words.map_while(|word| word.parse().ok())) {
                all.insert(((*column).to_owned(), cpu), count);
            }
        }
    }
    let stat = read("/proc/stat");
    let switches = stat.lines().find_map(|line| line.strip_prefix("ctxt ")).expect("switches");
    // The count covers all CPUs.
    all.insert(("switch".to_owned(), u64::MAX), switches.trim().parse().expect("a count"));
    all
}

fn the_states_of_each_cpu_match_the_kernels_accounting() {
    let before = accounts();
    let tool = Tool::attach(&["percpu-stat"]);
    let from = accounts();
    let (mut first, second) = load::ping_pong(20_000);
    first.start();
    second.run();
    first.wait();
    std::thread::sleep(Duration::from_millis(1500));
    let to = accounts();
    let run = tool.finish();
    let after = accounts();
    let counted = |column: &str, cpu: u64| {
        sum(&run, "report", column, |row| cpu == u64::MAX || row["cpu"] == cpu)
    };
    let has = |column: &str| run.of("row").any(|row| row.get(column).is_some());
    let mut compared = 0;
    for ((column, cpu), last) in &to {
        if !has(column) {
            continue;
        }
        let key = (column.clone(), *cpu);
        let (least, most) = (last - from[&key], after[&key] - before[&key]);
        let counted = counted(column, *cpu);
        assert!(
            (least..=most).contains(&counted),
            "{column} of CPU {cpu}: {least} <= {counted} <= {most}"
        );
        compared += u64::from(least > 0);
    }
    assert!(compared >= 5, "only {compared} counts were more than 0");
    assert!(counted("switch", u64::MAX) >= 40_000);
}

/// Returns the exit code and the messages of a run that is refused.
pub(crate) fn refused(args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    let output = command.args(args).args(["--duration", "5s"]).output().expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn options_that_have_no_effect_on_counters_are_refused() {
    for (option, why) in [
        (&["--total"][..], "--total: counts have no total"),
        (&["--events"], "--events: this monitor reads counts"),
        (&["-N", "3"], "-N: this monitor reads counts"),
    ] {
        let (code, text) = refused(&[&["percpu-stat"], option].concat());
        assert!(code == Some(1) && text.contains(why), "{code:?} {text}");
    }
}

fn period_and_freq_of_nanosecond_events_are_refused() {
    for option in ["period=1000", "freq=100"] {
        let event = format!("sched:sched_stat_runtime//{option}/");
        let (code, text) = refused(&["trace", "-e", &event]);
        let why = "it counts nanoseconds, which are in the field `runtime` of its records";
        assert!(code == Some(1) && text.contains(why), "{code:?} {text}");
    }
}

fn monitors_of_whole_cpus_refuse_single_tasks() {
    let own = std::process::id().to_string();
    for monitor in ["irq-off", "watchdog", "cpu-util"] {
        let (code, text) = refused(&[monitor, "-p", &own]);
        let why = format!("{monitor} watches whole CPUs, not single tasks");
        assert!(code == Some(1) && text.contains(&why), "{code:?} {text}");
    }
}
