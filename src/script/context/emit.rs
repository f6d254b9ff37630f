//! Prints events: those that a script emits, and those whose handler failed.

use super::RunContext;
use crate::base::event::slot::Slot;
use crate::base::event::value::Value as Field;
use crate::base::report::draw::{Cell, DetailPosition, EventLine, EventText, FLAG_FIELDS, Level};
use crate::base::report::frame::Frame;
use crate::base::text::unescape::until_nul;
use crate::decode::flags;
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

impl RunContext {
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
        if self.is_only_counted(slot, chain, &extras) {
            return;
        }
        let chain = if self.no_stacks { &[] } else { chain };
        let Some(event) = self.roles.get(slot.ev as usize).cloned() else { return };
        let stack = self.name_frames(slot, chain);
        let comm = self.comm_of_slot(slot);
        let weighed = self.weighed(extras.extra);
        let sample = [
            ("period", Field::Uint(slot.period)),
            ("ip", Field::Pointer(slot.ip)),
            ("addr", Field::Pointer(slot.addr)),
        ];
        let print = event.format().and_then(|f| self.texts.printer(slot.ev as usize, f, raw));
        let common = common_of(&event, raw);
        let flags = common.map_or(flags::UNKNOWN, |[flags, preempt_count]| {
            flags::letters(flags, own_depth(preempt_count))
        });
        let counts: Vec<(String, u64)> = event.count_fields().zip(counts_of(raw)).collect();
        let mut of_group = counts.iter().map(|(name, count)| (name.as_str(), Field::Uint(*count)));
        let (mut of_record, mut of_sample);
        let fields: &mut dyn Iterator<Item = _> = match event.format() {
            Some(format) => {
                of_record = format.values(raw).chain(&mut of_group);
                &mut of_record
            }
            None => {
                let known = if slot.addr == 0 { 2 } else { 3 };
                of_sample = sample[..known].iter().copied().chain(&mut of_group);
                &mut of_sample
            }
        };
        let print_with_counts = |out: &mut Vec<u8>| {
            let is_printed = print.as_ref().is_some_and(|print| print(out));
            if is_printed {
                for (name, count) in &counts {
                    out.extend_from_slice(format!(" {name}={count}").as_bytes());
                }
            }
            is_printed
        };
        // In a recording, a counter's samples have a format, too.
        let is_counter =
            event.format().is_none() || !has_fields(&event.name) && !event.kind().is_derived();
        let period = is_counter.then_some(slot.period);
        self.printed += 1;
        self.out.event(&mut EventLine {
            stamp: self.clock.stamp(self.clock.clock_ns(slot.time)),
            comm: until_nul(&comm),
            pid: slot.pid,
            tid: slot.tid,
            cpu: slot.cpu.into(),
            flags,
            common: common.unwrap_or_default(),
            name: &event.name,
            period,
            fields,
            text: match (extras.text, &print) {
                (Some(text), _) => EventText::Printer(text),
                (None, Some(_)) => EventText::Format(&print_with_counts),
                (None, None) => EventText::Fields,
            },
            extra: weighed.as_deref().unwrap_or(extras.extra),
            detail: extras.detail,
            stack: &stack,
        });
        self.frames = stack;
        // A closed output is detected at the next report.
        let _ = self.out.flush_if_large();
    }

    /// Returns the fields of an event that stands for several ones: its weight, then those of the
    /// script.
    fn weighed(&self, extra: &[(String, Cell)]) -> Option<Vec<(String, Cell)>> {
        let weight = self.weight.get();
        let first = ("weight".to_owned(), Cell::Int(weight as i128));
        (weight > 1.0).then(|| std::iter::once(first).chain(extra.iter().cloned()).collect())
    }

    /// Adds an event that is printed to the heat map. Returns whether it was only counted, with its
    /// stack, because the run draws a flame graph of the printed events instead.
    fn is_only_counted(&mut self, slot: &Slot, chain: &[u64], extras: &EmitExtras<'_>) -> bool {
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
        let comm = self.comm_of(slot.tid, slot.cpu.into());
        let (comm, line) =
            (String::from_utf8_lossy(until_nul(&comm)), String::from_utf8_lossy(&line));
        let text = format!("in {} {} [{:03}] {}: {line}", comm, slot.tid, slot.cpu, event.name);
        self.note(Level::Error, &text);
    }
}

/// Returns the [`FLAG_FIELDS`] of a record, or None if its event has no format of the kernel.
fn common_of(event: &Event, raw: &[u8]) -> Option<[u8; 2]> {
    let format = event.kind().raw_format()?;
    Some(FLAG_FIELDS.map(|name| match format.field(name).map(|f| f.read(raw)) {
        Some(Ok(Field::Uint(n))) => n as u8,
        _ => 0,
    }))
}

/// Returns the preemption depth where the event happened. The probe of perf disables preemption
/// once itself before it reads the count; like ftrace, this subtracts that level. On a kernel that
/// does not count preemption the value stays 0. The low half is the depth.
fn own_depth(count: u8) -> u8 {
    count - u8::from(count & 0xf != 0)
}
