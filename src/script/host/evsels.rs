//! The events of a host: declared by its script, and how they are opened.

use std::collections::BTreeMap;
use std::ops::Range;

use mlua::{Table, Value};

use super::Host;
use crate::event::filter::names::list_matches;
use crate::event::filter::split::UserCondition;
use crate::script::evsel::declare::NO_COUNTS;
use crate::script::evsel::role::Role;
use crate::script::option::value::lua_name;
use crate::script::option::{OptionKind, OptionSpec};
use crate::source::request::MappingRecords;
use crate::source::side_record::SideKinds;

impl Host {
    /// Returns the roles that the script declared.
    pub fn roles(&self) -> Vec<Role> {
        self.state.borrow().evsels.borrow().roles.clone()
    }

    /// Returns the records of mapped files that are wanted: by the script, or to resolve stacks.
    pub fn mapping_records(&self) -> MappingRecords {
        let on_mmap = self.all_callbacks().any(|all| all.on_mmap.is_some());
        match (on_mmap, self.takes_stacks()) {
            (true, _) => MappingRecords::WithBuildIds,
            (false, true) => MappingRecords::WithInodes,
            (false, false) => MappingRecords::Omitted,
        }
    }

    /// Returns the further side-band records that the script's callbacks get.
    pub fn side_kinds(&self) -> SideKinds {
        let mut kinds = SideKinds::default();
        self.all_callbacks().for_each(|all| kinds.add(all.side_kinds()));
        kinds
    }

    /// Returns whether any event takes its call chain or names functions.
    pub fn takes_stacks(&self) -> bool {
        self.takes_stacks_in(&(0..usize::MAX))
    }

    /// Returns whether one of these roles takes its call chain or names functions.
    pub(super) fn takes_stacks_in(&self, roles: &Range<usize>) -> bool {
        let state = self.state.borrow();
        let named = |role: &Role| role.sampling.stack.is_some() || role.sampling.functions;
        let evsels = state.evsels.borrow();
        let mut own = evsels.roles.iter().enumerate().filter(|(at, _)| roles.contains(at));
        own.any(|(_, role)| named(role))
    }

    /// Filters in user space what the kernel refused to filter: a condition, or the whole filter of
    /// a role. It becomes part of the role's predicate. Must be called before `attach`.
    ///
    /// # Errors
    /// A condition that only the kernel can evaluate.
    pub fn filter_here(&mut self, role: u32, refused: Option<UserCondition>) -> anyhow::Result<()> {
        let state = self.state.borrow();
        let mut evsels = state.evsels.borrow_mut();
        evsels.roles.get_mut(role as usize).map_or(Ok(()), |role| role.take_over(refused))
    }

    /// Returns the roles to switch on or off, as requested since the last call.
    pub fn take_switches(&mut self) -> BTreeMap<u32, bool> {
        let state = self.state.borrow();
        let mut evsels = state.evsels.borrow_mut();
        std::mem::take(&mut evsels.switches)
    }

    /// Forbids or allows to declare and change events.
    pub(in crate::script) fn seal(&self, sealed: bool) {
        let state = self.state.borrow();
        let mut evsels = state.evsels.borrow_mut();
        evsels.sealed = sealed;
        evsels.sources.end_script();
    }

    /// Checks the selectors that were typed and that the script has not opened, such as an untraced
    /// event that only another option would open. `given` are the names of the typed options.
    ///
    /// # Errors
    /// An event or a CPU that does not exist.
    pub(in crate::script) fn check_unused(
        &self,
        options: &Table,
        specs: &[OptionSpec],
        given: &[String],
    ) -> anyhow::Result<()> {
        let state = self.state.borrow();
        let Some(declarer) = &state.declarer else { return Ok(()) };
        for spec in specs.iter().filter(|spec| given.contains(&spec.long)) {
            let mut typed = Vec::new();
            match (&spec.kind, options.raw_get::<Value>(lua_name(&spec.long))?) {
                (OptionKind::Event { .. }, one @ Value::Table(_)) => typed.push(one),
                (OptionKind::Events { .. }, Value::Table(groups)) => {
                    for group in groups.sequence_values::<Table>() {
                        typed.extend(group?.sequence_values::<Value>().flatten());
                    }
                }
                _ => {}
            }
            for selector in typed {
                let checked = declarer.check_unused(self.lua(), &selector);
                checked.map_err(|why| anyhow::anyhow!("{}: {why}", spec.typed()))?;
            }
        }
        Ok(())
    }

    /// Returns a line for each event that is a fallback for the first choice, with the reason.
    pub fn fallbacks(&self) -> Vec<String> {
        self.state.borrow().evsels.borrow().fallbacks.clone()
    }

    /// Returns the remarks for the user about events that differ from what was requested, each
    /// once.
    pub fn take_remarks(&self) -> Vec<String> {
        self.state.borrow().evsels.borrow_mut().remarks.take()
    }

    /// Returns an error if a script has declared no event after the first `before` roles.
    pub(in crate::script) fn check_any_event(&self, before: usize) -> anyhow::Result<()> {
        let state = self.state.borrow();
        let evsels = state.evsels.borrow();
        match evsels.remarks.first_omitted() {
            _ if evsels.roles.len() > before => Ok(()),
            Some(omitted) => anyhow::bail!("no event can be opened: {omitted}"),
            None if !state.knows_all_fields() => {
                anyhow::bail!(
                    "the recording has none of the events that this monitor counts; {NO_COUNTS}"
                )
            }
            None => match evsels.remarks.first_missing() {
                Some(why) => anyhow::bail!("no event can be opened: {why}"),
                None => anyhow::bail!("init declares no event: call evsel in it"),
            },
        }
    }

    /// Returns the lists of task names that match none of `names`.
    pub fn lists_without(&self, names: &[&[u8]]) -> Vec<String> {
        let state = self.state.borrow();
        let lists = state.evsels.borrow().names.clone();
        let unmet = |list: &String| !names.iter().any(|name| list_matches(list, name));
        lists.into_iter().filter(unmet).collect()
    }
}
