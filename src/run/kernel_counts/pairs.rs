//! The pairs of a run that the kernel measures.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use anyhow::Context as _;

use super::long_pairs;
use crate::base::report::draw::Level;
use crate::bpf::pair::layout::PairCounter;
use crate::decode::clock::Clock;
use crate::script::aggregate::PairLosses;
use crate::script::evsel::declared_pairs::{DeclaredPairs, PairTarget};
use crate::script::host::Host;
use crate::source::counting::followed_tasks::CountedTasks;
use crate::source::counting::pair_rows::PairRow;
use crate::source::counting::pairs::{PairCounts, PairTable, Pairs};
use crate::source::request::Opening;
use crate::stat::pending::PendingLosses;
use crate::sys::bpf::MeasuredRuns;
use crate::sys::refusal::Refusal;

/// Ends without a start before a note that the calls nest, as in `prelude/pair_handlers.lua`.
const SINGLES: u64 = 20;

/// Pairs that the kernel measures, each as the script declared it.
#[derive(Default)]
pub(super) struct KernelPairs {
    pairs: Pairs,
    tables: Vec<MeasuredPairs>,
}

/// Pairs, and what is known of them so far.
struct MeasuredPairs {
    declared: DeclaredPairs,
    /// The opening for the records of long delays, if they are written.
    opening: Option<Opening>,
    counts: PairCounts,
    /// Delays that were added.
    recorded: u64,
    has_noted: bool,
}

impl KernelPairs {
    /// Attaches the programs of pairs, which measure nothing yet. `cpu` is any online CPU.
    ///
    /// # Errors
    /// As [`Pairs::open`].
    pub(super) fn open(
        planned: &[(&DeclaredPairs, &PairTable)],
        tasks: &CountedTasks,
        cpu: u32,
    ) -> Result<KernelPairs, Refusal> {
        let tables: Vec<_> = planned.iter().map(|(_, table)| *table).collect();
        let pairs = Pairs::open(&tables, tasks, cpu)?;
        let openings = tables.iter().zip(pairs.records());
        let openings = openings.map(|(table, array)| long_pairs::opening(table, array?));
        let measured = planned.iter().zip(openings);
        let measured = measured
            .map(|((declared, _), opening)| MeasuredPairs::new((*declared).clone(), opening))
            .collect();
        Ok(KernelPairs { pairs, tables: measured })
    }

    /// Returns the openings for the records of long delays.
    pub(super) fn openings(&self) -> impl Iterator<Item = &Opening> {
        self.tables.iter().filter_map(|pairs| pairs.opening.as_ref())
    }

    /// Returns the pairs whose long delays are written.
    pub(super) fn written(&self) -> impl Iterator<Item = &DeclaredPairs> {
        let written = self.tables.iter().filter(|pairs| pairs.opening.is_some());
        written.map(|pairs| &pairs.declared)
    }

    /// Returns how many long delays could not be written, by the role of their end.
    pub(super) fn unwritten(&self) -> impl Iterator<Item = (u32, u64)> {
        self.tables.iter().filter_map(|pairs| {
            let end = pairs.opening.as_ref()?.roles.first()?;
            Some((end.role, pairs.counts.of(PairCounter::Unwritten)))
        })
    }

    /// Returns the roles whose events are paired.
    pub(super) fn roles(&self) -> BTreeSet<u32> {
        self.pairs.roles()
    }

    /// Begins to measure.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.pairs.begin()
    }

    /// Lets programs measure nothing, or again.
    pub(super) fn pause(&mut self, is_paused: bool) -> io::Result<()> {
        self.pairs.pause(is_paused)
    }

    /// Lets the rows of the next interval begin.
    pub(super) fn flip(&mut self) -> io::Result<()> {
        self.pairs.flip()
    }

    /// Creates the maps of the next interval.
    pub(super) fn prepare_next(&mut self) -> io::Result<()> {
        self.pairs.prepare_next()
    }

    /// Returns whether a table will soon have no room.
    pub(super) fn is_nearly_full(&self) -> io::Result<bool> {
        self.pairs.is_nearly_full()
    }

    /// Stops measuring.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.pairs.stop()
    }

    /// Returns how many events were missed, by role.
    pub(super) fn missed(&self) -> BTreeMap<u32, u64> {
        self.pairs.missed()
    }

    /// Returns how many operations on events C does not define.
    pub(super) fn undefined(&self) -> u64 {
        self.pairs.undefined()
    }

    /// Returns what missed events mean for the results, behind a semicolon. Values of single events
    /// have no starts.
    pub(super) fn effect_of_misses(&self) -> &'static str {
        let mut paired = self.tables.iter().map(|pairs| &pairs.declared);
        match paired.find(|declared| !declared.starts.is_empty()).map(|one| one.target) {
            None => "",
            Some(PairTarget::Delays(_)) => "; delays are missing or too long: use --where user",
            Some(PairTarget::Rows { .. }) => "; pairs are missing or wrong: use --where user",
        }
    }

    /// Returns the runs of all programs that the kernel has measured.
    pub(super) fn measured(&self) -> MeasuredRuns {
        self.pairs.measured()
    }

    /// Returns how many children of watched threads were not watched.
    pub(super) fn unfollowed(&self) -> u64 {
        self.pairs.unfollowed()
    }

    /// Returns how many new threads and executed programs were missed.
    pub(super) fn missed_tasks(&self) -> u64 {
        self.pairs.missed_tasks()
    }

    /// Returns the number of tracepoints that are closed at the end.
    pub(super) fn tracepoints(&self) -> usize {
        self.pairs.tracepoints()
    }

    /// Adds what the kernel has measured so far to the aggregates of the script.
    pub(super) fn collect(&mut self, host: &mut Host) -> anyhow::Result<()> {
        let tables = &mut self.tables;
        let added = self.pairs.collect(&mut |table, row| {
            if let Some(pairs) = tables.get_mut(table) {
                if let PairRow::Delays(delays) = row {
                    pairs.recorded += delays.count;
                }
                host.add_pairs(&pairs.declared, row);
            }
        });
        added.context("failed to read the delays of the kernel")?;
        for (table, counts) in self.pairs.counts() {
            if let Some(pairs) = self.tables.get_mut(table) {
                pairs.add_counts(counts, host);
            }
        }
        Ok(())
    }

    /// Adds the starts without an end to those of the script, after everything else.
    pub(super) fn end(&mut self, host: &mut Host, clock: &Clock) -> anyhow::Result<()> {
        let tables = &self.tables;
        let added = self.pairs.take_starts(&mut |table, start| {
            if let Some(pairs) = tables.get(table) {
                host.add_open_start(&pairs.declared, start, clock.since_start(start.time_ns));
            }
        });
        added.context("failed to read the starts of the kernel")
    }
}

impl MeasuredPairs {
    fn new(declared: DeclaredPairs, opening: Option<Opening>) -> MeasuredPairs {
        let counts = PairCounts::default();
        MeasuredPairs { declared, opening, counts, recorded: 0, has_noted: false }
    }

    fn add_counts(&mut self, counts: PairCounts, host: &mut Host) {
        use PairCounter as C;
        let before = std::mem::replace(&mut self.counts, counts);
        let since = |counter| counts.of(counter).saturating_sub(before.of(counter));
        let dropped = PendingLosses {
            unmatched: since(C::Unmatched) + since(C::Startless),
            unsafe_: 0,
            exited: since(C::Exited),
            evicted: since(C::Evicted),
        };
        let ended = [C::Unmatched, C::Evicted, C::Exited, C::Unrecorded, C::Dropped];
        let ended = ended.map(|c| counts.of(c)).iter().sum::<u64>() + self.recorded;
        let losses = PairLosses {
            // An end without its start had one, which is missing.
            starts: since(C::Starts) + since(C::Startless),
            dropped,
            open: counts.of(C::Starts).saturating_sub(ended),
            disordered: since(C::Disordered),
            clamped: since(C::Clamped),
        };
        // An event that is an end before it is a start is one event.
        let starts = since(C::Starts).saturating_sub(since(C::Joint));
        let events = starts + since(C::Singles) + since(C::Unrecorded);
        host.add_pair_losses(&self.declared, &losses, events);
        self.note_nested(host);
    }

    /// Explains once that calls nest: starts replace others, and ends have no start.
    fn note_nested(&mut self, host: &Host) {
        let Some(text) = &self.declared.nested else { return };
        let [singles, replaced] =
            [PairCounter::Singles, PairCounter::Unmatched].map(|counter| self.counts.of(counter));
        if !self.has_noted && singles >= SINGLES && replaced >= singles / 2 {
            self.has_noted = true;
            host.context().note(Level::Info, text);
        }
    }
}
