//! A replay reads back what `trace --events` writes: every recording of the tree, and any values.

use std::cell::RefCell;
use std::io;
use std::process::Command;
use std::rc::Rc;

use perilune::base::event::slot::CPUS_MAX;
use perilune::base::event::value::Value;
use perilune::base::report::draw::{Draw as _, EventLine, EventText, Stamp};
use perilune::base::report::frame::Frame;
use perilune::base::text::stack_style::parse_frame;
use perilune::event::kind::EventKind;
use perilune::output::events::Events;
use perilune::source::replay::{RecordedEntry, RecordingLine, Replay, WALL_NS};
use proptest::prelude::*;

#[test]
fn the_recordings_of_the_monitors_read_and_write_back() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let recordings: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|end| end == "events")).collect();
    assert!(recordings.len() >= 14, "{recordings:?}");
    for path in recordings {
        let replay = Replay::open(&path).unwrap();
        assert!(!replay.entries().is_empty(), "{path:?}");
        let events = |entry: &&RecordingLine| matches!(entry.what, RecordedEntry::Event { .. });
        let again = Replay::parse(&written(&replay), "again").unwrap();
        let expected: Vec<RecordingLine> =
            replay.entries().iter().filter(events).cloned().collect();
        assert_eq!(again.entries(), expected, "{path:?}");
        assert!(replay.events().eq(again.events()), "{path:?}");
    }
}

#[test]
fn a_query_that_fails_again_after_it_worked_is_reported_again() {
    let line = |at: f64, pid: u32| {
        format!(
            "{at} 0 {pid} sh sched:sched_switch: prev_comm=sh prev_pid={pid} prev_prio=120 \
             prev_state=0 next_comm=sh next_pid=9 next_prio=120\n"
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.events");
    let lines = [(0.05, 1), (0.15, 2), (0.25, 1), (0.35, 1)].map(|(at, pid)| line(at, pid));
    std::fs::write(&file, lines.concat()).unwrap();
    // The absolute value of the least integer is an error.
    let query = "SELECT abs(-9223372036854775808 + max(prev_pid) - 1) AS x FROM sched_switch";
    let run = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["sql", "-e", "sched:sched_switch", "-i", "100", "--query", query, "--replay"])
        .arg(&file)
        .output()
        .unwrap();
    let (out, err) = [run.stdout, run.stderr].map(|text| String::from_utf8(text).unwrap()).into();
    assert!(out.contains("9223372036854775807"), "{out}{err}");
    assert_eq!(err.matches("integer overflow").count(), 2, "{err}");
}

proptest! {
    #[test]
    fn every_recording_can_be_read_back(
        values in proptest::collection::vec(any_value(), 0..8),
        comm in any_text(),
        stack in proptest::collection::vec(any_frame(), 0..4),
        (time, cpu, pid, tid) in (0u64..1 << 62, 0..CPUS_MAX, any::<u32>(), any::<u32>()),
    ) {
        let arrays: Vec<Vec<u8>> = values.iter().map(|value| match value {
            Owned::Array(elements) => elements.iter().flat_map(|n| n.to_ne_bytes()).collect(),
            _ => Vec::new(),
        }).collect();
        let names: Vec<String> = (0..values.len()).map(|i| format!("f{i}")).collect();
        let fields: Vec<(&str, Value<'_>)> = names
            .iter()
            .zip(&values)
            .zip(&arrays)
            .map(|((name, value), bytes)| {
                (name.as_str(), match value {
                    Owned::Int(value) => Value::Int(*value),
                    Owned::Uint(value) => Value::Uint(*value),
                    Owned::Pointer(value) => Value::Pointer(*value),
                    Owned::Text(text) => Value::Text(text),
                    Owned::Bytes(bytes) => Value::Bytes(bytes),
                    Owned::Array(_) => Value::Array { bytes, size: 8, signed: true },
                })
            })
            .collect();
        let start = Stamp { wall_ns: WALL_NS, clock_ns: 7 };
        let text = recorded(start, |events| {
            let stamp = Stamp { wall_ns: WALL_NS, clock_ns: 7 + time };
            let of_name =
                |name: &String| Frame { symbol: Some(name.as_str().into()), ..Frame::default() };
            let stack: Vec<Frame> = stack.iter().map(of_name).collect();
            let (name, flags, stack) = ("s:x", *b"....", stack.as_slice());
            events.event(&mut EventLine {
                stamp,
                comm: &comm,
                pid,
                tid,
                cpu,
                flags,
                common: [0; 2],
                common_pid: None,
                name,
                role: None,
                fields: &fields,
                text: EventText::Fields,
                extra: &[],
                detail: None,
                period: None,
                stack,
            });
        });
        prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'));

        let replay = Replay::parse(&text, "x").unwrap();
        let entry = &replay.entries()[0];
        prop_assert_eq!((entry.time_ns, entry.cpu, entry.pid, entry.tid), (time, cpu, pid, tid));
        prop_assert_eq!(&entry.comm, if comm == b"<...>" { &b""[..] } else { &comm[..] });
        let RecordedEntry::Event { stack: frames, .. } = &entry.what else { panic!("{entry:?}") };
        prop_assert_eq!(frames, &stack);
        let RecordedEntry::Event { raw, .. } = &entry.what else { panic!("{entry:?}") };
        let format = replay.event(0).unwrap().kind().raw_format().unwrap();
        let values: Vec<(&str, Value<'_>)> = format.values(raw).collect();
        prop_assert_eq!(values.len(), fields.len());
        for (value, field) in values.iter().zip(&fields) {
            prop_assert_eq!(value.0, field.0);
            match (value.1, field.1) {
                (Value::Int(value), Value::Uint(field)) =>
                    prop_assert_eq!(u64::try_from(value), Ok(field)),
                (value, Value::Array { .. }) =>
                    prop_assert!(value.elements().eq(field.1.elements())),
                (value, field) => prop_assert_eq!(value, field),
            }
        }
        let again = Replay::parse(&written(&replay), "x").unwrap();
        prop_assert_eq!(again.entries(), replay.entries());
    }
}

#[test]
fn the_flags_of_an_interrupt_are_recorded() {
    let text = "0.001 0 7 a s:x: common_flags=8 common_preempt_count=2 n=1\n";
    let replay = Replay::parse(text, "x").unwrap();
    let again = written(&replay);
    assert!(again.contains(" s:x: common_flags=8 common_preempt_count=2 n=1\n"), "{again}");
}

#[test]
fn the_counts_of_a_group_are_iterated_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("x.events");
    let text = "# event cpu-clock: _counts.cpu-clock=u64 _counts.page-faults=u64\n\
        0.001 0 7 a cpu-clock: value=5 _counts.cpu-clock=5 _counts.page-faults=7\n";
    std::fs::write(&events, text).unwrap();
    let code = "evsel('{cpu-clock,page-faults}:S', function(e)
        for name, n in pairs(e._counts) do print(name, n) end end)";
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    let output = command.args(["eval", code, "--replay"]).arg(&events).output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    assert_eq!(printed, "cpu-clock\t5\npage-faults\t7\n");
}

#[test]
fn a_recording_declares_events_that_did_not_occur() {
    let header = "# event s:x: n=s64 u=u64 at=pointer comm=text raw=bytes list=s64[] \
                  w=u32 h=s16 b=u8[]\n# event cycles:\n\
        # event a sentence that is none: x=y\n0.001 0 7 a s:y: n=1\n";
    let replay = Replay::parse(header, "x").unwrap();
    let names: Vec<&str> = replay.events().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["s:x", "cycles", "s:y"]);
    let format = replay.event(0).unwrap().kind().raw_format().unwrap();
    let own = format.fields.iter().filter(|field| !field.common);
    let own: Vec<_> = own.map(|field| field.field_type().name()).collect();
    assert_eq!(own, ["s64", "u64", "pointer", "text", "bytes", "s64[]", "u32", "s16", "u8[]"]);
    assert!(matches!(replay.event(1).unwrap().what, EventKind::Counter(_)));

    let opened: Vec<_> = replay.events().map(|event| event.opened()).collect();
    let again = recorded(Stamp::default(), |events| events.opened(&opened));
    let again = Replay::parse(&again, "again").unwrap();
    assert!(again.events().map(|event| event.opened()).eq(opened), "as it was written");
}

#[test]
fn a_monitor_replays_its_recording_although_one_event_never_occurred() {
    let monitor = "local m = monitor { summary = 'two events', order = true }\n\
        function m.init()\n\
          evsel('s:x', function(e) emit(e) end)\n\
          evsel('s:rare/code > 3/', function(e) note(e.why .. e.code) end)\n\
        end\nreturn m\n";
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .args(words)
            .current_dir(folder.path())
            .output()
            .expect("the built command runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    std::fs::write(folder.path().join("t.lua"), monitor).unwrap();
    let both = "0.1 0 7 a s:x: n=1\n0.2 0 7 a s:rare: code=2 why=none\n";
    std::fs::write(folder.path().join("both.events"), both).unwrap();
    // `s:rare` is opened, and none of its events passes the filter.
    let (code, recording, err) = run(&["t.lua", "--replay", "both.events", "--events"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(recording.contains("\n# event s:rare: code=s64 why=text\n"), "{recording}");
    assert!(!recording.contains(" s:rare: code=2"), "{recording}");
    std::fs::write(folder.path().join("one.events"), recording).unwrap();
    let (code, out, err) = run(&["t.lua", "--replay", "one.events"]);
    assert_eq!((code, out.matches("s:x:").count()), (Some(0), 1), "{out}{err}");
}

/// A writer whose contents can be read.
#[derive(Clone, Default)]
struct Written(Rc<RefCell<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the text that `Events` writes for what `draw` draws.
fn recorded(start: Stamp, draw: impl FnOnce(&mut Events)) -> String {
    let text = Written::default();
    let mut events = Events::new(Box::new(text.clone()), start);
    draw(&mut events);
    events.flush().unwrap();
    String::from_utf8(text.0.take()).unwrap()
}

/// Returns a recording's events as `trace --events` would write them.
fn written(replay: &Replay) -> String {
    let start = Stamp { wall_ns: replay.wall_ns(), clock_ns: 5_000_000_000 };
    recorded(start, |events| {
        let opened: Vec<_> = replay.events().map(|event| event.opened()).collect();
        events.opened(&opened);
        for entry in replay.entries() {
            let RecordedEntry::Event { event, raw, stack, value } = &entry.what else { continue };
            let event = replay.event(*event).unwrap();
            let format = event.format();
            let count =
                value.filter(|_| format.is_none()).map(|value| ("value", Value::Uint(value)));
            let fields: Vec<_> =
                format.into_iter().flat_map(|format| format.values(raw)).chain(count).collect();
            events.event(&mut EventLine {
                stamp: Stamp {
                    wall_ns: start.wall_ns + entry.time_ns as i64,
                    clock_ns: start.clock_ns + entry.time_ns,
                },
                comm: &entry.comm,
                pid: entry.pid,
                tid: entry.tid,
                cpu: entry.cpu,
                flags: *b"....",
                common: [2, 3].map(|at| if format.is_some() { raw[at] } else { 0 }),
                common_pid: format
                    .and_then(|_| raw.get(4..8)?.try_into().ok().map(u32::from_ne_bytes))
                    .filter(|pid| *pid != entry.tid),
                name: &event.name,
                role: None,
                fields: &fields,
                text: EventText::Fields,
                extra: &[],
                detail: None,
                period: None,
                stack: &stack.iter().map(|line| parse_frame(line)).collect::<Vec<_>>(),
            });
        }
    })
}

/// A value that owns its bytes.
#[derive(Clone, Debug)]
enum Owned {
    Int(i64),
    Uint(u64),
    Pointer(u64),
    Text(Vec<u8>),
    Bytes(Vec<u8>),
    Array(Vec<i64>),
}

fn any_text() -> impl Strategy<Value = Vec<u8>> {
    let nul_free = |bytes: Vec<u8>| bytes.into_iter().filter(|b| *b != 0).collect::<Vec<u8>>();
    prop_oneof![
        "[ -~]{0,12}".prop_map(String::into_bytes),
        "(hex:|0x|\\[|-|=|\"|\\\\| |\\|)[0-9a-f]{0,3}\\]?".prop_map(String::into_bytes),
        any::<String>().prop_map(move |text| nul_free(text.into_bytes())),
        any::<Vec<u8>>().prop_map(nul_free),
    ]
}

fn any_value() -> impl Strategy<Value = Owned> {
    prop_oneof![
        any::<i64>().prop_map(Owned::Int),
        any::<u64>().prop_map(Owned::Uint),
        any::<u64>().prop_map(Owned::Pointer),
        any_text().prop_map(Owned::Text),
        any::<Vec<u8>>().prop_map(Owned::Bytes),
        any::<Vec<i64>>().prop_map(Owned::Array),
    ]
}

fn any_frame() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>().prop_map(|text| text.replace('\0', "")), "[a-z:;<>\" ]{0,8}"]
}
