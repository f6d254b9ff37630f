//! Parquet files, as DuckDB reads them: the counts are those of the workload.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::live::{live_tests, skip};
use crate::load;
use crate::tool::Tool;

live_tests! {
    three_hosts_merge_exactly,
    the_fields_of_each_event_are_columns,
    a_killed_run_leaves_only_complete_files,
    the_coverage_includes_killed_runs,
    a_file_is_finished_at_its_age,
    a_run_starts_at_the_requested_time,
}

/// Queries DuckDB, one result per statement: a list of objects.
const READER: &str = "\
import duckdb, json, sys
for query in duckdb.extract_statements(sys.stdin.read()):
    result = duckdb.sql(query.query)
    names = [column[0] for column in result.description]
    rows = [dict(zip(names, row)) for row in result.fetchall()]
    print(json.dumps(rows, default=float))
";

/// Returns a Python that has the modules of the tests.
pub(crate) fn python() -> String {
    std::env::var("PERILUNE_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// Returns the results of the statements in `sql`, in which `fleet` is `folder`.
pub(crate) fn query(folder: &Path, sql: &str) -> Vec<Value> {
    let python = python();
    let has_duckdb = Command::new(&python).args(["-c", "import duckdb"]).output();
    if !has_duckdb.is_ok_and(|output| output.status.success()) {
        skip("no duckdb; PERILUNE_PYTHON names a Python that has it");
    }
    let mut child = Command::new(&python)
        .args(["-c", READER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python runs");
    let sql = sql.replace("'fleet/", &format!("'{}/", folder.display()));
    child.stdin.take().expect("it is piped").write_all(sql.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{sql}");
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

/// Returns a query of docs/parquet.md by its name.
fn documented(name: &str) -> &'static str {
    let text = include_str!("../../docs/parquet.md");
    let start = text.find(&format!("```sql\n-- {name}\n")).expect("the page has the query");
    let block = text[start..].strip_prefix("```sql\n").expect("it was found so");
    block.split("```").next().expect("split returns one part")
}

fn three_hosts_merge_exactly() {
    const CALLS: [u32; 3] = [1000, 2000, 4000];
    let folder = tempfile::tempdir().expect("a folder can be created");
    let shown = folder.path().to_str().expect("it is UTF-8");
    for (host, calls) in (1..).zip(CALLS) {
        let load = load::getppid(calls);
        let pid = load.pid().to_string();
        let args = ["syscalls", "--only", "getppid", "-p", &pid, "--parquet", shown, "-i", "100"];
        let tool = Tool::attach_with(&args, &[("PERILUNE_HOST", &format!("host {host}"))]);
        load.run();
        assert_eq!(tool.finish_text(), (String::new(), Some(0)));
    }
    let calls = &query(folder.path(), documented("calls"))[0];
    let of_host = |row: &Value| (row["host"].clone(), row["calls"].as_f64());
    let found: Vec<_> = calls.as_array().expect("rows").iter().map(of_host).collect();
    let wanted = [("host 1", 1000.0), ("host 2", 2000.0), ("host 3", 4000.0)];
    assert_eq!(found, wanted.map(|(host, calls)| (json!(host), Some(calls))));
    let merged = include_str!("../../contrib/fleet/merge.sql");
    for (sql, unit) in [(documented("quantiles"), "ns"), (merged, "us")] {
        let rows = &query(folder.path(), sql)[0];
        assert_eq!(rows.as_array().map(Vec::len), Some(1), "{rows}");
        assert_eq!(rows[0]["calls"].as_f64(), Some(7000.0), "{rows}");
        let times = ["p50", "p95", "p99"].map(|p| rows[0][format!("{p}_{unit}")].as_f64());
        assert!(times.is_sorted() && times[0] > Some(0.0), "{rows}");
    }
    let coverage = &query(folder.path(), documented("coverage"))[0];
    let events: Vec<Option<f64>> = (0..3).map(|i| coverage[i]["events"].as_f64()).collect();
    assert_eq!(events, CALLS.map(|calls| Some(2.0 * f64::from(calls))), "{coverage}");
    assert!((0..3).all(|i| coverage[i]["lost"].as_f64() == Some(0.0)), "{coverage}");
    quantiles_are_those_of_the_sum(folder.path());
}

/// Compares the quantiles of the hosts' histograms with those of all their buckets, sorted here.
fn quantiles_are_those_of_the_sum(folder: &Path) {
    let all = "SELECT b.high AS high, b.count AS count FROM (SELECT unnest(buckets) AS b
      FROM read_parquet('fleet/histograms/syscalls.latency/**/*.parquet')) ORDER BY high;";
    let rows = query(folder, all).remove(0);
    let mut highs = Vec::new();
    for row in rows.as_array().expect("rows") {
        let count = row["count"].as_u64().expect("a count") as usize;
        highs.extend(std::iter::repeat_n(row["high"].as_u64().expect("a bound"), count));
    }
    assert_eq!(highs.len(), 7000);
    let found = query(folder, documented("quantiles")).remove(0);
    for (name, share) in [("p50_ns", 0.5), ("p95_ns", 0.95), ("p99_ns", 0.99)] {
        let index = (share * highs.len() as f64).ceil() as usize - 1;
        assert_eq!(found[0][name].as_u64(), Some(highs[index]), "{name}");
    }
}

fn the_fields_of_each_event_are_columns() {
    const CALLS: u32 = 70_000;
    let folder = tempfile::tempdir().expect("a folder can be created");
    let load = load::getppid(CALLS);
    let pid = load.pid();
    let pid_text = pid.to_string();
    let event = format!("raw_syscalls:sys_enter/id=={}/", libc::SYS_getppid);
    let shown = folder.path().to_str().expect("it is UTF-8");
    let args = ["trace", "-e", &event, "-p", &pid_text, "-m", "4096", "--parquet", shown];
    let tool = Tool::attach_plain(&args);
    load.run();
    assert_eq!(tool.finish_text().1, Some(0));
    let sql = "SELECT count(*) AS n, count(DISTINCT clock_ns) AS times, min(id) AS least,
        max(id) AS most, min(pid) AS pid, max(len(args)) AS args, typeof(any_value(time)) AS time,
        typeof(any_value(id)) AS id, any_value(host) AS host, any_value(monitor) AS monitor,
        bool_and(abs(epoch_us(time) - epoch_us(now())) < 600e6) AS recent
      FROM read_parquet('fleet/events/raw_syscalls__sys_enter/**/*.parquet',
                        hive_partitioning = true);";
    let row = &query(folder.path(), sql)[0][0];
    assert_eq!((&row["n"], &row["times"]), (&json!(CALLS), &json!(CALLS)), "{row}");
    assert_eq!((&row["least"], &row["most"]), (&json!(libc::SYS_getppid), &row["least"]), "{row}");
    assert_eq!((&row["pid"], &row["args"]), (&json!(pid), &json!(6)), "{row}");
    assert_eq!(row["time"], "TIMESTAMP WITH TIME ZONE", "{row}");
    assert_eq!((&row["id"], &row["monitor"]), (&json!("BIGINT"), &json!("trace")), "{row}");
    assert_eq!(row["host"], json!(perilune::sys::machine::host_name()), "{row}");
    assert_eq!(row["recent"], true, "{row}");
}

/// Returns the files below a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let (mut pending, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(path) = pending.pop() {
        match std::fs::read_dir(&path) {
            Ok(names) => pending.extend(names.map(|name| name.expect("it can be read").path())),
            Err(_) => files.push(path),
        }
    }
    files
}

/// Returns when a folder has this many files; fails after a while.
fn wait_for_files(folder: &Path, wanted: usize) {
    let since = Instant::now();
    while files(folder).len() < wanted {
        assert!(since.elapsed() < Duration::from_secs(60), "only {:?}", files(folder));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn a_killed_run_leaves_only_complete_files() {
    let folder = tempfile::tempdir().expect("a folder can be created");
    let shown = folder.path().to_str().expect("it is UTF-8");
    let args = ["trace", "-e", "raw_syscalls:sys_enter", "--parquet", shown, "--rotate", "200ms"];
    // Two tasks call without an end while the run is killed.
    let mut loads = [load::getppid(u32::MAX), load::getppid(u32::MAX)];
    let tool = Tool::attach_plain(&args);
    loads.iter_mut().for_each(load::Load::start);
    wait_for_files(folder.path(), 4);
    tool.kill();
    let found = files(folder.path());
    let is_complete = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "parquet");
    assert!(found.iter().all(is_complete), "{found:?}");
    let sql = "SELECT count(*) AS n, max(id) AS id FROM
      read_parquet('fleet/events/raw_syscalls__sys_enter/**/*.parquet');";
    let row = &query(folder.path(), sql)[0][0];
    assert!(row["n"].as_u64() > Some(1000), "{row}");
}

fn the_coverage_includes_killed_runs() {
    const CALLS: [u32; 2] = [1000, 300];
    let folder = tempfile::tempdir().expect("a folder can be created");
    let shown = folder.path().to_str().expect("it is UTF-8");
    let waiting = load::getppid(1);
    let attach = |pid: u32| {
        let pids = format!("{pid},{}", waiting.pid());
        let args = ["syscalls", "--only", "getppid", "-p", &pids, "--parquet", shown, "-i", "100"];
        Tool::attach_plain(&[&args[..], &["--rotate", "300ms"]].concat())
    };
    let coverage = || query(folder.path(), documented("coverage")).remove(0);
    let loads = CALLS.map(load::getppid);
    let [ended, killed] = loads.each_ref().map(|load| attach(load.pid()));
    loads.into_iter().for_each(load::Load::run);
    assert_eq!(ended.finish_text().1, Some(0));
    // Until the file of the interval with the calls is finished.
    let since = Instant::now();
    while coverage()[0]["events"].as_f64() != Some(2600.0) {
        assert!(since.elapsed() < Duration::from_secs(60), "{}", coverage());
    }
    killed.kill();
    let rows = coverage();
    let number = |name: &str| rows[0][name].as_f64();
    assert_eq!(
        ["runs", "unfinished", "events"].map(number),
        [2.0, 1.0, 2600.0].map(Some),
        "{rows}"
    );
    for problem in ["lost", "undelivered", "undecodable", "evicted", "throttled"] {
        assert_eq!(number(problem), Some(0.0), "{problem}: {rows}");
    }
}

fn a_file_is_finished_at_its_age() {
    let folder = tempfile::tempdir().expect("a folder can be created");
    let shown = folder.path().to_str().expect("it is UTF-8");
    let load = load::getppid(5);
    let pid = load.pid().to_string();
    let event = "raw_syscalls:sys_enter";
    let waiting = load::getppid(1);
    let pids = format!("{pid},{}", waiting.pid());
    let args = ["trace", "-e", event, "-p", &pids, "--parquet", shown, "--rotate", "100ms"];
    let tool = Tool::attach_plain(&args);
    load.run();
    // The run goes on.
    wait_for_files(folder.path(), 1);
    assert_eq!(tool.finish_text().1, Some(0));
}

fn a_run_starts_at_the_requested_time() {
    let folder = tempfile::tempdir().expect("a folder can be created");
    let shown = folder.path().to_str().expect("it is UTF-8");
    let args = [
        "percpu-stat",
        "-i",
        "200",
        "--duration",
        "600ms",
        "--start-at",
        "/3s",
        "--parquet",
        shown,
    ];
    let tool = Tool::attach_plain(&args);
    assert_eq!(tool.finish_by_itself().1, Some(0));
    let sql = "SELECT epoch_us(min(time)) AS first, count(*) AS n
      FROM read_parquet('fleet/coverage/**/*.parquet');";
    let row = &query(folder.path(), sql)[0][0];
    let first = row["first"].as_i64().expect("a time");
    // The first interval ends 200 ms after a multiple of 3 s; enabling the events takes some time.
    let after = first.rem_euclid(3_000_000);
    assert!((200_000..300_000).contains(&after), "{after} us after a multiple: {row}");
}
