//! Prints events: those that a script emits, and those whose handler failed.

use std::rc::Rc;

use super::RunContext;
use crate::base::event::slot::Slot;
use crate::base::event::value::{Value, emptied};
use crate::base::report::cell::Cell;
use crate::base::report::draw::{DetailPosition, EventLine, EventText, FLAG_FIELDS, Level};
use crate::base::report::event_record::{EventRecord, FixedField};
use crate::base::report::frame::Frame;
use crate::base::text::unescape::until_nul;
use crate::decode::flags;
use crate::decode::format::{Field, Format};
use crate::event::kind::{Event, has_fields};
use crate::event::sample_field::counts_of;
use crate::script::vm::guard::pause::off_the_clock;

/// Additions of a script to an event that it prints.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::script) struct EmitExtras<'a> {
    /// The script's text, instead of the fields.
    pub(in crate::script) text: Option<&'a [u8]>,
    /// Further fields.
    pub(in crate::script) extra: &'a [(String, Cell)],
    /// The detail that the event is part of.
    pub(in crate::script) detail: Option<DetailPosition>,
}

impl EmitExtras<'_> {
    #[inline]
    fn is_empty(&self) -> bool {
        self.text.is_none() && self.extra.is_empty() && self.detail.is_none()
    }
}

/// Facts about the event of a role that its printing needs, looked up once.
pub(super) struct PrintedRole {
    event: Rc<Event>,
    /// Whether its records are samples of a counter or a clock. In a recording, such samples have a
    /// format, too.
    is_counter: bool,
    /// Number of fields of a whole record, with the counts of its group; None without a format.
    fields: Option<usize>,
    /// Indexes of the [`FLAG_FIELDS`] in the kernel's format, if it has one.
    common: Option<[Option<usize>; 2]>,
    /// Position of `common_pid` in the record.
    common_pid: Option<usize>,
    /// The places of its fields, if all have fixed ones.
    layout: Option<FixedLayout>,
}

/// Places of the fields in each record of an event.
struct FixedLayout {
    fields: Vec<FixedField>,
    /// Minimum size of a record that has all of them.
    size: usize,
}

impl FixedLayout {
    fn of(event: &Event) -> Option<FixedLayout> {
        let format = event.format().filter(|_| event.counted.is_empty())?;
        let own = format.fields.iter().filter(|field| !field.common);
        let fields: Vec<FixedField> = own.map(Field::fixed_field).collect::<Option<_>>()?;
        let size = fields.iter().map(FixedField::end).max().unwrap_or_default();
        Some(FixedLayout { fields, size })
    }
}

impl PrintedRole {
    fn of(event: &Rc<Event>) -> PrintedRole {
        let is_counter =
            event.format().is_none() || !has_fields(&event.name) && !event.kind().is_derived();
        let common = event.kind().raw_format().map(|format| {
            FLAG_FIELDS.map(|name| format.fields.iter().position(|field| field.name == name))
        });
        let common_pid = event.kind().raw_format().and_then(Format::common_pid);
        let own = |format: &Format| format.fields.iter().filter(|field| !field.common).count();
        let fields = event.format().map(|format| own(format) + event.counted.len());
        let layout = FixedLayout::of(event);
        PrintedRole { event: event.clone(), is_counter, fields, common, common_pid, layout }
    }

    /// Returns the [`FLAG_FIELDS`] of a record, or None if its event has no format of the kernel.
    fn common_of(&self, raw: &[u8]) -> Option<[u8; 2]> {
        let format = self.event.kind().raw_format()?;
        let value =
            |at: Option<usize>| match at.and_then(|at| format.fields.get(at)?.read(raw).ok()) {
                Some(Value::Uint(n)) => n as u8,
                _ => 0,
            };
        self.common.map(|common| common.map(value))
    }

    /// Returns `common_pid` of a record, if it is another number than that of the thread.
    fn other_pid_of(&self, raw: &[u8], tid: u32) -> Option<u32> {
        let bytes = raw.get(self.common_pid?..)?.first_chunk()?;
        u32::try_from(i32::from_ne_bytes(*bytes)).ok().filter(|number| *number != tid)
    }
}

impl RunContext {
    /// Returns the facts about a role.
    #[inline]
    fn printed_role(&mut self, role: usize) -> Option<Rc<PrintedRole>> {
        let event = self.roles.get(role)?;
        match self.printed_roles.get(role) {
            Some(known) if Rc::ptr_eq(&known.event, event) => Some(known.clone()),
            _ => {
                let all = self.roles.iter().map(|event| Rc::new(PrintedRole::of(event)));
                self.printed_roles = all.collect();
                self.printed_roles.get(role).cloned()
            }
        }
    }

    /// Prints one event now, with the script's additions.
    pub(in crate::script) fn emit(
        &mut self,
        slot: &Slot,
        raw: &[u8],
        chain: &[u64],
        extras: EmitExtras<'_>,
    ) {
        if self.hides(slot) {
            return;
        }
        let is_drawn = self.add_to_pictures(slot, chain, &extras);
        if is_drawn && !self.keeps_events {
            return;
        }
        let chain = if self.no_stacks { &[] } else { chain };
        if self.takes_records && extras.is_empty() && self.emit_record(slot, raw, chain) {
            return;
        }
        self.emit_line(slot, raw, chain, extras, is_drawn);
    }

    /// Prints an event without reading its fields. Returns false if the event or the output needs
    /// [`RunContext::emit_line`].
    #[inline]
    fn emit_record(&mut self, slot: &Slot, raw: &[u8], chain: &[u64]) -> bool {
        if !chain.is_empty() || self.weight.get() > 1.0 {
            return false;
        }
        let role = slot.ev as usize;
        let (Some(event), Some(printed)) = (self.roles.get(role), self.printed_roles.get(role))
        else {
            return false;
        };
        let Some(layout) = printed.layout.as_ref().filter(|_| Rc::ptr_eq(event, &printed.event))
        else {
            return false;
        };
        let Some(bytes) = raw.get(..layout.size) else { return false };
        let comm = self.comm_of_slot(slot);
        let clock_ns = self.clock.clock_ns(slot.time);
        let is_printed = self.out.event_record(&EventRecord {
            wall_ns: self.clock.wall_ns(clock_ns),
            clock_ns,
            comm,
            pid: slot.pid,
            tid: slot.tid,
            cpu: slot.cpu.into(),
            role,
            fields: &layout.fields,
            bytes,
        });
        self.printed += u64::from(is_printed);
        is_printed
    }

    /// Prints an event with all that is known about it, or only keeps it if it is drawn.
    #[inline(never)]
    fn emit_line(
        &mut self,
        slot: &Slot,
        raw: &[u8],
        chain: &[u64],
        extras: EmitExtras<'_>,
        is_drawn: bool,
    ) {
        let Some(role) = self.printed_role(slot.ev as usize) else { return };
        let event = &role.event;
        let stack = self.name_frames(slot, chain);
        let comm = self.comm_of_slot(slot);
        let weighed = self.weighed(extras.extra);
        let counts = counts_with_names(event, raw);
        let mut fields: Vec<(&str, Value<'_>)> = std::mem::take(&mut self.fields);
        read_fields(event, slot, raw, &mut fields);
        fields.extend(counts.iter().map(|(name, count)| (name.as_str(), Value::Uint(*count))));
        let print = event.format().and_then(|f| self.texts.printer(slot.ev as usize, f, raw));
        let common = role.common_of(raw);
        let flags = common.map_or(flags::UNKNOWN, |[flags, preempt_count]| {
            flags::letters(flags, own_depth(preempt_count))
        });
        let print_with_counts = |out: &mut Vec<u8>| {
            let is_printed = print.as_ref().is_some_and(|print| print(out));
            for (name, count) in counts.iter().filter(|_| is_printed) {
                out.extend_from_slice(format!(" {name}={count}").as_bytes());
            }
            is_printed
        };
        let period = role.is_counter.then_some(slot.period);
        self.printed += 1;
        let line = &mut EventLine {
            stamp: self.clock.stamp(self.clock.clock_ns(slot.time)),
            comm: until_nul(&comm),
            pid: slot.pid,
            tid: slot.tid,
            cpu: slot.cpu.into(),
            flags,
            common: common.unwrap_or_default(),
            common_pid: role.other_pid_of(raw, slot.tid),
            name: &event.name,
            role: (role.fields == Some(fields.len())).then_some(slot.ev.into()),
            period,
            fields: &fields,
            text: match (extras.text, &print) {
                (Some(text), _) => EventText::Printer(text),
                (None, Some(_)) => EventText::Format(&print_with_counts),
                (None, None) => EventText::Fields,
            },
            extra: weighed.as_deref().unwrap_or(extras.extra),
            detail: extras.detail,
            stack: &stack,
        };
        if is_drawn {
            self.out.drawn_event(line);
        } else {
            self.out.event(line);
        }
        self.frames = stack;
        self.fields = emptied(fields, ("", Value::Int(0)));
        // A closed output is detected at the next report.
        let _ = self.out.flush_if_large();
    }

    /// Returns the fields of an event that stands for several ones: its weight, then those of the
    /// script.
    fn weighed(&self, extra: &[(String, Cell)]) -> Option<Vec<(String, Cell)>> {
        let weight = self.weight.get();
        (weight > 1.0).then(|| {
            let first = ("weight".to_owned(), Cell::whole(weight as i128));
            std::iter::once(first).chain(extra.iter().cloned()).collect()
        })
    }

    /// Adds an event to the heat map, and its stack to the flame graph, if the run draws them.
    /// Returns whether the flame graph shows the event instead of the output.
    fn add_to_pictures(&mut self, slot: &Slot, chain: &[u64], extras: &EmitExtras<'_>) -> bool {
        if extras.detail.is_none() {
            self.heats.emitted.iter_mut().for_each(|heat| heat.add(slot.time));
        }
        let Some(counts) = &self.flame_counts else { return false };
        if !chain.is_empty() {
            let comm = self.comm_of_slot(slot);
            counts.add(until_nul(&comm), self.stack_of(slot, chain), extras.extra);
        }
        true
    }

    /// Names the addresses of a call chain, in the memory that the last event's frames used.
    fn name_frames(&mut self, slot: &Slot, chain: &[u64]) -> Vec<Frame> {
        let mut stack = std::mem::take(&mut self.frames);
        stack.clear();
        if !chain.is_empty() {
            let space = self.space_of(slot);
            off_the_clock(|| self.naming.borrow_mut().of_chain(space, chain, &mut stack));
            self.note_missing_names();
        }
        stack
    }

    /// Prints an event whose handler failed, as a message.
    pub(in crate::script) fn note_event(&mut self, slot: &Slot, raw: &[u8]) {
        let Some(event) = self.roles.get(slot.ev as usize).cloned() else { return };
        let mut line = Vec::new();
        self.texts.push(&mut line, slot.ev as usize, &event, raw);
        let comm = self.comm_of_event(slot, raw);
        let (comm, line) =
            (String::from_utf8_lossy(until_nul(&comm)), String::from_utf8_lossy(&line));
        let text = format!("in {} {} [{:03}] {}: {line}", comm, slot.tid, slot.cpu, event.name);
        self.note(Level::Error, &text);
    }
}

/// Appends the fields of an event's format, or those of its sample if it has none.
#[inline]
fn read_fields<'a>(
    event: &'a Event,
    slot: &Slot,
    raw: &'a [u8],
    out: &mut Vec<(&'a str, Value<'a>)>,
) {
    if let Some(format) = event.format() {
        return format.read_each(raw, |_, field, value| out.push((&field.name, value)));
    }
    out.extend([("period", Value::Uint(slot.period)), ("ip", Value::Pointer(slot.ip))]);
    out.extend((slot.addr != 0).then_some(("addr", Value::Pointer(slot.addr))));
}

/// Returns the counts of an event's group, by the names of their fields.
fn counts_with_names(event: &Event, raw: &[u8]) -> Vec<(String, u64)> {
    if event.counted.is_empty() {
        return Vec::new();
    }
    event.count_fields().zip(counts_of(raw)).collect()
}

/// Returns the preemption depth where the event happened. The probe of perf disables preemption
/// once itself before it reads the count; like ftrace, this subtracts that level. On a kernel that
/// does not count preemption the value stays 0. The low half is the depth.
fn own_depth(count: u8) -> u8 {
    count - u8::from(count & 0xf != 0)
}
