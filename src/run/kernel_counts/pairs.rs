//! The pairs of a run that the kernel measures.

use std::collections::BTreeSet;
use std::io;

use anyhow::Context as _;

use super::Reason;
use super::count_plan::CountPlan;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::Level;
use crate::bpf::pair::layout::PairCounter;
use crate::decode::clock::Clock;
use crate::script::aggregate::PairLosses;
use crate::script::evsel::declared_pairs::DeclaredPairs;
use crate::script::host::Host;
use crate::source::counting::followed_tasks::CountedTasks;
use crate::source::counting::pair_rows::PairRow;
use crate::source::counting::pairs::{PairCounts, Pairs};
use crate::stat::pending::PendingLosses;
use crate::sys::bpf::MeasuredRuns;

/// Ends without a start before a note that the calls nest, as in `prelude/pairs.lua`.
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
    counts: PairCounts,
    /// Delays that were added.
    recorded: u64,
    has_noted: bool,
}

impl KernelPairs {
    /// Decides which pairs the kernel measures, and attaches its programs, which measure nothing
    /// yet. `tasks` has the watched tasks, or the reason why all pairs need records; `cpu` is any
    /// online CPU.
    pub(super) fn open(
        host: &Host,
        plan: &mut CountPlan<'_>,
        declared: Vec<DeclaredPairs>,
        tasks: Result<&CountedTasks, Reason>,
        cpu: u32,
    ) -> KernelPairs {
        let (mut measured, mut tables) = (Vec::new(), Vec::new());
        for pairs in declared {
            match tasks.clone().and_then(|_| plan.pairs(host, &pairs)) {
                Ok(table) => {
                    tables.push(table);
                    measured.push(MeasuredPairs::new(pairs));
                }
                Err(why) => plan.in_user_space(&CountPlan::roles_of_pairs(host, &pairs), &why),
            }
        }
        match Pairs::open(&tables, tasks.unwrap_or(&CountedTasks::All), cpu) {
            Ok(pairs) => KernelPairs { pairs, tables: measured },
            Err(why) => {
                let all =
                    measured.iter().flat_map(|one| CountPlan::roles_of_pairs(host, &one.declared));
                plan.in_user_space(&all.collect::<Vec<_>>(), &why.to_string());
                KernelPairs::default()
            }
        }
    }

    /// Returns the roles whose events are paired.
    pub(super) fn roles(&self) -> BTreeSet<u32> {
        self.pairs.roles()
    }

    /// Begins to measure.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.pairs.begin()
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

    /// Returns how many events were missed.
    pub(super) fn missed(&self) -> u64 {
        self.pairs.missed()
    }

    /// Returns whether there are delays: values of single events have no starts.
    pub(super) fn has_starts(&self) -> bool {
        self.tables.iter().any(|pairs| !pairs.declared.starts.is_empty())
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

    /// Adds what was missed.
    pub(super) fn add_to(&self, coverage: &mut Coverage) {
        coverage.undelivered += self.pairs.missed();
        coverage.undefined += self.pairs.undefined();
    }
}

impl MeasuredPairs {
    fn new(declared: DeclaredPairs) -> MeasuredPairs {
        let counts = PairCounts::default();
        MeasuredPairs { declared, counts, recorded: 0, has_noted: false }
    }

    fn add_counts(&mut self, counts: PairCounts, host: &mut Host) {
        use PairCounter as C;
        let before = std::mem::replace(&mut self.counts, counts);
        let since = |counter| counts.of(counter).saturating_sub(before.of(counter));
        let dropped = PendingLosses {
            unmatched: since(C::Unmatched),
            unsafe_: 0,
            exited: since(C::Exited),
            evicted: since(C::Evicted),
        };
        let ended = [C::Unmatched, C::Evicted, C::Exited, C::Unrecorded, C::Dropped];
        let ended = ended.map(|c| counts.of(c)).iter().sum::<u64>() + self.recorded;
        let losses = PairLosses {
            starts: since(C::Starts),
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
