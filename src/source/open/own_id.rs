//! Software events whose samples may have the ID of another event.
//!
//! If several perf events, of one run or of several programs, sample the same page fault or context
//! switch, Linux 6.3 and later prepares the sample once. All samples then have the ID and the time
//! of the first event, and this time may be of another clock (`do_perf_sw_event()` and
//! `perf_prepare_sample()`; fixed for tracepoints in 6.5). The kernel reads counter values for each
//! event, so the ID among them is the event's own. [`add`] adds fields to the samples so that this
//! ID is always at [`OWN_ID`].
//!
//! Call chain, registers and the copy of the stack are those of the first event, too. Two events of
//! a run must therefore request the same parts of them.

use anyhow::ensure;
use perf_event_open_sys::bindings as abi;

use super::attr;
use crate::decode::sample::RecordLayout;
use crate::source::request::Opening;
use crate::source::ring::openings::OWN_ID;
use crate::sys::attr::Attr;
use crate::sys::machine::is_linux_since;

/// Events that `do_perf_sw_event()` samples. The clocks have samples of their own.
const SHARED_EVENTS: [u32; 8] = [
    abi::PERF_COUNT_SW_PAGE_FAULTS,
    abi::PERF_COUNT_SW_CONTEXT_SWITCHES,
    abi::PERF_COUNT_SW_CPU_MIGRATIONS,
    abi::PERF_COUNT_SW_PAGE_FAULTS_MIN,
    abi::PERF_COUNT_SW_PAGE_FAULTS_MAJ,
    abi::PERF_COUNT_SW_ALIGNMENT_FAULTS,
    abi::PERF_COUNT_SW_EMULATION_FAULTS,
    abi::PERF_COUNT_SW_CGROUP_SWITCHES,
];

/// First version in which several events share a prepared sample.
const SHARED_SINCE: (u32, u32) = (6, 3);
/// First version with counter values in the samples of inherited events.
const INHERITED_VALUES_SINCE: (u32, u32) = (6, 12);

/// Adds the event's own ID to its samples if they may have that of another event.
///
/// # Errors
/// One of `others`, the events of the run, samples the same occurrences with different stacks or
/// registers, or not both can have their own ID: before 6.12, the samples of inherited events have
/// no counter values.
pub(super) fn add<'a>(
    attr: &mut Attr,
    opening: &Opening,
    others: impl Iterator<Item = &'a Attr>,
) -> anyhow::Result<()> {
    if !is_shared(attr) {
        return Ok(());
    }
    let is_possible = attr.get("inherit") != Some(1) || is_linux_since(INHERITED_VALUES_SINCE);
    let config = attr.as_raw().config;
    let name = &opening.event.name;
    let is_same = |other: &&Attr| is_shared(other) && other.as_raw().config == config;
    for other in others.filter(|other| is_same(other) && is_linux_since(SHARED_SINCE)) {
        ensure!(
            is_possible && has_values(other),
            "{name}: on Linux 6.3 to 6.11, only one event of a run can sample it for tasks and \
             their children; add -a, or use one event"
        );
        ensure!(
            !differ_in_stacks(attr, other),
            "{name}: two events of the run sample it with different stacks or registers, but the \
             kernel records those of one event for both; use the same options for both"
        );
    }
    if is_possible {
        add_counter_values(attr);
    }
    Ok(())
}

/// Returns whether the samples of an event have their own ID at [`OWN_ID`].
pub(super) fn is_in(layout: &RecordLayout, attr: &Attr) -> bool {
    is_shared(attr) && layout.own_id_offset() == Some(OWN_ID)
}

/// Returns whether several events may sample the same occurrence.
fn is_shared(attr: &Attr) -> bool {
    let raw = attr.as_raw();
    let has_kind = |kind: &u32| u64::from(*kind) == raw.config;
    let is_sampled = attr.get("sample_period") != Some(0);
    raw.type_ == abi::PERF_TYPE_SOFTWARE && is_sampled && SHARED_EVENTS.iter().any(has_kind)
}

/// Returns whether both events request a call chain, registers or a copy of the stack with
/// different options.
fn differ_in_stacks(one: &Attr, other: &Attr) -> bool {
    const PARTS: [(u32, &[&str]); 4] = [
        (
            abi::PERF_SAMPLE_CALLCHAIN,
            &["sample_max_stack", "exclude_callchain_kernel", "exclude_callchain_user"],
        ),
        (abi::PERF_SAMPLE_REGS_USER, &["sample_regs_user"]),
        (abi::PERF_SAMPLE_REGS_INTR, &["sample_regs_intr"]),
        (abi::PERF_SAMPLE_STACK_USER, &["sample_stack_user"]),
    ];
    let in_both = one.as_raw().sample_type & other.as_raw().sample_type;
    PARTS.iter().any(|(bit, fields)| {
        in_both & u64::from(*bit) != 0 && fields.iter().any(|name| one.get(name) != other.get(name))
    })
}

/// Returns whether samples have counter values.
fn has_values(attr: &Attr) -> bool {
    attr.as_raw().sample_type & u64::from(abi::PERF_SAMPLE_READ) != 0
}

/// Requests the counter values, and fields that fill the space in front of them.
fn add_counter_values(attr: &mut Attr) {
    let raw = attr.raw();
    raw.sample_type |=
        attr::BASE | u64::from(abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_ADDR | abi::PERF_SAMPLE_READ);
    let further_words = [
        raw.sample_type & u64::from(abi::PERF_SAMPLE_PERIOD) != 0,
        raw.read_format & u64::from(abi::PERF_FORMAT_GROUP) != 0,
    ];
    raw.sample_type |= u64::from(match further_words.iter().filter(|has| **has).count() {
        0 => abi::PERF_SAMPLE_CPU | abi::PERF_SAMPLE_STREAM_ID,
        1 => abi::PERF_SAMPLE_CPU,
        _ => 0,
    });
    debug_assert!(is_in(&RecordLayout::new(attr::shape(attr)), attr));
}

#[cfg(test)]
mod tests {
    use super::super::attr::Common;
    use super::*;
    use crate::event::kind::{EventFiles, parse};
    use crate::event::sample_field::SampleFields;
    use crate::event::sampling::{CallGraph, ChainPart, Sampling, StackSampling};

    #[test]
    fn the_own_id_has_one_place_in_all_samples() {
        let event = parse("page-faults", &EventFiles::NONE).unwrap().unwrap();
        let common = Common { watermark: 1, inherit: true };
        let walk = CallGraph::Dwarf { bytes: 4096 };
        let stack = Some(StackSampling { walk, part: ChainPart::Both, depth: None });
        let extra = SampleFields::of_groups();
        for sampling in [
            Sampling::default(),
            Sampling { period: Some(100), ..Sampling::default() },
            Sampling { freq: Some(100), ..Sampling::default() },
            Sampling { weighed: true, ..Sampling::default() },
            Sampling { stack, ..Sampling::default() },
            Sampling { extra, ..Sampling::default() },
            Sampling { extra, freq: Some(100), ..Sampling::default() },
        ] {
            let mut attr = attr::of_event(event.kind(), &sampling, common).unwrap();
            attr.raw().sample_type &= !u64::from(abi::PERF_SAMPLE_TIME);
            assert!(is_shared(&attr), "{sampling:?}");
            add_counter_values(&mut attr);
            let layout = RecordLayout::new(attr::shape(&attr));
            assert_eq!(layout.own_id_offset(), Some(OWN_ID), "{sampling:?}");
        }
    }

    #[test]
    fn events_with_different_stack_options_are_detected() {
        let attr = |kinds: u32, fields: &[(&str, u64)]| {
            let mut attr = Attr::software(abi::PERF_COUNT_SW_PAGE_FAULTS.into());
            attr.raw().sample_type = kinds.into();
            fields.iter().for_each(|(name, value)| attr.set(name, *value).unwrap());
            attr
        };
        let whole = attr(abi::PERF_SAMPLE_CALLCHAIN, &[]);
        let short = attr(abi::PERF_SAMPLE_CALLCHAIN, &[("sample_max_stack", 1)]);
        let user = attr(abi::PERF_SAMPLE_CALLCHAIN, &[("exclude_callchain_kernel", 1)]);
        let registers = |mask| attr(abi::PERF_SAMPLE_REGS_USER, &[("sample_regs_user", mask)]);
        for (one, other) in [(whole, short), (whole, user), (registers(1), registers(3))] {
            assert!(differ_in_stacks(&one, &other), "{one:?} {other:?}");
        }
        for (one, other) in [(whole, whole), (whole, registers(1)), (short, attr(0, &[]))] {
            assert!(!differ_in_stacks(&one, &other), "{one:?} {other:?}");
        }
    }

    #[test]
    fn counted_events_and_clocks_are_not_shared() {
        let attr = |config: u32, period| {
            let mut attr = Attr::software(config.into());
            attr.set("sample_period", period).unwrap();
            attr
        };
        assert!(is_shared(&attr(abi::PERF_COUNT_SW_CONTEXT_SWITCHES, 1)));
        for (config, period) in [
            (abi::PERF_COUNT_SW_CONTEXT_SWITCHES, 0),
            (abi::PERF_COUNT_SW_CPU_CLOCK, 1),
            (abi::PERF_COUNT_SW_DUMMY, 1),
        ] {
            assert!(!is_shared(&attr(config, period)), "{config}");
        }
        assert!(!is_shared(&Attr::tracepoint(abi::PERF_COUNT_SW_PAGE_FAULTS.into())));
    }
}
