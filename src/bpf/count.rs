//! The program that counts and sums the events of a tracepoint by key, so that no record is
//! written.
//!
//! It finds the table of the current interval in an array of maps. User space exchanges the table
//! there and waits until no program uses the old one; then the old one does not change any more.
//! Each CPU has its own values. If a table has no room for a key, the event is added to the rest,
//! one value per CPU.
//!
//! It always returns 1: a program belongs to the tracepoint, not to a perf event, and 0 would drop
//! the records of every other perf user.

use super::assembler::BpfRegister::*;
use super::assembler::{AccessSize, Assembler, BpfAlu, BpfHelper, JumpIf, Label};
use super::expression::{
    CONTEXT, CPU_AT, ExpressionWriter, PROCESS_AT, PROGRAM_STACK, THREAD, UNDEFINED,
};
use super::integer::{IntegerNode, IntegerWidth};
use super::record_text::{COMM_WORDS, RecordText};
use super::task_scope::TaskScope;

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// 64 bits.
    Integer(IntegerNode),
    /// Text, padded with NULs.
    Text(RecordText),
}

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
    /// The key.
    pub key: Vec<KeyPart>,
    /// Values that are summed.
    pub sums: Vec<SummedValue>,
    /// The name of a row: that of its first event that has one.
    pub name: Option<RecordText>,
}

/// The layout of keys and values of a table, in words of 8 bytes.
///
/// A value has the count; with `named`, the time of the first event with a name, 0 before it, and
/// the name; then for each column the low and the high word of a sum of 128 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountLayout {
    /// Words of each part of a key.
    pub key: Vec<usize>,
    /// Whether each part of a key is text.
    pub texts: Vec<bool>,
    /// Whether rows have names.
    pub named: bool,
    /// Number of sums.
    pub sums: usize,
}

/// File descriptors of the maps of a program.
#[derive(Clone, Copy, Debug)]
pub struct CountMaps {
    /// An array of maps, whose only element is the table; empty while nothing is counted.
    pub table: i32,
    /// An array whose only element is the index of the rest that is in use.
    pub active: i32,
    /// An array per CPU: two values for events without room in the table.
    pub rest: i32,
    /// An array per CPU: the number of operations that C does not define.
    pub undefined: i32,
    /// The tasks whose events are counted.
    pub scope: TaskScope,
}

/// Offset from R10 of the key of an array, 4 bytes.
const INDEX_AT: i16 = PROCESS_AT - 8;
/// Bytes of a word.
const WORD: usize = 8;
/// Flag of an update: only if the key is not there.
const NO_EXIST: i32 = 1;

impl CountLayout {
    /// Returns the size of a key in bytes.
    pub fn key_bytes(&self) -> usize {
        self.key.iter().sum::<usize>() * WORD
    }

    /// Returns the index of the low word of a sum.
    pub fn sum_at(&self, column: usize) -> usize {
        1 + if self.named { 1 + COMM_WORDS } else { 0 } + 2 * column
    }

    /// Returns the size of a value in bytes.
    pub fn value_bytes(&self) -> usize {
        self.sum_at(self.sums) * WORD
    }

    /// Returns whether a key and a value fit the stack of a program.
    pub fn fits(&self) -> bool {
        let used = usize::from(INDEX_AT.unsigned_abs());
        used + self.key_bytes() + self.value_bytes() <= PROGRAM_STACK as usize
    }
}

impl CountedEvent {
    /// Returns the words of each part of its key.
    pub fn key_words(&self) -> Vec<usize> {
        self.key.iter().map(KeyPart::words).collect()
    }

    /// Returns whether each part of its key is text.
    pub fn key_texts(&self) -> Vec<bool> {
        self.key.iter().map(|part| matches!(part, KeyPart::Text(_))).collect()
    }

    /// Returns the program. It counts nothing where the instructions that `filter` appends jump to
    /// its label; they find the record in R6 and the thread in R7, and may change R0 to R5.
    ///
    /// Returns None if an expression or the layout is too large.
    pub fn program(
        &self,
        layout: &CountLayout,
        maps: CountMaps,
        filter: impl FnOnce(&mut Assembler, Label) -> Option<()>,
    ) -> Option<Vec<u64>> {
        let mut code = Assembler::default();
        let out = code.label();
        let key_at = INDEX_AT - i16::try_from(layout.key_bytes()).ok()?;
        if !layout.fits() || self.key_words() != layout.key {
            return None;
        }
        code.copy(CONTEXT, R1);
        self.find_task(&mut code, out);
        maps.scope.check(&mut code, out);
        self.find_cpu(&mut code, out);
        code.set(UNDEFINED, 0);
        let rejected = code.label();
        filter(&mut code, rejected)?;
        self.store_key(&mut code, key_at)?;
        find_value(&mut code, layout, maps, key_at, out);
        self.add(&mut code, layout)?;
        // Operations in a filter count, too.
        code.place(rejected);
        add_undefined(&mut code, maps, out);
        code.place(out);
        code.set(R0, 1);
        code.exit();
        code.finish()
    }

    /// Returns whether a value reads something.
    fn reads(&self, is: impl Fn(&IntegerNode) -> bool) -> bool {
        let key = self.key.iter().filter_map(|part| match part {
            KeyPart::Integer(node) => Some(node),
            KeyPart::Text(_) => None,
        });
        key.chain(self.sums.iter().map(|sum| &sum.value)).any(|node| node.has(&is))
    }

    fn find_task(&self, code: &mut Assembler, out: Label) {
        code.call(BpfHelper::CurrentTask);
        code.copy_low(THREAD, R0);
        for thread in &self.omitted {
            code.jump_if(JumpIf::Equal, THREAD, *thread, out);
        }
        if self.reads(|node| *node == IntegerNode::Process) {
            code.alu_constant(BpfAlu::ShiftRight, R0, 32);
            code.store(AccessSize::B8, R10, PROCESS_AT, R0);
        }
    }

    fn find_cpu(&self, code: &mut Assembler, out: Label) {
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

    fn store_key(&self, code: &mut Assembler, key_at: i16) -> Option<()> {
        let mut at = key_at;
        for part in &self.key {
            match part {
                KeyPart::Integer(node) => {
                    ExpressionWriter::new(code).value(node)?;
                    code.store(AccessSize::B8, R10, at, R1);
                }
                KeyPart::Text(text) => text.store(code, R10, at)?,
            }
            at += (part.words() * WORD) as i16;
        }
        Some(())
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
        for sum in &self.sums {
            ExpressionWriter::new(code).value(&sum.value)?;
            let low = i16::try_from(layout.sum_at(sum.column) * WORD).ok()?;
            let carried = code.label();
            code.load(AccessSize::B8, R2, R8, low);
            code.add(R2, R1);
            code.store(AccessSize::B8, R8, low, R2);
            code.load(AccessSize::B8, R3, R8, low + WORD as i16);
            code.jump_if_register(JumpIf::GreaterEqual, R2, R1, carried);
            code.add_constant(R3, 1);
            code.place(carried);
            if sum.of.signed {
                code.alu_constant(BpfAlu::ArithmeticShift, R1, 63);
                code.add(R3, R1);
            }
            code.store(AccessSize::B8, R8, low + WORD as i16, R3);
        }
        Some(())
    }
}

impl KeyPart {
    fn words(&self) -> usize {
        match self {
            KeyPart::Integer(_) => 1,
            KeyPart::Text(text) => text.words(),
        }
    }
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
    let found = code.label();
    look_up(code, maps.table, Some(0));
    code.jump_if(JumpIf::Equal, R0, 0, out);
    code.copy(R8, R0);
    let arguments = |code: &mut Assembler| {
        code.copy(R1, R8);
        code.copy(R2, R10);
        code.add_constant(R2, key_at.into());
    };
    arguments(code);
    code.call(BpfHelper::MapLookup);
    code.jump_if(JumpIf::Unequal, R0, 0, found);
    let value_at = key_at - layout.value_bytes() as i16;
    for at in (value_at..key_at).step_by(WORD) {
        code.store_constant(AccessSize::B8, R10, at, 0);
    }
    arguments(code);
    code.copy(R3, R10);
    code.add_constant(R3, value_at.into());
    code.set(R4, NO_EXIST);
    code.call(BpfHelper::MapUpdate);
    // Another CPU may have been faster; its key serves this one, too.
    arguments(code);
    code.call(BpfHelper::MapLookup);
    code.jump_if(JumpIf::Unequal, R0, 0, found);
    look_up(code, maps.active, None);
    code.jump_if(JumpIf::Equal, R0, 0, out);
    code.load(AccessSize::B4, R1, R0, 0);
    code.store(AccessSize::B4, R10, INDEX_AT, R1);
    look_up(code, maps.rest, None);
    code.jump_if(JumpIf::Equal, R0, 0, out);
    code.place(found);
    code.copy(R8, R0);
}

/// Looks up an element of an array: at `index`, or at that on the stack.
fn look_up(code: &mut Assembler, map: i32, index: Option<i32>) {
    if let Some(index) = index {
        code.store_constant(AccessSize::B4, R10, INDEX_AT, index);
    }
    code.set_map(R1, map);
    code.copy(R2, R10);
    code.add_constant(R2, INDEX_AT.into());
    code.call(BpfHelper::MapLookup);
}

/// Adds the undefined operations of this event to the counter of the CPU.
fn add_undefined(code: &mut Assembler, maps: CountMaps, out: Label) {
    code.jump_if(JumpIf::Equal, UNDEFINED, 0, out);
    look_up(code, maps.undefined, Some(0));
    code.jump_if(JumpIf::Equal, R0, 0, out);
    code.load(AccessSize::B8, R1, R0, 0);
    code.add(R1, UNDEFINED);
    code.store(AccessSize::B8, R0, 0, R1);
}
