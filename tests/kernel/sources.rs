//! Monitors as events of other monitors: their events are those of the monitor itself.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{functions::Program, live::live_tests, load, tool::Run, watch};

live_tests! {
    samples_between_two_calls_show_the_function_that_ran,
    the_emitted_states_of_a_task_are_its_sleeps,
    the_emitted_page_faults_are_those_of_the_workload,
    a_source_of_durations_emits_each_without_a_threshold,
    emitted_calls_have_their_decoded_arguments,
    delays_and_nested_calls_are_those_of_the_emitted_calls,
    open_files_are_found_by_the_events_of_opens,
    a_source_of_a_source_passes_its_events_on,
    a_monitor_is_not_its_own_source,
    a_wrong_option_of_a_source_names_the_source,
}

fn events<'a>(run: &'a Run, name: &str) -> Vec<&'a Value> {
    run.of("event").filter(|event| event["event"] == name).collect()
}

fn samples_between_two_calls_show_the_function_that_ran() {
    const HZ: f64 = 500.0;
    let (load, measured) = load::spins_around_two_calls(600);
    let of = load.pid().to_string();
    let to = "syscalls:sys_enter_getgid,profile/-F 500 --watermark 50/untraced/";
    let pair = ["multi-trace", "-e", "syscalls:sys_enter_getuid", "-e", to, "-p", &of];
    let run = watch(&[&pair[..], &["--than", "1ms", "--detail"]].concat(), load);
    let samples = events(&run, "profile");
    // A timer of a virtual machine may be late, never early.
    let expected = measured.get(0) as f64 / 1e9 * HZ;
    let got = samples.len() as f64;
    let bounds = expected * 0.75 - 5.0..expected * 1.1 + 5.0;
    assert!(bounds.contains(&got), "{got} of {expected}: {}", run.stderr);
    let of_function =
        |name: &str| samples.iter().filter(|e| e["function"].to_string().contains(name)).count();
    let (between, outside) = (of_function("spin_between"), of_function("spin_outside"));
    assert!(between as f64 >= got * 0.9 && outside == 0, "{between} + {outside} of {got}");
    let offsets: Vec<_> = run.of("event").filter_map(|e| e["offset_ns"].as_i64()).collect();
    assert_eq!(offsets.len(), samples.len() + 2, "only the samples and the pair are printed");
    assert!(offsets[0] == 0 && offsets.is_sorted(), "{offsets:?}");
    run.is_complete();
}

fn the_emitted_states_of_a_task_are_its_sleeps() {
    const ROUNDS: u32 = 5;
    let _busy = load::never_idle();
    let (load, _) = load::alternate(ROUNDS, 20);
    let pid = load.pid();
    let run = watch(&["trace", "-e", "task-state/-S -g/", "-p", &pid.to_string()], load);
    let sleeps: Vec<_> =
        events(&run, "task-state").into_iter().filter(|e| e["tid_"] == pid).collect();
    // A sleep begins with its timer, the state with the switch away, a little later.
    let long = |e: &&&Value| e["delay_us"].as_f64().is_some_and(|us| us >= 19_000.0);
    assert_eq!(sleeps.iter().filter(long).count(), ROUNDS as usize, "{:?}", run.objects);
    assert!(sleeps.iter().all(|e| e["state"] == "S" && e["stack"].is_array()), "{sleeps:?}");
    run.is_complete();
}

fn the_emitted_page_faults_are_those_of_the_workload() {
    const PAGES: usize = 2000;
    let (load, measured) = load::faults(PAGES);
    let of = load.pid().to_string();
    let run = watch(&["trace", "-e", "page-faults/-e page-faults/", "-p", &of], load);
    let (first, size) = (measured.get(0), measured.get(1));
    let address = |event: &Value| {
        let text = event["address"].as_str()?.strip_prefix("0x")?.to_owned();
        u64::from_str_radix(&text, 16).ok()
    };
    let faults = events(&run, "page-faults");
    let inside = faults.iter().filter_map(|event| address(event));
    let inside = inside.filter(|at| (first..first + size).contains(at)).count();
    assert_eq!(inside, PAGES, "{} events: {}", faults.len(), run.stderr);
    run.is_complete();
}

/// Calls of getppid.
const CALLS: u32 = 500;
/// The exits of getppid, as events of `syscalls`.
const EXITS: &str = "syscalls/--only getppid/";

fn a_source_of_durations_emits_each_without_a_threshold() {
    let load = load::getppid(CALLS);
    let (pid, of) = (load.pid(), load.pid().to_string());
    let run = watch(&["top", "-e", EXITS, "-k", "_pid", "-p", &of], load);
    let rows: Vec<&Value> = run.of("row").collect();
    assert_eq!(rows.len(), 1, "{}", run.stderr);
    assert_eq!((&rows[0]["pid"], &rows[0]["syscalls"]), (&pid.into(), &CALLS.into()));
    run.is_complete();
}

fn emitted_calls_have_their_decoded_arguments() {
    // The shell opens a file for each redirection.
    let work = "for i in 1 2 3 4 5 6; do echo > /dev/null; done";
    let event = "syscalls/--only openat/";
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["top", "-e", event, "-k", "args", "--json"])
        .args(["--", "/bin/sh", "-c", work])
        .output()
        .expect("the built command runs");
    let (text, errors) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let objects = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let rows: Vec<Value> = objects.filter(|object| object["type"] == "row").collect();
    let plain = rows.iter().find(|row| row["args"] == "flags=WRONLY|CREAT|TRUNC");
    let plain = plain.unwrap_or_else(|| panic!("{rows:?} {errors}"));
    assert_eq!(plain["syscalls"], 6, "{rows:?}");
    assert!(!errors.contains("emits"), "{errors}");
}

fn delays_and_nested_calls_are_those_of_the_emitted_calls() {
    let entry = format!("raw_syscalls:sys_enter/id=={}/", libc::SYS_getppid);
    for monitor in ["mpdelay", "nested"] {
        let load = load::getppid(CALLS);
        let of = load.pid().to_string();
        let run = watch(&[monitor, "-e", &format!("{entry},{EXITS}"), "-p", &of], load);
        let calls: f64 = run.of("row").filter_map(|row| row["calls"].as_f64()).sum();
        assert_eq!(calls, f64::from(CALLS), "{monitor}: {:?} {}", run.objects, run.stderr);
        run.is_complete();
    }
}

fn open_files_are_found_by_the_events_of_opens() {
    const KEPT: u64 = 7;
    let program = Program::of(
        "#include <fcntl.h>\n#include <unistd.h>\n\
         int main(void) { volatile char path[] = \"/proc/self/stat\"; \
         for (int i = 0; i < 50; i++) { \
         int file = open((char *)path, O_RDONLY); if (i >= 7) close(file); } return 0; }\n",
        &[],
    );
    let own = "_tid * 65536 + fd";
    let opened = format!("opens/--path '*/stat'/ptr=\"{own}\"/size=1/");
    let closed = format!("syscalls:sys_enter_close//ptr=\"{own}\"/");
    let run = program.with_arguments(&["kmemleak", "--alloc", &opened, "--free", &closed], &[]);
    let kept: u64 = run.of("row").filter_map(|row| row["objects"].as_u64()).sum();
    assert_eq!(kept, KEPT, "{:?} {}", run.objects, run.stderr);
}

fn a_source_of_a_source_passes_its_events_on() {
    let (load, measured) = load::spins_around_two_calls(200);
    let (pid, of) = (load.pid(), load.pid().to_string());
    let inner = "trace/\"-e 'profile/-F 500/'\"/key=_pid/";
    let run = watch(&["top", "-e", inner, "-p", &of], load);
    let rows: Vec<_> = run.of("row").filter(|row| row["pid"] == pid).collect();
    let got: f64 = rows.iter().filter_map(|row| row["trace"].as_f64()).sum();
    let least = measured.get(0) as f64 / 1e9 * 500.0 * 3.0 * 0.75 - 5.0;
    assert!(got > least, "{got} of {least}: {:?}", run.objects);
    run.is_complete();
}

fn refused(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(args)
        .args(["--duration", "1s"])
        .stdin(Stdio::null())
        .output()
        .expect("the built command runs");
    assert!(!output.status.success(), "{args:?} is refused");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn a_monitor_is_not_its_own_source() {
    let why = refused(&["trace", "-e", "trace/-e sched:sched_switch/"]);
    assert!(why.contains("trace: a monitor cannot take its own events"), "{why}");
    let why = refused(&["trace", "-e", "cpu-util//"]);
    assert!(why.contains("cpu-util: this monitor emits no events"), "{why}");
}

fn a_wrong_option_of_a_source_names_the_source() {
    let why = refused(&["trace", "-e", "profile/--freqq 200/"]);
    assert!(why.contains("profile: no option '--freqq'; did you mean '--freq'?"), "{why}");
    let why = refused(&["trace", "-e", "profile/-F x/"]);
    assert!(why.contains("profile: -F: "), "{why}");
    let why = refused(&["trace", "-e", "profile/-F 0/"]);
    assert!(why.contains("profile: -F 0 takes no samples"), "{why}");
}
