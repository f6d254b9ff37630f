//! Waits for a CPU and stays on one that the kernel measures: equal to those of user space and to
//! what the load measured.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use serde_json::Value;

use crate::counting::{can_count, usual_refusal};
use crate::functions::Program;
use crate::live::{live_tests, skip_anywhere};
use crate::load::{self, Load};
use crate::paired::{is_exact, run_briefly, start};
use crate::scheduling::{SOURCE, sum, watch};
use crate::tool::{Run, Tool};

live_tests! { alone: [
    waits_of_a_command_are_those_that_its_tasks_counted,
    waits_are_the_same_in_both_places,
    stays_are_the_same_in_both_places,
    starts_of_waits_end_with_their_threads,
] }

fn waits_of_a_command_are_those_that_its_tasks_counted() {
    can_count();
    for place in ["kernel", "user"] {
        let run = watch(&["rundelay", "--where", place], "queue");
        if place == "user" && run.unrecorded > 0.0 {
            continue;
        }
        let (ms, own) = (sum(run.of("chain"), "total_us") / 1e3, run.own["waited"]);
        // Its own number is read before the end of the tasks.
        assert!((own * 0.95..own * 1.05 + 5.0).contains(&ms), "{ms} of {own}: {}", run.explain());
        let others = run.rows.iter().filter(|row| row["comm"] != "chain");
        assert_eq!(others.count(), 0, "{}", run.explain());
    }
}

/// Number and time of the rows of the load in a table, by the column `by`.
fn rows_of(run: &Run, by: &str) -> BTreeMap<String, (u64, f64)> {
    let rows = run.of("row").filter(|row| row["comm"] == "chain");
    let row = |row: &Value| {
        let number = row.get("calls").and_then(Value::as_u64);
        let total = row["total_us"].as_f64().unwrap_or_else(|| panic!("{row}"));
        (row[by].to_string(), (number.unwrap_or_else(|| panic!("{row}")), total))
    };
    rows.map(row).collect()
}

/// Runs a load while a monitor watches it in both places. Ends the test if the kernel wrote no
/// record of some events each time.
fn both(monitor: &str, mode: &str) -> [Run; 2] {
    let _busy = load::never_idle();
    let program = Program::of(SOURCE, &["-lpthread"]);
    for _ in 0..5 {
        let mut command = Command::new(program.path());
        command.args([mode, "/dev/null"]);
        let load = Load::new(move || panic!("{}", command.exec()));
        let pid = load.pid().to_string();
        let tools = ["kernel", "user"].map(|place| start(place, &[monitor, "-p", &pid]));
        load.run();
        let runs = tools.map(Tool::finish);
        let is_whole = |run: &Run| {
            ["undelivered", "unmatched", "lost"].iter().all(|gap| run.coverage()[gap] == 0)
        };
        if runs.iter().all(is_whole) {
            return runs;
        }
    }
    skip_anywhere("this kernel wrote no record of some switches")
}

/// Fails unless the rows are the same but for the times, which are measured at other moments.
fn are_equal(monitor: &str, by: &str, mode: &str, least: u64) {
    let [kernel, user] = both(monitor, mode);
    is_exact(&kernel);
    let (counted, recorded) = (rows_of(&kernel, by), rows_of(&user, by));
    let numbers = |rows: &BTreeMap<String, (u64, f64)>| -> Vec<(String, u64)> {
        rows.iter().map(|(key, row)| (key.clone(), row.0)).collect()
    };
    assert_eq!(numbers(&counted), numbers(&recorded), "{kernel:?}\n{user:?}");
    let calls: u64 = counted.values().map(|row| row.0).sum();
    assert!(calls >= least, "{counted:?}");
    for (key, (calls, us)) in counted {
        let difference = (us - recorded[&key].1).abs();
        assert!(difference < 0.02 * us + 5.0 * calls as f64 + 2000.0, "{key}: {us} {difference}");
    }
}

fn waits_are_the_same_in_both_places() {
    are_equal("rundelay", "after", "queue", 50);
    are_equal("rundelay", "after", "spins", 4);
    are_equal("rundelay", "after", "exits", 20);
}

fn stays_are_the_same_in_both_places() {
    let own = std::process::id().to_string();
    for scope in [&[][..], &["-p", &own]] {
        let (code, said) = run_briefly(&[&["cpudist"], scope].concat());
        assert_eq!(code, Some(0), "{said}");
        let is_counted = said.contains("sched:sched_switch: counted in the kernel");
        assert_eq!(is_counted, usual_refusal().is_none(), "{scope:?}: {said}");
    }
    are_equal("cpudist", "comm", "queue", 50);
    are_equal("cpudist", "comm", "spins", 4);
    are_equal("cpudist", "comm", "exits", 20);
}

fn starts_of_waits_end_with_their_threads() {
    const FORKS: u32 = 2000;
    let load = load::forks(FORKS);
    let pid = load.pid().to_string();
    let tool = start("auto", &["rundelay", "-p", &pid]);
    load.run();
    let run = tool.finish();
    is_exact(&run);
    let coverage = run.coverage();
    let number = |key: &str| coverage[key].as_u64().unwrap_or_else(|| panic!("{coverage}"));
    // Each child waits at least once after its fork.
    assert!(number("starts") >= u64::from(FORKS), "{coverage}");
    assert!(number("open") <= 2, "{coverage}");
    assert_eq!((number("evicted"), number("unmatched")), (0, 0), "{coverage}");
}
