//! Intervals, totals, handles, and the behaviour at limits.

use super::{Host, rows};
use mlua::Value;
use perilune::base::report::cell::Cell;
use perilune::base::report::draw::Report;

#[test]
fn only_printed_tables_are_reset() {
    let host = Host::new();
    let (drawn, _other): (Value, Value) = host
        .run(
            r#"
            a, b, forever = kv { "x" }, kv { "x", count = "errors" }, kv { "x", keep = true }
            for _, t in ipairs { a, b, forever } do t:add(1) end
            return a, b"#,
        )
        .unwrap();
    let names = |host: &Host| -> Vec<String> {
        let name = |report| match report {
            Report::Table(table) => format!("{} {}", table.name, rows(&table).join(",")),
            other => panic!("{other:?}"),
        };
        host.draw().into_iter().map(name).collect()
    };
    assert_eq!(names(&host), ["kv 1|1", "errors 1|1", "kv_2 1|1"]);
    host.aggregates.reset_after_interval(Some(&[drawn, Value::Nil]));
    assert_eq!(names(&host), ["kv ", "errors 1|1", "kv_2 1|1"]);
    host.aggregates.reset_after_interval(None);
    assert_eq!(names(&host), ["kv ", "errors ", "kv_2 1|1"]);
}

#[test]
fn handles_select_and_order_tables_and_cannot_be_forged() {
    let host = Host::new();
    let (a, b, forged, hidden): (Value, Value, Value, Value) = host
        .run(
            r#"
            local a, b, p = kv { "a" }, kv { "b" }, pending {}
            a:add(1) b:add(2)
            local forged = {}
            for k, v in pairs(a) do forged[k] = v end
            assert(getmetatable(a) == false)
            return a, b, forged, p"#,
        )
        .unwrap();
    let reports = host
        .aggregates
        .draw(&host.lua, Some(&[b.clone(), forged.clone(), hidden, a.clone()]))
        .unwrap();
    let first = |report: &Report| match report {
        Report::Table(table) => table.columns[0].title.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(reports.iter().map(first).collect::<Vec<_>>(), ["b", "a"]);
    assert!(host.aggregates.is_aggregate(&a) && !host.aggregates.is_aggregate(&forged));
}

#[test]
fn totals_add_up_the_intervals() {
    let host = Host::new();
    host.shared.totals.set(true);
    host.run::<()>("l, k, h = latency { 'x' }, kv { 'x', sums = { 'n' } }, hist.log2 {}").unwrap();
    for _ in 0..3 {
        host.run::<()>("l:add(1000, 1) k:add('a', 5) h:add(3)").unwrap();
        host.aggregates.reset_after_interval(None);
        let is_empty =
            |report: &Report| matches!(report, Report::Table(table) if table.rows.is_empty());
        assert!(host.draw().iter().all(is_empty));
    }
    host.run::<()>("l:add(7000, 1) k:add('b', 1)").unwrap();
    let totals = host.aggregates.draw_totals(&host.lua).unwrap();
    let [Report::Table(latency), Report::Table(kv), Report::Hist(hist)] = totals.as_slice() else {
        panic!("{totals:?}")
    };
    assert_eq!(
        latency.rows[0][..4],
        [Cell::whole(1), Cell::whole(4), Cell::Num(10.0), Cell::Num(1.0)]
    );
    assert_eq!((rows(kv), hist.buckets[1].count), (vec!["a|15".to_owned(), "b|1".to_owned()], 3));
}

#[test]
fn a_bound_folds_keys_into_one_row_and_counts_them() {
    let host = Host::new();
    host.run::<()>("local k = kv { 'x', sums = { 'n' } } for i = 1, 600000 do k:add(i, i) end")
        .unwrap();
    let table = host.table();
    let last = table.rows.iter().last().unwrap();
    assert_eq!(last[0], Cell::Text("(evicted)".to_owned()));
    let sum = |row: &[Cell]| match row[1] {
        Cell::Int(value) => value.get(),
        _ => panic!(),
    };
    assert_eq!(table.rows.iter().map(sum).sum::<i128>(), 600_000 * 600_001 / 2);
    assert_eq!(host.aggregates.counts().evicted, 600_000 - (table.rows.len() as u64 - 1));
}

#[test]
fn short_lived_strings_never_fill_the_table() {
    let host = Host::new();
    host.run::<()>(
        r#"
        forever, k = pending { "comm" }, kv { "comm" }
        forever:open("kept key", { _time = 0 }, "kept value")"#,
    )
    .unwrap();
    for round in 0..10 {
        host.lua.globals().set("round", round).unwrap();
        host.run::<()>(
            "for i = 1, 10000 do k:add('task ' .. round .. '/' .. i) end k:add('steady')",
        )
        .unwrap();
        assert_eq!(host.table().rows.len(), 10_001);
        host.aggregates.reset_after_interval(None);
        host.aggregates.sweep().unwrap();
    }
    assert_eq!(host.aggregates.counts().evicted, 0);
    host.run::<()>(
        "local s = forever:close('kept key', { _time = 1 }) assert(s.comm == 'kept value')",
    )
    .unwrap();
}

#[test]
fn strings_beyond_the_limit_are_one_row() {
    let host = Host::new();
    host.run::<()>("k = kv { 'comm' } for i = 1, 30000 do k:add('task ' .. i) end").unwrap();
    let table = host.table();
    let Cell::Int(other) = table.rows[0][1] else { panic!() };
    assert_eq!(table.rows[0][0], Cell::Text("(other)".to_owned()));
    assert_eq!(
        (other.get() + table.rows.len() as i128 - 1, host.aggregates.counts().evicted),
        (30_000, other.get() as u64)
    );
}

#[test]
fn a_run_has_a_bounded_number_of_aggregates_of_all_kinds_together() {
    let host = Host::new();
    let fill = "for i = 1, 512 do kv { 'x' } rate { window = '1s' } end";
    host.run::<()>(fill).unwrap();
    for one in [
        "kv { 'x' }",
        "hist.log2 {}",
        "latency { 'x' }",
        "pending { 'x' }",
        "states { 'state' }",
        "flame_graph {}",
        "heat_map {}",
    ] {
        let why = host.error(one);
        assert!(
            why.starts_with("site.lua:1: a run has at most 1024 tables, histograms and states"),
            "{one}: {why}"
        );
    }
}

#[test]
fn unreferenced_aggregates_are_swept_when_their_number_doubles_and_their_names_are_free() {
    let host = Host::new();
    let tables = || host.draw().len();
    let look = |in_line| host.aggregates.free_unheld(&host.lua, in_line, |_| false).unwrap();
    host.run::<()>("held = {} for i = 1, 300 do held[i] = kv { 'x' } kv { 'x' } end").unwrap();
    look(true);
    assert_eq!(tables(), 600, "a line sweeps when it begins");
    look(false);
    assert_eq!(tables(), 300);
    host.run::<()>("for i = 301, 511 do kv { 'x' } held[i] = kv { 'x' } end").unwrap();
    look(false);
    assert_eq!(tables(), 511);
    host.run::<()>("held = nil for i = 1, 400 do kv { 'x' } end").unwrap();
    look(false);
    assert_eq!(tables(), 911, "511 were referenced: the next sweep is at 1022");
    host.run::<()>("for i = 1, 112 do kv { 'x' } end last = kv { 'x' }").unwrap();
    look(true);
    assert!(tables() <= 2, "{}", tables());
    host.run::<()>("first = kv { 'x' }").unwrap();
    let names = host.draw().into_iter().map(|report| match report {
        Report::Table(table) => table.name,
        other => panic!("not a table: {other:?}"),
    });
    assert_eq!(names.last().as_deref(), Some("kv"));
}
