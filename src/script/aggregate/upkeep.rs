//! What a run does to aggregates between events: drops what became doubtful, counts what was dropped; and how many there may be.

use super::{Aggregates, Body, Declared, Leaf};
use crate::base::coverage::Coverage;
use crate::stat::heat_map::HeatMap;
use crate::stat::history::{History, Position};
use crate::stat::pending::{Losses, Pending};
use crate::stat::states::States;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The most aggregates of a machine: they live as long as it does, outside of the memory that a script may hold.
const MOST: usize = 1024;

impl Aggregates {
    /// Why there is no room for another `kind`, if there is none.
    pub(super) fn full(&self, kind: &str) -> Option<String> {
        (self.len() >= MOST).then(|| {
            format!(
                "a run has at most {MOST} tables, histograms and states; make each {kind} once, in init, and tell \
                 things apart by its columns; a prompt has them as long as it lives: begin another"
            )
        })
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
        for declared in self.0.declared.borrow().iter() {
            match &declared.body {
                Body::Pending(of) => pending(&mut of.borrow_mut()),
                Body::States(of, ..) => states(&mut of.borrow_mut()),
                _ => {}
            }
        }
    }

    /// The delays over time of the script, if it has any.
    pub fn heat_map(&self) -> Option<Leaf<HeatMap>> {
        self.0.declared.borrow().iter().find_map(|one| match &one.body {
            Body::HeatMap(of) => Some(of.clone()),
            _ => None,
        })
    }

    /// Whether a script keeps state between events.
    pub fn has_state(&self) -> bool {
        let keeps = |one: &Rc<Declared>| matches!(one.body, Body::Pending(_) | Body::States(..));
        self.0.declared.borrow().iter().any(keeps)
    }

    /// What was dropped or not recorded since the start: `unmatched`, `unsafe_`, `exited`, `evicted`, `disordered` and `clamped`.
    pub fn counts(&self) -> Coverage {
        let other =
            self.0.strings.borrow().overflowed() + self.0.shared.stacks.borrow().overflowed();
        let mut counts = Coverage { evicted: other, ..Coverage::default() };
        let add = |losses: Losses, counts: &mut Coverage| {
            counts.unmatched += losses.unmatched;
            counts.unsafe_ += losses.unsafe_;
            counts.exited += losses.exited;
            counts.evicted += losses.evicted;
        };
        for declared in self.0.declared.borrow().iter() {
            if let Body::States(states, ..) = &declared.body {
                add(states.borrow().losses(), &mut counts);
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
                Body::Pending(of) => add(of.borrow().losses(), &mut counts),
                Body::Rate(of) => counts.evicted += of.borrow().evicted(),
                Body::HeatMap(of) => counts.disordered += of.borrow().disordered(),
            }
        }
        counts.evicted += self.0.emitted.borrow().as_ref().map_or(0, |kv| kv.borrow().evicted());
        counts
    }
}
