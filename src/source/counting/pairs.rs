//! Pairs events in the kernel: programs at two tracepoints measure the delay between them and add
//! it to a table, and no record is written.
//!
//! The map of the starts lives as long as the run; the table of the results is exchanged as that of
//! a count. If keys are threads, further programs remove the start of a thread that has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use super::exchange::ExchangedTable;
use super::followed_tasks::{CountedTasks, FollowedTasks};
use super::pair_rows::{OpenStart, PairRow, read_rest, read_row, read_start};
use super::{
    CountedRole, HeldProgram, NO_ROLE, ProgramPlace, UnattachedProgram, any, check, refused,
    refused_by, sum_of_cpus,
};
use crate::bpf::bucket::BUCKETS;
use crate::bpf::pair::layout::{PAIR_COUNTERS, PairCounter, PairLayout};
use crate::bpf::pair::{EndedThread, PairMaps, PairPart, PairedEvent, end_program};
use crate::bpf::task_scope::TaskScope;
use crate::event::kind::Event;
use crate::source::written_pairs::WrittenSide;
use crate::sys::bpf::{BpfMap, BpfMapType, CountTable, MeasuredRuns, OutputArray, possible_cpus};
use crate::sys::machine::{is_linux_since, memory_bytes};
use crate::sys::refusal::Refusal;

/// Number of starts for which a map has room, unless a script declares more.
const STARTS: usize = 1 << 16;
/// A map has room for more starts if it takes at most this part of the machine's memory.
const STARTS_PART: usize = 64;
/// Bytes of a start besides its key and its value, with its share of the hash buckets.
const START_BYTES: usize = 80;
/// First kernel in which a program of a tracepoint may allocate an element of a map.
const WITH_ALLOCATION: (u32, u32) = (6, 1);

/// An event of pairs.
pub struct PairRole {
    /// The role; its key is that of the pair.
    pub role: CountedRole,
    /// Its part.
    pub part: PairPart,
}

/// Pairs that share a map of starts and a table.
pub struct PairTable {
    /// The layout of the maps.
    pub layout: PairLayout,
    /// Whether keys are CPUs, so that there are as many starts.
    pub is_by_cpu: bool,
    /// Number of starts for which there should be room, if it is not the usual one.
    pub room: Option<usize>,
    /// The events, in the order in which their programs run at one tracepoint.
    pub roles: Vec<PairRole>,
    /// Events that remove the start of a thread that has ended.
    pub ends: Vec<(Event, EndedThread)>,
    /// The events of long delays, by the number that their programs write.
    pub sides: Vec<WrittenSide>,
}

/// Values of the counters of pairs, since their start until the last exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounts([u64; PAIR_COUNTERS.len()]);

impl PairCounts {
    /// Returns the value of a counter.
    pub fn of(&self, counter: PairCounter) -> u64 {
        self.0[counter as usize]
    }

    fn plus(self, other: PairCounts) -> PairCounts {
        PairCounts(std::array::from_fn(|counter| self.0[counter] + other.0[counter]))
    }
}

/// The pairs of a run.
#[derive(Default)]
pub struct Pairs {
    tables: Vec<OpenPairs>,
    tasks: FollowedTasks,
}

/// Pairs whose programs are attached.
struct OpenPairs {
    layout: PairLayout,
    table: ExchangedTable,
    starts: CountTable,
    rest: BpfMap,
    rest_buckets: BpfMap,
    counters: BpfMap,
    /// The counters of each map of the table when it was read last.
    counts: [PairCounts; 2],
    undefined: BpfMap,
    /// The array for the perf events to which long delays are written.
    records: Option<Arc<OutputArray>>,
    scope: TaskScope,
    programs: Vec<HeldProgram>,
}

impl Pairs {
    /// Loads and attaches the programs of pairs, for events of these tasks. Nothing is measured
    /// before [`Pairs::begin`]. `cpu` is any online CPU.
    ///
    /// # Errors
    /// The kernel refuses a map, an event, a program or its attachment.
    pub fn open(tables: &[&PairTable], tasks: &CountedTasks, cpu: u32) -> Result<Pairs, Refusal> {
        if tables.is_empty() {
            return Ok(Pairs::default());
        }
        let mut tasks = FollowedTasks::open(tasks, cpu)?;
        let open = |table: &&PairTable| OpenPairs::open(table, tasks.scope(), cpu);
        let tables = tables.iter().map(open).collect::<Result<_, _>>()?;
        tasks.count_ends(cpu)?;
        Ok(Pairs { tables, tasks })
    }

    /// Returns the roles whose events are paired.
    pub fn roles(&self) -> BTreeSet<u32> {
        self.programs().map(|held| held.role).filter(|role| *role != NO_ROLE).collect()
    }

    /// Returns the arrays for the perf events to which the long delays of each table are written.
    pub fn records(&self) -> impl Iterator<Item = Option<&Arc<OutputArray>>> {
        self.tables.iter().map(|pairs| pairs.records.as_ref())
    }

    /// Begins to measure.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn begin(&mut self) -> io::Result<()> {
        self.tables.iter_mut().try_for_each(|pairs| pairs.table.begin())
    }

    /// Lets programs measure nothing, or again. Programs that run continue.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn pause(&mut self, is_paused: bool) -> io::Result<()> {
        self.tables.iter_mut().try_for_each(|pairs| pairs.table.pause(is_paused))
    }

    /// Lets all tables use their other maps: [`Pairs::collect`] then passes the rows until now.
    ///
    /// # Errors
    /// The kernel refuses a map or the call.
    pub fn flip(&mut self) -> io::Result<()> {
        self.prepare_next()?;
        self.tables.iter_mut().try_for_each(|pairs| pairs.table.flip())
    }

    /// Creates the maps of the next interval, once the run has begun: that takes some milliseconds.
    ///
    /// # Errors
    /// The kernel refuses a map.
    pub fn prepare_next(&mut self) -> io::Result<()> {
        self.tables.iter_mut().try_for_each(|pairs| pairs.table.add_spare())
    }

    /// Returns whether a table will soon have no room, and should be read now.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn is_nearly_full(&self) -> io::Result<bool> {
        any(self.tables.iter().map(|pairs| pairs.table.is_nearly_full()))
    }

    /// Passes all rows since the last call to `each`, with the index of their table, and starts
    /// again from zero.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn collect(&mut self, each: &mut dyn FnMut(usize, &PairRow<'_>)) -> io::Result<()> {
        self.flip()?;
        for (index, pairs) in self.tables.iter_mut().enumerate() {
            pairs.collect(&mut |row| each(index, row))?;
        }
        Ok(())
    }

    /// Returns the counters of each table until the last [`Pairs::collect`].
    pub fn counts(&self) -> impl Iterator<Item = (usize, PairCounts)> {
        self.tables.iter().map(|pairs| pairs.counts[0].plus(pairs.counts[1])).enumerate()
    }

    /// Stops measuring; [`Pairs::collect`] returns the last rows.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn stop(&mut self) -> io::Result<()> {
        self.tables.iter_mut().try_for_each(|pairs| pairs.table.stop())
    }

    /// Removes the starts without an end and passes them, with the index of their table.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn take_starts(&mut self, each: &mut dyn FnMut(usize, &OpenStart<'_>)) -> io::Result<()> {
        for (index, pairs) in self.tables.iter_mut().enumerate() {
            let layout = &pairs.layout;
            pairs.starts.take_all(&mut |key, value| {
                read_start(layout, key, value, &mut |start| each(index, start));
            })?;
        }
        Ok(())
    }

    /// Returns how many events were missed because another program ran on the CPU, by role.
    pub fn missed(&self) -> BTreeMap<u32, u64> {
        HeldProgram::missed_by_role(self.programs())
    }

    /// Returns the runs of all programs that the kernel has measured.
    pub fn measured(&self) -> MeasuredRuns {
        HeldProgram::measured(self.programs())
    }

    /// Returns how many children of watched threads were not watched for lack of room.
    pub fn unfollowed(&self) -> u64 {
        self.tasks.unfollowed()
    }

    /// Returns how many new threads and executed programs, of any process, were missed.
    pub fn missed_tasks(&self) -> u64 {
        self.tasks.missed()
    }

    /// Returns how many operations on events C does not define.
    pub fn undefined(&self) -> u64 {
        self.tables.iter().map(|pairs| sum_of_cpus(&pairs.undefined)).sum()
    }

    /// Returns the number of tracepoints that are closed when this is dropped.
    pub fn tracepoints(&self) -> usize {
        self.programs().count() + self.tasks.tracepoints()
    }

    fn programs(&self) -> impl Iterator<Item = &HeldProgram> {
        self.tables.iter().flat_map(|pairs| &pairs.programs)
    }
}

impl OpenPairs {
    fn open(pairs: &PairTable, scope: TaskScope, cpu: u32) -> Result<OpenPairs, Refusal> {
        let layout = &pairs.layout;
        let cpus = possible_cpus().map_err(|why| refused_by(&why))?;
        let has_starts = pairs.roles.iter().any(|role| matches!(role.part, PairPart::Start(_)));
        let (pair_bytes, start_bytes) = (layout.pair.bytes(), layout.start_bytes());
        let starts = match pairs.is_by_cpu {
            _ if !has_starts => 1,
            true => cpus,
            false => starts_on(memory_bytes(), pair_bytes + start_bytes, pairs.room),
        };
        let row_bytes = layout.row_bytes();
        // A start that stays is allocated once for each thread.
        let is_lazy = layout.in_place && is_linux_since(WITH_ALLOCATION);
        let counters = 8 * PAIR_COUNTERS.len();
        let mut open = OpenPairs {
            layout: layout.clone(),
            table: ExchangedTable::create(layout.key_bytes(), row_bytes, 0)?,
            starts: CountTable::shared_by_cpus(pair_bytes, start_bytes, starts, is_lazy)?,
            rest: BpfMap::create(BpfMapType::PerCpuArray, row_bytes, 2 * layout.rest_rows())?,
            rest_buckets: BpfMap::create(BpfMapType::PerCpuArray, 8, 2 * BUCKETS)?,
            counters: BpfMap::create(BpfMapType::PerCpuArray, counters, 2)?,
            counts: [PairCounts::default(); 2],
            undefined: BpfMap::create(BpfMapType::PerCpuArray, 8, 1)?,
            records: layout.long.map(|_| OutputArray::create()).transpose()?.map(Arc::new),
            scope,
            programs: Vec::new(),
        };
        let (mut programs, by_record) = (Vec::new(), ProgramPlace::default());
        for PairRole { role, part } in &pairs.roles {
            let paired = PairedEvent { event: role.counted.clone(), part: part.clone() };
            let code =
                paired.program(layout, open.maps(), |code, fail| check(code, fail, &role.filters));
            let code = code.ok_or_else(|| refused(libc::E2BIG))?;
            let (event, place) = (&*role.event, &role.place);
            programs.push(UnattachedProgram { code, first: vec![], role: role.role, event, place });
        }
        for (event, of) in &pairs.ends {
            let code = end_program(layout, open.maps(), *of);
            let code = code.ok_or_else(|| refused(libc::E2BIG))?;
            programs.push(UnattachedProgram {
                code,
                first: vec![],
                role: NO_ROLE,
                event,
                place: &by_record,
            });
        }
        open.programs = HeldProgram::attach_all(&programs, cpu)?;
        Ok(open)
    }

    fn maps(&self) -> PairMaps {
        PairMaps {
            tables: self.table.slots(),
            starts: self.starts.number(),
            active: self.table.active(),
            added: self.table.added(),
            rest: self.rest.number(),
            rest_buckets: self.rest_buckets.number(),
            counters: self.counters.number(),
            undefined: self.undefined.number(),
            records: self.records.as_ref().map_or(0, |array| array.map.number()),
            scope: self.scope,
        }
    }

    fn collect(&mut self, each: &mut dyn FnMut(&PairRow<'_>)) -> io::Result<()> {
        let layout = &self.layout;
        let exchange =
            self.table.exchange(&mut |key, values| read_row(layout, key, values, each))?;
        let first = exchange.index * layout.rest_rows() as u32;
        let indexes = first..first + layout.rest_rows() as u32;
        let rest = indexes.clone().map(|index| Ok(self.rest.of_cpus(index)?.concat()));
        let rest = rest.collect::<io::Result<Vec<_>>>()?;
        let values = rest.iter().flat_map(|values| values.chunks_exact(layout.row_bytes()));
        let events: u64 = values.filter_map(super::word).sum();
        if events > 0 {
            read_rest(layout, &rest, &self.take_buckets(exchange.index)?, each);
            indexes.into_iter().try_for_each(|index| self.rest.clear(index))?;
        }
        self.counts[exchange.index as usize] = self.read_counts(exchange.index)?;
        self.table.grow(&exchange, events);
        Ok(())
    }

    /// Returns the numbers of the delays in the rest of a map by bucket, and sets them to 0.
    fn take_buckets(&self, map: u32) -> io::Result<Vec<u64>> {
        let first = map * BUCKETS as u32;
        let take = |index| {
            let values = self.rest_buckets.of_cpus(index)?;
            let count = values.iter().filter_map(|value| super::word(value)).sum();
            if count > 0 {
                self.rest_buckets.clear(index)?;
            }
            Ok(count)
        };
        (first..first + BUCKETS as u32).map(take).collect()
    }

    /// Returns the counters of a map that no program uses.
    fn read_counts(&self, map: u32) -> io::Result<PairCounts> {
        let mut counts = PairCounts::default();
        for value in self.counters.of_cpus(map)? {
            for (count, word) in counts.0.iter_mut().zip(value.chunks_exact(8)) {
                *count += super::word(word).unwrap_or(0);
            }
        }
        Ok(counts)
    }
}

/// Returns the number of starts for which a map has room, on a machine with this memory; each has
/// this many bytes of key and value.
fn starts_on(memory: usize, bytes: usize, room: Option<usize>) -> usize {
    let most = memory / STARTS_PART / (START_BYTES + bytes);
    room.map_or(STARTS, |room| room.min(most.max(STARTS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_has_room_for_more_starts_on_a_machine_with_more_memory() {
        let with = |gib: usize| starts_on(gib << 30, 24, Some(1 << 19));
        assert_eq!([1, 2, 4].map(with), [161_319, 322_638, 1 << 19]);
        assert_eq!(starts_on(256 << 20, 24, Some(1 << 19)), STARTS, "at least the usual number");
        assert_eq!(starts_on(256 << 20, 24, Some(100)), 100);
        assert_eq!(starts_on(64 << 30, 24, None), STARTS);
    }
}
