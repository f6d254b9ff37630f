//! A CPU that goes offline during a run and comes back.

use std::fs;
use std::time::Duration;

use crate::{
    live::{can_trace, live_tests, skip_anywhere},
    load,
    tool::Tool,
};

live_tests! {
    root: [],
    any: [
        a_cpu_that_went_offline_is_reported_and_watched_again_once_it_is_back,
    ]
}

const CPU: u32 = 1;
const ONLINE: &str = "/sys/devices/system/cpu/cpu1/online";

/// Longer than it takes a run to notice that a CPU has gone or is back.
const NOTICED: Duration = Duration::from_secs(4);

/// Takes the CPU offline; it is back online when this is dropped.
struct Offline;

impl Offline {
    fn begin() -> Offline {
        fs::write(ONLINE, "0").expect("the CPU can be taken offline");
        Offline
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        // A failing write leaves a machine that ends with the tests.
        let _ = fs::write(ONLINE, "1");
    }
}

fn a_cpu_that_went_offline_is_reported_and_watched_again_once_it_is_back() {
    if std::env::var_os("PERILUNE_EMULATED").is_none() {
        skip_anywhere("it disables a CPU; tests/vm/run runs it");
    }
    can_trace();
    let [before, meanwhile, after] = [CPU, 0, CPU].map(|cpu| (cpu, load::getppid_on(cpu, 2000)));
    let made = [&before, &meanwhile, &after].map(|(cpu, load)| (*cpu, load.pid()));
    let tool = Tool::attach(&["trace", "-e", "syscalls:sys_enter_getppid"]);
    before.1.run();
    let offline = Offline::begin();
    std::thread::sleep(NOTICED);
    meanwhile.1.run();
    drop(offline);
    std::thread::sleep(NOTICED);
    after.1.run();
    let run = tool.finish();
    for (cpu, pid) in made {
        let seen = run.events_of(pid);
        assert_eq!(seen.len(), 2000, "CPU {cpu}: {}", run.stderr);
        assert!(seen.iter().all(|event| event["cpu"] == cpu), "{:?}", seen.first());
    }
    let notes: Vec<String> = run.of("note").map(|note| note["text"].to_string()).collect();
    for wanted in ["CPU 1 went offline", "CPU 1 is back online and watched again"] {
        let times = notes.iter().filter(|note| note.contains(wanted)).count();
        assert_eq!(times, 1, "{wanted}: {notes:?}");
    }
}
