//! SQL over real events: the counts are those of the workload.

use serde_json::{Value, json};

use crate::live::live_tests;
use crate::load;
use crate::tool::{Run, Tool};

live_tests! {
    a_query_counts_the_calls_of_the_workload,
    enter_and_exit_of_each_call_are_joined,
    events_beyond_the_limit_are_counted_as_evicted,
    an_invalid_query_ends_the_run_before_it_begins,
    a_query_without_an_end_is_stopped_by_an_interrupt,
}

/// Runs a query over the calls of a task that calls getppid `calls` times.
fn run(calls: u32, query: &str, more: &[&str]) -> Run {
    let load = load::getppid(calls);
    let pid = load.pid().to_string();
    let events = format!(
        "raw_syscalls:sys_enter/id=={id}/,raw_syscalls:sys_exit/id=={id}/",
        id = libc::SYS_getppid
    );
    let args = ["sql", "-e", &events, "-p", &pid, "-i", "60000", "--query", query];
    let tool = Tool::attach(&[&args[..], more].concat());
    load.run();
    tool.finish()
}

fn rows(run: &Run) -> Vec<&Value> {
    run.of("row").filter(|row| row["table"] == "sql").collect()
}

fn a_query_counts_the_calls_of_the_workload() {
    const CALLS: u32 = 20_000;
    let query =
        "SELECT syscall_name(id) AS call, comm_get(_tid) = _comm AS is_named, count(*) AS n,
        count(DISTINCT _time) AS times FROM sys_enter GROUP BY 1, 2";
    let run = run(CALLS, query, &["-m", "4096"]);
    run.is_complete();
    let rows = rows(&run);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["call"], &rows[0]["n"]), (&json!("getppid"), &json!(CALLS)), "{rows:?}");
    assert_eq!(rows[0]["times"], CALLS, "{rows:?}");
    assert_eq!(rows[0]["is_named"], 1, "{rows:?}");
}

fn enter_and_exit_of_each_call_are_joined() {
    const CALLS: u32 = 5000;
    let query = "WITH e AS (SELECT *, row_number() OVER (ORDER BY _time) AS k FROM sys_enter),
        x AS (SELECT *, row_number() OVER (ORDER BY _time) AS k FROM sys_exit)
        SELECT count(*) AS n, sum(x._time > e._time) AS later, count(DISTINCT x.ret) AS results,
          max(x.ret) AS parent FROM e JOIN x ON e.k = x.k AND e._tid = x._tid";
    let run = run(CALLS, query, &[]);
    run.is_complete();
    let row = rows(&run)[0];
    assert_eq!((&row["n"], &row["later"]), (&json!(CALLS), &json!(CALLS)), "{row}");
    assert_eq!((&row["results"], &row["parent"]), (&json!(1), &json!(std::process::id())), "{row}");
}

fn events_beyond_the_limit_are_counted_as_evicted() {
    let run = run(1000, "SELECT count(*) AS n FROM sys_enter", &["--rows", "100"]);
    let stored = rows(&run)[0]["n"].as_u64().expect("a number");
    assert!((1..=100).contains(&stored), "{stored}");
    assert_eq!(run.coverage()["evicted"], 1900, "{}", run.coverage());
}

fn an_invalid_query_ends_the_run_before_it_begins() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["sql", "-e", "sched:sched_switch", "--query", "SELECT prev_cmm FROM sched_switch"])
        .output()
        .expect("the built command runs");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("sql: no such column: prev_cmm"), "{stderr}");
}

fn a_query_without_an_end_is_stopped_by_an_interrupt() {
    let query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
        SELECT sum(i) FROM n";
    let args = ["sql", "-e", "raw_syscalls:sys_enter", "-i", "100", "--query", query];
    let tool = Tool::attach(&args);
    std::thread::sleep(std::time::Duration::from_millis(500));
    let since = std::time::Instant::now();
    let run = tool.finish();
    // The interrupt stops the query of the interval; that of the last report has its time limit.
    assert!(since.elapsed() < std::time::Duration::from_secs(15), "{:?}", since.elapsed());
    assert!(run.stderr.contains("stopped") || run.of("note").count() > 0, "{}", run.stderr);
}
