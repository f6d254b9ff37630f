//! Programs at raw tracepoints: their fields are those of records, and other programs on the CPU
//! do not hide events from them.

use std::collections::BTreeMap;

use perilune::event::raw_tracepoint;

use crate::counting::{can_count, usual_refusal};
use crate::live::{live_tests, skip_anywhere};
use crate::load::{self, Load};
use crate::paired::{is_exact, start};
use crate::tool::{Run, Tool, with_switches};

live_tests! { alone: [
    fields_are_those_of_records,
    wakeups_are_seen_while_another_program_runs,
    forks_are_seen_while_another_program_runs,
    programs_that_could_interrupt_each_other_are_not_at_raw_tracepoints,
] }

/// Ends the test if this kernel has no raw tracepoints with known records.
pub(crate) fn can_use_arguments() {
    can_count();
    if let Some(why) = usual_refusal() {
        skip_anywhere(why);
    }
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        skip_anywhere("this kernel does not describe its types");
    }
}

/// Returns the names of the raw tracepoints to which a tool has attached programs.
pub(crate) fn attached(tool: &Tool) -> Vec<String> {
    let folder = format!("/proc/{}/fdinfo", tool.pid());
    let files = std::fs::read_dir(&folder).unwrap_or_else(|why| panic!("{folder}: {why}"));
    let text = files.filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok());
    let name = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("tp_name:"))?;
        Some(line.trim().to_owned())
    };
    text.filter_map(name).collect()
}

/// Number of events by the values of the key, over all intervals.
pub(crate) fn by_key(run: &Run, column: &str, count: &str) -> BTreeMap<String, u64> {
    let mut by_key = BTreeMap::new();
    for row in run.of("row").filter(|row| row.get(column).is_some()) {
        *by_key.entry(row[column].to_string()).or_default() += row[count].as_u64().unwrap_or(0);
    }
    by_key
}

/// Two tasks that wake each other and move between CPUs, and end.
fn wakes_and_moves() -> Load {
    Load::new(|| {
        let (first, second) = load::ping_pong(200);
        let (moved, renamed) = (load::migrations(50), load::renames(3));
        let [mut first, mut second, mut moved, mut renamed] = [first, second, moved, renamed];
        for one in [&mut first, &mut second, &mut moved, &mut renamed] {
            one.start();
        }
        for one in [first, second, moved, renamed] {
            one.wait();
        }
        load::forks(20).run();
    })
}

fn fields_are_those_of_records() {
    can_use_arguments();
    let fields = [
        (
            "sched:sched_switch",
            "prev_comm prev_pid prev_prio prev_state next_comm next_pid next_prio",
        ),
        ("sched:sched_wakeup", "comm pid prio target_cpu"),
        ("sched:sched_wakeup_new", "comm pid prio target_cpu"),
        ("sched:sched_waking", "comm pid prio target_cpu"),
        ("sched:sched_migrate_task", "pid prio orig_cpu dest_cpu"),
        ("sched:sched_stat_runtime", "comm pid runtime"),
        ("sched:sched_process_fork", "parent_comm parent_pid child_comm child_pid"),
        ("kmem:kmalloc", "call_site bytes_req bytes_alloc node"),
        ("kmem:kmem_cache_alloc", "call_site bytes_req bytes_alloc node"),
        ("kmem:kfree", "call_site"),
        ("kmem:kmem_cache_free", "call_site"),
        ("raw_syscalls:sys_enter", "id"),
        ("raw_syscalls:sys_exit", "id ret"),
    ];
    let mut incomparable = 0;
    for (event, names) in fields {
        assert!(raw_tracepoint::is_known(event));
        let (_, name) = event.split_once(':').expect("an event has a system");
        for field in names.split(' ') {
            // A kernel was observed to write no record of some events, sometimes without a count.
            let runs = (0..5).filter_map(|_| compared(event, name, field));
            let mut last = None;
            for run in runs {
                let is_same = run.is_ok();
                last = Some(run);
                if is_same {
                    break;
                }
            }
            match last {
                Some(last) => assert_eq!(last, Ok(()), "{event} {field}"),
                None => incomparable += 1,
            }
        }
    }
    assert!(incomparable < 15, "{incomparable} fields without a complete run");
}

/// Counts a load by a field in both places at once. Returns None if events are missing, and the
/// numbers if they differ.
fn compared(event: &str, name: &str, field: &str) -> Option<Result<(), String>> {
    // A kernel thread moves a task that runs.
    let is_about = event == "sched:sched_migrate_task";
    let load = if is_about { load::migrations(60) } else { wakes_and_moves() };
    let pid = load.pid().to_string();
    let filter = if is_about { format!("pid=={pid}") } else { String::new() };
    let selector = format!("{event}/{filter}/key={field}/alias=count/");
    let args = ["top", "-e", &selector, "-p", &pid];
    let args = if is_about { &args[..3] } else { &args[..] };
    let [kernel, user] = ["kernel", "user"].map(|place| start(place, args));
    let at = attached(&kernel);
    assert!(at.iter().any(|at| at == name), "{event} {field}: {at:?}");
    assert!(attached(&user).is_empty());
    load.run();
    let [kernel, user] = [kernel, user].map(Tool::finish);
    let is_whole = |run: &Run| run.coverage()["undelivered"] == 0;
    let may_nest = event.starts_with("kmem:");
    assert!(may_nest || is_whole(&kernel), "{event} {field}: {}", kernel.coverage());
    kernel.is_complete();
    if !is_whole(&kernel) || !is_whole(&user) {
        return None;
    }
    user.is_complete();
    let [counted, recorded] = [&kernel, &user].map(|run| by_key(run, field, "count"));
    assert!(counted.values().sum::<u64>() >= 20, "{event} {field}: {counted:?}");
    let is_same = counted == recorded;
    Some(is_same.then_some(()).ok_or_else(|| format!("{counted:?}, in records {recorded:?}")))
}

/// Runs `load` while a task on the same CPU makes system calls that another program counts. Returns
/// the run of a tool that watches the load.
fn beside_another_program(load: Load, args: &[&str]) -> Run {
    const CALLS: u32 = 3_000_000;
    can_use_arguments();
    let selector = "raw_syscalls:sys_enter//key=common_pid/alias=calls/";
    let other = start("kernel", &["top", "-e", selector]);
    let (pid, mut calls) = (load.pid().to_string(), load::getppid_on(0, CALLS));
    let tool = start("auto", &[args, &["-p", &pid]].concat());
    let caller = calls.pid();
    calls.start();
    load.run();
    let run = tool.finish();
    calls.wait();
    let others = other.finish();
    assert!(others.sum("calls", "common_pid", caller) >= CALLS.into());
    run
}

fn wakeups_are_seen_while_another_program_runs() {
    const SLEEPS: u32 = 500;
    let (load, measured) = load::counted_sleeps(SLEEPS);
    let before = load.switches_until_it_waits();
    let pid = load.pid();
    let (run, missing) = with_switches(pid, || beside_another_program(load, &["rundelay"]));
    is_exact(&run);
    let slept = measured.get(0) - before;
    // A timer may expire before the task sleeps.
    assert!(slept >= u64::from(SLEEPS * 9 / 10), "{slept}");
    let wakeups = run.sum("calls", "after", "wakeup");
    // The start is a wakeup, too. A wait whose end the kernel omits is not counted.
    let seen = wakeups..=wakeups + missing;
    assert!(seen.contains(&(slept + 1)), "{wakeups}, {missing} of {slept}: {}", run.coverage());
}

fn forks_are_seen_while_another_program_runs() {
    const FORKS: u32 = 500;
    let load = Load::new(|| {
        load::pin_to_cpu(0);
        load::forks(FORKS).run();
    });
    let selector = "sched:sched_wakeup_new//key=prio/alias=forks/";
    let run = beside_another_program(load, &["top", "-e", selector]);
    is_exact(&run);
    let forks: u64 = by_key(&run, "prio", "forks").values().sum();
    assert!(forks >= u64::from(FORKS), "{forks}: {}", run.stderr);
    assert!(!run.stderr.contains("fork or exec event"), "{}", run.stderr);
}

fn programs_that_could_interrupt_each_other_are_not_at_raw_tracepoints() {
    can_use_arguments();
    let calls = "raw_syscalls:sys_enter//key=_cpu/";
    let exits = "raw_syscalls:sys_exit//key=_cpu/";
    let wakings = "sched:sched_waking//key=_cpu/";
    let raw = |args: &[&str], place: &str| {
        let tool = start(place, args);
        let mut names = attached(&tool);
        names.sort();
        tool.finish().is_complete();
        names
    };
    let both = format!("{calls},{exits}");
    assert_eq!(raw(&["top", "-e", &both], "kernel"), ["sys_enter", "sys_exit"]);
    let mixed = format!("{calls},{wakings}");
    assert_eq!(raw(&["top", "-e", &mixed], "kernel"), [""; 0]);
    let pairs = ["multi-trace", "-e", calls, "-e", exits];
    assert_eq!(raw(&pairs, "auto"), ["sys_enter", "sys_exit"]);
    let ends = format!("{exits},{wakings}");
    let pairs = ["multi-trace", "-e", calls, "-e", &ends];
    assert_eq!(raw(&pairs, "kernel"), [""; 0]);
    // From records.
    assert_eq!(raw(&pairs, "auto"), [""; 0]);
}
