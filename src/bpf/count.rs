//! The program that counts and sums the events of a tracepoint by key, so that no record is
//! written.
//!
//! It reads once which of two tables is in use, so that all that it adds belongs to one interval.
//! User space sets the other one and waits until no program uses the old one; then the old one does
//! not change any more. Each CPU has its own values. If a table has no room for a key, the event is
//! added to the rest, one value per CPU.
//!
//! It always returns 1: a program belongs to the tracepoint, not to a perf event, and 0 would drop
//! the records of every other perf user.

use super::assembler::BpfRegister::*;
use super::assembler::{AccessSize, Assembler, BpfAlu, BpfHelper, JumpIf, Label};
use super::call_chain::ChainMaps;
use super::expression::{
    CGROUP_AT, CONTEXT, CPU_AT, ExpressionWriter, PROCESS_AT, PROGRAM_STACK, THREAD, UNDEFINED,
};
use super::integer::{IntegerNode, IntegerWidth};
use super::key::{KeyPart, KeyShape, add_chain, store_chain, store_parts};
use super::map_access::{INDEX_AT, NO_EXIST, TABLE_AT, WORD, look_up, look_up_at, table_key};
use super::record_text::{COMM_WORDS, RecordText};
use super::task_scope::TaskScope;

/// A value that is summed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummedValue {
    /// Index of the sum's column.
    pub column: usize,
    /// The value.
    pub value: IntegerNode,
    /// Its type.
    pub of: IntegerWidth,
}

/// The count of an event. Programs that share a table have keys with parts of the same sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedEvent {
    /// Threads whose events are omitted, in the kernel's numbers.
    pub omitted: Vec<i32>,
    /// CPUs whose events are counted; None counts all.
    pub cpus: Option<Vec<u32>>,
    /// Values that are not 0 for an event that counts.
    pub conditions: Vec<IntegerNode>,
    /// The key.
    pub key: Vec<KeyPart>,
    /// Values that are summed.
    pub sums: Vec<SummedValue>,
    /// The name of a row: that of its first event that has one.
    pub name: Option<RecordText>,
    /// Further values that the program reads.
    pub further: Vec<IntegerNode>,
    /// The task that must be watched.
    pub scoped: ScopedTask,
}

/// The task of an event that must be watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ScopedTask {
    /// The one that raises it.
    #[default]
    Current,
    /// The one that it is about, by its thread.
    About(IntegerNode),
    /// Any: its start is that of a watched task.
    Any,
}

/// The layout of keys and values of a table, in words of 8 bytes.
///
/// A value has the count; with `named`, the time of the first event with a name, 0 before it, and
/// the name; then for each column that is not in `constants` the low and the high word of a sum of
/// 128 bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountLayout {
    /// The shape of a key.
    pub key: KeyShape,
    /// Whether rows have names.
    pub named: bool,
    /// Number of sums.
    pub sums: usize,
    /// Columns to which each event adds the same, and that number: the count has them already.
    pub constants: Vec<(usize, i128)>,
}

/// File descriptors of the maps of a program.
#[derive(Clone, Copy, Debug)]
pub struct CountMaps {
    /// An array of maps: the two tables.
    pub tables: i32,
    /// An array whose only element is the index of the table in use; [`NO_TABLE`] while nothing is
    /// counted.
    pub active: i32,
    /// An array per CPU: for each table, the number of keys that were added to it.
    pub added: i32,
    /// An array per CPU: for each table, the value of the events without room in it.
    pub rest: i32,
    /// An array per CPU: the number of operations that C does not define.
    pub undefined: i32,
    /// The tasks whose events are counted.
    pub scope: TaskScope,
    /// The call chains, of keys that have one.
    pub chains: ChainMaps,
}

/// The index of the table in use while nothing is counted.
pub const NO_TABLE: u32 = 2;

impl CountLayout {
    /// Returns the index of the low word of a sum that is stored.
    pub fn sum_at(&self, column: usize) -> usize {
        let constants = self.constants.iter().filter(|(of, _)| *of < column).count();
        1 + if self.named { 1 + COMM_WORDS } else { 0 } + 2 * (column - constants)
    }

    /// Returns what each event adds to a column whose sum is not stored.
    pub fn constant(&self, column: usize) -> Option<i128> {
        self.constants.iter().find(|(of, _)| *of == column).map(|(_, constant)| *constant)
    }

    /// Returns the size of a value in bytes.
    pub fn value_bytes(&self) -> usize {
        self.sum_at(self.sums) * WORD
    }

    /// Returns whether a key and a value fit the stack of a program.
    pub fn fits(&self) -> bool {
        let used = usize::from(INDEX_AT.unsigned_abs());
        used + self.key.bytes() + self.value_bytes() <= PROGRAM_STACK as usize
    }
}

impl CountedEvent {
    /// Returns the program. It counts nothing where the instructions that `filter` appends jump to
    /// its label; they find the record in R6 and the thread in R7, and may change R0 to R5.
    ///
    /// Returns None if an expression or the layout is too large.
    pub fn program(
        &self,
        layout: &CountLayout,
        maps: CountMaps,
        filter: impl FnOnce(&mut Assembler, Label),
    ) -> Option<Vec<u64>> {
        let mut code = Assembler::default();
        let out = code.label();
        let key_at = INDEX_AT - i16::try_from(layout.key.bytes()).ok()?;
        if !layout.fits() || KeyShape::of(&self.key) != layout.key {
            return None;
        }
        code.copy(CONTEXT, R1);
        self.find_task(&mut code, out);
        self.find_cpu(&mut code, out);
        code.set(UNDEFINED, 0);
        self.check_scope(&mut code, maps.scope, out)?;
        let rejected = code.label();
        filter(&mut code, rejected);
        self.check_conditions(&mut code, rejected)?;
        store_parts(&mut code, &self.key, key_at)?;
        store_chain(&mut code, &layout.key, maps.chains, key_at, out);
        find_value(&mut code, layout, maps, key_at, out);
        self.add(&mut code, layout)?;
        // Operations in a filter count, too.
        code.place(rejected);
        add_undefined(&mut code, (maps.active, maps.undefined), out);
        code.place(out);
        code.set(R0, 1);
        code.exit();
        code.finish()
    }

    /// Returns whether a value reads something.
    fn reads(&self, is: impl Fn(&IntegerNode) -> bool) -> bool {
        let key = self.key.iter().filter_map(KeyPart::number);
        let sums = self.sums.iter().map(|sum| &sum.value);
        let all = key.chain(sums).chain(&self.conditions).chain(&self.further);
        all.into_iter().any(|node| node.has(&is))
    }

    /// Jumps to `fail` if a condition is 0.
    pub(super) fn check_conditions(&self, code: &mut Assembler, fail: Label) -> Option<()> {
        let mut conditions = self.conditions.iter();
        conditions.try_for_each(|node| ExpressionWriter::new(code).condition(node, fail))
    }

    /// Sets [`THREAD`], and stores the process and the cgroup; jumps to `out` for omitted threads.
    pub(super) fn find_task(&self, code: &mut Assembler, out: Label) {
        code.call(BpfHelper::CurrentTask);
        code.copy_low(THREAD, R0);
        for thread in &self.omitted {
            code.jump_if(JumpIf::Equal, THREAD, *thread, out);
        }
        if self.reads(|node| *node == IntegerNode::Process) {
            code.alu_constant(BpfAlu::ShiftRight, R0, 32);
            code.store(AccessSize::B8, R10, PROCESS_AT, R0);
        }
        if self.reads(|node| *node == IntegerNode::Cgroup) {
            code.call(BpfHelper::CurrentCgroup);
            code.store(AccessSize::B8, R10, CGROUP_AT, R0);
        }
    }

    /// Jumps to `out` if the task is not watched.
    pub(super) fn check_scope(
        &self,
        code: &mut Assembler,
        scope: TaskScope,
        out: Label,
    ) -> Option<()> {
        match &self.scoped {
            ScopedTask::Current => scope.check(code, out),
            ScopedTask::About(thread) => {
                ExpressionWriter::new(code).value(thread)?;
                scope.check_thread(code, out);
            }
            ScopedTask::Any => {}
        }
        Some(())
    }

    /// Stores the CPU; jumps to `out` on CPUs whose events are not counted.
    pub(super) fn find_cpu(&self, code: &mut Assembler, out: Label) {
        if self.cpus.is_none() && !self.reads(|node| *node == IntegerNode::Cpu) {
            return;
        }
        code.call(BpfHelper::ProcessorId);
        code.copy_low(R0, R0);
        code.store(AccessSize::B8, R10, CPU_AT, R0);
        let Some(cpus) = &self.cpus else { return };
        let found = code.label();
        for cpu in cpus {
            code.jump_if(JumpIf::Equal, R0, (*cpu).cast_signed(), found);
        }
        code.jump(out);
        code.place(found);
    }

    /// Adds the event to the value in R8.
    fn add(&self, code: &mut Assembler, layout: &CountLayout) -> Option<()> {
        code.load(AccessSize::B8, R1, R8, 0);
        code.add_constant(R1, 1);
        code.store(AccessSize::B8, R8, 0, R1);
        if let Some(name) = &self.name {
            let known = code.label();
            code.load(AccessSize::B8, R1, R8, WORD as i16);
            code.jump_if(JumpIf::Unequal, R1, 0, known);
            code.call(BpfHelper::TimeNs);
            code.store(AccessSize::B8, R8, WORD as i16, R0);
            name.store(code, R8, 2 * WORD as i16)?;
            code.place(known);
        }
        for sum in self.sums.iter().filter(|sum| layout.constant(sum.column).is_none()) {
            ExpressionWriter::new(code).value(&sum.value)?;
            add_to_sum(code, layout.sum_at(sum.column), sum.of.signed)?;
        }
        Some(())
    }
}

impl SummedValue {
    /// Returns its value if that is the same for all events.
    pub fn constant(&self) -> Option<i128> {
        self.value.constant(self.of)
    }
}

/// Adds the number in R1 to the sum of 128 bits at a word of the value in R8.
pub(super) fn add_to_sum(code: &mut Assembler, word: usize, signed: bool) -> Option<()> {
    let low = i16::try_from(word * WORD).ok()?;
    let carried = code.label();
    code.load(AccessSize::B8, R2, R8, low);
    code.add(R2, R1);
    code.store(AccessSize::B8, R8, low, R2);
    code.load(AccessSize::B8, R3, R8, low + WORD as i16);
    code.jump_if_register(JumpIf::GreaterEqual, R2, R1, carried);
    code.add_constant(R3, 1);
    code.place(carried);
    if signed {
        code.alu_constant(BpfAlu::ArithmeticShift, R1, 63);
        code.add(R3, R1);
    }
    code.store(AccessSize::B8, R8, low + WORD as i16, R3);
    Some(())
}

/// Sets R8 to the value of the key on the stack, or to that of the rest; jumps to `out` if there is
/// no table.
fn find_value(
    code: &mut Assembler,
    layout: &CountLayout,
    maps: CountMaps,
    key_at: i16,
    out: Label,
) {
    let [found, no_room] = [(); 2].map(|()| code.label());
    find_active(code, maps.active, out);
    find_table(code, maps.tables, out);
    add_chain(code, &layout.key, maps.chains, key_at, [found, no_room]);
    find_row(code, key_at, layout.value_bytes(), maps.added, found);
    code.place(no_room);
    look_up_at(code, maps.rest, TABLE_AT);
    code.jump_if(JumpIf::Equal, R0, 0, out);
    code.place(found);
    code.copy(R8, R0);
}

/// Stores the index of the table in use at [`TABLE_AT`].
pub(super) fn find_active(code: &mut Assembler, active: i32, out: Label) {
    look_up(code, active, 0);
    code.jump_if(JumpIf::Equal, R0, 0, out);
    code.load(AccessSize::B4, R1, R0, 0);
    code.store(AccessSize::B4, R10, TABLE_AT, R1);
}

/// Sets R8 to the table whose index [`find_active`] has stored; jumps to `out` if nothing is
/// counted.
pub(super) fn find_table(code: &mut Assembler, tables: i32, out: Label) {
    look_up_at(code, tables, TABLE_AT);
    code.jump_if(JumpIf::Equal, R0, 0, out);
    code.copy(R8, R0);
}

/// Sets R0 to the value of the key at `key_at` in the table in R8 and jumps to `found`; adds the
/// key if needed, and counts it in `added`. The instructions behind run if it has no room. Uses the
/// stack below the key.
pub(super) fn find_row(
    code: &mut Assembler,
    key_at: i16,
    value_bytes: usize,
    added: i32,
    found: Label,
) {
    table_key(code, key_at);
    code.call(BpfHelper::MapLookup);
    code.jump_if(JumpIf::Unequal, R0, 0, found);
    let value_at = key_at - value_bytes as i16;
    for at in (value_at..key_at).step_by(WORD) {
        code.store_constant(AccessSize::B8, R10, at, 0);
    }
    table_key(code, key_at);
    code.copy(R3, R10);
    code.add_constant(R3, value_at.into());
    code.set(R4, NO_EXIST);
    code.call(BpfHelper::MapUpdate);
    // Another CPU may have been faster; its key serves this one, too.
    let known = code.label();
    code.jump_if(JumpIf::Unequal, R0, 0, known);
    increment(code, added, 0);
    code.place(known);
    table_key(code, key_at);
    code.call(BpfHelper::MapLookup);
    code.jump_if(JumpIf::Unequal, R0, 0, found);
}

/// Adds 1 to the word at an offset of the element for the table in use; changes R0 to R5.
pub(super) fn increment(code: &mut Assembler, map: i32, at: i16) {
    let end = code.label();
    look_up_at(code, map, TABLE_AT);
    code.jump_if(JumpIf::Equal, R0, 0, end);
    code.load(AccessSize::B8, R1, R0, at);
    code.add_constant(R1, 1);
    code.store(AccessSize::B8, R0, at, R1);
    code.place(end);
}

/// Adds the undefined operations of this event to the counter of the CPU, if events are counted.
/// Changes R0 to R5 and the index of the table in use, which must not be read any more.
pub(super) fn add_undefined(code: &mut Assembler, (active, undefined): (i32, i32), out: Label) {
    code.jump_if(JumpIf::Equal, UNDEFINED, 0, out);
    find_active(code, active, out);
    code.jump_if(JumpIf::Equal, R1, NO_TABLE.cast_signed(), out);
    look_up(code, undefined, 0);
    code.jump_if(JumpIf::Equal, R0, 0, out);
    code.load(AccessSize::B8, R1, R0, 0);
    code.add(R1, UNDEFINED);
    code.store(AccessSize::B8, R0, 0, R1);
}
