//! Finds the fields of samples that handlers read and that are recorded only on request.

use std::collections::{BTreeSet, HashMap};

use mlua::{Function, Table};

use super::Dispatch;
use crate::event::kind::{COUNT_PREFIX, Event};
use crate::event::sample_field::SampleFields;
use crate::script::evsel::role::Evsels;

impl Dispatch {
    /// Adds the fields that handlers read to the sampling of their roles, and makes all requested
    /// fields readable. Returns the roles whose sampling has changed.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub(in crate::script) fn request_fields(
        &self,
        evsels: &mut Evsels,
    ) -> anyhow::Result<BTreeSet<u32>> {
        let fields_read = self.trusted.export("fields_read")?;
        let request = self.trusted.export("request_fields")?;
        // A glob has one handler for all of its events.
        let mut read: HashMap<*const std::ffi::c_void, SampleFields> = HashMap::new();
        let mut changed = BTreeSet::new();
        for handler in &self.handlers {
            let role = evsels.roles.get_mut(handler.role);
            let Some(role) = role.filter(|role| !role.event.kind().is_derived()) else { continue };
            let wanted = match read.get(&handler.function.to_pointer()) {
                Some(known) => *known,
                None => {
                    let wanted = rows_read(&fields_read, &handler.function)?;
                    read.insert(handler.function.to_pointer(), wanted);
                    wanted
                }
            };
            let all = role.sampling.extra.or(wanted.without(role.absent_fields()));
            let all = all.without(role.own_fields());
            if all != role.sampling.extra {
                role.sampling.extra = all;
                changed.insert(handler.role as u32);
            }
            if !all.is_empty() {
                request.call::<()>((handler.role, all.rows().collect::<Vec<_>>()))?;
            }
        }
        Ok(changed)
    }

    /// Returns whether a handler may read the names of tasks at the times of its events, and
    /// whether one may print events. `env` has the functions of the script.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub(in crate::script) fn reads_names(&self, env: &Table) -> anyhow::Result<(bool, bool)> {
        let reads_names: Function = self.trusted.export("reads_names")?;
        self.handlers.iter().try_fold((false, false), |(reads, prints), handler| {
            let (also_reads, also_prints): (bool, bool) =
                reads_names.call((&handler.function, env))?;
            Ok((reads || also_reads, prints || also_prints))
        })
    }
}

/// Returns the names of each count that the samples of an event have, live or in a recording.
pub(super) fn count_names(event: &Event) -> Vec<Vec<String>> {
    if let Some(format) = event.format().filter(|_| event.counted.is_empty()) {
        let names = format.fields.iter().filter_map(|one| one.name.strip_prefix(COUNT_PREFIX));
        return names.map(|name| vec![name.to_owned()]).collect();
    }
    let names = event.counted.iter().map(|one| {
        let own = std::iter::once(&one.event.name);
        own.chain(&one.names).cloned().collect()
    });
    names.collect()
}

fn rows_read(fields_read: &Function, handler: &Function) -> mlua::Result<SampleFields> {
    let rows: Vec<usize> = fields_read.call(handler)?;
    Ok(rows.into_iter().fold(SampleFields::default(), |all, row| all.or(SampleFields::row(row))))
}
