//! Builds a `perf_event_attr` from an event and its sampling options.

use perf_event_open_sys::bindings as abi;

use super::script_fields;
use crate::decode::record_attrs::RecordAttrs;
use crate::event::kind::{EventAttr, EventProperties};
use crate::event::sampling::{CallGraph, Sampling, StackSampling};
use crate::source::request::MappingRecords;
use crate::source::side_record::SideKinds;
use crate::sys::attr::Attr;
use crate::sys::registers;

/// Settings that all events of a run share.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// Bytes in a ring that wake perilune; 0 wakes it at every event.
    pub watermark: u32,
    /// Whether children of the task that the event is attached to are followed.
    pub inherit: bool,
}

/// Fields of every sample, without those that nothing needs (`omit_parts`). The other records of an
/// event have the same ones in their trailer. The CPU is that of the ring.
pub(super) const BASE: u64 =
    (abi::PERF_SAMPLE_IDENTIFIER | abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME) as u64;

/// Fields in the trailers of the dummy's records.
const OF_OWNER: u64 = BASE | abi::PERF_SAMPLE_CPU as u64;

/// Returns the attr of an event that writes samples or, with `sampling.count`, is counted.
///
/// # Errors
/// A field of the attr is unknown, or its value is out of range.
pub fn of_event(
    event: &dyn EventProperties,
    sampling: &Sampling,
    common: Common,
) -> anyhow::Result<Attr> {
    let mut attr = selected(event.attr())?;
    for (name, value) in event.attr_fields() {
        attr.set(name, value)?;
    }
    every(&mut attr, common)?;
    exclude(&mut attr, event, sampling)?;
    let mut read = abi::PERF_FORMAT_ID as u64;
    if sampling.count || event.is_clock() {
        read |= (abi::PERF_FORMAT_TOTAL_TIME_ENABLED | abi::PERF_FORMAT_TOTAL_TIME_RUNNING) as u64;
    }
    if !sampling.count {
        read |= abi::PERF_FORMAT_LOST as u64;
        let mut kinds = BASE | event.sample_type();
        if let Some(registers) = event.registers() {
            attr.set("sample_regs_intr", registers.mask)?;
        }
        if let Some(stack) = &sampling.stack {
            kinds |= call_chain(&mut attr, stack)?;
            if is_entered(event, stack) {
                kinds |= caller(&mut attr)?;
            }
        }
        kinds |= extra_fields(&mut attr, sampling)?;
        if sampling.weighed {
            // With the period in its samples, an event is sampled each time: see `observe_period`.
            kinds |= u64::from(abi::PERF_SAMPLE_READ);
            kinds &= !u64::from(abi::PERF_SAMPLE_PERIOD);
        }
        if kinds & u64::from(abi::PERF_SAMPLE_READ) != 0 && !sampling.weighed {
            read |= abi::PERF_FORMAT_GROUP as u64;
        }
        attr.set("sample_type", kinds)?;
        match (sampling.freq, sampling.period) {
            (Some(freq), _) => {
                attr.set("freq", 1)?;
                attr.set("sample_freq", freq)?;
            }
            (None, period) => attr.set("sample_period", period.unwrap_or(1))?,
        }
    }
    attr.set("read_format", read)?;
    script_fields::set(&mut attr, event, sampling)?;
    observe_period(&mut attr, event)?;
    Ok(attr)
}

/// Returns the attr with the fields that select an event.
fn selected(of: EventAttr) -> anyhow::Result<Attr> {
    let mut attr = Attr::counter(of.type_, of.config);
    for (name, value) in [
        ("config1", of.config1),
        ("config2", of.config2),
        ("config3", of.config3),
        ("config4", of.config4),
        ("precise_ip", u64::from(of.precise_ip)),
        ("pinned", u64::from(of.pinned)),
        ("exclusive", u64::from(of.exclusive)),
    ] {
        attr.set(name, value)?;
    }
    Ok(attr)
}

/// Takes `PERF_SAMPLE_PERIOD` from an event that the kernel counts in software, if its period is
/// fixed and above 1. With that bit, the kernel samples every such event (`perf_swevent_event()`,
/// kernel/events/core.c). Without it, each sample stands for the period of the attr.
fn observe_period(attr: &mut Attr, event: &dyn EventProperties) -> anyhow::Result<()> {
    let field = |name| attr.get(name).unwrap_or(0);
    let (kinds, is_fixed) =
        (field("sample_type"), field("freq") == 0 && field("sample_period") > 1);
    if !event.has_rate() && is_fixed {
        attr.set("sample_type", kinds & !u64::from(abi::PERF_SAMPLE_PERIOD))?;
    }
    Ok(())
}

/// Requests a call chain. Returns the bits of `sample_type` for it.
fn call_chain(attr: &mut Attr, stack: &StackSampling) -> anyhow::Result<u64> {
    let mut kinds = 0;
    // With unwind tables the kernel does not need to walk the user part. With branch records it
    // still does: they lack the innermost address.
    let by_kernel = stack.user() && !matches!(stack.walk, CallGraph::Dwarf { .. });
    attr.set("exclude_callchain_kernel", u64::from(!stack.kernel()))?;
    attr.set("exclude_callchain_user", u64::from(!by_kernel))?;
    if stack.kernel() || by_kernel {
        kinds |= abi::PERF_SAMPLE_CALLCHAIN;
        attr.set("sample_max_stack", u64::from(stack.depth.unwrap_or(0)))?;
    }
    match stack.walk {
        _ if !stack.user() => {}
        CallGraph::FramePointers => {}
        CallGraph::Dwarf { bytes } => {
            kinds |= abi::PERF_SAMPLE_REGS_USER | abi::PERF_SAMPLE_STACK_USER;
            attr.set("sample_regs_user", registers::UNWOUND)?;
            attr.set("sample_stack_user", u64::from(bytes))?;
        }
        CallGraph::Branches => {
            kinds |= abi::PERF_SAMPLE_BRANCH_STACK;
            attr.set("branch_sample_type", u64::from(CALLS))?;
        }
    }
    Ok(u64::from(kinds))
}

/// Requests the fields that a script reads and few events have. Returns the bits of `sample_type`
/// for them.
fn extra_fields(attr: &mut Attr, sampling: &Sampling) -> anyhow::Result<u64> {
    let kinds = sampling.extra.sample_type();
    let asked = |bit: u32| kinds & bit != 0;
    if asked(abi::PERF_SAMPLE_REGS_INTR) {
        attr.set("sample_regs_intr", registers::ALL)?;
    }
    if asked(abi::PERF_SAMPLE_REGS_USER) {
        attr.set("sample_regs_user", registers::ALL)?;
    }
    // The branches of `--call-graph=lbr` are calls already.
    let by_stack = sampling.stack.is_some_and(|stack| stack.walk == CallGraph::Branches);
    if asked(abi::PERF_SAMPLE_BRANCH_STACK) && !by_stack {
        let excluded = sampling.exclude;
        let modes = [
            (!excluded.user, abi::PERF_SAMPLE_BRANCH_USER),
            (!excluded.kernel, abi::PERF_SAMPLE_BRANCH_KERNEL),
        ];
        let modes = modes.into_iter().filter(|(on, _)| *on).fold(0, |all, (_, mode)| all | mode);
        attr.set("branch_sample_type", u64::from(abi::PERF_SAMPLE_BRANCH_ANY | modes))?;
    }
    Ok(u64::from(kinds))
}

/// Returns whether a chain begins at the first instruction of a user-space function and is walked
/// by frame pointers.
pub fn is_entered(event: &dyn EventProperties, stack: &StackSampling) -> bool {
    event.is_user_entry() && stack.user() && stack.walk == CallGraph::FramePointers
}

/// Requests the return address of a function that was just called: it has no frame yet, so a walk
/// by frame pointers misses its caller. Since 6.11 the kernel recognizes common function prologues,
/// which many functions do not have.
fn caller(attr: &mut Attr) -> anyhow::Result<u64> {
    Ok(u64::from(match registers::LINK {
        Some(link) => {
            attr.set("sample_regs_user", 1 << link)?;
            abi::PERF_SAMPLE_REGS_USER
        }
        None => {
            attr.set("sample_stack_user", 8)?;
            abi::PERF_SAMPLE_STACK_USER
        }
    }))
}

/// User-space calls that have not returned, without flags and cycle counts, which a chain does not
/// need.
const CALLS: u32 = abi::PERF_SAMPLE_BRANCH_USER
    | abi::PERF_SAMPLE_BRANCH_CALL_STACK
    | abi::PERF_SAMPLE_BRANCH_NO_FLAGS
    | abi::PERF_SAMPLE_BRANCH_NO_CYCLES;

/// Name of the event that owns a CPU's ring.
pub const OWNER: &str = "dummy";

/// Returns the attr of the dummy event that owns a CPU's ring and carries the records of tasks.
///
/// # Errors
/// A field of the attr is unknown, or its value is out of range.
pub fn of_owner(common: Common, mmap: MappingRecords, side: SideKinds) -> anyhow::Result<Attr> {
    let mut attr = Attr::software(abi::PERF_COUNT_SW_DUMMY as u64);
    every(&mut attr, common)?;
    attr.set("sample_type", OF_OWNER)?;
    attr.set("sample_period", 1)?;
    let read = abi::PERF_FORMAT_ID | abi::PERF_FORMAT_LOST | abi::PERF_FORMAT_TOTAL_TIME_ENABLED;
    attr.set("read_format", read as u64)?;
    attr.set("comm", 1)?;
    attr.set("comm_exec", 1)?;
    attr.set("task", 1)?;
    if mmap != MappingRecords::Omitted {
        attr.set("build_id", u64::from(mmap == MappingRecords::WithBuildIds))?;
        attr.set("mmap", 1)?;
        attr.set("mmap2", 1)?;
        attr.set("ksymbol", 1)?;
    }
    side.attrs().try_for_each(|field| attr.set(field, 1))?;
    Ok(attr)
}

/// Returns the attr of the event to which a BPF program writes the records of an event with attr
/// `written`.
pub(in crate::source) fn of_output(written: &Attr) -> Attr {
    let mut attr = *written;
    let raw = attr.raw();
    raw.type_ = abi::PERF_TYPE_SOFTWARE;
    raw.config = abi::PERF_COUNT_SW_BPF_OUTPUT.into();
    attr
}

/// Returns the attr of the dummy event that leads the group of an event with attr `member`. It
/// excludes the same modes, which decide who may open it, and is pinned or exclusive if `member`
/// is.
pub(in crate::source) fn of_leader(member: &Attr, on_exec: bool) -> Attr {
    let mut attr = Attr::software(abi::PERF_COUNT_SW_DUMMY as u64);
    let copied = ["exclude_user", "exclude_kernel", "exclude_hv", "inherit", "pinned", "exclusive"]
        .into_iter()
        .chain(["use_clockid", "clockid"])
        .map(|name| (name, member.get(name).unwrap_or(0)));
    let own = [
        ("disabled", 1),
        ("enable_on_exec", u64::from(on_exec)),
        ("read_format", read_format_of_leader()),
    ];
    for (name, value) in copied.chain(own) {
        // Cannot fail: the fields exist, and the values come from another attr.
        let _ = attr.set(name, value);
    }
    attr
}

/// Returns the `read_format` of an event that leads a group of counters.
pub(in crate::source) fn read_format_of_leader() -> u64 {
    u64::from(
        abi::PERF_FORMAT_ID
            | abi::PERF_FORMAT_GROUP
            | abi::PERF_FORMAT_TOTAL_TIME_ENABLED
            | abi::PERF_FORMAT_TOTAL_TIME_RUNNING,
    )
}

fn every(attr: &mut Attr, common: Common) -> anyhow::Result<()> {
    attr.set("disabled", 1)?;
    attr.set("sample_id_all", 1)?;
    attr.set("use_clockid", 1)?;
    attr.set("clockid", libc::CLOCK_MONOTONIC as u64)?;
    attr.set("inherit", u64::from(common.inherit))?;
    if common.watermark == 0 {
        attr.set("wakeup_events", 1)?;
    } else {
        attr.set("watermark", 1)?;
        attr.set("wakeup_watermark", u64::from(common.watermark))?;
    }
    Ok(())
}

fn exclude(
    attr: &mut Attr,
    event: &dyn EventProperties,
    sampling: &Sampling,
) -> anyhow::Result<()> {
    let named = event.attr().exclude;
    let all = named.or(sampling.exclude);
    for (field, value) in [
        ("exclude_user", all.user),
        ("exclude_kernel", all.kernel),
        ("exclude_hv", all.hv),
        ("exclude_host", all.host),
        ("exclude_guest", all.guest),
        ("exclude_idle", named.idle || sampling.exclude.idle && event.is_clock()),
    ] {
        attr.set(field, u64::from(value))?;
    }
    Ok(())
}

/// Returns the part of an attr that a decoder needs.
pub fn shape(attr: &Attr) -> RecordAttrs {
    let field = |name| attr.get(name).unwrap_or(0);
    RecordAttrs {
        sample_type: field("sample_type"),
        read_format: field("read_format"),
        branch_sample_type: field("branch_sample_type"),
        sample_regs_user: field("sample_regs_user"),
        sample_regs_intr: field("sample_regs_intr"),
        sample_id_all: field("sample_id_all") != 0,
        fixed_period: if field("freq") == 0 { field("sample_period") } else { 1 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::kind::Counter;
    use crate::event::sampling::ChainPart;

    fn fields(walk: CallGraph, part: ChainPart, depth: Option<u16>) -> Vec<(&'static str, u64)> {
        let stack = Some(StackSampling { walk, part, depth });
        let sampling = Sampling { stack, ..Sampling::default() };
        let common = Common { watermark: 1, inherit: false };
        let attr = of_event(&Counter::default(), &sampling, common).unwrap();
        let of_stacks = ["callchain", "max_stack", "regs", "stack_user", "branch"];
        let mut fields = attr.nonzero();
        fields.retain(|(name, _)| of_stacks.iter().any(|part| name.contains(part)));
        let kinds = attr.get("sample_type").unwrap();
        for (name, bit) in [
            ("CALLCHAIN", abi::PERF_SAMPLE_CALLCHAIN),
            ("REGS_USER", abi::PERF_SAMPLE_REGS_USER),
            ("STACK_USER", abi::PERF_SAMPLE_STACK_USER),
            ("BRANCH_STACK", abi::PERF_SAMPLE_BRANCH_STACK),
        ] {
            if kinds & u64::from(bit) != 0 {
                fields.push((name, 1));
            }
        }
        fields
    }

    #[test]
    fn each_way_to_walk_a_stack_requests_the_data_that_it_needs() {
        let (fp, lbr, dwarf) =
            (CallGraph::FramePointers, CallGraph::Branches, CallGraph::Dwarf { bytes: 16384 });
        assert_eq!(fields(fp, ChainPart::Both, None), [("CALLCHAIN", 1)]);
        assert_eq!(
            fields(fp, ChainPart::User, Some(16)),
            [("exclude_callchain_kernel", 1), ("sample_max_stack", 16), ("CALLCHAIN", 1)]
        );
        assert_eq!(
            fields(dwarf, ChainPart::Both, None),
            [
                ("exclude_callchain_user", 1),
                ("sample_regs_user", registers::UNWOUND),
                ("sample_stack_user", 16384),
                ("CALLCHAIN", 1),
                ("REGS_USER", 1),
                ("STACK_USER", 1)
            ]
        );
        assert_eq!(
            fields(dwarf, ChainPart::User, Some(500)),
            [
                ("exclude_callchain_kernel", 1),
                ("exclude_callchain_user", 1),
                ("sample_regs_user", registers::UNWOUND),
                ("sample_stack_user", 16384),
                ("REGS_USER", 1),
                ("STACK_USER", 1)
            ]
        );
        let kernel_only = [("exclude_callchain_user", 1), ("CALLCHAIN", 1)];
        assert_eq!(fields(dwarf, ChainPart::Kernel, None), kernel_only);
        assert_eq!(fields(lbr, ChainPart::Kernel, None), kernel_only);
        assert_eq!(
            fields(lbr, ChainPart::Both, None),
            [("branch_sample_type", u64::from(CALLS)), ("CALLCHAIN", 1), ("BRANCH_STACK", 1)]
        );
    }
}
