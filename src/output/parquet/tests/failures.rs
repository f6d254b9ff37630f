//! Files that cannot be written: complete files stay, and lost rows are counted.

use super::*;

/// Begins a run whose folder of events is a file, so that no event can be written.
fn begin_without_events(folder: &Path, messages: &Written) -> Parquet {
    std::fs::write(folder.join("events"), "").unwrap();
    begin_with(folder, Box::new(messages.clone()))
}

#[test]
fn a_failure_is_reported_once_and_names_the_file() {
    let (folder, messages) = (tempfile::tempdir().unwrap(), Written::default());
    let mut parquet = begin_without_events(folder.path(), &messages);
    draw(&mut parquet, 0, &[("x", Value::Int(1))], &[]);
    let why = parquet.end().unwrap_err().to_string();
    assert!(why.starts_with("--parquet: ") && why.contains("events"), "{why}");
    assert!(parquet.end().is_ok());
    drop(parquet);
    let loss = "--parquet: kept 0 rows in 0 files; lost 1 row before the error and 0 after it";
    assert_eq!(messages.text(), format!("perilune: {loss}\n"));
}

#[test]
fn other_tables_keep_their_rows_and_rows_after_the_error_are_counted() {
    let (folder, messages) = (tempfile::tempdir().unwrap(), Written::default());
    let mut parquet = begin_without_events(folder.path(), &messages);
    let row = || vec![Cell::whole(1), Cell::whole(2)];
    parquet.report(stamp(0), &[table(vec![row(), row(), row()])]);
    draw(&mut parquet, 0, &[("x", Value::Int(1))], &[]);
    // Another type needs another file: the first one is finished, which fails.
    draw(&mut parquet, 1, &[("x", Value::Text(b"t"))], &[]);
    draw(&mut parquet, 2, &[("x", Value::Int(1))], &[]);
    parquet.report(stamp(3), &[table(vec![row(), row()])]);
    parquet.coverage(stamp(3), &Coverage::default(), true);
    assert!(parquet.flush().is_err());
    parquet.end().unwrap();
    drop(parquet);
    let loss = "--parquet: kept 3 rows in 1 file; lost 2 rows before the error and 4 after it";
    assert_eq!(messages.text(), format!("perilune: {loss}\n"));
    std::fs::remove_file(folder.path().join("events")).unwrap();
    assert_eq!(read(folder.path())["rows/m.t"].len(), 3);
}

#[test]
fn a_file_that_cannot_be_placed_is_not_complete() {
    let (folder, messages) = (tempfile::tempdir().unwrap(), Written::default());
    let mut parquet = begin_with(folder.path(), Box::new(messages.clone()));
    draw(&mut parquet, 0, &[("x", Value::Int(1))], &[]);
    let Parquet { tables, context, .. } = &mut parquet;
    tables.all[0].0.write_rows(context).unwrap();
    assert_eq!((context.begun, context.rows, context.files), (1, 0, 0));
    std::fs::remove_dir_all(folder.path().join("events")).unwrap();
    assert!(parquet.end().is_err());
    let loss = "--parquet: kept 0 rows in 0 files; lost 1 row before the error and 0 after it";
    assert_eq!(messages.text(), format!("perilune: {loss}\n"));
}
