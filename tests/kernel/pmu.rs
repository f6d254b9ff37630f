//! Events of PMUs, and what they refuse.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::counters::{count_of, refusal_of_stat};
use crate::live::{live_tests, skip, skip_anywhere};
use crate::tool::Tool;

live_tests! {
    the_cycles_of_the_time_stamp_counter_are_counted_through_its_pmu,
    attributes_and_modifiers_without_effect_are_refused,
    the_boxes_of_an_uncore_pmu_are_added_up,
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
        ("msr/tsc/u", "the PMU counts in all modes, at any time; omit it"),
        ("msr/tsc/D", "the modifier D has no effect"),
        ("{page-faults,r1a8:D}", "the modifier D (pinned) applies to a whole group"),
    ] {
        let said = refusal_of_stat(&["-e", event]);
        assert!(said.contains(why), "{event}: {said}");
    }
    let said = refusal_of_stat(&["-e", "cpu-clock", "-F", "99"]);
    assert!(said.contains("counted events have no rate; omit them"), "{said}");
}

/// Describes two boxes of a PMU, each on a CPU of its own, whose events are a rare system call.
fn boxes(folder: &std::path::Path) {
    let id = perilune::sys::tracefs::Tracefs::find().expect("tracefs is mounted");
    let id = id.id("syscalls", "sys_enter_sched_get_priority_max").expect("the tracepoint exists");
    for cpu in 0..2 {
        let pmu = folder.join(format!("uncore_fake_{cpu}"));
        for (file, text) in [
            ("type", "2\n".to_owned()),
            ("cpumask", format!("{cpu}\n")),
            ("format/event", "config:0-31\n".to_owned()),
            ("events/calls", format!("event={id}\n")),
        ] {
            let path = pmu.join(file);
            fs::create_dir_all(path.parent().expect("in a folder")).expect("a folder of the PMU");
            fs::write(path, text).expect("a file of the PMU");
        }
    }
}

fn the_boxes_of_an_uncore_pmu_are_added_up() {
    const CALLS: [u64; 2] = [3000, 2000];
    if perilune::sys::cpus::online_cpus().len() < 2 {
        skip_anywhere("this machine has one CPU");
    }
    for program in ["unshare", "taskset", "python3"] {
        if Command::new(program).arg("--version").output().is_err() {
            skip_anywhere(&format!("{program} is not installed"));
        }
    }
    let folder = tempfile::tempdir().expect("a folder for the PMUs");
    boxes(folder.path());
    let on = |cpu: usize, calls| {
        let body = format!("import os\nfor i in range({calls}): os.sched_get_priority_max(0)");
        format!("taskset -c {cpu} python3 -c '{body}'")
    };
    let work = format!("{}; {}", on(0, CALLS[0]), on(1, CALLS[1]));
    let rows = |args: &[&str]| {
        let devices = "/sys/bus/event_source/devices";
        let mount = format!("mount --bind {} {devices} && exec \"$@\"", folder.path().display());
        let output = Command::new("unshare")
            .args(["-m", "sh", "-c", &mount, "sh", env!("CARGO_BIN_EXE_perilune"), "stat", "-a"])
            .args(args)
            .args(["--json", "--", "sh", "-c", &work])
            .output()
            .expect("unshare runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let rows = rows.filter(|row| row["type"] == "row").map(|row| {
            let count = row["count"].as_u64().unwrap_or_else(|| panic!("{row}"));
            (row["event"].as_str().unwrap_or_default().to_owned(), row["cpu"].as_u64(), count)
        });
        (rows.collect::<Vec<_>>(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (merged, stderr) = rows(&["-e", "uncore_fake/calls/"]);
    let [(name, None, count)] = &merged[..] else { panic!("{merged:?} {stderr}") };
    assert!(name == "uncore_fake/calls/" && *count == CALLS[0] + CALLS[1], "{merged:?} {stderr}");
    let (boxes, stderr) = rows(&["-e", "fake/calls/", "--no-merge", "--perins"]);
    for (cpu, calls) in CALLS.into_iter().enumerate() {
        let name = format!("uncore_fake_{cpu}/calls/");
        let of_box = |row: &&(String, Option<u64>, u64)| row.0 == name && row.1 == Some(cpu as u64);
        let counts: Vec<u64> = boxes.iter().filter(of_box).map(|row| row.2).collect();
        assert!(counts == [calls], "{boxes:?} {stderr}");
    }
    // The events of a group are read at once, in each box.
    let (group, stderr) = rows(&["-e", "{uncore_*/calls/,fake/calls/}"]);
    let [(.., one), (.., other)] = &group[..] else { panic!("{group:?} {stderr}") };
    assert!(one == other && *one == CALLS[0] + CALLS[1], "{group:?} {stderr}");
}
