//! Events of PMUs, and what they refuse.

use std::process::Command;
use std::time::Duration;

use crate::counters::{count_of, refusal_of_stat};
use crate::live::{live_tests, skip};
use crate::tool::Tool;

live_tests! {
    the_cycles_of_the_time_stamp_counter_are_counted_through_its_pmu,
    attributes_and_modifiers_without_effect_are_refused,
}

fn the_cycles_of_the_time_stamp_counter_are_counted_through_its_pmu() {
    if !std::path::Path::new("/sys/bus/event_source/devices/msr/events/tsc").exists() {
        skip("this machine has no PMU msr");
    }
    let listed = Command::new(env!("CARGO_BIN_EXE_perilune")).args(["list", "msr/"]).output();
    let listed = String::from_utf8(listed.expect("the built command runs").stdout).unwrap();
    assert!(listed.contains("msr/tsc/  pmu\n"), "{listed}");
    // The same counter twice: by its event, and by its config under another name.
    let events = "msr/tsc/,msr/config=0,name=other/";
    let tool = Tool::attach(&["stat", "-e", events]);
    std::thread::sleep(Duration::from_millis(500));
    let run = tool.finish();
    let (by_event, by_config) = (count_of(&run, "msr/tsc/"), count_of(&run, "other"));
    assert!(by_event > 100_000_000, "half a second has more cycles than {by_event}");
    assert!(by_event.abs_diff(by_config) < by_event / 20, "{by_event} and {by_config}");
}

fn attributes_and_modifiers_without_effect_are_refused() {
    for (event, why) in [
        ("cpu-clock/freq=99/", "omit the attribute 'freq'"),
        ("page-faults//stack/", "omit the attribute 'stack'"),
        ("page-faults:p", "the modifier p has no effect"),
        ("context-switches:D", "software events need no hardware counter"),
        ("cycles:pp", "precision has no effect on a count"),
        ("msr/tcs/", "msr has no term 'tcs'; did you mean 'tsc'?"),
        ("mrs/tsc/", "no PMU 'mrs' on this machine; did you mean 'msr'?"),
        ("msr/tsc,period=9/", "it is counted, not sampled"),
    ] {
        let said = refusal_of_stat(&["-e", event]);
        assert!(said.contains(why), "{event}: {said}");
    }
    let said = refusal_of_stat(&["-e", "cpu-clock", "-F", "99"]);
    assert!(said.contains("counted events have no rate; omit them"), "{said}");
}
