//! Side-band records that are requested only for a script's callback.
//!
//! A kind is one row of [`SIDE_RECORDS`] and one arm of [`SideRecord::of`].

use crate::decode::record::Record;
use perf_event_open_sys::bindings as abi;

/// A kind of record, by its index in [`SIDE_RECORDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideKind {
    /// `PERF_RECORD_SWITCH`, `PERF_RECORD_SWITCH_CPU_WIDE`.
    Switch,
    /// `PERF_RECORD_NAMESPACES`.
    Namespaces,
    /// `PERF_RECORD_CGROUP`.
    Cgroup,
    /// `PERF_RECORD_KSYMBOL`.
    Ksymbol,
    /// `PERF_RECORD_BPF_EVENT`.
    Bpf,
    /// `PERF_RECORD_THROTTLE`, `PERF_RECORD_UNTHROTTLE`.
    Throttle,
    /// `PERF_RECORD_TEXT_POKE`.
    TextPoke,
}

/// Properties of a kind of record.
pub struct SideRecordKind {
    /// The kind.
    pub kind: SideKind,
    /// Name of the callback.
    pub callback: &'static str,
    /// Field of `perf_event_attr` that requests the record; None if it is always written.
    pub attr: Option<&'static str>,
    /// Whether a record is about one task.
    pub of_task: bool,
}

/// The kinds, in the order of [`SideKind`]. `stdlib/meta/monitor.lua` documents the callbacks.
#[rustfmt::skip]
pub const SIDE_RECORDS: [SideRecordKind; 7] = [
    row(SideKind::Switch,     "on_switch",     Some("context_switch"), true),
    row(SideKind::Namespaces, "on_namespaces", Some("namespaces"),     true),
    row(SideKind::Cgroup,     "on_cgroup",     Some("cgroup"),         false),
    row(SideKind::Ksymbol,    "on_ksymbol",    Some("ksymbol"),        false),
    row(SideKind::Bpf,        "on_bpf",        Some("bpf_event"),      false),
    row(SideKind::Throttle,   "on_throttle",   None,                   false),
    row(SideKind::TextPoke,   "on_text_poke",  Some("text_poke"),      false),
];

const fn row(
    kind: SideKind,
    callback: &'static str,
    attr: Option<&'static str>,
    of_task: bool,
) -> SideRecordKind {
    SideRecordKind { kind, callback, attr, of_task }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideKinds(u8);

impl SideKinds {
    /// The kinds that a prompt requests before it knows the callbacks: without context switches, of
    /// which there may be a million per second, and namespaces, which need `CAP_PERFMON`
    /// (`perf_event_open()`, kernel/events/core.c).
    pub const AT_PROMPT: SideKinds =
        SideKinds(0x7f & !(1 << SideKind::Switch as u8 | 1 << SideKind::Namespaces as u8));

    /// Adds a kind.
    pub fn insert(&mut self, kind: SideKind) {
        self.0 |= 1 << kind as u8;
    }

    /// Adds the kinds of another set.
    pub fn add(&mut self, other: SideKinds) {
        self.0 |= other.0;
    }

    /// Returns whether it has a kind.
    pub fn contains(self, kind: SideKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Returns the callback of one of its kinds that `other` does not have.
    pub fn beyond(self, other: SideKinds) -> Option<&'static str> {
        let missing = |one: &&SideRecordKind| self.contains(one.kind) && !other.contains(one.kind);
        SIDE_RECORDS.iter().find(missing).map(|one| one.callback)
    }

    /// Returns the fields of `perf_event_attr` that request its kinds.
    pub fn attrs(self) -> impl Iterator<Item = &'static str> {
        SIDE_RECORDS.iter().filter(move |one| self.contains(one.kind)).filter_map(|one| one.attr)
    }
}

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SideValue<'a> {
    /// A number; an address or an id may have 64 bits.
    Number(u64),
    /// A process or thread id, in the pid namespace of this process.
    Task(u32),
    /// Whether something holds.
    Flag(bool),
    /// Text or bytes.
    Text(&'a [u8]),
    /// Bytes as hexadecimal digits.
    Hex([u8; 8]),
}

/// Maximum number of fields.
const FIELDS_MAX: usize = 9;

/// A record as its callback gets it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SideRecord<'a> {
    /// Its kind.
    pub kind: SideKind,
    fields: [Option<(&'static str, SideValue<'a>)>; FIELDS_MAX],
}

/// Names of the namespaces, by their `*_NS_INDEX`.
const NAMESPACES: [&str; 7] =
    ["net_ns", "uts_ns", "ipc_ns", "pid_ns", "user_ns", "mnt_ns", "cgroup_ns"];

impl<'a> SideRecord<'a> {
    /// Returns the fields of a record; None if no callback gets such records. `event_of` returns
    /// the name of the event with an id.
    pub fn of(
        record: &Record<'a>,
        event_of: impl FnOnce(u64) -> Option<&'a str>,
    ) -> Option<SideRecord<'a>> {
        use SideValue::{Flag, Number, Task, Text};
        Some(match record {
            Record::Switch(r) => {
                let task = r.trailer.unwrap_or_default();
                SideRecord::new(
                    SideKind::Switch,
                    [
                        ("pid", Task(task.pid)),
                        ("tid", Task(task.tid)),
                        ("out", Flag(r.out)),
                        ("preempted", Flag(r.preempt)),
                    ],
                )
            }
            Record::SwitchCpuWide(r) => {
                let task = r.trailer.unwrap_or_default();
                SideRecord::new(
                    SideKind::Switch,
                    [
                        ("pid", Task(task.pid)),
                        ("tid", Task(task.tid)),
                        ("out", Flag(r.out)),
                        ("preempted", Flag(r.preempt)),
                        ("other_pid", Task(r.next_prev_pid)),
                        ("other_tid", Task(r.next_prev_tid)),
                    ],
                )
            }
            Record::Namespaces(r) => {
                let own = [("pid", Task(r.pid)), ("tid", Task(r.tid))];
                let inodes = NAMESPACES.iter().enumerate().filter_map(|(index, name)| {
                    r.get(index as u32).map(|(_, inode)| (*name, Number(inode)))
                });
                SideRecord::new(SideKind::Namespaces, own.into_iter().chain(inodes))
            }
            Record::Cgroup(r) => {
                SideRecord::new(SideKind::Cgroup, [("id", Number(r.id)), ("path", Text(r.path))])
            }
            Record::Throttle(r) | Record::Unthrottle(r) => SideRecord::new(
                SideKind::Throttle,
                [
                    ("event", Text(event_of(r.id).unwrap_or_default().as_bytes())),
                    ("throttled", Flag(matches!(record, Record::Throttle(_)))),
                ],
            ),
            _ => return SideRecord::of_code(record),
        })
    }

    /// Returns the fields of a record about generated or modified code of the kernel.
    fn of_code(record: &Record<'a>) -> Option<SideRecord<'a>> {
        use SideValue::{Flag, Hex, Number, Text};
        let text = |text: &'static str| Text(text.as_bytes());
        Some(match record {
            Record::Ksymbol(r) => SideRecord::new(
                SideKind::Ksymbol,
                [
                    ("address", Number(r.addr)),
                    ("length", Number(r.len.into())),
                    (
                        "kind",
                        text(match u32::from(r.ksym_type) {
                            abi::PERF_RECORD_KSYMBOL_TYPE_BPF => "bpf",
                            abi::PERF_RECORD_KSYMBOL_TYPE_OOL => "out of line",
                            _ => "unknown",
                        }),
                    ),
                    ("name", Text(r.name)),
                    ("removed", Flag(r.unregister)),
                ],
            ),
            Record::BpfEvent(r) => SideRecord::new(
                SideKind::Bpf,
                [
                    ("id", Number(r.id.into())),
                    (
                        "kind",
                        text(match u32::from(r.kind) {
                            abi::PERF_BPF_EVENT_PROG_LOAD => "load",
                            abi::PERF_BPF_EVENT_PROG_UNLOAD => "unload",
                            _ => "unknown",
                        }),
                    ),
                    ("tag", Hex(r.tag)),
                ],
            ),
            Record::TextPoke(r) => SideRecord::new(
                SideKind::TextPoke,
                [("address", Number(r.addr)), ("old", Text(r.old)), ("new", Text(r.new))],
            ),
            _ => return None,
        })
    }

    fn new(
        kind: SideKind,
        of: impl IntoIterator<Item = (&'static str, SideValue<'a>)>,
    ) -> SideRecord<'a> {
        let mut fields = [None; FIELDS_MAX];
        for (place, field) in fields.iter_mut().zip(of) {
            *place = Some(field);
        }
        SideRecord { kind, fields }
    }

    /// Returns its fields.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, SideValue<'a>)> {
        self.fields.iter().flatten().copied()
    }

    /// Returns the thread that it is about.
    pub fn tid(&self) -> Option<u32> {
        SIDE_RECORDS[self.kind as usize].of_task.then_some(())?;
        self.fields().find_map(|(name, value)| match value {
            SideValue::Task(tid) if name == "tid" => Some(tid),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
