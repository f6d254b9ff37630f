//! Relations between events: pairs and their delays match the workload.

use serde_json::Value;

use crate::{
    live::live_tests,
    load,
    tool::{Run, Tool, with_all_switches},
    watch,
};

live_tests! {
    each_entry_of_a_call_is_related_to_its_exit,
    all_events_between_two_calls_are_printed_in_order,
    a_call_that_never_returns_has_no_partner,
    a_sleep_lasts_from_its_entry_to_its_exit,
    each_switch_to_a_task_ends_one_wait,
    a_task_that_is_moved_is_counted,
    timers_that_wake_a_sleeper_are_never_early,
    a_run_with_lost_events_relates_fewer_and_reports_it,
    allocations_and_frees_match_the_workload,
    memory_may_be_freed_on_another_cpu,
    a_sleep_is_a_call_with_the_time_off_the_cpu_inside_of_it,
    starts_whose_ends_come_from_other_tasks_are_noted,
}

/// Returns the sum of a column over the rows of a table.
fn sum(run: &Run, table: &str, of: &str, wanted: impl Fn(&Value) -> bool) -> f64 {
    let rows = run.of("row").filter(|row| row["table"] == table && wanted(row));
    rows.filter_map(|row| row[of].as_f64()).sum()
}

fn calls(run: &Run, wanted: impl Fn(&Value) -> bool) -> f64 {
    sum(run, "latency", "calls", wanted)
}

fn each_entry_of_a_call_is_related_to_its_exit() {
    let load = load::getppid(5000);
    let of = load.pid().to_string();
    let [enter, exit] = ["sys_enter", "sys_exit"]
        .map(|event| format!("raw_syscalls:{event}/id=={}/", libc::SYS_getppid));
    let run = watch(&["multi-trace", "-e", &enter, "-e", &exit, "-k", "_tid", "-p", &of], load);
    assert_eq!(calls(&run, |_| true), 5000.0, "{:?} {}", run.objects, run.stderr);
    assert_eq!(
        (&run.coverage()["unmatched"], &run.coverage()["events"]),
        (&0.into(), &10_000.into())
    );
    run.is_complete();
}

fn all_events_between_two_calls_are_printed_in_order() {
    const CALLS: usize = 3000;
    let load = load::between_two_calls(CALLS as u32);
    let of = load.pid().to_string();
    let [from, to, between] =
        ["getuid", "getgid", "getppid"].map(|call| format!("syscalls:sys_enter_{call}"));
    let to_and_between = format!("{to},{between}//untraced/");
    let pair = ["multi-trace", "-e", &from, "-e", &to_and_between, "-p", &of];
    let run = watch(&[&pair[..], &["--than", "1ns", "--detail"]].concat(), load);
    let heading: Vec<_> = run.of("row").filter(|row| row["detail"] == 1).collect();
    assert_eq!(heading.len(), 1, "{:?} {}", run.objects, run.stderr);
    let events: Vec<_> = run.of("event").collect();
    assert!(events.iter().all(|event| event["detail"] == 1));
    let names: Vec<_> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    let expected = [&from[..]].into_iter().chain([&between[..]; CALLS]).chain([&to[..]]);
    assert!(names.iter().copied().eq(expected), "{} events", names.len());
    let offsets: Vec<_> = events.iter().filter_map(|event| event["offset_ns"].as_i64()).collect();
    assert!(offsets[0] == 0 && offsets.is_sorted_by(|a, b| a < b), "{offsets:?}");
    let delay = heading[0]["delay_us"].as_f64().unwrap_or_default() * 1e3;
    assert_eq!(offsets.last().map(|last| *last as f64), Some(delay.round()));
    assert_eq!(run.coverage()["events"], CALLS as u64 + 2);
    run.is_complete();
}

fn a_call_that_never_returns_has_no_partner() {
    let load = load::getppid(100);
    let of = load.pid().to_string();
    let (enter, exit) = ("raw_syscalls:sys_enter", "raw_syscalls:sys_exit");
    let run = watch(&["multi-trace", "-e", enter, "-e", exit, "--impl", "pair", "-p", &of], load);
    // The read in which the workload waits was entered before the run; its last call does not
    // return.
    let of = |role: &str, count: &str| sum(&run, "kv", count, |row| row["as"] == role);
    assert_eq!((of("start", "unpaired"), of("end", "unpaired")), (1.0, 1.0), "{:?}", run.objects);
    assert!(of("start", "paired") >= 100.0 && of("start", "paired") == of("end", "paired"));
    assert_eq!(run.coverage()["exited"], 1);
    run.is_complete();
}

fn a_sleep_lasts_from_its_entry_to_its_exit() {
    for ms in [1u32, 10, 100] {
        let load = load::sleep_ms(ms);
        let of = load.pid().to_string();
        let points = "syscalls:sys_enter_clock_nanosleep,syscalls:sys_exit_clock_nanosleep";
        let run = watch(&["mpdelay", "-e", points, "-p", &of], load);
        let us = sum(&run, "latency", "total_us", |_| true);
        let asked = f64::from(ms) * 1e3;
        assert_eq!(calls(&run, |_| true), 1.0, "{:?}", run.objects);
        assert!((asked..asked + 60e3).contains(&us), "{us} us for {ms} ms");
        run.is_complete();
    }
}

fn each_switch_to_a_task_ends_one_wait() {
    const ROUNDS: u32 = 1000;
    let _busy = load::never_idle();
    let (mut first, second) = load::ping_pong(ROUNDS);
    let both = [first.pid(), second.pid()];
    let of = format!("{},{}", both[0], both[1]);
    let tool = Tool::attach(&["rundelay", "--perins", "-p", &of]);
    first.start();
    second.run();
    first.wait();
    let run = tool.finish();
    for tid in both {
        let waits = calls(&run, |row| row["tid"] == tid);
        let bounds = f64::from(ROUNDS)..f64::from(ROUNDS) * 1.1 + 20.0;
        assert!(bounds.contains(&waits), "{waits}: {:?}", run.objects);
    }
    run.is_complete();
}

fn a_task_that_is_moved_is_counted() {
    let _busy = load::never_idle();
    let load = load::migrations(100);
    let tid = load.pid();
    let run = watch(&["sched-migrate", "--perins", "-p", &tid.to_string()], load);
    run.is_complete();
    let moved = sum(&run, "migrations", "migrations", |row| row["tid"] == tid);
    assert!((99.0..=110.0).contains(&moved), "{moved}: {:?} {}", run.objects, run.stderr);
    let ran = sum(&run, "until_it_runs", "calls", |_| true);
    assert!((moved - 5.0..=moved).contains(&ran), "{ran} of {moved}");
}

fn timers_that_wake_a_sleeper_are_never_early() {
    let _busy = load::never_idle();
    let (load, _) = load::alternate(5, 20);
    let run = watch(&["hrtimer-latency"], load);
    let woke = |row: &Value| row["function"] == "hrtimer_wakeup";
    assert!(calls(&run, woke) >= 5.0, "{:?}", run.objects);
    // A late start of the function is microseconds if the CPU is not taken away; with another clock
    // it would be hours.
    let typical = |row: &Value| row["p50_us"].as_f64().is_some_and(|us| us < 20_000.0);
    assert!(run.of("row").filter(|row| woke(row)).all(typical), "{:?}", run.objects);
    run.is_complete();
}

fn a_run_with_lost_events_relates_fewer_and_reports_it() {
    // The first lost record follows an entry or an exit; only an entry leaves an open state. A
    // reader that gets no CPU time sees only one such window.
    assert!((0..10).any(|_| a_lossy_run_drops_open_states()));
}

/// Returns whether a run that loses events dropped a state that was open at a loss window.
fn a_lossy_run_drops_open_states() -> bool {
    const CALLS: u32 = 200_000;
    let load = load::getppid(CALLS);
    let of = load.pid().to_string();
    let (enter, exit) = ("raw_syscalls:sys_enter", "raw_syscalls:sys_exit");
    let args = ["multi-trace", "-e", enter, "-e", exit, "-k", "_tid", "-p", &of, "-m", "1"];
    let args = [&args[..], &["--where", "user"]].concat();
    let run = watch(&args, load);
    let lost = run.coverage()["lost"].as_u64().unwrap_or_default();
    let seen = calls(&run, |_| true);
    assert!(lost > 0 && seen < f64::from(CALLS), "{lost} lost, {seen} related");
    // Each pair needs two events that arrived; lost records create no pair.
    let arrived = run.coverage()["events"].as_f64().unwrap_or_default();
    assert!(2.0 * seen <= arrived, "{seen} of {arrived}");
    // States that are open at a loss window are dropped, and no pair spans it: a call of getppid
    // takes microseconds, a loss window lasts as long as a page of a ring was full.
    run.coverage()["unsafe"].as_u64() > Some(0)
}

fn allocations_and_frees_match_the_workload() {
    // The number of slots of a pipe times the size of one.
    let alloc = "kmem:kmalloc/bytes_req==640/";
    for words in [
        &["multi-trace", "--impl", "kmemprof", "-e", alloc, "-e", "kmem:kfree"][..],
        &["kmemprof", "--alloc", alloc, "--free", "kmem:kfree"],
    ] {
        let mut pipes = load::Pipes::new(50, 20);
        let tool = Tool::attach(&[words, &["-p", &pipes.pid().to_string()]].concat());
        pipes.run();
        let run = tool.finish();
        pipes.end();
        let of = |event: &str, count: &str| sum(&run, "kv", count, |row| row["event"] == event);
        assert_eq!((of("kmem:kmalloc", "calls"), of("kmem:kfree", "calls")), (50.0, 20.0));
        assert_eq!((of("kmem:kmalloc", "bytes"), of("kmem:kfree", "bytes")), (51200.0, 20480.0));
        let stacks: Vec<_> = run.of("row").filter(|row| !row["stack"].is_null()).collect();
        assert_eq!(stacks.len(), 1, "one place allocates them: {stacks:?}");
        assert!(stacks[0]["stack"].to_string().contains("alloc_pipe_info"), "{}", stacks[0]);
        run.is_complete();
    }
}

fn memory_may_be_freed_on_another_cpu() {
    for (cpu, made) in [("0", 50.0), ("1", 0.0)] {
        let load = load::pipes_closed_elsewhere(50);
        let alloc = format!("kmem:kmalloc/bytes_req==640&&common_pid=={}/", load.pid());
        let args = ["multi-trace", "--impl", "kmemprof", "-e", &alloc, "-e", "kmem:kfree"];
        let run = watch(&[&args[..], &["-C", cpu]].concat(), load);
        let of = |event: &str| sum(&run, "kv", "calls", |row| row["event"] == event);
        let both = (of("kmem:kmalloc"), of("kmem:kfree"));
        assert_eq!(both, (made, made), "on CPU {cpu}: {:?} {}", run.objects, run.stderr);
        run.is_complete();
    }
}

fn a_sleep_is_a_call_with_the_time_off_the_cpu_inside_of_it() {
    const SLEEPS: u32 = 10;
    const MS: u64 = 20;
    let _busy = load::never_idle();
    let (load, measured) = load::alternate(SLEEPS, MS);
    let pid = load.pid();
    let of = pid.to_string();
    let sleep =
        "syscalls:sys_enter_clock_nanosleep//alias=sleep/,syscalls:sys_exit_clock_nanosleep";
    let off = format!(
        "sched:sched_switch/prev_pid=={of}/key=prev_pid/alias=off-CPU/,\
         sched:sched_switch/next_pid=={of}/key=next_pid/"
    );
    let args = ["nested", "-k", "_tid", "-e", sleep, "-e", &off, "-p", &of];
    let run = with_all_switches(pid, || watch(&args, load));
    run.is_complete();
    let of = |call: &str, what: &str| sum(&run, "calls", what, |row| row["call"] == call);
    assert_eq!(of("sleep", "calls"), f64::from(SLEEPS), "{:?} {}", run.objects, run.stderr);
    // It may be preempted while it exits.
    let inside = of("  off-CPU", "calls") - f64::from(SLEEPS);
    assert!((0.0..=2.0).contains(&inside), "{inside} more: {:?}", run.objects);
    let total = of("sleep", "total_us");
    assert!(total <= measured.get(1) as f64 / 1e3 && total >= f64::from(SLEEPS) * MS as f64 * 1e3);
    let (own, off) = (of("sleep", "self_us"), of("  off-CPU", "total_us"));
    assert!((own + off - total).abs() < 1.0 && own < total / 4.0, "{own} + {off} of {total} us");
}

fn starts_whose_ends_come_from_other_tasks_are_noted() {
    const CALLS: u32 = 100;
    let load = load::getppid(CALLS);
    let of = load.pid().to_string();
    let (start, end) = ("syscalls:sys_enter_getppid", "sched:sched_wait_task");
    let args = ["multi-trace", "-e", start, "-e", end, "-k", "common_pid", "-p", &of];
    let run = watch(&args, load);
    let expected = "100 starts, 0 ends: the ends may come from other tasks; -a watches all tasks";
    assert!(run.of("note").any(|note| note["text"] == expected), "{:?}", run.objects);
    let coverage = run.coverage();
    assert_eq!((&coverage["starts"], &coverage["open"]), (&CALLS.into(), &1.into()), "{coverage}");
    assert_eq!(coverage["unmatched"], CALLS - 1, "{coverage}");
}
