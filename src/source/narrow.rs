//! Setting an event's filter, also where the kernel takes less than we thought.
//!
//! Our own check of filters follows a recent kernel; an older one lacks kinds of fields and operators, and any has fewer
//! CPUs than a list may name. So a refusal is no end: each condition is tried on an event of its own, and what
//! the kernel does not take is left to whoever handles the records. A count has no records: there it is the end.

use super::open::{Opening, Refused};
use crate::event::catalog::What;
use crate::event::filter::{Bound, Filter, KernelOnly, LONGEST, split::Rest};
use crate::sys::kernel_functions::function_range;
use crate::sys::perf::Event;
use crate::sys::refusal::Refusal;

/// Bits of `common_flags`: in a hard interrupt, or a soft one.
const IN_INTERRUPT: u32 = 0x8 | 0x10;

/// The text for the kernel, `(the filter) && common_pid != own`, for each own thread: a run does not watch itself. What
/// interrupted it is not its own doing.
pub(super) fn kernel_text(
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

/// What became of a filter.
pub(super) struct Narrowed {
    /// The text that the event has now, and all others of the opening are to have.
    pub(super) text: Option<String>,
    /// What the kernel did not take, as conditions for user space.
    pub(super) refused: Vec<Rest>,
}

/// Sets on an open event what the kernel takes of its opening's filter. `again` opens another such event, to try on.
///
/// # Errors
/// The kernel refuses what only it can tell, or the filter of a count, or refuses for another reason than the text.
pub(super) fn set_what_it_takes(
    event: &Event,
    opening: &Opening,
    own: &[i32],
    again: &dyn Fn() -> Result<Event, Refusal>,
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
            "{}: the kernel refuses the filter '{}', and a count has no records to look at here; \
             leave out what it does not know",
            opening.event.name,
            brief(&filter.to_kernel())
        );
    }
    let (mut taken, mut refused): (Option<Filter>, Vec<Filter>) = (None, Vec::new());
    // Where roles have filters of their own, they have to check these, if not the kernel checks that one is met.
    let parts = if opening.rechecked() { vec![filter.clone()] } else { filter.conjuncts() };
    for part in parts {
        let joined = match &taken {
            Some(before) => before.clone().and(part.clone()),
            None => part.clone(),
        };
        let text = kernel_text(Some(&joined), own, interrupts).unwrap_or_default();
        if text.len() <= LONGEST && again()?.set_filter(&text).is_ok() {
            taken = Some(joined);
        } else {
            refused.push(part);
        }
    }
    let text = kernel_text(taken.as_ref(), own, interrupts);
    if let Some(text) = &text {
        event.set_filter(text)?;
    }
    let refused = refused.iter().map(|part| here(opening, part)).collect::<Result<_, _>>()?;
    Ok(Narrowed { text, refused })
}

/// Whether another text might do.
fn is_about_the_text(why: &Refusal) -> bool {
    !matches!(why.errno, libc::EEXIST | libc::ENOMEM | libc::EBADF | libc::ENOTTY)
}

/// A refused condition, for user space.
fn here(opening: &Opening, part: &Filter) -> anyhow::Result<Rest> {
    let name = &opening.event.name;
    let What::Tracepoint { format } = &opening.event.what else {
        anyhow::bail!("{name}: only a tracepoint has a filter");
    };
    match part.bind(name, format) {
        Ok(bound) => Ok(Rest::of_kernel(part, bound)),
        Err(KernelOnly::Unfit(fault)) => Err(fault.into()),
        Err(KernelOnly::UserText(only)) => anyhow::bail!(
            "{name}: this kernel cannot compare text in user memory, and refuses '{only}'; \
             remove the condition, and filter by numbers or by COMM"
        ),
        Err(KernelOnly::Condition(only)) => anyhow::bail!(
            "{name}: the kernel refuses the filter '{only}', and only it could tell: is the name in /proc/kallsyms? \
             Else leave it out"
        ),
    }
}

impl Opening {
    /// Whether its roles check filters of their own.
    fn rechecked(&self) -> bool {
        self.roles.iter().any(|(_, own)| own.is_some())
    }

    /// What each of its roles has to check: where they have filters of their own, all of that, else what was refused.
    pub(super) fn hand_over(&self, refused: &[Rest]) -> Vec<Refused> {
        let own = |(role, own): &(u32, Option<Bound>)| {
            own.is_some().then_some(Refused { role: *role, rest: None })
        };
        if refused.is_empty() {
            return Vec::new();
        }
        if self.rechecked() {
            return self.roles.iter().filter_map(own).collect();
        }
        let each = |rest: &Rest, role: u32| Refused { role, rest: Some(rest.clone()) };
        let roles = self.roles.iter().map(|(role, _)| *role);
        roles.flat_map(|role| refused.iter().map(move |rest| each(rest, role))).collect()
    }
}

/// What to tell of a condition that the kernel refused.
pub(super) fn remark(opening: &Opening, rest: &Rest) -> String {
    format!(
        "{}: this kernel refuses the filter '{}': checked here, at the price of a record for each event",
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
    use crate::event::catalog::Event as Described;
    use crate::event::sampling::Sampling;
    use std::rc::Rc;

    #[test]
    fn a_kernel_without_text_of_tasks_is_named_as_the_reason() {
        let format = Format::parse(
            "name: sys_enter_openat\nID: 1\n\
             field:const char * filename; offset:24; size:8; signed:0;\n",
        );
        let name = "syscalls:sys_enter_openat";
        let format = format.unwrap();
        let part = Filter::parse("filename ~ \"*x\"").unwrap().for_event(name, &format);
        let opening = Opening {
            event: Rc::new(Described { name: name.into(), what: What::Tracepoint { format } }),
            glob: None,
            filter: Some(part.clone()),
            sampling: Sampling::default(),
            roles: Vec::new(),
            about: Vec::new(),
        };
        assert_eq!(
            here(&opening, &part).unwrap_err().to_string(),
            "syscalls:sys_enter_openat: this kernel cannot compare text in user memory, and \
             refuses 'filename.ustring ~ \"**x\"'; remove the condition, and filter by numbers or by COMM"
        );
    }
}
