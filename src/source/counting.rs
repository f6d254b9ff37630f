//! Counts events in the kernel: a BPF program at each tracepoint adds to a table, and no record is
//! written.
//!
//! To read a table, its two maps are exchanged (`exchange`). The values that are read and removed
//! then are exact, and the next interval starts from zero.
//!
//! A program stays attached to the tracepoint, on all CPUs, as long as the file that holds it is
//! open: a perf event that is never enabled, or a raw tracepoint (`held_program`). Nothing is
//! pinned: the kernel removes events, programs and maps with the process, however that ends.

mod chains;
mod exchange;
pub mod followed_tasks;
mod held_program;
pub mod pair_rows;
pub mod pairs;
pub mod perf_counters;
pub mod switching;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;

use chains::ChainTables;
use exchange::ExchangedTable;

use super::counted_row::{CountedRow, RowReader};
use crate::bpf::assembler::{Assembler, Label};
use crate::bpf::count::{CountLayout, CountMaps, CountedEvent, SummedValue};
use crate::bpf::integer::{IntegerNode, IntegerWidth};
use crate::bpf::key::{KeyPart, KeyShape};
use crate::bpf::record_text::RecordText;
use crate::bpf::task_scope::TaskScope;
use crate::bpf::thinning::{RUN_BYTES, one_in};
use crate::event::filter::BoundFilter;
use crate::event::kind::Event;
use crate::event::raw_tracepoint::RawTracepoint;
use crate::sys::bpf::{BpfMap, BpfMapType, BpfProgram, BpfProgramType, MeasuredRuns};
use crate::sys::errno::errno;
use crate::sys::refusal::{Refusal, RefusedCall};
use followed_tasks::{CountedTasks, FollowedTasks};
use held_program::{HeldProgram, NO_ROLE, UnattachedProgram};

/// Kernel from which on a key that is added again starts from zero on all CPUs
/// (`pcpu_init_value()` in kernel/bpf/hashtab.c). Batches of keys can be removed since 5.6.
pub const WITH_ZEROED_KEYS: (u32, u32) = (5, 10);
/// Kernel from which on programs of tracepoints count the events that they miss.
pub const WITH_MISSES: (u32, u32) = (6, 7);

/// An event that is counted for a role of the script.
pub struct CountedRole {
    /// The role.
    pub role: u32,
    /// The event.
    pub event: Rc<Event>,
    /// Its count.
    pub counted: CountedEvent,
    /// Conditions in the kernel's language that an event must meet.
    pub filters: Vec<BoundFilter>,
    /// Where its programs run.
    pub place: ProgramPlace,
}

/// Where the programs of an event run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramPlace {
    /// The raw tracepoint, if the record can be built from its arguments.
    pub raw: Option<Rc<RawTracepoint>>,
    /// Whether they must run there: elsewhere they may be missed.
    pub only_raw: bool,
}

impl ProgramPlace {
    /// Returns whether the event may happen while a program at the other place runs on the CPU.
    /// Also true if one of them has no raw tracepoint: the programs of their table must then all
    /// belong to perf events, which exclude each other.
    pub fn may_interrupt(&self, other: &ProgramPlace) -> bool {
        match (&self.raw, &other.raw) {
            (Some(raw), Some(other)) => raw.context.may_interrupt(other.context),
            _ => true,
        }
    }
}

/// A table and the events that are counted in it.
pub struct CountedTable {
    /// The layout of its keys and values.
    pub layout: CountLayout,
    /// The events.
    pub roles: Vec<CountedRole>,
}

/// Returns why this kernel or user cannot count in the kernel; None if it can.
pub fn refusal() -> Option<Refusal> {
    let key = vec![KeyPart::Integer(IntegerNode::Thread)];
    let layout = CountLayout { key: KeyShape::of(&key), named: true, sums: 1, constants: vec![] };
    let sum = SummedValue { column: 0, value: IntegerNode::Cpu, of: IntegerWidth::ULONG };
    let name = Some(RecordText::Comm);
    let counted = CountedEvent { key, sums: vec![sum], name, ..CountedEvent::default() };
    let load = || -> Result<BpfProgram, Refusal> {
        let table = OpenTable::create(&layout, TaskScope::default())?;
        let code = table.program(&layout, &counted, &[])?;
        BpfProgram::load(BpfProgramType::Tracepoint, &code)
    };
    load().err()
}

/// The tables of a run.
#[derive(Default)]
pub struct Counting {
    tables: Vec<OpenTable>,
    tasks: FollowedTasks,
}

/// A table whose programs are attached.
struct OpenTable {
    reader: RowReader,
    table: ExchangedTable,
    /// The call chains of keys that have one.
    chains: Option<ChainTables>,
    rest: BpfMap,
    undefined: BpfMap,
    /// How often programs ran, by CPU, if they can count one event in N.
    runs: Option<BpfMap>,
    /// The tasks whose events are counted.
    scope: TaskScope,
    programs: Vec<HeldProgram>,
}

impl Counting {
    /// Loads and attaches the programs of tables, for events of these tasks. Nothing is counted
    /// before [`Counting::begin`]. `cpu` is any online CPU. With `is_switched`, the counts can be
    /// switched off and on ([`Counting::switch`]), and runs of programs are counted.
    ///
    /// # Errors
    /// The kernel refuses a map, an event, a program or its attachment.
    pub fn open(
        tables: &[&CountedTable],
        tasks: &CountedTasks,
        cpu: u32,
        is_switched: bool,
    ) -> Result<Counting, Refusal> {
        if tables.is_empty() {
            return Ok(Counting::default());
        }
        let mut tasks = FollowedTasks::open(tasks, cpu)?;
        let open = |table: &&CountedTable| OpenTable::open(table, tasks.scope(), cpu, is_switched);
        let tables = tables.iter().map(open).collect::<Result<_, _>>()?;
        tasks.count_ends(cpu)?;
        Ok(Counting { tables, tasks })
    }

    /// Returns the roles whose events are counted.
    pub fn roles(&self) -> BTreeSet<u32> {
        self.tables.iter().flat_map(|table| &table.programs).map(|held| held.role).collect()
    }

    /// Begins to count.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn begin(&mut self) -> io::Result<()> {
        self.tables.iter_mut().try_for_each(|table| table.table.begin())
    }

    /// Creates the maps of the next interval, once the run has begun: that takes some milliseconds.
    ///
    /// # Errors
    /// The kernel refuses a map.
    pub fn prepare_next(&mut self) -> io::Result<()> {
        self.tables.iter_mut().try_for_each(OpenTable::add_spare)
    }

    /// Returns whether a table will soon have no room, and should be read now.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn is_nearly_full(&self) -> io::Result<bool> {
        any(self.tables.iter().map(|table| table.table.is_nearly_full()))
    }

    /// Returns whether keys have call chains with addresses of processes.
    pub fn has_user_chains(&self) -> bool {
        self.tables.iter().any(|table| table.reader.has_user_chains())
    }

    /// Returns whether there are rows with addresses of processes.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn has_user_rows(&self) -> io::Result<bool> {
        let tables = self.tables.iter().filter(|table| table.reader.has_user_chains());
        any(tables.map(|table| {
            let has_deferred = table.chains.as_ref().is_some_and(ChainTables::has_deferred);
            Ok(has_deferred || table.table.keys()? > 0)
        }))
    }

    /// Passes all rows since the last call to `each`, with the index of their table, and starts
    /// again from zero. Rows with addresses of a process that were counted first after `known_ns`
    /// (`CLOCK_MONOTONIC`), the time up to which records have been handled, wait for the next call.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn collect(
        &mut self,
        known_ns: u64,
        each: &mut dyn FnMut(usize, &CountedRow<'_>),
    ) -> io::Result<()> {
        self.flip()?;
        for (index, table) in self.tables.iter_mut().enumerate() {
            table.collect(known_ns, &mut |row| each(index, row))?;
        }
        Ok(())
    }

    /// Stops counting; [`Counting::collect`] returns the last rows.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn stop(&mut self) -> io::Result<()> {
        self.tables.iter_mut().try_for_each(|table| table.table.stop())
    }

    /// Returns how many events were not counted because another program ran on the CPU, by role.
    pub fn missed(&self) -> BTreeMap<u32, u64> {
        HeldProgram::missed_by_role(self.tables.iter().flat_map(|table| &table.programs))
    }

    /// Returns the runs of all programs that the kernel has measured.
    pub fn measured(&self) -> MeasuredRuns {
        HeldProgram::measured(self.tables.iter().flat_map(|table| &table.programs))
    }

    /// Returns how many children of watched threads were not watched for lack of room.
    pub fn unfollowed(&self) -> u64 {
        self.tasks.unfollowed()
    }

    /// Returns how many new threads and executed programs, of any process, were missed.
    pub fn missed_tasks(&self) -> u64 {
        self.tasks.missed()
    }

    /// Returns how many operations on counted events C does not define.
    pub fn undefined(&self) -> u64 {
        self.tables.iter().map(|table| sum_of_cpus(&table.undefined)).sum()
    }

    /// Returns the number of tracepoints that are closed when this is dropped.
    pub fn tracepoints(&self) -> usize {
        let of_tables: usize = self.tables.iter().map(|table| table.programs.len()).sum();
        of_tables + self.tasks.tracepoints()
    }
}

impl OpenTable {
    /// Creates an empty table without programs.
    fn create(layout: &CountLayout, scope: TaskScope) -> Result<OpenTable, Refusal> {
        let (key_bytes, value_bytes) = (layout.key.bytes(), layout.value_bytes());
        let chain = layout.key.chain().map(|(part, _)| part);
        let beside = chain.map_or(0, ChainTables::bytes);
        let table = ExchangedTable::create(key_bytes, value_bytes, beside)?;
        Ok(OpenTable {
            reader: RowReader::new(layout.clone()),
            chains: chain.map(|part| ChainTables::create(part, &table)).transpose()?,
            table,
            rest: BpfMap::create(BpfMapType::PerCpuArray, value_bytes, 2)?,
            undefined: BpfMap::create(BpfMapType::PerCpuArray, 8, 1)?,
            runs: None,
            scope,
            programs: Vec::new(),
        })
    }

    fn open(
        table: &CountedTable,
        scope: TaskScope,
        cpu: u32,
        is_switched: bool,
    ) -> Result<OpenTable, Refusal> {
        let layout = &table.layout;
        let mut open = OpenTable::create(layout, scope)?;
        if is_switched {
            open.runs = Some(BpfMap::create(BpfMapType::PerCpuArray, RUN_BYTES, 1)?);
        }
        let thinning = open.runs.as_ref().map(|runs| one_in(runs.number()));
        let first = thinning.unwrap_or_else(|| Some(vec![])).ok_or_else(|| refused(libc::E2BIG))?;
        let programs = table.roles.iter().map(|role| {
            let code = open.program(layout, &role.counted, &role.filters)?;
            let (first, event, place) = (first.clone(), &*role.event, &role.place);
            Ok(UnattachedProgram { code, first, role: role.role, event, place })
        });
        let programs = programs.collect::<Result<Vec<_>, Refusal>>()?;
        open.programs = HeldProgram::attach_all(&programs, cpu)?;
        Ok(open)
    }

    fn program(
        &self,
        layout: &CountLayout,
        counted: &CountedEvent,
        filters: &[BoundFilter],
    ) -> Result<Vec<u64>, Refusal> {
        let maps = CountMaps {
            tables: self.table.slots(),
            active: self.table.active(),
            added: self.table.added(),
            rest: self.rest.number(),
            undefined: self.undefined.number(),
            scope: self.scope,
            chains: self.chains.as_ref().map(ChainTables::maps).unwrap_or_default(),
        };
        let code = counted.program(layout, maps, |code, fail| check(code, fail, filters));
        code.ok_or_else(|| refused(libc::E2BIG))
    }

    /// Creates the maps of the next interval.
    fn add_spare(&mut self) -> io::Result<()> {
        self.table.add_spare()?;
        match (&mut self.chains, self.table.spare()) {
            (Some(chains), Some((index, entries))) => chains.fit(index, entries),
            _ => Ok(()),
        }
    }

    fn collect(&mut self, known_ns: u64, each: &mut dyn FnMut(&CountedRow<'_>)) -> io::Result<()> {
        let index = self.table.turn()?;
        let OpenTable { reader, table, chains, .. } = self;
        if let Some(chains) = chains {
            for (key, values) in chains.take_deferred() {
                reader.row(Some(&key), &values, each);
            }
            chains.take(index, &mut reader.chains)?;
        }
        let exchange = table.take(index, &mut |key, values| match chains {
            Some(chains) if reader.is_unknown(key, known_ns) => chains.defer(key, values),
            _ => reader.row(Some(key), values, each),
        })?;
        let rest = self.rest.of_cpus(exchange.index)?;
        let events: u64 = rest.iter().filter_map(|value| word(value)).sum();
        if events > 0 {
            self.rest.clear(exchange.index)?;
            self.reader.row(None, &rest.concat(), each);
        }
        self.table.grow(&exchange, events);
        Ok(())
    }
}

/// Returns whether one is true.
fn any(mut results: impl Iterator<Item = io::Result<bool>>) -> io::Result<bool> {
    results.try_fold(false, |any, one| Ok(any || one?))
}

/// Appends the filters of a role; they jump to `fail`.
fn check(code: &mut Assembler, fail: Label, filters: &[BoundFilter]) {
    filters.iter().for_each(|filter| filter.assemble(code, fail));
}

fn refused_by(why: &io::Error) -> Refusal {
    refused(errno(why))
}

fn refused(errno: i32) -> Refusal {
    Refusal::new("BPF", RefusedCall::Bpf(""), errno)
}

/// Returns the sum of the first word over all CPUs.
fn sum_of_cpus(map: &BpfMap) -> u64 {
    let values = map.of_cpus(0).unwrap_or_default();
    values.iter().filter_map(|value| word(value)).sum()
}

fn word(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?))
}
