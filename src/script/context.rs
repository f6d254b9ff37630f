//! What a running script's leaves and words reach: the roles, the tasks, the clock, and where output goes.

use std::cell::RefCell;
use std::rc::Rc;

use super::aggregate::flame::Taken;
use super::guard::pause::off_the_clock;
use super::history::Past;
use super::texts::Texts;
use crate::base::chain::Room;
use crate::base::draw::{Cell as Value, Detail, Draw, EventLine, EventText, Level};
use crate::base::frame::{Frame, Space};
use crate::base::heat::Heat;
use crate::base::slot::Slot;
use crate::base::value::Value as Field;
use crate::decode::clock::Clock;
use crate::decode::flags;
use crate::event::catalog::{Event, What};
use crate::event::filter::{self, Bound};
use crate::event::name::is_tracepoint;
use crate::source::UserStack;
use crate::stack::naming::Naming;
use crate::stack::{Stacks, chain};
use crate::stat::kept::{Owners, Shown, Whose};
use crate::stat::leaf::Event as Kept;
use crate::symbol::KernelSymbols;
use crate::task::{Tasks, UNKNOWN, programs};
use crate::unwind::Unwinder;

/// What a script has to say about an event that is printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said<'a> {
    /// Its text, instead of the fields.
    pub text: Option<&'a [u8]>,
    /// Further fields.
    pub extra: &'a [(String, Value)],
    /// The detail that it is a part of.
    pub detail: Option<Detail>,
}

/// Notes that are kept until the run has an output; further ones are dropped.
const EARLY_NOTES: usize = 100;

/// The state behind the words of a running script.
pub struct Context {
    /// The event of each role, by role.
    pub roles: Vec<Rc<Event>>,
    /// Names of tasks.
    pub tasks: Tasks,
    /// What processes execute; none in a run that takes no stacks.
    pub programs: Option<programs::Shared>,
    /// What walks the stacks of which samples bring a copy.
    pub unwinder: Unwinder,
    /// Perf time, wall time, run time.
    pub clock: Clock,
    /// Where results go.
    pub out: Box<dyn Draw>,
    /// Notes that the script printed before the run had an output; none once it has.
    early: Option<Vec<String>>,
    /// Events of this process's own tasks are not printed: `sched:*` cannot exclude them in the kernel. Interrupts are.
    pub hide_pid: Option<u32>,
    /// Time of the event or record that was handled last, nanoseconds of the run.
    pub now: f64,
    /// How events print.
    pub texts: Texts,
    /// Names of the kernel's addresses, for the texts of events and for `ksymbol`.
    pub symbols: Rc<KernelSymbols>,
    /// The stacks that scripts hold as numbers; aggregates draw them.
    pub stacks: Rc<RefCell<Stacks>>,
    /// Whose the events are that scripts keep.
    pub owners: Rc<Owners>,
    /// The kept event that is printed.
    pub(super) shown: Shown,
    /// The events so far, if the script wants to look back.
    pub past: Past,
    /// Names of the frames of stacks.
    pub naming: Rc<RefCell<Naming>>,
    /// Where stacks of emitted events go instead of being printed.
    pub taken: Option<Taken>,
    /// Whether emitted events are printed without their stacks, which a table has.
    pub no_stacks: bool,
    /// When events came, with `--heatmap`.
    pub heat: Option<Heat>,
    /// The same of what the script emitted.
    pub heat_of_emitted: Option<Heat>,
    /// The frames of the event that is printed.
    pub(super) frames: Vec<Frame>,
    /// Filters in the kernel's language that are met here, for the leaf `met`.
    pub(super) filters: Vec<Bound>,
    /// What the leaf `comm` gave last.
    pub(super) comm: [u8; 16],
    /// What the leaf `text_of` gave last.
    pub(super) text: Vec<u8>,
}

impl Context {
    /// Prints an event whose handler failed, where messages go.
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

    /// A context without roles.
    pub fn new(out: Box<dyn Draw>, tasks: Tasks, clock: Clock) -> Self {
        Context {
            roles: Vec::new(),
            tasks,
            programs: None,
            unwinder: Unwinder::default(),
            clock,
            out,
            early: Some(Vec::new()),
            hide_pid: None,
            now: 0.0,
            texts: Texts::default(),
            symbols: Rc::default(),
            stacks: Rc::default(),
            owners: Rc::default(),
            shown: Shown::default(),
            past: Past::default(),
            naming: Rc::default(),
            taken: None,
            no_stacks: false,
            heat: None,
            heat_of_emitted: None,
            frames: Vec::new(),
            filters: Vec::new(),
            comm: [0; 16],
            text: Vec::new(),
        }
    }

    /// Whose events of a role are our own doing, which are not printed. What interrupted us was not.
    pub(super) fn hidden_of(&self, role: usize) -> Option<u32> {
        self.hide_pid.filter(|_| !self.roles.get(role).is_some_and(|event| event.is_interrupt()))
    }

    /// Whether an event is one of those.
    pub(super) fn hides(&self, slot: &Slot) -> bool {
        self.hidden_of(slot.ev as usize) == Some(slot.pid)
    }

    /// Prints one event now, with what a script has to say about it.
    pub fn emit(&mut self, slot: &Slot, raw: &[u8], chain: &[u64], said: Said<'_>) {
        if self.hides(slot) {
            return;
        }
        if said.detail.is_none() {
            self.heat_of_emitted.iter_mut().for_each(|heat| heat.add(slot.time));
        }
        if let Some(taken) = &self.taken {
            if !chain.is_empty() {
                let comm = self.comm_of_slot(slot);
                taken.add(until_nul(&comm), self.stack_of(slot, chain), said.extra);
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
        let (mut of_record, mut of_sample);
        let (flags, period, fields): (_, _, &mut dyn Iterator<Item = _>) = match &event.what {
            What::Tracepoint { format } => {
                let byte = |name| match format.field(name).map(|f| f.read(raw)) {
                    Some(Ok(Field::Uint(n))) => n as u8,
                    _ => 0,
                };
                of_record = format.values(raw);
                (
                    flags::letters(byte("common_flags"), own_depth(byte("common_preempt_count"))),
                    // A recording has a layout also of what was the sample of a counter.
                    (!is_tracepoint(&event.name)).then_some(slot.period),
                    &mut of_record,
                )
            }
            What::Function(function) => {
                of_record = function.format.values(raw);
                (flags::UNKNOWN, None, &mut of_record)
            }
            What::Counter(_) => {
                let known = if slot.addr == 0 { 2 } else { 3 };
                of_sample = sample[..known].iter().copied();
                (flags::UNKNOWN, Some(slot.period), &mut of_sample)
            }
        };
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
            text: match (said.text, &print) {
                (Some(text), _) => EventText::Printer(text),
                (None, Some(print)) => EventText::Format(print),
                (None, None) => EventText::Fields,
            },
            extra: said.extra,
            detail: said.detail,
            stack: &stack,
        });
        self.frames = stack;
        // A reader that went away is noticed at the next report.
        let _ = self.out.flush_if_large();
    }

    /// The name of an event's task, NUL-padded: of a copy, the name of then.
    pub fn comm_of_slot(&self, slot: &Slot) -> [u8; 16] {
        let kept = self.owners.of(slot);
        kept.map_or_else(|| self.comm_of(slot.tid, slot.cpu.into()), |whose| whose.comm)
    }

    /// The name of a task, NUL-padded; `<...>` when unknown.
    #[inline]
    pub fn comm_of(&self, tid: u32, cpu: u32) -> [u8; 16] {
        self.tasks.padded_comm_on(cpu, tid).unwrap_or_else(|| {
            let mut comm = [0; 16];
            comm[..UNKNOWN.len()].copy_from_slice(UNKNOWN);
            comm
        })
    }

    /// Whether an event meets one of `filters`.
    pub(super) fn meets(&self, filter: usize, slot: &Slot, raw: &[u8]) -> bool {
        let Some(filter) = self.filters.get(filter) else { return false };
        let comm = match filter.asks_comm() {
            true => self.comm_of_slot(slot),
            false => [0; 16],
        };
        filter.passes(&filter::Context { raw, cpu: slot.cpu.into(), comm: until_nul(&comm) })
    }

    /// Walks a stack of which a sample brought a copy.
    pub(super) fn unwind(&mut self, stack: &UserStack<'_>, frames: &mut Room<'_>) {
        let Some(programs) = &self.programs else { return frames.cut() };
        self.unwinder.walk(&mut programs.borrow_mut(), stack, frames);
    }

    /// Prints what the script noted before the run had an output; later notes are printed at once.
    pub fn begin_notes(&mut self) {
        for text in self.early.take().unwrap_or_default() {
            self.script_note(&text);
        }
    }

    /// A message, stamped with the run's present.
    pub fn note(&mut self, level: Level, text: &str) {
        let stamp = self.clock.stamp(self.clock.clock_ns(self.now));
        self.out.note(stamp, level, text);
    }

    /// The same of the word `note`.
    pub(super) fn script_note(&mut self, text: &str) {
        if let Some(early) = &mut self.early {
            if early.len() < EARLY_NOTES {
                early.push(text.to_owned());
            }
            return;
        }
        let stamp = self.clock.stamp(self.clock.clock_ns(self.now));
        self.out.script_note(stamp, text);
    }

    /// The id of a call chain of an event.
    pub(super) fn stack_of(&self, slot: &Slot, chain: &[u64]) -> u64 {
        self.stacks.borrow_mut().intern(chain, || self.space_of(slot))
    }

    /// What user addresses of an event belong to.
    fn space_of(&self, slot: &Slot) -> Space {
        self.owners.of(slot).map_or_else(|| self.space_now(slot.pid), |whose| whose.space)
    }

    /// Whose an event is that is being handled, for a copy of it. Its space is asked only if it has a user address.
    pub(super) fn whose(&self, event: &Kept<'_>) -> Whose {
        let slot = event.slot;
        let in_user_space =
            chain::has_user_frames(event.chain) || (slot.ip != 0 && slot.ip >> 63 == 0);
        Whose {
            space: if in_user_space { self.space_now(slot.pid) } else { Space::UNKNOWN },
            comm: self.comm_of(slot.tid, slot.cpu.into()),
        }
    }

    /// What user addresses of a process belong to, now.
    fn space_now(&self, pid: u32) -> Space {
        let programs = self.programs.as_ref();
        programs.map_or(Space::UNKNOWN, |programs| programs.borrow_mut().space_of(pid))
    }

    /// Says once why the kernel's addresses have no names, if some were asked for in vain.
    pub(super) fn note_trouble(&mut self) {
        if let Some(why) = self.symbols.take_trouble() {
            self.note(Level::Warning, &why);
        }
    }
}

/// How deep preemption was disabled where the event happened: perf's probe disables it once itself before it looks, which
/// ftrace takes off again, and so is done here. On a kernel that does not count it stays 0. The low half is the depth.
fn own_depth(count: u8) -> u8 {
    count - u8::from(count & 0xf != 0)
}

/// Output of a script that does not run.
pub(super) struct Nowhere;

impl Draw for Nowhere {}

/// A NUL-padded name without its padding.
pub fn until_nul(name: &[u8]) -> &[u8] {
    &name[..name.iter().position(|b| *b == 0).unwrap_or(name.len())]
}
