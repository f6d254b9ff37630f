//! Sets an event's filter, even if the kernel accepts less than expected.
//!
//! perilune's own check of filters follows a recent kernel; an older one lacks types of fields and
//! operators, and any has fewer CPUs than a list may name. A refusal is therefore not final: each
//! condition is tried on an event of its own, and what the kernel refuses is left to the handler of
//! the records. A count has no records, so its refusal is final.

use crate::event::filter::{BoundFilter, Filter, KernelOnly, LONGEST, split::UserCondition};
use crate::source::request::{Opening, RefusedCondition, ServedRole};
use crate::sys::kernel_functions::function_range;
use crate::sys::perf::PerfEvent;
use crate::sys::refusal::Refusal;

/// Bits of `common_flags`: in a hard interrupt, or in a soft one.
const IN_INTERRUPT: u32 = 0x8 | 0x10;

/// Returns the text for the kernel, `(the filter) && common_pid != own`, for each own thread: a run
/// does not watch itself. With `interrupts`, events in interrupts of these threads are kept:
/// perilune does not cause them.
pub(in crate::source) fn kernel_text(
    filter: Option<&Filter>,
    own: &[i32],
    interrupts: bool,
) -> Option<String> {
    let other = |tid: &i32| match interrupts {
        true => format!("(common_pid != {tid} || common_flags & {IN_INTERRUPT})"),
        false => format!("common_pid != {tid}"),
    };
    let others: Vec<String> = own.iter().map(other).collect();
    let others = others.join(" && ");
    match (filter, others.is_empty()) {
        (filter, true) => filter.map(Filter::to_kernel),
        (Some(filter), false) => Some(filter.to_kernel_and(&others)),
        (None, false) => Some(others),
    }
}

/// Result of setting a filter.
pub(in crate::source) struct Narrowed {
    /// The text that the event has now, and that all others of the opening must get.
    pub(in crate::source) text: Option<String>,
    /// Conditions that the kernel refused, for user space.
    pub(in crate::source) refused: Vec<UserCondition>,
}

/// Sets as much of an opening's filter on an open event as the kernel accepts. `again` opens
/// another such event, for trials.
///
/// # Errors
/// The kernel refuses a condition that only it can check, or the filter of a count, or it refuses
/// for another reason than the text.
pub(in crate::source) fn set_accepted_parts(
    event: &PerfEvent,
    opening: &Opening,
    own: &[i32],
    again: &dyn Fn() -> Result<PerfEvent, Refusal>,
) -> anyhow::Result<Narrowed> {
    let interrupts = opening.event.is_interrupt();
    let whole = kernel_text(opening.filter.as_ref(), own, interrupts);
    let Some(text) = &whole else { return Ok(Narrowed { text: whole, refused: Vec::new() }) };
    let why = match event.set_filter(text) {
        Ok(()) => return Ok(Narrowed { text: whole, refused: Vec::new() }),
        Err(why) if is_about_the_text(&why) => why,
        Err(why) => return Err(why.into()),
    };
    let Some(filter) = &opening.filter else { return Err(why.into()) };
    let by_address = filter.by_address(&function_range);
    if by_address.to_kernel() != filter.to_kernel()
        && let Some(text) = kernel_text(Some(&by_address), own, interrupts)
        && again()?.set_filter(&text).is_ok()
    {
        event.set_filter(&text)?;
        return Ok(Narrowed { text: Some(text), refused: Vec::new() });
    }
    if opening.sampling.count {
        anyhow::bail!(
            "{}: the kernel refuses the filter '{}', and a count has no records to filter in user \
             space; omit the condition that it does not support",
            opening.event.name,
            brief(&filter.to_kernel())
        );
    }
    let (mut accepted, mut refused): (Option<Filter>, Vec<Filter>) = (None, Vec::new());
    for part in parts(opening, filter) {
        let joined = match &accepted {
            Some(before) => before.clone().and(part.clone()),
            None => part.clone(),
        };
        let text = kernel_text(Some(&joined), own, interrupts).unwrap_or_default();
        if text.len() <= LONGEST && again()?.set_filter(&text).is_ok() {
            accepted = Some(joined);
        } else {
            refused.push(part);
        }
    }
    let text = kernel_text(accepted.as_ref(), own, interrupts);
    if let Some(text) = &text {
        event.set_filter(text)?;
    }
    let refused =
        refused.iter().map(|part| in_user_space(opening, part)).collect::<Result<_, _>>()?;
    Ok(Narrowed { text, refused })
}

/// Conditions of an opening whose records a BPF program writes. A filter of perf would apply after
/// the program.
#[derive(Default)]
pub(in crate::source) struct ProgramFilter {
    /// Conditions that the program checks.
    pub(in crate::source) checked: Vec<BoundFilter>,
    /// Conditions for user space.
    pub(in crate::source) refused: Vec<UserCondition>,
}

impl ProgramFilter {
    /// Splits the filter of an opening.
    ///
    /// # Errors
    /// Only the kernel can check a condition.
    pub(in crate::source) fn of(opening: &Opening) -> anyhow::Result<ProgramFilter> {
        let mut split = ProgramFilter::default();
        let (Some(filter), Some(format)) = (&opening.filter, opening.event.kind().raw_format())
        else {
            return Ok(split);
        };
        for part in parts(opening, filter) {
            match part.bind(&opening.event.name, format) {
                Ok(bound) if bound.is_assemblable() => split.checked.push(bound),
                _ => split.refused.push(in_user_space(opening, &part)?),
            }
        }
        Ok(split)
    }
}

/// Returns the conditions that can be set or left out one by one. If roles have filters of their
/// own, this one requires that any of them is met, and is not split: if the kernel refuses it, the
/// roles check their own.
fn parts(opening: &Opening, filter: &Filter) -> Vec<Filter> {
    if opening.rechecked() { vec![filter.clone()] } else { filter.conjuncts() }
}

/// Returns whether the kernel may accept another text.
fn is_about_the_text(why: &Refusal) -> bool {
    !matches!(why.errno, libc::EEXIST | libc::ENOMEM | libc::EBADF | libc::ENOTTY)
}

/// Returns a refused condition in the form for user space.
fn in_user_space(opening: &Opening, part: &Filter) -> anyhow::Result<UserCondition> {
    let name = &opening.event.name;
    let Some(format) = opening.event.kind().raw_format() else {
        anyhow::bail!("{name}: only tracepoints support a filter");
    };
    match part.bind(name, format) {
        Ok(bound) => Ok(UserCondition::of_kernel(part, bound)),
        Err(KernelOnly::Unfit(fault)) => Err(fault.into()),
        Err(KernelOnly::UserText(only)) => anyhow::bail!(
            "{name}: this kernel cannot compare text in user memory, and refuses '{only}'; \
             remove the condition, and filter by numbers or by COMM"
        ),
        Err(KernelOnly::Condition(only)) => anyhow::bail!(
            "{name}: the kernel refuses the filter '{only}', which only the kernel can check; use \
             a name from /proc/kallsyms, or omit the condition"
        ),
    }
}

impl Opening {
    /// Returns whether its roles check filters of their own.
    fn rechecked(&self) -> bool {
        self.roles.iter().any(|served| served.own_filter.is_some())
    }

    /// Returns what each of its roles must check: its whole filter if roles have filters of their
    /// own, else what was refused.
    pub(in crate::source) fn hand_over(&self, refused: &[UserCondition]) -> Vec<RefusedCondition> {
        let own = |served: &ServedRole| {
            let refused = RefusedCondition { role: served.role, rest: None };
            served.own_filter.is_some().then_some(refused)
        };
        if refused.is_empty() {
            return Vec::new();
        }
        if self.rechecked() {
            return self.roles.iter().filter_map(own).collect();
        }
        let each =
            |rest: &UserCondition, role: u32| RefusedCondition { role, rest: Some(rest.clone()) };
        self.named().flat_map(|role| refused.iter().map(move |rest| each(rest, role))).collect()
    }
}

/// Returns the remark about a condition that the kernel refused.
pub(in crate::source) fn remark(opening: &Opening, rest: &UserCondition) -> String {
    format!(
        "{}: this kernel refuses the filter '{}': it is checked in user space, at the cost of a \
         record for each event",
        opening.event.name,
        brief(&rest.text)
    )
}

fn brief(text: &str) -> String {
    const SHOWN: usize = 120;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::format::Format;
    use crate::event::kind::{Event, Tracepoint};
    use crate::event::sampling::Sampling;
    use std::rc::Rc;

    #[test]
    fn the_error_names_a_kernel_that_cannot_compare_user_text() {
        let format = Format::parse(
            "name: sys_enter_openat\nID: 1\n\
             field:const char * filename; offset:24; size:8; signed:0;\n",
        );
        let name = "syscalls:sys_enter_openat";
        let format = format.unwrap();
        let part = Filter::parse("filename ~ \"*x\"").unwrap().for_event(name, &format);
        let opening = Opening {
            event: Rc::new(Event::new(name, Tracepoint { format })),
            glob: None,
            filter: Some(part.clone()),
            sampling: Sampling::default(),
            parts: crate::source::request::SampleParts::ALL,
            roles: Vec::new(),
            follows_cgroups: false,
            pairs: None,
        };
        assert_eq!(
            in_user_space(&opening, &part).unwrap_err().to_string(),
            "syscalls:sys_enter_openat: this kernel cannot compare text in user memory, and \
             refuses 'filename.ustring ~ \"**x\"'; remove the condition, and filter by numbers or \
             by COMM"
        );
    }
}
