//! page-faults: a workload that touches N new pages causes N faults in them.

use crate::{live::live_tests, load};

live_tests! {
    each_touched_page_is_one_fault,
    with_a_period_one_sample_represents_that_many_faults,
}

fn each_touched_page_is_one_fault() {
    const PAGES: usize = 1000;
    let (load, measured) = load::faults(PAGES);
    let pid = load.pid();
    let run = crate::watch(&["page-faults", "--address", "-p", &pid.to_string()], load);
    let (first, all) = (measured.get(0), measured.get(1));
    let address = |row: &serde_json::Value| {
        let text = row["address"].as_str().unwrap_or_default().trim_start_matches("0x").to_owned();
        u64::from_str_radix(&text, 16).unwrap_or_default()
    };
    let inside = run.of("row").filter(|row| (first..first + all).contains(&address(row)));
    let inside: Vec<_> = inside.collect();
    assert_eq!(inside.len(), PAGES, "{}", run.stderr);
    assert!(inside.iter().all(|row| row["faults"] == 1 && row["pid"] == pid));
    run.is_complete();
}

fn with_a_period_one_sample_represents_that_many_faults() {
    const PAGES: u64 = 20_000;
    let (load, _) = load::faults(PAGES as usize);
    let pid = load.pid();
    let watched = ["trace", "-e", "page-faults/period=100/", "-p", &pid.to_string()];
    let run = crate::watch(&watched, load);
    let periods: Vec<_> = run.of("event").map(|event| event["period"].as_u64()).collect();
    assert!(periods.iter().all(|period| *period == Some(100)), "{periods:?}");
    // The task also touches its stack and its code; each of two CPUs keeps a remainder.
    let (samples, least) = (periods.len() as u64, PAGES / 100);
    assert!((least - 2..least + 10).contains(&samples), "{samples}: {}", run.stderr);
    run.is_complete();
}
