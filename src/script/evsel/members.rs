//! The members of a group with `S`: events that are counted for the samples of its first one.

use std::rc::Rc;

use super::declare::Declarer;
use super::role::{Refused, Role};
use crate::event::kind::{CountedMember, Event, has_fields};
use crate::event::sampling::Sampling;
use crate::event::selector::Selector;
use crate::sys::perf::MEMBERS_MAX;

impl Declarer {
    /// Returns the events of a selector as leaders of its group, if it has members. A recording has
    /// the counts in its lines.
    ///
    /// # Errors
    /// A member does not exist, or has a condition that the kernel cannot check.
    pub(super) fn with_members(
        &self,
        chosen: &Selector,
        sampling: &Sampling,
        events: Vec<Rc<Event>>,
    ) -> Result<Vec<Rc<Event>>, Refused> {
        if chosen.members.is_empty() || self.trial.is_none() {
            return Ok(events);
        }
        let counted = Sampling { count: true, exclude: sampling.exclude, ..Sampling::default() };
        let mut members = Vec::new();
        for one in &chosen.members {
            self.check_member(one)?;
            let selected =
                self.events_of(one, &counted, false).map_err(|why| format!("{why:#}"))?;
            let Some(selected) = selected else { continue };
            for event in &selected.events {
                members.push(member(one, event, &counted, selected.events.len() == 1)?);
            }
        }
        if members.len() >= MEMBERS_MAX {
            return Err(format!("{}: a group has at most {MEMBERS_MAX} events", chosen.text));
        }
        let names = names(chosen, events.len() == 1);
        let leading = events.iter().map(|one| Rc::new(one.leading(names.clone(), members.clone())));
        Ok(leading.collect())
    }
}

/// Returns a member with its filter, which the kernel must check: it has no records.
fn member(
    one: &Selector,
    event: &Rc<Event>,
    counted: &Sampling,
    is_single: bool,
) -> Result<CountedMember, Refused> {
    let (event, sampling) = (event.clone(), counted.clone());
    let (glob, filter, rest, task) = (None, None, Vec::new(), None);
    let mut role = Role { event, glob, filter, rest, task, sampling };
    one.filter.iter().try_for_each(|text| role.narrow(text))?;
    Ok(CountedMember { event: role.event, filter: role.filter, names: names(one, is_single) })
}

/// Returns the further names of a count: as typed, without its system or modifiers, and `alias=`.
fn names(one: &Selector, is_single: bool) -> Vec<String> {
    let typed = one.alternatives().next().filter(|_| is_single).unwrap_or_default();
    let short = typed.split_once(':').map(|(name, behind)| match has_fields(typed) {
        true => behind,
        false => name,
    });
    let names = [Some(typed).filter(|name| !name.is_empty()), short, one.alias()];
    names.into_iter().flatten().map(str::to_owned).collect()
}
