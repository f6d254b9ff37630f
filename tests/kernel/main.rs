//! Real events of the running kernel, counted exactly: the command reports what the workload did.
//!
//! Each test forks a workload that waits, attaches the built command, starts the workload and ends
//! the command with SIGINT. Other tasks of the machine run meanwhile, so the counts are those of
//! the workload's process.
//!
//! A separate test program, which `tests/vm/run` runs on another kernel. `live` lists its tests.

mod blktrace;
mod breakpoints;
mod budget;
mod cgroup;
mod cgroup_tasks;
mod changes;
mod command;
mod connections;
mod container_names;
mod containers;
mod contrib;
mod count_modes;
mod counted_stacks;
mod counted_tasks;
mod counted_texts;
mod counters;
mod counting;
mod cpu_time;
mod declarations;
mod execs;
mod files;
mod flames;
mod functions;
mod groups;
mod heap;
mod heat_page;
mod hotplug;
mod interrupts;
mod kernel_filters;
mod kernel_waits;
mod kmemleak;
mod kmemprof;
#[cfg(target_arch = "x86_64")]
mod kvm;
mod live;
mod load;
mod lockups;
mod long_pairs;
mod loss;
mod measured_values;
mod memory;
mod metrics;
mod network;
mod new_tasks;
mod opening;
mod page_faults;
#[cfg(target_arch = "x86_64")]
mod page_tables;
mod pair_programs;
mod paired;
mod paired_tasks;
mod pmu;
mod profile;
mod profiles;
mod raw_tracepoints;
mod relation;
mod sample_fields;
mod sample_parts;
mod scheduling;
mod script;
mod side_band;
mod signals;
mod sources;
mod sql;
mod syscalls;
mod tables;
mod task_names;
mod task_state;
mod thread_exec;
mod timelines;
mod tool;
mod trace;
mod user;
mod user_text;

use std::process::ExitCode;

use live::live_tests;
use load::Load;
use tool::{Run, Tool};

live_tests! {
    each_call_of_a_task_is_traced,
    events_are_counted_by_a_field,
    run_time_is_reported_once,
    each_system_call_is_timed,
    a_sleep_lasts_as_long_as_requested,
    each_fork_is_traced,
    each_change_of_name_is_traced,
    a_ping_pong_of_two_tasks_switches_twice_a_round,
    the_requested_number_of_events_counts_only_events_that_pass,
    a_command_that_outlives_the_run_gets_sigterm,
    a_name_filter_without_a_matching_task_is_noted,
    the_coverage_equals_the_number_of_printed_events,
    the_last_switch_of_a_task_that_ended_is_its_own,
    records_lost_by_a_full_ring_are_counted,
}

fn main() -> ExitCode {
    live::run([
        tests(),
        blktrace::tests(),
        breakpoints::tests(),
        breakpoints::mapped_files::tests(),
        budget::tests(),
        breakpoints::registers::tests(),
        breakpoints::waiting::tests(),
        cgroup_tasks::tests(),
        changes::tests(),
        command::tests(),
        connections::tests(),
        container_names::tests(),
        containers::tests(),
        contrib::tests(),
        count_modes::tests(),
        counters::tests(),
        execs::tests(),
        files::tests(),
        counted_stacks::tests(),
        counted_tasks::tests(),
        counted_texts::tests(),
        counting::tests(),
        counting::filters::tests(),
        pair_programs::tests(),
        paired::tests(),
        paired_tasks::tests(),
        cpu_time::tests(),
        declarations::tests(),
        flames::tests(),
        tests_of_functions(),
        heap::tests(),
        heat_page::tests(),
        groups::tests(),
        hotplug::tests(),
        interrupts::tests(),
        kernel_filters::tests(),
        kernel_waits::tests(),
        kmemleak::tests(),
        kmemprof::tests(),
        lockups::tests(),
        long_pairs::tests(),
        loss::tests(),
        measured_values::tests(),
        memory::tests(),
        metrics::tests(),
        metrics::otlp::tests(),
        metrics::serve::tests(),
        network::tests(),
        new_tasks::tests(),
        opening::tests(),
        page_faults::tests(),
        #[cfg(target_arch = "x86_64")]
        page_tables::tests(),
        pmu::tests(),
        profile::tests(),
        profiles::tests(),
        raw_tracepoints::tests(),
        relation::tests(),
        sample_fields::tests(),
        sample_parts::tests(),
        scheduling::tests(),
        script::tests(),
        side_band::tests(),
        signals::tests(),
        sources::tests(),
        sql::tests(),
        syscalls::tests(),
        tables::tests(),
        task_names::tests(),
        task_state::tests(),
        thread_exec::tests(),
        timelines::tests(),
        trace::tests(),
        user_text::tests(),
        #[cfg(target_arch = "x86_64")]
        kvm::tests(),
    ])
}

/// Returns the tests of functions of programs and of the kernel.
fn tests_of_functions() -> Vec<libtest_mimic::Trial> {
    let files = [
        functions::tests(),
        functions::in_kernel::tests(),
        functions::instructions::tests(),
        functions::clones::tests(),
        functions::many::tests(),
        functions::parameters::tests(),
        functions::refusals::tests(),
        functions::results::tests(),
        functions::tools::tests(),
        functions::traced::tests(),
        functions::usdt::tests(),
    ];
    files.into_iter().flatten().collect()
}

fn each_call_of_a_task_is_traced() {
    let load = load::getppid(5000);
    let pid = load.pid();
    let of = pid.to_string();
    let run = watch(&["trace", "-e", "syscalls:sys_enter_getppid", "-p", &of], load);
    assert_eq!(run.events_of(pid).len(), 5000, "{}", run.stderr);
    assert_eq!(run.of("event").count(), 5000);
    assert_eq!(run.coverage()["events"], 5000);
    run.is_complete();
}

fn events_are_counted_by_a_field() {
    let load = load::getppid(100_000);
    let pid = load.pid();
    let event = format!("raw_syscalls:sys_enter/id=={}/", libc::SYS_getppid);
    // The rings have room for all events: a busy machine may run perilune after the last of them.
    let run = watch(&["top", "-e", &event, "-k", "common_pid", "-m", "4096"], load);
    assert_eq!(run.sum("sys_enter", "common_pid", pid), 100_000, "{}", run.stderr);
    run.is_complete();
}

fn run_time_is_reported_once() {
    let load = load::getppid(200_000);
    let (pid, since) = (load.pid(), std::time::Instant::now());
    let event = format!("sched:sched_stat_runtime/pid=={pid}/key=pid/top-by=runtime/");
    let run = watch(&["top", "-e", &event], load);
    // The event counts nanoseconds, and would be sampled once for each.
    let (ran, passed) = (run.sum("runtime", "pid", pid), since.elapsed().as_nanos() as u64);
    assert!(ran > 1_000_000 && ran < passed, "{ran} ns in {passed} ns; {}", run.stderr);
    run.is_complete();
}

fn each_system_call_is_timed() {
    let load = load::getppid(20_000);
    let of = load.pid().to_string();
    // Room for all events, as above.
    let run = watch(&["syscalls", "-p", &of, "-m", "1024"], load);
    assert_eq!(run.sum("calls", "syscall", "getppid"), 20_000, "{:?}", run.objects);
    run.is_complete();
}

fn a_sleep_lasts_as_long_as_requested() {
    let load = load::sleep_ms(100);
    let of = load.pid().to_string();
    let run = watch(&["syscalls", "-p", &of], load);
    let slept: Vec<_> = run.of("row").filter(|r| r["syscall"] == "clock_nanosleep").collect();
    assert_eq!(slept.len(), 1, "{:?}", run.objects);
    let us = slept[0]["max_us"].as_f64().unwrap_or_default();
    assert!((100_000.0..2_000_000.0).contains(&us), "{us} us");
    assert_eq!(slept[0]["calls"], 1);
}

fn each_fork_is_traced() {
    let load = load::forks(200);
    let pid = load.pid();
    let run = watch(&["trace", "-e", "sched:sched_process_fork"], load);
    let made = run.events_of(pid);
    assert_eq!(made.len(), 200, "{}", run.stderr);
    assert!(made.iter().all(|e| e["parent_pid"] == pid && e["child_pid"] != pid));
    run.is_complete();
}

fn each_change_of_name_is_traced() {
    let load = load::renames(100);
    let pid = load.pid();
    let of = pid.to_string();
    let run = watch(&["trace", "-e", "task:task_rename", "-p", &of], load);
    let names = run.events_of(pid);
    assert_eq!(names.len(), 100, "{}", run.stderr);
    for (i, event) in names.iter().enumerate() {
        assert_eq!(event["newcomm"], ["perilune-even", "perilune-odd"][i % 2], "{i}: {event}");
    }
    run.is_complete();
}

fn a_ping_pong_of_two_tasks_switches_twice_a_round() {
    const ROUNDS: u32 = 1000;
    let (mut first, second) = load::ping_pong(ROUNDS);
    let (a, b) = (first.pid(), second.pid());
    let event = format!("sched:sched_switch/prev_pid=={a} || prev_pid=={b}/");
    let tool = Tool::attach(&["top", "-e", &event, "-k", "prev_pid"]);
    first.start();
    second.run();
    first.wait();
    let run = tool.finish();
    for pid in [a, b] {
        let out = run.sum("sched_switch", "prev_pid", pid);
        assert!(out >= u64::from(ROUNDS), "{out} switches out of {pid}; {}", run.stderr);
    }
    run.is_complete();
}

fn the_requested_number_of_events_counts_only_events_that_pass() {
    let load = load::getppid(5000);
    let pid = load.pid();
    let event =
        format!("raw_syscalls:sys_enter/common_pid=={pid} && id % 2 == {}/", libc::SYS_getppid % 2);
    let run = watch(&["trace", "-e", &event, "-N", "777"], load);
    assert_eq!(run.events_of(pid).len(), 777, "{}", run.stderr);
    assert_eq!(run.coverage()["events"], 777);
}

fn a_command_that_outlives_the_run_gets_sigterm() {
    let tool = Tool::attach_plain(&["top", "-e", "page-faults", "--json", "--", "sleep", "30"]);
    let run = tool.finish();
    let said = run.stderr.split("the command (pid ").nth(1).and_then(|text| text.split(')').next());
    let pid = said.unwrap_or_else(|| panic!("{}", run.stderr));
    let expected = format!("the command (pid {pid}) was still running; perilune sent SIGTERM");
    assert!(run.of("note").any(|note| note["text"] == expected.as_str()), "{:?}", run.objects);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let (name, since) = (format!("/proc/{pid}/comm"), std::time::Instant::now());
    while std::fs::read_to_string(&name).is_ok_and(|name| name == "sleep\n") {
        assert!(since.elapsed() < load::PATIENCE, "the command still sleeps");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn a_name_filter_without_a_matching_task_is_noted() {
    let notes = |list: &str| {
        let run = Tool::attach(&["signal", "--filter", list]).finish();
        let of_names = |note: &&serde_json::Value| note["text"].to_string().contains("no task");
        run.of("note").filter(of_names).map(|note| note["text"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        notes("no-such-*"),
        ["no task is named no-such-* yet; tasks that start later are watched"]
    );
    assert!(notes("no-such-*,kthread*").is_empty());
    assert!(notes("!kthreadd").is_empty());
}

fn the_coverage_equals_the_number_of_printed_events() {
    // The machine's switches include those of perilune, which it does not print.
    for more in [&["-N", "3"][..], &["--duration", "300ms"]] {
        let args = [&["trace", "-e", "sched:sched_switch"], more].concat();
        let (mut first, second) = load::ping_pong(300);
        let tool = Tool::attach(&args);
        first.start();
        second.run();
        first.wait();
        let run = tool.finish();
        let printed = run.of("event").count() as u64;
        assert!(printed >= 3, "{}", run.stderr);
        assert_eq!(run.coverage()["events"], printed, "{}", run.coverage());
    }
}

fn the_last_switch_of_a_task_that_ended_is_its_own() {
    const CHILDREN: usize = 40;
    let load = load::forks_unreaped(CHILDREN as u32);
    let pid = load.pid();
    let run = watch(&["top", "-a", "--order", "-e", "sched:sched_switch/prev_state & 0x30/"], load);
    assert!(run.of("row").all(|row| row["pid"] != -1), "{:?}", run.objects);
    let named = std::fs::read_to_string("/proc/thread-self/comm").expect("it has a name");
    let children = run.of("row").filter(|row| row["comm"] == named.trim_end());
    let children = children.filter(|row| row["pid"] != pid && row["sched_switch"] == 1);
    assert_eq!(children.count(), CHILDREN, "{:?}", run.objects);
}

fn records_lost_by_a_full_ring_are_counted() {
    const CALLS: u32 = 300_000;
    let load = load::getppid(CALLS);
    let of = load.pid().to_string();
    let event = "syscalls:sys_enter_getppid";
    let tasks = ["-p", &of, "-m", "1", "--where", "user"];
    let run = watch(&[&["top", "-e", event, "-k", "common_pid"], &tasks[..]].concat(), load);
    let count = |key: &str| run.coverage()[key].as_u64().unwrap_or_default();
    assert!(count("lost") > 0, "a ring of one page held {CALLS} events: {}", run.coverage());
    assert_eq!(count("events") + count("lost"), u64::from(CALLS), "{}", run.coverage());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

/// The key of the event's field `pid`; `pid` is the task that caused the event.
const OWN_PID: &str = "pid_";

/// Returns the report of the command on a workload, from before its start until after its end.
fn watch(args: &[&str], load: Load) -> Run {
    let tool = Tool::attach(args);
    load.run();
    tool.finish()
}
