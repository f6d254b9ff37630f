//! State of a running script that leaves and functions reach: roles, tasks, the clock, and the
//! output.

use std::cell::RefCell;
use std::rc::Rc;

use super::aggregate::flame::FlameCounts;
use super::guard::pause::off_the_clock;
use super::history::Past;
use super::texts::Texts;
use crate::base::chain::ChainBuilder;
use crate::base::draw::{Cell as Value, DetailPosition, Draw, EventLine, EventText, Level};
use crate::base::frame::{Frame, Space};
use crate::base::heat::Heat;
use crate::base::slot::Slot;
use crate::base::text::unescape::until_nul;
use crate::base::value::Value as Field;
use crate::decode::clock::Clock;
use crate::decode::flags;
use crate::event::filter::{self, Bound};
use crate::event::kind::{Event, is_tracepoint};
use crate::source::UserStack;
use crate::stack::naming::Naming;
use crate::stack::{Stacks, chain};
use crate::stat::event_copy::{EventOwner, Owners, PrintedCopy};
use crate::stat::leaf::BorrowedEvent as Kept;
use crate::symbol::KernelSymbols;
use crate::task::{Tasks, UNKNOWN, programs};
use crate::unwind::Unwinder;

/// Additions of a script to an event that it prints.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmitExtras<'a> {
    /// The script's text, instead of the fields.
    pub text: Option<&'a [u8]>,
    /// Further fields.
    pub extra: &'a [(String, Value)],
    /// The detail that the event is part of.
    pub detail: Option<DetailPosition>,
}

/// Maximum number of messages kept until the run has an output; further ones are counted.
const EARLY_NOTES: usize = 100;

/// The state behind the functions of a running script.
pub struct RunContext {
    /// The event of each role, by role index.
    pub roles: Vec<Rc<Event>>,
    /// Names of tasks.
    pub tasks: Tasks,
    /// Address spaces and mapped files of processes; none in a run that takes no stacks.
    pub programs: Option<programs::SharedPrograms>,
    /// Unwinds the user stacks that samples copy.
    pub unwinder: Unwinder,
    /// Converts between perf time, wall time and run time.
    pub clock: Clock,
    /// Where results go.
    pub out: Box<dyn Draw>,
    /// Messages from before the run had an output, without a level those of `note`; None once it
    /// has one.
    early: Option<Vec<(Option<Level>, String)>>,
    /// Number of notes that were not kept.
    early_dropped: u64,
    /// Hides events of this process's own tasks, because `sched:*` cannot exclude them in the
    /// kernel; interrupt events are shown.
    pub hide_pid: Option<u32>,
    /// Time of the event or record that was handled last, in nanoseconds of the run.
    pub now: f64,
    /// Formatters of events.
    pub texts: Texts,
    /// Names of kernel addresses, for the texts of events and for `ksymbol`.
    pub symbols: Rc<KernelSymbols>,
    /// Stacks that scripts hold as ids; aggregates draw them.
    pub stacks: Rc<RefCell<Stacks>>,
    /// Owners of the events that scripts keep.
    pub owners: Rc<Owners>,
    /// The kept event that is printed.
    pub(super) shown: PrintedCopy,
    /// History of events, if the script looks back.
    pub past: Past,
    /// Names of the frames of stacks.
    pub naming: Rc<RefCell<Naming>>,
    /// Takes the stacks of emitted events instead of printing them.
    pub flame_counts: Option<FlameCounts>,
    /// Whether emitted events are printed without their stacks, because a table has them.
    pub no_stacks: bool,
    /// Times of events, with `--heatmap`.
    pub heat: Option<Heat>,
    /// Times of events that the script emitted.
    pub heat_of_emitted: Option<Heat>,
    /// Frames of the event that is printed.
    pub(super) frames: Vec<Frame>,
    /// In-kernel filters that are evaluated in user space, for the leaf `met`.
    pub(super) filters: Vec<Bound>,
    /// Last result of the leaf `comm`.
    pub(super) comm: [u8; 16],
    /// Last result of the leaf `text_of`.
    pub(super) text: Vec<u8>,
}

impl RunContext {
    /// Prints an event whose handler failed, as a message.
    pub fn note_event(&mut self, slot: &Slot, raw: &[u8]) {
        let Some(event) = self.roles.get(slot.ev as usize).cloned() else { return };
        let mut line = Vec::new();
        self.texts.push(&mut line, slot.ev as usize, &event, raw);
        let comm = self.comm_of(slot.tid, slot.cpu.into());
        let (comm, line) =
            (String::from_utf8_lossy(until_nul(&comm)), String::from_utf8_lossy(&line));
        let text = format!("in {} {} [{:03}] {}: {line}", comm, slot.tid, slot.cpu, event.name);
        self.note(Level::Error, &text);
    }

    /// Creates a context without roles.
    pub fn new(out: Box<dyn Draw>, tasks: Tasks, clock: Clock) -> Self {
        RunContext {
            roles: Vec::new(),
            tasks,
            programs: None,
            unwinder: Unwinder::default(),
            clock,
            out,
            early: Some(Vec::new()),
            early_dropped: 0,
            hide_pid: None,
            now: 0.0,
            texts: Texts::default(),
            symbols: Rc::default(),
            stacks: Rc::default(),
            owners: Rc::default(),
            shown: PrintedCopy::default(),
            past: Past::default(),
            naming: Rc::default(),
            flame_counts: None,
            no_stacks: false,
            heat: None,
            heat_of_emitted: None,
            frames: Vec::new(),
            filters: Vec::new(),
            comm: [0; 16],
            text: Vec::new(),
        }
    }

    /// Returns the pid whose events of a role are not printed because perilune causes them itself.
    /// Interrupts of perilune are printed.
    pub(super) fn hidden_of(&self, role: usize) -> Option<u32> {
        self.hide_pid.filter(|_| !self.roles.get(role).is_some_and(|event| event.is_interrupt()))
    }

    /// Returns whether an event is hidden for that reason.
    pub(super) fn hides(&self, slot: &Slot) -> bool {
        self.hidden_of(slot.ev as usize) == Some(slot.pid)
    }

    /// Prints one event now, with the script's additions.
    pub fn emit(&mut self, slot: &Slot, raw: &[u8], chain: &[u64], extras: EmitExtras<'_>) {
        if self.hides(slot) {
            return;
        }
        if extras.detail.is_none() {
            self.heat_of_emitted.iter_mut().for_each(|heat| heat.add(slot.time));
        }
        if let Some(counts) = &self.flame_counts {
            if !chain.is_empty() {
                let comm = self.comm_of_slot(slot);
                counts.add(until_nul(&comm), self.stack_of(slot, chain), extras.extra);
            }
            return;
        }
        let chain = if self.no_stacks { &[] } else { chain };
        let Some(event) = self.roles.get(slot.ev as usize).cloned() else { return };
        let mut stack = std::mem::take(&mut self.frames);
        stack.clear();
        if !chain.is_empty() {
            let space = self.space_of(slot);
            off_the_clock(|| self.naming.borrow_mut().of_chain(space, chain, &mut stack));
            self.note_trouble();
        }
        let comm = self.comm_of_slot(slot);
        let sample = [
            ("period", Field::Uint(slot.period)),
            ("ip", Field::Pointer(slot.ip)),
            ("addr", Field::Pointer(slot.addr)),
        ];
        let print = event.format().and_then(|f| self.texts.printer(slot.ev as usize, f, raw));
        let flags = event.kind().raw_format().map_or(flags::UNKNOWN, |format| {
            let byte = |name| match format.field(name).map(|f| f.read(raw)) {
                Some(Ok(Field::Uint(n))) => n as u8,
                _ => 0,
            };
            flags::letters(byte("common_flags"), own_depth(byte("common_preempt_count")))
        });
        let (mut of_record, mut of_sample);
        let fields: &mut dyn Iterator<Item = _> = match event.format() {
            Some(format) => {
                of_record = format.values(raw);
                &mut of_record
            }
            None => {
                let known = if slot.addr == 0 { 2 } else { 3 };
                of_sample = sample[..known].iter().copied();
                &mut of_sample
            }
        };
        // In a recording, a counter's samples have a format, too.
        let is_counter = event.format().is_none() || !is_tracepoint(&event.name);
        let period = is_counter.then_some(slot.period);
        self.out.event(&mut EventLine {
            stamp: self.clock.stamp(self.clock.clock_ns(slot.time)),
            comm: until_nul(&comm),
            pid: slot.pid,
            tid: slot.tid,
            cpu: slot.cpu.into(),
            flags,
            name: &event.name,
            period,
            fields,
            text: match (extras.text, &print) {
                (Some(text), _) => EventText::Printer(text),
                (None, Some(print)) => EventText::Format(print),
                (None, None) => EventText::Fields,
            },
            extra: extras.extra,
            detail: extras.detail,
            stack: &stack,
        });
        self.frames = stack;
        // A closed output is detected at the next report.
        let _ = self.out.flush_if_large();
    }

    /// Returns the name of an event's task, NUL-padded; for a copy, the name at the time of the
    /// event.
    pub fn comm_of_slot(&self, slot: &Slot) -> [u8; 16] {
        let kept = self.owners.of(slot);
        kept.map_or_else(|| self.comm_of(slot.tid, slot.cpu.into()), |owner| owner.comm)
    }

    /// Returns the name of a task, NUL-padded; `<...>` if unknown.
    #[inline]
    pub fn comm_of(&self, tid: u32, cpu: u32) -> [u8; 16] {
        self.tasks.padded_comm_on(cpu, tid).unwrap_or_else(|| {
            let mut comm = [0; 16];
            comm[..UNKNOWN.len()].copy_from_slice(UNKNOWN);
            comm
        })
    }

    /// Returns whether an event passes the filter with this index.
    pub(super) fn meets(&self, filter: usize, slot: &Slot, raw: &[u8]) -> bool {
        let Some(filter) = self.filters.get(filter) else { return false };
        let comm = match filter.needs_comm() {
            true => self.comm_of_slot(slot),
            false => [0; 16],
        };
        filter.passes(&filter::FilterInput { raw, cpu: slot.cpu.into(), comm: until_nul(&comm) })
    }

    /// Unwinds the user stack that a sample copied.
    pub(super) fn unwind(&mut self, stack: &UserStack<'_>, frames: &mut ChainBuilder<'_>) {
        let Some(programs) = &self.programs else { return frames.cut() };
        self.unwinder.walk(&mut programs.borrow_mut(), stack, frames);
    }

    /// Prints the messages from before the run had an output; later ones are printed at once.
    pub fn begin_notes(&mut self) {
        for (level, text) in self.take_early() {
            match level {
                Some(level) => self.note(level, &text),
                None => self.script_note(&text),
            }
        }
    }

    /// Takes the messages from before the run had an output, for a run that never gets one.
    pub fn take_early(&mut self) -> Vec<(Option<Level>, String)> {
        let mut early = self.early.take().unwrap_or_default();
        if self.early_dropped > 0 {
            let text = format!("{} more notes before the run began", self.early_dropped);
            early.push((Some(Level::Info), text));
        }
        early
    }

    /// Prints a message, stamped with the current time of the run.
    pub fn note(&mut self, level: Level, text: &str) {
        if !self.is_early(Some(level), text) {
            let stamp = self.clock.stamp(self.clock.clock_ns(self.now));
            self.out.note(stamp, level, text);
        }
    }

    /// Prints a message of the function `note`.
    pub(super) fn script_note(&mut self, text: &str) {
        if !self.is_early(None, text) {
            let stamp = self.clock.stamp(self.clock.clock_ns(self.now));
            self.out.script_note(stamp, text);
        }
    }

    /// Keeps a message if the run has no output yet.
    fn is_early(&mut self, level: Option<Level>, text: &str) -> bool {
        let Some(early) = &mut self.early else { return false };
        match early.len() < EARLY_NOTES {
            true => early.push((level, text.to_owned())),
            false => self.early_dropped += 1,
        }
        true
    }

    /// Returns the id of an event's call chain.
    pub(super) fn stack_of(&self, slot: &Slot, chain: &[u64]) -> u64 {
        self.stacks.borrow_mut().intern(chain, || self.space_of(slot))
    }

    /// Returns the address space of an event's user addresses.
    fn space_of(&self, slot: &Slot) -> Space {
        self.owners.of(slot).map_or_else(|| self.space_now(slot.pid), |owner| owner.space)
    }

    /// Returns the owner of an event that is being handled, for a copy of it. Looks up the address
    /// space only if the event has a user address.
    pub(super) fn owner_of_event(&self, event: &Kept<'_>) -> EventOwner {
        let slot = event.slot;
        let in_user_space =
            chain::has_user_frames(event.chain) || (slot.ip != 0 && slot.ip >> 63 == 0);
        EventOwner {
            space: if in_user_space { self.space_now(slot.pid) } else { Space::UNKNOWN },
            comm: self.comm_of(slot.tid, slot.cpu.into()),
        }
    }

    /// Returns the current address space of a process.
    fn space_now(&self, pid: u32) -> Space {
        let programs = self.programs.as_ref();
        programs.map_or(Space::UNKNOWN, |programs| programs.borrow_mut().space_of(pid))
    }

    /// Warns once why kernel addresses have no names, if a lookup failed for that reason.
    pub(super) fn note_trouble(&mut self) {
        if let Some(why) = self.symbols.take_error() {
            self.note(Level::Warning, &why);
        }
    }
}

/// Returns the preemption depth where the event happened. The probe of perf disables preemption
/// once itself before it reads the count; like ftrace, this subtracts that level. On a kernel that
/// does not count preemption the value stays 0. The low half is the depth.
fn own_depth(count: u8) -> u8 {
    count - u8::from(count & 0xf != 0)
}

/// Output of a script that does not run; discards everything.
pub(super) struct NoOutput;

impl Draw for NoOutput {}
