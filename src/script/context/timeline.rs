//! Hands the events that handlers receive to the timeline of the run, with `--perfetto`.

use std::io;
use std::rc::Rc;

use super::RunContext;
use super::shared::SharedContext;
use crate::base::event::slot::Slot;
use crate::base::event::value::{Value, emptied, read_bits};
use crate::base::kernel::address::is_kernel_address;
use crate::base::report::cell::Cell;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::Stamp;
use crate::base::report::frame::Frame;
use crate::base::report::timeline::{
    Timeline, TimelineEvent, TimelineSpan, TimelineTask, TimelineThread,
};
use crate::base::text::unescape::until_nul;
use crate::decode::format::Format;
use crate::event::kind::{Event, has_fields};
use crate::event::sample_field::counts_of;
use crate::script::vm::guard::pause::off_the_clock;

/// The timeline, and facts about each role that are looked up once.
pub(in crate::script) struct TimelineTap {
    sink: Box<dyn Timeline>,
    roles: Vec<TappedRole>,
    /// Record, CPU and time of the last event: roles of one event get the same record.
    last: (*const u8, u16, f64),
    /// The fields of an event; empty between two events.
    values: Vec<(usize, Value<'static>)>,
}

struct TappedRole {
    event: Rc<Event>,
    is_sample: bool,
    /// Position of `common_pid` in the record.
    common_pid: Option<usize>,
    /// Number of its own fields, before the counts of its group.
    own: usize,
}

impl TappedRole {
    fn of(event: &Rc<Event>) -> TappedRole {
        let is_sample =
            event.format().is_none() || !has_fields(&event.name) && !event.kind().is_derived();
        let own = event.format().into_iter().flat_map(|format| &format.fields);
        TappedRole {
            event: event.clone(),
            is_sample,
            common_pid: event.kind().raw_format().and_then(Format::common_pid),
            own: own.filter(|field| !field.common && !is_sample).count(),
        }
    }

    /// Appends the own fields of a record, then the counts of its group, each with its index.
    #[inline]
    fn read<'a>(&'a self, raw: &'a [u8], out: &mut Vec<(usize, Value<'a>)>) {
        if let Some(format) = self.event.format().filter(|_| !self.is_sample) {
            format.read_each(raw, |at, _, value| out.push((at, value)));
        }
        let members = self.event.counted.len();
        if members > 0 {
            let counts = counts_of(raw).take(members).enumerate();
            out.extend(counts.map(|(at, count)| (self.own + at, Value::Uint(count))));
        }
    }
}

/// A span as a script emits it. Times are nanoseconds of the run.
pub(in crate::script) struct ScriptSpan<'a> {
    /// Its name.
    pub(in crate::script) name: &'a [u8],
    /// The name of its track.
    pub(in crate::script) track: &'a [u8],
    /// Its end.
    pub(in crate::script) end: f64,
    /// Its length.
    pub(in crate::script) length: f64,
    /// Its thread.
    pub(in crate::script) tid: u32,
    /// The CPU of the current event.
    pub(in crate::script) cpu: u32,
    /// Values to show with it.
    pub(in crate::script) fields: &'a [(String, Cell)],
}

impl RunContext {
    /// Adds an event that a handler is about to receive.
    #[inline]
    pub(in crate::script) fn tap(&mut self, slot: &Slot, raw: &[u8], chain: &[u64]) {
        let Some(mut tap) = self.timeline.take() else { return };
        let this = (slot.raw, slot.cpu, slot.time);
        let again = !slot.raw.is_null() && tap.last == this && self.is_of_last(&tap, slot);
        tap.last = this;
        if !again {
            self.tap_into(&mut tap, slot, raw, chain);
        }
        self.timeline = Some(tap);
    }

    fn is_of_last(&self, tap: &TimelineTap, slot: &Slot) -> bool {
        let of = |role: usize| tap.roles.get(role).map(|one| &one.event.name);
        of(slot.ev as usize) == of(self.tapped as usize)
    }

    fn tap_into(&mut self, tap: &mut TimelineTap, slot: &Slot, raw: &[u8], chain: &[u64]) {
        self.tapped = slot.ev;
        let Some(role) = tap.roles.get(slot.ev as usize) else { return };
        let comm = self.comm_of_event(slot, raw);
        let common_pid = role.common_pid.and_then(|at| raw.get(at..at + 4));
        let common_pid = common_pid.map_or(slot.tid, |bytes| read_bits(bytes, false) as u32);
        let mut fields: Vec<(usize, Value<'_>)> = std::mem::take(&mut tap.values);
        role.read(raw, &mut fields);
        let stack = (!chain.is_empty()).then(|| self.stack_of(slot, chain));
        let space = || self.space_of(slot);
        let mut frames = |out: &mut Vec<Frame>| {
            off_the_clock(|| self.naming.borrow_mut().of_chain(space(), chain, out));
        };
        tap.sink.event(&mut TimelineEvent {
            role: slot.ev as usize,
            clock_ns: self.clock.clock_ns(slot.time),
            cpu: slot.cpu.into(),
            thread: TimelineThread { tid: slot.tid, pid: slot.pid, comm: until_nul(&comm) },
            common_pid,
            is_sample: role.is_sample,
            period: slot.occurrences(),
            in_kernel: is_kernel_address(slot.ip),
            fields: &fields,
            stack,
            frames: &mut frames,
        });
        tap.values = emptied(fields, (0, Value::Int(0)));
    }

    /// Adds a span of the script.
    pub(in crate::script) fn add_span(&mut self, span: &ScriptSpan<'_>) {
        let Some(mut tap) = self.timeline.take() else { return };
        let comm = self.comm_of(span.tid, span.cpu);
        tap.sink.span(&TimelineSpan {
            name: span.name,
            track: span.track,
            begin_ns: self.clock.clock_ns(span.end - span.length),
            end_ns: self.clock.clock_ns(span.end),
            thread: TimelineThread {
                tid: span.tid,
                pid: self.tasks.process(span.tid).unwrap_or(span.tid),
                comm: until_nul(&comm),
            },
            cpu: span.cpu,
            fields: span.fields,
        });
        self.timeline = Some(tap);
    }

    /// Adds a task that was created or renamed.
    pub(in crate::script) fn tap_task(&mut self, tid: u32) {
        let Some(tap) = &mut self.timeline else { return };
        let Some(task) = task_of(&self.tasks, tid) else { return };
        tap.sink.task(&task);
    }

    /// Adds the loss of records that a CPU reported at this time of the run.
    pub(in crate::script) fn tap_loss(&mut self, time: f64, cpu: u32, count: u64) {
        let clock_ns = self.clock.clock_ns(time);
        if let Some(tap) = &mut self.timeline {
            tap.sink.lost(clock_ns, cpu, count);
        }
    }
}

fn task_of(tasks: &crate::task::Tasks, tid: u32) -> Option<TimelineTask<'_>> {
    let thread = TimelineThread { tid, pid: tasks.process(tid)?, comm: tasks.comm(tid)? };
    Some(TimelineTask { thread, parent_pid: tasks.parent(tid).unwrap_or_default() })
}

impl SharedContext {
    /// Adds all events that handlers receive to a timeline from now on.
    pub fn set_timeline(&self, mut sink: Box<dyn Timeline>) {
        self.with(|context| {
            let opened: Vec<_> = context.roles.iter().map(|event| event.opened()).collect();
            sink.opened(&opened);
            let roles = context.roles.iter().map(TappedRole::of).collect();
            let (last, values) = ((std::ptr::null(), 0, 0.0), Vec::new());
            context.timeline = Some(Box::new(TimelineTap { sink, roles, last, values }));
        });
    }

    /// Returns whether there is a timeline.
    pub(in crate::script) fn has_timeline(&self) -> bool {
        self.with(|context| context.timeline.is_some())
    }

    /// Adds the tasks that exist to the timeline, if there is one.
    pub fn tap_tasks(&self) {
        self.with(|context| {
            if let Some(tap) = &mut context.timeline {
                let tasks = &context.tasks;
                tasks.tids().for_each(|tid| {
                    task_of(tasks, tid).iter().for_each(|task| tap.sink.task(task));
                });
            }
        });
    }

    /// Writes what is complete of the timeline.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush_timeline(&self) -> io::Result<()> {
        self.with(|context| {
            let clock_ns = context.clock.clock_ns(context.now);
            context.timeline.as_mut().map_or(Ok(()), |tap| tap.sink.flush(clock_ns))
        })
    }

    /// Writes the rest of the timeline. Returns a summary; None if there is no timeline.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end_timeline(&self, now: Stamp, coverage: &Coverage) -> io::Result<Option<String>> {
        let tap = self.with(|context| context.timeline.take());
        tap.map(|mut tap| tap.sink.end(now, coverage)).transpose()
    }
}
