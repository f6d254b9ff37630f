//! Pairs in the kernel for some tasks, in intervals, and beyond the room of the maps.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::counted_tasks::MadeCgroup;
use crate::counting::can_count;
use crate::live::live_tests;
use crate::load;
use crate::paired::{is_exact, stages, start, sum, with_arguments};
use crate::tool::Tool;

live_tests! {
    only_calls_of_watched_tasks_are_timed,
    the_calls_of_children_are_timed,
    the_ends_of_a_fork_storm_are_counted,
    the_calls_of_a_cgroup_are_timed,
    the_exec_of_a_command_began_before_the_run,
    a_command_is_timed_with_its_children,
    each_interval_has_the_pairs_that_ended_in_it,
    delays_without_room_are_counted_together,
    starts_with_keys_of_several_columns_are_open_at_the_end,
}

fn only_calls_of_watched_tasks_are_timed() {
    let (watched, other) = (load::getppid(4000), load::getppid(3000));
    let pid = watched.pid().to_string();
    let args = ["syscalls", "--only", "getppid", "-p", &pid];
    let tools = ["kernel", "user"].map(|place| start(place, &args));
    watched.run();
    other.run();
    for run in tools.map(Tool::finish) {
        assert_eq!(run.sum("calls", "syscall", "getppid"), 4000, "{:?}", run.objects);
        is_exact(&run);
    }
}

fn the_calls_of_children_are_timed() {
    const CHILDREN: u32 = 40;
    const CALLS: u32 = 500;
    let (tree, other) = (load::getppid_in_tree(CHILDREN, CALLS), load::getppid(10_000));
    let pid = tree.pid().to_string();
    let args = ["syscalls", "--only", "getppid", "-p", &pid];
    let tools = ["kernel", "user"].map(|place| start(place, &args));
    tree.run();
    other.run();
    for run in tools.map(Tool::finish) {
        let calls = u64::from((2 * CHILDREN + 1) * CALLS);
        assert_eq!(run.sum("calls", "syscall", "getppid"), calls, "{}", run.stderr);
        is_exact(&run);
    }
}

fn the_ends_of_a_fork_storm_are_counted() {
    const FORKS: u32 = 5000;
    let load = load::forks(FORKS);
    let pid = load.pid().to_string();
    let args = ["syscalls", "--only", "exit_group,wait4", "-p", &pid];
    let tools = ["kernel", "user"].map(|place| start(place, &args));
    load.run();
    for run in tools.map(Tool::finish) {
        assert_eq!(sum(&run, "latency", "calls", |_| true), f64::from(FORKS), "{}", run.stderr);
        // Those of the children, and its own.
        let ended = sum(&run, "calls", "calls", |row| row["unpaired"] == "does not return");
        assert_eq!(ended, f64::from(FORKS + 1), "{:?}", run.objects);
        assert_eq!(run.coverage()["exited"], FORKS + 1, "{}", run.coverage());
        is_exact(&run);
    }
}

fn the_calls_of_a_cgroup_are_timed() {
    const CALLS: u32 = 500;
    can_count();
    let group = MadeCgroup::create("paired");
    let (member, outside) = (load::getppid_in_tree(2, CALLS), load::getppid(CALLS));
    group.add(member.pid());
    let args = ["syscalls", "--only", "getppid", "--cgroup", &group.name];
    let tools = ["kernel", "user"].map(|place| start(place, &args));
    member.run();
    outside.run();
    for run in tools.map(Tool::finish) {
        let calls = u64::from(5 * CALLS);
        assert_eq!(run.sum("calls", "syscall", "getppid"), calls, "{:?}", run.objects);
        is_exact(&run);
    }
}

fn the_exec_of_a_command_began_before_the_run() {
    const BEGAN: &str = "began before the run or in another thread";
    can_count();
    for place in ["kernel", "user"] {
        let args = ["syscalls", "--where", place, "--json", "true"];
        let output = Command::new(env!("CARGO_BIN_EXE_perilune")).args(args).output();
        let output = output.expect("the built command runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let rows: Vec<Value> = rows.filter(|row| row["table"] == "calls").collect();
        let of = |why: &str| rows.iter().find(|row| row["unpaired"] == why).cloned();
        let (began, ended) = (of(BEGAN), of("does not return"));
        let began = began.unwrap_or_else(|| panic!("{place}: {text}"));
        let ended = ended.unwrap_or_else(|| panic!("{place}: {text}"));
        assert_eq!((&began["syscall"], &began["calls"]), (&"execve".into(), &1.into()), "{text}");
        assert_eq!((&ended["syscall"], &ended["calls"]), (&"exit_group".into(), &1.into()));
    }
}

fn a_command_is_timed_with_its_children() {
    can_count();
    let script = "for i in 1 2 3 4 5; do /bin/true; done; exit 7";
    for place in ["kernel", "user"] {
        let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .args(["syscalls", "--only", "execve,exit_group", "--where", place, "--json"])
            .args(["--", "sh", "-c", script])
            .output()
            .expect("the built command runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let rows: Vec<Value> = rows.filter(|row| row["type"] == "row").collect();
        let calls = |table: &str, call: &str| -> u64 {
            let rows = rows.iter().filter(|row| row["table"] == table && row["syscall"] == call);
            rows.filter_map(|row| row["calls"].as_u64()).sum()
        };
        assert_eq!(output.status.code(), Some(7), "{place}");
        // The shell's own exec has begun before.
        assert_eq!(calls("latency", "execve"), 5, "{place}: {text}");
        assert_eq!(calls("calls", "execve"), 1, "{place}: {text}");
        assert_eq!(calls("calls", "exit_group"), 6, "{place}: {text}");
    }
}

fn each_interval_has_the_pairs_that_ended_in_it() {
    let (mut load, measured) = load::getppid_until_stopped();
    let pid = load.pid().to_string();
    let tool = start("kernel", &["syscalls", "--only", "getppid", "-p", &pid, "-i", "200"]);
    load.start();
    std::thread::sleep(Duration::from_secs(2));
    measured.stop();
    load.wait();
    let run = tool.finish();
    let (mut calls, mut all, mut intervals) = (0, 0, 0);
    for object in &run.objects {
        let number = |name: &str| object[name].as_u64().unwrap_or_default();
        match object["type"].as_str() {
            Some("row") if object["table"] == "latency" => calls += number("calls"),
            Some("coverage") if object["final"] == false => {
                assert_eq!(number("starts") - number("open"), calls, "{object}");
                assert!(number("open") <= 1, "{object}");
                assert_eq!(number("unmatched") + number("evicted"), 0, "{object}");
                (all, intervals) = (all + calls, intervals + u64::from(calls > 0));
                calls = 0;
            }
            _ => {}
        }
    }
    assert_eq!(all + calls, measured.get(1), "{:?}", run.coverage());
    // A busy machine has fewer than ten.
    assert!(intervals >= 2, "{:?}", run.objects);
    is_exact(&run);
}

fn delays_without_room_are_counted_together() {
    const CALLS: u32 = 40_000;
    let load = load::getppid_with_arguments(CALLS);
    let pid = load.pid();
    // Each call ends the delay of the one before, and each delay has a key of its own.
    let (from, to) = (with_arguments(pid, "args[0]"), with_arguments(pid, "args[0]-1"));
    let tool = start("kernel", &stages(&from, &to, &["--perins", "-i", "60000"]));
    load.run();
    let run = tool.finish();
    assert_eq!(sum(&run, "latency", "calls", |_| true), f64::from(CALLS) - 1.0, "{}", run.stderr);
    assert!(run.coverage()["evicted"].as_u64() > Some(0), "{}", run.coverage());
    assert_eq!(run.coverage()["starts"], CALLS, "{}", run.coverage());
    is_exact(&run);
}

fn starts_with_keys_of_several_columns_are_open_at_the_end() {
    let text = format!(
        "local m = monitor {{ summary = 'sleeps', order = true }} local calls, open
         function m.init()
           local function of(event)
             return evsel(('raw_syscalls:sys_%s/id == {}/'):format(event))
           end
           local enter, exit = of 'enter', of 'exit'
           calls = latency {{ 'tid' }}
           open = calls:between(enter, exit, {{ key = {{ '_tid', 'id' }}, rows = {{ '_tid' }},
             records = function(starts) return {{
               {{ enter, function(e) starts:open(e._tid, e) end }},
               {{ exit, function(e)
                 local start = starts:close(e._tid, e)
                 if start then calls:add(start.delay, e._tid) end
               end }} }} end }})
         end
         function m.deinit()
           local n = 0
           for _ in open:each() do n = n + 1 end
           return calls, report('open', {{ 'n', 'len' }}, {{ {{ n, open:len() }} }})
         end
         return m",
        libc::SYS_clock_nanosleep
    );
    let (_folder, script) = crate::script::written(&text);
    let mut sleepers = [(); 3].map(|()| load::sleep_ms(60_000));
    let pids = sleepers.each_ref().map(|load| load.pid().to_string()).join(",");
    let tools = ["kernel", "user"].map(|place| start(place, &[&script, "-p", &pids]));
    sleepers.iter_mut().for_each(load::Load::start);
    std::thread::sleep(Duration::from_millis(500));
    for run in tools.map(Tool::finish) {
        let open = run.of("row").find(|row| row["table"] == "open").expect("the report");
        assert_eq!((&open["n"], &open["len"]), (&3.into(), &3.into()), "{:?}", run.objects);
        assert_eq!(run.coverage()["open"], 3, "{}", run.coverage());
    }
}
