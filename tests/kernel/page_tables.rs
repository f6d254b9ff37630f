//! kvmmmu over a guest that touches a known number of pages.

use crate::functions::Program;
use crate::live::{live_tests, skip_anywhere};

live_tests! {
    the_mapped_pages_of_a_guest_are_those_that_it_touches,
}

const GUEST: &str = include_str!("guest/pages.c");
const PAGES: u32 = 1000;

fn the_mapped_pages_of_a_guest_are_those_that_it_touches() {
    if !std::path::Path::new("/sys/kernel/tracing/events/kvmmmu").exists() {
        skip_anywhere("this kernel has no events kvmmmu:*");
    }
    let run = Program::of(GUEST, &[]).watched(&["kvmmmu", "-a"], PAGES, 0);
    if run.code == Some(10) {
        skip_anywhere("this machine has no /dev/kvm");
    }
    run.is_complete();
    let of = |change: &str, entry: &str| -> u64 {
        let rows = run.of("row").filter(|row| row["comm"] == "chain");
        let rows = rows.filter(|row| row["change"] == change && row["entry"] == entry);
        rows.filter_map(|row| row["times"].as_u64()).sum()
    };
    // One more is the page of its code. A host that does not shadow the guest's own page tables
    // also maps those: 8 of them, and 3 above.
    let mapped = of("page mapped", "4 KiB");
    let least = u64::from(PAGES) + 1;
    assert!((least..=least + 11).contains(&mapped), "{mapped}: {:?}", run.objects);
    // Each table has 512 entries; the code is in another one than the data.
    let made = of("table made", "4 KiB");
    assert!((3..=4).contains(&made), "{made}: {:?}", run.objects);
    assert_eq!(of("table made", "2 MiB"), 1, "{:?}", run.objects);
}
