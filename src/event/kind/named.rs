//! Families of events with names of their own: what one kind declares, and how a name is looked up.

use std::iter;

/// A name, its aliases, and `perf_event_attr.config`.
pub(super) type NameRow = (&'static str, &'static [&'static str], u32);

/// Events of one `perf_event_attr.type` with names of their own.
pub struct NameFamily {
    /// `perf_event_attr.type`.
    pub(super) type_: u32,
    /// The word of `list` for such an event.
    pub category: &'static str,
    /// The names with aliases.
    pub(super) table: &'static [NameRow],
    /// Returns the further names that can be listed.
    pub(super) composed: fn() -> Vec<String>,
    /// Returns the config of a name that is not in the table.
    pub(super) config_of: fn(&str) -> Option<u64>,
}

/// The event that a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEvent {
    /// The name to show.
    pub name: String,
    /// `perf_event_attr.type`.
    pub type_: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
}

impl NameFamily {
    /// Looks up a name or alias without modifiers.
    pub(super) fn lookup(&self, name: &str) -> Option<NamedEvent> {
        let row = self.table.iter().find(|row| row.0 == name || row.1.contains(&name));
        let (name, config) = match row {
            Some(&(name, _, config)) => (name, u64::from(config)),
            None => (name, (self.config_of)(name)?),
        };
        Some(NamedEvent { name: name.to_owned(), type_: self.type_, config })
    }

    /// Returns every name with its aliases.
    pub fn names(&self) -> impl Iterator<Item = (String, &'static [&'static str])> {
        let table = self.table.iter().map(|row| (row.0.to_owned(), row.1));
        table.chain((self.composed)().into_iter().map(|name| (name, &[][..])))
    }

    /// Returns the names and aliases of the table.
    pub(super) fn short_names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.table.iter().flat_map(|row| iter::once(row.0).chain(row.1.iter().copied()))
    }
}
