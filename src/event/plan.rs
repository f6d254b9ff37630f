//! Which events to open for the roles that a run has: a tracepoint that several roles name is opened once.
//!
//! The kernel gets the OR of the roles' filters, and each role whose filter is narrower than that checks
//! its own again, here. What only the kernel can check exactly ([`KernelOnly`], and the name of the task,
//! which is not in the record) keeps an opening of its own, and so does whatever differs in what is
//! sampled: one perf event has one period and one stack depth.

use std::rc::Rc;

use anyhow::Result;

use crate::event::{
    catalog::{Event, What},
    filter::{Filter, KernelOnly, LONGEST, split::Rest},
};

/// Bytes of the kernel's longest filter that are left for conditions added later, such as our own threads'.
const SPARE: usize = 256;

/// One use of an event: an evsel of the script.
#[derive(Clone, Debug)]
pub struct Role<S> {
    /// What is watched.
    pub event: Rc<Event>,
    /// The glob that it is meant by: where the kernel refuses it, the others are watched without
    /// it.
    pub glob: Option<Rc<str>>,
    /// Which of them, by what the kernel can tell; None is all.
    pub filter: Option<Filter>,
    /// What else they have to meet, in user space; it does not matter for what is opened.
    pub rest: Vec<Rest>,
    /// The field that holds the thread an event is about, where that is another than the one it comes from.
    pub task: Option<String>,
    /// How they are sampled, counted and where: whatever has to be equal to share one opening.
    pub sampling: S,
}

/// An event to open.
#[derive(Clone, Debug)]
pub struct Opening<S> {
    /// What to open.
    pub event: Rc<Event>,
    /// The glob that all of its roles, or the first, are meant by; None if a role names it exactly.
    pub glob: Option<Rc<str>>,
    /// The filter for the kernel; None lets everything through.
    pub filter: Option<Filter>,
    /// How.
    pub sampling: S,
    /// The roles that get its records, by index, ascending.
    pub roles: Vec<usize>,
    /// Whether each role has to check its own filter, because the kernel's lets more through.
    pub recheck: bool,
}

/// What a plan has to know of how a role is sampled.
pub trait Sampled {
    /// Whether it is only counted: there is no record of which a role could check its own filter.
    fn is_counted(&self) -> bool;
}

/// Groups roles into openings, in the order in which their events are first named.
///
/// Errors: a filter that does not fit its event, or any filter on a counter, which the kernel refuses.
pub fn plan<S: Clone + PartialEq + Sampled>(roles: &[Role<S>]) -> Result<Vec<Opening<S>>> {
    let mut openings: Vec<Opening<S>> = Vec::new();
    for (index, role) in roles.iter().enumerate() {
        let checkable = is_checkable(role)? && !role.sampling.is_counted();
        let shared = openings.iter_mut().find(|opening| {
            opening.event == role.event
                && opening.sampling == role.sampling
                && (opening.filter == role.filter || checkable && can_join(opening, roles, role))
        });
        match shared {
            Some(opening) => {
                opening.recheck |= opening.filter != role.filter;
                opening.filter = either(opening.filter.take(), role.filter.clone());
                opening.roles.push(index);
                opening.glob = opening.glob.take().filter(|_| role.glob.is_some());
            }
            None => openings.push(Opening {
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

/// Whether a record alone tells if the role's filter lets it pass.
fn is_checkable<S>(role: &Role<S>) -> Result<bool> {
    let Some(filter) = &role.filter else { return Ok(true) };
    match &role.event.what {
        What::Tracepoint { format } => match filter.bind(&role.event.name, format) {
            Ok(bound) => Ok(!bound.asks_comm()),
            Err(KernelOnly::Condition(_) | KernelOnly::UserText(_)) => Ok(false),
            Err(KernelOnly::Unfit(fault)) => Err(fault.into()),
        },
        What::Counter(_) | What::Function(_) => {
            anyhow::bail!("{}: only a tracepoint has a filter", role.event.name)
        }
    }
}

/// Whether the filters joined fit the kernel, and every role of the opening can check its own.
fn can_join<S>(opening: &Opening<S>, roles: &[Role<S>], role: &Role<S>) -> bool {
    let members = opening.roles.iter().filter_map(|index| roles.get(*index));
    members.into_iter().all(|member| is_checkable(member).unwrap_or(false))
        && either(opening.filter.clone(), role.filter.clone())
            .is_none_or(|filter| filter.to_kernel().len() + SPARE <= LONGEST)
}

/// What passes either; None is everything.
fn either(a: Option<Filter>, b: Option<Filter>) -> Option<Filter> {
    match (a?, b?) {
        (a, b) if a == b => Some(a),
        (a, b) => Some(a.or(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode::format::Format, event::counter::Counter};

    /// From 100 on they are counted.
    impl Sampled for u32 {
        fn is_counted(&self) -> bool {
            *self >= 100
        }
    }

    fn tracepoint(name: &str) -> Rc<Event> {
        let format = Format::parse(
            "name: x\nID: 1\nfield:int pid; offset:8; size:4; signed:1;\n\
             field:void * function; offset:16; size:8; signed:0;\n",
        );
        Rc::new(Event { name: name.to_owned(), what: What::Tracepoint { format: format.unwrap() } })
    }

    fn role(name: &str, filter: &str, sampling: u32) -> Role<u32> {
        let filter = (!filter.is_empty()).then(|| Filter::parse(filter).unwrap());
        let event = tracepoint(name);
        Role { event, glob: None, filter, rest: Vec::new(), task: None, sampling }
    }

    /// Event, filter, roles, recheck.
    fn planned(roles: &[Role<u32>]) -> Vec<(String, String, Vec<usize>, bool)> {
        let openings = plan(roles).unwrap().into_iter();
        let filter = |f: Option<Filter>| f.map(|f| f.to_kernel()).unwrap_or_default();
        openings.map(|o| (o.event.name.clone(), filter(o.filter), o.roles, o.recheck)).collect()
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
        let roles = [role("b:b", "", 0), role("a:a", "pid == 1", 0)];
        assert_eq!(
            planned(&roles),
            [opening("b:b", "", &[0], false), opening("a:a", "pid == 1", &[1], false)]
        );
    }

    #[test]
    fn an_event_named_twice_is_opened_once_with_either_filter() {
        let roles = [role("a:a", "pid == 1", 0), role("b:b", "", 0), role("a:a", "pid == 2", 0)];
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
        let roles = [role("a:a", "pid==1", 0), role("a:a", "( pid == 1 )", 0)];
        assert_eq!(planned(&roles), [opening("a:a", "pid == 1", &[0, 1], false)]);
        let roles = [role("a:a", "", 0), role("a:a", "", 0)];
        assert_eq!(planned(&roles), [opening("a:a", "", &[0, 1], false)]);
    }

    #[test]
    fn a_role_without_a_filter_opens_it_for_all() {
        let roles = [role("a:a", "pid == 1", 0), role("a:a", "", 0), role("a:a", "pid == 2", 0)];
        assert_eq!(planned(&roles), [opening("a:a", "", &[0, 1, 2], true)]);
        let roles = [role("a:a", "", 0), role("a:a", "pid == 1", 0)];
        assert_eq!(planned(&roles), [opening("a:a", "", &[0, 1], true)]);
    }

    #[test]
    fn what_is_counted_shares_no_filter_with_others() {
        let roles =
            [role("a:a", "pid==1", 100), role("a:a", "pid==2", 100), role("a:a", "pid==1", 100)];
        assert_eq!(
            planned(&roles),
            [opening("a:a", "pid == 1", &[0, 2], false), opening("a:a", "pid == 2", &[1], false)]
        );
    }

    #[test]
    fn an_event_that_a_role_names_exactly_is_of_no_glob() {
        let of_glob = |name| Role { glob: Some("a:*".into()), ..role(name, "", 0) };
        let all = plan(&[of_glob("a:a"), of_glob("a:b"), role("a:b", "", 0)]).unwrap();
        let globs: Vec<_> = all.iter().map(|opening| opening.glob.as_deref()).collect();
        assert_eq!(globs, [Some("a:*"), None]);
    }

    #[test]
    fn what_is_sampled_differently_is_opened_apart() {
        let roles = [role("a:a", "", 0), role("a:a", "", 1), role("a:a", "", 0)];
        assert_eq!(
            planned(&roles),
            [opening("a:a", "", &[0, 2], false), opening("a:a", "", &[1], false)]
        );
    }

    #[test]
    fn what_only_the_kernel_can_check_is_opened_apart() {
        let symbol = "function.function == schedule";
        let roles = [
            role("a:a", symbol, 0),
            role("a:a", "pid == 1", 0),
            role("a:a", symbol, 0),
            role("a:a", "", 0),
        ];
        assert_eq!(
            planned(&roles),
            [opening("a:a", symbol, &[0, 2], false), opening("a:a", "", &[1, 3], true)]
        );
    }

    #[test]
    fn the_name_of_the_task_is_left_to_the_kernel() {
        let roles = [role("a:a", "!(COMM == \"a\" && pid == 1)", 0), role("a:a", "pid == 1", 0)];
        assert_eq!(planned(&roles).len(), 2);
    }

    #[test]
    fn filters_that_are_too_long_together_are_opened_apart() {
        let long = |n: u32| vec![format!("pid == {n}"); 200].join(" || ");
        let roles =
            [role("a:a", &long(1), 0), role("a:a", &long(2), 0), role("a:a", "pid == 3", 0)];
        let openings = planned(&roles);
        assert_eq!(openings.len(), 2);
        assert_eq!((openings[0].2.clone(), openings[1].2.clone()), (vec![0, 2], vec![1]));
    }

    #[test]
    fn a_filter_that_does_not_fit_is_refused() {
        let refusal = |role| plan(&[role]).unwrap_err().to_string();
        assert!(refusal(role("a:a", "pidd == 1", 0)).starts_with("a:a has no field 'pidd'"));
        let counter = Event { name: "cycles".into(), what: What::Counter(Counter::default()) };
        let filter = Some(Filter::parse("pid == 1").unwrap());
        let role = Role { filter, ..role("a:a", "", 0) };
        let refused = refusal(Role { event: Rc::new(counter), ..role });
        assert_eq!(refused, "cycles: only a tracepoint has a filter");
    }
}
