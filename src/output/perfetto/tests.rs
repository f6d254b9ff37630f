//! Tests of the trace: switches, losses, lanes, forgotten texts, a full disk.

use super::*;
use crate::base::event::value::ValueType;
use crate::base::report::frame::Frame;
use crate::base::report::timeline::NO_ID;
use perfetto_protos::debug_annotation::DebugAnnotationName;
use perfetto_protos::interned_data::InternedData;
use perfetto_protos::profile_common::InternedString;
use perfetto_protos::trace::Trace;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::track_event::track_event::Type;
use perfetto_protos::track_event::{EventName, TrackEvent};
use protobuf::Message as _;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const SWITCH_FIELDS: [(&str, ValueType); 3] =
    [("prev_pid", ValueType::Int), ("next_pid", ValueType::Int), ("next_comm", ValueType::Text)];

fn event_of(name: &str, fields: &[(&str, ValueType)]) -> OpenedEvent {
    let fields = fields.iter().map(|(name, of)| ((*name).to_owned(), (*of).into())).collect();
    OpenedEvent { name: name.to_owned(), fields }
}

/// A trace of two events: role 0 is a switch, role 1 has a text.
fn begun() -> (Perfetto, Shared) {
    let out = Shared::default();
    let machine = TracedMachine { suspended_ns: 1000, ..TracedMachine::default() };
    let mut trace = Perfetto::new(Box::new(out.clone()), &machine);
    trace.opened(&[
        event_of("sched:sched_switch", &SWITCH_FIELDS),
        event_of("a:b", &[("text", ValueType::Text)]),
    ]);
    (trace, out)
}

const THREAD: TimelineThread<'_> = TimelineThread { tid: 5, pid: 4, comm: b"\xff</script>" };

fn add(trace: &mut Perfetto, role: usize, clock_ns: u64, values: &[Value<'_>]) {
    let fields: Vec<(usize, Value<'_>)> = values.iter().copied().enumerate().collect();
    trace.event(&mut TimelineEvent {
        role,
        clock_ns,
        cpu: 1,
        thread: THREAD,
        common_pid: 5,
        is_sample: false,
        period: 1,
        in_kernel: true,
        fields: &fields,
        stack: None,
        frames: &mut |_| {},
    });
}

fn switch(trace: &mut Perfetto, clock_ns: u64, prev: i64, next: i64) {
    add(trace, 0, clock_ns, &[Value::Int(prev), Value::Int(next), Value::Text(b"x")]);
}

fn ended(mut trace: Perfetto, out: &Shared) -> Trace {
    trace.end(Stamp::default(), &Coverage::default()).expect("memory can be written");
    Trace::parse_from_bytes(&out.0.borrow()).expect("it is a trace")
}

fn span(trace: &mut Perfetto, begin_ns: u64, end_ns: u64) {
    let (name, thread) = (b"read".as_slice(), THREAD);
    trace.span(&TimelineSpan {
        name,
        track: b"calls",
        begin_ns,
        end_ns,
        thread,
        cpu: 1,
        fields: &[],
    });
}

#[test]
fn a_second_record_of_a_switch_is_omitted_and_a_later_equal_switch_is_not() {
    let (mut trace, out) = begun();
    switch(&mut trace, 100, 1, 2);
    switch(&mut trace, 900, 1, 2);
    switch(&mut trace, 2000, 2, 1);
    switch(&mut trace, 3000, 1, 2);
    switch(&mut trace, 10_000_000, 1, 2);
    let trace = ended(trace, &out);
    let times = trace.packet.iter().flat_map(|packet| &packet.ftrace_events().event);
    let times: Vec<u64> = times.map(|event| event.timestamp() - 1000).collect();
    assert_eq!(times, [100, 2000, 3000, 10_000_000]);
}

#[test]
fn a_loss_is_marked_in_the_next_bundle_of_its_cpu() {
    let (mut trace, out) = begun();
    switch(&mut trace, 100, 1, 2);
    trace.lost(150, 1, 7);
    switch(&mut trace, 200, 3, 4);
    let trace = ended(trace, &out);
    let bundles = trace.packet.iter().filter(|packet| packet.has_ftrace_events());
    let lost: Vec<bool> = bundles.map(|packet| packet.ftrace_events().lost_events()).collect();
    assert_eq!(lost, [false, true]);
}

#[test]
fn overlapping_spans_are_on_lanes_and_a_free_lane_is_used_again() {
    let (mut trace, out) = begun();
    span(&mut trace, 10, 30);
    span(&mut trace, 20, 40);
    span(&mut trace, 30, 50);
    let trace = ended(trace, &out);
    let slices = trace.packet.iter().map(TracePacket::track_event);
    let begins = slices.filter(|event| event.type_() == Type::TYPE_SLICE_BEGIN);
    let lanes: Vec<u64> = begins.map(TrackEvent::track_uuid).collect();
    assert_eq!((lanes[0], lanes[0] == lanes[1]), (lanes[2], false));
    let described = trace.packet.iter().map(TracePacket::track_descriptor);
    assert_eq!(described.filter(|track| track.name() == "calls").count(), 2);
}

#[test]
fn forgotten_texts_are_defined_again() {
    let (mut trace, out) = begun();
    for number in 0..200_000u32 {
        let text = format!("{number} {}", "x".repeat(60));
        add(&mut trace, 1, u64::from(number), &[Value::Text(text.as_bytes())]);
    }
    assert!(trace.strings.fresh.is_empty());
    let trace = ended(trace, &out);
    let (mut known, mut cleared, mut events) = (HashSet::new(), 0, 0);
    for packet in trace.packet.iter().filter(|packet| packet.has_track_event()) {
        if packet.sequence_flags() & 1 != 0 {
            known.clear();
            cleared += 1;
        }
        let data = &packet.interned_data;
        known.extend(data.event_names.iter().map(EventName::iid));
        known.extend(data.debug_annotation_names.iter().map(DebugAnnotationName::iid));
        known.extend(data.debug_annotation_string_values.iter().map(InternedString::iid));
        let event = packet.track_event();
        assert!(known.contains(&event.name_iid()));
        for field in &event.debug_annotations {
            assert!(known.contains(&field.name_iid()));
            assert!(!field.has_string_value_iid() || known.contains(&field.string_value_iid()));
        }
        events += 1;
    }
    assert_eq!(events, 200_001);
    assert!((3..20).contains(&cleared), "{cleared}");
}

#[test]
fn a_failed_write_is_reported_and_the_run_goes_on() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut trace = Perfetto::new(Box::new(Full), &TracedMachine::default());
    trace.opened(&[event_of("sched:sched_switch", &SWITCH_FIELDS)]);
    switch(&mut trace, 100, 1, 2);
    assert_eq!(trace.flush(u64::MAX).unwrap_err().kind(), io::ErrorKind::StorageFull);
}

#[test]
fn chains_without_an_id_keep_their_own_frames() {
    let (mut trace, out) = begun();
    for (time, name) in [(100, "first"), (200, "second"), (300, "first")] {
        let mut frames = |out: &mut Vec<Frame>| {
            out.push(Frame { symbol: Some(name.into()), kernel: true, ..Frame::default() });
        };
        trace.event(&mut TimelineEvent {
            role: 1,
            clock_ns: time,
            cpu: 1,
            thread: THREAD,
            common_pid: 5,
            is_sample: true,
            period: 1,
            in_kernel: true,
            fields: &[],
            stack: Some(NO_ID),
            frames: &mut frames,
        });
    }
    let trace = ended(trace, &out);
    let names = |data: &InternedData| {
        data.function_names
            .iter()
            .map(|name| (name.iid(), String::from_utf8_lossy(name.str()).into_owned()))
            .collect::<Vec<_>>()
    };
    let mut functions = HashMap::new();
    let (mut frames, mut stacks) = (HashMap::new(), HashMap::new());
    let mut drawn = Vec::new();
    for packet in &trace.packet {
        functions.extend(names(&packet.interned_data));
        let data = &packet.interned_data;
        frames.extend(data.frames.iter().map(|frame| (frame.iid(), frame.function_name_id())));
        stacks.extend(data.callstacks.iter().map(|one| (one.iid(), one.frame_ids.clone())));
        if let Some(stack) = packet.perf_sample().callstack_iid {
            drawn.push(functions[&frames[&stacks[&stack][0]]].clone());
        }
    }
    assert_eq!(drawn, ["first", "second", "first"]);
}
