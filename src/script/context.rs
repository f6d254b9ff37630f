//! State of a running script that its functions and leaves reach: roles, tasks, the clock, and the
//! output.
//!
//! [`shared`] has the handle through which all others change it.

use std::cell::RefCell;
use std::rc::Rc;

use super::aggregate::flame::FlameCounts;
use crate::base::event::chain::ChainBuilder;
use crate::base::event::slot::Slot;
use crate::base::event::value::Value;
use crate::base::kernel::address::is_kernel_address;
use crate::base::report::draw::{Draw, Level, Stamp};
use crate::base::report::frame::{Frame, Space};
use crate::base::text::unescape::until_nul;
use crate::decode::clock::Clock;
use crate::event::filter::{self, BoundFilter};
use crate::event::kind::Event;
use crate::event::sample_field::{FieldValue, SAMPLE_FIELDS, word_of};
use crate::source::UserStack;
use crate::source::counted_chain::CountedChain;
use crate::stack::naming::Naming;
use crate::stack::{Stacks, chain};
use crate::stat::event_copy::EventOwner;
use crate::stat::leaf::BorrowedEvent;
use crate::stat::owners::{Owners, PrintedCopy};
use crate::stat::weight::EventWeight;
use crate::symbol::KernelSymbols;
use crate::task::cgroups::Cgroups;
use crate::task::{Tasks, UNKNOWN, programs};
use crate::unwind::Unwinder;
use derived::DerivedEvents;
use emit::PrintedRole;
use heat::Heats;
use notes::EarlyNotes;
use past::Past;
use texts::Texts;
use timeline::TimelineTap;

pub(super) mod derived;
pub(super) mod emit;
mod heat;
pub(super) mod leaf;
mod notes;
pub(super) mod past;
pub(super) mod printers;
pub(super) mod record;
pub mod shared;
pub(super) mod sql;
pub(super) mod state;
pub mod texts;
pub(super) mod timeline;
pub mod timers;

/// The state behind the functions of a running script.
pub(super) struct RunContext {
    /// The event of each role, by role index.
    pub(super) roles: Vec<Rc<Event>>,
    /// Facts about each role for its printing, looked up at the first event that is printed.
    printed_roles: Vec<Rc<PrintedRole>>,
    /// Events that monitors derive from those of the batch.
    pub(super) derived: DerivedEvents,
    /// Names of tasks.
    pub(super) tasks: Tasks,
    /// Address spaces and mapped files of processes; none in a run that takes no stacks.
    pub(super) programs: Option<programs::SharedPrograms>,
    /// Unwinds the user stacks that samples copy.
    pub(super) unwinder: Unwinder,
    /// Converts between perf time, wall time and run time.
    pub(super) clock: Clock,
    /// Where results go.
    pub(super) out: Box<dyn Draw>,
    /// Whether `out` takes events as records.
    takes_records: bool,
    /// Whether `out` also takes events that are drawn instead of printed.
    keeps_events: bool,
    /// Number of events and rows that the script has printed.
    pub(super) printed: u64,
    /// Messages from before the run had an output.
    early: EarlyNotes,
    /// Hides events of this process's own tasks, because `sched:*` cannot exclude them in the
    /// kernel; interrupt events are shown.
    pub(super) hide_pid: Option<u32>,
    /// Time of the event or record that was handled last, in nanoseconds of the run.
    pub(super) now: f64,
    /// Time up to which all records were handled (`CLOCK_MONOTONIC`).
    pub(super) handled_ns: u64,
    /// Formatters of events.
    pub(super) texts: Texts,
    /// Names of kernel addresses, for the texts of events and for `ksymbol`.
    pub(super) symbols: Rc<KernelSymbols>,
    /// Stacks that scripts hold as ids; aggregates draw them.
    pub(super) stacks: Rc<RefCell<Stacks>>,
    /// Owners of the events that scripts keep.
    pub(super) owners: Rc<Owners>,
    /// Weight of the event that is being handled.
    pub(super) weight: Rc<EventWeight>,
    /// The kept event that is printed.
    pub(super) shown: PrintedCopy,
    /// History of events, if the script looks back.
    pub(super) past: Past,
    /// Names of the frames of stacks.
    pub(super) naming: Rc<RefCell<Naming>>,
    /// Takes the stacks of emitted events instead of printing them.
    pub(super) flame_counts: Option<FlameCounts>,
    /// Whether emitted events are printed without their stacks, because a table has them.
    pub(super) no_stacks: bool,
    /// Times of events, with `--heatmap`.
    pub(super) heats: Heats,
    /// The timeline of the run, with `--perfetto`.
    timeline: Option<Box<TimelineTap>>,
    /// Role of the event that the timeline got last.
    tapped: u16,
    /// Fields of the event that is printed; empty between two events.
    fields: Vec<(&'static str, Value<'static>)>,
    /// Frames of the event that is printed.
    pub(super) frames: Vec<Frame>,
    /// In-kernel filters that are evaluated in user space, for the leaf `met`.
    pub(super) filters: Vec<BoundFilter>,
    /// Paths and containers of control groups.
    pub(super) cgroups: Rc<RefCell<Cgroups>>,
    /// Last result of the leaf `comm`.
    pub(super) comm: [u8; 16],
    /// Last result of the leaves `text_of` and `sampled_text`.
    pub(super) text: Vec<u8>,
}

impl RunContext {
    /// Creates a context without roles.
    pub(super) fn new(out: Box<dyn Draw>, tasks: Tasks, clock: Clock) -> Self {
        RunContext {
            roles: Vec::new(),
            printed_roles: Vec::new(),
            derived: DerivedEvents::default(),
            tasks,
            programs: None,
            unwinder: Unwinder::default(),
            clock,
            takes_records: out.takes_records(),
            keeps_events: out.keeps_events(),
            out,
            printed: 0,
            early: EarlyNotes::default(),
            hide_pid: None,
            now: 0.0,
            handled_ns: 0,
            texts: Texts::default(),
            symbols: Rc::default(),
            stacks: Rc::default(),
            owners: Rc::default(),
            weight: Rc::default(),
            shown: PrintedCopy::default(),
            past: Past::default(),
            naming: Rc::default(),
            flame_counts: None,
            no_stacks: false,
            heats: Heats::default(),
            timeline: None,
            tapped: 0,
            fields: Vec::new(),
            frames: Vec::new(),
            filters: Vec::new(),
            cgroups: Rc::default(),
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
        self.hide_pid == Some(slot.pid) && self.hidden_of(slot.ev as usize).is_some()
    }

    /// Returns the stamp of a time of the run, in nanoseconds.
    pub(super) fn stamp(&self, time: f64) -> Stamp {
        self.clock.stamp(self.clock.clock_ns(time))
    }

    /// Returns the name of an event's task, NUL-padded; for a copy, the name at the time of the
    /// event.
    pub(super) fn comm_of_slot(&self, slot: &Slot) -> [u8; 16] {
        let kept = self.owners.of(slot);
        kept.map_or_else(|| self.comm_of(slot.tid, slot.cpu.into()), |owner| owner.comm)
    }

    /// Returns the name of the task of an event that is being handled or kept, NUL-padded.
    pub(super) fn comm_of_event(&self, slot: &Slot, raw: &[u8]) -> [u8; 16] {
        slot.name_behind(raw).unwrap_or_else(|| self.comm_of_slot(slot))
    }

    /// Returns the name of a task, NUL-padded; `<...>` if unknown.
    #[inline]
    pub(super) fn comm_of(&self, tid: u32, cpu: u32) -> [u8; 16] {
        self.tasks.padded_comm_on(cpu, tid).unwrap_or_else(|| {
            let mut comm = [0; 16];
            comm[..UNKNOWN.len()].copy_from_slice(UNKNOWN);
            comm
        })
    }

    /// Returns a field of a sample that is text, by its row, NUL-terminated.
    pub(super) fn sampled_text(&mut self, raw: &[u8], row: usize) -> &[u8] {
        let field = SAMPLE_FIELDS.get(row);
        let (Some(field), Some(word)) = (field, word_of(raw, row)) else { return b"\0" };
        self.text.clear();
        let mut cgroups = self.cgroups.borrow_mut();
        match field.kind {
            FieldValue::CgroupPath => self.text.extend_from_slice(cgroups.path(word)),
            FieldValue::ContainerName => self.text.extend_from_slice(cgroups.container(word)),
            FieldValue::Memory(part) => part.push(word, &mut self.text),
            _ => {}
        }
        self.text.push(0);
        &self.text
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

    /// Returns the id of an event's call chain.
    pub(super) fn stack_of(&self, slot: &Slot, chain: &[u64]) -> u64 {
        self.stacks.borrow_mut().intern(chain, || self.space_of(slot))
    }

    /// Returns the address space of an event's user addresses.
    fn space_of(&self, slot: &Slot) -> Space {
        self.owners.of(slot).map_or_else(|| self.space_now(slot.pid), |owner| owner.space)
    }

    /// Returns the id of a call chain that the kernel has counted, of this many events; None is one
    /// that was not stored.
    pub(super) fn stack_of_counted(&self, chain: Option<&CountedChain>, events: u64) -> u64 {
        let mut stacks = self.stacks.borrow_mut();
        let Some(chain) = chain else { return stacks.other(events) };
        let Some(programs) = self.programs.as_ref().filter(|_| chain.process != 0) else {
            return stacks.intern(&chain.words, || Space::UNKNOWN);
        };
        let is_user = |address: &u64| !is_kernel_address(*address);
        let addresses: Vec<u64> = chain.words.iter().copied().filter(is_user).collect();
        let (process, at_ns) = (chain.process, chain.first_ns);
        match programs.borrow_mut().space_at(process, at_ns, &addresses) {
            Some(space) => stacks.intern(&chain.words, || space),
            None => stacks.other(events),
        }
    }

    /// Returns the owner of an event that is being handled, for a copy of it. Looks up the address
    /// space only if the event has a user address.
    pub(super) fn owner_of_event(&self, event: &BorrowedEvent<'_>) -> EventOwner {
        let slot = event.slot;
        let in_user_space =
            chain::has_user_frames(event.chain) || (slot.ip != 0 && !is_kernel_address(slot.ip));
        EventOwner {
            space: if in_user_space { self.space_now(slot.pid) } else { Space::UNKNOWN },
            comm: slot
                .name_behind(event.raw)
                .unwrap_or_else(|| self.comm_of(slot.tid, slot.cpu.into())),
        }
    }

    /// Returns the current address space of a process.
    fn space_now(&self, pid: u32) -> Space {
        let programs = self.programs.as_ref();
        programs.map_or(Space::UNKNOWN, |programs| programs.borrow_mut().space_of(pid))
    }

    /// Prints the messages from before the run had an output; later ones are printed at once.
    fn begin_notes(&mut self) {
        for (level, text) in self.take_early() {
            match level {
                Some(level) => self.note(level, &text),
                None => self.script_note(&text),
            }
        }
    }

    /// Takes the messages from before the run had an output, for a run that never gets one.
    fn take_early(&mut self) -> Vec<(Option<Level>, String)> {
        self.early.take()
    }

    /// Prints a message, stamped with the current time of the run.
    pub(super) fn note(&mut self, level: Level, text: &str) {
        if !self.early.keep(Some(level), text) {
            let stamp = self.stamp(self.now);
            self.out.note(stamp, level, text);
        }
    }

    /// Prints a message of the function `note`.
    pub(super) fn script_note(&mut self, text: &str) {
        if !self.early.keep(None, text) {
            let stamp = self.stamp(self.now);
            self.out.script_note(stamp, text);
        }
    }

    /// Returns whether two slots of one record are the same event, for two roles.
    pub(super) fn are_of_one_event(&self, one: &Slot, other: &Slot) -> bool {
        let name = |slot: &Slot| self.roles.get(slot.ev as usize).map(|event| &event.name);
        name(one) == name(other)
    }

    /// Records that events of a CPU were lost between two times.
    pub(super) fn lose(&mut self, from: f64, to: f64, count: u64, cpu: u32) {
        self.tap_loss(to, cpu, count);
        self.owners.past().iter().for_each(|past| past.borrow_mut().lose(from, to, count));
    }

    /// Returns whether the script looks back at earlier events.
    pub(super) fn looks_back(&self) -> bool {
        self.owners.past().is_some()
    }

    /// Warns once why kernel addresses have no names, if a lookup failed for that reason.
    pub(super) fn note_missing_names(&mut self) {
        if let Some(why) = self.symbols.take_error() {
            self.note(Level::Warning, &why);
        }
    }
}
