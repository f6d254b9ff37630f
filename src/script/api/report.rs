//! Function `report`: tables that a script builds itself; see `prelude/report.lua`.

use std::rc::Rc;

use mlua::{Function, Lua, Table, Value};

use super::registry::Registry;
use crate::base::report::cell::Cell;
use crate::base::report::draw::{self, Align, Column, Style};
use crate::base::report::metric::MetricKind;
use crate::script::aggregate::column::{column_key, json_key, make_unique};
use crate::script::dispatch::draw::ReportTable;
use crate::script::vm::cell::{TextSize, cell};
use crate::stat::budget::Budget;

const REPORT: &str = include_str!("../prelude/report.lua");

/// Adds the function.
///
/// # Errors
/// The prelude failed to load.
pub(super) fn register(api: &Registry<'_>) -> mlua::Result<()> {
    let native = api.lua().create_table()?;
    native.set("new_report", new_report(api.lua(), &api.aggregates.shared().budget)?)?;
    api.trusted.run::<()>("report", REPORT, native)?;
    api.publish(&["report"])
}

/// Creates `new_report(title | false, columns, rows, name | nil)`.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn new_report(lua: &Lua, budget: &Rc<Budget>) -> mlua::Result<Function> {
    let budget = budget.clone();
    lua.create_function(
        move |_, (title, columns, rows, name): (Value, Vec<Value>, Table, Option<String>)| {
            let title = match title {
                Value::String(text) => Some(text.to_string_lossy()),
                _ => None,
            };
            let mut columns = columns.iter().map(column).collect::<mlua::Result<Vec<_>>>()?;
            make_unique(&mut columns);
            let hidden = rows.get::<Option<u64>>("hidden")?.unwrap_or(0);
            // One by one: mlua can hold at most some thousand references at once.
            let mut size = TextSize::new(&budget);
            let cells = |row: mlua::Result<Table>| {
                let row = row?;
                let cells = columns.iter().zip(1..).map(|(c, i)| Ok(cell_of(c, row.get(i)?)));
                let cells = cells.collect::<mlua::Result<Vec<Cell>>>()?;
                size.add(&cells)?;
                Ok(cells)
            };
            let rows = rows.sequence_values::<Table>().map(cells);
            let rows = rows.collect::<mlua::Result<Vec<Vec<Cell>>>>()?.into();
            let name = name.as_deref().or(title.as_deref());
            let name = json_key(name.unwrap_or_default(), "report");
            Ok(ReportTable(draw::Table {
                name,
                title,
                style: Style::Plain,
                samples: 0,
                columns,
                rows,
                hidden,
            }))
        },
    )
}

/// Largest width of a column, and largest number of its decimals.
const WIDTH_MAX: usize = 1000;
const DECIMALS_MAX: usize = 20;

/// Reads a column: its title, or `{ title, width =, align =, decimals =, metric = }`.
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
        width: size("width", &option("width")?, WIDTH_MAX)?.unwrap_or(0),
        align: if left { Align::Left } else { Align::Right },
        decimals: size("decimals", &option("decimals")?, DECIMALS_MAX)?,
        arrow: false,
        shrinks: false,
        json_only: false,
        spare: false,
        metric: metric(option("metric")?)?,
    })
}

/// Reads a size of a column, which is at most `most`.
fn size(name: &str, it: &Value, most: usize) -> mlua::Result<Option<usize>> {
    if matches!(it, Value::Nil | Value::Boolean(false)) {
        return Ok(None);
    }
    it.as_usize().filter(|size| *size <= most).map(Some).ok_or_else(|| {
        mlua::Error::runtime(format!("a column's `{name}` is a whole number from 0 to {most}"))
    })
}

/// Reads the option `metric` of a column.
fn metric(it: Value) -> mlua::Result<MetricKind> {
    let Value::String(name) = it else { return Ok(MetricKind::Inferred) };
    let name = name.to_string_lossy();
    MetricKind::named(&name).ok_or_else(|| {
        mlua::Error::runtime(format!(
            "a column's `metric` is \"counter\", \"gauge\", \"label\" or \"none\", not \"{name}\""
        ))
    })
}

/// Converts a script's value to a cell of that column: if the column has decimals, whole numbers
/// have them, too.
fn cell_of(column: &Column, value: Value) -> Cell {
    match cell(value) {
        Cell::Int(n) if column.decimals.is_some_and(|d| d > 0) => Cell::Num(n.get() as f64),
        cell => cell,
    }
}
