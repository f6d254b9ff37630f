//! Timelines for Perfetto, read back by its own definitions: every packet follows the documented
//! rules, and the numbers are those of the workload.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use perfetto_protos::debug_annotation::debug_annotation::Value as Annotation;
use perfetto_protos::ftrace_event::FtraceEvent;
use perfetto_protos::interned_data::InternedData;
use perfetto_protos::trace::Trace;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::track_event::TrackEvent;
use perfetto_protos::track_event::track_event::Type;
use protobuf::Message as _;

use crate::live::live_tests;
use crate::load::{self, Load};
use crate::tool::Tool;

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

/// What a reader knows of a packet sequence.
#[derive(Default)]
struct Sequence {
    is_valid: bool,
    /// Kind and number of each interned value.
    known: HashSet<(&'static str, u64)>,
    event_names: HashMap<u64, String>,
    field_names: HashMap<u64, String>,
}

/// The rules of Perfetto's documentation: "Synthetic track event", "Interning", "Clocks".
#[derive(Default)]
struct Rules {
    sequences: HashMap<u32, Sequence>,
    tracks: HashSet<u64>,
    bundle_ends: HashMap<u32, u64>,
    /// Begin and end of each slice by track.
    slices: HashMap<u64, Vec<(u64, bool)>>,
    snapshots: usize,
}

impl Rules {
    fn check(mut self, trace: &Trace) -> Rules {
        assert!(trace.special_fields.unknown_fields().iter().next().is_none());
        trace.packet.iter().for_each(|packet| self.packet(packet));
        assert_eq!(self.snapshots, 2, "one clock snapshot at each end");
        for (track, ends) in &mut self.slices {
            // A reader sorts by time; of equal times the slice that ends comes first.
            ends.sort_by_key(|(time, is_begin)| (*time, *is_begin));
            let alternate =
                ends.iter().enumerate().all(|(at, (_, begins))| *begins == (at % 2 == 0));
            let empty = ends.windows(2).any(|two| two[0].0 == two[1].0);
            assert!(alternate || empty, "slices overlap on track {track}: {ends:?}");
        }
        self
    }

    fn packet(&mut self, packet: &TracePacket) {
        assert!(packet.special_fields.unknown_fields().iter().next().is_none(), "{packet}");
        let flags = packet.sequence_flags();
        let sequence = self.sequences.entry(packet.trusted_packet_sequence_id()).or_default();
        assert_ne!(packet.trusted_packet_sequence_id(), 0);
        if flags & 1 != 0 {
            *sequence = Sequence { is_valid: true, ..Sequence::default() };
        }
        assert!(flags & 2 == 0 || sequence.is_valid, "{packet}");
        sequence.intern(&packet.interned_data);
        if packet.has_clock_snapshot() {
            self.snapshots += 1;
            assert_eq!(packet.clock_snapshot().clocks.len(), 3);
        }
        if packet.has_track_descriptor() {
            let described = packet.track_descriptor();
            assert!(!described.has_parent_uuid() || self.tracks.contains(&described.parent_uuid()));
            self.tracks.insert(described.uuid());
        }
        if packet.has_perf_sample() {
            let stack = packet.perf_sample().callstack_iid();
            assert!(stack == 0 || sequence.known.contains(&("callstack", stack)), "{packet}");
        }
        if packet.has_track_event() {
            let event = packet.track_event();
            assert!(self.tracks.contains(&event.track_uuid()), "{packet}");
            sequence.check_event(event);
            if event.type_() != Type::TYPE_INSTANT {
                let end = (packet.timestamp(), event.type_() == Type::TYPE_SLICE_BEGIN);
                self.slices.entry(event.track_uuid()).or_default().push(end);
            }
        }
        let bundle = packet.ftrace_events();
        let last = self.bundle_ends.entry(bundle.cpu()).or_default();
        for event in &bundle.event {
            assert!(event.timestamp() >= *last, "{event}");
            *last = event.timestamp();
            assert!(event.event.is_some(), "{event}");
        }
    }
}

impl Sequence {
    fn intern(&mut self, data: &InternedData) {
        for one in &data.event_names {
            self.event_names.insert(one.iid(), one.name().to_owned());
        }
        for one in &data.debug_annotation_names {
            self.field_names.insert(one.iid(), one.name().to_owned());
        }
        let mut add = |kind, iid| assert!(self.known.insert((kind, iid)), "{kind} {iid} twice");
        data.event_categories.iter().for_each(|one| add("category", one.iid()));
        data.function_names.iter().for_each(|one| add("function", one.iid()));
        data.mapping_paths.iter().for_each(|one| add("path", one.iid()));
        data.mappings.iter().for_each(|one| add("mapping", one.iid()));
        data.debug_annotation_string_values.iter().for_each(|one| add("text", one.iid()));
        data.frames.iter().for_each(|one| add("frame", one.iid()));
        data.callstacks.iter().for_each(|one| add("callstack", one.iid()));
        for one in &data.mappings {
            assert!(one.path_string_ids.iter().all(|id| self.known.contains(&("path", *id))));
        }
        for frame in &data.frames {
            assert!(self.known.contains(&("function", frame.function_name_id())), "{frame}");
            assert!(self.known.contains(&("mapping", frame.mapping_id())), "{frame}");
        }
        for stack in &data.callstacks {
            assert!(!stack.frame_ids.is_empty());
            assert!(stack.frame_ids.iter().all(|id| self.known.contains(&("frame", *id))));
        }
    }

    fn check_event(&self, event: &TrackEvent) {
        let named = self.event_names.contains_key(&event.name_iid());
        assert!(named || event.type_() == Type::TYPE_SLICE_END, "{event}");
        assert!(event.category_iids.iter().all(|id| self.known.contains(&("category", *id))));
        for field in &event.debug_annotations {
            assert!(self.field_names.contains_key(&field.name_iid()), "{field}");
            if let Some(Annotation::StringValueIid(text)) = field.value {
                assert!(self.known.contains(&("text", text)), "{field}");
            }
        }
    }
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

/// Returns the number of voluntary switches of a task so far.
fn voluntary_switches(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it is alive");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).expect("the kernel counts switches")
}

fn switches_and_wakeups_of_a_task_are_in_the_bundles() {
    let _busy = load::never_idle();
    const ROUNDS: u32 = 200;
    let (load, measured) = load::counted_sleeps(ROUNDS);
    let tid = load.pid().cast_signed();
    // It waits for its start.
    std::thread::sleep(Duration::from_millis(50));
    let before = voluntary_switches(load.pid());
    let (trace, run) = traced(&["task-state"], load);
    run.is_complete();
    let slept = measured.get(0) - before;
    assert!(slept >= u64::from(ROUNDS), "{slept}");
    let away = |event: &&FtraceEvent| {
        let switch = event.sched_switch();
        let state = switch.prev_state();
        event.has_sched_switch()
            && switch.prev_pid() == tid
            && state & 0xff != 0
            && state & 0x30 == 0
    };
    assert_eq!(ftrace(&trace).filter(away).count() as u64, slept);
    let back = ftrace(&trace).filter(|event| event.sched_switch().next_pid() == tid).count() as u64;
    assert!(back >= slept, "{back} of {slept}");
    let woken = ftrace(&trace).filter(|event| event.sched_wakeup().pid() == tid).count() as u64;
    // The first wakeup starts it.
    assert_eq!(woken, slept + 1);
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

fn each_sample_has_a_call_stack_with_names() {
    let load = Load::new(|| {
        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(400) {
            std::hint::spin_loop();
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
    let spins = |name: &[u8]| String::from_utf8_lossy(name).contains("timelines");
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
    let trace = Trace::parse_from_bytes(&bytes[..whole]).expect("it is a trace");
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
