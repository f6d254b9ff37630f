//! Roles: what a run opens for the evsels of its script.
//!
//! A role is one event of one evsel; a glob has several. A slot carries the index of its role.

use std::collections::{BTreeMap, BTreeSet};

use super::declared_pairs::DeclaredPairs;
use super::remarks::EventRemarks;
use super::sources::Sources;
use crate::event::kind::COUNT_PREFIX;
use crate::event::plan;
use crate::event::sample_field::SampleFields;

/// An error in a script's call, as text for the line of that call.
pub(in crate::script) type Refused = String;

/// Why an event has no counts of a group.
pub(in crate::script) const NO_GROUP: &str =
    "only the first event of a group with S has counts; write {EVENT,OTHER,…}:S";

/// Everything that was declared so far.
#[derive(Default)]
pub struct Evsels {
    /// Roles by index.
    pub roles: Vec<Role>,
    /// Roles whose events are to be switched on or off; the last request for each.
    pub switches: BTreeMap<u32, bool>,
    /// Roles whose filter was narrowed since a session read this last.
    pub narrowed: BTreeSet<u32>,
    /// Evsels whose handler was replaced since a session read this last.
    pub replaced: BTreeSet<usize>,
    /// Whether the run has begun: its events are open, so nothing can be declared any more.
    pub sealed: bool,
    /// Lists of task names, as passed to `ev:matching`.
    pub names: Vec<String>,
    /// Whether the result of an expression depends on the name of a task.
    pub(in crate::script) names_tasks: bool,
    /// Remarks for the user about events that differ from what was requested.
    pub(in crate::script) remarks: EventRemarks,
    /// Those of the remarks that name an event used as a fallback for another.
    pub fallbacks: Vec<String>,
    /// Monitors whose events others take.
    pub sources: Sources,
    /// Counts by key that need no handler.
    pub counts: Vec<DeclaredCount>,
    /// Pairs of events that need no handler.
    pub pairs: Vec<DeclaredPairs>,
    /// Selectors of the evsels, as typed.
    pub(super) used: BTreeSet<String>,
    /// The evsels, by their index in Lua.
    pub(super) declared: Vec<DeclaredEvsel>,
}

impl Evsels {
    /// Returns whether an expression or a filter in user space reads the names of tasks.
    pub(in crate::script) fn reads_names(&self) -> bool {
        let is_other = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let names = |text: &str| text.split(is_other).any(|word| word == "_comm");
        let by_name = |role: &Role| role.rest.iter().any(|rest| names(&rest.text));
        self.names_tasks || !self.names.is_empty() || self.roles.iter().any(by_name)
    }

    /// Returns the roles of an evsel, as indexes.
    pub fn indexes_of(&self, index: usize) -> std::ops::Range<usize> {
        self.declared.get(index).map_or(0..0, |d| d.first..d.first + d.count)
    }

    /// Returns the roles of an evsel, and if a monitor emits its events, those of the monitor.
    pub fn opened_for(&self, index: usize) -> Vec<u32> {
        let all = self.indexes_of(index).flat_map(|role| self.sources.with_source(role));
        all.map(|role| role as u32).collect()
    }

    /// Returns the roles of an evsel, to change them.
    pub fn roles_of_mut(&mut self, index: usize) -> &mut [Role] {
        let indexes = self.indexes_of(index);
        self.roles.get_mut(indexes).unwrap_or_default()
    }
}

/// A count of the events of an evsel by key, which the kernel can do if it can evaluate the
/// expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredCount {
    /// The evsel, by its index in Lua.
    pub evsel: usize,
    /// Number of the table.
    pub table: usize,
    /// Expressions of the key.
    pub keys: Vec<String>,
    /// Expressions that are summed.
    pub sums: Vec<String>,
    /// Column of the first sum.
    pub first: usize,
    /// Expression of the name of a row.
    pub name: Option<String>,
    /// Expression that must not be 0.
    pub condition: Option<String>,
    /// Whether integers of different types share a column of the key.
    pub mixed: bool,
    /// Whether the names of cgroups may be read at the report.
    pub late_names: bool,
}

/// One event of one evsel.
pub type Role = plan::EventRole;

impl Role {
    /// Returns the fields of samples that the event's records have themselves, as in a recording.
    pub(in crate::script) fn own_fields(&self) -> SampleFields {
        let fields = self.event.format().map_or(&[][..], |format| &format.fields);
        let named = fields.iter().filter_map(|field| match field.name.starts_with(COUNT_PREFIX) {
            true => SampleFields::named("_counts"),
            false => SampleFields::named(&field.name),
        });
        named.fold(SampleFields::default(), SampleFields::or)
    }

    /// Returns the fields of samples that its event cannot have: counts without a group.
    pub(in crate::script) fn absent_fields(&self) -> SampleFields {
        match self.event.counted.is_empty() {
            true => SampleFields::of_groups(),
            false => SampleFields::default(),
        }
    }

    /// Requests fields of samples; `live` is false for a recording.
    ///
    /// # Errors
    /// The recording does not contain them.
    pub(in crate::script) fn request(
        &mut self,
        extra: SampleFields,
        live: bool,
    ) -> Result<(), Refused> {
        let extra = extra.without(self.own_fields());
        let absent = extra.without(extra.without(self.absent_fields()));
        if live && !absent.is_empty() {
            let (event, names) = (&self.event.name, absent.names());
            return Err(format!("{event}: {names}: {NO_GROUP}"));
        }
        if !live && !extra.is_empty() {
            let (event, names) = (&self.event.name, extra.names());
            return Err(format!("{event}: the recording does not contain {names}"));
        }
        self.sampling.extra = self.sampling.extra.or(extra);
        Ok(())
    }
}

/// The roles of one evsel.
pub(super) struct DeclaredEvsel {
    /// The first.
    pub(super) first: usize,
    /// Their number.
    pub(super) count: usize,
}
