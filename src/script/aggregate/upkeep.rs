//! What a run does to aggregates between events: drops what became doubtful, counts what was dropped; and how many there are and may be.

use super::{Aggregates, Body, Declared, Leaf};
use crate::base::coverage::Coverage;
use crate::stat::heat_map::HeatMap;
use crate::stat::history::{History, Position};
use crate::stat::pending::{Losses, Pending};
use crate::stat::states::States;
use mlua::{Lua, Value};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The most aggregates of a machine: they live as long as it does, outside of the memory that a script may hold.
const MOST: usize = 1024;

impl Aggregates {
    /// Takes one in; gives its number.
    pub(super) fn declare(&self, mut declared: Declared) -> usize {
        if !declared.name.is_empty() {
            declared.name = self.free_name(&declared.name);
        }
        let id = self.0.next.replace(self.0.next.get() + 1);
        self.0.declared.borrow_mut().insert(id, Rc::new(declared));
        id
    }

    /// The name itself, or with a number behind it if another one has it.
    fn free_name(&self, name: &str) -> String {
        let mut names = self.0.names.borrow_mut();
        let mut free = name.to_owned();
        while names.contains_key(&free) {
            let next = names.entry(name.to_owned()).or_insert(2);
            free = format!("{name}_{next}");
            *next += 1;
        }
        names.insert(free.clone(), 2);
        free
    }

    /// Why there is no room for another `kind`, if there is none.
    pub(super) fn full(&self, kind: &str) -> Option<String> {
        (self.0.declared.borrow().len() >= MOST).then(|| {
            format!(
                "a run has at most {MOST} tables, histograms and states; make each {kind} once, in init, and tell \
                 things apart by its columns; a prompt forgets between two lines those that nothing holds any more"
            )
        })
    }

    /// Whether it is time to look for those that nothing holds: a look costs all compiled code, and where all were held it is to be
    /// worth it before there is another. In a line, which had its look as it began, only what it has made itself can be new.
    fn is_look_due(&self, in_line: bool) -> bool {
        let (now, left) = (self.0.declared.borrow().len(), self.0.left.get());
        if in_line { now >= MOST && now > left } else { now >= (2 * left).clamp(MOST / 2, MOST) }
    }

    /// Frees tables and histograms that no object and no function of Lua holds any more, once there are many; `is_kept` has the numbers
    /// of those that are drawn though nothing holds them. Lua must not be running, though a line may wait (`in_line`): compiled code
    /// goes with it, which knows their addresses.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub fn free_unheld(
        &self,
        lua: &Lua,
        in_line: bool,
        is_kept: impl Fn(usize) -> bool,
    ) -> mlua::Result<()> {
        if !self.is_look_due(in_line) {
            return Ok(());
        }
        let held: mlua::Table = self.0.trusted.get::<mlua::Function>("held")?.call(())?;
        // Twice: what a finalizer held is free at the second.
        lua.gc_collect()?;
        lua.gc_collect()?;
        let mut unheld = Vec::new();
        for (id, declared) in self.0.declared.borrow().iter() {
            let can = matches!(
                declared.body,
                Body::Latency(..) | Body::Kv(..) | Body::Hist(..) | Body::Rate(..)
            );
            if can && !is_kept(*id) && held.raw_get::<Value>(*id)?.is_nil() {
                unheld.push(*id);
            }
        }
        let before = self.counts();
        for id in unheld {
            let Some(freed) = self.0.declared.borrow_mut().remove(&id) else { continue };
            self.0.names.borrow_mut().remove(&freed.name);
        }
        self.0.left.set(self.0.declared.borrow().len());
        let gone = before.since(&self.counts());
        let mut missed = self.0.missed.borrow_mut();
        missed.evicted += gone.evicted;
        missed.disordered += gone.disordered;
        missed.clamped += gone.clamped;
        Ok(())
    }

    /// Drops open states that lost events make doubtful: all opened at or before `time`, in nanoseconds of the run, and what is
    /// remembered of each CPU.
    pub fn drop_before(&self, time: f64) {
        self.each_state(|pending| pending.drop_before(time), |states| states.drop_before(time));
        if let Ok(forget) = self.0.trusted.get::<mlua::Function>("forget_cpus") {
            // It only stores, in tables that are there.
            let _ = forget.call::<()>(());
        }
    }

    /// A thread has another name.
    pub fn rename_task(&self, tid: u32) {
        self.each_state(|_| {}, |states| states.rename_task(tid));
    }

    /// A thread is new: drops the open states of whoever had its number before.
    pub fn forget_task(&self, tid: u32) {
        self.each_state(|pending| pending.drop_task(tid), |states| states.forget_task(tid));
    }

    /// Drops the open states of a thread that ended.
    pub fn drop_task(&self, tid: u32) {
        self.each_state(|pending| pending.drop_task(tid), |states| states.drop_task(tid));
    }

    /// The history of the events, if there is one.
    pub(in crate::script) fn past(&self) -> Option<Rc<RefCell<History>>> {
        self.0.shared.owners.past().cloned()
    }

    /// Copies what is kept out of the history, where what stands before that position will be forgotten.
    pub(in crate::script) fn rescue(&self, history: &History, until: Position) {
        self.each_state(|pending| pending.rescue(history, until), |_| {});
    }

    /// When what has been open longest was opened, nanoseconds of the run; infinite where nothing is open.
    pub(in crate::script) fn oldest_time(&self) -> f64 {
        let oldest = Cell::new(f64::INFINITY);
        self.each_state(|pending| oldest.set(oldest.get().min(pending.oldest_time())), |_| {});
        oldest.get()
    }

    fn each_state(&self, pending: impl Fn(&mut Pending), states: impl Fn(&mut States)) {
        for declared in self.0.declared.borrow().values() {
            match &declared.body {
                Body::Pending(of) => pending(&mut of.borrow_mut()),
                Body::States(of, ..) => states(&mut of.borrow_mut()),
                _ => {}
            }
        }
    }

    /// The delays over time of the script, if it has any.
    pub fn heat_map(&self) -> Option<Leaf<HeatMap>> {
        self.0.declared.borrow().values().find_map(|one| match &one.body {
            Body::HeatMap(of) => Some(of.clone()),
            _ => None,
        })
    }

    /// Begins the next interval of what was drawn: `None` for everything. What keeps its rows goes
    /// on.
    pub fn reset_after_interval(&self, drawn: Option<&[Value]>) {
        self.restart(self.chosen(drawn), self.0.shared.totals.get());
    }

    /// From now on columns show what they hold, without asking the script.
    pub fn draw_plainly(&self) {
        self.0.shared.plain.set(true);
    }

    /// Whether something was added up for the whole run, beside what there is now.
    pub fn have_totals(&self) -> bool {
        self.0.declared.borrow().values().any(|one| match &one.body {
            Body::Latency(of, _) | Body::States(_, of, _) => of.has_total(),
            Body::Kv(of, _) => of.has_total(),
            Body::Hist(of, _) => of.has_total(),
            Body::Pending(_) | Body::Rate(_) | Body::HeatMap(_) => false,
        })
    }

    /// Whether a script keeps state between events.
    pub fn has_state(&self) -> bool {
        let keeps = |one: &Rc<Declared>| matches!(one.body, Body::Pending(_) | Body::States(..));
        self.0.declared.borrow().values().any(keeps)
    }

    /// Starts of tables of open state none of which was ever closed, where the key is not a task's.
    pub fn starts_without_any_end(&self) -> u64 {
        let starts = Cell::new(0);
        let of = |pending: &mut Pending| {
            let never = pending.ended() == 0 && !pending.is_by_task();
            starts.set(starts.get() + if never { pending.starts() } else { 0 });
        };
        self.each_state(of, |_| {});
        starts.get()
    }

    /// What was dropped or not recorded since the start: `unmatched`, `unsafe_`, `exited`,
    /// `evicted`, `disordered`, `clamped`, `starts` and `open`.
    pub fn counts(&self) -> Coverage {
        let other =
            self.0.strings.borrow().overflowed() + self.0.shared.stacks.borrow().overflowed();
        let mut counts = *self.0.missed.borrow();
        counts.evicted += other;
        let begun = |starts: u64, open: usize, counts: &mut Coverage| {
            counts.starts += starts;
            counts.open += open as u64;
        };
        let add = |losses: Losses, counts: &mut Coverage| {
            counts.unmatched += losses.unmatched;
            counts.unsafe_ += losses.unsafe_;
            counts.exited += losses.exited;
            counts.evicted += losses.evicted;
        };
        for declared in self.0.declared.borrow().values() {
            if let Body::States(states, ..) = &declared.body {
                let states = states.borrow();
                add(states.losses(), &mut counts);
                begun(states.starts(), states.held(), &mut counts);
            }
            match &declared.body {
                Body::Latency(of, _) | Body::States(_, of, _) => of.each(|latency| {
                    counts.evicted += latency.losses().evicted;
                    counts.disordered += latency.losses().disordered;
                    counts.clamped += latency.losses().clamped;
                }),
                Body::Kv(of, _) => of.each(|kv| counts.evicted += kv.evicted()),
                Body::Hist(of, _) => of.each(|hist| {
                    counts.evicted += hist.losses().evicted;
                    counts.disordered += hist.losses().disordered;
                }),
                Body::Pending(of) => {
                    let pending = of.borrow();
                    add(pending.losses(), &mut counts);
                    begun(pending.starts(), pending.len(), &mut counts);
                }
                Body::Rate(of) => counts.evicted += of.borrow().evicted(),
                Body::HeatMap(of) => counts.disordered += of.borrow().disordered(),
            }
        }
        counts.evicted += self.0.emitted.borrow().as_ref().map_or(0, |kv| kv.borrow().evicted());
        counts
    }
}
