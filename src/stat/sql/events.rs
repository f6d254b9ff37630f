//! How a database reads the events of the run: the host knows their formats and tasks.

use super::value::text_parameter;
use crate::base::event::value::Value;
use crate::stat::leaf::BorrowedEvent;
use rusqlite::types::{ToSqlOutput, Value as Owned};
use std::cell::RefCell;
use std::collections::HashSet;

/// The table of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTable {
    /// Its name.
    pub name: String,
    /// The columns of the event's own fields, in format order.
    pub columns: Vec<String>,
}

/// The values that every event has.
#[derive(Clone, Copy, Debug)]
pub struct SqlSample<'a> {
    /// Nanoseconds since the beginning of the run.
    pub time_ns: i64,
    /// CPU of the record.
    pub cpu: u32,
    /// Process id; -1 for a task that is being released.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// Name of the task.
    pub comm: &'a [u8],
}

impl<'a> SqlSample<'a> {
    /// Their columns, before those of the fields.
    pub const COLUMNS: [&'static str; 5] = ["_time", "_cpu", "_pid", "_tid", "_comm"];

    pub(super) fn parameters(&self) -> [ToSqlOutput<'a>; 5] {
        let integer = |value: i64| ToSqlOutput::Owned(Owned::Integer(value));
        [
            integer(self.time_ns),
            integer(self.cpu.into()),
            integer(self.pid.into()),
            integer(self.tid.into()),
            text_parameter(self.comm),
        ]
    }
}

/// Takes an event: its sample and its fields.
pub type VisitEvent<'v> =
    dyn FnMut(&SqlSample<'_>, &mut dyn Iterator<Item = (&str, Value<'_>)>) + 'v;

/// The run, as a database queries it.
pub trait SqlSource {
    /// Returns name and fields of the event of each role; None for a role without fields.
    fn events(&self) -> Vec<(String, Vec<String>)>;
    /// Calls `visit` with an event.
    fn read(&self, event: &BorrowedEvent<'_>, visit: &mut VisitEvent<'_>);
    /// Returns the name of a kernel address, if it has one.
    fn ksymbol(&self, address: u64) -> Option<String>;
    /// Returns the name of a task.
    fn comm(&self, tid: u32) -> String;
}

/// The handle to the run, which is set when it begins.
#[derive(Default)]
pub struct SqlEvents(RefCell<Option<Box<dyn SqlSource>>>);

impl SqlEvents {
    /// Sets the source.
    pub fn read_from(&self, source: Box<dyn SqlSource>) {
        self.0.replace(Some(source));
    }

    /// Returns the table of each role; roles of one event have the same.
    pub(super) fn tables(&self) -> Vec<EventTable> {
        let events = self.0.borrow().as_ref().map_or_else(Vec::new, |source| source.events());
        let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
        let table = |(name, fields): &(String, Vec<String>)| EventTable {
            name: table_name(name, &names),
            columns: columns(fields),
        };
        events.iter().map(table).collect()
    }

    pub(super) fn read(&self, event: &BorrowedEvent<'_>, visit: &mut VisitEvent<'_>) {
        if let Some(source) = &*self.0.borrow() {
            source.read(event, visit);
        }
    }

    pub(super) fn ksymbol(&self, address: u64) -> Option<String> {
        self.0.borrow().as_ref()?.ksymbol(address)
    }

    pub(super) fn comm(&self, tid: u32) -> String {
        self.0.borrow().as_ref().map_or_else(String::new, |source| source.comm(tid))
    }
}

/// Tables of a database that are not those of events.
const RESERVED: [&str; 2] = ["coverage", "intervals"];

/// Returns the name of an event without its system, unless another event or a table of the database
/// would have the same.
fn table_name(name: &str, all: &[&str]) -> String {
    let short = |name: &str| safe(name.split_once(':').map_or(name, |(_, event)| event));
    let own = short(name);
    let is_shared = all.iter().any(|other| *other != name && short(other) == own)
        || RESERVED.iter().any(|reserved| own.eq_ignore_ascii_case(reserved));
    if is_shared { safe(name) } else { own }
}

/// Returns a name that needs no quotes in SQL, if it begins with a letter; `:` becomes `__`.
fn safe(name: &str) -> String {
    let mut safe = String::with_capacity(name.len() + 1);
    for c in name.chars() {
        match c {
            ':' => safe.push_str("__"),
            c if c.is_ascii_alphanumeric() => safe.push(c),
            _ => safe.push('_'),
        }
    }
    safe
}

/// Returns the names of the columns of fields: SQL ignores case, so a name that is taken gets a
/// trailing `_`.
fn columns(fields: &[String]) -> Vec<String> {
    let mut taken: HashSet<String> = SqlSample::COLUMNS.map(str::to_owned).into();
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let mut name = field.clone();
        while !taken.insert(name.to_ascii_lowercase()) {
            name.push('_');
        }
        columns.push(name);
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_name_of_its_event_without_the_system() {
        let all = ["sched:sched_switch", "a:b", "c:b", "cycles", "uprobe:/bin/sh:f+1"];
        let names = all.map(|name| table_name(name, &all));
        assert_eq!(names, ["sched_switch", "a__b", "c__b", "cycles", "_bin_sh__f_1"]);
        assert_eq!(table_name("a:Intervals", &["a:Intervals"]), "a__Intervals");
    }

    #[test]
    fn columns_differ_in_more_than_their_case() {
        let fields = ["id", "ID", "_pid", "id_"].map(str::to_owned);
        assert_eq!(columns(&fields), ["id", "ID_", "_pid_", "id__"]);
    }
}
