//! Plans which counts of a script the kernel does.

use std::collections::BTreeMap;

use super::Reason;
use crate::bpf::call_chain::{CHAIN_DEPTH_MAX, ChainShape};
use crate::bpf::count::{CountLayout, CountedEvent, ScopedTask, SummedValue};
use crate::bpf::key::{KeyPart, KeyShape};
use crate::bpf::record_text::RecordText;
use crate::decode::format::Format;
use crate::event::expr::in_kernel::KernelExpr;
use crate::event::filter::split::{Condition, UserCondition};
use crate::event::sampling::{CallGraph, Sampling};
use crate::run::request::{CountingPlace, RunOptions};
use crate::script::evsel::role::{DeclaredCount, Role};
use crate::script::host::Host;
use crate::source::counting::{CountedRole, CountedTable, ProgramPlace};
use crate::source::request::SourceRequest;
use crate::symbol::RawTracepoints;
use crate::sys::machine::sysctl;

/// Why names of cgroups are read from records.
pub(super) const LATE_NAMES: &str = "a cgroup that is removed before the report would have no name";

/// Why text whose length is not bounded is read from records.
const CUT_TEXT: &str = "a text of more than 63 bytes would be cut";

/// Why user stacks are read from records.
const USER_STACKS: &str = "the names of user stacks may be lost if programs last milliseconds";

/// The decision, event by event.
pub(super) struct CountPlan<'a> {
    pub(super) roles: &'a [Role],
    pub(super) source: &'a SourceRequest,
    pub(super) settings: &'a RunOptions,
    /// Why roles are counted in user space.
    pub(super) reasons: BTreeMap<usize, Reason>,
    /// Where programs of tracepoints may run.
    pub(super) raw: RawTracepoints,
}

impl<'a> CountPlan<'a> {
    pub(super) fn new(
        roles: &'a [Role],
        source: &'a SourceRequest,
        settings: &'a RunOptions,
    ) -> CountPlan<'a> {
        let (reasons, raw) = (BTreeMap::new(), RawTracepoints::default());
        CountPlan { roles, source, settings, reasons, raw }
    }

    pub(super) fn is_auto(&self) -> bool {
        self.settings.counting == CountingPlace::Auto
    }

    /// Plans a table; all of its events are counted in the same place. With `--budget`, which needs
    /// raw tracepoints, events whose programs may interrupt each other have a table each.
    pub(super) fn table(
        &self,
        host: &Host,
        number: usize,
        counts: &[&(DeclaredCount, std::ops::Range<usize>)],
    ) -> Result<Vec<CountedTable>, Reason> {
        let (sums, named) = host.shape_of_counts(number).unwrap_or_default();
        let mut roles = Vec::new();
        for (count, range) in counts {
            for role in range.clone() {
                let of_event = |why| match counts.len() > 1 || range.len() > 1 {
                    true => format!("{}: {why}", self.roles[role].event.name),
                    false => why,
                };
                let of = &self.roles[role];
                let planned = self.event(role, |format| self.counted(count, format, (of, named)));
                roles.push(planned.map_err(of_event)?);
            }
        }
        let first = roles.first().ok_or("it has no event")?;
        let key = KeyShape::of(&first.counted.key);
        if roles.iter().any(|role| KeyShape::of(&role.counted.key) != key) {
            return Err("its keys differ in size or type".to_owned());
        }
        let mixes = may_mix(&roles.iter().map(|role| &role.place).collect::<Vec<_>>());
        let is_budgeted = self.settings.budget.is_some();
        if mixes && !is_budgeted {
            roles.iter_mut().for_each(|role| role.place = ProgramPlace::default());
        }
        // Each event of a table with a single one adds to all of its columns.
        let constants = match &roles[..] {
            [role] => {
                let sums = role.counted.sums.iter();
                sums.filter_map(|sum| Some((sum.column, sum.constant()?))).collect()
            }
            _ => Vec::new(),
        };
        let layout = CountLayout { key, named, sums, constants };
        match layout.fits() {
            true if mixes && is_budgeted => {
                let of_role = |role| CountedTable { layout: layout.clone(), roles: vec![role] };
                Ok(roles.into_iter().map(of_role).collect())
            }
            true => Ok(vec![CountedTable { layout, roles }]),
            false => Err("its keys and sums are too large".to_owned()),
        }
    }

    /// Plans an event; `lower` returns its expressions.
    pub(super) fn event(
        &self,
        index: usize,
        lower: impl FnOnce(&Format) -> Result<CountedEvent, Reason>,
    ) -> Result<CountedRole, Reason> {
        let role = &self.roles[index];
        let event = &role.event;
        let Some(format) = event.kind().raw_format().filter(|_| !event.kind().is_probe()) else {
            return Err("it is not a tracepoint".to_owned());
        };
        let own = &role.sampling;
        let plain = Sampling {
            cpus: own.cpus.clone(),
            hide_self: own.hide_self,
            functions: own.functions,
            whole_cpus: own.whole_cpus,
            all_tasks: own.all_tasks,
            // `KernelExpr::parse` refuses an expression that reads one other than the cgroup.
            extra: own.extra,
            // Without `_stack` in its key, a count does not need the chain.
            stack: own.stack,
            ..Sampling::default()
        };
        if *own != plain {
            return Err("its samples have options or fields of their own".to_owned());
        }
        if self.source.off.contains(&(index as u32)) {
            return Err("it is off at the start".to_owned());
        }
        let mut event_counts = lower(format)?;
        event_counts.cpus = if own.all_tasks { None } else { self.cpus(role) };
        let (watches_tasks, has_cgroup) =
            (self.source.tasks.is_some(), self.settings.cgroup.is_some());
        let is_of_current = event_counts.scoped == ScopedTask::Current;
        if role.task.is_some() && (has_cgroup || watches_tasks && is_of_current)
            || own.all_tasks && is_of_current && (watches_tasks || has_cgroup)
        {
            return Err("its events are about other tasks than those that raise them".to_owned());
        }
        if self.source.omits_self(event, own) && event.is_interrupt() {
            return Err("only a record shows whether an interrupt hit perilune".to_owned());
        }
        event_counts.omitted = self.source.omitted_tids(event, own).to_vec();
        // Chains are those of records at the tracepoint: a raw one has other registers.
        let has_chain = event_counts.key.iter().any(is_chain);
        let raw = if has_chain { None } else { self.raw.find(event) };
        let mut planned = CountedRole {
            role: index as u32,
            event: event.clone(),
            counted: event_counts,
            filters: Vec::new(),
            place: ProgramPlace { raw, only_raw: false },
        };
        add_filters(&mut planned, role, format)?;
        Ok(planned)
    }

    /// Returns the CPUs of an event; None for all.
    fn cpus(&self, role: &Role) -> Option<Vec<u32>> {
        let watched =
            (self.source.watched != self.source.cpus).then(|| self.source.watched.clone());
        match (&role.sampling.cpus, watched) {
            (Some(own), Some(watched)) => {
                Some(own.iter().copied().filter(|cpu| watched.contains(cpu)).collect())
            }
            (own, watched) => own.clone().or(watched),
        }
    }

    fn counted(
        &self,
        count: &DeclaredCount,
        format: &Format,
        (role, named): (&Role, bool),
    ) -> Result<CountedEvent, Reason> {
        let lowered =
            |text: &String| KernelExpr::parse(text, format).map_err(|why| why.to_string());
        let mut event = CountedEvent::default();
        for text in &count.keys {
            event.key.push(match lowered(text)? {
                KernelExpr::Integer(..) if count.mixed => {
                    return Err("values of different types share a column".to_owned());
                }
                KernelExpr::Integer(node, _) => KeyPart::Integer(node),
                KernelExpr::Text(text) => text_part(text, !self.is_auto())?,
                KernelExpr::Cgroup(text) => {
                    if self.is_auto() && !count.late_names {
                        return Err(LATE_NAMES.to_owned());
                    }
                    KeyPart::Cgroup(text)
                }
                KernelExpr::Chain if event.key.iter().any(is_chain) => {
                    return Err("a key with two stacks".to_owned());
                }
                KernelExpr::Chain => {
                    let chain = chain(role)?;
                    if self.is_auto() && chain.user {
                        return Err(USER_STACKS.to_owned());
                    }
                    KeyPart::Chain(chain)
                }
            });
        }
        if let Some(text) = &count.condition {
            match lowered(text)? {
                KernelExpr::Integer(node, _) => event.conditions.push(node),
                _ => return Err("a condition of text".to_owned()),
            }
        }
        for (i, text) in count.sums.iter().enumerate() {
            let KernelExpr::Integer(value, of) = lowered(text)? else {
                return Err("a sum of text".to_owned());
            };
            event.sums.push(SummedValue { column: count.first + i, value, of });
        }
        match count.name.as_ref().filter(|_| named).map(lowered).transpose()? {
            Some(KernelExpr::Text(text)) if text.words() == 2 => event.name = Some(text),
            None => {}
            Some(_) => return Err("a name that is not of 16 bytes".to_owned()),
        }
        Ok(event)
    }
}

/// Returns a part of a key that is text; `may_cut` is false if only whole texts are accepted.
pub(super) fn text_part(text: RecordText, may_cut: bool) -> Result<KeyPart, Reason> {
    match may_cut || !text.may_be_cut() {
        true => Ok(KeyPart::Text(text)),
        false => Err(CUT_TEXT.to_owned()),
    }
}

/// Returns whether one of these programs may run in the middle of another one. Programs of one
/// table change the same values, which takes several instructions.
pub(super) fn may_mix(places: &[&ProgramPlace]) -> bool {
    let others = |i: usize| places.iter().enumerate().filter(move |(other, _)| *other != i);
    let mut all = places.iter().enumerate();
    all.any(|(i, one)| others(i).any(|(_, other)| one.may_interrupt(other)))
}

fn is_chain(part: &KeyPart) -> bool {
    matches!(part, KeyPart::Chain(_))
}

/// Returns the call chain of a role's event.
fn chain(role: &Role) -> Result<ChainShape, Reason> {
    let stack = role.sampling.stack.ok_or("its samples have no stack")?;
    if stack.user() && stack.walk != CallGraph::FramePointers {
        return Err("user stacks without frame pointers".to_owned());
    }
    let limit: Option<usize> = sysctl("kernel/perf_event_max_stack");
    let depth = stack.depth.map_or(limit.unwrap_or(CHAIN_DEPTH_MAX), usize::from);
    // Records of single system calls have the registers of user space, so their chains begin there.
    let kernel = stack.kernel() && !role.event.name.starts_with("syscalls:");
    match depth {
        1..=CHAIN_DEPTH_MAX => Ok(ChainShape { kernel, user: stack.user(), depth }),
        _ => Err(format!("stacks of up to {depth} frames")),
    }
}

/// Adds the filters of a role.
fn add_filters(planned: &mut CountedRole, role: &Role, format: &Format) -> Result<(), Reason> {
    let only = |text: &str| format!("the filter '{text}'");
    if let Some(filter) = &role.filter {
        for part in filter.conjuncts() {
            match part.bind(&role.event.name, format) {
                Ok(bound) if bound.is_assemblable() => planned.filters.push(bound),
                _ => return Err(only(&part.to_kernel())),
            }
        }
    }
    for UserCondition { text, condition } in &role.rest {
        match condition {
            Condition::Kernel(bound) if bound.is_assemblable() => {
                planned.filters.push(bound.clone());
            }
            Condition::Value(_) => match KernelExpr::parse(text, format) {
                Ok(KernelExpr::Integer(node, _)) => planned.counted.conditions.push(node),
                _ => return Err(only(text)),
            },
            _ => return Err(only(text)),
        }
    }
    Ok(())
}
