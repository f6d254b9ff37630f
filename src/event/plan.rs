//! Plans which events to open for the roles of a run; opens a tracepoint once for several roles.
//!
//! The kernel gets the OR of the roles' filters, and each role with a narrower filter checks its
//! own again in user space. A role has an opening of its own if only the kernel can check its
//! filter ([`KernelOnly`], and the name of the task, which is not in the record), or if its
//! sampling differs: one perf event has one period and one stack depth.

use std::rc::Rc;

use anyhow::Result;

use crate::base::event::slot::BATCH;
use crate::event::{
    filter::{Filter, KernelOnly, LONGEST, RESERVED_BYTES, split::UserCondition},
    kind::Event,
    sampling::Sampling,
};

/// One use of an event: an evsel of the script.
#[derive(Clone, Debug)]
pub struct EventRole {
    /// The event.
    pub event: Rc<Event>,
    /// The glob that named the event. If the kernel refuses the event, the other matches are opened
    /// without it.
    pub glob: Option<Rc<str>>,
    /// The filter in the kernel's language; None passes every event.
    pub filter: Option<Filter>,
    /// Further conditions, checked in user space; they do not affect what is opened.
    pub rest: Vec<UserCondition>,
    /// The field that holds the thread that an event is about, if it is not the one that raised it.
    pub task: Option<String>,
    /// How and where the event is sampled or counted; equal for roles that share an opening.
    pub sampling: Sampling,
}

/// An event to open.
#[derive(Clone, Debug)]
pub struct PlannedEvent {
    /// The event to open.
    pub event: Rc<Event>,
    /// The glob of the first role; None if a role names the event exactly.
    pub glob: Option<Rc<str>>,
    /// The filter for the kernel; None passes everything.
    pub filter: Option<Filter>,
    /// How and where it is sampled or counted.
    pub sampling: Sampling,
    /// Indexes of the roles that get its records, ascending.
    pub roles: Vec<usize>,
    /// Whether each role checks its own filter, because the kernel's filter passes more.
    pub recheck: bool,
}

/// Groups roles into openings, in the order in which their events are first named. Events that a
/// monitor derives have none.
///
/// # Errors
/// A filter does not fit its event, or its event is a counter or a function, for which the kernel
/// refuses any filter.
pub fn plan(roles: &[EventRole]) -> Result<Vec<PlannedEvent>> {
    let mut openings: Vec<PlannedEvent> = Vec::new();
    for (index, role) in roles.iter().enumerate() {
        if role.event.kind().is_derived() {
            continue;
        }
        // Without records, a role cannot check its filter. The counts of a sample are those since
        // the one before, which must pass the same filter.
        let is_split = role.sampling.count || !role.event.counted.is_empty();
        let checkable = is_checkable(role)? && !is_split;
        let shared = openings.iter_mut().find(|opening| {
            opening.event == role.event
                && opening.sampling == role.sampling
                // A record fills a slot for each role, and all of them must fit into a batch.
                && (role.sampling.count || opening.roles.len() < BATCH)
                && (opening.filter == role.filter || checkable && can_join(opening, roles, role))
        });
        match shared {
            Some(opening) => {
                opening.recheck |= opening.filter != role.filter;
                opening.filter = either(opening.filter.take(), role.filter.clone());
                opening.roles.push(index);
                opening.glob = opening.glob.take().filter(|_| role.glob.is_some());
            }
            None => openings.push(PlannedEvent {
                event: role.event.clone(),
                glob: role.glob.clone(),
                filter: role.filter.clone(),
                sampling: role.sampling.clone(),
                roles: vec![index],
                recheck: false,
            }),
        }
    }
    Ok(openings)
}

/// Returns whether the role's filter can be checked with the record alone.
fn is_checkable(role: &EventRole) -> Result<bool> {
    let Some(filter) = &role.filter else { return Ok(true) };
    let Some(format) = role.event.kind().raw_format() else {
        anyhow::bail!("{}: only tracepoints support a filter", role.event.name);
    };
    match filter.bind(&role.event.name, format) {
        Ok(bound) => Ok(!bound.needs_comm()),
        Err(KernelOnly::Condition(_) | KernelOnly::UserText(_)) => Ok(false),
        Err(KernelOnly::Unfit(fault)) => Err(fault.into()),
    }
}

/// Returns whether the joined filters fit the kernel and every role of the opening can check its
/// own.
fn can_join(opening: &PlannedEvent, roles: &[EventRole], role: &EventRole) -> bool {
    let members = opening.roles.iter().filter_map(|index| roles.get(*index));
    members.into_iter().all(|member| is_checkable(member).unwrap_or(false))
        && either(opening.filter.clone(), role.filter.clone())
            .is_none_or(|filter| filter.to_kernel().len() + RESERVED_BYTES <= LONGEST)
}

/// Returns a filter for what passes either; None passes everything.
pub fn either(a: Option<Filter>, b: Option<Filter>) -> Option<Filter> {
    match (a?, b?) {
        (a, b) if a == b => Some(a),
        (a, b) => Some(a.or(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        decode::format::Format,
        event::kind::{Counter, Tracepoint},
    };

    fn tracepoint(name: &str) -> Rc<Event> {
        let format = Format::parse(
            "name: x\nID: 1\nfield:int pid; offset:8; size:4; signed:1;\n\
             field:void * function; offset:16; size:8; signed:0;\n",
        );
        Rc::new(Event::new(name, Tracepoint { format: format.unwrap() }))
    }

    /// Returns a role of a tracepoint that samples each event.
    fn role(name: &str, filter: &str) -> EventRole {
        let filter = (!filter.is_empty()).then(|| Filter::parse(filter).unwrap());
        let (event, sampling) = (tracepoint(name), Sampling::default());
        EventRole { event, glob: None, filter, rest: Vec::new(), task: None, sampling }
    }

    /// Returns a role that only counts the event.
    fn counting(name: &str, filter: &str) -> EventRole {
        let sampling = Sampling { count: true, ..Sampling::default() };
        EventRole { sampling, ..role(name, filter) }
    }

    /// Returns a role that samples every second event.
    fn every_second(name: &str, filter: &str) -> EventRole {
        let sampling = Sampling { period: Some(2), ..Sampling::default() };
        EventRole { sampling, ..role(name, filter) }
    }

    /// Returns event, filter, roles and recheck of each opening.
    fn planned(roles: &[EventRole]) -> Vec<(String, String, Vec<usize>, bool)> {
        let openings = plan(roles).unwrap().into_iter();
        let filter = |f: Option<Filter>| f.map(|f| f.to_kernel()).unwrap_or_default();
        openings.map(|o| (o.event.name.clone(), filter(o.filter), o.roles, o.recheck)).collect()
    }

    #[test]
    fn a_record_has_no_more_roles_than_slots_in_a_batch() {
        let many = vec![role("a:a", ""); BATCH + 3];
        let openings: Vec<usize> = planned(&many).iter().map(|one| one.2.len()).collect();
        assert_eq!(openings, [BATCH, 3]);
        let counted = vec![counting("a:a", ""); BATCH + 3];
        assert_eq!(planned(&counted).len(), 1, "counts have no records");
    }

    fn opening(
        name: &str,
        filter: &str,
        roles: &[usize],
        recheck: bool,
    ) -> (String, String, Vec<usize>, bool) {
        (name.to_owned(), filter.to_owned(), roles.to_vec(), recheck)
    }

    #[test]
    fn different_events_are_opened_in_the_order_named() {
        let roles = [role("b:b", ""), role("a:a", "pid == 1")];
        assert_eq!(
            planned(&roles),
            [opening("b:b", "", &[0], false), opening("a:a", "pid == 1", &[1], false)]
        );
    }

    #[test]
    fn an_event_named_twice_is_opened_once_with_either_filter() {
        let roles = [role("a:a", "pid == 1"), role("b:b", ""), role("a:a", "pid == 2")];
        assert_eq!(
            planned(&roles),
            [
                opening("a:a", "pid == 1 || pid == 2", &[0, 2], true),
                opening("b:b", "", &[1], false)
            ]
        );
    }

    #[test]
    fn equal_filters_need_no_second_check() {
        let roles = [role("a:a", "pid==1"), role("a:a", "( pid == 1 )")];
        assert_eq!(planned(&roles), [opening("a:a", "pid == 1", &[0, 1], false)]);
        let roles = [role("a:a", ""), role("a:a", "")];
        assert_eq!(planned(&roles), [opening("a:a", "", &[0, 1], false)]);
    }

    #[test]
    fn a_role_without_a_filter_removes_the_kernel_filter() {
        let roles = [role("a:a", "pid == 1"), role("a:a", ""), role("a:a", "pid == 2")];
        assert_eq!(planned(&roles), [opening("a:a", "", &[0, 1, 2], true)]);
        let roles = [role("a:a", ""), role("a:a", "pid == 1")];
        assert_eq!(planned(&roles), [opening("a:a", "", &[0, 1], true)]);
    }

    #[test]
    fn counted_events_with_different_filters_are_opened_separately() {
        let roles =
            [counting("a:a", "pid==1"), counting("a:a", "pid==2"), counting("a:a", "pid==1")];
        assert_eq!(
            planned(&roles),
            [opening("a:a", "pid == 1", &[0, 2], false), opening("a:a", "pid == 2", &[1], false)]
        );
    }

    #[test]
    fn an_event_that_a_role_names_exactly_has_no_glob() {
        let from_glob = |name| EventRole { glob: Some("a:*".into()), ..role(name, "") };
        let all = plan(&[from_glob("a:a"), from_glob("a:b"), role("a:b", "")]).unwrap();
        let globs: Vec<_> = all.iter().map(|opening| opening.glob.as_deref()).collect();
        assert_eq!(globs, [Some("a:*"), None]);
    }

    #[test]
    fn roles_with_different_sampling_are_opened_separately() {
        let roles = [role("a:a", ""), every_second("a:a", ""), role("a:a", "")];
        assert_eq!(
            planned(&roles),
            [opening("a:a", "", &[0, 2], false), opening("a:a", "", &[1], false)]
        );
    }

    #[test]
    fn filters_that_only_the_kernel_can_check_are_opened_separately() {
        let symbol = "function.function == schedule";
        let roles =
            [role("a:a", symbol), role("a:a", "pid == 1"), role("a:a", symbol), role("a:a", "")];
        assert_eq!(
            planned(&roles),
            [opening("a:a", symbol, &[0, 2], false), opening("a:a", "", &[1, 3], true)]
        );
    }

    #[test]
    fn only_the_kernel_checks_the_name_of_the_task() {
        let roles = [role("a:a", "!(COMM == \"a\" && pid == 1)"), role("a:a", "pid == 1")];
        assert_eq!(planned(&roles).len(), 2);
    }

    #[test]
    fn filters_that_are_too_long_together_are_opened_separately() {
        let long = |n: u32| vec![format!("pid == {n}"); 200].join(" || ");
        let roles = [role("a:a", &long(1)), role("a:a", &long(2)), role("a:a", "pid == 3")];
        let openings = planned(&roles);
        assert_eq!(openings.len(), 2);
        assert_eq!((openings[0].2.clone(), openings[1].2.clone()), (vec![0, 2], vec![1]));
    }

    #[test]
    fn a_filter_that_does_not_fit_is_refused() {
        let refusal = |role| plan(&[role]).unwrap_err().to_string();
        assert!(refusal(role("a:a", "pidd == 1")).starts_with("a:a has no field 'pidd'"));
        let counter = Event::new("cycles", Counter::default());
        let filter = Some(Filter::parse("pid == 1").unwrap());
        let role = EventRole { filter, ..role("a:a", "") };
        let refused = refusal(EventRole { event: Rc::new(counter), ..role });
        assert_eq!(refused, "cycles: only tracepoints support a filter");
    }
}
