//! Delays longer than a threshold: the kernel measures all of them, and writes the events of the
//! long ones only.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::counting::can_count;
use crate::live::live_tests;
use crate::load::{self, Load, pin_to_cpu};
use crate::paired::{both, is_exact, run_briefly, start, sum};
use crate::tool::{Run, Tool};

live_tests! {
    only_long_calls_are_written_with_the_fields_of_both_events,
    long_waits_for_a_cpu_have_their_wakeup_and_their_switch,
    each_pair_is_printed_or_lost_where_the_ring_is_full,
    pairs_are_printed_until_the_programs_stop,
    an_end_by_a_thread_that_ends_has_its_thread,
    a_script_takes_long_pairs_with_their_columns,
    all_declarations_of_an_event_count_it_once,
    a_start_has_the_name_that_its_task_had,
    starts_without_an_end_have_their_text_as_key,
    short_texts_are_printed_and_long_ones_are_counted,
    pairs_that_programs_cannot_write_need_records,
}

const SHORT: u32 = 60;
const LONG: u32 = 7;

/// Sleeps for 1 ms and 25 ms: as many times as the constants say.
fn naps() -> Load {
    Load::new(|| {
        for n in 0..SHORT + LONG {
            let ms = if n % 9 == 4 && n / 9 < LONG { 25 } else { 1 };
            std::thread::sleep(Duration::from_millis(ms));
        }
    })
}

/// Returns the stages of a call: its entry and its exit.
fn stages(call: i64) -> Vec<String> {
    let event = |name| format!("raw_syscalls:{name}/id=={call}/");
    let events = [event("sys_enter"), event("sys_exit")];
    ["multi-trace", "-k", "_tid", "-e", &events[0], "-e", &events[1]].map(str::to_owned).into()
}

fn with<'a>(stages: &'a [String], further: &[&'a str]) -> Vec<&'a str> {
    stages.iter().map(String::as_str).chain(further.iter().copied()).collect()
}

/// Returns the printed pairs: start and end.
pub(crate) fn pairs(run: &Run) -> Vec<[&Value; 2]> {
    let events: Vec<&Value> = run.of("event").collect();
    assert_eq!(events.len() % 2, 0, "{events:?}");
    let pairs: Vec<_> = events.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
    for [start, end] in &pairs {
        assert!(start["delay_us"].is_number() && end["delay_us"].is_null(), "{start} {end}");
    }
    pairs
}

/// Returns what a run that ends by itself, in this folder, printed.
fn objects_of(args: &[&str], folder: &Path) -> Vec<Value> {
    can_count();
    let output =
        Command::new(env!("CARGO_BIN_EXE_perilune")).args(args).current_dir(folder).output();
    let output = output.expect("the built command runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns an event without what differs between two tools that watch the same one.
pub(crate) fn fields(event: &Value) -> Value {
    let mut fields = event.clone();
    let all = fields.as_object_mut().expect("an event is an object");
    all.retain(|name, _| !["time", "delay_us"].contains(&name.as_str()));
    fields
}

/// Returns the time of an event in nanoseconds, of its second.
fn time_of(event: &Value) -> i64 {
    let text = event["time"].as_str().unwrap_or_else(|| panic!("{event}"));
    let digits = text.rsplit('.').next().and_then(|rest| rest.strip_suffix('Z'));
    let digits = digits.unwrap_or_else(|| panic!("{text}"));
    format!("{digits:0<9}").parse().expect("digits")
}

fn microseconds(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

fn only_long_calls_are_written_with_the_fields_of_both_events() {
    let load = naps();
    let pid = load.pid();
    let stages = stages(libc::SYS_clock_nanosleep);
    let of = pid.to_string();
    let [kernel, user] = both(&with(&stages, &["--than", "10ms", "-p", &of]), load);
    is_exact(&kernel);
    let calls = |run: &Run| sum(run, "latency", "calls", |_| true);
    assert_eq!([&kernel, &user].map(calls), [f64::from(SHORT + LONG); 2]);
    let events = f64::from(2 * (SHORT + LONG));
    assert_eq!(kernel.coverage()["events"], events, "written pairs are counted once");
    assert_eq!(kernel.coverage()["starts"], SHORT + LONG, "{}", kernel.coverage());
    let [of_kernel, of_user] = [&kernel, &user].map(pairs);
    assert_eq!([of_kernel.len(), of_user.len()], [LONG as usize; 2], "{:?}", kernel.objects);
    for (mine, theirs) in of_kernel.iter().zip(&of_user) {
        assert_eq!(mine.map(fields), theirs.map(fields));
        for (one, other) in mine.iter().zip(theirs) {
            let apart = (time_of(one) - time_of(other)).rem_euclid(1_000_000_000);
            assert!(!(5_000_000..995_000_000).contains(&apart), "{one} {other}");
        }
        let [start, end] = mine;
        assert_eq!([&start["pid"], &start["tid"], &end["tid"]], [pid; 3]);
        let delay = microseconds(&start["delay_us"]);
        assert!((25_000.0..40_000.0).contains(&delay), "{start}");
        let other = microseconds(&theirs[0]["delay_us"]);
        assert!((delay - other).abs() < 5000.0, "{delay} {other}");
    }
    let most = |run: &Run| sum(run, "latency", "max_us", |_| true);
    let delays = of_kernel.iter().map(|pair| microseconds(&pair[0]["delay_us"]));
    assert_eq!(delays.fold(0.0, f64::max), most(&kernel), "the table has the printed delays");
}

fn long_waits_for_a_cpu_have_their_wakeup_and_their_switch() {
    let busy = || {
        Load::new(|| {
            pin_to_cpu(0);
            let since = std::time::Instant::now();
            while since.elapsed() < Duration::from_millis(600) {
                std::hint::spin_loop();
            }
        })
    };
    let mut loads = [busy(), busy(), busy()];
    let of = loads.each_ref().map(|load| load.pid().to_string()).join(",");
    let tool = start("kernel", &["rundelay", "--than", "3ms", "-p", &of, "--perins"]);
    loads.iter_mut().for_each(Load::start);
    loads.into_iter().for_each(Load::wait);
    let run = tool.finish();
    run.is_complete();
    let all = pairs(&run);
    // Three tasks share a CPU for 0.6 s each, in slices of some milliseconds.
    assert!(all.len() > 20, "{:?}", run.objects);
    let mut longest = 0.0_f64;
    for [start, end] in all {
        let delay = microseconds(&start["delay_us"]);
        assert!(delay > 3000.0 && end["event"] == "sched:sched_switch", "{start} {end}");
        let waits = match start["event"].as_str() {
            Some("sched:sched_switch") => &start["prev_pid"],
            _ => &start["pid_"],
        };
        assert_eq!(*waits, end["next_pid"], "{start} {end}");
        assert!(of.split(',').any(|pid| *waits == pid.parse::<u32>().expect("a pid")), "{waits}");
        longest = longest.max(delay);
    }
    let rows = run.of("row").filter_map(|row| row["max_us"].as_f64());
    assert_eq!(rows.fold(0.0, f64::max), longest);
}

fn each_pair_is_printed_or_lost_where_the_ring_is_full() {
    const CALLS: u32 = 60_000;
    can_count();
    let load = load::getppid(CALLS);
    let of = load.pid().to_string();
    let stages = stages(libc::SYS_getppid);
    let args = ["--than", "0.000001us", "-p", &of, "-m", "1", "--where", "kernel"];
    let tool = Tool::attach(&with(&stages, &args));
    load.run();
    let run = tool.finish();
    let lost = run.coverage()["lost"].as_f64().expect("a number");
    let printed = pairs(&run).len() as f64;
    assert_eq!(sum(&run, "latency", "calls", |_| true), f64::from(CALLS), "{}", run.stderr);
    assert!(lost > 0.0 && printed > 0.0, "{}", run.coverage());
    assert_eq!(printed + lost, f64::from(CALLS), "{}", run.coverage());
}

fn pairs_are_printed_until_the_programs_stop() {
    let mut load = Load::new(|| {
        for _ in 0..100_000 {
            // SAFETY: takes no argument, changes nothing.
            unsafe { libc::syscall(libc::SYS_getppid) };
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    let of = load.pid().to_string();
    load.start();
    let args = ["syscalls", "--only", "getppid", "--than", "0.000001us", "--where", "kernel"];
    let args = [&args[..], &["-p", &of, "--json", "--duration", "600ms"]].concat();
    let objects = objects_of(&args, Path::new("/"));
    // Its calls did not end before the run.
    drop(load);
    let calls = objects.iter().filter_map(|row| row["calls"].as_u64()).sum::<u64>();
    let printed = objects.iter().filter(|o| o["event"] == "raw_syscalls:sys_exit").count();
    assert!(calls > 1000 && calls == printed as u64, "{calls} {printed}");
}

/// Threads that end while others wait for their CPU: the last switch of a thread is an end.
fn an_end_by_a_thread_that_ends_has_its_thread() {
    const ENDS: usize = 20;
    let load = || {
        Load::new(|| {
            pin_to_cpu(0);
            for _ in 0..ENDS {
                let spin = || {
                    let since = std::time::Instant::now();
                    while since.elapsed() < Duration::from_millis(15) {
                        std::hint::spin_loop();
                    }
                };
                std::thread::spawn(spin).join().expect("the thread ends");
            }
        })
    };
    let mut loads = [load(), load()];
    let of = loads.each_ref().map(|load| load.pid().to_string()).join(",");
    let [kernel, user] =
        ["kernel", "user"].map(|place| start(place, &["rundelay", "--than", "1us", "-p", &of]));
    loads.iter_mut().for_each(Load::start);
    loads.into_iter().for_each(Load::wait);
    let ended = |run: &Run| -> Vec<(Value, Value)> {
        let ends = run.of("event").filter(|event| event["prev_state"] == DEAD);
        ends.map(|event| (event["tid"].clone(), event["prev_pid"].clone())).collect()
    };
    for run in [kernel, user].map(Tool::finish) {
        let ended = ended(&run);
        assert!(ended.len() > ENDS / 2, "{} {:?}", ended.len(), run.stderr);
        assert!(ended.iter().all(|(tid, prev)| tid == prev), "{ended:?}");
    }
}

/// `EXIT_DEAD` as `prev_state`.
const DEAD: u64 = 16;

/// Writes a script of two system calls, with the body of `init`, into a folder.
fn script(folder: &tempfile::TempDir, body: &str) -> String {
    let path = folder.path().join("long.lua");
    let call = libc::SYS_clock_nanosleep;
    let text = format!(
        "local m = monitor {{ summary = 'long calls', order = true }}\n\
        function m.init()\n\
        local enter, exit = evsel 'raw_syscalls:sys_enter', evsel 'raw_syscalls:sys_exit'\n\
        enter:filter 'id == {call}' exit:filter 'id == {call}'\n\
        {body}\n\
        end return m"
    );
    std::fs::write(&path, text).expect("a script can be written");
    path.to_str().expect("a path in UTF-8").to_owned()
}

fn a_script_takes_long_pairs_with_their_columns() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = script(
        &folder,
        "local calls = latency { 'call', 'return', 'cpu' }\n\
        calls:between({ enter, rows = { 'id', [3] = '_cpu' } }, exit, {\n\
        key = '_tid', rows = { [2] = 'ret' }, threads = true, keep = true, than = 10e6,\n\
        pair = function(s, e, delay, call, ret, cpu)\n\
        note('%d %d %s %s %d', call, ret, cpu == s.event._cpu,\n\
        e._time - s.event._time == delay and delay > 25e6 and s.event._period == 1,\n\
        s.event.args[0]) end })",
    );
    let load = naps();
    let of = load.pid().to_string();
    let wanted = format!("{} 0 true true {}", libc::SYS_clock_nanosleep, libc::CLOCK_MONOTONIC);
    for run in both(&[&path, "-p", &of], load) {
        let notes = run.of("note").filter(|note| note["text"] == *wanted);
        assert_eq!(notes.count(), LONG as usize, "{:?}", run.objects);
        assert_eq!(sum(&run, "latency", "calls", |_| true), f64::from(SHORT + LONG));
    }
}

/// A count and three declarations of pairs: two of them take long pairs, with other thresholds.
fn all_declarations_of_an_event_count_it_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = script(
        &folder,
        "kv { 'id', title = 'calls' }:count(enter, { key = 'id' })\n\
        local function pairs_of(title, than, keep)\n\
        latency { 'id', title = title }:between(enter, exit, {\n\
        key = '_tid', rows = { 'id' }, threads = true, keep = keep, than = than,\n\
        pair = than and function(s, e, delay)\n\
        note('%s %s', title, delay > than and (not keep or s.event._tid == e._tid)) end })\n\
        end\n\
        pairs_of('all') pairs_of('long', 10e6, true) pairs_of('every', 1)",
    );
    let load = naps();
    let of = load.pid().to_string();
    for run in both(&[&path, "-p", &of], load) {
        let all = f64::from(SHORT + LONG);
        for table in ["all", "long", "every"] {
            assert_eq!(sum(&run, table, "calls", |_| true), all, "{table}: {:?}", run.objects);
        }
        assert_eq!(sum(&run, "calls", "count", |_| true), all, "{:?}", run.objects);
        let notes = |text: &str| run.of("note").filter(|note| note["text"] == *text).count();
        assert_eq!(notes("long true"), LONG as usize, "{:?}", run.objects);
        assert_eq!(notes("every true"), (SHORT + LONG) as usize, "{:?}", run.objects);
    }
}

fn a_start_has_the_name_that_its_task_had() {
    let call = libc::SYS_execve;
    let event = |name| format!("raw_syscalls:{name}/id=={call}/");
    let (enter, exit) = (event("sys_enter"), event("sys_exit"));
    let args = ["multi-trace", "-k", "_tid", "-e", &enter, "-e", &exit, "--than", "1ns"];
    for place in ["kernel", "user"] {
        let command =
            ["--json", "--where", place, "--", "sh", "-c", "/bin/true; /bin/true; exit 0"];
        let objects = objects_of(&[&args[..], &command].concat(), Path::new("/"));
        let events: Vec<_> = objects.iter().filter(|line| line["type"] == "event").collect();
        let names: Vec<&Value> = events.iter().map(|event| &event["comm"]).collect();
        assert_eq!(names, ["sh", "true", "sh", "true"], "{place}: {objects:?}");
    }
}

fn starts_without_an_end_have_their_text_as_key() {
    let mut load = load::sleep_ms(300_000);
    let of = load.pid();
    let comm = std::fs::read_to_string(format!("/proc/{of}/comm")).expect("it lives");
    let pid = of.to_string();
    let args = ["multi-trace", "-k", "_comm", "-e", "raw_syscalls:sys_enter", "-e"];
    let args = [&args[..], &["raw_syscalls:sys_exit", "-p", &pid]].concat();
    let tools = ["kernel", "user"].map(|place| start(place, &args));
    load.start();
    std::thread::sleep(Duration::from_millis(300));
    for run in tools.map(Tool::finish) {
        let row = run.of("row").find(|row| row["table"] == "no_end_yet");
        let row = row.unwrap_or_else(|| panic!("{:?}", run.objects));
        assert_eq!(row["comm"], comm.trim_end(), "{row}");
    }
}

fn short_texts_are_printed_and_long_ones_are_counted() {
    const SHORT_NAME: &str = "./nap";
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["nap", "nap_of_long_name"] {
        std::fs::copy("/bin/sleep", folder.path().join(name)).expect("a program is copied");
    }
    let naps = "for n in 1 2 3 4; do ./nap 0.02; ./nap_of_long_name 0.02; ./nap 0.001; done";
    let events = ["-e", "sched:sched_process_exec", "-e", "sched:sched_process_exit"];
    let command = ["--json", "--duration", "60s", "--", "/bin/sh", "-c", naps];
    let args = ["multi-trace", "-k", "_tid", "--than", "15ms", "--where", "kernel"];
    let objects = objects_of(&[&args[..], &events, &command].concat(), folder.path());
    let printed = |name: &str| objects.iter().filter(|event| event["filename"] == name).count();
    assert_eq!(printed("./nap_of_long_name"), 0, "{objects:?}");
    // A program can be delayed by others.
    assert!((4..=8).contains(&printed(SHORT_NAME)), "{objects:?}");
    let calls = objects.iter().filter_map(|row| row["calls"].as_u64()).sum::<u64>();
    assert!(calls >= 12, "all pairs are in the table: {objects:?}");
    let last = objects.iter().find(|o| o["type"] == "coverage" && o["final"] == true);
    let undelivered = last.map(|coverage| &coverage["undelivered"]);
    assert_eq!(undelivered, Some(&4.into()), "{objects:?}");
}

fn pairs_that_programs_cannot_write_need_records() {
    can_count();
    let stages = stages(libc::SYS_getppid);
    let stacks = "raw_syscalls:sys_enter//stack/";
    let stacks = ["multi-trace", "-e", stacks, "-e", "raw_syscalls:sys_exit", "-k", "_tid"];
    let stacks = [&stacks[..], &["--than", "1s"]].concat();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let looks_back = script(
        &folder,
        "history { before = 1e6 }\n\
        latency { 'id' }:between(enter, exit, { key = '_tid', rows = { 'id' }, threads = true,\n\
        than = 1e9, pair = function() end })",
    );
    let masks = ["multi-trace", "-e", "ipi:ipi_send_cpumask", "-e", "ipi:ipi_send_cpu"];
    let masks = [&masks[..], &["-k", "_cpu", "--than", "1s"]].concat();
    for (args, why) in [
        (with(&stages, &["--than", "1s", "--detail"]), "a handler takes its records"),
        (with(&stages, &["--than", "1s", "--no-order"]), "does not order events (--no-order)"),
        (vec![&looks_back], "the run has a history of its events"),
        (stacks, "its stack or other fields of its samples are read"),
        (vec!["syscalls", "--than", "1s", "--detail"], "--detail prints records"),
        (vec!["rundelay", "--than", "1s", "--instead"], "a handler takes its records"),
        (masks, "`cpumask` has no fixed size, and --than prints it"),
    ] {
        let (code, text) = run_briefly(&[&args[..], &["--where", "kernel"]].concat());
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(why), "{why}: {text}");
    }
    // Before Linux 6.19, perilune adds the text of a pointer.
    if !perilune::sys::machine::is_linux_since((6, 19)) {
        let opened = ["multi-trace", "-k", "_tid", "--than", "1s", "--where", "kernel"];
        let events = ["-e", "syscalls:sys_enter_openat", "-e", "syscalls:sys_exit_openat"];
        let (code, text) = run_briefly(&[&opened[..], &events].concat());
        let why = "`__filename_val` has no fixed size, and --than prints it; use --where auto";
        assert!(code == Some(1) && text.contains(why), "{text}");
    }
}
