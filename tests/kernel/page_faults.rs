//! page-faults: a workload that touches N new pages causes N faults in them.

use crate::{live::live_tests, load, tool::Tool};

live_tests! {
    each_touched_page_is_one_fault,
    with_a_period_one_sample_represents_that_many_faults,
    events_that_sample_the_same_fault_have_a_sample_each,
    a_fault_that_another_program_samples_first_has_its_event_and_time,
}

/// Checks the number of samples of so many faults, with a period. The task also touches its stack
/// and its code; each of two CPUs keeps a remainder.
#[track_caller]
fn check_samples(samples: u64, faults: u64, period: u64, why: &str) {
    let least = faults / period;
    assert!((least - 2..least + 10 + 100 / period).contains(&samples), "{samples}: {why}");
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
    check_samples(periods.len() as u64, PAGES, 100, &run.stderr);
    run.is_complete();
}

fn events_that_sample_the_same_fault_have_a_sample_each() {
    const PAGES: u64 = 20_000;
    // The kernel gives all samples of a fault the ID of the first.
    let text = "local m, of = monitor { summary = 'faults' }, { a = 0, b = 0, c = 0, switches = 0 }
        local function count(selector, name)
          evsel(selector, function(e) of[name] = of[name] + 1 end)
        end
        function m.init()
          count('page-faults//period=10/', 'a')
          count('page-faults//period=20/', 'b')
          count('page-faults//period=100/', 'c')
          count('context-switches//period=1/', 'switches')
        end
        function m.deinit() emit(of) end
        return m";
    let folder = tempfile::tempdir().expect("a folder for the script");
    let path = folder.path().join("s.lua");
    std::fs::write(&path, text).expect("the script can be written");
    let (load, _) = load::faults(PAGES as usize);
    let run = crate::watch(&[&path.to_string_lossy(), "-p", &load.pid().to_string()], load);
    let row = run.of("row").next().unwrap_or_else(|| panic!("{}", run.stderr));
    for (name, period) in [("a", 10), ("b", 20), ("c", 100)] {
        check_samples(row[name].as_u64().unwrap_or(0), PAGES, period, &row.to_string());
    }
    assert!(row["switches"].as_u64() < Some(1000), "{row}");
    run.is_complete();
}

fn a_fault_that_another_program_samples_first_has_its_event_and_time() {
    const PAGES: u64 = 20_000;
    let (load, _) = load::faults(PAGES as usize);
    let pid = load.pid().to_string();
    let attach = |period| {
        let event = format!("page-faults//period={period}/");
        Tool::attach(&["trace", "-e", &event, "-p", &pid])
    };
    // The kernel asks the event that was opened last first.
    let first = attach(10);
    let second = attach(20);
    load.run();
    for (run, period) in [(first.finish(), 10), (second.finish(), 20)] {
        let times: Vec<_> = run.of("event").map(|event| event["time"].as_str()).collect();
        check_samples(times.len() as u64, PAGES, period, &run.stderr);
        assert!(times.is_sorted(), "{period}");
        run.is_complete();
    }
}
