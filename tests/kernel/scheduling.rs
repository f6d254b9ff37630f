//! Monitors of CPUs, the scheduler and locks: their figures are those that a program measured.

use std::collections::HashMap;
use std::process::Command;

use serde_json::Value;

use crate::functions::Program;
use crate::live::{live_tests, skip_anywhere};

live_tests! {
    the_time_on_each_cpu_is_the_cpu_time_of_the_program,
    the_waiting_tasks_are_those_that_waited,
    sleeps_have_the_functions_of_the_sleeper_and_of_its_waker,
    two_stacks_are_joined_in_a_flame_graph,
    a_mutex_is_waited_for_as_often_and_as_long_as_measured,
    the_holder_of_a_mutex_is_the_thread_that_locked_it,
    a_deadlock_is_shown_with_both_holders,
    sizes_of_writes_are_distributed_exactly,
    stays_on_a_cpu_are_the_switches_of_the_program,
    forced_migrations_have_their_reason,
    a_timer_prints_windows_in_which_a_condition_holds,
}

pub(crate) const SOURCE: &str = include_str!("scheduling/loads.c");

/// Output of a run, and what the program measured.
pub(crate) struct Measured {
    pub(crate) rows: Vec<Value>,
    pub(crate) own: HashMap<String, f64>,
    /// Events that the kernel counted and wrote no record of, and stays whose beginning has none.
    pub(crate) unrecorded: f64,
    stderr: String,
    folder: tempfile::TempDir,
}

impl Measured {
    /// Returns the rows of the program's thread or process with this name.
    pub(crate) fn of<'a>(&'a self, comm: &'a str) -> impl Iterator<Item = &'a Value> {
        self.rows.iter().filter(move |row| row["comm"] == comm)
    }

    pub(crate) fn explain(&self) -> String {
        format!("{:?} {:?} {} {}", self.own, self.rows, self.unrecorded, self.stderr)
    }
}

pub(crate) fn sum<'a>(rows: impl Iterator<Item = &'a Value>, key: &str) -> f64 {
    rows.filter_map(|row| row[key].as_f64()).sum()
}

/// Runs the program in a mode as the COMMAND of a monitor. `FOLDER` in an argument is a folder of
/// the run.
pub(crate) fn watch(args: &[&str], mode: &str) -> Measured {
    let _busy = crate::load::never_idle();
    let program = Program::of(SOURCE, &["-lpthread"]);
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("own");
    let place = folder.path().to_string_lossy().into_owned();
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(args.iter().map(|arg| arg.replace("FOLDER", &place)))
        .args(["--json", "--duration", "120s", "--", &program.path(), mode])
        .arg(&file)
        .output()
        .expect("the built command runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    let text = String::from_utf8_lossy(&output.stdout);
    let objects = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let objects: Vec<Value> = objects.collect();
    let coverage = || objects.iter().filter(|o| o["type"] == "coverage" && o["final"] == true);
    let own = std::fs::read_to_string(&file).expect("the program wrote it");
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    Measured {
        unrecorded: sum(coverage(), "undelivered") + sum(coverage(), "unmatched"),
        rows: objects.into_iter().filter(|o| o["type"] == "row" || o["type"] == "hist").collect(),
        own: own.lines().filter_map(pair).collect(),
        stderr,
        folder,
    }
}

/// Like [`watch`], until the kernel wrote a record of each event: a stay on a CPU whose switch has
/// none is not seen. Skips the test if that never happens.
fn watch_each_record(args: &[&str], mode: &str) -> Measured {
    let mut runs = std::iter::repeat_with(|| watch(args, mode)).take(10);
    let complete = runs.find(|run| run.unrecorded == 0.0);
    complete.unwrap_or_else(|| skip_anywhere("this kernel wrote no record of some switches"))
}

fn the_time_on_each_cpu_is_the_cpu_time_of_the_program() {
    let run = watch_each_record(&["oncpu"], "spins");
    let on = |cpu: u64| run.of("chain").filter(move |row| row["cpu"] == cpu);
    for cpu in [0, 1] {
        let (ms, own) = (sum(on(cpu), "ms"), run.own[&format!("cpu{cpu}")]);
        // Interrupts and a hypervisor take time of a stay. Its own number contains the time before
        // it was executed.
        assert!(
            (own - 2.0..own * 1.2 + 20.0).contains(&ms),
            "CPU {cpu}: {ms} ms: {}",
            run.explain()
        );
    }
    let stays = sum(run.of("chain"), "stays");
    let switches = run.own["switches"];
    // Its own number contains switches before it was executed, and not those of its exit.
    assert!((switches - 4.0..=switches + 5.0).contains(&stays), "{stays}: {}", run.explain());
}

fn the_waiting_tasks_are_those_that_waited() {
    let run = watch(&["runqlen"], "queue");
    let row = run.rows.iter().find(|row| row["cpu"] == 0);
    let row = row.unwrap_or_else(|| panic!("{}", run.explain()));
    let number = |key: &str| row[key].as_f64().unwrap_or_default();
    // Four tasks spin on the CPU, so at least three wait. Others of the machine may wait as well.
    assert!(number("max") >= 3.0, "{}", run.explain());
    let least = run.own["waited"] / run.own["elapsed"];
    assert!(least > 1.5 && number("avg") > least * 0.8, "{least}: {}", run.explain());
    let crowded = number("3_percent");
    assert!(crowded > 30.0, "{crowded}: {}", run.explain());
}

fn sleeps_have_the_functions_of_the_sleeper_and_of_its_waker() {
    let run = watch(&["offcpu"], "sleeps");
    let naps = || run.of("napper").filter(|row| row["asleep_in"].to_string().contains("nanosleep"));
    assert_eq!(sum(naps(), "calls"), 10.0, "{}", run.explain());
    assert!(naps().all(|row| row["waker"] == "(interrupt)"), "{}", run.explain());
    let us = sum(naps(), "total_us");
    // A timer is never early, and the sleep ends when it wakes.
    assert!((200e3..260e3).contains(&us), "{us}: {}", run.explain());
    let reads = || run.of("reader").filter(|row| row["waker"] == "giver");
    let calls = sum(reads(), "calls");
    assert_eq!(calls, run.own["sleeps"], "{}", run.explain());
    let (ms, own) = (sum(reads(), "total_us") / 1e3, run.own["asleep"]);
    assert!(ms > 280.0 && ms <= own, "{ms} of {own}: {}", run.explain());
    for row in reads() {
        let (at, from) = (row["asleep_in"].to_string(), row["woken_by"].to_string());
        assert!(at.contains("waits_for_byte") && from.contains("gives_byte"), "{row}");
    }
}

fn two_stacks_are_joined_in_a_flame_graph() {
    let run = watch(&["offcpu", "--flame-graph", "FOLDER/sleeps", "--weight", "time"], "sleeps");
    let folded = std::fs::read_to_string(run.folder.path().join("sleeps.folded"));
    let folded = folded.unwrap_or_else(|why| panic!("{why}: {}", run.stderr));
    let joined = folded.lines().filter(|line| {
        let at = |name: &str| line.find(name);
        line.starts_with("reader;")
            && at("waits_for_byte") < at(";--;")
            && at(";--;") < at("gives_byte")
            && line.contains(";giver ")
    });
    let ns = joined.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum::<f64>();
    assert!(ns > 280e6, "{ns}: {folded}");
}

fn a_mutex_is_waited_for_as_often_and_as_long_as_measured() {
    let run = watch(&["locks", "--futex", "-g"], "locks");
    let of = || run.of("waiter").filter(|row| row["lock"] == "mutex");
    assert_eq!(sum(of(), "calls"), run.own["waits"], "{}", run.explain());
    let (ms, own) = (sum(of(), "total_us") / 1e3, run.own["waited"]);
    assert!(ms <= own && ms > own * 0.7, "{ms} of {own}: {}", run.explain());
    for row in of() {
        assert_eq!(row["released_by"], "holder", "{row}");
        let (waits, released) = (row["waits_in"].to_string(), row["released_in"].to_string());
        assert!(waits.contains("lll_lock_wait") && released.contains("futex_wake"), "{row}");
    }
}

fn the_holder_of_a_mutex_is_the_thread_that_locked_it() {
    let run = watch(&["locks", "--futex", "--holder"], "locks");
    let of = || run.of("waiter").filter(|row| row["lock"] == "mutex");
    assert_eq!(sum(of(), "calls"), run.own["waits"], "{}", run.explain());
    // The mutex is held for 20 ms each time, and read after 5 to 15 ms, or too late.
    let held = sum(of().filter(|row| row["held_by"] == "holder"), "calls");
    let unread = sum(of().filter(|row| row["held_by"] == ""), "calls");
    assert_eq!(held + unread, run.own["waits"], "{}", run.explain());
    assert!(held >= 3.0, "{}", run.explain());
}

fn a_deadlock_is_shown_with_both_holders() {
    let run = watch(&["locks", "--futex", "--holder"], "deadlock");
    let waits: Vec<_> = run.rows.iter().filter(|row| row["table"] == "still_waiting").collect();
    assert_eq!(waits.len(), 2, "{}", run.explain());
    let of = |task: &str| {
        let is = |row: &&&Value, key: &str, task: &str| {
            row[key].as_str().is_some_and(|name| name.split('/').next() == Some(task))
        };
        let row = waits.iter().find(|row| is(row, "task", task));
        let row = row.unwrap_or_else(|| panic!("{task}: {}", run.explain()));
        let other = if task == "lefty" { "righty" } else { "lefty" };
        assert!(is(&row, "held_by", other), "{row}");
        assert!(row["for_ms"].as_f64().is_some_and(|ms| ms > 300.0), "{row}");
        (row["kind"].clone(), row["lock"].clone())
    };
    assert_eq!(of("lefty"), ("futex pi".into(), "right".into()));
    let left = format!("left+{:#x}", run.own["offset"] as u64);
    assert_eq!(of("righty"), ("futex".into(), left.into()));
}

fn sizes_of_writes_are_distributed_exactly() {
    let event = "syscalls:sys_enter_write/count==4096 || count==100 || count==3/num=count/";
    let run = watch(&["num-dist", "-e", event], "writes");
    let table: Vec<_> = run.rows.iter().filter(|row| row["type"] == "row").collect();
    let [row] = &table[..] else { panic!("{}", run.explain()) };
    assert_eq!((&row["calls"], &row["min"]), (&28.into(), &3.0.into()));
    assert_eq!(row["max"], 4096.0);
    assert_eq!(row["total"], f64::from(16 * 4096 + 8 * 100 + 4 * 3));
}

fn stays_on_a_cpu_are_the_switches_of_the_program() {
    // The kernel may deliver no switch of an idle task.
    let _busy = crate::load::never_idle();
    let run = watch_each_record(&["cpudist"], "spins");
    let (stays, switches) = (sum(run.of("chain"), "calls"), run.own["switches"]);
    assert!((switches - 4.0..=switches + 5.0).contains(&stays), "{stays}: {}", run.explain());
    let (ms, own) = (sum(run.of("chain"), "total_us") / 1e3, run.own["cpu0"] + run.own["cpu1"]);
    // The last stay ends with the program, which ends the run: its switch may come too late.
    let longest = run.of("chain").filter_map(|row| row["max_us"].as_f64()).fold(0.0, f64::max);
    let last = if stays > switches { 0.0 } else { longest / 1e3 };
    assert!((own - last..own * 1.2 + 40.0).contains(&ms), "{ms} of {own}: {}", run.explain());
}

fn forced_migrations_have_their_reason() {
    let run = watch(&["sched-migrate", "--why"], "moves");
    let forced = run.of("chain").filter(|row| row["why"] == "affinity or exec");
    let count = sum(forced, "migrations");
    // Each call but the first demands the other CPU; the first may.
    assert!((20.0..=21.0).contains(&count), "{count}: {}", run.explain());
}

fn a_timer_prints_windows_in_which_a_condition_holds() {
    let _busy = crate::load::never_idle();
    let program = Program::of(SOURCE, &["-lpthread"]);
    let folder = tempfile::tempdir().expect("a folder can be made");
    let event = "syscalls:sys_enter_write/count==100/alias=writes/";
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["hrtimer", "-e", event, "--tick", "20ms", "writes > 0", "--json"])
        .args(["--duration", "120s", "--", &program.path(), "writes"])
        .arg(folder.path().join("own"))
        .output()
        .expect("the built command runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let objects = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let counts = objects.filter(|o| o["type"] == "event").filter_map(|o| o["writes"].as_u64());
    let counts: Vec<u64> = counts.collect();
    // The eight writes take microseconds. The run may end before the tick that follows them.
    assert!(counts.iter().sum::<u64>() <= 8 && counts.iter().all(|n| *n > 0), "{counts:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}
