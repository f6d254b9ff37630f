//! Tests of stopping a long search. tests/lua/patterns.rs compares search results with LuaJIT's.

use super::*;
use std::cell::Cell;

#[test]
fn a_match_with_exponential_backtracking_is_stopped() {
    let subject = vec![b'a'; 1000];
    let pattern = b"a*".repeat(20).into_iter().chain(*b"b").collect::<Vec<u8>>();
    let calls = Cell::new(0);
    let stop = || calls.replace(calls.get() + 1) == 3;
    let mut matcher = PatternMatcher::new(&subject, &pattern, stop);
    assert_eq!(matcher.search(0, true), Err(PatternError::Stopped));
    assert_eq!(calls.get(), 4);
}

#[test]
fn a_quadratic_plain_search_is_stopped() {
    let (subject, text) = (vec![b'a'; 1 << 20], vec![b'a'; 1 << 19]);
    let text: Vec<u8> = text.into_iter().chain(*b"b").collect();
    let mut matcher = PatternMatcher::new(&subject, b"", || true);
    assert_eq!(matcher.search_plain(0, &text), Err(PatternError::Stopped));
}
