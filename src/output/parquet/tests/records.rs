//! Events that are drawn as records: their files have the same rows as those of event lines.

use super::*;
use crate::base::report::event_record::{FixedEncoding, FixedField};
use crate::decode::format::{self, FieldKind};

const DAY_NS: u64 = 86_400_000_000_000;

/// The fields of a record of 52 bytes, of every kind that has a fixed place.
fn fields() -> Vec<format::Field> {
    let kinds = [
        ("small", 8, 1, true, FieldKind::Int),
        ("flags", 10, 2, false, FieldKind::Int),
        ("prio", 12, 4, true, FieldKind::Int),
        ("state", 16, 8, false, FieldKind::Int),
        ("name", 24, 16, true, FieldKind::Chars),
        ("tag", 40, 4, true, FieldKind::Chars),
        ("at", 44, 8, false, FieldKind::Pointer),
    ];
    let field = |(name, offset, size, signed, kind): (&str, _, _, _, _)| format::Field {
        name: name.to_owned(),
        type_text: String::new(),
        offset,
        size,
        signed,
        common: false,
        kind,
    };
    kinds.map(field).to_vec()
}

/// Returns the record of the event with this number. Names repeat; some fill their field, some are
/// not UTF-8, and bytes behind a NUL differ.
fn record(number: u64) -> Vec<u8> {
    let names = [&b"bash\0one"[..], b"bash\0two", b"", b"sixteen bytes ok", b"\xffx", b"12345678"];
    let mut raw = vec![0; 52];
    let mut put = |at: usize, bytes: &[u8]| raw[at..at + bytes.len()].copy_from_slice(bytes);
    put(8, &[number as u8]);
    put(10, &(number as u16).to_ne_bytes());
    put(12, &(120 - (number % 7) as i32 * 100).to_ne_bytes());
    put(16, &number.wrapping_mul(u64::MAX / 3).to_ne_bytes());
    put(24, names[(number / 3) as usize % names.len()]);
    put(40, &[b"tag\0", b"full", b"\0\0\0x"][number as usize % 3][..]);
    put(44, &number.wrapping_neg().to_ne_bytes());
    raw
}

/// How events are drawn.
#[derive(Clone, Copy, PartialEq)]
enum DrawnAs {
    Lines,
    Records,
}

/// Returns where the fields are in the record.
fn layout() -> Vec<FixedField> {
    fields().iter().map(|field| field.fixed_field().unwrap()).collect()
}

/// Draws an event of a role as a record. Returns whether it was taken.
fn draw_record(parquet: &mut Parquet, role: usize, at: u64) -> bool {
    draw_record_of(parquet, role, at, &layout())
}

fn draw_record_of(parquet: &mut Parquet, role: usize, at: u64, layout: &[FixedField]) -> bool {
    let mut comm = [0; 16];
    comm[..4].copy_from_slice(b"bash");
    let Stamp { wall_ns, clock_ns } = stamp(at);
    parquet.event_record(&EventRecord {
        wall_ns,
        clock_ns,
        comm,
        pid: 300,
        tid: u32::MAX,
        cpu: 1,
        role,
        fields: layout,
        bytes: &record(at),
    })
}

/// Draws an event of a role, as a record if it is to be one and can be.
fn draw_event(parquet: &mut Parquet, way: DrawnAs, role: usize, at: u64, extra: &[(String, Cell)]) {
    if way == DrawnAs::Records && extra.is_empty() && draw_record(parquet, role, at) {
        return;
    }
    let (fields, raw) = (fields(), record(at));
    let values: Vec<(&str, Value<'_>)> =
        fields.iter().map(|field| (field.name.as_str(), field.read(&raw).unwrap())).collect();
    draw_role(parquet, (role, "a:b"), at, &values, extra);
}

/// Returns the rows of all tables after `draw_all` has drawn events in a way.
fn rows_of(
    way: DrawnAs,
    draw_all: impl Fn(&mut Parquet, DrawnAs),
) -> BTreeMap<String, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let mut parquet = begin(folder.path());
    draw_all(&mut parquet, way);
    parquet.end().unwrap();
    read(folder.path())
}

fn assert_same_rows(count: usize, draw_all: impl Fn(&mut Parquet, DrawnAs)) {
    let lines = rows_of(DrawnAs::Lines, &draw_all);
    let records = rows_of(DrawnAs::Records, &draw_all);
    assert_eq!(lines["events/a__b"].len(), count);
    for (at, rows) in lines["events/a__b"].iter().zip(&records["events/a__b"]).enumerate() {
        assert_eq!(rows.0, rows.1, "row {at}");
    }
    assert_eq!(lines, records);
}

#[test]
fn records_have_the_rows_of_lines() {
    for count in [1, 2, 255, 256, 257, 20_000] {
        assert_same_rows(count as usize, |parquet, way| {
            (0..count).for_each(|at| draw_event(parquet, way, 0, at, &[]));
        });
    }
}

#[test]
fn all_but_the_first_event_of_a_role_are_taken_as_records() {
    let folder = tempfile::tempdir().unwrap();
    let mut parquet = begin(folder.path());
    let opened = fields().into_iter().map(|field| (field.name.clone(), field.field_type()));
    parquet.opened(&[OpenedEvent { name: "a:b".to_owned(), fields: opened.collect() }]);
    assert!(!draw_record(&mut parquet, 0, 6));
    draw_event(&mut parquet, DrawnAs::Lines, 0, 7, &[]);
    assert!(draw_record(&mut parquet, 0, 8) && draw_record(&mut parquet, 0, 9));
    assert!(!draw_record(&mut parquet, 1, 10));
}

#[test]
fn a_table_that_refused_a_record_of_a_role_is_not_asked_again_until_columns_change() {
    let folder = tempfile::tempdir().unwrap();
    let mut parquet = begin(folder.path());
    for role in 0..2 {
        draw_event(&mut parquet, DrawnAs::Lines, role, 1, &[]);
        draw_event(&mut parquet, DrawnAs::Lines, role, 2, &[]);
    }
    let mut other = layout();
    other[0].encoding = FixedEncoding::Text;
    assert!(!draw_record_of(&mut parquet, 1, 3, &other));
    assert!(draw_record(&mut parquet, 0, 4));
    // A table that is asked appends its staged events.
    let rows = |parquet: &Parquet| parquet.tables.all[0].0.rows;
    let before = rows(&parquet);
    assert!(!draw_record_of(&mut parquet, 1, 5, &other));
    assert_eq!(rows(&parquet), before);
    let extra = [("late".to_owned(), Cell::whole(1))];
    draw_event(&mut parquet, DrawnAs::Lines, 0, 6, &extra);
    draw_event(&mut parquet, DrawnAs::Lines, 1, 7, &[]);
    assert!(draw_record(&mut parquet, 1, 8));
}

#[test]
fn records_keep_their_order_among_lines_with_additions() {
    assert_same_rows(2000, |parquet, way| {
        for at in 0..2000 {
            let extra = [("late".to_owned(), Cell::whole(at.into()))];
            let is_extended = at > 300 && at % 100 < 3;
            // Two roles of one event share its table.
            let role = (at / 5 % 2) as usize;
            draw_event(parquet, way, role, at, &extra[..usize::from(is_extended)]);
        }
    });
}

#[test]
fn records_of_two_days_are_in_two_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut parquet = begin(folder.path());
    for at in 0..10 {
        draw_event(&mut parquet, DrawnAs::Records, 0, at * (DAY_NS / 5), &[]);
    }
    parquet.end().unwrap();
    let rows = |path: &PathBuf| {
        let file = std::fs::File::open(path).unwrap();
        SerializedFileReader::new(file).unwrap().metadata().file_metadata().num_rows()
    };
    let counts: Vec<i64> = files(folder.path()).iter().map(rows).collect();
    assert!(counts.len() > 1 && counts.iter().sum::<i64>() == 10, "{counts:?}");
}

#[test]
fn records_with_other_types_than_their_columns_become_lines() {
    let folder = tempfile::tempdir().unwrap();
    let mut parquet = begin(folder.path());
    draw_event(&mut parquet, DrawnAs::Records, 0, 1, &[]);
    draw_event(&mut parquet, DrawnAs::Records, 0, 2, &[]);
    // Another role of the event has text where role 0 has a number.
    draw_role(&mut parquet, (1, "a:b"), 3, &[("small", Value::Text(b"x"))], &[]);
    draw_event(&mut parquet, DrawnAs::Records, 0, 4, &[]);
    draw_event(&mut parquet, DrawnAs::Records, 0, 5, &[]);
    parquet.end().unwrap();
    let rows = &read(folder.path())["events/a__b"];
    let small =
        |row: &String| serde_json::from_str::<serde_json::Value>(row).unwrap()["small"].clone();
    let small: Vec<_> = rows.iter().map(small).collect();
    assert_eq!(small, [1.into(), 2.into(), "x".into(), "4".into(), serde_json::json!("5")]);
}
