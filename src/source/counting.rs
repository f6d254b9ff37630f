//! Counts events in the kernel: a BPF program at each tracepoint adds to a table, and no record is
//! written.
//!
//! A table has two maps: programs add to one, the other is empty. To read the table, the maps are
//! exchanged, and the kernel waits until no program uses the old one (`TableSlot::set`). The
//! values that are read and removed then are exact, and the next interval starts from zero.
//!
//! A program hangs on the tracepoint, on all CPUs, as long as the perf event that holds it is open.
//! That event is never enabled, so no record is written for it. Nothing is pinned: the kernel
//! removes events, programs and maps with the process, however that ends.

pub mod followed_tasks;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd as _;
use std::rc::Rc;

use super::counted_row::{CountedRow, RowReader};
use super::open::attr;
use crate::bpf::count::{CountLayout, CountMaps, CountedEvent, KeyPart, SummedValue};
use crate::bpf::expression::ExpressionWriter;
use crate::bpf::integer::{IntegerNode, IntegerWidth};
use crate::bpf::record_text::RecordText;
use crate::bpf::task_scope::TaskScope;
use crate::event::filter::BoundFilter;
use crate::event::kind::Event;
use crate::event::sampling::Sampling;
use crate::sys::attr::{Attr, EVERY_TASK, PerfTarget};
use crate::sys::bpf::{
    BpfMap, BpfMapType, BpfProgram, BpfProgramType, CountTable, MeasuredRuns, TableSlot,
    possible_cpus,
};
use crate::sys::errno::errno;
use crate::sys::perf::PerfEvent;
use crate::sys::refusal::{Refusal, RefusedCall};
use followed_tasks::{CountedTasks, FollowedTasks};

/// Kernel from which on batches of keys can be removed.
pub const WITH_BATCHES: (u32, u32) = (5, 6);
/// Kernel from which on programs of tracepoints count the events that they miss.
pub const WITH_MISSES: (u32, u32) = (6, 7);

/// Number of keys of a new table, which is created before the run begins: that takes milliseconds.
const ENTRIES_FIRST: usize = 8192;
/// Number of keys of the map of the second interval.
const ENTRIES: usize = 32_768;
/// Limit of the keys of a table.
const ENTRIES_MAX: usize = 1 << 20;
/// Limit of the memory of both maps of a table, in bytes.
const BYTES_MAX: usize = 64 << 20;
/// Bytes of an element besides its key and its values.
const ELEMENT_BYTES: usize = 64;

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
    /// Further conditions: values that must not be 0.
    pub conditions: Vec<IntegerNode>,
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
    let layout = CountLayout { key: vec![1], texts: vec![false], named: true, sums: 1 };
    let key = vec![KeyPart::Integer(IntegerNode::Thread)];
    let sum = SummedValue { column: 0, value: IntegerNode::Cpu, of: IntegerWidth::ULONG };
    let name = Some(RecordText::Comm);
    let counted = CountedEvent { key, sums: vec![sum], name, ..CountedEvent::default() };
    let table = OpenTable::create(&layout, 1, TaskScope::default());
    table.and_then(|table| table.load(&layout, &counted, &[], &[])).err()
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
    slot: TableSlot,
    /// The map that programs use while the table is not stopped.
    map: CountTable,
    /// The empty one.
    spare: Option<CountTable>,
    /// An array of one number: the index of the rest in use.
    active: BpfMap,
    /// The index of the rest in use.
    rest_index: u32,
    rest: BpfMap,
    undefined: BpfMap,
    /// The tasks whose events are counted.
    scope: TaskScope,
    programs: Vec<HeldProgram>,
    is_counting: bool,
}

/// A program and the perf event that holds it.
struct HeldProgram {
    role: u32,
    program: BpfProgram,
    _tracepoint: HeldTracepoint,
}

/// The perf event of a tracepoint that holds a program; it is never enabled.
struct HeldTracepoint {
    _event: PerfEvent,
}

impl HeldTracepoint {
    /// Attaches a program to the tracepoint of an event, on all CPUs. `cpu` is any online CPU.
    fn attach(program: &BpfProgram, event: &Event, cpu: u32) -> Result<HeldTracepoint, Refusal> {
        let target = PerfTarget { pid: EVERY_TASK, cpu: cpu as i32 };
        let attr = attr_of(event).map_err(|_| refused(libc::EINVAL))?;
        let open = PerfEvent::open(&attr, target, &event.name)?.event;
        program.attach(open.as_fd())?;
        Ok(HeldTracepoint { _event: open })
    }
}

impl Counting {
    /// Loads and attaches the programs of tables, for events of these tasks. Nothing is counted
    /// before [`Counting::begin`]. `cpu` is any online CPU.
    ///
    /// # Errors
    /// The kernel refuses a map, an event, a program or its attachment.
    pub fn open(
        tables: &[CountedTable],
        tasks: &CountedTasks,
        cpu: u32,
    ) -> Result<Counting, Refusal> {
        if tables.is_empty() {
            return Ok(Counting::default());
        }
        let tasks = FollowedTasks::open(tasks, cpu)?;
        let tables = tables.iter().map(|table| OpenTable::open(table, tasks.scope(), cpu));
        Ok(Counting { tables: tables.collect::<Result<_, _>>()?, tasks })
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
        for table in &mut self.tables {
            table.slot.set(&table.map)?;
            table.is_counting = true;
        }
        Ok(())
    }

    /// Creates the maps of the next interval, once the run has begun: that takes some milliseconds.
    ///
    /// # Errors
    /// The kernel refuses a map.
    pub fn prepare_next(&mut self) -> io::Result<()> {
        self.tables.iter_mut().try_for_each(OpenTable::add_spare)
    }

    /// Passes all rows since the last call to `each`, with the index of their table, and starts
    /// again from zero.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn collect(&mut self, each: &mut dyn FnMut(usize, &CountedRow<'_>)) -> io::Result<()> {
        for (index, table) in self.tables.iter_mut().enumerate() {
            table.collect(&mut |row| each(index, row))?;
        }
        Ok(())
    }

    /// Stops counting; [`Counting::collect`] returns the last rows.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn stop(&mut self) -> io::Result<()> {
        for table in self.tables.iter_mut().filter(|table| table.is_counting) {
            table.slot.clear()?;
            table.is_counting = false;
        }
        Ok(())
    }

    /// Returns how many events were not counted because another program ran on the CPU.
    pub fn missed(&self) -> u64 {
        let programs = self.tables.iter().flat_map(|table| &table.programs);
        programs.map(|held| held.program.misses().unwrap_or(0)).sum()
    }

    /// Returns the runs of all programs that the kernel has measured.
    pub fn measured(&self) -> MeasuredRuns {
        let programs = self.tables.iter().flat_map(|table| &table.programs);
        programs.fold(MeasuredRuns::default(), |sum, held| {
            let one = held.program.measured().unwrap_or_default();
            MeasuredRuns { runs: sum.runs + one.runs, ns: sum.ns + one.ns }
        })
    }

    /// Returns how many children of watched threads were not watched for lack of room.
    pub fn unfollowed(&self) -> u64 {
        self.tasks.unfollowed()
    }

    /// Returns how many operations on counted events C does not define.
    pub fn undefined(&self) -> u64 {
        let of_table = |table: &OpenTable| {
            let values = table.undefined.of_cpus(0).unwrap_or_default();
            values.iter().filter_map(|value| word(value)).sum::<u64>()
        };
        self.tables.iter().map(of_table).sum()
    }

    /// Returns the number of tracepoints that are closed when this is dropped.
    pub fn tracepoints(&self) -> usize {
        let of_tables: usize = self.tables.iter().map(|table| table.programs.len()).sum();
        of_tables + self.tasks.tracepoints()
    }
}

impl OpenTable {
    /// Creates an empty table without programs.
    fn create(
        layout: &CountLayout,
        entries: usize,
        scope: TaskScope,
    ) -> Result<OpenTable, Refusal> {
        let map = CountTable::create(layout.key_bytes(), layout.value_bytes(), entries)?;
        Ok(OpenTable {
            reader: RowReader::new(layout.clone()),
            slot: TableSlot::create(&map)?,
            map,
            spare: None,
            active: BpfMap::create(BpfMapType::Array, 4, 1)?,
            rest_index: 0,
            rest: BpfMap::create(BpfMapType::PerCpuArray, layout.value_bytes(), 2)?,
            undefined: BpfMap::create(BpfMapType::PerCpuArray, 8, 1)?,
            scope,
            programs: Vec::new(),
            is_counting: false,
        })
    }

    fn open(table: &CountedTable, scope: TaskScope, cpu: u32) -> Result<OpenTable, Refusal> {
        let layout = &table.layout;
        let cpus = possible_cpus().map_err(|why| refused(errno(&why)))?;
        let mut open =
            OpenTable::create(layout, ENTRIES_FIRST.min(entries_max(layout, cpus)), scope)?;
        for role in &table.roles {
            let program = open.load(layout, &role.counted, &role.filters, &role.conditions)?;
            let tracepoint = HeldTracepoint::attach(&program, &role.event, cpu)?;
            open.programs.push(HeldProgram { role: role.role, program, _tracepoint: tracepoint });
        }
        Ok(open)
    }

    fn load(
        &self,
        layout: &CountLayout,
        counted: &CountedEvent,
        filters: &[BoundFilter],
        conditions: &[IntegerNode],
    ) -> Result<BpfProgram, Refusal> {
        let maps = CountMaps {
            table: self.slot.number(),
            active: self.active.number(),
            rest: self.rest.number(),
            undefined: self.undefined.number(),
            scope: self.scope,
        };
        let code = counted.program(layout, maps, |code, fail| {
            filters.iter().for_each(|filter| filter.assemble(code, fail));
            conditions.iter().try_for_each(|node| ExpressionWriter::new(code).condition(node, fail))
        });
        let code = code.ok_or_else(|| refused(libc::E2BIG))?;
        BpfProgram::load(BpfProgramType::Tracepoint, &code)
    }

    fn collect(&mut self, each: &mut dyn FnMut(&CountedRow<'_>)) -> io::Result<()> {
        let old_rest = self.rest_index;
        if self.is_counting {
            self.add_spare()?;
            // Before the exchange, which waits for the programs that may use the old one.
            self.rest_index = 1 - old_rest;
            self.active.set_number(0, self.rest_index)?;
            if let Some(spare) = self.spare.as_mut() {
                self.slot.set(spare)?;
                std::mem::swap(spare, &mut self.map);
            }
        }
        let old = self.spare.as_mut().filter(|_| self.is_counting).unwrap_or(&mut self.map);
        let reader = &mut self.reader;
        let keys = old.take_all(&mut |key, values| reader.row(Some(key), values, each))?;
        let is_nearly_full = keys * 4 > old.entries() * 3;
        let rest = self.rest.of_cpus(old_rest)?.concat();
        let has_rest = rest.iter().any(|byte| *byte != 0);
        if has_rest {
            self.rest.clear(old_rest)?;
            reader.row(None, &rest, each);
        }
        if self.is_counting {
            self.grow(has_rest || is_nearly_full);
        }
        Ok(())
    }

    /// Creates the empty map, if there is none.
    fn add_spare(&mut self) -> io::Result<()> {
        if self.spare.is_none() {
            let most = entries_max(self.reader.layout(), possible_cpus()?);
            let spare = self.another(self.map.entries().max(ENTRIES).min(most));
            let spare = spare.map_err(|why| io::Error::from_raw_os_error(why.errno))?;
            self.spare = Some(spare);
        }
        Ok(())
    }

    fn another(&self, entries: usize) -> Result<CountTable, Refusal> {
        let layout = self.reader.layout();
        CountTable::create(layout.key_bytes(), layout.value_bytes(), entries)
    }

    /// Replaces the empty map if it has less room than the other one, or was nearly full. Without
    /// memory for a larger one, it keeps its size.
    fn grow(&mut self, was_nearly_full: bool) {
        let most = entries_max(self.reader.layout(), possible_cpus().unwrap_or(1));
        let Some(has) = self.spare.as_ref().map(CountTable::entries) else { return };
        let grown = if was_nearly_full { (has * 4).min(most) } else { has };
        let wanted = grown.max(self.map.entries());
        if wanted > has
            && let Ok(larger) = self.another(wanted)
        {
            self.spare = Some(larger);
        }
    }
}

/// Returns the limit of the keys of a table.
fn entries_max(layout: &CountLayout, cpus: usize) -> usize {
    let bytes = ELEMENT_BYTES + layout.key_bytes() + layout.value_bytes() * cpus;
    (BYTES_MAX / 2 / bytes).clamp(1, ENTRIES_MAX)
}

/// Returns the attr of the perf event that holds a program; it is never enabled.
fn attr_of(event: &Event) -> anyhow::Result<Attr> {
    let common = attr::Common { watermark: 1, inherit: false };
    attr::of_event(event.kind(), &Sampling { count: true, ..Sampling::default() }, common)
}

fn refused(errno: i32) -> Refusal {
    Refusal::new("BPF", RefusedCall::Bpf(""), errno)
}

fn word(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?))
}
