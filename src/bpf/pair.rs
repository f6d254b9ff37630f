//! The programs that pair two events of tracepoints by key, and add the delay between them to a
//! table, so that no record is written.
//!
//! The program of the start stores the time by key in a map; that of the end takes it from there.
//! All results are rows of one table, which is exchanged as that of a count ([`super::count`]), and
//! counters beside it, so all of them are those of one interval. The first word of a row's key is
//! the bucket of the delay, or the number of a count, so that a delay costs one look-up. A row has
//! only the buckets in which there are delays.
//!
//! An event may also add a value instead of a delay. Such a table has no starts. Pairs may be
//! counted only: a count has sums of values of the end and of values that its start has kept.
//!
//! A start whose key is the CPU or a thread stays in its map with the time 0 after its end, so that
//! the next one needs no lock. The events of one key must not run at once on two CPUs: those of the
//! current thread do not, and wakeups and switches of a task hold its run queue lock. Other starts
//! are removed at their end, because their keys are not bounded.
//!
//! The programs always return 1: a program belongs to the tracepoint, not to a perf event, and 0
//! would drop the records of every other perf user.

mod counts;
pub mod layout;
pub mod long;
mod writer;

use super::assembler::BpfRegister::*;
use super::assembler::{AccessSize, Assembler, BpfHelper, JumpIf, Label};
use super::count::{CountedEvent, ScopedTask, add_undefined, find_active, find_table};
use super::expression::{CONTEXT, THREAD, UNDEFINED};
use super::integer::{IntegerNode, IntegerWidth};
use super::key::{KeyPart, store_parts};
use super::task_scope::TaskScope;
use layout::{PairCounter, PairLayout};
use long::{CopiedFields, LongPairs};
use writer::{PairStack, PairWriter};

/// File descriptors of the maps of a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct PairMaps {
    /// An array of maps: the two tables.
    pub tables: i32,
    /// The starts, by key.
    pub starts: i32,
    /// An array whose only element is the index of the table in use, as in [`super::count`].
    pub active: i32,
    /// An array per CPU: for each table, the number of keys that were added to it.
    pub added: i32,
    /// An array per CPU: for each table, the row of the delays without room in it, then that of
    /// each count.
    pub rest: i32,
    /// An array per CPU: for each table, the number of delays without room in each bucket.
    pub rest_buckets: i32,
    /// An array per CPU: for each table, the values of [`PairCounter`] while it was in use.
    pub counters: i32,
    /// An array per CPU: the number of operations that C does not define.
    pub undefined: i32,
    /// The array of the perf events to which long delays are written.
    pub records: i32,
    /// The tasks whose events are paired.
    pub scope: TaskScope,
}

/// An event of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairedEvent {
    /// Its threads and CPUs, and the key of the pair.
    pub event: CountedEvent,
    /// Its part.
    pub part: PairPart,
}

/// The part of an event in a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairPart {
    /// It begins a delay.
    Start(PairStart),
    /// It ends a delay.
    Finish(PairFinish),
    /// It drops the start of its key.
    Drop(PairDrop),
}

impl PairPart {
    /// Returns the counts of its events.
    pub fn counts(&self) -> impl Iterator<Item = &PairCount> {
        let (counts, singles): (&[PairCount], &[PairCount]) = match self {
            PairPart::Start(start) => (&start.counts, &[]),
            PairPart::Finish(finish) => (&finish.counts, &finish.singles),
            PairPart::Drop(_) => (&[], &[]),
        };
        counts.iter().chain(singles)
    }
}

/// The start of a delay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairStart {
    /// Values that are kept for the end.
    pub kept: Vec<KeyPart>,
    /// Counts of starts.
    pub counts: Vec<PairCount>,
    /// Whether it does not replace an earlier start.
    pub once: bool,
    /// Whether its event is also an end.
    pub is_end: bool,
    /// The fields of its event, for the record of a long delay.
    pub copied: Option<CopiedFields>,
}

/// The end of a start that has no delay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairDrop {
    /// A value that is not 0 if the key is not used again, so that a start that stays in its map is
    /// removed.
    pub last: Option<IntegerNode>,
}

/// The end of a delay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairFinish {
    /// A value without a sign, in place of the delay since a start.
    pub value: Option<IntegerNode>,
    /// A value that must be equal to a kept one, of one word, by the index of that.
    pub same: Option<(IntegerNode, usize)>,
    /// The key of the delay; None if pairs are only counted.
    pub row: Option<Vec<RowPart>>,
    /// Delays of at most this are not recorded.
    pub longer_ns: Option<i64>,
    /// Counts of pairs, but for those of different values and of too short delays.
    pub counts: Vec<PairCount>,
    /// Counts of ends without a start.
    pub singles: Vec<PairCount>,
    /// Whether ends without their start are counted, as [`PairCounter::Startless`]. Such an end has
    /// a start with another value of `same`, or none. If it is the first event of its key, its
    /// start may be older than the run, and it is not counted. The layout must be in place.
    pub strict: bool,
    /// The delays that are also written as records.
    pub long: Option<LongPairs>,
}

/// A part of the key of a delay or of a count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowPart {
    /// A value of the end.
    Own(KeyPart),
    /// A kept value of the start, by its index.
    Kept(usize),
}

/// A count by key of some of the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairCount {
    /// Its index in [`PairLayout::counts`].
    pub number: usize,
    /// A value that must not be 0.
    pub condition: Option<IntegerNode>,
    /// Its key. Only a count of pairs has kept values.
    pub key: Vec<RowPart>,
    /// Values that are summed, by column.
    pub sums: Vec<PairSum>,
}

/// A value that a count sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairSum {
    /// A value of the event, and its type.
    Own(IntegerNode, IntegerWidth),
    /// A kept value of the start, by its index, and its type.
    Kept(usize, IntegerWidth),
}

impl PairSum {
    /// Returns its value if that is the same for all events.
    pub fn constant(&self) -> Option<i128> {
        match self {
            PairSum::Own(value, of) => value.constant(*of),
            PairSum::Kept(..) => None,
        }
    }

    /// Returns a value of the event.
    fn own(&self) -> Option<&IntegerNode> {
        match self {
            PairSum::Own(value, _) => Some(value),
            PairSum::Kept(..) => None,
        }
    }
}

impl PairFinish {
    /// Returns whether it reads the time.
    fn has_delay(&self) -> bool {
        let is_read = self.row.is_some() || self.longer_ns.is_some() || self.long.is_some();
        self.value.is_none() && is_read
    }
}

/// Returns whether programs for this layout fit their stack.
pub fn fits(layout: &PairLayout) -> bool {
    PairStack::of(layout).is_some()
}

impl PairedEvent {
    /// Returns the program. It ignores the event where the instructions that `filter` appends jump
    /// to its label; they find the record in R6 and the thread in R7, and may change R0 to R5.
    /// R1 is the record and, for a layout with long delays, R2 the context.
    ///
    /// Returns None if an expression or the layout is too large.
    pub fn program(
        &self,
        layout: &PairLayout,
        maps: PairMaps,
        filter: impl FnOnce(&mut Assembler, Label),
    ) -> Option<Vec<u64>> {
        let stack = PairStack::of(layout)?;
        let mut code = Assembler::default();
        let (out, end) = (code.label(), code.label());
        let further = self.values().into_iter().cloned().collect();
        let event = CountedEvent { further, ..self.event.clone() };
        code.copy(CONTEXT, R1);
        if layout.long.is_some() {
            code.store(AccessSize::B8, R10, stack.context, R2);
        }
        event.find_task(&mut code, out);
        event.find_cpu(&mut code, out);
        code.set(UNDEFINED, 0);
        event.check_scope(&mut code, maps.scope, out)?;
        filter(&mut code, end);
        event.check_conditions(&mut code, end)?;
        find_active(&mut code, maps.active, out);
        find_table(&mut code, maps.tables, out);
        let mut writer = PairWriter { code: &mut code, layout, maps, stack, end };
        match &self.part {
            PairPart::Start(start) => {
                store_parts(writer.code, &event.key, stack.pair)?;
                writer.start(start)?;
            }
            PairPart::Finish(finish) => {
                if finish.has_delay() {
                    // As early as possible: the rest of the program is not a part of the delay.
                    writer.code.call(BpfHelper::TimeNs);
                    writer.code.store(AccessSize::B8, R10, stack.delay, R0);
                }
                if finish.value.is_none() {
                    store_parts(writer.code, &event.key, stack.pair)?;
                }
                writer.finish(finish, event.scoped != ScopedTask::Any)?;
            }
            PairPart::Drop(drop) => {
                store_parts(writer.code, &event.key, stack.pair)?;
                writer.drop_start(drop)?;
            }
        }
        code.place(end);
        add_undefined(&mut code, (maps.active, maps.undefined), out);
        code.place(out);
        code.set(R0, 1);
        code.exit();
        code.finish()
    }

    /// Returns the expressions besides the key.
    fn values(&self) -> Vec<&IntegerNode> {
        let mut parts: Vec<&KeyPart> = Vec::new();
        let mut values: Vec<&IntegerNode> = Vec::new();
        match &self.part {
            PairPart::Start(start) => parts.extend(&start.kept),
            PairPart::Finish(finish) => {
                values.extend(&finish.value);
                values.extend(finish.same.iter().map(|(node, _)| node));
                parts.extend(finish.row.iter().flatten().filter_map(RowPart::own));
            }
            PairPart::Drop(drop) => values.extend(&drop.last),
        }
        for count in self.part.counts() {
            values.extend(&count.condition);
            values.extend(count.sums.iter().filter_map(PairSum::own));
            parts.extend(count.key.iter().filter_map(RowPart::own));
        }
        values.extend(parts.into_iter().filter_map(KeyPart::number));
        values
    }
}

impl RowPart {
    /// Returns a value of the end.
    fn own(&self) -> Option<&KeyPart> {
        match self {
            RowPart::Own(part) => Some(part),
            RowPart::Kept(_) => None,
        }
    }
}

/// A thread whose start is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedThread {
    /// The current one, which ends, at `sched:sched_process_exit`.
    Current,
    /// The last one with the number of a new thread, which is at this offset of the record of
    /// `task:task_newtask`: its last switch came after its end.
    Before(i16),
}

/// Returns the program that removes the start of a thread that has ended.
pub fn end_program(layout: &PairLayout, maps: PairMaps, of: EndedThread) -> Option<Vec<u64>> {
    let stack = PairStack::of(layout)?;
    let mut code = Assembler::default();
    let (out, remove) = (code.label(), code.label());
    match of {
        EndedThread::Current => {
            code.call(BpfHelper::CurrentTask);
            code.copy_low(THREAD, R0);
        }
        EndedThread::Before(new_at) => code.load(AccessSize::B4, THREAD, R1, new_at),
    }
    code.store(AccessSize::B8, R10, stack.pair, THREAD);
    find_active(&mut code, maps.active, out);
    find_table(&mut code, maps.tables, out);
    let mut writer = PairWriter { code: &mut code, layout, maps, stack, end: out };
    writer.find_start();
    writer.code.jump_if(JumpIf::Equal, R0, 0, out);
    writer.code.load(AccessSize::B8, R1, R0, 0);
    writer.code.jump_if(JumpIf::Equal, R1, 0, remove);
    writer.increment(PairCounter::Exited);
    writer.code.place(remove);
    writer.remove_start();
    code.place(out);
    code.set(R0, 1);
    code.exit();
    code.finish()
}
