//! Decides which counts of a script the kernel does, and adds its rows to the tables.
//!
//! A table is counted in the kernel if programs there can do it for all of its events with the same
//! results; otherwise its events are recorded, and the script's handlers count.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use anyhow::{Context as _, bail};

use super::counted_tasks::counted_tasks;
use super::request::{CountingPlace, RunOptions, RunRequest};
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::Level;
use crate::base::text::units::counted;
use crate::bpf::count::{CountLayout, CountedEvent, KeyPart, SummedValue};
use crate::decode::format::Format;
use crate::event::expr::in_kernel::KernelExpr;
use crate::event::filter::split::{Condition, UserCondition};
use crate::event::sampling::Sampling;
use crate::script::evsel::role::{DeclaredCount, Role};
use crate::script::host::Host;
use crate::source::counting::followed_tasks::{CountedTasks, THREADS_MAX};
use crate::source::counting::{CountedRole, CountedTable, Counting, WITH_MISSES};
use crate::source::request::{Opening, SourceRequest};
use crate::sys::bpf::measure_runs;
use crate::sys::machine::is_linux_since;

/// Time between two collections without a report, in nanoseconds.
const COLLECTED_NS: f64 = 1e9;
/// Time of the first collection, which exchanges the first map for a larger one.
const FIRST_NS: f64 = 1e8;

/// The counts of a run that the kernel does.
#[derive(Default)]
pub(super) struct KernelCounts {
    counting: Counting,
    /// The number of each table in the script.
    tables: Vec<usize>,
    roles: BTreeSet<u32>,
    collected_at: f64,
    /// The file that makes the kernel measure its programs, in the first second.
    measuring: Option<OwnedFd>,
}

/// Why an event is counted in user space.
type Reason = String;

impl KernelCounts {
    /// Decides which events the kernel counts, removes them from `openings`, and attaches its
    /// programs, which count nothing yet. Prints with `-v` where each event is counted, and why.
    ///
    /// # Errors
    /// `--where kernel` was given, and an event cannot be counted there.
    pub(super) fn open(
        host: &Host,
        request: &RunRequest,
        roles: &[Role],
        source: &SourceRequest,
        openings: &mut Vec<Opening>,
    ) -> anyhow::Result<KernelCounts> {
        let settings = &request.options;
        if settings.counting == CountingPlace::User {
            return Ok(KernelCounts::default());
        }
        let mut counts = KernelCounts::default();
        let mut plan = CountPlan { roles, source, settings, reasons: BTreeMap::new() };
        let declared = host.declared_counts().context("failed to read the counts of a script")?;
        if declared.is_empty() && settings.counting == CountingPlace::Auto {
            return Ok(counts);
        }
        let (tasks, of_run) = match counted_tasks(request, source) {
            Ok(tasks) => (tasks, None),
            Err(why) => (CountedTasks::All, Some(why)),
        };
        let (mut numbers, mut tables) = (Vec::new(), Vec::new());
        for number in declared.iter().map(|(count, _)| count.table).collect::<BTreeSet<_>>() {
            let of_table: Vec<_> = declared.iter().filter(|(c, _)| c.table == number).collect();
            let all: Vec<usize> = of_table.iter().flat_map(|(_, roles)| roles.clone()).collect();
            let table = match &of_run {
                Some(why) => Err(why.clone()),
                None => plan.table(host, number, &of_table),
            };
            match table {
                Ok(table) => {
                    numbers.push(number);
                    tables.push(table);
                }
                Err(why) => plan.in_user_space(&all, &why),
            }
        }
        let cpu = source.cpus.first().map_or(0, |cpu| *cpu);
        match Counting::open(&tables, &tasks, cpu) {
            Ok(counting) => {
                counts.roles = counting.roles();
                (counts.counting, counts.tables) = (counting, numbers);
            }
            Err(why) => {
                let all = tables.iter().flat_map(|table| &table.roles);
                let all: Vec<usize> = all.map(|role| role.role as usize).collect();
                plan.in_user_space(&all, &why.to_string());
            }
        }
        counts.report(host, &plan)?;
        counts.remove_from(openings);
        Ok(counts)
    }

    /// Prints where each event is counted.
    fn report(&self, host: &Host, plan: &CountPlan<'_>) -> anyhow::Result<()> {
        for (role, event) in plan.roles.iter().map(|role| &role.event).enumerate() {
            let reason = match plan.reasons.get(&role) {
                _ if self.roles.contains(&(role as u32)) => None,
                Some(why) => Some(why.as_str()),
                None => Some("a handler takes its records"),
            };
            if let (CountingPlace::Kernel, Some(why)) = (plan.settings.counting, reason) {
                bail!(
                    "--where kernel: {} cannot be counted in the kernel: {why}; use --where auto, \
                     which counts it in user space",
                    event.name
                );
            }
            if plan.settings.verbose > 0 {
                let text = match reason {
                    None => format!("{}: counted in the kernel", event.name),
                    Some(why) => format!("{}: counted in user space: {why}", event.name),
                };
                host.context().note(Level::Info, &text);
            }
        }
        if !self.roles.is_empty() && !is_linux_since(WITH_MISSES) {
            let text = "before Linux 6.7, events that happen while another BPF program runs on \
                        the CPU are missing from the counts without being counted as missed";
            host.context().note(Level::Warning, text);
        }
        Ok(())
    }

    /// Removes the events that the kernel counts from those that are opened for records.
    fn remove_from(&self, openings: &mut Vec<Opening>) {
        for opening in openings.iter_mut() {
            opening.roles.retain(|served| !self.roles.contains(&served.role));
        }
        openings.retain(|opening| !opening.roles.is_empty());
    }

    /// Begins to count.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub(super) fn begin(&mut self, settings: &RunOptions) -> anyhow::Result<()> {
        self.collected_at = FIRST_NS - COLLECTED_NS;
        if settings.stats && !self.tables.is_empty() {
            self.measuring = measure_runs().ok();
        }
        self.counting.begin().context("failed to start the counts in the kernel")
    }

    /// Stops counting and adds the last rows.
    ///
    /// # Errors
    /// As [`KernelCounts::collect`].
    pub(super) fn end(&mut self, host: &mut Host, now: f64) -> anyhow::Result<()> {
        self.counting.stop().context("failed to stop the counts in the kernel")?;
        let missed = self.counting.missed();
        if missed > 0 {
            let missed = counted(missed, "event");
            let text = format!(
                "{missed} not counted: another BPF program ran on the CPU (coverage: undelivered)"
            );
            host.context().note(Level::Warning, &text);
        }
        let unfollowed = self.counting.unfollowed();
        if unfollowed > 0 {
            let text = format!(
                "{} not watched: at most {THREADS_MAX} threads are watched at once",
                counted(unfollowed, "new thread")
            );
            host.context().note(Level::Warning, &text);
        }
        self.collect(host, now)
    }

    /// Adds what the kernel has counted so far to the tables of the script.
    ///
    /// # Errors
    /// The kernel refuses to return it.
    pub(super) fn collect(&mut self, host: &mut Host, now: f64) -> anyhow::Result<()> {
        self.collected_at = now;
        if now >= COLLECTED_NS {
            self.measuring = None;
        }
        let tables = &self.tables;
        let added = self.counting.collect(&mut |table, row| {
            if let Some(number) = tables.get(table) {
                host.add_counted(*number, row);
            }
        });
        added.context("failed to read the counts of the kernel")
    }

    /// Collects from time to time, so that the tables of the kernel have room.
    ///
    /// # Errors
    /// As [`KernelCounts::collect`].
    pub(super) fn collect_if_due(&mut self, host: &mut Host, now: f64) -> anyhow::Result<()> {
        match self.tables.is_empty() || now < self.collected_at + COLLECTED_NS {
            true => self.counting.prepare_next().context("failed to prepare the next interval"),
            false => self.collect(host, now),
        }
    }

    /// Adds what was missed.
    pub(super) fn add_to(&self, coverage: &mut Coverage) {
        if !self.tables.is_empty() {
            coverage.undelivered += self.counting.missed();
            coverage.undefined += self.counting.undefined();
        }
    }

    /// Returns the mean nanoseconds of a program's run; None if none was measured.
    pub(super) fn program_ns(&self) -> Option<f64> {
        let measured = self.counting.measured();
        (measured.runs > 0).then(|| measured.ns as f64 / measured.runs as f64)
    }

    /// Returns the number of tracepoints that are closed at the end.
    pub(super) fn tracepoints(&self) -> usize {
        self.counting.tracepoints()
    }
}

/// The decision, event by event.
struct CountPlan<'a> {
    roles: &'a [Role],
    source: &'a SourceRequest,
    settings: &'a RunOptions,
    /// Why roles are counted in user space.
    reasons: BTreeMap<usize, Reason>,
}

impl CountPlan<'_> {
    fn in_user_space(&mut self, roles: &[usize], why: &str) {
        self.reasons.extend(roles.iter().map(|role| (*role, why.to_owned())));
    }

    /// Plans a table; all of its events are counted in the same place.
    fn table(
        &self,
        host: &Host,
        number: usize,
        counts: &[&(DeclaredCount, std::ops::Range<usize>)],
    ) -> Result<CountedTable, Reason> {
        let (sums, named) = host.shape_of_counts(number).unwrap_or_default();
        let mut roles = Vec::new();
        for (count, range) in counts {
            for role in range.clone() {
                let of_event = |why| match counts.len() > 1 || range.len() > 1 {
                    true => format!("{}: {why}", self.roles[role].event.name),
                    false => why,
                };
                roles.push(self.role(count, role, named).map_err(of_event)?);
            }
        }
        let first = roles.first().ok_or("it has no event")?;
        let (key, texts) = (first.counted.key_words(), first.counted.key_texts());
        let differs = |role: &CountedRole| {
            role.counted.key_words() != key || role.counted.key_texts() != texts
        };
        if roles.iter().any(differs) {
            return Err("its keys differ in size or type".to_owned());
        }
        let layout = CountLayout { key, texts, named, sums };
        match layout.fits() {
            true => Ok(CountedTable { layout, roles }),
            false => Err("its keys and sums are too large".to_owned()),
        }
    }

    fn role(
        &self,
        count: &DeclaredCount,
        index: usize,
        named: bool,
    ) -> Result<CountedRole, Reason> {
        let role = &self.roles[index];
        let event = &role.event;
        let Some(format) = event.kind().raw_format().filter(|_| !event.kind().is_probe()) else {
            return Err("it is not a tracepoint".to_owned());
        };
        let Sampling { cpus, hide_self, functions, .. } = role.sampling.clone();
        let plain = Sampling { cpus, hide_self, functions, ..Sampling::default() };
        if role.sampling != plain {
            return Err("its samples have options or fields of their own".to_owned());
        }
        if self.source.off.contains(&(index as u32)) {
            return Err("it is off at the start".to_owned());
        }
        let mut event_counts = self.counted(count, format, named)?;
        event_counts.cpus = self.cpus(role);
        let watches_tasks = self.source.tasks.is_some();
        if watches_tasks && role.task.is_some() {
            return Err("its events are about other tasks than those that raise them".to_owned());
        }
        let omits_self = !self.source.watch_self && !event.is_scheduler_event() && !watches_tasks;
        if omits_self && event.is_interrupt() {
            return Err("only a record shows whether an interrupt hit perilune".to_owned());
        }
        if omits_self || hide_self && !self.source.watch_self {
            event_counts.omitted.clone_from(&self.source.own_tids);
        }
        let mut planned = CountedRole {
            role: index as u32,
            event: event.clone(),
            counted: event_counts,
            filters: Vec::new(),
            conditions: Vec::new(),
        };
        add_filters(&mut planned, role, format)?;
        Ok(planned)
    }

    /// Returns the CPUs of an event; None for all.
    fn cpus(&self, role: &Role) -> Option<Vec<u32>> {
        let watched =
            (self.source.watched != self.source.cpus).then(|| self.source.watched.clone());
        match (&role.sampling.cpus, watched) {
            (Some(own), Some(watched)) => {
                Some(own.iter().copied().filter(|cpu| watched.contains(cpu)).collect())
            }
            (own, watched) => own.clone().or(watched),
        }
    }

    fn counted(
        &self,
        count: &DeclaredCount,
        format: &Format,
        named: bool,
    ) -> Result<CountedEvent, Reason> {
        let lowered =
            |text: &String| KernelExpr::parse(text, format).map_err(|why| why.to_string());
        let mut event = CountedEvent::default();
        for text in &count.keys {
            event.key.push(match lowered(text)? {
                KernelExpr::Integer(..) if count.mixed => {
                    return Err("integers of different types share a column".to_owned());
                }
                KernelExpr::Integer(node, _) => KeyPart::Integer(node),
                KernelExpr::Text(text) => KeyPart::Text(text),
            });
        }
        for (i, text) in count.sums.iter().enumerate() {
            let KernelExpr::Integer(value, of) = lowered(text)? else {
                return Err("a sum of text".to_owned());
            };
            event.sums.push(SummedValue { column: count.first + i, value, of });
        }
        match count.name.as_ref().filter(|_| named).map(lowered).transpose()? {
            Some(KernelExpr::Text(text)) if text.words() == 2 => event.name = Some(text),
            None => {}
            Some(_) => return Err("a name that is not of 16 bytes".to_owned()),
        }
        Ok(event)
    }
}

/// Adds the filters of a role.
fn add_filters(planned: &mut CountedRole, role: &Role, format: &Format) -> Result<(), Reason> {
    let only = |text: &str| format!("the filter '{text}'");
    if let Some(filter) = &role.filter {
        for part in filter.conjuncts() {
            match part.bind(&role.event.name, format) {
                Ok(bound) if bound.is_assemblable() => planned.filters.push(bound),
                _ => return Err(only(&part.to_kernel())),
            }
        }
    }
    for UserCondition { text, condition } in &role.rest {
        match condition {
            Condition::Kernel(bound) if bound.is_assemblable() => {
                planned.filters.push(bound.clone());
            }
            Condition::Value(_) => match KernelExpr::parse(text, format) {
                Ok(KernelExpr::Integer(node, _)) => planned.conditions.push(node),
                _ => return Err(only(text)),
            },
            _ => return Err(only(text)),
        }
    }
    Ok(())
}
