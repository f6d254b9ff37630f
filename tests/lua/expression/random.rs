//! Random expressions compared with the C compiler.

use super::chance::Chance;
use super::{c, record};

/// Number of expressions, their maximum depth, and the number of records.
const EXPRESSIONS: usize = 400;
const DEPTH: u32 = 4;
const RECORDS: usize = 24;

#[test]
fn random_trees_have_the_values_of_c() {
    let mut chance = Chance(0x2545_f491_4f6c_bbcc);
    let pairs: Vec<_> = (0..EXPRESSIONS).map(|n| chance.tree(1 + n as u32 % DEPTH)).collect();
    c::compare(&pairs, &record::records(RECORDS), 0);
}

#[test]
fn compiled_code_has_the_values_of_c() {
    let mut chance = Chance(0x1234_5678_9abc_bbcc);
    let pairs: Vec<_> = (0..200).map(|n| chance.tree(1 + n % 4)).collect();
    c::compare(&pairs, &record::records(24), 120);
}

/// LuaJIT splits sums of doubles where they are converted to 64-bit integers, and once lost the
/// overflow of an `int` there.
#[test]
fn compiled_sums_that_overflow_an_int_stay_whole() {
    let pairs = [
        "(si - 1000l) * 1ul",
        "ul * (one - (si - _tid) * 1)",
        "(si * 3l + (si - _tid)) * 1ul",
        "ul * (u32)(si - 1000)",
        "~(si - 1000) * ul",
        "ul + (si - 1000l) * one / 1",
        "(ui + 1l + si) % 1000000007ul",
    ];
    let pairs = pairs.map(|text| (text.to_owned(), text.to_owned()));
    c::compare(&pairs, &record::records(24), 120);
}
