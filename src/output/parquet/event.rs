//! Rows of events. An event's columns are known when it is opened, so that a row is a walk over its
//! fields.

use super::Tables;
use super::column::{ColumnKind, ParquetColumn};
use super::place::folder_name;
use super::rows::{kind_of_cell, push_cell};
use super::table::{ParquetTable, TableContext};
use crate::base::event::value::{Value, ValueType};
use crate::base::report::draw::{Cell, EventLine, EventText, OpenedEvent};
use crate::base::text::field;
use crate::base::text::stack_style::StackStyle;
use anyhow::Result;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Columns of every event, before its own.
const SAMPLE: [(&str, ColumnKind); 6] = [
    ("time", ColumnKind::Time),
    ("clock_ns", ColumnKind::Clock),
    ("cpu", ColumnKind::Int),
    ("pid", ColumnKind::Int),
    ("tid", ColumnKind::Int),
    ("comm", ColumnKind::Text),
];

/// The tables of events.
#[derive(Default)]
pub(super) struct EventTables {
    /// Index of the table of each event.
    by_name: HashMap<String, usize>,
    /// Name and table of the last event.
    last: Option<(String, usize)>,
    /// The fields of an event; empty between two events.
    staged: Vec<(&'static str, Value<'static>)>,
    /// The columns of these fields.
    places: Vec<usize>,
}

impl EventTables {
    /// Adds the tables of the events that were opened.
    pub(super) fn open(&mut self, events: &[OpenedEvent], tables: &mut Tables) {
        for event in events {
            let index = self.table(&event.name, tables);
            let Some((table, _)) = tables.all.get_mut(index) else { continue };
            let mut taken: Vec<usize> = (0..SAMPLE.len()).collect();
            for (name, value) in &event.fields {
                let place = table.column(name, taken.len(), &taken);
                if let Some(column) = table.columns.get_mut(place)
                    && column.kind == ColumnKind::Unknown
                {
                    column.become_kind(kind_of_type(*value));
                }
                taken.push(place);
            }
        }
    }

    /// Appends an event.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn push(
        &mut self,
        event: &mut EventLine<'_>,
        tables: &mut Tables,
        context: &mut TableContext,
        stacks: &StackStyle,
    ) -> Result<()> {
        let index = match &self.last {
            Some((name, index)) if *name == event.name => *index,
            _ => self.table(event.name, tables),
        };
        let Some((table, _)) = tables.all.get_mut(index) else { return Ok(()) };
        table.begin_row(event.stamp.wall_ns, context)?;
        let mut fields: Vec<(&str, Value<'_>)> = std::mem::take(&mut self.staged);
        fields.extend(&mut *event.fields);
        let added = if has_additions(event) { additions(event, stacks) } else { Vec::new() };
        self.settle(&fields, &added, table, context)?;
        push_sample(table, event);
        let mut places = self.places.iter();
        for ((_, value), place) in fields.iter().zip(&mut places) {
            if let Some(column) = table.columns.get_mut(*place) {
                push_value(column, value);
            }
        }
        for ((_, cell), place) in added.iter().zip(places) {
            if let Some(column) = table.columns.get_mut(*place) {
                push_cell(column, cell);
            }
        }
        fields.clear();
        // An empty vector keeps its memory but nothing borrowed: the closure is never called.
        self.staged = fields.into_iter().map(|_| ("", Value::Int(0))).collect();
        if table.end_row(context)? { tables.check(index, context) } else { Ok(()) }
    }

    /// Finds the columns of the fields and additions, and adds those that are missing.
    fn settle(
        &mut self,
        fields: &[(&str, Value<'_>)],
        added: &[(String, Cell)],
        table: &mut ParquetTable,
        context: &mut TableContext,
    ) -> Result<()> {
        let is_settled = |(position, (name, value)): (usize, &(&str, Value<'_>))| {
            let column = table.columns.get(SAMPLE.len() + position);
            column.is_some_and(|column| column.source == *name && column.kind == kind_of(value))
        };
        self.places.clear();
        if added.is_empty() && fields.iter().enumerate().all(is_settled) {
            self.places.extend(SAMPLE.len()..SAMPLE.len() + fields.len());
            return Ok(());
        }
        let mut taken: Vec<usize> = (0..SAMPLE.len()).collect();
        for (position, (name, value)) in fields.iter().enumerate() {
            let place = table.column(name, SAMPLE.len() + position, &taken);
            table.accept(place, kind_of(value), context)?;
            taken.push(place);
        }
        for (name, cell) in added {
            let place = table.column(name, taken.len(), &taken);
            table.accept(place, kind_of_cell(cell), context)?;
            taken.push(place);
        }
        self.places.extend(taken.into_iter().skip(SAMPLE.len()));
        Ok(())
    }

    /// Returns the index of the table of an event, which is added if it is new.
    fn table(&mut self, name: &str, tables: &mut Tables) -> usize {
        let index = match self.by_name.get(name) {
            Some(index) => *index,
            None => {
                let path = free_path(name, tables);
                let columns = SAMPLE.map(|(name, kind)| ParquetColumn::required(name, kind)).into();
                let index = tables.add(path.clone(), ParquetTable::new(path, columns));
                self.by_name.insert(name.to_owned(), index);
                index
            }
        };
        self.last = Some((name.to_owned(), index));
        index
    }
}

/// Returns the path of a table that has none yet: two names may differ only in characters that a
/// folder's name cannot have.
fn free_path(name: &str, tables: &Tables) -> PathBuf {
    let name = folder_name(name);
    let mut path = Path::new("events").join(&name);
    let mut number = 1;
    while tables.by_path.contains_key(&path) {
        number += 1;
        path = Path::new("events").join(format!("{name}-{number}"));
    }
    path
}

fn push_sample(table: &mut ParquetTable, event: &EventLine<'_>) {
    let [time, clock, cpu, pid, tid, comm, ..] = table.columns.as_mut_slice() else { return };
    time.push_time(event.stamp.wall_ns.div_euclid(1000));
    clock.push_time(event.stamp.clock_ns.cast_signed());
    cpu.push_int(event.cpu.into());
    // Signed, as in the kernel: -1 is a task that is being released.
    pid.push_int(event.pid.cast_signed().into());
    tid.push_int(event.tid.cast_signed().into());
    comm.push_text(event.comm);
}

fn has_additions(event: &EventLine<'_>) -> bool {
    !event.extra.is_empty()
        || event.detail.is_some()
        || !event.stack.is_empty()
        || matches!(event.text, EventText::Printer(_))
}

/// Returns what the script and the output add to an event.
fn additions(event: &EventLine<'_>, stacks: &StackStyle) -> Vec<(String, Cell)> {
    let mut added: Vec<(String, Cell)> = event.extra.to_vec();
    if let Some(detail) = event.detail {
        added.push(("detail".to_owned(), Cell::Int(detail.number.into())));
        added.push(("offset_ns".to_owned(), Cell::Int(detail.offset_ns.into())));
    }
    if let EventText::Printer(text) = event.text {
        added.push(("text".to_owned(), Cell::Text(String::from_utf8_lossy(text).into_owned())));
    }
    if !event.stack.is_empty() {
        let frames = stacks.chosen(event.stack);
        let frames = frames.iter().map(|frame| stacks.text(frame).into()).collect();
        added.push(("stack".to_owned(), Cell::Stack { frames, between: ";".into() }));
    }
    added
}

fn kind_of_type(of: ValueType) -> ColumnKind {
    match of {
        ValueType::Int => ColumnKind::Int,
        ValueType::Uint | ValueType::Pointer => ColumnKind::Uint,
        ValueType::Float => ColumnKind::Double,
        ValueType::Text => ColumnKind::Text,
        ValueType::Bytes => ColumnKind::Bytes,
        ValueType::Ints => ColumnKind::Ints,
        ValueType::Uints => ColumnKind::Uints,
    }
}

#[inline]
fn kind_of(value: &Value<'_>) -> ColumnKind {
    match value {
        Value::Int(_) => ColumnKind::Int,
        Value::Uint(_) | Value::Pointer(_) => ColumnKind::Uint,
        Value::Float(_) => ColumnKind::Double,
        Value::Text(_) => ColumnKind::Text,
        Value::Bytes(_) => ColumnKind::Bytes,
        Value::Array { signed: true, .. } => ColumnKind::Ints,
        Value::Array { signed: false, .. } => ColumnKind::Uints,
    }
}

/// Appends a value to a column that accepts its kind.
#[inline]
fn push_value(column: &mut ParquetColumn, value: &Value<'_>) {
    match (column.kind, value) {
        (ColumnKind::Int, Value::Int(value)) => column.push_int(*value),
        (ColumnKind::Uint, Value::Uint(value) | Value::Pointer(value)) => {
            column.push_int(value.cast_signed());
        }
        (ColumnKind::Text, Value::Text(text)) => column.push_text(text),
        (ColumnKind::Double, Value::Float(value)) if value.is_finite() => {
            column.push_double(*value);
        }
        (ColumnKind::Double, Value::Int(value)) => column.push_double(*value as f64),
        (ColumnKind::Double, Value::Uint(value)) => column.push_double(*value as f64),
        (ColumnKind::Bytes, Value::Bytes(bytes)) => column.push_bytes(bytes),
        (ColumnKind::Ints | ColumnKind::Uints, value @ Value::Array { .. }) => {
            column.push_ints(value.elements().map(|element| element as i64));
        }
        (ColumnKind::Text, value) => {
            let mut text = Vec::new();
            field::push_value(&mut text, value);
            column.push_text(&text);
        }
        _ => column.push_null(),
    }
}
