//! The filters of a replay, and the filter lines of `-v`: the conditions that the kernel checks,
//! those left for user space, and the cost of each.

use std::collections::BTreeSet;

use crate::base::report::coverage::Coverage;
use crate::base::text::units::counted;
use crate::decode::format::OmittedField;
use crate::event::filter::{BoundFilter, Filter};
use crate::script::evsel::role::Role;
use crate::source::open::user_text;

/// Where a run's events come from, which decides where they can be filtered.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum EventOrigin<'a> {
    /// With the roles that the kernel counts, whose filters it checks whole.
    Kernel(&'a BTreeSet<u32>),
    File,
}

/// Returns a line for each event that has a filter.
pub(super) fn explain(roles: &[Role], from: EventOrigin<'_>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (index, role) in (0..).zip(roles) {
        let conditions = role.filter.as_ref().map(Filter::conjuncts).unwrap_or_default();
        let (kernel, left): (Vec<Filter>, Vec<Filter>) =
            conditions.into_iter().partition(|part| is_for_kernel(role, part));
        let kernel: Vec<String> = kernel.iter().map(Filter::to_kernel).collect();
        let left: Vec<String> = left.iter().map(Filter::to_kernel).collect();
        let rest = role.rest.iter().map(|rest| rest.text.as_str());
        let here: Vec<&str> = left.iter().map(String::as_str).chain(rest).collect();
        let (kernel, here) = (joined(&kernel), joined(&here));
        let line = match (kernel.is_empty(), here.is_empty(), from) {
            (true, true, _) => continue,
            (_, _, EventOrigin::File) => {
                format!("filtered in user space: {}", both(&kernel, &here))
            }
            (_, _, EventOrigin::Kernel(counted)) if counted.contains(&index) => {
                format!("filtered in the kernel, before it is counted: {}", both(&kernel, &here))
            }
            (false, true, _) => format!("filtered in the kernel: {kernel} ({REJECTED})"),
            (true, false, _) => format!("filtered in user space: {here} ({RECEIVED})"),
            (false, false, _) => format!(
                "filtered in the kernel: {kernel} ({REJECTED}); then in user space: {here} \
                 ({RECEIVED})"
            ),
        };
        let line = format!("{}: {line}", role.event.name);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn both(kernel: &str, here: &str) -> String {
    let parts = [kernel, here].into_iter().filter(|text| !text.is_empty());
    parts.collect::<Vec<_>>().join(" && ")
}

/// Returns whether the kernel checks a condition: a BPF program checks only some.
fn is_for_kernel(role: &Role, part: &Filter) -> bool {
    let (event, by_program) = (&role.event, role.event.is_with_user_text(&role.sampling));
    let bound = event.kind().raw_format().map(|format| part.bind(&event.name, format));
    !by_program || matches!(bound, Some(Ok(bound)) if bound.is_assemblable())
}

/// Returns a note about events that are filtered by text in a task's memory, and what these filters
/// miss.
pub(super) fn user_text(roles: &[Role]) -> Option<String> {
    let reads = |role: &&Role| role.filter.as_ref().is_some_and(Filter::reads_user_memory);
    let names: BTreeSet<&str> = roles.iter().filter(reads).map(|role| &*role.event.name).collect();
    let names: Vec<&str> = names.into_iter().collect();
    (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!(
            "{names}: filtered by text in the task's memory; events whose text is on a page that \
             is not resident are omitted"
        )
    })
}

/// Returns a note about system calls whose strings in user memory are not read, with the reason.
pub(super) fn unread_texts(roles: &[Role]) -> Option<String> {
    let lacks = |role: &&Role| {
        let format = role.event.kind().raw_format().filter(|_| !role.sampling.count);
        format.is_some_and(|format| format.without_text().next().is_some())
    };
    let first = roles.iter().find(lacks)?;
    let refusal = user_text::refusal()?;
    Some(format!("{}: text arguments are read as addresses; {refusal}", first.event.name))
}

/// Label of USDT probes.
const USDT: &str = "usdt";
/// Maximum number of notes about arguments.
const UNREAD_MAX: usize = 4;

/// Returns notes about the first USDT probes with arguments that cannot be read, with the reasons.
pub(super) fn unread_arguments(roles: &[Role]) -> Vec<String> {
    let probes = roles.iter().map(|role| &role.event).filter(|event| event.kind().label() == USDT);
    let all = probes.flat_map(|event| {
        let omitted = event.format().map_or(&[][..], |format| &format.omitted);
        let note =
            |one: &OmittedField| format!("{}: {} is omitted: it {}", event.name, one.name, one.why);
        omitted.iter().map(note).collect::<Vec<_>>()
    });
    let notes: BTreeSet<String> = all.collect();
    let more = notes.len().saturating_sub(UNREAD_MAX);
    let more = (more > 0).then(|| {
        format!(
            "{} of probes omitted; perilune list -v shows all",
            counted(more as u64, "further argument")
        )
    });
    notes.into_iter().take(UNREAD_MAX).chain(more).collect()
}

/// The cost of kernel tracing for the task that causes the event; measured on kernel 6.18 in a
/// virtual machine.
const REJECTED: &str = "160-180 ns per rejected event";
const RECEIVED: &str = "500-900 ns per received event, plus perilune's own time";

fn joined<T: AsRef<str>>(conditions: &[T]) -> String {
    let one = |text: &T| match text.as_ref() {
        text if conditions.len() > 1 && text.contains("||") => format!("({text})"),
        text => text.to_owned(),
    };
    conditions.iter().map(one).collect::<Vec<_>>().join(" && ")
}

/// Returns a note about events rejected in user space over the whole run; `None` without any.
pub(super) fn rejected_in_user_space(coverage: &Coverage) -> Option<String> {
    let received = coverage.events + coverage.filtered;
    (coverage.filtered > 0).then(|| {
        let filtered = coverage.filtered;
        format!("{filtered} of {received} received events were rejected by user-space filters")
    })
}

/// Binds each role's filter to its event's format.
///
/// # Errors
/// A filter does not fit its event, or only the kernel can evaluate it.
pub(super) fn bind(roles: &[Role]) -> anyhow::Result<Vec<Option<BoundFilter>>> {
    let bound = |role: &Role| match (&role.filter, role.event.format()) {
        (Some(filter), Some(format)) => Ok(Some(filter.bind(&role.event.name, format)?)),
        _ => Ok(None),
    };
    roles.iter().map(bound).collect()
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::decode::format::Format;
    use crate::event::filter::split::Split;
    use crate::event::kind::function::{FunctionEvent, FunctionLocation, ProbeKind};
    use crate::event::kind::{Event, Tracepoint};
    use crate::event::sampling::Sampling;

    fn role(filter: &str) -> Role {
        let format =
            Format::parse("name: x\nID: 1\nfield:int pid; offset:8; size:4; signed:1;\n").unwrap();
        let event = Event::new("a:x", Tracepoint { format });
        let split = Split::parse(filter, &event).unwrap();
        let sampling = Sampling::default();
        let (event, filter, rest) = (Rc::new(event), split.kernel, split.rest);
        Role { event, glob: None, filter, rest, task: None, sampling }
    }

    #[test]
    fn events_filtered_by_text_in_memory_are_named() {
        let mut of_text = role("pid == 1");
        assert_eq!(user_text(&[of_text.clone()]), None);
        of_text.filter = Some(Filter::parse("pid == 1 && !(pid.ustring ~ \"a*\")").unwrap());
        let note = user_text(&[of_text.clone(), of_text]).unwrap();
        assert!(note.starts_with("a:x: filtered by text in the task's memory"), "{note}");
    }

    #[test]
    fn each_line_names_the_place_of_the_filter_and_its_cost() {
        let lines =
            |filter| explain(&[role(filter)], EventOrigin::Kernel(&BTreeSet::new())).join("\n");
        assert_eq!(
            lines("pid > 1 && CPU == 0"),
            format!("a:x: filtered in the kernel: pid > 1 && CPU == 0 ({REJECTED})")
        );
        assert_eq!(lines("pid"), format!("a:x: filtered in user space: pid ({RECEIVED})"));
        assert_eq!(
            lines("(pid == 1 || pid == 2) && _tid && CPU == 0"),
            format!(
                "a:x: filtered in the kernel: (pid == 1 || pid == 2) && CPU == 0 ({REJECTED}); \
                 then in user space: _tid ({RECEIVED})"
            )
        );
        assert_eq!(
            explain(&[role("pid == 1 && _tid")], EventOrigin::File),
            ["a:x: filtered in user space: pid == 1 && _tid"]
        );
    }

    #[test]
    fn arguments_of_usdt_probes_that_cannot_be_read_are_named() {
        let omitted = OmittedField { name: "arg2".to_owned(), why: "is at `8(%rip)`".to_owned() };
        let format = Format { omitted: vec![omitted], ..Format::default() };
        let place = FunctionLocation::in_kernel(c"x".to_owned(), 0);
        let of = |kind| {
            let event = FunctionEvent { kind, format: format.clone(), place: place.clone() };
            Role { event: Rc::new(Event::new("usdt:x:p:n", event)), ..role("pid == 1") }
        };
        let notes = unread_arguments(&[of(ProbeKind::Usdt), of(ProbeKind::Usdt)]);
        assert_eq!(notes, ["usdt:x:p:n: arg2 is omitted: it is at `8(%rip)`"]);
        assert!(unread_arguments(&[of(ProbeKind::Uprobe), role("pid == 1")]).is_empty());
    }
}
