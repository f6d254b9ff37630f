//! Decides which counts of a script the kernel does, and adds its rows to the tables.
//!
//! A table is counted in the kernel if programs there can do it for all of its events with the same
//! results; otherwise its events are recorded, and the script's handlers count.

mod count_plan;
mod declarations;
mod long_pairs;
mod pair_parts;
mod pair_plan;
mod pairs;
mod thinned;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;

use anyhow::{Context as _, bail};
use count_plan::CountPlan;
use declarations::Declarations;
use pairs::KernelPairs;
use thinned::ThinnedCounts;

use super::counted_tasks::counted_tasks;
use super::openings::remove_roles;
use super::request::{CountingPlace, RunOptions, RunRequest};
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::Level;
use crate::base::text::units::counted;
use crate::script::evsel::declared_pairs::DeclaredPairs;
use crate::script::evsel::role::Role;
use crate::script::host::Host;
use crate::script::host::job::Job;
use crate::source::Sink;
use crate::source::counting::followed_tasks::{CountedTasks, THREADS_MAX};
use crate::source::counting::{Counting, WITH_MISSES};
use crate::source::live::Live;
use crate::source::request::{Opening, SourceRequest};
use crate::sys::bpf::measure_runs;
use crate::sys::machine::is_linux_since;

/// Time between two collections without a report, in nanoseconds.
const COLLECTED_NS: f64 = 1e9;

/// The same if there are rows with addresses of processes: as with records, the names of a process
/// that ran before perilune are known if it still runs at the next collection.
const CHAINS_NS: f64 = 1e8;

/// Longest time between two checks whether a table has room, in milliseconds.
const CHECKED_MS: f64 = 100.0;

/// The counts of a run that the kernel does.
#[derive(Default)]
pub(super) struct KernelCounts {
    counting: Counting,
    tables: Vec<CountedNumber>,
    pairs: KernelPairs,
    roles: BTreeSet<u32>,
    begun_at: f64,
    collected_at: f64,
    /// When the tables were last checked for room.
    checked_at: f64,
    /// The file that makes the kernel measure its programs, in the first second.
    measuring: Option<OwnedFd>,
    /// With `--budget`.
    thinned: Option<ThinnedCounts>,
}

/// A table that the kernel counts.
#[derive(Clone, Copy, Debug)]
struct CountedNumber {
    /// Its number in the script.
    number: usize,
    /// Whether all of its events are also in another table or pairs, which count them.
    is_further: bool,
}

/// Why an event is counted in user space.
type Reason = String;

impl KernelCounts {
    /// Decides which events the kernel counts, removes them from `openings`, and attaches its
    /// programs, which count nothing yet. Prints with `-v` where each event is counted, and why,
    /// with the name of one of several `monitors`.
    ///
    /// # Errors
    /// `--where kernel` was given, and an event cannot be counted there.
    pub(super) fn open(
        host: &Host,
        request: &RunRequest,
        roles: &[Role],
        source: &SourceRequest,
        (openings, monitors): (&mut Vec<Opening>, &[Job]),
    ) -> anyhow::Result<KernelCounts> {
        let pairs = host.declared_pairs().context("failed to read the pairs of a script")?;
        let wanted: (&dyn Fn(u32) -> bool, _) = (&|_| true, monitors);
        let counts = KernelCounts::attach(host, request, roles, source, wanted, Some(pairs))?;
        remove_roles(openings, &counts.roles, roles)?;
        openings.extend(counts.pairs.openings().cloned());
        Ok(counts)
    }

    /// Opens the counts of tables that only `wanted` roles count, at a prompt, without pairs.
    ///
    /// # Errors
    /// As [`KernelCounts::open`].
    pub(super) fn open_for(
        host: &Host,
        request: &RunRequest,
        roles: &[Role],
        source: &SourceRequest,
        wanted: &dyn Fn(u32) -> bool,
    ) -> anyhow::Result<KernelCounts> {
        KernelCounts::attach(host, request, roles, source, (wanted, &[]), None)
    }

    fn attach(
        host: &Host,
        request: &RunRequest,
        roles: &[Role],
        source: &SourceRequest,
        (wanted, monitors): (&dyn Fn(u32) -> bool, &[Job]),
        pairs: Option<Vec<DeclaredPairs>>,
    ) -> anyhow::Result<KernelCounts> {
        let settings = &request.options;
        if settings.counting == CountingPlace::User {
            return Ok(KernelCounts::default());
        }
        let mut plan = CountPlan::new(roles, source, settings);
        let mut declared =
            host.declared_counts().context("failed to read the counts of a script")?;
        declared.retain(|(_, roles)| roles.clone().all(|role| wanted(role as u32)));
        let is_quiet = |pairs: &Vec<_>| pairs.is_empty() && settings.verbose == 0;
        let is_auto = settings.counting == CountingPlace::Auto;
        if declared.is_empty() && is_auto && pairs.as_ref().is_none_or(is_quiet) {
            return Ok(KernelCounts::default());
        }
        let tasks = counted_tasks(request, source, &plan.raw);
        let declared =
            Declarations::plan(host, &plan, &declared, pairs.unwrap_or_default(), &tasks);
        let cpu = source.cpus.first().map_or(0, |cpu| *cpu);
        let none = CountedTasks::All;
        let mut counts = declared.open(&mut plan, tasks.as_ref().unwrap_or(&none), cpu);
        if settings.budget.is_some() {
            counts.enable_switching(host, &mut plan);
        }
        counts.report(host, &plan, (wanted, monitors))?;
        Ok(counts)
    }

    /// Prints where each event is counted.
    fn report(
        &self,
        host: &Host,
        plan: &CountPlan<'_>,
        (wanted, monitors): (&dyn Fn(u32) -> bool, &[Job]),
    ) -> anyhow::Result<()> {
        let events = plan.roles.iter().map(|role| &role.event).enumerate();
        for (role, event) in events.filter(|(role, _)| wanted(*role as u32)) {
            let of = monitors.iter().find(|job| job.roles.contains(&role));
            let of = of.map_or(String::new(), |job| format!("{}: ", job.name));
            let reason = match plan.reasons.get(&role) {
                _ if self.roles.contains(&(role as u32)) => None,
                Some(why) => Some(why.as_str()),
                None => Some("a handler takes its records"),
            };
            if let (CountingPlace::Kernel, Some(why)) = (plan.settings.counting, reason) {
                bail!(
                    "{of}--where kernel: {} cannot be counted in the kernel: {why}; use --where \
                     auto, which counts it in user space",
                    event.name
                );
            }
            // Without a declaration, only a tracepoint could be counted elsewhere.
            let is_known = plan.reasons.contains_key(&role) || event.format().is_some();
            if plan.settings.verbose > 0 && is_known {
                let text = match reason {
                    None => format!("{of}{}: counted in the kernel", event.name),
                    Some(why) => format!("{of}{}: counted in user space: {why}", event.name),
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

    /// Returns the roles whose events the kernel counts.
    pub(super) fn roles(&self) -> &BTreeSet<u32> {
        &self.roles
    }

    /// Begins to count; `now` is the time of the run.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub(super) fn begin(
        &mut self,
        host: &Host,
        settings: &RunOptions,
        now: f64,
    ) -> anyhow::Result<()> {
        (self.begun_at, self.collected_at, self.checked_at) = (now, now, now);
        if settings.stats && !self.roles.is_empty() {
            self.measuring = measure_runs().ok();
        }
        if self.counting.has_user_chains() {
            host.expect_counted_chains();
        }
        self.begin_together().context("failed to start the counts in the kernel")
    }

    /// Begins all counts and pairs at the same moment: to prepare each table takes milliseconds.
    fn begin_together(&mut self) -> io::Result<()> {
        self.pause(true)?;
        self.counting.begin()?;
        self.pairs.begin()?;
        self.pause(false)
    }

    fn pause(&mut self, is_paused: bool) -> io::Result<()> {
        self.counting.pause(is_paused)?;
        self.pairs.pause(is_paused)
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        let paused = self.pause(true);
        let stopped = paused.and_then(|()| self.counting.stop()).and_then(|()| self.pairs.stop());
        stopped.context("failed to stop the counts in the kernel")
    }

    /// Stops counting and adds the last rows.
    ///
    /// # Errors
    /// As [`KernelCounts::collect`].
    pub(super) fn end(&mut self, host: &mut Host, now: f64) -> anyhow::Result<()> {
        self.stop()?;
        let missed: u64 = self.missed().values().sum();
        if missed > 0 {
            let missed = counted(missed, "event");
            let pairs = match self.pairs.missed().values().sum() {
                0u64 => "",
                _ => self.pairs.effect_of_misses(),
            };
            let text = format!(
                "{missed} not counted: another BPF program ran on the CPU (coverage: \
                 undelivered){pairs}"
            );
            host.context().note(Level::Warning, &text);
        }
        let unfollowed = self.counting.unfollowed() + self.pairs.unfollowed();
        if unfollowed > 0 {
            let text = format!(
                "{} not watched: at most {THREADS_MAX} threads are watched at once",
                counted(unfollowed, "new thread")
            );
            host.context().note(Level::Warning, &text);
        }
        // Counts and pairs each follow the tasks.
        let unseen = self.counting.missed_tasks().max(self.pairs.missed_tasks());
        if unseen > 0 {
            let text = format!(
                "{} missed: another BPF program ran on the CPU; children of watched tasks may be \
                 missing: use --where user",
                counted(unseen, "fork or exec event")
            );
            host.context().note(Level::Warning, &text);
        }
        self.collect_known(host, now, u64::MAX)
    }

    /// Ends the counts of a run, and adds the starts without an end. `host` returns a sink's host.
    ///
    /// # Errors
    /// As [`KernelCounts::collect`].
    pub(super) fn end_run<S: Sink>(
        &mut self,
        (sink, host): (&mut S, fn(&mut S) -> &mut Host),
        live: &mut Live,
        end: f64,
    ) -> anyhow::Result<()> {
        self.stop()?;
        if self.counting.has_user_chains() {
            // The records of processes, which name the last addresses.
            live.drain(live.horizon().min(end), sink);
        }
        self.end(host(sink), live.now())?;
        self.pairs.end(host(sink), live.clock())
    }

    /// Adds what the kernel has counted so far to the tables of the script.
    ///
    /// # Errors
    /// The kernel refuses to return it.
    pub(super) fn collect(&mut self, host: &mut Host, now: f64) -> anyhow::Result<()> {
        self.collect_known(host, now, host.handled_ns())
    }

    /// Adds what the kernel has counted so far; records up to `known_ns` have been handled.
    fn collect_known(&mut self, host: &mut Host, now: f64, known_ns: u64) -> anyhow::Result<()> {
        self.collected_at = now;
        if now >= self.begun_at + COLLECTED_NS {
            self.measuring = None;
        }
        if self.thinned.as_ref().is_some_and(|thinned| thinned.is_empty) {
            return Ok(());
        }
        // All rows are those of the same interval.
        let flipped = self.counting.flip().and_then(|()| self.pairs.flip());
        flipped.context("failed to exchange the counts in the kernel")?;
        let (tables, thinned) = (&self.tables, &mut self.thinned);
        let added = self.counting.collect(known_ns, &mut |table, row| {
            let Some(table) = tables.get(table) else { return };
            host.add_counted(table.number, row, table.is_further);
            if let (Some(thinned), false) = (&mut *thinned, table.is_further) {
                thinned.add(row.count);
            }
        });
        added.context("failed to read the counts of the kernel")?;
        self.pairs.collect(host)
    }

    /// Returns the longest time until the next call of [`KernelCounts::collect_if_due`], in
    /// milliseconds: at first short, because tables begin small.
    pub(super) fn wait_ms(&self, now: f64) -> f64 {
        match self.roles.is_empty() {
            true => f64::INFINITY,
            false => ((now - self.begun_at) / 1e6).max(10.0),
        }
    }

    /// Collects if a table of the kernel will soon have no room, and from time to time.
    ///
    /// # Errors
    /// As [`KernelCounts::collect`].
    pub(super) fn collect_if_due(&mut self, host: &mut Host, now: f64) -> anyhow::Result<()> {
        if self.roles.is_empty() {
            return Ok(());
        }
        let is_checked = now >= self.checked_at + 1e6 * self.wait_ms(now).min(CHECKED_MS);
        if is_checked {
            self.checked_at = now;
        }
        let is_due = self.is_due(now, is_checked).context("failed to read a number of keys")?;
        if is_due {
            return self.collect(host, now);
        }
        let prepared = self.counting.prepare_next().and_then(|()| self.pairs.prepare_next());
        prepared.context("failed to prepare the next interval")
    }

    fn is_due(&self, now: f64, is_checked: bool) -> io::Result<bool> {
        let since = now - self.collected_at;
        Ok(since >= COLLECTED_NS
            || since >= CHAINS_NS && self.counting.has_user_rows()?
            || is_checked && self.is_nearly_full()?)
    }

    fn is_nearly_full(&self) -> io::Result<bool> {
        Ok(self.counting.is_nearly_full()? || self.pairs.is_nearly_full()?)
    }

    /// Adds what was missed.
    pub(super) fn add_to(&self, coverage: &mut Coverage) {
        coverage.undelivered += self.undelivered().values().sum::<u64>();
        let undefined = self.counting.undefined().saturating_sub(self.undefined_before_run());
        coverage.undefined += undefined + self.pairs.undefined();
        if let Some(thinned) = &self.thinned {
            coverage.thinned = Some(thinned.events);
        }
    }

    /// Returns how many events were missed, by role: an event of several tables once.
    pub(super) fn missed(&self) -> BTreeMap<u32, u64> {
        let mut missed = self.counting.missed();
        for (role, events) in self.pairs.missed() {
            let of_role = missed.entry(role).or_default();
            *of_role = events.max(*of_role);
        }
        let since = |(role, events): (u32, u64)| {
            (role, events.saturating_sub(self.missed_before_run(role)))
        };
        missed.into_iter().map(since).collect()
    }

    /// Returns the mean nanoseconds of a program's run; None if none was measured.
    pub(super) fn program_ns(&self) -> Option<f64> {
        let measured = self.measured_since_look().plus(self.pairs.measured());
        (measured.runs > 0).then(|| measured.ns as f64 / measured.runs as f64)
    }

    /// Returns the number of tracepoints that are closed at the end.
    pub(super) fn tracepoints(&self) -> usize {
        self.counting.tracepoints() + self.pairs.tracepoints()
    }
}
