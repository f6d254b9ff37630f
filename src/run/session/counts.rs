//! Tables of a session that the kernel counts: those of `count` without another handler.
//!
//! The programs of a table are open while its events are on. An event that gets a handler, that is
//! on while another one of its table is off, or that the kernel cannot count, is recorded from then
//! on. Tables that share an event are in one set. Events of pairs are recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use anyhow::Context as _;

use super::super::kernel_counts::KernelCounts;
use super::super::request::{CountingPlace, RunRequest};
use super::count_check::{CountCheck, comparable};
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::Level;
use crate::script::evsel::declared_pairs::DeclaredPairs;
use crate::script::evsel::role::Role;
use crate::script::host::Host;
use crate::source::request::SourceRequest;
use crate::sys::bpf::measure_runs;
use crate::sys::perf::PerfEvent;

/// Time for which programs are measured.
const MEASURED: Duration = Duration::from_millis(50);

/// The tables.
pub(super) struct SessionCounts {
    request: RunRequest,
    sets: Vec<CountedSet>,
    /// Roles that the kernel cannot count, or no longer counts.
    recorded: BTreeSet<u32>,
    ended: EndedCounts,
    /// Whether a check has had a result: one is enough.
    is_checked: bool,
}

/// The remains of counts that have ended.
#[derive(Default)]
struct EndedCounts {
    /// Events that closed programs missed.
    missed: Coverage,
    /// Perf events of checks, to be closed.
    perf_events: Vec<PerfEvent>,
}

/// The cost of a table that the kernel counts.
pub(super) struct CountCost {
    /// The roles that are counted.
    pub(super) roles: Vec<u32>,
    /// Events so far.
    pub(super) events: u64,
    /// Mean nanoseconds of the program for an event; None if there was none to measure.
    pub(super) program_ns: Option<f64>,
}

/// Tables and the roles that are counted in them.
#[derive(Default)]
struct CountedSet {
    tables: BTreeSet<usize>,
    roles: BTreeSet<u32>,
    open: Option<KernelCounts>,
    /// The comparison of its counts with perf's, while it runs.
    check: Option<CountCheck>,
    /// Events counted so far.
    events: u64,
}

impl SessionCounts {
    pub(super) fn new(request: &RunRequest) -> SessionCounts {
        SessionCounts {
            request: request.clone(),
            sets: Vec::new(),
            recorded: BTreeSet::new(),
            ended: EndedCounts::default(),
            is_checked: false,
        }
    }

    /// Takes the roles of tables that were declared since the last call, and returns them. A table
    /// with an event that was counted or recorded before is left to records.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub(super) fn take(
        &mut self,
        host: &Host,
        source: &SourceRequest,
    ) -> anyhow::Result<BTreeSet<u32>> {
        let options = &self.request.options;
        let watches_tasks = source.tasks.is_some() || options.cgroup.is_some();
        if options.counting == CountingPlace::User || watches_tasks {
            return Ok(BTreeSet::new());
        }
        let mut sets: Vec<CountedSet> = Vec::new();
        for (count, roles) in host.declared_counts()? {
            let mut set = CountedSet::default();
            set.tables.insert(count.table);
            set.roles.extend(roles.map(|role| role as u32));
            let shared: Vec<_> = sets.extract_if(.., |other| other.shares(&set)).collect();
            for other in shared {
                set.tables.extend(other.tables);
                set.roles.extend(other.roles);
            }
            sets.push(set);
        }
        let paired = paired(host)?;
        let is_known =
            |role: &u32| self.has(*role) || self.recorded.contains(role) || paired.contains(role);
        sets.retain(|set| !set.roles.iter().any(is_known));
        let taken = sets.iter().flat_map(|set| &set.roles).copied().collect();
        self.sets.extend(sets);
        Ok(taken)
    }

    /// Returns whether the kernel counts a role while it is on.
    pub(super) fn has(&self, role: u32) -> bool {
        self.sets.iter().any(|set| set.roles.contains(&role))
    }

    /// Ends the sets with one of these roles, and returns all of their roles and whether they were
    /// on: they need records from now on.
    pub(super) fn release(
        &mut self,
        roles: &[u32],
        host: &mut Host,
        now: f64,
    ) -> BTreeMap<u32, bool> {
        let mut released = BTreeMap::new();
        let is_one = |set: &CountedSet| roles.iter().any(|role| set.roles.contains(role));
        let sets = std::mem::take(&mut self.sets).into_iter();
        let (ended, kept): (Vec<_>, Vec<_>) = sets.partition(is_one);
        self.sets = kept;
        for mut set in ended {
            let is_on = set.open.is_some();
            // Its events are recorded in any case.
            if let Err(why) = set.end(host, now, &mut self.ended) {
                host.context().note(Level::Error, &format!("{why:#}"));
            }
            self.recorded.extend(&set.roles);
            released.extend(set.roles.iter().map(|role| (*role, is_on)));
        }
        released
    }

    /// Returns the roles whose handlers no longer only count for the tables of their set.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub(super) fn handled(&self, host: &Host) -> anyhow::Result<Vec<u32>> {
        if self.sets.is_empty() {
            return Ok(Vec::new());
        }
        let (declared, paired) = (host.declared_counts()?, paired(host)?);
        let mut handled = Vec::new();
        for set in &self.sets {
            let is_counted = |role: &&u32| {
                let mut counts =
                    declared.iter().filter(|(_, of)| of.contains(&(**role as usize))).peekable();
                counts.peek().is_some()
                    && counts.all(|(count, _)| set.tables.contains(&count.table))
                    && !paired.contains(role)
            };
            handled.extend(set.roles.iter().filter(|role| !is_counted(role)));
        }
        Ok(handled)
    }

    /// Begins and ends the counts of the tables whose roles are switched. Returns the roles that
    /// need records for that.
    ///
    /// # Errors
    /// The kernel refuses a call, or with `--where kernel`, it cannot count an event.
    pub(super) fn switch(
        &mut self,
        switches: &BTreeMap<u32, bool>,
        host: &mut Host,
        (source, roles, now): (&SourceRequest, &[Role], f64),
    ) -> anyhow::Result<Vec<u32>> {
        let mut recorded = Vec::new();
        let mut is_checked = self.is_checked || self.sets.iter().any(|set| set.check.is_some());
        for set in &mut self.sets {
            let is_on = set.open.is_some();
            let states = set.roles.iter().map(|role| *switches.get(role).unwrap_or(&is_on));
            let states: BTreeSet<bool> = states.collect();
            match (states.first(), states.last()) {
                (Some(true), Some(true)) if !is_on => {
                    match set.opened(host, &self.request, source, roles)? {
                        Some(opened) => {
                            if !is_checked {
                                set.start_check(host, source, roles)?;
                                is_checked = set.check.is_some();
                            }
                            set.begin(opened, host, &self.request, now)?;
                        }
                        None => recorded.extend(set.roles.iter().copied()),
                    }
                }
                (Some(false), Some(false)) if is_on => {
                    set.end(host, now, &mut self.ended)?;
                }
                (Some(false), Some(true)) => recorded.extend(set.roles.iter().copied()),
                _ => {}
            }
        }
        Ok(recorded)
    }

    /// Counts with the changed filter of a role from now on.
    ///
    /// # Errors
    /// As [`SessionCounts::switch`].
    pub(super) fn renew(
        &mut self,
        role: u32,
        host: &mut Host,
        (source, roles, now): (&SourceRequest, &[Role], f64),
    ) -> anyhow::Result<Vec<u32>> {
        let sets = self.sets.iter_mut().filter(|set| set.open.is_some());
        for set in sets.filter(|set| set.roles.contains(&role)) {
            // Without a change if the kernel refuses it.
            let opened = set.opened(host, &self.request, source, roles)?;
            set.end(host, now, &mut self.ended)?;
            let Some(opened) = opened else {
                return Ok(set.roles.iter().copied().collect());
            };
            set.begin(opened, host, &self.request, now)?;
        }
        Ok(Vec::new())
    }

    /// Adds what the kernel has counted to the tables: `at_once`, or from time to time, so that it
    /// has room. Returns the roles whose counts differ from perf's.
    ///
    /// # Errors
    /// The kernel refuses to return it.
    pub(super) fn collect(
        &mut self,
        host: &mut Host,
        (roles, now): (&[Role], f64),
        at_once: bool,
    ) -> anyhow::Result<Vec<u32>> {
        let mut differ = Vec::new();
        for set in &mut self.sets {
            let before = set.check.as_mut().and_then(CountCheck::look);
            set.add_rows(host, |one, host| match at_once || before.is_some() {
                true => one.collect(host, now),
                false => one.collect_if_due(host, now),
            })?;
            if set.check.as_ref().is_some_and(CountCheck::is_in_vain) {
                set.end_check(&mut self.ended);
            }
            let Some(agrees) = before.and_then(|before| set.checked(host, roles, before)) else {
                continue;
            };
            set.end_check(&mut self.ended);
            self.is_checked = true;
            if !agrees && self.request.options.counting != CountingPlace::Kernel {
                differ.extend(&set.roles);
            }
        }
        Ok(differ)
    }

    /// Returns the perf events of checks that have ended.
    pub(super) fn take_closed(&mut self) -> Vec<PerfEvent> {
        std::mem::take(&mut self.ended.perf_events)
    }

    /// Adds what was missed.
    pub(super) fn add_to(&self, coverage: &mut Coverage) {
        coverage.undelivered += self.ended.missed.undelivered;
        coverage.undefined += self.ended.missed.undefined;
        self.sets.iter().filter_map(|set| set.open.as_ref()).for_each(|one| one.add_to(coverage));
    }

    /// Returns the number of events that the kernel has counted for tables of these roles.
    pub(super) fn events(&self, roles: &Range<usize>) -> u64 {
        let has_one = |set: &&CountedSet| set.roles.iter().any(|r| roles.contains(&(*r as usize)));
        self.sets.iter().filter(has_one).map(|set| set.events).sum()
    }

    /// Measures how long the programs run for an event.
    pub(super) fn measure(&self) -> Vec<CountCost> {
        let open = self.sets.iter().filter_map(|set| Some((set, set.open.as_ref()?)));
        if open.clone().next().is_none() {
            return Vec::new();
        }
        let measuring = measure_runs();
        std::thread::sleep(MEASURED);
        drop(measuring);
        open.map(|(set, counts)| CountCost {
            roles: set.roles.iter().copied().collect(),
            events: set.events,
            program_ns: counts.program_ns(),
        })
        .collect()
    }
}

/// Returns the roles of pairs.
fn paired(host: &Host) -> anyhow::Result<BTreeSet<u32>> {
    let pairs = host.declared_pairs()?;
    let sides = pairs.iter().flat_map(DeclaredPairs::sides);
    Ok(sides.flat_map(|side| host.roles_of_side(side)).map(|role| role as u32).collect())
}

impl CountedSet {
    /// Returns whether an event or a table is also in another set.
    fn shares(&self, other: &CountedSet) -> bool {
        !self.tables.is_disjoint(&other.tables) || !self.roles.is_disjoint(&other.roles)
    }

    /// Opens the programs; None if the kernel cannot count all roles.
    fn opened(
        &self,
        host: &Host,
        request: &RunRequest,
        source: &SourceRequest,
        roles: &[Role],
    ) -> anyhow::Result<Option<KernelCounts>> {
        let wanted = |role| self.roles.contains(&role);
        let opened = KernelCounts::open_for(host, request, roles, source, &wanted)?;
        Ok((opened.roles() == &self.roles).then_some(opened))
    }

    /// Begins to count with these programs.
    fn begin(
        &mut self,
        opened: KernelCounts,
        host: &Host,
        request: &RunRequest,
        now: f64,
    ) -> anyhow::Result<()> {
        self.open.insert(opened).begin(host, &request.options, now)?;
        self.check.iter_mut().for_each(CountCheck::begun);
        Ok(())
    }

    /// Starts to compare the counts with perf's, if these can have the same events.
    fn start_check(
        &mut self,
        host: &Host,
        source: &SourceRequest,
        roles: &[Role],
    ) -> anyhow::Result<()> {
        let openings = comparable(host, &self.tables, roles, source)?;
        self.check = CountCheck::start(&openings, source, self.events);
        Ok(())
    }

    /// Compares the counts with perf's, which were `before` when they were read, and states the
    /// result. Returns whether they agree; None if they cannot be compared.
    fn checked(&self, host: &Host, roles: &[Role], before: u64) -> Option<bool> {
        let mut coverage = Coverage::default();
        self.open.iter().for_each(|counts| counts.add_to(&mut coverage));
        let found = self.check.as_ref()?.compare(self.events, coverage.undelivered, before)?;
        let names = self.roles.iter().map(|role| roles[*role as usize].event.name.as_str());
        let text = found.text(&names.collect::<Vec<_>>().join(", "));
        let level = if found.agrees() { Level::Info } else { Level::Warning };
        host.context().note(level, &text);
        Some(found.agrees())
    }

    /// Ends a comparison.
    fn end_check(&mut self, ended: &mut EndedCounts) {
        ended.perf_events.extend(self.check.take().into_iter().flat_map(CountCheck::end));
    }

    /// Stops counting and a comparison, and adds the last rows to the table.
    fn end(&mut self, host: &mut Host, now: f64, ended: &mut EndedCounts) -> anyhow::Result<()> {
        self.end_check(ended);
        let added = self.add_rows(host, |counts, host| counts.end(host, now));
        self.open.take().into_iter().for_each(|counts| counts.add_to(&mut ended.missed));
        added.context("failed to end the counts in the kernel")
    }

    /// Calls a function that adds rows of the kernel to the table.
    fn add_rows(
        &mut self,
        host: &mut Host,
        add: impl FnOnce(&mut KernelCounts, &mut Host) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(counts) = &mut self.open else { return Ok(()) };
        let before = host.received();
        let added = add(counts, host);
        self.events += host.received() - before;
        added
    }
}
