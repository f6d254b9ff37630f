//! The table, and tails of hand-made samples.

use super::*;

fn tail(extra: &SampleExtra<'_>) -> impl Iterator<Item = u64> {
    tail_lists(extra).into_iter().flat_map(|list| list.iter()).chain(tail_words(extra))
}

#[test]
fn each_kind_with_several_values_has_its_list_in_the_order_of_the_table() {
    let several = |kind: &FieldValue| matches!(kind.name(), "registers" | "branches" | "counts");
    let kinds = SAMPLE_FIELDS.iter().map(|field| field.kind).filter(several);
    assert_eq!(kinds.collect::<Vec<_>>(), LISTS);
}

#[test]
fn each_field_has_a_name_of_its_own_and_one_bit() {
    for (row, field) in SAMPLE_FIELDS.iter().enumerate() {
        assert_eq!(row_named(field.name), Some(row), "{}", field.name);
        assert!(field.name.starts_with('_') && field.bit.is_power_of_two(), "{}", field.name);
        assert_eq!(SampleFields::named(field.name), Some(SampleFields::row(row)));
    }
    assert_eq!(SampleFields::named("_wait"), None);
    assert!(SampleFields::row(SAMPLE_FIELDS.len()).is_empty());
}

#[test]
fn a_set_of_fields_has_their_bits() {
    let set = SampleFields::named("_cgroup").unwrap().or(SampleFields::named("_weight").unwrap());
    assert_eq!(set.sample_type(), abi::PERF_SAMPLE_CGROUP | abi::PERF_SAMPLE_WEIGHT);
    assert_eq!(set.names(), "`_weight`, `_cgroup`");
    assert!(set.without(set).is_empty());
    // Both are decoded from one word of the sample.
    let pair =
        SampleFields::named("_cgroup").unwrap().or(SampleFields::named("_container").unwrap());
    assert_eq!(pair.sample_type(), abi::PERF_SAMPLE_CGROUP);
}

#[test]
fn the_word_of_a_field_is_found_from_the_end_of_the_record() {
    let extra =
        SampleExtra { weight: 7, cgroup: 8, code_page_size: 4096, ..SampleExtra::default() };
    let mut record = vec![0xee; 24];
    record.extend(tail(&extra).flat_map(u64::to_ne_bytes));
    let word = |name| word_of(&record, row_named(name).unwrap());
    assert_eq!(word("_weight"), Some(7));
    assert_eq!(word("_cgroup"), Some(8));
    assert_eq!(word("_container"), Some(8));
    assert_eq!(word("_code_page_size"), Some(4096));
    assert_eq!(word("_branches"), Some(0));
    assert_eq!(record.len(), 24 + TAIL_BYTES);
}

#[test]
fn a_record_without_a_tail_has_no_word() {
    let extra = SampleExtra::default();
    let whole: Vec<u8> = tail(&extra).flat_map(u64::to_ne_bytes).collect();
    assert_eq!(word_of(&whole, 0), Some(0));
    for length in 0..whole.len() {
        assert_eq!(word_of(&whole[..length], 0), None, "{length} bytes");
    }
    assert_eq!(word_of(&whole[1..], 0), None);
}
