//! Timelines for Perfetto, read back by its own definitions: every packet follows the documented
//! rules, and the numbers are those of the workload.

use std::collections::HashMap;
use std::time::Duration;

use perfetto_protos::debug_annotation::debug_annotation::Value as Annotation;
use perfetto_protos::ftrace_event::FtraceEvent;
use perfetto_protos::trace::Trace;
use perfetto_protos::track_event::TrackEvent;
use perfetto_protos::track_event::track_event::Type;
use protobuf::Message as _;

use crate::live::live_tests;
use crate::load::{self, Load};
use crate::tool::Tool;
use rules::{Rules, Sequence};

mod rules;

live_tests! {
    switches_and_wakeups_of_a_task_are_in_the_bundles,
    each_call_is_an_instant_with_its_fields_on_the_track_of_its_thread,
    each_pair_is_a_slice_that_lasts_as_long_as_its_delay,
    each_sample_has_a_call_stack_with_names,
    spans_of_a_script_are_slices_with_its_fields,
    a_killed_run_leaves_a_readable_file,
}

/// Runs a monitor with `--perfetto` while the load runs. Returns the trace and the JSON of the run.
fn traced(args: &[&str], load: Load) -> (Trace, crate::Run) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("t.pftrace");
    let file = path.to_str().expect("ASCII");
    let run = crate::watch(&[args, &["--perfetto", file]].concat(), load);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let bytes = std::fs::read(path).expect("the file was written");
    let trace = Trace::parse_from_bytes(&bytes).expect("it is a trace");
    Rules::default().check(&trace);
    (trace, run)
}

fn ftrace(trace: &Trace) -> impl Iterator<Item = &FtraceEvent> {
    trace.packet.iter().flat_map(|packet| &packet.ftrace_events().event)
}

/// Track events with their names and fields, and the thread of their track if it has one.
struct Named<'a> {
    time: u64,
    event: &'a TrackEvent,
    name: String,
    fields: HashMap<String, i64>,
    tid: Option<i32>,
    parent_tid: Option<i32>,
}

fn named(trace: &Trace) -> Vec<Named<'_>> {
    let (mut sequence, mut threads) = (Sequence::default(), HashMap::new());
    let (mut parents, mut all) = (HashMap::new(), Vec::new());
    for packet in &trace.packet {
        if packet.has_track_descriptor() {
            let track = packet.track_descriptor();
            if track.thread.is_some() {
                threads.insert(track.uuid(), track.thread.tid());
            }
            parents.insert(track.uuid(), track.parent_uuid());
        }
        if !packet.has_track_event() {
            continue;
        }
        if packet.sequence_flags() & 1 != 0 {
            sequence = Sequence::default();
        }
        sequence.intern(&packet.interned_data);
        let event = packet.track_event();
        let value = |value: &Option<Annotation>| match value {
            Some(Annotation::IntValue(value)) => Some(*value),
            Some(Annotation::UintValue(value)) => i64::try_from(*value).ok(),
            Some(Annotation::DoubleValue(value)) => Some(*value as i64),
            _ => None,
        };
        let fields = event.debug_annotations.iter();
        let field = fields.filter_map(|field| {
            Some((sequence.field_names[&field.name_iid()].clone(), value(&field.value)?))
        });
        all.push(Named {
            time: packet.timestamp(),
            event,
            name: sequence.event_names.get(&event.name_iid()).cloned().unwrap_or_default(),
            fields: field.collect(),
            tid: threads.get(&event.track_uuid()).copied(),
            parent_tid: parents.get(&event.track_uuid()).and_then(|up| threads.get(up)).copied(),
        });
    }
    all
}

fn switches_and_wakeups_of_a_task_are_in_the_bundles() {
    let _busy = load::never_idle();
    const ROUNDS: u32 = 200;
    let (load, measured) = load::counted_sleeps(ROUNDS);
    let tid = load.pid().cast_signed();
    let before = load.switches_until_it_waits();
    let (trace, run) = traced(&["task-state", "-m", "8192"], load);
    run.is_complete();
    let slept = measured.get(0) - before;
    // A timer may expire before the task sleeps.
    assert!(slept >= u64::from(ROUNDS * 9 / 10), "{slept}");
    let away = |event: &&FtraceEvent| {
        let switch = event.sched_switch();
        let state = switch.prev_state();
        event.has_sched_switch()
            && switch.prev_pid() == tid
            && state & 0xff != 0
            && state & 0x30 == 0
    };
    let switched = ftrace(&trace).filter(away).count() as u64;
    // Its exit may wait, too.
    assert!((slept..=slept + 2).contains(&switched), "{switched} of {slept}");
    let back = ftrace(&trace).filter(|event| event.sched_switch().next_pid() == tid).count() as u64;
    // This kernel may write no record of some events, which it counts.
    let missing = run.coverage()["undelivered"].as_u64().unwrap_or_default();
    assert!(back + missing >= slept, "{back} of {slept}: {}", run.coverage());
    let woken = ftrace(&trace).filter(|event| event.sched_wakeup().pid() == tid).count() as u64;
    // The first wakeup starts it.
    assert!(woken <= slept + 1 && woken + missing > slept, "{woken}: {}", run.coverage());
    let known = trace.packet.iter().flat_map(|packet| &packet.process_tree().threads);
    assert!(known.clone().any(|thread| thread.tid() == tid), "{}", known.count());
    let system = trace.packet.iter().find(|packet| packet.has_system_info()).expect("one packet");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("it is readable");
    assert_eq!(system.system_info().utsname.release(), release.trim());
}

fn each_call_is_an_instant_with_its_fields_on_the_track_of_its_thread() {
    const CALLS: u32 = 3000;
    let load = load::getppid(CALLS);
    let tid = load.pid().cast_signed();
    let filter = format!("raw_syscalls:sys_enter/id=={}/", libc::SYS_getppid);
    let pid = tid.to_string();
    let (trace, run) = traced(&["trace", "-e", &filter, "-p", &pid], load);
    run.is_complete();
    let calls = named(&trace);
    let calls = calls.iter().filter(|one| one.name == "raw_syscalls:sys_enter");
    let right = calls.filter(|one| {
        one.tid == Some(tid)
            && one.event.type_() == Type::TYPE_INSTANT
            && one.fields["id"] == libc::SYS_getppid
    });
    assert_eq!(right.count(), CALLS as usize);
    assert_eq!(run.of("event").count(), 0, "the events are not printed as well");
}

fn each_pair_is_a_slice_that_lasts_as_long_as_its_delay() {
    const CALLS: u32 = 2000;
    let load = load::getppid(CALLS);
    let tid = load.pid().cast_signed();
    let pid = tid.to_string();
    let stages = ["-e", "raw_syscalls:sys_enter", "-e", "raw_syscalls:sys_exit", "-k", "_tid"];
    let (trace, run) = traced(&[&["multi-trace", "-p", &pid], &stages[..]].concat(), load);
    run.is_complete();
    let row = run.of("row").find(|row| row["calls"].is_u64()).expect("a row of the pair");
    let all = named(&trace);
    let mut open = HashMap::new();
    let (mut count, mut total) = (0, 0);
    for one in all.iter().filter(|one| one.parent_tid == Some(tid)) {
        match one.event.type_() {
            Type::TYPE_SLICE_BEGIN => {
                assert_eq!(one.name, "raw_syscalls:sys_enter => raw_syscalls:sys_exit");
                open.insert(one.event.track_uuid(), one.time);
            }
            _ => {
                let begin = open.remove(&one.event.track_uuid()).expect("it has begun");
                (count, total) = (count + 1, total + one.time - begin);
            }
        }
    }
    assert!(count >= u64::from(CALLS), "{count}");
    assert_eq!(count, row["calls"].as_u64().expect("a count"));
    let printed = row["total_us"].as_f64().expect("a time") * 1e3;
    assert!((total as f64 - printed).abs() < 1e3, "{total} {printed}");
}

/// Returns the CPU time of this process.
fn cpu_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` has room for a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Spins without a call, so that samples are in this function itself.
#[inline(never)]
fn spin_for_samples(rounds: u64) -> u64 {
    let (mut number, mut round) = (1u64, 0);
    while round < rounds {
        number = (number * 1_103_515_245 + 12_345) % 2_147_483_648;
        round += 1;
    }
    number
}

fn each_sample_has_a_call_stack_with_names() {
    let load = Load::new(|| {
        while cpu_ns() < 300_000_000 {
            std::hint::black_box(spin_for_samples(100_000));
        }
    });
    let tid = load.pid();
    let pid = tid.to_string();
    let (trace, run) = traced(&["profile", "-e", "cpu-clock", "-F", "997", "-p", &pid], load);
    let samples: Vec<_> = trace.packet.iter().filter(|packet| packet.has_perf_sample()).collect();
    assert_eq!(samples.len() as u64, run.coverage()["events"].as_u64().expect("a count"));
    assert!(samples.len() > 100, "{}", samples.len());
    let mut counted = HashMap::new();
    for packet in &samples {
        let sample = packet.perf_sample();
        assert_eq!((sample.tid(), sample.has_callstack_iid()), (tid, true));
        let before = counted.insert(sample.cpu(), sample.timebase_count()).unwrap_or(0);
        assert!(sample.timebase_count() > before, "the counter of a CPU grows");
    }
    let defaults = &samples[0].trace_packet_defaults.perf_sample_defaults;
    assert_eq!(defaults.timebase.name(), "cpu-clock");
    let names = samples.iter().flat_map(|packet| &packet.interned_data.function_names);
    let spins = |name: &[u8]| String::from_utf8_lossy(name).contains("spin_for_samples");
    assert!(names.clone().any(|one| spins(one.str())), "{}", names.count());
}

fn spans_of_a_script_are_slices_with_its_fields() {
    const CALLS: u32 = 500;
    let load = load::getppid(CALLS);
    let (tid, pid) = (load.pid().cast_signed(), load.pid().to_string());
    let folder = tempfile::tempdir().expect("a folder can be made");
    let script = folder.path().join("spans.lua");
    let text = r#"--- Spans of calls.
local m = monitor { summary = "spans", options = { "perfetto" }, order = true }
function m.init()
  local calls = pending { key = "tid" }
  evsel("raw_syscalls:sys_enter", function(e) calls:open(e._tid, e) end)
  evsel("raw_syscalls:sys_exit", function(e)
    local call = calls:close(e._tid, e)
    if call then
      span { name = syscall_name(e.id), track = "calls", delay = call.delay,
        fields = { number = e.id, odd = "</script>" } }
    end
  end)
end
return m
"#;
    std::fs::write(&script, text).expect("the folder is writable");
    let (trace, run) = traced(&[script.to_str().expect("ASCII"), "-p", &pid], load);
    run.is_complete();
    let all = named(&trace);
    let own = all.iter().filter(|one| one.name == "getppid" && one.parent_tid == Some(tid));
    let right = own.filter(|one| one.fields["number"] == libc::SYS_getppid);
    assert_eq!(right.count(), CALLS as usize);
}

fn a_killed_run_leaves_a_readable_file() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("t.pftrace");
    let file = path.to_str().expect("ASCII");
    let (mut load, measured) = load::getppid_until_stopped();
    let pid = load.pid().to_string();
    let args = ["trace", "-e", "raw_syscalls:sys_enter", "-p", &pid, "--perfetto", file];
    let tool = Tool::attach(&args);
    load.start();
    std::thread::sleep(Duration::from_millis(2500));
    // SAFETY: a process that this test has started and not waited for.
    unsafe { libc::kill(tool.pid().cast_signed(), libc::SIGKILL) };
    measured.stop();
    load.wait();
    assert_eq!(tool.finish_by_itself().1, None, "a signal ended it");
    let bytes = std::fs::read(path).expect("the file exists");
    let whole = whole_packets(&bytes);
    assert!(bytes.len() - whole < 1 << 20, "{} of {}", whole, bytes.len());
    // A fast machine writes hundreds of megabytes, which take fifty times as much when parsed.
    let begin = whole_packets(&bytes[..bytes.len().min(4 << 20)]);
    let trace = Trace::parse_from_bytes(&bytes[..begin]).expect("it is a trace");
    let calls = trace.packet.iter().filter(|packet| packet.has_track_event()).count();
    assert!(calls > 1000, "{calls}");
}

/// Returns the length of the packets that are complete.
fn whole_packets(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let mut reader = protobuf::CodedInputStream::from_bytes(&bytes[at..]);
        let Ok(tag) = reader.read_raw_varint32() else { return at };
        assert_eq!(tag, 0x0a, "a file is a sequence of packets");
        let Ok(length) = reader.read_raw_varint64() else { return at };
        let end = at + reader.pos() as usize + length as usize;
        if end > bytes.len() {
            return at;
        }
        at = end;
    }
}
