//! Events that a monitor emits for another one: `profile/-F 200/`. They are not opened.
//!
//! A record begins with the columns that the monitor declares, 8 bytes for a number and 4 for the
//! place of a text, and the NUL of an empty text. If all events of the monitor have the same
//! fields, the record of the event follows, then the texts.

use anyhow::{Result, ensure};

use super::properties::{EventAttr, EventProperties};
use crate::decode::format::{Element, Field, FieldKind, Format};
use crate::event::sampling::Sampling;

/// A column that a monitor adds to its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedColumn {
    /// Name of the field.
    pub name: String,
    /// Whether it is a number, not a text.
    pub is_number: bool,
}

/// An event that a monitor emits.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedEvent {
    format: Format,
    /// Fixed part of the columns in bytes; the record of the event is behind it.
    columns_size: usize,
}

impl DerivedEvent {
    /// Returns the event of a monitor with these columns. `of` is the layout of the events that it
    /// emits, if all have the same; a column replaces a field of the same name.
    pub fn new(name: &str, columns: &[DerivedColumn], of: Option<&Format>) -> DerivedEvent {
        let (mut fields, mut end) = (Vec::new(), 0);
        for column in columns.iter().filter(|column| column.is_number) {
            fields.push(column_field(column, end));
            end += 8;
        }
        for column in columns.iter().filter(|column| !column.is_number) {
            fields.push(column_field(column, end));
            end += 4;
        }
        let has_text = columns.iter().any(|column| !column.is_number);
        let columns_size = (end + usize::from(has_text)).next_multiple_of(8);
        // As declared.
        fields.sort_by_key(|field| columns.iter().position(|column| column.name == field.name));
        for field in of.iter().flat_map(|format| &format.fields) {
            if !columns.iter().any(|column| column.name == field.name) {
                fields.push(Field { offset: field.offset + columns_size, ..field.clone() });
            }
        }
        let fixed_size = columns_size + of.map_or(0, |format| format.fixed_size);
        let name = name.to_owned();
        let format = Format { name, fields, fixed_size, ..Format::default() };
        DerivedEvent { format, columns_size }
    }

    /// Returns the size of the columns' fixed part in bytes. If a column is a text, the last byte
    /// is in no column.
    pub fn columns_size(&self) -> usize {
        self.columns_size
    }
}

fn column_field(column: &DerivedColumn, offset: usize) -> Field {
    let (kind, size, type_text) = match column.is_number {
        true => (FieldKind::Float, 8, "double"),
        false => (FieldKind::DataLoc(Element::Char), 4, "__data_loc char[]"),
    };
    Field {
        name: column.name.clone(),
        type_text: type_text.to_owned(),
        offset,
        size,
        signed: column.is_number,
        common: false,
        kind,
    }
}

impl EventProperties for DerivedEvent {
    /// Returns a type that no PMU has.
    fn attr(&self) -> EventAttr {
        EventAttr { type_: u32::MAX - 1, ..EventAttr::default() }
    }

    fn format(&self) -> Option<&Format> {
        Some(&self.format)
    }

    fn is_derived(&self) -> bool {
        true
    }

    fn check_options(&self, sampling: &Sampling, _of_tasks: bool) -> Result<()> {
        ensure!(!sampling.count, "a monitor emits it; it cannot be counted by the kernel");
        Ok(())
    }

    fn label(&self) -> &'static str {
        "monitor"
    }

    fn title(&self) -> String {
        "events that a monitor emits".to_owned()
    }

    fn notes(&self) -> Vec<String> {
        vec![format!(
            "options: {0}/-OPTION…/; `perilune {0} --help` lists them; _time is the time of the \
             event that it was handling",
            self.format.name
        )]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::event::value::Value;

    #[test]
    fn columns_come_before_the_fields_of_the_event() {
        let column = |name: &str, is_number| DerivedColumn { name: name.to_owned(), is_number };
        let of = Format::parse("name: x\nID: 1\nfield:int pid; offset:8; size:4; signed:1;\n");
        let columns = [column("state", false), column("delay_us", true)];
        let event = DerivedEvent::new("task-state", &columns, Some(&of.unwrap()));
        let format = event.format().unwrap();
        let at = |name: &str| format.field(name).map(|field| field.offset);
        assert_eq!((at("delay_us"), at("state"), at("pid")), (Some(0), Some(8), Some(16 + 8)));
        assert_eq!(event.columns_size(), 16);
        let mut raw = 1.5f64.to_ne_bytes().to_vec();
        raw.extend((2u32 << 16 | 28).to_ne_bytes());
        raw.resize(24, 0);
        raw.extend(7u32.to_ne_bytes());
        raw.extend(b"RQ");
        let values: Vec<_> = format.values(&raw).collect();
        assert_eq!(values[0], ("state", Value::Text(b"RQ")));
        assert_eq!(values[1], ("delay_us", Value::Float(1.5)));
        assert_eq!(values[2], ("pid", Value::Int(7)));
    }
}
