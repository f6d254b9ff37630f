//! Operations that are undefined in C: the result and the count.

use super::{lua, record};

#[test]
fn operations_undefined_in_c_give_0_and_are_counted() {
    let cases = [
        ("si / zero", "0"),
        ("si % zero", "0"),
        ("ui / zero", "0"),
        ("sl / zero", "0"),
        ("ul % zero", "0"),
        ("sl % (long)zero", "0"),
        ("7 / zero", "0"),
        ("1 / 0", "0"),
        ("ub / (zero * 2)", "0"),
        ("(-2147483647 - 1 + zero) / (zero - one)", "0"),
        ("(-2147483647 - 1 + zero) % (zero - one)", "0"),
        ("(-9223372036854775807 - 1 + zero) / (zero - one)", "0"),
        ("(-9223372036854775807 - 1 + zero) % (zero - one)", "0"),
        ("one << 32", "0"),
        ("one << (zero - one)", "0"),
        ("(one + 0l) << 64", "0"),
        ("si >> 32", "0"),
        ("ui >> (one + 31)", "0"),
        ("sl >> 64 + zero", "0"),
        ("ul << (zero - one)", "0"),
        ("ul >> longs[0] % 1 - 1", "0"),
        ("ints[4]", "0"),
        ("ints[zero - one]", "0"),
        ("ints[4 + zero]", "0"),
        ("longs[one + one]", "0"),
        ("dyn[3]", "0"),
        ("text[16]", "0"),
        ("shorts[18446744073709551615ul]", "0"),
    ];
    let sources: Vec<String> = cases.iter().map(|(text, _)| (*text).to_owned()).collect();
    let records = record::records(5);
    for repeats in [0, 80] {
        let (texts, undefined) = lua::texts(&sources, &records, repeats);
        for line in texts {
            for (text, (source, expected)) in line.iter().zip(cases) {
                assert_eq!(text, expected, "{source}");
            }
        }
        assert_eq!(undefined, (cases.len() * records.len()) as u64 * u64::from(repeats + 1));
    }
}

#[test]
fn defined_operations_are_not_counted() {
    let sources = [
        "dyn[0] + dyn[2]",
        "name",
        "rel",
        "zero / one",
        "one << 31",
        "1l << 63",
        "zero && 1 / zero",
        "one || 1 / zero",
        "one ? 2 : 1 / zero",
        "(zero - 2147483647) / (zero - one)",
        "(one + 2147483647l) / one",
        "text[15]",
        "(long)(ui + 1) / one",
    ];
    let sources: Vec<String> = sources.iter().map(|text| (*text).to_owned()).collect();
    let (texts, undefined) = lua::texts(&sources, &record::records(5), 60);
    assert_eq!(undefined, 0);
    assert_eq!(texts[0][..4], ["76", "", "related", "0"]);
    assert_eq!(texts[0][9..11], ["2147483647", "2147483648"]);
}

#[test]
fn a_dynamic_field_that_is_not_in_the_record_is_empty_and_counted() {
    let mut records = record::records(2);
    let place = |offset: u32, length: u32| (offset | (length << 16)).to_ne_bytes();
    records[0][96..100].copy_from_slice(&place(60_000, 20));
    records[0][104..108].copy_from_slice(&place(0, 0));
    let sources = ["name", "dyn[0]", "name == \"\"", "name ~ \"k*\""].map(str::to_owned);
    let (texts, undefined) = lua::texts(&sources, &records, 0);
    assert_eq!(texts, [["", "0", "1", "0"], ["kworker/0:1", "-1", "0", "1"]]);
    assert_eq!(undefined, 4);
}
