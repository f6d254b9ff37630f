//! Records with tails, from samples of every layout in the kernel's byte order.

use super::*;
use crate::decode::tests::encode;
use crate::decode::tests::samples::samples;
use crate::event::sample_field::{SAMPLE_FIELDS, SampleFields, row_named, word_of};
use crate::sys::registers;
use perf_event_open_sys::bindings as abi;
use proptest::prelude::*;

/// Returns the record that a slot shows.
fn record(
    layout: &RecordLayout,
    registers: Option<CallRegisters>,
    bytes: &[u8],
) -> Option<Vec<u8>> {
    let sample = layout.sample(bytes).ok()?;
    let mut chains = ChainMemory::default();
    let (at, size) = chains.with_tail(layout, registers, None, &sample)?;
    assert_eq!(at, chains.words.as_ptr().cast());
    assert!(usize::from(size) <= 8 * chains.words.len());
    let bytes = chains.words.iter().flat_map(|word| word.to_ne_bytes());
    Some(bytes.take(size.into()).collect())
}

fn word(record: &[u8], name: &str) -> u64 {
    word_of(record, row_named(name).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn each_field_of_any_sample_is_in_the_tail_behind_the_raw_record((shape, values) in samples()) {
        let layout = RecordLayout::new(shape);
        let bytes = encode::sample(&shape, &values);
        let record = record(&layout, None, &bytes).unwrap();
        let asked = |bits: u32| shape.samples(bits);
        let one = |bits: u32, value: u64| if asked(bits) { value } else { 0 };
        if asked(abi::PERF_SAMPLE_RAW) {
            prop_assert_eq!(&record[..values.raw.len()], &values.raw[..]);
        }
        let weight = abi::PERF_SAMPLE_WEIGHT | abi::PERF_SAMPLE_WEIGHT_STRUCT;
        prop_assert_eq!(word(&record, "_weight"), one(weight, values.weight));
        let source = one(abi::PERF_SAMPLE_DATA_SRC, values.data_src);
        prop_assert_eq!(word(&record, "_data_src"), source);
        prop_assert_eq!(word(&record, "_data_level"), source);
        let transaction = one(abi::PERF_SAMPLE_TRANSACTION, values.transaction);
        prop_assert_eq!(word(&record, "_transaction"), transaction);
        let physical = one(abi::PERF_SAMPLE_PHYS_ADDR, values.phys_addr);
        prop_assert_eq!(word(&record, "_phys_addr"), physical);
        let cgroup = one(abi::PERF_SAMPLE_CGROUP, values.cgroup);
        prop_assert_eq!(word(&record, "_cgroup"), cgroup);
        let data_page = one(abi::PERF_SAMPLE_DATA_PAGE_SIZE, values.data_page_size);
        prop_assert_eq!(word(&record, "_data_page_size"), data_page);
        let code_page = one(abi::PERF_SAMPLE_CODE_PAGE_SIZE, values.code_page_size);
        prop_assert_eq!(word(&record, "_code_page_size"), code_page);
        let list = |bit, list: &Option<Vec<u64>>| {
            if asked(bit) { list.clone().unwrap_or_default() } else { Vec::new() }
        };
        let kernel = list(abi::PERF_SAMPLE_REGS_INTR, &values.regs_intr);
        let user = list(abi::PERF_SAMPLE_REGS_USER, &values.regs_user);
        let branches: Vec<u64> = match asked(abi::PERF_SAMPLE_BRANCH_STACK) {
            true => values.branches.iter().flat_map(|branch| branch[..3].to_vec()).collect(),
            false => Vec::new(),
        };
        prop_assert_eq!(word(&record, "_regs"), kernel.len() as u64);
        prop_assert_eq!(word(&record, "_user_regs"), user.len() as u64);
        prop_assert_eq!(word(&record, "_branches"), branches.len() as u64);
        // The lists stand in this order before the words.
        let lists = [kernel, user, branches].concat();
        let end = record.len() - crate::event::sample_field::TAIL_BYTES;
        let expected: Vec<u8> = lists.iter().flat_map(|word| word.to_ne_bytes()).collect();
        prop_assert_eq!(&record[end - expected.len()..end], &expected[..]);
    }

    #[test]
    fn a_truncated_sample_has_no_record_and_any_bytes_have_a_bounded_one(
        (shape, values) in samples(), cut in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let layout = RecordLayout::new(shape);
        let whole = encode::sample(&shape, &values);
        // Must not panic; a shorter sample may still decode if its last field is optional.
        let _ = record(&layout, None, &whole[..cut.index(whole.len() + 1)]);
        if let Some(record) = record(&layout, None, &bytes) {
            prop_assert!(record.len() <= usize::from(u16::MAX));
        }
    }
}

#[test]
fn the_record_of_a_function_has_only_the_registers_of_its_fields() {
    let extra = SampleFields::named("_regs").unwrap();
    assert_eq!(extra.sample_type(), abi::PERF_SAMPLE_REGS_INTR);
    let shape = crate::decode::record_attrs::RecordAttrs {
        sample_type: abi::PERF_SAMPLE_REGS_INTR.into(),
        sample_regs_intr: registers::ALL,
        ..Default::default()
    };
    let all: Vec<u64> = (100..100 + u64::from(registers::ALL.count_ones())).collect();
    let values = encode::Values { regs_intr: Some(all.clone()), ..Default::default() };
    let bytes = encode::sample(&shape, &values);
    // The registers with numbers 0 and 4.
    let mask = 0b1_0001;
    let call = CallRegisters { mask, of_any_task: false };
    let record = record(&RecordLayout::new(shape), Some(call), &bytes).unwrap();
    assert_eq!(record[..8], 100u64.to_ne_bytes());
    assert_eq!(record[8..16], 104u64.to_ne_bytes());
    assert_eq!(word(&record, "_regs"), all.len() as u64);
    assert_eq!(record.len(), 16 + 8 * all.len() + 8 * (SAMPLE_FIELDS.len() + 1));
}

#[test]
fn a_record_that_is_too_large_for_a_slot_is_refused() {
    let shape = crate::decode::record_attrs::RecordAttrs {
        sample_type: abi::PERF_SAMPLE_RAW.into(),
        ..Default::default()
    };
    let layout = RecordLayout::new(shape);
    let of = |length: usize| {
        let raw = vec![1; length];
        encode::sample(&shape, &encode::Values { raw, ..Default::default() })
    };
    let tail = crate::event::sample_field::TAIL_BYTES;
    let largest = 8 * RECORD - tail;
    assert_eq!(record(&layout, None, &of(largest - 4)).unwrap().len(), 8 * RECORD);
    assert_eq!(record(&layout, None, &of(largest + 4)), None);
    assert_eq!(record(&layout, None, &of(65_524)), None);
}
