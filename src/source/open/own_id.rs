//! Software events whose samples may have the ID of another event.
//!
//! If several perf events sample the same page fault or context switch, of one run or of several
//! programs, the kernel prepares the first sample only: the others have its ID and its time, which
//! may be of another clock (`do_perf_sw_event()` and `perf_prepare_sample()`, since 6.3; for
//! tracepoints this was mended in 6.5). Counter values are read for each event, so the ID among
//! these is right. The samples of such events have it at one place, whatever else they have.
//!
//! Their call chain is that of the first event, too, which may have requested another part of it.

use anyhow::ensure;
use perf_event_open_sys::bindings as abi;

use super::attr;
use crate::decode::sample::RecordLayout;
use crate::source::request::Opening;
use crate::source::ring::openings::OWN_ID;
use crate::sys::attr::Attr;
use crate::sys::machine::is_linux_since;

/// Events that `do_perf_sw_event()` samples. The clocks have samples of their own.
const SHARED: [u32; 8] = [
    abi::PERF_COUNT_SW_PAGE_FAULTS,
    abi::PERF_COUNT_SW_CONTEXT_SWITCHES,
    abi::PERF_COUNT_SW_CPU_MIGRATIONS,
    abi::PERF_COUNT_SW_PAGE_FAULTS_MIN,
    abi::PERF_COUNT_SW_PAGE_FAULTS_MAJ,
    abi::PERF_COUNT_SW_ALIGNMENT_FAULTS,
    abi::PERF_COUNT_SW_EMULATION_FAULTS,
    abi::PERF_COUNT_SW_CGROUP_SWITCHES,
];

/// Adds the event's own ID to its samples if they may have that of another event.
///
/// # Errors
/// This kernel cannot, and another event of the run, one of `others`, samples the same occurrences.
pub(super) fn add<'a>(
    attr: &mut Attr,
    opening: &Opening,
    mut others: impl Iterator<Item = &'a Attr>,
) -> anyhow::Result<()> {
    if !is_shared(attr) || opening.sampling.count || !is_linux_since((6, 3)) {
        return Ok(());
    }
    if attr.get("inherit") == Some(1) && !is_linux_since((6, 12)) {
        let config = attr.as_raw().config;
        ensure!(
            !others.any(|other| is_shared(other) && other.as_raw().config == config),
            "{}: before Linux 6.12, only one event of a run can sample it for tasks and their \
             children; add -a, or use one event",
            opening.event.name
        );
        return Ok(());
    }
    place(attr);
    Ok(())
}

/// Returns whether the samples of an event have their own ID at the place for it.
pub(super) fn is_in(layout: &RecordLayout, attr: &Attr) -> bool {
    is_shared(attr) && layout.own_id_offset() == Some(OWN_ID)
}

fn is_shared(attr: &Attr) -> bool {
    let raw = attr.as_raw();
    raw.type_ == abi::PERF_TYPE_SOFTWARE && SHARED.iter().any(|one| u64::from(*one) == raw.config)
}

/// Requests the counter values, and fields that fill the space in front of them.
fn place(attr: &mut Attr) {
    let raw = attr.raw();
    raw.sample_type |=
        attr::BASE | u64::from(abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_ADDR | abi::PERF_SAMPLE_READ);
    let further = [
        raw.sample_type & u64::from(abi::PERF_SAMPLE_PERIOD) != 0,
        raw.read_format & u64::from(abi::PERF_FORMAT_GROUP) != 0,
    ];
    raw.sample_type |= u64::from(match further.iter().filter(|has| **has).count() {
        0 => abi::PERF_SAMPLE_CPU | abi::PERF_SAMPLE_STREAM_ID,
        1 => abi::PERF_SAMPLE_CPU,
        _ => 0,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_id_has_one_place_with_and_without_period_and_group() {
        for period in [0, abi::PERF_SAMPLE_PERIOD] {
            for group in [0, abi::PERF_FORMAT_GROUP] {
                let mut attr = Attr::software(abi::PERF_COUNT_SW_PAGE_FAULTS.into());
                attr.raw().sample_type = attr::BASE | u64::from(period);
                attr.raw().read_format =
                    u64::from(abi::PERF_FORMAT_ID | abi::PERF_FORMAT_LOST | group);
                place(&mut attr);
                let layout = RecordLayout::new(attr::shape(&attr));
                assert!(is_in(&layout, &attr), "{period} {group}: {:?}", layout.own_id_offset());
            }
        }
    }

    #[test]
    fn other_events_have_their_own_samples() {
        for config in [abi::PERF_COUNT_SW_CPU_CLOCK, abi::PERF_COUNT_SW_DUMMY] {
            assert!(!is_shared(&Attr::software(config.into())), "{config}");
        }
        assert!(!is_shared(&Attr::tracepoint(abi::PERF_COUNT_SW_PAGE_FAULTS.into())));
    }
}
