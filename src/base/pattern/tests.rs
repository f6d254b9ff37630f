//! What ends a search that takes long. What is found, tests/patterns.rs compares with LuaJIT.

use super::*;
use std::cell::Cell;

#[test]
fn a_match_that_backtracks_for_years_is_stopped() {
    let subject = vec![b'a'; 1000];
    let pattern = b"a*".repeat(20).into_iter().chain(*b"b").collect::<Vec<u8>>();
    let asked = Cell::new(0);
    let stop = || asked.replace(asked.get() + 1) == 3;
    let mut matcher = Matcher::new(&subject, &pattern, stop);
    assert_eq!(matcher.search(0, true), Err(PatternError::Stopped));
    assert_eq!(asked.get(), 4);
}

#[test]
fn a_long_text_that_nearly_occurs_everywhere_is_stopped() {
    let (subject, text) = (vec![b'a'; 1 << 20], vec![b'a'; 1 << 19]);
    let text: Vec<u8> = text.into_iter().chain(*b"b").collect();
    let mut matcher = Matcher::new(&subject, b"", || true);
    assert_eq!(matcher.search_plain(0, &text), Err(PatternError::Stopped));
}
