//! Recordings: values, formats, order, and errors in a line.

use super::*;
use crate::base::event::value::Value;
use crate::decode::format::Format;
use crate::event::kind::EventKind;
use proptest::prelude::*;

fn parse(text: &str) -> Replay {
    Replay::parse(text, "x.events").unwrap()
}

fn error(text: &str) -> String {
    Replay::parse(text, "x.events").unwrap_err().to_string()
}

fn format<'a>(replay: &'a Replay, name: &str) -> &'a Format {
    replay.events[name].format().unwrap_or_else(|| panic!("{name} is a counter"))
}

/// Returns the raw record and the format of an entry.
fn record(replay: &Replay, place: usize) -> (&Format, &[u8]) {
    match &replay.entries()[place].what {
        RecordedEntry::Event { event, raw, .. } => {
            (format(replay, &replay.event(*event).unwrap().name), raw)
        }
        other => panic!("{other:?} is not an event"),
    }
}

/// Returns `name=value` of each own field.
fn shown(replay: &Replay, place: usize) -> String {
    let (format, raw) = record(replay, place);
    let words = format.values(raw).map(|(name, value)| match value {
        Value::Array { signed, .. } => {
            format!("{name}={:?}:{signed}", value.elements().collect::<Vec<_>>())
        }
        Value::Text(text) => format!("{name}={:?}", String::from_utf8_lossy(text)),
        value => format!("{name}={value:?}"),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn every_kind_of_value_becomes_a_field_of_a_record() {
    let replay = parse(
        "0.1 3 90/91 \"tmux: server\" sys:x: a=-1 b=18446744073709551615 c=0xffffffff81c01f58 \
         d=nginx e=\"two \\\"words\\\"\\n\\xff\" f=[1,-2] g=hex:00ff h=10.0.0.7 | \
         foo;\"a;b\" ; bar [x; 4]",
    );
    let entry = &replay.entries()[0];
    assert_eq!((entry.time_ns, entry.cpu, entry.pid, entry.tid), (100_000_000, 3, 90, 91));
    assert_eq!(entry.comm, b"tmux: server");
    assert_eq!(
        shown(&replay, 0),
        "a=Int(-1) b=Uint(18446744073709551615) c=Pointer(18446744071591436120) d=\"nginx\" \
         e=\"two \\\"words\\\"\\n\u{fffd}\" f=[1, -2]:true g=Bytes([0, 255]) h=\"10.0.0.7\""
    );
    let RecordedEntry::Event { stack, .. } = &entry.what else { panic!("{entry:?}") };
    assert_eq!(stack, &["foo", "a;b", "bar [x", "4]"], "an unquoted `;` separates frames");
}

#[test]
fn a_format_is_the_union_of_all_lines_and_missing_fields_are_empty_or_0() {
    let replay = parse("0.2 0 5 a sys:x: one=1 name=abc\n0.1 0 6 b sys:x: two=0x2 list=[1]\n");
    assert_eq!(shown(&replay, 0), r#"one=Int(0) name="" two=Pointer(2) list=[1]:true"#);
    assert_eq!(shown(&replay, 1), r#"one=Int(1) name="abc" two=Pointer(0) list=[]:true"#);
    let x = format(&replay, "sys:x");
    assert_eq!((x.name.as_str(), x.id), ("x", 1));
    assert_eq!(x.field("name").unwrap().type_text, "__data_loc char[]");
    assert!(
        x.fields.iter().all(
            |field| field.offset % field.size == 0 && field.offset + field.size <= x.fixed_size
        )
    );
}

#[test]
fn fields_of_mixed_kinds_get_a_type_that_holds_all_values() {
    let replay = parse(
        "0 0 5 a s:x: t=12 u=0x1 v=-1 w=[1]\n0 0 5 a s:x: t=abc u=7 v=0xffffffffffffffff w=3\n",
    );
    assert_eq!(shown(&replay, 0), r#"t="12" u=Pointer(1) v=Int(-1) w="[1]""#);
    assert_eq!(shown(&replay, 1), r#"t="abc" u=Pointer(7) v=Int(-1) w="3""#);
}

#[test]
fn records_begin_with_the_common_fields_of_a_kernel() {
    let replay = parse("0 0 90/91 a s:x: v=1\n0 0 5 a s:x: v=1 common_pid=-7 common_flags=0x5\n");
    let common = |place: usize, name: &str| {
        let (format, raw) = record(&replay, place);
        format.field(name).unwrap().read(raw).unwrap()
    };
    assert_eq!(common(0, "common_pid"), Value::Int(91));
    assert_eq!(common(0, "common_flags"), Value::Uint(0));
    assert_eq!(common(1, "common_pid"), Value::Int(-7));
    assert_eq!(common(1, "common_flags"), Value::Uint(5));
    assert_eq!(shown(&replay, 1), "v=Int(1)");
}

#[test]
fn entries_are_sorted_by_time_and_keep_the_file_order_at_equal_times() {
    let replay = parse("2 0 1 a s:x: n=1\n\n# a remark\n1 0 1 a s:x: n=2\n2 0 1 a s:y: n=3\n");
    let times: Vec<u64> = replay.entries().iter().map(|entry| entry.time_ns).collect();
    assert_eq!(times, [1_000_000_000, 2_000_000_000, 2_000_000_000]);
    assert_eq!([0, 1, 2].map(|place| shown(&replay, place)), ["n=Int(2)", "n=Int(1)", "n=Int(3)"]);
    assert_eq!(replay.names().unwrap(), ["s:x", "s:y"]);
}

#[test]
fn names_in_capitals_are_side_band_entries() {
    let replay = parse(
        "1 2 0 - LOST: n=312\n2 0 300 cron EXIT: x=1\n3 0 31/32 sh FORK: ppid=30 ptid=33\n\
         4 0 31 sh FORK: ppid=30\n5 0 31 sh COMM: comm=\"a b\"\n6 0 31 ls EXEC:\n",
    );
    let what: Vec<RecordedEntry> =
        replay.entries().iter().map(|entry| entry.what.clone()).collect();
    assert_eq!(
        what,
        [
            RecordedEntry::Lost { count: 312, length_ns: Some(0) },
            RecordedEntry::Exit,
            RecordedEntry::Fork { parent_pid: 30, parent_tid: 33 },
            RecordedEntry::Fork { parent_pid: 30, parent_tid: 30 },
            RecordedEntry::Comm { comm: b"a b".to_vec() },
            RecordedEntry::Exec { comm: b"ls".to_vec() },
        ]
    );
    assert_eq!(replay.entries()[0].comm, b"", "`-` is unknown");
    assert_eq!(replay.events().len(), 0);
}

#[test]
fn events_that_only_count_are_counters_under_any_name() {
    let replay = parse(
        "0 0 0 - msr/tsc/: value=10\n0 0 0 - ref-cycles:uH: value=20\n0 0 0 - cpu-clock:\n\
         0 0 0 - sched:sched_wakeup: value=33\n0 0 9 a bus-cycles: x=1 | spin\n\
         0 0 9 a s:mixed: value=1\n0 0 9 a s:mixed: other=1\n",
    );
    let kind = |name: &str| matches!(replay.describe(name).unwrap().what, EventKind::Counter(_));
    assert_eq!(["msr/tsc/", "ref-cycles:uH", "cpu-clock"].map(kind), [true; 3]);
    assert_eq!(["sched:sched_wakeup", "bus-cycles", "s:mixed"].map(kind), [false; 3]);
    let values: Vec<Option<u64>> = replay
        .entries()
        .iter()
        .map(|entry| match &entry.what {
            RecordedEntry::Event { value, .. } => *value,
            _ => None,
        })
        .collect();
    assert_eq!(values, [Some(10), Some(20), None, Some(33), None, None, None]);
    assert_eq!(
        replay.describe("s:y").unwrap_err().to_string(),
        "the recording has no event `s:y`; it has msr/tsc/, ref-cycles:uH, cpu-clock, \
         sched:sched_wakeup, bus-cycles, s:mixed"
    );
}

#[test]
fn the_header_gives_the_wall_clock() {
    assert_eq!(parse("").wall_ns(), WALL_NS);
    assert_eq!(parse("# wall 2026-11-21T09:00:00Z\n").wall_ns(), WALL_NS);
    assert_eq!(parse("# wall 2026-11-21T10:00:00.5+01:00\n").wall_ns(), WALL_NS + 500_000_000);
    assert_eq!(parse("# wall of text\n").wall_ns(), WALL_NS);
    assert!(error("# wall 2026\n").starts_with("x.events:1: the time is not as in RFC 3339"));
}

#[test]
fn the_error_shows_an_invalid_line_with_a_caret() {
    assert_eq!(
        error("# ok\n0.1 0 5 a s:x: n=1 oops m=2\n"),
        "\
x.events:2: `oops` is not `field=value`; a value with blanks must be in double quotes
    0.1 0 5 a s:x: n=1 oops m=2
                       ^"
    );
    for (text, what) in [
        ("x 0 5 a s:x:", "`x` is not a time"),
        ("0.1234567890 0 5 a s:x:", "is not a time"),
        ("99999999999999 0 5 a s:x:", "is not a time"),
        ("1 -1 5 a s:x:", "`-1` is not a CPU"),
        ("1 0 5/x a s:x:", "`x` is not a thread id"),
        ("1 0 5", "the task name is missing; a line is TIME CPU TID COMM EVENT"),
        ("1 0 5 tmux: server s:x:", "`server` is not `EVENT:`; a task name with blanks"),
        ("1 0 5 a s:x: n=1 n=2", "`n` is given twice"),
        ("1 0 5 a s:x: n=\"abc", "the closing quotes are missing"),
        ("1 0 5 a s:x: n=\"a\"b", "a blank is missing after the quotes"),
        ("1 0 5 a s:x: n=\"a\\q\"", "invalid escape; the escapes are"),
        ("1 0 5 a s:x: n=\"a\\x0\"", "invalid escape; the escapes are"),
        ("1 0 5 a s:x: n=\"a\\x00\"", "the text of `n` has a NUL; write hex:…"),
        ("1 0 5 a s:x: n=-1\n1 0 5 a s:x: n=18446744073709551615", "below 0 and above 2^63"),
        ("1 0 5 a s:x: | \"a\" b", "a `;` is missing between two frames"),
        ("1 0 5 a s:x: common_pid=abc", "`common_pid` must be a number"),
        ("1 0 5 a s:x: common_flags=256", "`common_flags` has 8 bits; 256 does not fit"),
        ("1 0 - - LOST:", "`-` is not a thread id"),
        ("1 0 0 - LOST: n=x", "LOST needs n=COUNT"),
        ("1 0 0 - LOSS: n=1", "`LOSS` is not an entry: use LOST, EXIT, FORK, COMM or EXEC"),
        ("1 0 0 - FORK: pid=3", "FORK needs ppid=PID"),
    ] {
        assert!(error(text).contains(what), "{text}: {}", error(text));
    }
    let huge = format!("1 0 5 a s:x: n={}", "x".repeat(70_000));
    assert!(error(&huge).contains("larger than 64 KiB") && error(&huge).len() < 300);
    assert!(!error("1 0 5 a s:x: \x1b[2J").contains('\x1b'));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.events");
    let error = format!("{:#}", Replay::open(&path).unwrap_err());
    assert!(error.contains("failed to read `") && error.contains("No such file"), "{error}");
    std::fs::write(&path, b"# a\n1 0 5 a s:x: n=\xff\n").unwrap();
    let error = Replay::open(&path).unwrap_err().to_string();
    assert!(error.contains("x.events:2: the text is not UTF-8"), "{error}");
}

proptest! {
    #[test]
    fn any_text_gives_a_recording_or_an_error(
        text: String,
        line in "[0-9.]{1,3} [0-9]{1,2} [0-9/]{1,3} [a\"\\\\-]{1,3} [sx:]{1,4}: \
                 [a-c =\"\\\\x0-9\\[\\],:;|-]{0,30}",
    ) {
        let _ = Replay::parse(&text, "x");
        let _ = Replay::parse(&line, "x");
    }
}

#[test]
fn the_counts_of_a_group_are_fields_with_the_names_of_its_events() {
    let replay = parse(
        "# event a:b: x=s64 _counts.a:b=u64 _counts.cpu/event=0x3c,edge/u=u64\n\
         0.1 0 1 c a:b: x=1 _counts.a:b=5 _counts.cpu/event=0x3c,edge/u=7 | f",
    );
    let shown = shown(&replay, 0);
    assert_eq!(shown, "x=Int(1) _counts.a:b=Uint(5) _counts.cpu/event=0x3c,edge/u=Uint(7)");
    let why = error("0.1 0 1 c a:b: _counts.a:b 5");
    assert!(why.contains("is not `field=value`"), "{why}");
}

#[test]
fn declared_integers_have_their_width() {
    let replay = parse(
        "# event s:x: u=u32 h=s16 list=u16[]\n0.1 0 5 a s:x: u=4294967295 h=-2 list=[1,65535]\n",
    );
    assert_eq!(shown(&replay, 0), "u=Uint(4294967295) h=Int(-2) list=[1, 65535]:false");
    let format = format(&replay, "s:x");
    let sizes = ["u", "h"].map(|name| format.field(name).unwrap().size);
    assert_eq!((sizes, &*format.field("u").unwrap().type_text), ([4, 2], "u32"));
    for (value, bits) in [("u=4294967296", 32), ("list=[65536]", 16), ("h=70000", 16)] {
        let text = format!("# event s:x: u=u32 h=s16 list=u16[]\n1 0 5 a s:x: {value}");
        assert!(error(&text).contains(&format!("has {bits} bits")), "{}", error(&text));
    }
}

#[test]
fn the_header_gives_the_end_and_the_watched_cpus() {
    let replay = parse("# cpus 0-1\n# end 2.25\n1 5 7 a EXIT: watched=0\n");
    assert_eq!((replay.end_ns(), replay.cpus()), (Some(2_250_000_000), vec![0, 1]));
    assert_eq!((replay.processors(), replay.has_tasks()), (6, true));
    assert!(!replay.entries()[0].watched);
    let old = parse("# end of it\n# cpus 0-1 are busy\n# cpus 99999\n1 5 7 a EXIT:\n");
    assert_eq!((old.end_ns(), old.cpus(), old.has_tasks()), (None, vec![5], false));
    assert!(old.entries()[0].watched);
}
