//! All counts and pairs that a script declares, and where each is taken.
//!
//! An event is taken in one place: if one of its declarations needs records, all of them do.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::count_plan::CountPlan;
use super::pairs::KernelPairs;
use super::{CountedNumber, KernelCounts, Reason};
use crate::script::evsel::declared_pairs::DeclaredPairs;
use crate::script::evsel::role::DeclaredCount;
use crate::script::host::Host;
use crate::source::counting::followed_tasks::CountedTasks;
use crate::source::counting::pairs::PairTable;
use crate::source::counting::{CountedTable, Counting};
use crate::sys::refusal::Refusal;

/// A declaration.
struct Planned<D, P> {
    declared: D,
    /// The roles of its events.
    roles: Vec<usize>,
    /// The part of the kernel, or the reason why it needs records.
    plan: Result<P, Reason>,
}

/// The declarations of a script.
pub(super) struct Declarations {
    /// Tables, by their numbers in the script.
    counts: Vec<Planned<usize, Vec<CountedTable>>>,
    pairs: Vec<Planned<DeclaredPairs, PairTable>>,
}

impl<D, P> Planned<D, P> {
    fn refuse(&mut self, why: &Refusal) {
        if self.plan.is_ok() {
            self.plan = Err(why.to_string());
        }
    }

    /// Refuses it if one of its events needs records. Returns whether it did.
    fn refuse_shared(&mut self, recorded: &BTreeMap<usize, Reason>) -> bool {
        let why = self.roles.iter().find_map(|role| recorded.get(role));
        match why.filter(|_| self.plan.is_ok()) {
            None => false,
            Some(why) => {
                self.plan = Err(why.clone());
                true
            }
        }
    }

    /// Returns the roles that need records for it, and the reason.
    fn recorded(&self) -> impl Iterator<Item = (usize, Reason)> {
        let why = self.plan.as_ref().err();
        why.into_iter().flat_map(|why| self.roles.iter().map(|role| (*role, why.clone())))
    }
}

impl Declarations {
    /// Plans all declarations. `tasks` has the watched tasks, or the reason why all need records.
    pub(super) fn plan(
        host: &Host,
        plan: &CountPlan<'_>,
        counts: &[(DeclaredCount, Range<usize>)],
        pairs: Vec<DeclaredPairs>,
        tasks: &Result<CountedTasks, Reason>,
    ) -> Declarations {
        let of_run = || tasks.as_ref().map(|_| ()).map_err(Clone::clone);
        let numbers: BTreeSet<usize> = counts.iter().map(|(count, _)| count.table).collect();
        let counts = numbers.into_iter().map(|number| {
            let all: Vec<_> = counts.iter().filter(|(of, _)| of.table == number).collect();
            Planned {
                declared: number,
                roles: all.iter().flat_map(|(_, roles)| roles.clone()).collect(),
                plan: of_run().and_then(|()| plan.table(host, number, &all)),
            }
        });
        let pairs = pairs.into_iter().map(|declared| Planned {
            roles: CountPlan::roles_of_pairs(host, &declared),
            plan: of_run().and_then(|()| plan.pairs(host, &declared)),
            declared,
        });
        Declarations { counts: counts.collect(), pairs: pairs.collect() }
    }

    /// Attaches the programs of what the kernel takes, which count nothing yet, and adds to `plan`
    /// why other roles are counted in user space. `cpu` is any online CPU.
    pub(super) fn open(
        mut self,
        plan: &mut CountPlan<'_>,
        tasks: &CountedTasks,
        cpu: u32,
    ) -> KernelCounts {
        let counts = loop {
            self.refuse_shared();
            match self.attach(tasks, cpu, plan.settings.budget.is_some()) {
                Some(counts) => break counts,
                // The kernel refused a part, whose events need records then.
                None => continue,
            }
        };
        plan.reasons.extend(self.recorded());
        counts
    }

    fn recorded(&self) -> BTreeMap<usize, Reason> {
        let counts = self.counts.iter().flat_map(Planned::recorded);
        counts.chain(self.pairs.iter().flat_map(Planned::recorded)).collect()
    }

    /// Refuses declarations of events that need records for others.
    fn refuse_shared(&mut self) {
        let mut is_changed = true;
        while is_changed {
            let recorded = self.recorded();
            is_changed = false;
            for table in &mut self.counts {
                is_changed |= table.refuse_shared(&recorded);
            }
            for pairs in &mut self.pairs {
                is_changed |= pairs.refuse_shared(&recorded);
            }
        }
    }

    /// Attaches the programs; None if the kernel refuses them, which the declarations state then.
    fn attach(
        &mut self,
        tasks: &CountedTasks,
        cpu: u32,
        is_switched: bool,
    ) -> Option<KernelCounts> {
        let planned = self.counts.iter().filter_map(|one| one.plan.as_ref().ok());
        let tables: Vec<_> = planned.flatten().collect();
        let counting = match Counting::open(&tables, tasks, cpu, is_switched) {
            Ok(counting) => counting,
            Err(why) => {
                self.counts.iter_mut().for_each(|one| one.refuse(&why));
                return None;
            }
        };
        let planned = self.pairs.iter();
        let planned = planned.filter_map(|one| Some((&one.declared, one.plan.as_ref().ok()?)));
        let pairs = match KernelPairs::open(&planned.collect::<Vec<_>>(), tasks, cpu) {
            Ok(pairs) => pairs,
            Err(why) => {
                self.pairs.iter_mut().for_each(|one| one.refuse(&why));
                return None;
            }
        };
        let mut known = pairs.roles();
        let mut tables = Vec::new();
        let planned = self.counts.iter().map(|one| (one.declared, &one.plan));
        for (number, table) in
            planned.flat_map(|(n, plan)| plan.iter().flatten().map(move |t| (n, t)))
        {
            let mut roles = table.roles.iter().map(|role| role.role);
            let is_further = roles.clone().all(|role| known.contains(&role));
            known.extend(&mut roles);
            tables.push(CountedNumber { number, is_further });
        }
        Some(KernelCounts { counting, tables, pairs, roles: known, ..KernelCounts::default() })
    }
}
