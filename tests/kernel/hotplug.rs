//! A CPU that goes offline during a run and comes back.

use std::fs;
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;

use crate::{
    live::{can_trace, live_tests, skip_anywhere},
    load,
    tool::{Run, Tool},
};

live_tests! {
    root: [],
    any: [
        a_cpu_that_went_offline_is_reported_and_watched_again_once_it_is_back,
        a_watched_task_misses_no_events_while_a_cpu_is_offline,
        the_run_queue_of_an_offline_cpu_is_empty,
        tasks_that_have_run_unseen_do_not_stay_in_the_run_queue,
        counters_of_proc_stat_report_a_cpu_that_went_offline,
    ]
}

const CPU: u32 = 1;
const ONLINE: &str = "/sys/devices/system/cpu/cpu1/online";

/// Longer than it takes a run to notice that a CPU has gone or is back.
const NOTICED: Duration = Duration::from_secs(4);

/// Takes the CPU offline; it is back online when this is dropped.
struct Offline;

impl Offline {
    fn begin() -> Offline {
        fs::write(ONLINE, "0").expect("the CPU can be taken offline");
        Offline
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        // A failing write leaves a machine that ends with the tests.
        let _ = fs::write(ONLINE, "1");
    }
}

/// Disables the CPU and enables it again; returns once the run has noticed both.
fn disable_the_cpu_for_a_while() {
    let offline = Offline::begin();
    std::thread::sleep(NOTICED);
    drop(offline);
    std::thread::sleep(NOTICED);
}

fn can_disable_a_cpu() {
    if std::env::var_os("PERILUNE_EMULATED").is_none() {
        skip_anywhere("it disables a CPU; tests/vm/run runs it");
    }
    can_trace();
}

/// Returns the notes about the CPU, in order.
fn notes(run: &Run) -> Vec<&str> {
    let texts = run.of("note").filter_map(|note| note["text"].as_str());
    texts.filter(|text| text.starts_with("CPU 1 ")).collect()
}

fn a_cpu_that_went_offline_is_reported_and_watched_again_once_it_is_back() {
    can_disable_a_cpu();
    let [before, meanwhile, after] = [CPU, 0, CPU].map(|cpu| (cpu, load::getppid_on(cpu, 2000)));
    let made = [&before, &meanwhile, &after].map(|(cpu, load)| (*cpu, load.pid()));
    let tool = Tool::attach(&["trace", "-e", "syscalls:sys_enter_getppid"]);
    before.1.run();
    let offline = Offline::begin();
    std::thread::sleep(NOTICED);
    meanwhile.1.run();
    drop(offline);
    std::thread::sleep(NOTICED);
    after.1.run();
    let run = tool.finish();
    for (cpu, pid) in made {
        let seen = run.events_of(pid);
        assert_eq!(seen.len(), 2000, "CPU {cpu}: {}", run.stderr);
        assert!(seen.iter().all(|event| event["cpu"] == cpu), "{:?}", seen.first());
    }
    assert_eq!(
        notes(&run),
        [
            "CPU 1 went offline: its events are missing until it is online again",
            "CPU 1 is back online and watched again: its events in between are missing"
        ]
    );
}

fn a_watched_task_misses_no_events_while_a_cpu_is_offline() {
    can_disable_a_cpu();
    let calls = load::getppid(2000);
    let pid = calls.pid();
    let tool = Tool::attach(&["trace", "-e", "syscalls:sys_enter_getppid", "-p", &pid.to_string()]);
    disable_the_cpu_for_a_while();
    calls.run();
    let run = tool.finish();
    assert_eq!(run.events_of(pid).len(), 2000, "{}", run.stderr);
    assert_eq!(notes(&run), ["CPU 1 went offline", "CPU 1 is back online"]);
}

fn counters_of_proc_stat_report_a_cpu_that_went_offline() {
    can_disable_a_cpu();
    let tool = Tool::attach(&["stat", "-e", "user-time"]);
    disable_the_cpu_for_a_while();
    assert_eq!(notes(&tool.finish()), ["CPU 1 went offline", "CPU 1 is back online"]);
}

/// Processes that keep the CPUs busy until this is dropped.
struct BusyProcesses(Vec<Child>);

impl BusyProcesses {
    fn start() -> BusyProcesses {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -t 30; while :; do :; done"]);
        BusyProcesses((0..4).map(|_| shell.spawn().expect("a shell starts")).collect())
    }
}

impl Drop for BusyProcesses {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It has ended if that fails.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the average length of the run queue of a CPU in the last interval.
fn last_length(run: &Run, cpu: u32) -> f64 {
    let last = run.of("row").filter(|row| row["cpu"] == cpu).last();
    let length = last.and_then(|row: &Value| row["avg"].as_f64());
    length.unwrap_or_else(|| panic!("{:?}", run.objects))
}

fn the_run_queue_of_an_offline_cpu_is_empty() {
    can_disable_a_cpu();
    let tool = Tool::attach(&["runqlen", "-i", "500"]);
    let _busy = BusyProcesses::start();
    std::thread::sleep(Duration::from_secs(1));
    let _offline = Offline::begin();
    std::thread::sleep(NOTICED);
    let run = tool.finish();
    let (online, offline) = (last_length(&run, 0), last_length(&run, CPU));
    assert!(online > 2.0 && offline == 0.0, "{online} {offline}: {:?}", run.objects);
}

fn tasks_that_have_run_unseen_do_not_stay_in_the_run_queue() {
    can_disable_a_cpu();
    let tool = Tool::attach(&["runqlen", "-i", "500"]);
    let busy = BusyProcesses::start();
    std::thread::sleep(Duration::from_secs(1));
    disable_the_cpu_for_a_while();
    drop(busy);
    std::thread::sleep(NOTICED);
    let run = tool.finish();
    if run.coverage()["undelivered"] != 0 {
        skip_anywhere("this kernel omitted records of switches");
    }
    let both = [0, CPU].map(|cpu| last_length(&run, cpu));
    assert!(both.iter().all(|length| *length < 1.0), "{both:?}: {:?}", run.objects);
}
