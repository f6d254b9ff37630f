//! Queries over events of a source that the tests make up.

use super::*;
use crate::base::event::slot::Slot;
use std::cell::Cell as Counter;

/// Events with one field, `id`, which counts up.
struct Source(Counter<i64>);

impl SqlSource for Source {
    fn events(&self) -> Vec<(String, Vec<String>)> {
        vec![("a:call".to_owned(), vec!["id".to_owned()])]
    }

    fn read(&self, _: &BorrowedEvent<'_>, visit: &mut events::VisitEvent<'_>) {
        let id = self.0.replace(self.0.get() + 1);
        let sample = SqlSample { time_ns: 5, cpu: 1, pid: 300, tid: -1, comm: b"bash" };
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
    SqlStore::open(query, &events, limit).unwrap()
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
    let row = |n, last| [Cell::Int(n), Cell::Int(last), Cell::Text("bash".into()), Cell::Int(-1)];
    assert_eq!(found.rows, [row(3, 2)]);
    store.restart();
    add(&mut store, 2);
    assert_eq!(store.result(|| false).unwrap().rows, [row(2, 4)]);
}

#[test]
fn events_beyond_the_limit_are_counted() {
    let mut store = store("SELECT count(*) FROM call", 10);
    add(&mut store, 25);
    assert_eq!(store.result(|| false).unwrap().rows, [[Cell::Int(10)]]);
    assert_eq!(store.losses(), SqlLosses { dropped: 15 });
}

#[test]
fn functions_of_expressions_are_functions_of_sql() {
    let query = "SELECT ksymbol(16), ksymbol(17), comm_get(7), syscall_name(0), ntohs(258)";
    let found = store(query, 1).result(|| false).unwrap();
    let call = if cfg!(target_arch = "x86_64") { "read" } else { "io_setup" };
    let texts = ["start", "0x11", "task 7", call].map(|text| Cell::Text(text.to_owned()));
    assert_eq!(found.rows[0][..4], texts);
    assert_eq!(found.rows[0][4], Cell::Int(u16::from_be(258).into()));
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
