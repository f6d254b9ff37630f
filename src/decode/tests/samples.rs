//! Tests of samples of all layouts: encoded and decoded, truncated, and random bytes.

use super::encode::{self, ReadValues, Values};
use crate::decode::cursor::{Bad, Words};
use crate::decode::read::{CounterValue, ReadFormat};
use crate::decode::record_attrs::RecordAttrs;
use crate::decode::sample::{RecordLayout, Sample, WholeSample, identifier};
use crate::decode::sample_extra::Branch;
use perf_event_open_sys::bindings as abi;
use proptest::prelude::*;

/// Generates any attributes that a kernel could accept.
pub(super) fn shapes() -> impl Strategy<Value = RecordAttrs> {
    let few = || prop_oneof![any::<u64>(), (any::<u64>(), any::<u64>()).prop_map(|(a, b)| a & b)];
    (few(), any::<u64>(), any::<u64>(), few(), few(), any::<bool>()).prop_map(
        |(sample_type, read_format, branches, user, intr, sample_id_all)| RecordAttrs {
            sample_type: sample_type & (u64::from(abi::PERF_SAMPLE_MAX) - 1),
            read_format: read_format & (u64::from(abi::PERF_FORMAT_MAX) - 1),
            branch_sample_type: branches & (u64::from(abi::PERF_SAMPLE_BRANCH_MAX) - 1),
            sample_regs_user: user & 0xff_ffff,
            sample_regs_intr: intr & 0xff_ffff,
            sample_id_all,
            fixed_period: 0,
        },
    )
}

/// Generates attributes and a sample that matches them.
pub(crate) fn samples() -> impl Strategy<Value = (RecordAttrs, Values)> {
    let variable = (
        prop::collection::vec(any::<[u64; 3]>(), 1..4),
        prop::collection::vec(any::<u64>(), 0..9),
        prop::collection::vec(any::<[u8; 8]>(), 0..6),
        prop::collection::vec(any::<[u64; 4]>(), 0..4),
        prop::collection::vec(any::<[u8; 8]>(), 0..4),
        prop::collection::vec(any::<[u8; 8]>(), 0..4),
        any::<[bool; 2]>(),
    );
    (shapes(), any::<[u64; 32]>(), variable).prop_map(|(shape, pool, variable)| {
        let (counts, callchain, raw, branches, stack_user, aux, regs) = variable;
        let registers = |known: bool, mask: u64| {
            known.then(|| (0..mask.count_ones()).map(|n| pool[31] ^ u64::from(n)).collect())
        };
        let values = Values {
            id: pool[0],
            ip: pool[1],
            pid: pool[2] as u32,
            tid: pool[3] as u32,
            time: pool[4],
            addr: pool[5],
            stream_id: pool[6],
            cpu: pool[7] as u32,
            period: pool[8],
            read: ReadValues { time_enabled: pool[9], time_running: pool[10], counts },
            callchain,
            raw: [&[1, 2, 3, 4], raw.as_flattened()].concat(),
            hw_index: pool[11],
            branches,
            regs_user: registers(regs[0], shape.sample_regs_user),
            stack_user_used: stack_user.len() as u64 * 5,
            stack_user: stack_user.into_flattened(),
            weight: pool[12],
            data_src: pool[13],
            transaction: pool[14],
            regs_intr: registers(regs[1], shape.sample_regs_intr),
            phys_addr: pool[15],
            cgroup: pool[16],
            data_page_size: pool[17],
            code_page_size: pool[18],
            aux: aux.into_flattened(),
        };
        (shape, values)
    })
}

/// Compares a decoded sample with the encoded values; a field that the event does not have must be
/// empty.
fn compare(
    layout: &RecordLayout,
    sample: &Sample<'_>,
    values: &Values,
) -> Result<(), TestCaseError> {
    let shape = *layout.shape();
    let asked = |bits: u32| shape.sample_type & u64::from(bits) != 0;
    let one = |bits: u32, value: u64| if asked(bits) { value } else { 0 };
    let small = |bits: u32, value: u32| if asked(bits) { value } else { 0 };
    prop_assert_eq!(sample.id, one(abi::PERF_SAMPLE_ID | abi::PERF_SAMPLE_IDENTIFIER, values.id));
    prop_assert_eq!(sample.ip, one(abi::PERF_SAMPLE_IP, values.ip));
    prop_assert_eq!(sample.pid, small(abi::PERF_SAMPLE_TID, values.pid));
    prop_assert_eq!(sample.tid, small(abi::PERF_SAMPLE_TID, values.tid));
    prop_assert_eq!(sample.time, one(abi::PERF_SAMPLE_TIME, values.time));
    prop_assert_eq!(sample.addr, one(abi::PERF_SAMPLE_ADDR, values.addr));
    prop_assert_eq!(sample.stream_id, one(abi::PERF_SAMPLE_STREAM_ID, values.stream_id));
    prop_assert_eq!(sample.cpu, small(abi::PERF_SAMPLE_CPU, values.cpu));
    let period = if asked(abi::PERF_SAMPLE_PERIOD) { values.period } else { 1 };
    prop_assert_eq!(sample.period, period);
    if asked(abi::PERF_SAMPLE_READ) {
        compare_read(&sample.read, shape.read_format, &values.read)?;
    } else {
        prop_assert_eq!(sample.read, ReadFormat::default());
    }
    let chain = if asked(abi::PERF_SAMPLE_CALLCHAIN) { &values.callchain[..] } else { &[] };
    prop_assert_eq!(sample.callchain.iter().collect::<Vec<_>>(), chain);
    let raw = if asked(abi::PERF_SAMPLE_RAW) { &values.raw[..] } else { &[] };
    prop_assert_eq!(sample.raw, raw);
    Ok(())
}

pub(super) fn compare_read(
    read: &ReadFormat<'_>,
    read_format: u64,
    values: &ReadValues,
) -> Result<(), TestCaseError> {
    let asked = |bit: u32| read_format & u64::from(bit) != 0;
    let one = |bit: u32, value: u64| asked(bit).then_some(value);
    prop_assert_eq!(
        read.time_enabled(),
        one(abi::PERF_FORMAT_TOTAL_TIME_ENABLED, values.time_enabled)
    );
    prop_assert_eq!(
        read.time_running(),
        one(abi::PERF_FORMAT_TOTAL_TIME_RUNNING, values.time_running)
    );
    let number = if asked(abi::PERF_FORMAT_GROUP) { values.counts.len() } else { 1 };
    let expected: Vec<CounterValue> = values.counts[..number]
        .iter()
        .map(|&[value, id, lost]| CounterValue {
            value,
            id: one(abi::PERF_FORMAT_ID, id),
            lost: one(abi::PERF_FORMAT_LOST, lost),
        })
        .collect();
    prop_assert_eq!(read.counts().collect::<Vec<_>>(), expected);
    Ok(())
}

/// Compares what a layout with known offsets reads of a whole record with the decoded sample.
fn compare_whole(
    layout: &RecordLayout,
    record: &[u8],
    sample: &Sample<'_>,
) -> Result<(), TestCaseError> {
    let Some(whole) = layout.whole() else {
        let is_group = layout.shape().read_format & u64::from(abi::PERF_FORMAT_GROUP) != 0;
        prop_assert!(layout.shape().samples(abi::PERF_SAMPLE_READ) && is_group);
        return Ok(());
    };
    let time = layout.shape().samples(abi::PERF_SAMPLE_TIME).then_some(sample.time);
    let expected = WholeSample {
        pid: sample.pid,
        tid: sample.tid,
        time,
        ip: sample.ip,
        addr: sample.addr,
        period: sample.period,
        callchain: sample.callchain,
        raw: sample.raw,
        rest: layout.rest_words(sample),
    };
    prop_assert_eq!(whole.read(record), Some(expected));
    for end in 0..record.len() {
        let short = layout.sample(record[..end].get(8..).unwrap_or_default());
        let read = whole.read(&record[..end]);
        prop_assert!(read.is_none() || short.is_ok(), "{} bytes", end);
    }
    Ok(())
}

fn compare_rest(
    layout: &RecordLayout,
    sample: &Sample<'_>,
    values: &Values,
) -> Result<(), TestCaseError> {
    let shape = *layout.shape();
    let asked = |bits: u32| shape.sample_type & u64::from(bits) != 0;
    let branches = |bits: u32| shape.branch_sample_type & u64::from(bits) != 0;
    let one = |bits: u32, value: u64| if asked(bits) { value } else { 0 };
    let some = |bit: u32, bytes: &[u8]| if asked(bit) { bytes.to_vec() } else { Vec::new() };
    let rest = layout.rest(sample).expect("everything was written");
    let words = layout.rest_words(sample);
    prop_assert_eq!(layout.registers(words), Some(rest.regs_intr));
    prop_assert_eq!(layout.user_stack(words), Some((rest.regs_user, rest.stack_user)));
    if asked(abi::PERF_SAMPLE_BRANCH_STACK) {
        let index = branches(abi::PERF_SAMPLE_BRANCH_HW_INDEX).then_some(values.hw_index);
        prop_assert_eq!(rest.branch_stack.hw_index, index);
        let expected: Vec<Branch> = values
            .branches
            .iter()
            .map(|&[from, to, flags, _]| Branch { from, to, flags })
            .collect();
        prop_assert_eq!(rest.branch_stack.iter().collect::<Vec<_>>(), expected);
        let counters: Vec<u64> = values.branches.iter().map(|branch| branch[3]).collect();
        let asked = branches(abi::PERF_SAMPLE_BRANCH_COUNTERS);
        let expected = if asked { counters } else { Vec::new() };
        prop_assert_eq!(rest.branch_stack.counters.iter().collect::<Vec<_>>(), expected);
    }
    for (bit, registers, values) in [
        (abi::PERF_SAMPLE_REGS_USER, rest.regs_user, &values.regs_user),
        (abi::PERF_SAMPLE_REGS_INTR, rest.regs_intr, &values.regs_intr),
    ] {
        let expected = values.as_ref().filter(|_| asked(bit)).cloned().unwrap_or_default();
        prop_assert_eq!(registers.values.iter().collect::<Vec<_>>(), expected.clone());
        let by_number = (0..70).filter_map(|register| registers.get(register));
        prop_assert_eq!(by_number.collect::<Vec<_>>(), expected);
    }
    let stack = some(abi::PERF_SAMPLE_STACK_USER, &values.stack_user);
    prop_assert_eq!(rest.stack_user.bytes, &stack[..]);
    prop_assert_eq!(rest.stack_user.used(), &stack[..stack.len() * 5 / 8]);
    let weights = abi::PERF_SAMPLE_WEIGHT | abi::PERF_SAMPLE_WEIGHT_STRUCT;
    prop_assert_eq!(rest.weight, one(weights, values.weight));
    prop_assert_eq!(rest.data_src, one(abi::PERF_SAMPLE_DATA_SRC, values.data_src));
    prop_assert_eq!(rest.transaction, one(abi::PERF_SAMPLE_TRANSACTION, values.transaction));
    prop_assert_eq!(rest.phys_addr, one(abi::PERF_SAMPLE_PHYS_ADDR, values.phys_addr));
    prop_assert_eq!(rest.cgroup, one(abi::PERF_SAMPLE_CGROUP, values.cgroup));
    let sizes = (rest.data_page_size, rest.code_page_size);
    prop_assert_eq!(sizes.0, one(abi::PERF_SAMPLE_DATA_PAGE_SIZE, values.data_page_size));
    prop_assert_eq!(sizes.1, one(abi::PERF_SAMPLE_CODE_PAGE_SIZE, values.code_page_size));
    prop_assert_eq!(rest.aux, &some(abi::PERF_SAMPLE_AUX, &values.aux)[..]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_field_of_every_layout_round_trips(case in samples()) {
        let (shape, values) = case;
        let layout = RecordLayout::new(shape);
        let body = encode::sample(&shape, &values);
        let sample = layout.sample(&body).expect("a whole sample");
        compare(&layout, &sample, &values)?;
        compare_rest(&layout, &sample, &values)?;
        let whole = encode::record(abi::PERF_RECORD_SAMPLE, 0, &body);
        let time = (shape.samples(abi::PERF_SAMPLE_TIME)).then_some(values.time);
        prop_assert_eq!(layout.time(&whole), time);
        compare_whole(&layout, &whole, &sample)?;
        let at_offset = layout.time_offset().map(|at| {
            u64::from_ne_bytes(*whole[at..].first_chunk().expect("the time"))
        });
        prop_assert_eq!(at_offset, time);
        if shape.samples(abi::PERF_SAMPLE_IDENTIFIER) {
            prop_assert_eq!(identifier(&whole), Some(values.id));
        }
    }

    #[test]
    fn a_truncated_sample_is_refused_or_reads_the_same(case in samples()) {
        let (shape, values) = case;
        let layout = RecordLayout::new(shape);
        let body = encode::sample(&shape, &values);
        for end in 0..body.len() {
            match layout.sample(&body[..end]) {
                Ok(_) if hides_its_index(&shape, &values) => {}
                Ok(sample) => {
                    compare(&layout, &sample, &values)?;
                    prop_assert!(layout.rest(&sample).is_err());
                }
                Err(bad) => {
                    let front = matches!(bad, Bad::Head | Bad::Read | Bad::Callchain | Bad::Raw);
                    prop_assert!(front || shape.samples(abi::PERF_SAMPLE_CGROUP));
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_a_sample_or_an_error(
        shape in shapes(),
        words in prop::collection::vec(0u64..40, 0..80),
    ) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let layout = RecordLayout::new(shape);
        for end in [bytes.len(), bytes.len().saturating_sub(3)] {
            if let Ok(sample) = layout.sample(&bytes[..end]) {
                let _ = sample.read.counts().count();
                let _ = layout.rest(&sample).map(|rest| rest.branch_stack.iter().count());
            }
        }
    }

    #[test]
    fn random_bytes_are_a_sample_or_an_error(
        shape in shapes(),
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let layout = RecordLayout::new(shape);
        if let Ok(sample) = layout.sample(&bytes) {
            let _ = sample.read.counts().count();
            let _ = layout.rest(&sample);
        }
    }
}

/// An empty branch stack without its last words may decode as one without an index.
fn hides_its_index(shape: &RecordAttrs, values: &Values) -> bool {
    shape.samples(abi::PERF_SAMPLE_BRANCH_STACK)
        && shape.branch_sample_type & u64::from(abi::PERF_SAMPLE_BRANCH_HW_INDEX) != 0
        && values.branches.is_empty()
}

/// Returns a layout with these bits, and with the index of the branch stack.
fn layout(sample_type: u32) -> RecordLayout {
    RecordLayout::new(RecordAttrs {
        sample_type: u64::from(sample_type),
        branch_sample_type: u64::from(abi::PERF_SAMPLE_BRANCH_HW_INDEX),
        ..RecordAttrs::default()
    })
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[test]
fn the_bits_of_the_abi_are_all_known() {
    // A bit that a later header adds must be added to the layout.
    assert_eq!(abi::PERF_SAMPLE_MAX, 1 << 25);
    assert_eq!(abi::PERF_FORMAT_MAX, 1 << 5);
    assert_eq!(abi::PERF_SAMPLE_BRANCH_MAX, 1 << 20);
}

#[test]
fn a_sample_without_branches_has_no_index_even_if_requested() {
    let layout = layout(abi::PERF_SAMPLE_BRANCH_STACK | abi::PERF_SAMPLE_CGROUP);
    let without = bytes(&[0, 7]);
    let rest = layout.sample(&without).and_then(|sample| layout.rest(&sample)).unwrap();
    assert_eq!((rest.branch_stack.hw_index, rest.cgroup), (None, 7));
    let with = bytes(&[0, 3, 7]);
    let rest = layout.sample(&with).and_then(|sample| layout.rest(&sample)).unwrap();
    assert_eq!((rest.branch_stack.hw_index, rest.cgroup), (Some(3), 7));
}

#[test]
fn the_id_of_a_cgroup_is_read_directly_only_if_it_is_the_only_field_after_the_raw_data() {
    let bytes = bytes(&[1, 7]);
    let only = |bits: u32| {
        let layout = layout(bits | abi::PERF_SAMPLE_TID);
        let sample = layout.sample(&bytes).unwrap();
        (layout.only_cgroup(layout.rest_words(&sample)), layout.rest(&sample))
    };
    let (direct, rest) = only(abi::PERF_SAMPLE_CGROUP);
    assert_eq!(direct.map(|extra| extra.cgroup), Some(7));
    assert_eq!(direct, rest.ok());
    assert_eq!(only(abi::PERF_SAMPLE_CGROUP | abi::PERF_SAMPLE_DATA_PAGE_SIZE).0, None);
    assert_eq!(only(abi::PERF_SAMPLE_DATA_PAGE_SIZE).0, None);
}

#[test]
fn counts_that_no_record_can_hold_are_refused() {
    let huge = bytes(&[u64::MAX, 1, 2]);
    assert_eq!(layout(abi::PERF_SAMPLE_CALLCHAIN).sample(&huge), Err(Bad::Callchain));
    assert_eq!(layout(abi::PERF_SAMPLE_RAW).sample(&huge), Err(Bad::Raw));
    for (bit, bad) in [
        (abi::PERF_SAMPLE_BRANCH_STACK, Bad::BranchStack),
        (abi::PERF_SAMPLE_STACK_USER, Bad::StackUser),
        (abi::PERF_SAMPLE_AUX, Bad::Aux),
    ] {
        let layout = layout(bit);
        assert_eq!(layout.sample(&huge).and_then(|sample| layout.rest(&sample)).err(), Some(bad));
    }
    let group = u64::from(abi::PERF_FORMAT_GROUP | abi::PERF_FORMAT_LOST);
    assert_eq!(ReadFormat::new(&huge, group), None);
}

#[test]
fn a_sample_without_a_period_has_period_1() {
    let sample = layout(abi::PERF_SAMPLE_CPU);
    assert_eq!(sample.sample(&bytes(&[0])).unwrap().period, 1);
}

#[test]
fn words_point_into_the_record() {
    let record = [1u64, 2, 3];
    let bytes = record.map(u64::to_ne_bytes);
    let words = Words::new(bytes.as_flattened());
    assert_eq!(words.as_ptr().cast::<u8>(), bytes.as_flattened().as_ptr());
    assert_eq!((words.len(), words.get(2), words.get(3)), (3, Some(3), None));
    assert!(Words::default().is_empty() && !Words::default().as_ptr().is_null());
}
