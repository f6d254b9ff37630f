//! Queries over events of a source that the tests make up.

use super::*;
use crate::base::event::slot::Slot;
use crate::base::report::cell::Cell;
use crate::base::report::coverage::Coverage;
use std::cell::{Cell as Counter, RefCell};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Events with one field, `id`, which counts up, 10 ns apart.
struct Source(Counter<i64>);

impl SqlSource for Source {
    fn events(&self) -> Vec<(String, Vec<String>)> {
        vec![("a:call".to_owned(), vec!["id".to_owned()])]
    }

    fn read(&self, _: &BorrowedEvent<'_>, visit: &mut events::VisitEvent<'_>) {
        let id = self.0.replace(self.0.get() + 1);
        let sample = SqlSample { time_ns: 10 * id, cpu: 1, pid: 300, tid: -1, comm: b"bash" };
        visit(&sample, &mut [("id", Value::Int(id))].into_iter());
    }

    fn ksymbol(&self, address: u64) -> Option<String> {
        (address == 16).then(|| "start".to_owned())
    }

    fn comm(&self, tid: u32) -> String {
        format!("task {tid}")
    }
}

fn store(query: &str, limit: u64) -> SqlStore {
    let events = Rc::new(SqlEvents::default());
    events.read_from(Box::new(Source(Counter::new(0))));
    SqlStore::open(query, &events, limit, 1 << 30).unwrap()
}

fn add(store: &mut SqlStore, events: usize) {
    let slot = Slot::EMPTY;
    for _ in 0..events {
        let event = BorrowedEvent { slot: &slot, raw: &[], chain: &[] };
        store.take_event(Some(event), &[], 0);
    }
}

#[test]
fn a_query_sees_the_events_of_its_interval() {
    let mut store = store("SELECT count(*) AS n, max(id) AS last, _comm, _tid FROM call", 1000);
    store.check().unwrap();
    add(&mut store, 3);
    let found = store.result(|| false).unwrap();
    assert_eq!(found.columns, ["n", "last", "_comm", "_tid"]);
    let row =
        |n, last| [Cell::whole(n), Cell::whole(last), Cell::Text("bash".into()), Cell::whole(-1)];
    assert_eq!(found.rows, [row(3, 2)]);
    store.restart();
    add(&mut store, 2);
    assert_eq!(store.result(|| false).unwrap().rows, [row(2, 4)]);
}

#[test]
fn beyond_the_limit_a_query_sees_a_sample_with_equal_weights() {
    let query = "SELECT weight() AS weight, count(*), min(id), max(id), sum(id % 2) FROM call";
    let mut store = store(query, 1000);
    store.check().unwrap();
    let mut shown = 0;
    for interval in 0..3 {
        add(&mut store, 20_000);
        let rows = store.result(|| false).unwrap().rows;
        let [weight, count, min, max, odd] = [0, 1, 2, 3, 4].map(|i| match rows[0][i] {
            Cell::Int(number) => number.get(),
            ref other => panic!("{other:?}"),
        });
        let first = 20_000 * interval;
        // Of 20,000 events, 16 or 32 per row: 625 or 1250, give or take five standard deviations.
        let (all, tolerance) = (count * weight, 20_000 / 5);
        assert!((20_000 - tolerance..20_000 + tolerance).contains(&all), "{rows:?}");
        assert!((count / 3..count * 2 / 3).contains(&odd), "{rows:?}");
        assert!(min >= first && min < first + 1000 && max > first + 19_000, "{rows:?}");
        assert!(count <= 1000, "{rows:?}");
        shown += count as u64;
        store.restart();
    }
    assert_eq!(store.dropped() + shown, 60_000);
}

#[test]
fn a_query_that_needs_too_much_memory_fails_and_the_rows_stay() {
    let query = "SELECT length(hex(zeroblob(100000000))) FROM call LIMIT 1";
    let events = Rc::new(SqlEvents::default());
    events.read_from(Box::new(Source(Counter::new(0))));
    let mut store = SqlStore::open(query, &events, 1000, 32 << 20).unwrap();
    add(&mut store, 500);
    let why = store.result(|| false).unwrap_err();
    assert!(why.contains("memory") || why.contains("too big"), "{why}");
    store.query = "SELECT count(*) FROM call".to_owned();
    assert_eq!(store.result(|| false).unwrap().rows, [[Cell::whole(500)]]);
}

#[test]
fn a_file_keeps_the_rows_of_all_intervals_and_a_query_sees_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.db");
    std::fs::File::create(&path).unwrap();
    let mut store = store("SELECT count(*), min(id) FROM call", 1000);
    store.check().unwrap();
    store.keep_in(&path).unwrap();
    for (events, first) in [(3, 0), (2, 3), (0, 5)] {
        add(&mut store, events);
        let rows = store.result(|| false).unwrap().rows;
        let first = if events == 0 { Cell::Empty } else { Cell::whole(first) };
        assert_eq!(rows, [[Cell::whole(events as i128), first]]);
        store.restart();
        // A process that is killed now leaves these rows.
        let kept = Connection::open(&path).unwrap();
        let count = kept.query_row("SELECT count(*) FROM call", [], |row| row.get::<_, i64>(0));
        assert_eq!(count.unwrap(), if events == 3 { 3 } else { 5 });
    }
    let coverage = Coverage { lost: 7, ..Coverage::default() };
    let summary = store.complete(&coverage).unwrap().unwrap();
    assert!(summary.ends_with("(5 rows of 1 tables)"), "{summary}");
    let kept = Connection::open(&path).unwrap();
    let texts = |query: &str| {
        let mut statement = kept.prepare(query).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>()
    };
    let indexes = texts("SELECT name FROM sqlite_schema WHERE type = 'index' ORDER BY 1");
    assert_eq!(indexes, ["call_pid", "call_tid", "call_time"]);
    let lost = "SELECT CAST(count AS TEXT) FROM coverage WHERE name = 'lost'";
    assert_eq!(texts(lost), ["7"]);
}

#[test]
fn a_file_has_the_samples_of_all_intervals_and_their_weights() {
    const EVENTS: [i64; 6] = [20_000, 400, 400, 400, 0, 20_000];
    let folder = tempfile::tempdir().unwrap();
    let (mut store, path) = kept_store(&folder, 1000);
    let mut shown = Vec::new();
    for events in EVENTS {
        add(&mut store, events as usize / 2);
        // A query in the middle of an interval does not end it.
        store.result(|| false).unwrap();
        add(&mut store, events as usize / 2);
        let Cell::Int(rows) = store.result(|| false).unwrap().rows[0][0] else { panic!() };
        shown.extend((events > 0).then_some((rows.get() as i64, events, store.weight() as i64)));
        store.restart();
    }
    let evicted = store.dropped();
    let summary = store.complete(&Coverage { evicted, ..Coverage::default() }).unwrap().unwrap();
    let all: i64 = shown.iter().map(|(rows, ..)| rows).sum();
    assert!(summary.ends_with(&format!("({all} rows of 1 tables)")), "{all}: {summary}");
    assert_eq!(all + evicted as i64, EVENTS.iter().sum::<i64>());
    // As docs/sql.md has it.
    let query = "SELECT count(*), events, weight, sum(weight), rows FROM intervals JOIN call
        ON _time >= since_ns AND _time < until_ns GROUP BY since_ns ORDER BY since_ns";
    let kept = Connection::open(&path).unwrap();
    let mut statement = kept.prepare(query).unwrap();
    let number = |row: &rusqlite::Row<'_>, i| row.get::<_, i64>(i);
    let read = |row: &rusqlite::Row<'_>| {
        assert_eq!(number(row, 4), number(row, 0));
        Ok(((number(row, 0)?, number(row, 1)?, number(row, 2)?), number(row, 3)?))
    };
    let found = statement.query_map([], read).unwrap().collect::<rusqlite::Result<Vec<_>>>();
    let (stored, estimates): (Vec<_>, Vec<i64>) = found.unwrap().into_iter().unzip();
    assert_eq!(stored, shown);
    let weights: Vec<i64> = stored.iter().map(|(.., weight)| *weight).collect();
    assert_eq!(weights, [32, 32, 16, 8, 32]);
    for ((rows, events, weight), estimate) in stored.into_iter().zip(estimates) {
        // A sample of 1 of N events has this variance of the estimate.
        let deviation = ((events * (weight - 1)) as f64).sqrt();
        assert!(rows <= 1000, "{rows} of {events}");
        let error = (estimate - events).abs() as f64;
        assert!(error <= 4.0 * deviation, "{estimate} of {events}, weight {weight}");
    }
}

/// Returns a store that keeps its rows in a new file of this folder.
fn kept_store(folder: &tempfile::TempDir, limit: u64) -> (SqlStore, PathBuf) {
    let path = folder.path().join("run.db");
    std::fs::File::create(&path).unwrap();
    let mut store = store("SELECT count(*) FROM call", limit);
    store.check().unwrap();
    store.keep_in(&path).unwrap();
    (store, path)
}

fn kept_rows(path: &Path) -> i64 {
    let kept = Connection::open(path).unwrap();
    kept.query_row("SELECT count(*) FROM call", [], |row| row.get(0)).unwrap()
}

#[test]
fn rows_that_a_full_file_undoes_are_dropped() {
    // With the smaller limit, the sample of the interval is halved again and again.
    for limit in [1 << 20, 1000] {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, path) = kept_store(&folder, limit);
        let pages = if limit == 1000 { 8 } else { 40 };
        let most = format!("PRAGMA max_page_count = {pages}");
        store.restriction.lift(&store.db, |db| db.query_row(&most, [], |_| Ok(()))).unwrap();
        add(&mut store, 100);
        assert_eq!(store.result(|| false).unwrap().rows, [[Cell::whole(100)]]);
        store.restart();
        add(&mut store, 50_000);
        let why = store.result(|| false).unwrap_err();
        assert!(why.contains("full"), "{limit}: {why}");
        store.restart();
        add(&mut store, 7);
        assert_eq!((store.dropped(), kept_rows(&path)), (50_007, 100), "{limit}");
    }
}

#[test]
fn a_reader_of_the_file_delays_rows_and_loses_none() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, path) = kept_store(&folder, 1 << 20);
    add(&mut store, 100);
    store.result(|| false).unwrap();
    store.restart();
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    reader.query_row("SELECT id FROM call LIMIT 1", [], |_| Ok(())).unwrap();
    add(&mut store, 10);
    let why = store.result(|| false).unwrap_err();
    assert!(why.contains("locked"), "{why}");
    store.restart();
    reader.execute_batch("COMMIT").unwrap();
    add(&mut store, 5);
    assert_eq!(store.result(|| false).unwrap().rows, [[Cell::whole(5)]]);
    assert_eq!((store.dropped(), kept_rows(&path)), (0, 115));
}

#[test]
fn functions_of_expressions_are_functions_of_sql() {
    let query = "SELECT ksymbol(16), ksymbol(17), comm_get(7), syscall_name(0), ntohs(258)";
    let found = store(query, 1).result(|| false).unwrap();
    let call = if cfg!(target_arch = "x86_64") { "read" } else { "io_setup" };
    let texts = ["start", "0x11", "task 7", call].map(|text| Cell::Text(text.to_owned()));
    assert_eq!(found.rows[0][..4], texts);
    assert_eq!(found.rows[0][4], Cell::whole(u16::from_be(258).into()));
}

#[test]
fn a_query_that_does_not_only_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.db");
    let queries = [
        format!("ATTACH '{}' AS x", file.display()),
        format!("VACUUM INTO '{}'", file.display()),
        "DELETE FROM call".to_owned(),
        "INSERT INTO call VALUES (1, 2, 3, 4, 5, 6)".to_owned(),
        "CREATE TABLE x (y)".to_owned(),
        "PRAGMA journal_mode = DELETE".to_owned(),
        "SELECT load_extension('x')".to_owned(),
        "COMMIT".to_owned(),
    ];
    for query in queries {
        assert!(store(&query, 1).check().is_err(), "{query}");
    }
    assert!(!file.exists());
}

#[test]
fn an_error_names_the_mistake() {
    assert_eq!(store("SELECT x FROM call", 1).check(), Err("no such column: x".to_owned()));
    assert_eq!(store("SELECT 1 FROM calls", 1).check(), Err("no such table: calls".to_owned()));
}

#[test]
fn a_query_without_an_end_is_stopped() {
    let query =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n";
    let why = store(query, 1).result(|| true).unwrap_err();
    assert!(why.contains("stopped"), "{why}");
}

#[test]
fn an_interrupt_after_the_query_does_not_stop_the_writing_of_rows() {
    static IS_STOPPED: AtomicBool = AtomicBool::new(false);
    // All insertions together, and each index, need more instructions than are between two checks.
    const EVENTS: usize = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let (mut store, path) = kept_store(&folder, 1 << 20);
    add(&mut store, 3);
    assert_eq!(store.result(|| IS_STOPPED.load(Relaxed)).unwrap().rows, [[Cell::whole(3)]]);
    store.restart();
    IS_STOPPED.store(true, Relaxed);
    add(&mut store, EVENTS);
    assert_eq!(store.dropped(), 0);
    assert_eq!(store.result(|| false).unwrap().rows, [[Cell::whole(EVENTS as i128)]]);
    store.restart();
    // Nor does the condition of a query that it stopped.
    let why = store.result(|| true).unwrap_err();
    assert!(why.contains("stopped"), "{why}");
    add(&mut store, EVENTS);
    let summary = store.complete(&Coverage::default()).unwrap().unwrap();
    assert!(summary.ends_with("(40003 rows of 1 tables)"), "{summary}");
    let kept = Connection::open(&path).unwrap();
    let count = "SELECT count(*) FROM sqlite_schema WHERE type = 'index' OR name = 'coverage'";
    assert_eq!(kept.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(), 4);
}

/// Events that are opened one after the other, as at a prompt.
struct Growing(Rc<RefCell<Vec<String>>>);

impl SqlSource for Growing {
    fn events(&self) -> Vec<(String, Vec<String>)> {
        self.0.borrow().iter().map(|name| (name.clone(), Vec::new())).collect()
    }

    fn read(&self, _: &BorrowedEvent<'_>, visit: &mut events::VisitEvent<'_>) {
        let sample = SqlSample { time_ns: 5, cpu: 1, pid: 300, tid: 300, comm: b"a\xff" };
        visit(&sample, &mut std::iter::empty());
    }

    fn ksymbol(&self, _: u64) -> Option<String> {
        None
    }

    fn comm(&self, _: u32) -> String {
        String::new()
    }
}

#[test]
fn text_that_is_not_utf8_is_stored_escaped() {
    let events = Rc::new(SqlEvents::default());
    events.read_from(Box::new(Growing(Rc::new(RefCell::new(vec!["a:call".to_owned()])))));
    let mut store = SqlStore::open("SELECT hex(_comm) FROM call", &events, 1000, 1 << 30).unwrap();
    add(&mut store, 1);
    let bytes: String = b"a\\xff".iter().map(|byte| format!("{byte:02X}")).collect();
    assert_eq!(store.result(|| false).unwrap().rows, [[Cell::Text(bytes)]]);
}

#[test]
fn an_event_opened_later_has_a_table_and_none_without_one_vanishes() {
    let events = Rc::new(SqlEvents::default());
    let opened = Rc::new(RefCell::new(vec!["a:call".to_owned()]));
    events.read_from(Box::new(Growing(opened.clone())));
    let query = "SELECT (SELECT count(*) FROM call), (SELECT count(*) FROM b__call)";
    let mut store = SqlStore::open(query, &events, 1000, 1 << 30).unwrap();
    add(&mut store, 2);
    opened.borrow_mut().push("b:call".to_owned());
    let slot = Slot { ev: 1, ..Slot::EMPTY };
    let event = || Some(BorrowedEvent { slot: &slot, raw: &[], chain: &[] });
    (0..3).for_each(|_| _ = store.take_event(event(), &[], 0));
    assert_eq!(store.result(|| false).unwrap().rows, [[Cell::whole(2), Cell::whole(3)]]);
    let unknown = Slot { ev: 2, ..Slot::EMPTY };
    store.take_event(Some(BorrowedEvent { slot: &unknown, raw: &[], chain: &[] }), &[], 0);
    assert_eq!(store.dropped(), 1);
}
