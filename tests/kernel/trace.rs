//! `trace` on the running kernel: selection, order, flags and printers of events.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use perilune::sys::cpus::online_cpus;
use perilune::sys::tracefs::Tracefs;
use serde_json::Value;

use crate::load;
use crate::tool::Tool;
use crate::{live::live_tests, watch};

live_tests! {
    different_events_come_in_the_order_of_time,
    a_cpu_list_selects_the_events_of_its_cpus,
    a_thread_is_watched_by_its_number,
    a_filter_narrows_each_of_the_events,
    n_events_are_printed_and_no_more,
    interrupts_of_perilune_are_printed_and_counted_also_with_a_user_space_condition,
    a_recording_plays_back_what_was_traced,
    flags_are_those_that_ftrace_shows,
    timers_expire_in_hardirq_context_with_interrupts_off,
    of_perilunes_timers_only_those_set_by_interrupts_are_traced,
    an_event_line_is_laid_out_as_documented,
    a_printer_prints_each_event,
    each_tracepoint_of_this_machine_is_described,
    the_doctor_finds_what_a_run_needs_and_an_ordinary_user_lacks,
}

fn different_events_come_in_the_order_of_time() {
    const FORKS: usize = 200;
    let load = load::forks(FORKS as u32);
    let of = load.pid().to_string();
    let round =
        ["sched:sched_process_fork", "syscalls:sys_enter_exit_group", "sched:sched_process_exit"];
    let events = round.join(",");
    let run = watch(&["trace", "-e", &events, "-p", &of], load);
    let events: Vec<&Value> = run.of("event").collect();
    let time = |event: &Value| event["time"].as_str().map(str::to_owned);
    assert!(events.windows(2).all(|pair| time(pair[0]) <= time(pair[1])));
    // Each child is forked, starts to exit and exits before the next one; the parent does so last.
    let names: Vec<&str> = events.iter().filter_map(|e| e["event"].as_str()).collect();
    let expected = [round.repeat(FORKS), round[1..].to_vec()].concat();
    let apart = names.iter().zip(&expected).position(|(name, expected)| name != expected);
    assert_eq!((names.len(), apart), (expected.len(), None), "{}", run.stderr);
    run.is_complete();
}

fn a_cpu_list_selects_the_events_of_its_cpus() {
    const ROUNDS: u32 = 1000;
    let (mut first, second) = load::ping_pong(ROUNDS);
    let of = format!("prev_pid=={} || prev_pid=={}", first.pid(), second.pid());
    let event = format!("sched:sched_switch/{of}/");
    let cpus = online_cpus();
    let lists = cpus.iter().map(u32::to_string).map(Some).chain([None]);
    let tools: Vec<Tool> = lists
        .map(|list| match list {
            Some(cpu) => Tool::attach(&["trace", "-e", &event, "-C", &cpu]),
            None => Tool::attach(&["trace", "-e", &event]),
        })
        .collect();
    let attached = jiff::Timestamp::now();
    first.start();
    second.run();
    first.wait();
    let runs: Vec<_> = tools.into_iter().map(Tool::finish).collect();
    for (cpu, run) in cpus.iter().zip(&runs) {
        assert!(run.of("event").all(|event| event["cpu"] == *cpu), "-C {cpu}");
        run.is_complete();
    }
    // Events from before the last run was attached were not seen by all runs.
    let since = |event: &&Value| {
        let time = event["time"].as_str().and_then(|time| time.parse::<jiff::Timestamp>().ok());
        time.is_some_and(|time| time >= attached)
    };
    let counts: Vec<usize> = runs.iter().map(|run| run.of("event").filter(since).count()).collect();
    let (all, parts) = counts.split_last().expect("one is without a list");
    assert_eq!(parts.iter().sum::<usize>(), *all, "{counts:?}");
    assert!(*all >= 2 * ROUNDS as usize, "{counts:?}");
}

fn a_thread_is_watched_by_its_number() {
    let load = load::getppid(3000);
    let (tid, of) = (load.pid(), load.pid().to_string());
    let run = watch(&["trace", "-e", "syscalls:sys_enter_getppid", "-t", &of], load);
    assert_eq!(run.of("event").count(), 3000, "{}", run.stderr);
    assert!(run.of("event").all(|event| event["tid"] == tid));
    run.is_complete();
}

fn a_filter_narrows_each_of_the_events() {
    let load = load::getppid(1000);
    let of = load.pid().to_string();
    let filter = format!("id=={}", libc::SYS_getppid);
    let events = "raw_syscalls:sys_enter/common_pid>0/,raw_syscalls:sys_exit";
    let run = watch(&["trace", "-e", events, "--filter", &filter, "-p", &of], load);
    let names: Vec<&str> = run.of("event").filter_map(|e| e["event"].as_str()).collect();
    // An enter and then an exit per call, and nothing else.
    assert_eq!(names, ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"].repeat(1000));
    assert_eq!(run.coverage()["events"], 2000, "the other events were not handled");
    run.is_complete();
}

fn n_events_are_printed_and_no_more() {
    let load = load::getppid(5000);
    let of = load.pid().to_string();
    let run = watch(&["trace", "-e", "syscalls:sys_enter_getppid", "-p", &of, "-N", "123"], load);
    assert_eq!(run.of("event").count(), 123, "{}", run.stderr);
    assert_eq!(run.code, Some(0));
}

fn interrupts_of_perilune_are_printed_and_counted_also_with_a_user_space_condition() {
    // With switches among the events, perilune's own events are hidden; each timer that wakes it is
    // followed by others that interrupt it.
    let (never, timers) =
        ("sched:sched_switch/prev_pid==4000001/", "timer:hrtimer_expire_entry/now%2<2/");
    let words = ["trace", "-e", never, "-e", timers, "--watermark", "0", "-N", "300"];
    let tool = Tool::attach_plain(&words);
    let ours = tool.pid().to_string();
    let (text, code) = tool.finish_by_itself();
    let of_ours = text.lines().filter(|line| beside_cpu(line, -2).is_some_and(|pid| pid == ours));
    assert!(of_ours.count() > 0, "{text}");
    let printed = text.lines().filter(|line| line.contains("hrtimer_expire_entry")).count();
    assert_eq!((printed, code), (300, Some(0)));
}

fn a_recording_plays_back_what_was_traced() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("forks.events");
    let file = file.to_str().expect("its name is text");
    let load = load::forks(100);
    let (pid, of) = (load.pid(), load.pid().to_string());
    let args = ["trace", "-e", "sched:sched_process_fork", "-p", &of, "--events", "-o", file];
    let tool = Tool::attach_plain(&args);
    load.run();
    assert_eq!(tool.finish_text().1, Some(0));
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["trace", "-e", "sched:sched_process_fork", "--replay", file, "--json"])
        .output()
        .expect("the built command runs");
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let events = text.lines().map(|l| serde_json::from_str::<Value>(l).expect("JSON"));
    let forks: Vec<Value> = events.filter(|e| e["type"] == "event").collect();
    assert_eq!(forks.len(), 100);
    assert!(forks.iter().all(|e| e["pid"] == pid && e["parent_pid"] == pid));
}

fn flags_are_those_that_ftrace_shows() {
    const ROUNDS: u32 = 1000;
    let (mut first, second) = load::ping_pong(ROUNDS);
    let of = format!("prev_pid=={} || prev_pid=={}", first.pid(), second.pid());
    let ftrace = Ftrace::record("sched", "sched_switch", &of);
    let tool = Tool::attach_plain(&["trace", "-e", &format!("sched:sched_switch/{of}/")]);
    first.start();
    second.run();
    first.wait();
    let (ours, code) = tool.finish_text();
    assert_eq!(code, Some(0));
    // ftrace has one more column (migration), and prints the CPU before the flags.
    let theirs: Vec<String> =
        ftrace.text().lines().filter_map(|l| beside_cpu(l, 1)).map(|f| f[..4].to_owned()).collect();
    let ours: Vec<String> = ours.lines().filter_map(|l| beside_cpu(l, -1)).collect();
    assert!(ours.len() >= 2 * ROUNDS as usize, "{} switches", ours.len());
    // ftrace was enabled before perilune and disabled after it.
    assert!(theirs.len() >= ours.len(), "{} and {}", theirs.len(), ours.len());
    let theirs = &theirs[theirs.len() - ours.len()..];
    // The two read the flags one after the other; a reschedule request may arrive in between, the
    // rest cannot change.
    let steady = |flags: &String| [0, 2, 3].map(|at| flags.as_bytes()[at]);
    assert!(ours.iter().map(steady).eq(theirs.iter().map(steady)), "{:?} {:?}", ours[0], theirs[0]);
    let same = ours.iter().zip(theirs).filter(|(a, b)| a == b).count();
    assert!(same * 100 >= ours.len() * 95, "{same} of {}", ours.len());
    assert!(ours.iter().all(|flags| flags.starts_with('d')), "switches have interrupts off");
}

fn timers_expire_in_hardirq_context_with_interrupts_off() {
    let tool = Tool::attach_plain(&["trace", "-e", "timer:hrtimer_expire_entry", "-N", "50"]);
    let (text, code) = tool.finish_by_itself();
    let flags: Vec<String> = text.lines().filter_map(|line| beside_cpu(line, -1)).collect();
    assert_eq!((flags.len(), code), (50, Some(0)));
    for flags in flags {
        assert!(matches!(flags.as_bytes(), [b'd' | b'D', _, b'h' | b'H', _]), "{flags}");
    }
}

fn of_perilunes_timers_only_those_set_by_interrupts_are_traced() {
    // Each record wakes perilune, so that it runs while interrupts arrive and starts a new timeout
    // each time.
    let tool = Tool::attach_plain(&["trace", "-e", "timer:*", "--watermark", "0"]);
    let ours = tool.pid().to_string();
    load::sleep_ms(300).run();
    let (text, _) = tool.finish_text();
    let is_ours = |line: &&str| beside_cpu(line, -2).is_some_and(|pid| pid == ours);
    let flags: Vec<_> = text.lines().filter(is_ours).map(|line| beside_cpu(line, -1)).collect();
    assert!(!flags.is_empty(), "{text}");
    for flags in flags.into_iter().flatten() {
        // In a hard interrupt, a soft one, or both.
        assert!(matches!(flags.as_bytes(), [_, _, b'h' | b'H' | b's', _]), "{flags}");
    }
}

fn an_event_line_is_laid_out_as_documented() {
    let load = load::renames(2);
    let (pid, of) = (load.pid(), load.pid().to_string());
    let tool = Tool::attach_plain(&["trace", "-e", "task:task_rename", "-p", &of]);
    load.run();
    let (text, _) = tool.finish_text();
    let line = text.lines().nth(1).expect("two renames");
    // Format: WALL-CLOCK %16s %6u FLAGS [%03d] SEC.USEC: sys:name: text
    let (wall, rest) = line.split_at("2026-11-21 17:29:45.689421 ".len());
    assert_eq!((&wall[4..5], &wall[10..11], &wall[19..20]), ("-", " ", "."), "{line}");
    assert_eq!(&rest[..16], "   perilune-even", "{line}");
    assert_eq!(&rest[16..24], format!(" {pid:>6} "), "{line}");
    let (flags, rest) = rest[24..].split_once(' ').expect("flags end");
    assert_eq!(flags.len(), 4, "{line}");
    assert!(rest.starts_with('[') && rest[4..].starts_with("] "), "{line}");
    let (seconds, rest) = rest[6..].split_once(": ").expect("a time");
    assert_eq!(seconds.split_once('.').map(|(_, usec)| usec.len()), Some(6), "{line}");
    assert!(rest.starts_with("task:task_rename: "), "{line}");
}

fn a_printer_prints_each_event() {
    let mut plugin = tempfile::Builder::new().suffix(".lua").tempfile().expect("a temporary file");
    plugin
        .write_all(
            b"printer('sched:sched_process_fork', function(e) return e.parent_pid .. ' begets ' .. \
              e.child_pid end)",
        )
        .expect("the file can be written");
    let load = load::forks(200);
    let (pid, of) = (load.pid(), load.pid().to_string());
    let path = plugin.path().to_str().expect("its name is text");
    let args = ["trace", "-e", "sched:sched_process_fork", "-p", &of, "--plugin", path];
    let run = watch(&args, load);
    let forks = run.events_of(pid);
    assert_eq!(forks.len(), 200, "{}", run.stderr);
    for fork in forks {
        assert_eq!(fork["text"], format!("{pid} begets {}", fork["child_pid"]));
    }
    run.is_complete();
}

fn each_tracepoint_of_this_machine_is_described() {
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["list", "-v", "--json", "*:*"])
        .output()
        .expect("the built command runs");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let events: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let tracefs = Tracefs::find().expect("tracefs is there");
    let names = tracefs.events().expect("tracepoints can be listed");
    let expected: Vec<String> = names.iter().map(|(sys, name)| format!("{sys}:{name}")).collect();
    let described: Vec<&str> = events.iter().filter_map(|e| e["event"].as_str()).collect();
    assert_eq!(described, expected);
    let filters = events.iter().filter_map(|e| Some((e["event"].as_str()?, e["filter"].as_str()?)));
    let mut checked = 0;
    for (event, filter) in filters {
        let (sys, name) = event.split_once(':').expect("sys:name");
        let format = tracefs.format(sys, name).expect("a format that was just read");
        let format = perilune::decode::format::Format::parse(&format).expect("likewise");
        let filter = perilune::event::filter::Filter::parse(filter).expect("a filter");
        filter.check(event, &format).unwrap_or_else(|why| panic!("{event}: {why}"));
        checked += 1;
    }
    assert!(checked * 2 > expected.len(), "{checked} of {}", expected.len());
}

/// Returns the line of doctor's list of monitors that begins with `start`; empty if there is none.
fn monitors_of(doctor: &str, start: &str) -> String {
    let objects = doctor.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let check = objects.into_iter().find(|object| object["check"] == "monitors");
    let list = check.and_then(|check| check["list"].as_array().cloned()).unwrap_or_default();
    let mut lines = list.iter().filter_map(Value::as_str);
    lines.find(|line| line.starts_with(start)).unwrap_or_default().to_owned()
}

fn the_doctor_finds_what_a_run_needs_and_an_ordinary_user_lacks() {
    use std::os::unix::process::CommandExt as _;
    let run = |user: Option<u32>, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let output = command.args(args).output().expect("the built command runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (text(output.stdout), text(output.stderr), output.status.code())
    };
    let state = |text: &str, check: &str| {
        let objects = text.lines().map(|l| serde_json::from_str::<Value>(l).expect("JSON"));
        let found = objects.into_iter().find(|o| o["check"] == check);
        found.unwrap_or_else(|| panic!("no {check} in {text}"))["state"].to_string()
    };
    let (root, _, code) = run(None, &["doctor", "--json"]);
    assert_eq!(code, Some(0), "{root}");
    for check in ["kernel", "perf events", "tracefs", "formats", "ring memory", "runaway scripts"] {
        assert_eq!(state(&root, check), "\"ok\"", "{check}: {root}");
    }
    const USER: Option<u32> = Some(65534);
    let (user, _, code) = run(USER, &["doctor", "--json"]);
    assert_eq!((state(&user, "tracefs").as_str(), code), ("\"missing\"", Some(1)), "{user}");
    assert_eq!(monitors_of(&root, "cpu-util: "), "", "{root}");
    // Other values of perf_event_paranoid permit more, or nothing.
    if perilune::sys::machine::paranoid() == Some(2) {
        for (monitor, found) in [
            ("only own programs: stat: ", "perf_event_paranoid is 2"),
            ("irq-off: ", "perf_event_paranoid is 2"),
            ("syscalls: ", "tracefs"),
        ] {
            assert!(monitors_of(&user, monitor).contains(found), "{monitor}: {user}");
        }
        assert_eq!(monitors_of(&user, "cpu-util: "), "", "{user}");
    }
    // Events that are not tracepoints do not need tracefs.
    let (listed, said, code) = run(USER, &["list"]);
    assert_eq!(code, Some(0));
    assert!(listed.contains("context-switches") && !listed.contains("sched:"), "{listed}");
    assert!(said.starts_with("perilune: warning: tracepoints are not listed: tracefs: "), "{said}");
    let (_, said, _) = run(USER, &["top", "-e", "context-switches", "--duration", "1ms"]);
    assert!(!said.contains("tracefs"), "{said}");
    // Above 2, a value of Debian's, perf is closed to all users but root.
    if perilune::sys::machine::paranoid().is_some_and(|paranoid| paranoid <= 2) {
        let args = ["trace", "-e", "page-faults:u", "--json", "--", "/bin/true"];
        let (out, said, code) = run(USER, &args);
        assert_eq!(code, Some(0), "{said}");
        let objects = out.lines().map(|l| serde_json::from_str::<Value>(l).expect("JSON"));
        let faults: Vec<Value> = objects.filter(|o| o["type"] == "event").collect();
        assert!(!faults.is_empty() && faults.iter().all(|e| e["comm"] == "true"), "{out}");
    }
    let (_, said, code) = run(USER, &["trace", "-e", "sched:sched_switch"]);
    assert_eq!(code, Some(1));
    assert!(
        said.starts_with("perilune: ") && said.contains("tracefs: permission denied"),
        "{said}"
    );
}

/// Returns the column `by` positions after the `[cpu]` of a line.
fn beside_cpu(line: &str, by: isize) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_cpu = |w: &&str| w.len() == 5 && w.starts_with('[') && w.ends_with(']');
    let cpu = words.iter().position(is_cpu)?;
    words.get(cpu.checked_add_signed(by)?).map(|word| (*word).to_owned())
}

/// ftrace's own recording of one event, in a separate instance.
struct Ftrace {
    folder: PathBuf,
    enable: PathBuf,
}

impl Ftrace {
    fn record(system: &str, name: &str, filter: &str) -> Ftrace {
        let tracefs = Tracefs::find().expect("tracefs is there");
        let folder = tracefs.root().join(format!("instances/perilune-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("root makes an instance");
        let event = folder.join("events").join(system).join(name);
        let ftrace = Ftrace { folder, enable: event.join("enable") };
        write(&event.join("filter"), filter);
        write(&ftrace.enable, "1");
        ftrace
    }

    fn text(&self) -> String {
        write(&self.enable, "0");
        std::fs::read_to_string(self.folder.join("trace")).expect("the trace can be read")
    }
}

impl Drop for Ftrace {
    fn drop(&mut self) {
        // A failure leaves the instance behind; a failing test reports more than this could.
        let _ = std::fs::write(&self.enable, "0");
        let _ = std::fs::remove_dir(&self.folder);
    }
}

fn write(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
}
