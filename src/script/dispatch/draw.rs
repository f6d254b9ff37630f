//! Draws what a report shows: aggregates, counters, and the script's own reports.

use std::ops::Range;

use mlua::{Function, Table, UserData, Value};

use super::Dispatch;
use crate::base::report::draw::{self, Report, Style};
use crate::script::aggregate::{Aggregates, drawn_kinds};
use crate::script::vm::call::place_of;
use crate::source::counts::CountDelta;

/// A table made by `report`, held by the script until it returns it.
pub(in crate::script) struct ReportTable(pub(in crate::script) draw::Table);
impl UserData for ReportTable {}

impl Dispatch {
    /// Returns whether a value is drawn as a report instead of printed as text.
    ///
    /// # Errors
    /// The list of `counters{}` tables cannot be read.
    pub(in crate::script) fn can_draw(
        &self,
        aggregates: &Aggregates,
        value: &Value,
    ) -> mlua::Result<bool> {
        let made = value.as_userdata().is_some_and(mlua::AnyUserData::is::<ReportTable>);
        let counters = self.counter_tables()?.iter().any(|entry| is_table_of(entry, value));
        Ok(made || counters || aggregates.is_drawn(value))
    }

    /// Returns the values to draw from what `m.interval` or `m.deinit` returned. Nil and false draw
    /// nothing.
    ///
    /// # Errors
    /// A value cannot be drawn. The error names the function's line, the value's type, and what may
    /// be returned.
    pub(in crate::script) fn returned(
        &self,
        aggregates: &Aggregates,
        from: &Function,
        values: mlua::MultiValue,
    ) -> anyhow::Result<Vec<Value>> {
        let mut wanted = Vec::new();
        for value in values {
            if matches!(value, Value::Nil | Value::Boolean(false)) {
                continue;
            }
            if !self.can_draw(aggregates, &value)? {
                let place = place_of(from).map(|place| format!("{place}: ")).unwrap_or_default();
                let kind = match aggregates.is_aggregate(&value) {
                    true => value.to_string()?,
                    false if value.is_number() || value.is_integer() => "number".to_owned(),
                    false => value.type_name().to_owned(),
                };
                anyhow::bail!(
                    "{place}this function returned a {kind}, which cannot be drawn; \
                     return a {}, counters or report, or nothing",
                    drawn_kinds()
                );
            }
            wanted.push(value);
        }
        Ok(wanted)
    }

    /// Returns the reports of the `wanted` values in their order, or of everything declared.
    ///
    /// # Errors
    /// A column's own function failed.
    pub(in crate::script) fn draw(
        &self,
        aggregates: &Aggregates,
        counts: &[CountDelta],
        wanted: Option<&[Value]>,
    ) -> mlua::Result<Vec<Report>> {
        let Some(wanted) = wanted else {
            let mut reports = aggregates.draw(self.trusted.lua(), None)?;
            for entry in self.counter_tables()? {
                reports.push(self.draw_counters(aggregates, &entry, counts)?);
            }
            return Ok(reports);
        };
        let mut reports = Vec::new();
        for value in wanted {
            if let Value::UserData(made) = value
                && let Ok(made) = made.borrow::<ReportTable>()
            {
                reports.push(Report::Table(made.0.clone()));
            } else if let Some(entry) =
                self.counter_tables()?.into_iter().find(|e| is_table_of(e, value))
            {
                reports.push(self.draw_counters(aggregates, &entry, counts)?);
            } else {
                reports.extend(
                    aggregates.draw(self.trusted.lua(), Some(std::slice::from_ref(value)))?,
                );
            }
        }
        Ok(reports)
    }

    /// Returns the number of `counters{}` tables.
    ///
    /// # Errors
    /// The list cannot be read.
    pub(in crate::script) fn counter_tables_len(&self) -> mlua::Result<usize> {
        Ok(self.counter_tables()?.len())
    }

    /// Returns the reports of the `counters{}` tables with these numbers.
    ///
    /// # Errors
    /// A column's own function failed.
    pub(in crate::script) fn draw_counters_of(
        &self,
        aggregates: &Aggregates,
        numbers: Range<usize>,
        counts: &[CountDelta],
    ) -> mlua::Result<Vec<Report>> {
        let tables = self.counter_tables()?;
        let own = tables.get(numbers).unwrap_or_default();
        own.iter().map(|entry| self.draw_counters(aggregates, entry, counts)).collect()
    }

    fn counter_tables(&self) -> mlua::Result<Vec<Table>> {
        self.trusted.exports.get::<Table>("counter_tables")?.sequence_values().collect()
    }

    fn draw_counters(
        &self,
        aggregates: &Aggregates,
        entry: &Table,
        counts: &[CountDelta],
    ) -> mlua::Result<Report> {
        let mut instances: Vec<u32> = counts.iter().map(|c| c.instance).collect();
        instances.sort_unstable();
        instances.dedup();
        let draw = self.trusted.export("draw_counters")?;
        let made: mlua::UserDataRef<ReportTable> =
            draw.call((entry, instances, self.per_thread))?;
        let mut table = made.0.clone();
        if entry.get("wide")? {
            table.style = Style::Counts { all: aggregates.are_verbose() };
        }
        Ok(Report::Table(table))
    }
}

/// Returns whether `value` is the object of this `counters{}` table.
fn is_table_of(entry: &Table, value: &Value) -> bool {
    entry.get::<Value>("table").is_ok_and(|table| table == *value)
}
