//! Creates the decoder of an opening: which roles take its records, and what must be checked.

use std::cell::Cell;

use anyhow::ensure;
use perf_event_open_sys::bindings as abi;

use super::{attr, own_id};
use crate::decode::sample::RecordLayout;
use crate::event::kind::EventProperties;
use crate::event::sample_field::FieldValue;
use crate::event::sampling::Sampling;
use crate::source::request::{Opening, RefusedCondition, ServedRole, SourceRequest};
use crate::source::ring::cgroup_records::CgroupRecord;
use crate::source::ring::chains::Chained;
use crate::source::ring::decoder::{CallRegisters, Decoder, Recipient, TimeSpan};
use crate::source::ring::group_counts::GroupCounts;
use crate::source::ring::weights::SampleWeights;
use crate::sys::attr::Attr;
use crate::sys::machine::{branches_remembered, sysctl};
use crate::sys::namespace::in_root_pid_namespace;

/// Returns the decoder of an opening whose events have this attr. `refused` are the parts of
/// its filter that the kernel refused, `rings` the CPUs of the rings, in order.
///
/// # Errors
/// Its records cannot be limited to the watched tasks.
pub(super) fn of_opening(
    opening: &Opening,
    request: &SourceRequest,
    attr: &Attr,
    refused: &[RefusedCondition],
    rings: impl Iterator<Item = u32>,
    tasks_checked: bool,
) -> anyhow::Result<Decoder> {
    let (event, sampling) = (opening.event.kind(), &opening.sampling);
    let layout = RecordLayout::new(attr::shape(attr));
    let inherit = attr.get("inherit") == Some(1);
    let all_checked = refused.iter().any(|refused| refused.rest.is_none());
    let mut recipients = opening.recipients();
    for recipient in &mut recipients {
        recipient.own = recipient.own.take().filter(|_| !all_checked);
        if !request.off.contains(&recipient.role) {
            recipient.span = TimeSpan::since(0);
        }
    }
    let about = opening.is_about_others();
    let of_tasks =
        !sampling.all_tasks && (request.tasks.is_some() || request.cgroups.is_some() && about);
    ensure!(
        !(of_tasks && about) || in_root_pid_namespace(),
        "{}: its records name the task by its number in the initial PID namespace, and perilune \
         runs in another one, so they cannot be limited to tasks; run it there (docker: \
         --pid=host), or watch all tasks",
        opening.event.name
    );
    let by_thread = of_tasks && (tasks_checked || opening.is_cpu_wide() && !about);
    let sample_counts = match opening.clock_hz() {
        Some(_) => rings.map(|cpu| (cpu, Cell::new(0))).collect(),
        None => Vec::new(),
    };
    let cgroup = opening.follows_cgroups.then(|| {
        let sample_type = attr.get("sample_type").unwrap_or(0);
        CgroupRecord::of(&opening.event, sample_type).map(Box::new)
    });
    let has_own_id = own_id::is_in(&layout, attr);
    let mut decoder = Decoder {
        recipients,
        cgroup: cgroup.flatten(),
        sample_counts,
        time_at: layout.time_offset(),
        has_task: layout.shape().samples(abi::PERF_SAMPLE_TID),
        has_id: opening.parts.id,
        plain: None,
        whole: None,
        span: TimeSpan::NEVER,
        filtered_by_task: of_tasks && opening.is_cpu_wide() || by_thread,
        by_thread,
        registers: event.registers().map(|registers| CallRegisters {
            mask: registers.mask,
            of_any_task: registers.of_any_task,
        }),
        counts: (!opening.event.counted.is_empty()).then(|| {
            let with_totals = sampling.extra.has(FieldValue::Totals);
            Box::new(GroupCounts::new(opening.event.counted.len(), inherit, with_totals))
        }),
        weights: sampling.weighed.then(|| Box::new(SampleWeights::default())),
        unset: event
            .raw_format()
            .map(|format| &format.unset)
            .and_then(|unset| (!unset.is_empty()).then(|| Box::new(unset.clone()))),
        has_tail: !sampling.extra.is_empty(),
        pairs: opening.pairs.clone(),
        whole_cpus: opening.is_cpu_wide(),
        filtered: refused.is_empty(),
        has_own_id,
        layout,
        chained: chained(event, sampling, has_own_id),
        raw_min: opening.raw_min(),
        hide_self: !request.watch_self && opening.hides_self(),
        common_pid: opening.common_pid().filter(|_| opening.pairs.is_none()),
        samples_each: opening.samples_each() && !is_output(attr),
    };
    decoder.update_plain();
    Ok(decoder)
}

/// Returns how the chains of an event are made; None if it has none. With `shared`, a chain can be
/// the one that another event requested.
fn chained(event: &dyn EventProperties, sampling: &Sampling, shared: bool) -> Option<Chained> {
    let stack = sampling.stack?;
    let depth = sysctl("kernel/perf_event_max_stack");
    let chained = Chained::new(stack, depth, branches_remembered());
    Some(chained.entered(attr::is_entered(event, &stack)).shared(shared))
}

/// Returns whether a BPF program writes to the events: these do not count.
fn is_output(attr: &Attr) -> bool {
    let attr = attr.as_raw();
    (attr.type_, attr.config) == (abi::PERF_TYPE_SOFTWARE, abi::PERF_COUNT_SW_BPF_OUTPUT.into())
}

impl Opening {
    /// Returns whether samples of this process are dropped in user space because no in-kernel
    /// filter excludes them: those of counters and clocks; those of functions, since in a container
    /// without tracefs the thread IDs for their filter are not known; and those of the scheduler,
    /// if events are not related to each other.
    pub(in crate::source) fn hides_self(&self) -> bool {
        let event = self.event.kind();
        let tracepoint = event.raw_format().is_some() && !event.is_probe();
        let ours = self.event.is_scheduler_event() && !self.event.is_interrupt();
        !tracepoint || self.sampling.hide_self && ours
    }

    /// Returns the offset of the thread ID in a tracepoint's record; None in a PID namespace, where
    /// it differs from the thread ID that this process sees.
    pub(in crate::source) fn common_pid(&self) -> Option<usize> {
        self.event.kind().raw_format()?.common_pid().filter(|_| in_root_pid_namespace())
    }

    /// Returns the minimum size of a raw record, in bytes.
    fn raw_min(&self) -> usize {
        match &self.pairs {
            Some(pairs) => pairs.records.places.bytes,
            None => self.event.format().map_or(0, |format| format.fixed_size),
        }
    }

    /// Returns the numbers of its roles.
    pub(in crate::source) fn named(&self) -> impl Iterator<Item = u32> {
        self.roles.iter().map(|served| served.role)
    }

    /// Returns its roles, turned off.
    pub(in crate::source) fn recipients(&self) -> Vec<Recipient> {
        let recipient = |served: &ServedRole| Recipient {
            role: served.role,
            own: served.own_filter.clone(),
            about: served.about,
            span: TimeSpan::NEVER,
            gone: false,
        };
        self.roles.iter().map(recipient).collect()
    }
}
