//! The documented rules of Perfetto's packets: sequences, interning, tracks, slices, bundles.

use std::collections::{HashMap, HashSet};

use perfetto_protos::debug_annotation::debug_annotation::Value as Annotation;
use perfetto_protos::interned_data::InternedData;
use perfetto_protos::trace::Trace;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::track_event::TrackEvent;
use perfetto_protos::track_event::track_event::Type;

/// Knowledge of a reader about a packet sequence.
#[derive(Default)]
pub(super) struct Sequence {
    is_valid: bool,
    /// Kind and number of each interned value.
    known: HashSet<(&'static str, u64)>,
    pub(super) event_names: HashMap<u64, String>,
    pub(super) field_names: HashMap<u64, String>,
}

/// The rules of Perfetto's documentation: "Synthetic track event", "Interning", "Clocks".
#[derive(Default)]
pub(super) struct Rules {
    sequences: HashMap<u32, Sequence>,
    tracks: HashSet<u64>,
    bundle_ends: HashMap<u32, u64>,
    /// Begin and end of each slice by track.
    slices: HashMap<u64, Vec<(u64, bool)>>,
    snapshots: usize,
}

impl Rules {
    pub(super) fn check(mut self, trace: &Trace) -> Rules {
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
    pub(super) fn intern(&mut self, data: &InternedData) {
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
