//! The kernel's events that Perfetto knows: scheduling, interrupts, CPU frequencies. They become
//! `FtraceEvent`s in a bundle per CPU, from which Perfetto draws its own tracks.
//!
//! The numbers are those of protos/perfetto/trace/ftrace/ in Perfetto's repository.

use super::wire::{FieldWriter, put_uint};
use crate::base::event::value::Value;
use crate::base::report::draw::OpenedEvent;
use crate::base::report::timeline::TimelineEvent;

/// Bytes of a CPU's events that make a bundle.
const BUNDLE: usize = 32 << 10;

/// A known event: name, number in `FtraceEvent`, and the number of each field in its message.
type KnownEvent = (&'static str, u32, &'static [(&'static str, u32)]);

/// The known events.
const KNOWN: &[KnownEvent] = &[
    (
        "sched:sched_switch",
        4,
        &[
            ("prev_comm", 1),
            ("prev_pid", 2),
            ("prev_prio", 3),
            ("prev_state", 4),
            ("next_comm", 5),
            ("next_pid", 6),
            ("next_prio", 7),
        ],
    ),
    ("power:cpu_frequency", 11, &[("state", 1), ("cpu_id", 2)]),
    ("power:cpu_idle", 13, &[("state", 1), ("cpu_id", 2)]),
    ("sched:sched_wakeup", 17, WAKEUP),
    ("sched:sched_waking", 20, WAKEUP),
    ("irq:softirq_entry", 24, &[("vec", 1)]),
    ("irq:softirq_exit", 25, &[("vec", 1)]),
    ("irq:softirq_raise", 26, &[("vec", 1)]),
    ("irq:irq_handler_entry", 36, &[("irq", 1), ("name", 2)]),
    ("irq:irq_handler_exit", 37, &[("irq", 1), ("ret", 2)]),
    ("sched:sched_wakeup_new", 114, WAKEUP),
    (
        "task:task_newtask",
        235,
        &[("pid", 1), ("comm", 2), ("clone_flags", 3), ("oom_score_adj", 4)],
    ),
    ("task:task_rename", 236, &[("pid", 1), ("oldcomm", 2), ("newcomm", 3), ("oom_score_adj", 4)]),
    ("sched:sched_process_exec", 237, &[("filename", 1), ("pid", 2), ("old_pid", 3)]),
    ("sched:sched_process_exit", 238, &[("comm", 1), ("pid", 2), ("prio", 4)]),
    (
        "sched:sched_process_fork",
        239,
        &[("parent_comm", 1), ("parent_pid", 2), ("child_comm", 3), ("child_pid", 4)],
    ),
    ("sched:sched_process_free", 240, &[("comm", 1), ("pid", 2), ("prio", 3)]),
    ("sched:sched_process_hang", 241, &[("comm", 1), ("pid", 2)]),
    ("sched:sched_process_wait", 242, &[("comm", 1), ("pid", 2), ("prio", 3)]),
    (
        "sched:sched_migrate_task",
        491,
        &[("comm", 1), ("pid", 2), ("prio", 3), ("orig_cpu", 4), ("dest_cpu", 5)],
    ),
];

const WAKEUP: &[(&str, u32)] =
    &[("comm", 1), ("pid", 2), ("prio", 3), ("success", 4), ("target_cpu", 5)];

/// The numbers of a known event: its own, and those of its fields by their index; 0 for a field
/// that Perfetto does not know.
pub(super) struct FtraceMessage {
    number: u32,
    fields: Vec<u32>,
}

impl FtraceMessage {
    /// Returns the numbers of an event; None if Perfetto does not know it.
    pub(super) fn of(event: &OpenedEvent) -> Option<FtraceMessage> {
        let (_, number, known) = KNOWN.iter().find(|(name, ..)| *name == event.name)?;
        let number_of = |(name, _): &(String, _)| {
            known.iter().find(|(known, _)| known == name).map_or(0, |(_, number)| *number)
        };
        Some(FtraceMessage {
            number: *number,
            fields: event.fields.iter().map(number_of).collect(),
        })
    }

    /// Returns the signed integer of the field with this number; 0 if there is none.
    #[inline]
    fn int(&self, values: &[(usize, Value<'_>)], number: u32) -> i64 {
        let is_it = |(at, _): &&(usize, Value<'_>)| self.fields.get(*at) == Some(&number);
        match values.iter().find(is_it) {
            Some((_, Value::Int(value))) => *value,
            _ => 0,
        }
    }
}

/// The events of one CPU since its last bundle.
#[derive(Default)]
pub(super) struct CpuBundle {
    /// The encoded events, and room for more.
    events: Vec<u8>,
    /// Number of bytes of the events.
    used: usize,
    /// Whether records were lost before these events.
    lost: bool,
    /// The last switch: its time, and the threads before and after it.
    last: (u64, i64, i64),
}

/// Number of `sched_switch`, and of its fields `prev_pid` and `next_pid`.
const SWITCH: (u32, u32, u32) = (4, 2, 6);

/// The records of one switch by two events with different filters have times that differ by less
/// than this.
const SAME_NS: u64 = 100_000;

/// Room for most events.
const ROOM: usize = 1 << 8;

impl CpuBundle {
    /// Appends an event at `time`; omits a further record of the last switch. Returns whether the
    /// bundle is large enough to be written.
    #[inline]
    pub(super) fn push(
        &mut self,
        message: &FtraceMessage,
        time: u64,
        event: &TimelineEvent<'_>,
    ) -> bool {
        if message.number == SWITCH.0 {
            let pid = |number| message.int(event.fields, number);
            let switch = (time, pid(SWITCH.1), pid(SWITCH.2));
            if self.is_same(switch) {
                return false;
            }
            self.last = switch;
        }
        loop {
            let mut out = FieldWriter::new(self.events.get_mut(self.used..).unwrap_or_default());
            out.message(2, |out| {
                out.uint(1, time);
                out.uint(2, event.common_pid.into());
                out.message(message.number, |out| {
                    for (at, value) in event.fields {
                        let field = message.fields.get(*at).copied().unwrap_or_default();
                        if field != 0 {
                            put_value(out, field, value);
                        }
                    }
                });
            });
            if let Some(length) = out.end() {
                self.used += length;
                return self.used >= BUNDLE;
            }
            let room = (self.events.len() - self.used).max(ROOM) * 2;
            self.events.resize(self.used + room, 0);
        }
    }

    /// Returns whether a switch is another record of the last one: it cannot follow that one,
    /// because the CPU was running another thread by then.
    fn is_same(&self, (time, prev, next): (u64, i64, i64)) -> bool {
        let (last_time, last_prev, last_next) = self.last;
        (prev, next) == (last_prev, last_next)
            && prev != last_next
            && time.saturating_sub(last_time) < SAME_NS
    }

    /// Notes that records were lost between the events so far and the next one.
    pub(super) fn lose(&mut self) {
        self.lost = true;
    }

    /// Returns whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns the events, and begins a new bundle; its fields before the events are appended to
    /// `out`. The clock is `CLOCK_BOOTTIME`, Perfetto's default.
    pub(super) fn take(&mut self, cpu: u32, out: &mut Vec<u8>) -> &[u8] {
        put_uint(out, 1, cpu.into());
        if std::mem::take(&mut self.lost) {
            put_uint(out, 3, 1);
        }
        let used = std::mem::take(&mut self.used);
        self.events.get(..used).unwrap_or_default()
    }
}

#[inline(always)]
fn put_value(out: &mut FieldWriter<'_>, field: u32, value: &Value<'_>) {
    match value {
        Value::Int(value) => out.uint(field, value.cast_unsigned()),
        Value::Uint(value) | Value::Pointer(value) => out.uint(field, *value),
        Value::Text(text) => out.text(field, text),
        Value::Float(_) | Value::Bytes(_) | Value::Array { .. } => {}
    }
}
