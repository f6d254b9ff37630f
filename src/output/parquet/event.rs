//! Rows of events. An event's columns are known when it is opened, so that a row is a walk over its
//! fields.

use super::Tables;
use super::column::ParquetColumn;
use super::column_kind::ColumnKind;
use super::place::folder_name;
use super::rows::{kind_of_cell, push_cell};
use super::staging::SAMPLE;
use super::table::{ParquetTable, TableContext};
use crate::base::event::value::{Value, ValueType};
use crate::base::report::cell::{Cell, StackCell};
use crate::base::report::draw::{EventLine, EventText, OpenedEvent};
use crate::base::report::event_record::EventRecord;
use crate::base::text::field;
use crate::base::text::message::utf8;
use crate::base::text::stack_style::StackStyle;
use anyhow::Result;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The tables of events.
#[derive(Default)]
pub(super) struct EventTables {
    /// Name and table of each event.
    events: Vec<(String, usize)>,
    /// Index of each event there.
    by_name: HashMap<String, usize>,
    /// Index of the last event.
    last: usize,
    /// By role. A change of columns clears it.
    settled: Vec<Option<SettledRole>>,
    /// The columns of the fields and additions of the last event that had others than the one
    /// before.
    places: Vec<usize>,
}

/// A role whose fields are the columns behind the sample of a table, in this order and of their
/// kinds.
#[derive(Clone, Copy)]
struct SettledRole {
    table: usize,
    /// Whether the table has refused a record. It would refuse all others, too: the columns of a
    /// settled role do not change.
    refuses_records: bool,
}

impl EventTables {
    /// Adds the tables of the events that were opened.
    pub(super) fn open(&mut self, events: &[OpenedEvent], tables: &mut Tables) {
        for event in events {
            let index = self.table(&event.name, tables);
            let Some((table, _)) = tables.all.get_mut(index) else { continue };
            table.append_staged();
            let mut taken: Vec<usize> = (0..SAMPLE.len()).collect();
            for (name, value) in &event.fields {
                let place = table.column(name, taken.len(), &taken);
                if let Some(column) = table.columns.get_mut(place)
                    && column.kind == ColumnKind::Unknown
                {
                    column.become_kind(kind_of_type(value.of));
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
        let known = event.role.and_then(|role| self.settled.get(role).copied().flatten());
        let index = known.map_or_else(|| self.table(event.name, tables), |known| known.table);
        let Some((table, _)) = tables.all.get_mut(index) else { return Ok(()) };
        table.append_staged();
        table.begin_row(event.stamp.wall_ns, context)?;
        let is_plain = !has_additions(event);
        let filled = if is_plain && (known.is_some() || are_settled(event.fields, table)) {
            if known.is_none()
                && let Some(role) = event.role
            {
                self.settle_role(role, index);
            }
            push_sample(table, event);
            let columns = table.columns.iter_mut().skip(SAMPLE.len());
            columns.zip(event.fields).for_each(|(column, (_, value))| push_value(column, value));
            SAMPLE.len() + event.fields.len()
        } else {
            // Columns may change.
            self.settled.clear();
            self.push_unsettled(event, stacks, table, context)?
        };
        if table.end_row(filled, context)? { tables.check(index, context) } else { Ok(()) }
    }

    /// Appends an event whose fields are known to have the columns behind the sample. Returns false
    /// if [`EventTables::push`] has to look for them.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn push_record(
        &mut self,
        event: &EventRecord<'_>,
        tables: &mut Tables,
        context: &mut TableContext,
    ) -> Result<bool> {
        let Some(Some(known)) = self.settled.get_mut(event.role) else { return Ok(false) };
        if known.refuses_records {
            return Ok(false);
        }
        let index = known.table;
        let Some((table, _)) = tables.all.get_mut(index) else { return Ok(false) };
        if !table.takes(event) {
            known.refuses_records = true;
            return Ok(false);
        }
        table.begin_row(event.wall_ns, context)?;
        if table.stage(event, context)? {
            tables.check(index, context)?;
        }
        Ok(true)
    }

    /// Notes that events of a role have the columns behind the sample of a table.
    #[cold]
    fn settle_role(&mut self, role: usize, table: usize) {
        if self.settled.len() <= role {
            self.settled.resize(role + 1, None);
        }
        if let Some(place) = self.settled.get_mut(role) {
            *place = Some(SettledRole { table, refuses_records: false });
        }
    }

    /// Appends an event with additions, or whose columns are not those of the last one. Returns the
    /// number of values.
    fn push_unsettled(
        &mut self,
        event: &EventLine<'_>,
        stacks: &StackStyle,
        table: &mut ParquetTable,
        context: &mut TableContext,
    ) -> Result<usize> {
        let added = if has_additions(event) { additions(event, stacks) } else { Vec::new() };
        self.settle(event.fields, &added, table, context)?;
        push_sample(table, event);
        let mut places = self.places.iter();
        for ((_, value), place) in event.fields.iter().zip(&mut places) {
            if let Some(column) = table.columns.get_mut(*place) {
                push_value(column, value);
            }
        }
        for ((_, cell), place) in added.iter().zip(places) {
            if let Some(column) = table.columns.get_mut(*place) {
                push_cell(column, cell);
            }
        }
        Ok(SAMPLE.len() + self.places.len())
    }

    /// Finds the columns of the fields and additions, and adds those that are missing.
    fn settle(
        &mut self,
        fields: &[(&str, Value<'_>)],
        added: &[(String, Cell)],
        table: &mut ParquetTable,
        context: &mut TableContext,
    ) -> Result<()> {
        self.places.clear();
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
    #[inline]
    fn table(&mut self, name: &str, tables: &mut Tables) -> usize {
        match self.events.get(self.last) {
            Some((last, index)) if last == name => *index,
            _ => self.other_table(name, tables),
        }
    }

    fn other_table(&mut self, name: &str, tables: &mut Tables) -> usize {
        if let Some(at) = self.by_name.get(name) {
            self.last = *at;
        } else {
            let path = free_path(name, tables);
            let columns = SAMPLE.map(|(name, kind)| ParquetColumn::required(name, kind)).into();
            let index = tables.add(path.clone(), ParquetTable::new(path, columns));
            self.last = self.events.len();
            self.events.push((name.to_owned(), index));
            self.by_name.insert(name.to_owned(), self.last);
        }
        self.events.get(self.last).map_or(usize::MAX, |(_, index)| *index)
    }
}

/// Returns whether the columns of fields are those behind the sample, in this order, and have their
/// kinds.
#[inline]
fn are_settled(fields: &[(&str, Value<'_>)], table: &ParquetTable) -> bool {
    let columns = table.columns.get(SAMPLE.len()..).unwrap_or_default();
    fields.len() <= columns.len()
        && columns
            .iter()
            .zip(fields)
            .all(|(column, (name, value))| column.source == *name && column.kind == kind_of(value))
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
        added.push(("detail".to_owned(), Cell::whole(detail.number.into())));
        added.push(("offset_ns".to_owned(), Cell::whole(detail.offset_ns.into())));
    }
    if let EventText::Printer(text) = event.text {
        added.push(("text".to_owned(), Cell::Text(utf8(text).into_owned())));
    }
    if !event.stack.is_empty() {
        let frames = stacks.chosen(event.stack);
        let frames = frames.iter().map(|frame| stacks.text(frame).into()).collect();
        added.push((
            "stack".to_owned(),
            Cell::Stack(Box::new(StackCell { frames, between: ";".into() })),
        ));
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
        (ColumnKind::Double, Value::Uint(value) | Value::Pointer(value)) => {
            column.push_double(*value as f64);
        }
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
