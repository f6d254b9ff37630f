//! The handle to a run's context: sets what its script can ask for, and prints.
//!
//! Lua holds the context's address as a number, so the context lives in a box that does not move.
//! It is entered from one thread, by one leaf or one function at a time, never both: leaves do not
//! call back, and functions do not run Lua while inside.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::io;
use std::rc::Rc;

use super::RunContext;
use super::notes::NoOutput;
use super::texts::Texts;
use crate::base::report::draw::{Draw, Level, Stamp};
use crate::base::report::heat::Heat;
use crate::decode::clock::Clock;
use crate::script::aggregate::AggregateSettings;
use crate::stack::naming::Naming;
use crate::stat::weight::EventWeight;
use crate::symbol::{KernelSymbols, OmittedSymbols};
use crate::task::Tasks;
use crate::task::programs::SharedPrograms;

/// The handle to a run's context.
#[derive(Clone)]
pub struct SharedContext(Rc<ContextCell>);

pub(super) struct ContextCell {
    context: UnsafeCell<RunContext>,
    entered: Cell<bool>,
}

impl SharedContext {
    /// Creates a context for a script that is only loaded; its output is discarded.
    pub(in crate::script) fn idle() -> Self {
        let clock = Clock::new(Stamp::default(), 0);
        let context = RunContext::new(Box::new(NoOutput), Tasks::new(0), clock);
        SharedContext(Rc::new(ContextCell {
            context: UnsafeCell::new(context),
            entered: Cell::new(false),
        }))
    }

    /// Enters the context. Panics if it is entered already, which is an error of the runtime.
    pub(in crate::script) fn with<R>(&self, work: impl FnOnce(&mut RunContext) -> R) -> R {
        enter(&self.0, work)
    }

    /// Returns the weight of the event that is being handled.
    pub fn weight(&self) -> Rc<EventWeight> {
        self.with(|context| context.weight.clone())
    }

    /// Sets where results and messages go.
    pub fn set_output(&self, out: Box<dyn Draw>) {
        self.with(|context| {
            context.takes_records = out.takes_records();
            context.keeps_events = out.keeps_events();
            context.out = out;
        });
    }

    /// Discards all further output.
    pub(in crate::script) fn close_output(&self) {
        self.set_output(Box::new(NoOutput));
    }

    /// Prints the messages from before the run had an output; later ones are printed at once.
    pub fn begin_notes(&self) {
        self.with(RunContext::begin_notes);
    }

    /// Takes the messages from before the run had an output, for a run that never gets one: each
    /// with its level, or none for those of the function `note`.
    pub fn take_early_notes(&self) -> Vec<(Option<Level>, String)> {
        self.with(RunContext::take_early)
    }

    /// Prints a message, stamped with the current time of the run.
    pub fn note(&self, level: Level, text: &str) {
        self.with(|context| context.note(level, text));
    }

    /// Returns the stamp of a time of the run, in nanoseconds.
    pub fn stamp(&self, time: f64) -> Stamp {
        self.with(|context| context.stamp(time))
    }

    /// Draws results, which are stamped with this time of the run, in nanoseconds.
    pub fn draw(&self, time: f64, work: impl FnOnce(&mut dyn Draw, Stamp)) {
        self.with(|context| {
            let stamp = context.stamp(time);
            work(&mut *context.out, stamp);
        });
    }

    /// Returns how many events and rows the script has printed.
    pub fn printed(&self) -> u64 {
        self.with(|context| context.printed)
    }

    /// Prints the answer to a typed line.
    pub fn print(&self, work: impl FnOnce(&mut dyn Draw)) {
        self.with(|context| work(&mut *context.out));
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// The output could not be written.
    pub fn flush(&self) -> io::Result<()> {
        self.with(|context| context.out.flush())
    }

    /// Ends the output.
    ///
    /// # Errors
    /// The output could not be written.
    pub fn end_output(&self) -> io::Result<()> {
        self.with(|context| context.out.end())
    }

    /// Sets the clock of the run.
    pub fn set_clock(&self, clock: Clock) {
        self.with(|context| context.clock = clock);
    }

    /// Sets the known tasks.
    pub fn set_tasks(&self, tasks: Tasks) {
        self.with(|context| context.tasks = tasks);
    }

    /// Changes the known tasks.
    pub fn change_tasks(&self, change: impl FnOnce(&mut Tasks)) {
        self.with(|context| change(&mut context.tasks));
    }

    /// Hides events of this process in `sched:*`, because the kernel cannot exclude them.
    pub fn hide_process(&self, pid: Option<u32>) {
        self.with(|context| context.hide_pid = pid);
    }

    /// Returns the names of kernel addresses.
    pub fn symbols(&self) -> Rc<KernelSymbols> {
        self.with(|context| context.symbols.clone())
    }

    /// Sets how the frames of stacks are named.
    pub fn set_naming(&self, naming: Naming) {
        self.with(|context| *context.naming.borrow_mut() = naming);
    }

    /// Returns how many symbols were omitted because of limits.
    pub fn omitted_symbols(&self) -> OmittedSymbols {
        self.with(|context| context.naming.borrow().omitted())
    }

    /// Follows the address spaces and mapped files of processes, for a run that takes stacks.
    pub fn follow_programs(&self, programs: SharedPrograms) {
        self.with(|context| context.programs = Some(programs));
    }

    /// Returns the followed processes; none in a run that takes no stacks.
    pub fn programs(&self) -> Option<SharedPrograms> {
        self.with(|context| context.programs.clone())
    }

    /// Sets how events are formatted.
    pub fn set_texts(&self, texts: Texts) {
        self.with(|context| context.texts = texts);
    }

    /// Collects the times of events from now on: of all, and of those that the script emits.
    pub fn collect_times(&self) {
        self.with(|context| {
            context.heats.all = Some(Heat::default());
            context.heats.emitted = Some(Heat::default());
        });
    }

    /// Takes the collected times: of all events, and of those that the script emitted.
    pub fn take_times(&self) -> (Heat, Heat) {
        self.with(|context| {
            let heats = std::mem::take(&mut context.heats);
            (heats.all.unwrap_or_default(), heats.emitted.unwrap_or_default())
        })
    }

    /// Shares stacks, names and owners with the tables, which ask the context for the owners of the
    /// events that they keep.
    pub(in crate::script) fn share(&self, sums: &AggregateSettings) {
        self.with(|context| {
            context.stacks = sums.stacks.clone();
            context.naming = sums.naming.clone();
            context.owners = sums.owners.clone();
            context.weight = sums.weight.clone();
            context.cgroups = sums.cgroups.clone();
        });
        // Weak, because the context holds the owners, which hold this closure.
        let inner = Rc::downgrade(&self.0);
        sums.owners.look_up_with(Box::new(move |event| {
            let owner =
                |inner: Rc<ContextCell>| enter(&inner, |context| context.owner_of_event(event));
            inner.upgrade().map(owner).unwrap_or_default()
        }));
    }

    /// Returns the address that leaves take.
    pub(in crate::script) fn address(&self) -> *const c_void {
        Rc::as_ptr(&self.0).cast()
    }
}

/// Enters a context; see [`SharedContext::with`].
pub(super) fn enter<R>(inner: &ContextCell, work: impl FnOnce(&mut RunContext) -> R) -> R {
    assert!(!inner.entered.replace(true), "the context was entered twice");
    // SAFETY: `entered` proves that no other reference is alive; the type is neither Send nor Sync.
    let result = work(unsafe { &mut *inner.context.get() });
    inner.entered.set(false);
    result
}
