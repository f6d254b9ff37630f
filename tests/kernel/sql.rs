//! SQL over real events: the counts are those of the workload.

use std::io::{BufRead as _, BufReader};

use serde_json::{Value, json};

use crate::live::live_tests;
use crate::load;
use crate::tool::{Run, Tool};

live_tests! {
    a_query_counts_the_calls_of_the_workload,
    enter_and_exit_of_each_call_are_joined,
    beyond_the_limit_a_query_sees_a_sample,
    a_database_keeps_the_calls_and_has_indexes,
    an_interrupt_completes_the_database_with_the_last_interval,
    a_database_of_samples_has_their_weights,
    a_killed_run_leaves_a_database_of_the_complete_intervals,
    a_query_is_read_from_a_file,
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

fn beyond_the_limit_a_query_sees_a_sample() {
    let query = "SELECT count(*) AS n, weight() AS weight FROM
        (SELECT 1 FROM sys_enter UNION ALL SELECT 1 FROM sys_exit)";
    let run = run(10_000, query, &["--rows", "1000"]);
    let row = rows(&run)[0];
    let [stored, weight] = ["n", "weight"].map(|column| row[column].as_u64().expect("a number"));
    assert!((300..=1000).contains(&stored), "{row}");
    // 32 events per row: 625 rows, give or take six standard deviations.
    assert!((16_000..24_000).contains(&(stored * weight)), "{row}");
    assert_eq!(run.coverage()["evicted"], 20_000 - stored, "{}", run.coverage());
}

fn a_database_keeps_the_calls_and_has_indexes() {
    const CALLS: u32 = 5000;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("calls.db");
    let file = path.to_str().expect("UTF-8");
    let run = run(CALLS, "SELECT count(*) AS n FROM sys_exit", &["-o", file]);
    run.is_complete();
    assert_eq!(rows(&run)[0]["n"], CALLS);
    let db = rusqlite::Connection::open(&path).expect("a database");
    let number = |query: &str| db.query_row(query, [], |row| row.get::<_, i64>(0)).expect(query);
    let calls = format!("SELECT count(*) FROM sys_enter WHERE id = {}", libc::SYS_getppid);
    assert_eq!(number(&calls), i64::from(CALLS));
    let parent = std::process::id();
    let exits = format!("SELECT count(DISTINCT _time) FROM sys_exit WHERE ret = {parent}");
    assert_eq!(number(&exits), i64::from(CALLS));
    assert_eq!(number("SELECT count(*) FROM sqlite_schema WHERE type = 'index'"), 6);
    assert_eq!(number("SELECT sum(count) FROM coverage"), 0);
}

fn an_interrupt_completes_the_database_with_the_last_interval() {
    const CALLS: u32 = 20_000;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("calls.db");
    let file = path.to_str().expect("UTF-8");
    let (first, last) = (load::getppid(100), load::getppid(CALLS));
    let pids = format!("{},{}", first.pid(), last.pid());
    let event = format!("raw_syscalls:sys_enter/id=={}/", libc::SYS_getppid);
    let query = "SELECT count(*) AS n FROM sys_enter";
    let args = ["sql", "-e", &event, "-p", &pids, "-i", "1000", "-m", "4096", "--query", query];
    let tool = Tool::attach(&[&args[..], &["-o", file]].concat());
    first.run();
    // The start of the run, and the row and the coverage of the first interval.
    tool.wait_for_lines(3);
    // The calls are in the rings when the interrupt arrives.
    let pid = tool.pid().cast_signed();
    let send = |signal| {
        // SAFETY: takes no pointer; the process is our own child and has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    };
    send(libc::SIGSTOP);
    last.run();
    send(libc::SIGINT);
    send(libc::SIGCONT);
    let run = tool.output();
    run.is_complete();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let printed: u64 = rows(&run).iter().filter_map(|row| row["n"].as_u64()).sum();
    assert_eq!(printed, 100 + u64::from(CALLS), "{}", run.stderr);
    let db = rusqlite::Connection::open(&path).expect("a database");
    let number = |query: &str| db.query_row(query, [], |row| row.get::<_, i64>(0)).expect(query);
    assert_eq!(number("SELECT count(*) FROM sys_enter"), 100 + i64::from(CALLS));
    assert_eq!(number("SELECT count(*) FROM sqlite_schema WHERE type = 'index'"), 3);
    assert_eq!(number("SELECT count(*) FROM coverage WHERE count > 0"), 0);
}

fn a_database_of_samples_has_their_weights() {
    const CALLS: i64 = 10_000;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("calls.db");
    let file = path.to_str().expect("UTF-8");
    let run = run(CALLS as u32, "SELECT 1", &["--rows", "1000", "-m", "4096", "-o", file]);
    run.is_complete();
    let db = rusqlite::Connection::open(&path).expect("a database");
    let number = |query: &str| db.query_row(query, [], |row| row.get::<_, i64>(0)).expect(query);
    let rows = number("SELECT (SELECT count(*) FROM sys_enter) + count(*) FROM sys_exit");
    assert_eq!((number("SELECT sum(rows) FROM intervals"), rows <= 1000), (rows, true));
    assert_eq!(number("SELECT sum(events) FROM intervals"), 2 * CALLS);
    let evicted = number("SELECT count FROM coverage WHERE name = 'evicted'");
    assert_eq!(rows + evicted, 2 * CALLS);
    let weight = number("SELECT max(weight) FROM intervals");
    let estimate = number(
        "SELECT sum(weight) FROM intervals JOIN
            (SELECT _time FROM sys_enter UNION ALL SELECT _time FROM sys_exit)
            ON _time >= since_ns AND _time < until_ns",
    );
    // Five standard deviations of a sample of 1 of N events.
    let tolerance = 5.0 * ((2 * CALLS * (weight - 1)) as f64).sqrt();
    assert!((estimate - 2 * CALLS).abs() as f64 <= tolerance, "{estimate}, weight {weight}");
}

fn a_killed_run_leaves_a_database_of_the_complete_intervals() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("calls.db");
    let mut tool = std::process::Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["sql", "-e", "raw_syscalls:sys_enter", "-i", "100", "-q", "--database"])
        .arg(&path)
        .args(["--query", "SELECT count(*) AS n FROM sys_enter", "--json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the built command runs");
    // Each row is printed after its interval was written.
    let lines = BufReader::new(tool.stdout.take().expect("a pipe")).lines();
    let rows = lines.map_while(Result::ok).filter(|line| line.contains(r#""type":"row""#));
    let counts = rows.take(5).map(|line| {
        let row: Value = serde_json::from_str(&line).expect("JSON");
        row["n"].as_i64().expect("a number")
    });
    let printed: i64 = counts.sum();
    tool.kill().expect("it runs");
    tool.wait().expect("it ended");
    let db = rusqlite::Connection::open(&path).expect("a database");
    let count = "SELECT count(*) FROM sys_enter";
    let kept = db.query_row(count, [], |row| row.get::<_, i64>(0)).expect("a readable database");
    assert!(printed > 0 && kept >= printed, "{kept} of {printed}");
}

fn a_query_is_read_from_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("query.sql");
    std::fs::write(&path, "SELECT count(*) AS n, -- the calls\n 7 AS seven FROM sys_enter")
        .expect("a file");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["sql", "-e", "raw_syscalls:sys_enter", "--duration", "100ms", "--json"])
        .arg(&path)
        .output()
        .expect("the built command runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains(r#""seven":7"#), "{stdout}{output:?}");
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
