//! Output that a script builds itself: `report(…)`, the rows of `counters`, and the extra fields of
//! `emit`.

use mlua::{Function, Lua, Table, UserData, Value};

use super::column::{column_key, json_key, make_unique};
use super::leaf::SharedContext;
use crate::base::draw::{self, Align, Cell, Column, Report, Style};

/// A table made by `report`, held by the script until it returns it.
pub(super) struct ReportTable(pub(super) draw::Table);
impl UserData for ReportTable {}

/// Creates `new_report(title | false, columns, rows, name | nil)`.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn new_report(lua: &Lua) -> mlua::Result<Function> {
    lua.create_function(
        |_, (title, columns, rows, name): (Value, Vec<Value>, Table, Option<String>)| {
            let title = match title {
                Value::String(text) => Some(text.to_string_lossy()),
                _ => None,
            };
            let mut columns = columns.iter().map(column).collect::<mlua::Result<Vec<_>>>()?;
            make_unique(&mut columns);
            // One by one: mlua can hold at most some thousand references at once.
            let rows = rows
                .sequence_values::<Table>()
                .map(|row| {
                    let row = row?;
                    (columns.iter().zip(1..)).map(|(c, i)| Ok(cell_of(c, row.get(i)?))).collect()
                })
                .collect::<mlua::Result<Vec<Vec<Cell>>>>()?;
            let name = name.as_deref().or(title.as_deref());
            let name = json_key(name.unwrap_or_default(), "report");
            Ok(ReportTable(draw::Table {
                name,
                title,
                style: Style::Plain,
                samples: 0,
                columns,
                rows,
            }))
        },
    )
}

/// Reads a column: its title, or `{ title, width =, align =, decimals = }`.
fn column(it: &Value) -> mlua::Result<Column> {
    let (title, options) = match it {
        Value::String(title) => (title.to_string_lossy(), None),
        Value::Table(t) => (t.get::<String>(1)?, Some(t)),
        other => {
            return Err(mlua::Error::runtime(format!(
                "a column is a title, not a {}",
                other.type_name()
            )));
        }
    };
    let option = |name: &str| options.map_or(Ok(Value::Nil), |t| t.get::<Value>(name));
    let left = matches!(option("align")?, Value::String(s) if s == "left");
    Ok(Column {
        key: column_key(&title),
        title,
        width: option("width")?.as_usize().unwrap_or(0),
        align: if left { Align::Left } else { Align::Right },
        decimals: option("decimals")?.as_usize(),
        arrow: false,
        shrinks: false,
        json_only: false,
        spare: false,
    })
}

/// Converts a script's value to a cell of that column: if the column has decimals, whole numbers
/// have them, too.
fn cell_of(column: &Column, value: Value) -> Cell {
    match cell(value) {
        Cell::Int(n) if column.decimals.is_some_and(|d| d > 0) => Cell::Num(n as f64),
        cell => cell,
    }
}

/// Converts a script's value to a cell.
pub(super) fn cell(value: Value) -> Cell {
    match value {
        Value::Nil => Cell::Empty,
        Value::Integer(n) => Cell::Int(i128::from(n)),
        Value::Number(n) => Cell::from(n),
        Value::String(s) => Cell::Text(s.to_string_lossy()),
        Value::Boolean(b) => Cell::Bool(b),
        other => Cell::Text(other.to_string().unwrap_or_else(|_| other.type_name().to_owned())),
    }
}

/// Returns the named values of a Lua table, sorted by name because `pairs` has no order.
///
/// # Errors
/// A key is not text.
pub(super) fn named(table: &Table) -> mlua::Result<Vec<(String, Cell)>> {
    let mut all = Vec::new();
    for pair in table.pairs::<String, Value>() {
        let (name, value) = pair?;
        all.push((name, cell(value)));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(all)
}

/// Creates `emit_row(row, time)`, which prints a row at a time of the run, or at its current time
/// if `time` is negative.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn emit_row(lua: &Lua, shared: &SharedContext) -> mlua::Result<Function> {
    let shared = shared.clone();
    lua.create_function(move |_, (row, time): (Table, f64)| {
        let row = Report::Row(named(&row)?);
        shared.with(|context| {
            let time = if time < 0.0 { context.now } else { time };
            let stamp = context.clock.stamp(context.clock.clock_ns(time));
            context.out.report(stamp, std::slice::from_ref(&row));
        });
        Ok(())
    })
}
