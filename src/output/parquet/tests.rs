//! Files that are read back, by the reader of `parquet`.

use super::*;
use crate::base::event::value::{Value, ValueType};
use crate::base::report::draw::{Align, Bucket, Column, DrawnHistogram, EventText, Style, Table};
use crate::base::report::metric::{Distribution, DistributionShape, MetricKind, MetricRow};
use crate::output::test_support::{TestContext, Written, draw_event, stamp};
use jiff::tz::TimeZone;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::record::{Field, Row};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

mod failures;
mod records;

fn look() -> TextOptions {
    TextOptions {
        zone: TimeZone::UTC,
        colour: crate::output::Colour::Never,
        quiet: true,
        stacks: StackStyle::default(),
        columns: || None,
        together: false,
        pages: 512,
    }
}

fn begin(folder: &Path) -> Parquet {
    begin_with(folder, Box::new(io::sink()))
}

fn begin_with(folder: &Path, messages: Box<dyn Write>) -> Parquet {
    let settings = ParquetSettings {
        folder: folder.to_owned(),
        host: "h1".to_owned(),
        size: FILE_BYTES,
        age: FILE_AGE,
    };
    Parquet::begin(&settings, messages, "m", look()).unwrap()
}

fn json(row: &Row) -> serde_json::Value {
    row.get_column_iter().map(|(name, field)| (name.clone(), json_of(field))).collect()
}

fn json_of(field: &Field) -> serde_json::Value {
    match field {
        Field::Null => serde_json::Value::Null,
        Field::Bool(value) => (*value).into(),
        Field::Long(value) | Field::TimestampMicros(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::Double(value) => (*value).into(),
        Field::Str(value) => value.as_str().into(),
        Field::ListInternal(list) => list.elements().iter().map(json_of).collect(),
        Field::Group(row) => json(row),
        other => panic!("{other:?}"),
    }
}

/// Returns all files below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut pending = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(path) = pending.pop() {
        match path.is_dir() {
            true => pending.extend(std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path())),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

/// Returns the rows of each table as JSON, by its path below the folder.
fn read(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in files(folder) {
        let table = path.strip_prefix(folder).unwrap().display().to_string();
        let table = table.split("/host=h1/monitor=m/date=").next().unwrap().to_owned();
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let rows = reader.get_row_iter(None).unwrap();
        let rows = rows.map(|row| json(&row.unwrap()).to_string());
        tables.entry(table).or_default().extend(rows);
    }
    tables
}

fn draw(parquet: &mut Parquet, at: u64, fields: &[(&str, Value<'_>)], extra: &[(String, Cell)]) {
    draw_role(parquet, (0, "a:b"), at, fields, extra);
}

/// Draws an event of a role with this number, of an event with this name.
fn draw_role(
    parquet: &mut Parquet,
    (role, name): (usize, &str),
    at: u64,
    fields: &[(&str, Value<'_>)],
    extra: &[(String, Cell)],
) {
    parquet.event(&mut EventLine {
        stamp: stamp(at),
        comm: b"bash",
        pid: 300,
        tid: u32::MAX,
        cpu: 1,
        flags: *b"....",
        common: [0; 2],
        common_pid: None,
        name,
        role: Some(role),
        period: None,
        fields,
        text: EventText::Fields,
        extra,
        detail: None,
        stack: &[],
    });
}

#[test]
fn events_have_typed_columns_and_later_ones_are_added() {
    let folder = tempfile::tempdir().unwrap();
    let mut parquet = begin(folder.path());
    let fields = [("pid", ValueType::Int), ("name", ValueType::Text), ("at", ValueType::Pointer)];
    let fields = fields.map(|(name, of)| (name.to_owned(), of.into())).to_vec();
    parquet.opened(&[OpenedEvent { name: "a:b".to_owned(), fields }]);
    let values = [
        ("pid", Value::Int(-7)),
        ("name", Value::Text(b"x\xff")),
        ("at", Value::Pointer(u64::MAX)),
    ];
    draw(&mut parquet, 1500, &values, &[]);
    draw(&mut parquet, 2500, &values, &[("took_us".to_owned(), Cell::Num(1.5))]);
    parquet.end().unwrap();
    let rows = &read(folder.path())["events/a__b"];
    assert_eq!(rows.len(), 2);
    let first: serde_json::Value = serde_json::from_str(&rows[0]).unwrap();
    assert_eq!(first["clock_ns"], 1500);
    assert_eq!((&first["pid"], &first["tid"]), (&300.into(), &(-1).into()));
    assert_eq!((&first["pid_"], &first["name"]), (&(-7).into(), &"x\\xff".into()));
    assert_eq!(first["at"], u64::MAX);
    assert!(first["took_us"].is_null());
    let second: serde_json::Value = serde_json::from_str(&rows[1]).unwrap();
    assert_eq!(second["took_us"], 1.5);
}

#[test]
fn a_printed_text_keeps_bytes_that_are_not_utf8_as_escapes() {
    let folder = tempfile::tempdir().unwrap();
    let mut parquet = begin(folder.path());
    let text = EventText::Printer(b"a\xffb\xfe");
    draw_event(&mut parquet, &[], &TestContext { text, ..TestContext::default() });
    parquet.end().unwrap();
    let rows = &read(folder.path())["events/signal__signal_generate"];
    let row: serde_json::Value = serde_json::from_str(&rows[0]).unwrap();
    assert_eq!(row["text"], r"a\xffb\xfe");
}

#[test]
fn many_rows_of_each_kind_read_back_as_they_were_written() {
    const ROWS: i64 = 70_000;
    let folder = tempfile::tempdir().unwrap();
    let mut parquet = begin(folder.path());
    for i in 0..ROWS {
        let (name, list) = (format!("name {}", i % 1000), [(i % 3) as u8; 8]);
        let elements = &list[..4 * (i % 3) as usize];
        let values = [
            ("few", Value::Int(i % 7 - 3)),
            ("many", Value::Int(i * i)),
            ("text", Value::Text(name.as_bytes())),
            ("list", Value::Array { bytes: elements, size: 4, signed: true }),
            ("number", Value::Float(i as f64 / 4.0)),
        ];
        draw(&mut parquet, i as u64, &values, &[]);
    }
    parquet.end().unwrap();
    let rows = &read(folder.path())["events/a__b"];
    assert_eq!(rows.len() as i64, ROWS);
    for (i, row) in (0..).zip(rows) {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        let element = (i % 3) * 0x0101_0101;
        let list: Vec<i64> = (0..i % 3).map(|_| element).collect();
        assert_eq!(row["few"], i % 7 - 3);
        assert_eq!(row["many"], i * i);
        assert_eq!(row["text"], format!("name {}", i % 1000));
        assert_eq!(row["list"], serde_json::json!(list));
        assert_eq!(row["number"], i as f64 / 4.0);
    }
}

#[test]
fn roles_keep_their_tables_when_columns_change() {
    let folder = tempfile::tempdir().unwrap();
    let mut parquet = begin(folder.path());
    for at in 0..4 {
        draw_role(&mut parquet, (0, "a:b"), at, &[("x", Value::Int(1))], &[]);
        draw_role(&mut parquet, (1, "c:d"), at, &[("x", Value::Text(b"t"))], &[]);
        // Of the event of role 0, with another type, and with a field more.
        draw_role(&mut parquet, (2, "a:b"), at, &[("x", Value::Float(0.5))], &[]);
        let more = [("y", Value::Int(7)), ("x", Value::Int(2))];
        draw_role(&mut parquet, (3, "a:b"), at, &more, &[]);
    }
    parquet.end().unwrap();
    let tables = read(folder.path());
    let values = |table: &str, name: &str| -> Vec<serde_json::Value> {
        let rows = tables[table].iter();
        let rows = rows.map(|row| serde_json::from_str::<serde_json::Value>(row).unwrap());
        rows.map(|row| row[name].clone()).collect()
    };
    assert_eq!(values("events/c__d", "x"), ["t"; 4]);
    let (x, y) = (values("events/a__b", "x"), values("events/a__b", "y"));
    assert_eq!((x.len(), y.len()), (12, 12));
    for (at, (x, y)) in x.iter().zip(&y).enumerate() {
        let (expected, more) = [(1.0, None), (0.5, None), (2.0, Some(7))][at % 3];
        assert_eq!((x.as_f64(), y.as_i64()), (Some(expected), more), "row {at}");
    }
}

#[test]
fn a_late_column_with_gaps_reads_back_and_statistics_hold_all_pages() {
    const ROWS: i64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let mut parquet = begin(folder.path());
    let late = |i: i64| i > 9000 && i % 3 == 0;
    for i in 0..ROWS {
        // The first page has few numbers, the others are all different.
        let mixed = if i < 8000 { i % 5 } else { i * 1000 };
        let values = [("mixed", Value::Int(mixed)), ("at", Value::Pointer((-i) as u64))];
        let extra = [("late".to_owned(), Cell::whole(i.into()))];
        draw(&mut parquet, i as u64, &values, &extra[..usize::from(late(i))]);
    }
    parquet.end().unwrap();
    let rows = &read(folder.path())["events/a__b"];
    for (i, row) in (0..).zip(rows) {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        assert_eq!(row["mixed"], if i < 8000 { i % 5 } else { i * 1000 });
        assert_eq!(row["at"], (-i) as u64);
        assert_eq!(row["late"].as_i64(), late(i).then_some(i));
    }
    assert_eq!(rows.len() as i64, ROWS);
    let file = std::fs::File::open(&files(folder.path())[0]).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let group = reader.metadata().row_group(0);
    let statistics = |name: &str| {
        let column = group.columns().iter().find(|column| column.column_path().string() == name);
        match column.unwrap().statistics().unwrap() {
            Statistics::Int64(of) => {
                (*of.min_opt().unwrap(), *of.max_opt().unwrap(), of.null_count_opt().unwrap())
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(statistics("clock_ns"), (0, ROWS - 1, 0));
    assert_eq!(statistics("mixed"), (0, (ROWS - 1) * 1000, 0));
    // Unsigned: 0 is the least one, and -1 the largest.
    assert_eq!(statistics("at"), (0, -1, 0));
    let gaps = (0..ROWS).filter(|i| !late(*i)).count() as u64;
    assert_eq!(statistics("late"), (9003, ROWS - 2, gaps));
}

fn column(key: &str, decimals: Option<usize>) -> Column {
    Column {
        title: key.to_owned(),
        key: key.to_owned(),
        width: 1,
        align: Align::Left,
        decimals,
        shrinks: false,
        arrow: false,
        json_only: false,
        spare: false,
        metric: MetricKind::Inferred,
    }
}

fn table(rows: Vec<Vec<Cell>>) -> Report {
    limited_table("t", rows, 0)
}

/// Returns a table of which `hidden` rows are beyond its limit.
fn limited_table(name: &str, rows: Vec<Vec<Cell>>, hidden: u64) -> Report {
    Report::Table(Table {
        name: name.to_owned(),
        title: None,
        style: Style::Plain,
        samples: 0,
        hidden,
        columns: vec![column("key", None), column("avg_us", Some(3))],
        rows: rows.into(),
    })
}

#[test]
fn rows_beyond_the_limit_of_a_table_are_counted_at_the_end() {
    let (folder, messages) = (tempfile::tempdir().unwrap(), Written::default());
    let mut parquet = begin_with(folder.path(), Box::new(messages.clone()));
    let rows = || vec![vec![Cell::whole(1), Cell::whole(2)]];
    parquet.report(stamp(0), &[limited_table("t", rows(), 3), limited_table("u", rows(), 0)]);
    parquet.report(stamp(1), &[limited_table("t", rows(), 5)]);
    parquet.end().unwrap();
    assert_eq!(
        messages.text(),
        "perilune: table t: omitted 8 further rows in 2 reports, beyond the limit of the table \
         (--rows, or `top` in the script)\n"
    );
}

#[test]
fn a_column_keeps_one_type_per_file_and_widens_in_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let mut parquet = begin(folder.path());
    parquet.report(stamp(0), &[table(vec![vec![Cell::whole(1), Cell::whole(2)]])]);
    let other = vec![Cell::Text("(other)".to_owned()), Cell::Num(2.5)];
    parquet.report(stamp(1000), &[table(vec![other, vec![Cell::whole(2), Cell::Empty]])]);
    parquet.end().unwrap();
    let rows = &read(folder.path())["rows/m.t"];
    let time = "\"time\":1795251600000000";
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(rows[0].contains("\"key\":1") && rows[0].contains("\"avg_us\":2.0"), "{}", rows[0]);
    assert!(rows[0].contains(time), "{}", rows[0]);
    assert!(rows[1].contains("\"key\":\"(other)\""), "{}", rows[1]);
    assert!(rows[2].contains("\"key\":\"2\"") && rows[2].contains("\"avg_us\":null"), "{rows:?}");
}

#[test]
fn histograms_have_the_bounds_of_their_buckets() {
    let folder = tempfile::tempdir().unwrap();
    let mut parquet = begin(folder.path());
    let bucket = |low, high, count| Bucket { low, high, count };
    parquet.report(
        stamp(0),
        &[Report::Hist(DrawnHistogram {
            name: "size".to_owned(),
            title: "size".to_owned(),
            unit: "bytes".to_owned(),
            keys: vec![("dev".to_owned(), Cell::Text("sda".to_owned()))],
            buckets: vec![bucket(0, 1, 0), bucket(2, 3, 5)],
            errors: vec![],
        })],
    );
    let distribution = Distribution { count: 3, sum: 1400.0, buckets: vec![(401.0, 2), (9.0, 1)] };
    parquet.measured(
        stamp(0),
        &[MetricTable {
            name: "latency".to_owned(),
            labels: vec!["syscall".to_owned()],
            columns: Vec::new(),
            distribution: Some(("duration".to_owned(), DistributionShape::Durations)),
            adds_up: true,
            rows: vec![MetricRow {
                labels: vec!["read".to_owned()],
                values: Vec::new(),
                distribution: Some(distribution),
            }],
        }],
    );
    parquet.coverage(stamp(0), &Coverage { events: 9, lost: 4, ..Coverage::default() }, true);
    parquet.end().unwrap();
    let tables = read(folder.path());
    let row =
        |table: &str| -> serde_json::Value { serde_json::from_str(&tables[table][0]).unwrap() };
    let size = row("histograms/m.size");
    assert_eq!((&size["unit"], &size["dev"]), (&"bytes".into(), &"sda".into()));
    assert_eq!(size["buckets"], serde_json::json!([{"low": 2, "high": 3, "count": 5}]));
    let latency = row("histograms/m.latency");
    assert_eq!(
        latency["buckets"],
        serde_json::json!([
            {"low": 400, "high": 401, "count": 2},
            {"low": 9, "high": 9, "count": 1}
        ])
    );
    assert_eq!((&latency["count"], &latency["sum"]), (&3.into(), &1400.0.into()));
    let coverage = row("coverage");
    assert_eq!((&coverage["final"], &coverage["lost"]), (&true.into(), &4.into()));
}

#[test]
fn a_file_has_no_name_before_it_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let mut parquet = begin(folder.path());
    draw(&mut parquet, 0, &[("x", Value::Int(1))], &[]);
    parquet.flush().unwrap();
    assert!(read(folder.path()).is_empty());
    drop(parquet);
    assert_eq!(read(folder.path())["events/a__b"].len(), 1);
}
