//! A replay reads what a recording contains beside the events.

use super::*;
use crate::base::event::value::{FieldType, ValueType};
use crate::output::test_support::{Written, stamp};
use crate::source::replay::{RecordedEntry, Replay};

fn recorded(draw: impl FnOnce(&mut Events)) -> String {
    let out = Written::default();
    let mut events = Events::new(Box::new(out.clone()), stamp(0));
    draw(&mut events);
    events.flush().unwrap();
    out.text()
}

#[test]
fn changes_of_tasks_losses_and_the_end_of_a_run_read_back() {
    let sides = [
        RecordedSide::Task {
            pid: 20,
            tid: 21,
            watched: true,
            change: TaskChange::Fork { parent_pid: 10, parent_tid: 11 },
        },
        RecordedSide::Task {
            pid: 20,
            tid: 20,
            watched: true,
            change: TaskChange::Comm { comm: b"a \"b\"" },
        },
        RecordedSide::Task {
            pid: 20,
            tid: 20,
            watched: false,
            change: TaskChange::Exec { comm: b"12" },
        },
        RecordedSide::Task { pid: 20, tid: 20, watched: true, change: TaskChange::Exit },
        RecordedSide::LossWindow { length_ns: 2_000 },
        RecordedSide::Lost { count: 312 },
        RecordedSide::LostSoFar { events: 400, of_tasks: 3 },
    ];
    let text = recorded(|events| {
        events.run_record(stamp(1_000), &RunRecord::Begin { cpus: &[0, 1, 3] });
        for (at, what) in (0..).zip(sides) {
            events.run_record(stamp(2_000 + at), &RunRecord::Side { cpu: 1, what });
        }
        events.run_record(stamp(3_000_001_000), &RunRecord::End);
    });
    let replay = Replay::parse(&text, "x").unwrap();
    assert_eq!(replay.wall_ns(), stamp(1_000).wall_ns, "the run began after the output");
    assert_eq!((replay.cpus(), replay.end_ns()), (vec![0, 1, 3], Some(3_000_000_000)));
    assert!(replay.has_tasks());
    let what: Vec<_> = replay.entries().iter().map(|entry| entry.what.clone()).collect();
    let expected = [
        RecordedEntry::Fork { parent_pid: 10, parent_tid: 11 },
        RecordedEntry::Comm { comm: b"a \"b\"".to_vec() },
        RecordedEntry::Exec { comm: b"12".to_vec() },
        RecordedEntry::Exit,
        RecordedEntry::Lost { count: 0, length_ns: Some(2_000) },
        RecordedEntry::Lost { count: 312, length_ns: None },
        RecordedEntry::LostSoFar { events: 400, of_tasks: 3 },
    ];
    assert_eq!(what, expected, "{text}");
    let fork = &replay.entries()[0];
    assert_eq!((fork.time_ns, fork.cpu, fork.pid, fork.tid), (1_000, 1, 20, 21));
    let watched: Vec<bool> = replay.entries().iter().map(|entry| entry.watched).collect();
    assert_eq!(watched, [true, true, false, true, true, true, true]);
}

#[test]
fn fields_keep_their_width() {
    let of = |of, bytes| FieldType { of, bytes };
    let fields = [
        ("a", of(ValueType::Uint, 4)),
        ("b", of(ValueType::Int, 2)),
        ("c", of(ValueType::Uints, 4)),
        ("d", of(ValueType::Int, 8)),
    ];
    let fields = fields.map(|(name, of)| (name.to_owned(), of)).to_vec();
    let opened = [OpenedEvent { name: "s:x".into(), fields }];
    let text = recorded(|events| events.opened(&opened));
    assert!(text.contains("# event s:x: a=u32 b=s16 c=u32[] d=s64\n"), "{text}");
    let replay = Replay::parse(&text, "x").unwrap();
    assert!(replay.events().map(|event| event.opened()).eq(opened));
}
