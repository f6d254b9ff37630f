//! Writes the parts of the programs of pairs.

use super::layout::{LongLayout, PairCounter, PairLayout, ROW_GREATEST, ROW_LEAST, ROW_SUM};
use super::{PairDrop, PairFinish, PairMaps, PairStart, RowPart};
use crate::bpf::assembler::BpfRegister::*;
use crate::bpf::assembler::{AccessSize, Assembler, BpfAlu, BpfHelper, JumpIf, Label};
use crate::bpf::bucket::{BUCKETS, LONGEST_NS, find_bucket};
use crate::bpf::count::{find_row, increment};
use crate::bpf::expression::{ExpressionWriter, PROGRAM_STACK};
use crate::bpf::integer::IntegerNode;
use crate::bpf::key::store_parts;
use crate::bpf::map_access::{INDEX_AT, TABLE_AT, WORD, look_up_at};

/// Offsets from R10 of what a program has on the stack.
#[derive(Clone, Copy)]
pub(super) struct PairStack {
    /// The delay.
    pub(super) delay: i16,
    /// The context of the program, if it writes records.
    pub(super) context: i16,
    /// The key of the pair.
    pub(super) pair: i16,
    /// The start: its time and the values that it keeps.
    pub(super) start: i16,
    /// The part of the end in the record of a long delay, just below the start.
    pub(super) finish: i16,
    /// The key of a row. A new row is below.
    pub(super) row: i16,
}

impl PairStack {
    /// Returns None if something does not fit.
    pub(super) fn of(layout: &PairLayout) -> Option<PairStack> {
        let delay = INDEX_AT - WORD as i16;
        let context = delay - if layout.long.is_some() { WORD as i16 } else { 0 };
        let pair = context - i16::try_from(layout.pair.bytes()).ok()?;
        let start = pair - i16::try_from(layout.start_bytes()).ok()?;
        let finish_bytes = layout.long.map_or(0, LongLayout::finish_bytes);
        let finish = start - i16::try_from(finish_bytes).ok()?;
        let row = finish - i16::try_from(layout.key_bytes()).ok()?;
        let used = usize::from(row.unsigned_abs()) + layout.row_bytes();
        let fits = used <= PROGRAM_STACK as usize;
        fits.then_some(PairStack { delay, context, pair, start, finish, row })
    }
}

/// Appends the instructions of a program.
pub(super) struct PairWriter<'a> {
    pub(super) code: &'a mut Assembler,
    pub(super) layout: &'a PairLayout,
    pub(super) maps: PairMaps,
    pub(super) stack: PairStack,
    /// The end of the program.
    pub(super) end: Label,
}

impl PairWriter<'_> {
    /// Stores the start; unless it is `once`, it replaces an earlier one of its key. Changes R8.
    pub(super) fn start(&mut self, start: &PairStart) -> Option<()> {
        let at = self.stack.start;
        store_parts(self.code, &start.kept, at + WORD as i16)?;
        if let Some(copied) = &start.copied {
            self.copy_start(copied, at + (WORD + self.layout.kept.bytes()) as i16)?;
        }
        self.find_start();
        let [insert, stored] = [(); 2].map(|()| self.code.label());
        self.code.jump_if(JumpIf::Equal, R0, 0, insert);
        match self.layout.in_place {
            true => {
                self.overwrite_start(start.once);
                self.code.jump(stored);
            }
            false if start.once => self.code.jump(self.end),
            // Its end may remove it meanwhile, and another key take its place: an update replaces
            // the element atomically.
            false => self.increment(PairCounter::Unmatched),
        }
        self.code.place(insert);
        self.code.call(BpfHelper::TimeNs);
        self.code.store(AccessSize::B8, R10, at, R0);
        self.put_start();
        self.code.jump_if(JumpIf::Equal, R0, 0, stored);
        self.increment(PairCounter::Evicted);
        self.code.place(stored);
        self.increment(PairCounter::Starts);
        if start.is_end {
            self.increment(PairCounter::Joint);
        }
        self.counts(&start.counts)
    }

    /// Writes the start over that in R0, which has ended if its time is 0. With `once` it ends the
    /// program if that has not ended.
    fn overwrite_start(&mut self, once: bool) {
        self.code.copy(R8, R0);
        self.code.load(AccessSize::B8, R1, R8, 0);
        if once {
            self.code.jump_if(JumpIf::Unequal, R1, 0, self.end);
        } else {
            let is_new = self.code.label();
            self.code.jump_if(JumpIf::Equal, R1, 0, is_new);
            self.increment(PairCounter::Unmatched);
            self.code.place(is_new);
        }
        for word in (WORD..self.layout.start_bytes()).step_by(WORD) {
            self.code.load(AccessSize::B8, R1, R10, self.stack.start + word as i16);
            self.code.store(AccessSize::B8, R8, word as i16, R1);
        }
        self.code.call(BpfHelper::TimeNs);
        self.code.store(AccessSize::B8, R8, 0, R0);
    }

    /// Adds the value of an event. R8 is the table.
    fn add_value(&mut self, value: &IntegerNode, finish: &PairFinish) -> Option<()> {
        ExpressionWriter::new(self.code).value(value)?;
        self.code.store(AccessSize::B8, R10, self.stack.delay, R1);
        self.add_to_row(finish.row.as_deref()?)?;
        self.counts(&finish.counts)
    }

    /// Adds the delay in R1, which is also on the stack, to its row.
    fn add_to_row(&mut self, row: &[RowPart]) -> Option<()> {
        find_bucket(self.code);
        self.code.store(AccessSize::B8, R10, self.stack.row, R3);
        self.store_row(row)?;
        self.find_delay_row();
        self.add_delay();
        Some(())
    }

    /// Ends the delay that began with the start of the same key, or adds a value. Without
    /// `counts_singles`, ends without a start may be those of tasks that are not watched. R8 is the
    /// table.
    pub(super) fn finish(&mut self, finish: &PairFinish, counts_singles: bool) -> Option<()> {
        if let Some(value) = &finish.value {
            return self.add_value(value, finish);
        }
        let (stack, end) = (self.stack, self.end);
        let [unknown, ended, different, unrecorded] = [(); 4].map(|()| self.code.label());
        self.take_start(unknown, ended, finish.has_delay());
        if let Some((node, kept)) = &finish.same {
            ExpressionWriter::new(self.code).value(node)?;
            self.code.load(AccessSize::B8, R2, R10, self.kept_at(*kept)?);
            self.code.jump_if_register(JumpIf::Unequal, R1, R2, different);
        }
        if let Some(longer) = finish.longer_ns {
            self.code.load(AccessSize::B8, R1, R10, stack.delay);
            self.code.set_long(R2, longer.cast_unsigned());
            self.code.jump_if_register(JumpIf::SignedLessEqual, R1, R2, unrecorded);
        }
        match &finish.row {
            Some(row) => self.add_ordered(row)?,
            None => self.increment(PairCounter::Unrecorded),
        }
        self.counts(&finish.counts)?;
        if let Some(long) = &finish.long {
            self.write_long(long)?;
        }
        self.code.jump(end);
        // The verifier refuses unreachable instructions.
        if finish.same.is_some() {
            self.code.place(different);
            if finish.strict {
                self.increment(PairCounter::Startless);
            }
        }
        if finish.longer_ns.is_some() || finish.same.is_some() {
            self.code.place(unrecorded);
            self.increment(PairCounter::Unrecorded);
            self.code.jump(end);
        }
        self.begin_single(finish, unknown, ended);
        if counts_singles {
            self.increment(PairCounter::Singles);
        }
        self.counts(&finish.singles)
    }

    /// Begins the part for ends without a start. With `strict`, the end of an `unknown` key stores
    /// a start that has ended, so that the next end counts.
    fn begin_single(&mut self, finish: &PairFinish, unknown: Label, ended: Label) {
        let single = self.code.label();
        self.code.place(unknown);
        if finish.strict {
            for word in (0..self.layout.start_bytes()).step_by(WORD) {
                self.code.store_constant(AccessSize::B8, R10, self.stack.start + word as i16, 0);
            }
            self.put_start();
            self.code.jump(single);
        }
        self.code.place(ended);
        if finish.strict {
            self.increment(PairCounter::Startless);
        }
        self.code.place(single);
    }

    /// Adds the delay on the stack to its row, unless it is negative.
    fn add_ordered(&mut self, row: &[RowPart]) -> Option<()> {
        let [ordered, measured] = [(); 2].map(|()| self.code.label());
        self.code.load(AccessSize::B8, R1, R10, self.stack.delay);
        self.code.jump_if(JumpIf::SignedGreater, R1, -1, ordered);
        self.increment(PairCounter::Disordered);
        self.increment(PairCounter::Unrecorded);
        self.code.jump(measured);
        self.code.place(ordered);
        self.add_to_row(row)?;
        self.code.place(measured);
        Some(())
    }

    /// Drops the start of the key on the stack.
    pub(super) fn drop_start(&mut self, drop: &PairDrop) -> Option<()> {
        let is_dropped = self.code.label();
        self.find_start();
        self.code.jump_if(JumpIf::Equal, R0, 0, self.end);
        if !self.layout.in_place {
            self.remove_start();
            // Another CPU has removed it.
            self.code.jump_if(JumpIf::Unequal, R0, 0, self.end);
            self.increment(PairCounter::Dropped);
            return Some(());
        }
        self.code.load(AccessSize::B8, R1, R0, 0);
        self.code.jump_if(JumpIf::Equal, R1, 0, is_dropped);
        self.code.store_constant(AccessSize::B8, R0, 0, 0);
        self.increment(PairCounter::Dropped);
        self.code.place(is_dropped);
        if let Some(last) = &drop.last {
            ExpressionWriter::new(self.code).condition(last, self.end)?;
            self.remove_start();
        }
        Some(())
    }

    /// Copies the start to the stack, removes it, and computes the delay if there is one. Jumps to
    /// `unknown` if the map has no start of the key, and to `ended` if the last one has ended or
    /// was dropped.
    fn take_start(&mut self, unknown: Label, ended: Label, has_delay: bool) {
        let stack = self.stack;
        self.find_start();
        self.code.jump_if(JumpIf::Equal, R0, 0, unknown);
        self.code.load(AccessSize::B8, R1, R0, 0);
        self.code.jump_if(JumpIf::Equal, R1, 0, ended);
        if self.layout.long.is_some() {
            self.code.store(AccessSize::B8, R10, stack.start, R1);
        }
        if has_delay {
            self.code.load(AccessSize::B8, R2, R10, stack.delay);
            self.code.alu(BpfAlu::Sub, R2, R1);
            self.code.store(AccessSize::B8, R10, stack.delay, R2);
        }
        for word in (WORD..self.layout.start_bytes()).step_by(WORD) {
            self.code.load(AccessSize::B8, R1, R0, word as i16);
            self.code.store(AccessSize::B8, R10, stack.start + word as i16, R1);
        }
        if self.layout.in_place {
            self.code.store_constant(AccessSize::B8, R0, 0, 0);
        } else {
            self.remove_start();
            // Another CPU has removed it.
            self.code.jump_if(JumpIf::Unequal, R0, 0, unknown);
        }
    }

    /// Sets R0 to the start of the key on the stack, or to 0.
    pub(super) fn find_start(&mut self) {
        self.start_arguments();
        self.code.call(BpfHelper::MapLookup);
    }

    /// Stores the key and the start that are on the stack; R0 is 0 if there was room.
    fn put_start(&mut self) {
        self.start_arguments();
        self.code.copy(R3, R10);
        self.code.add_constant(R3, self.stack.start.into());
        self.code.set(R4, 0);
        self.code.call(BpfHelper::MapUpdate);
    }

    /// Removes the start of the key on the stack; R0 is 0 if there was one.
    pub(super) fn remove_start(&mut self) {
        self.start_arguments();
        self.code.call(BpfHelper::MapDelete);
    }

    fn start_arguments(&mut self) {
        self.code.set_map(R1, self.maps.starts);
        self.code.copy(R2, R10);
        self.code.add_constant(R2, self.stack.pair.into());
    }

    /// Returns the offset of a kept value from R10.
    pub(super) fn kept_at(&self, index: usize) -> Option<i16> {
        let before = self.layout.kept.parts.get(..index)?.iter().map(|part| part.words);
        Some(self.stack.start + ((1 + before.sum::<usize>()) * WORD) as i16)
    }

    /// Stores the key of a row behind its first word.
    pub(super) fn store_row(&mut self, row: &[RowPart]) -> Option<()> {
        let mut at = self.stack.row + WORD as i16;
        for part in row {
            at += match part {
                RowPart::Own(part) => {
                    store_parts(self.code, std::slice::from_ref(part), at)?;
                    part.shape().words * WORD
                }
                RowPart::Kept(index) => {
                    let from = self.kept_at(*index)?;
                    let bytes = self.layout.kept.parts.get(*index)?.words * WORD;
                    for word in (0..bytes as i16).step_by(WORD) {
                        self.code.load(AccessSize::B8, R1, R10, from + word);
                        self.code.store(AccessSize::B8, R10, at + word, R1);
                    }
                    bytes
                }
            } as i16;
        }
        self.clear_key(at);
        Some(())
    }

    /// Clears the words of a row's key from `at` on.
    fn clear_key(&mut self, at: i16) {
        for at in (at..self.stack.finish).step_by(WORD) {
            self.code.store_constant(AccessSize::B8, R10, at, 0);
        }
    }

    /// Sets R8 to the row of the delay. R8 is the table.
    fn find_delay_row(&mut self) {
        let found = self.code.label();
        find_row(self.code, self.stack.row, self.layout.row_bytes(), self.maps.added, found);
        self.find_rest(BUCKETS);
        self.code.load(AccessSize::B8, R2, R10, self.stack.row);
        self.code.add(R1, R2);
        self.code.store(AccessSize::B4, R10, INDEX_AT, R1);
        look_up_at(self.code, self.maps.rest_buckets, INDEX_AT);
        self.code.jump_if(JumpIf::Equal, R0, 0, self.end);
        self.code.load(AccessSize::B8, R1, R0, 0);
        self.code.add_constant(R1, 1);
        self.code.store(AccessSize::B8, R0, 0, R1);
        self.find_rest(self.layout.rest_rows());
        self.code.store(AccessSize::B4, R10, INDEX_AT, R1);
        look_up_at(self.code, self.maps.rest, INDEX_AT);
        self.code.jump_if(JumpIf::Equal, R0, 0, self.end);
        self.code.place(found);
        self.code.copy(R8, R0);
    }

    /// Sets R1 to the index at which the rest of the table begins, in an array with `size` elements
    /// for each table.
    pub(super) fn find_rest(&mut self, size: usize) {
        self.code.load(AccessSize::B4, R1, R10, TABLE_AT);
        self.code.alu_constant(BpfAlu::Mul, R1, size as i32);
    }

    /// Adds the delay to the row in R8.
    fn add_delay(&mut self) {
        let [carried, not_least, not_greatest, in_range] = [(); 4].map(|()| self.code.label());
        let code = &mut *self.code;
        code.load(AccessSize::B8, R1, R10, self.stack.delay);
        code.load(AccessSize::B8, R2, R8, 0);
        code.add_constant(R2, 1);
        code.store(AccessSize::B8, R8, 0, R2);
        code.load(AccessSize::B8, R2, R8, ROW_SUM);
        code.add(R2, R1);
        code.store(AccessSize::B8, R8, ROW_SUM, R2);
        code.jump_if_register(JumpIf::GreaterEqual, R2, R1, carried);
        code.load(AccessSize::B8, R2, R8, ROW_SUM + WORD as i16);
        code.add_constant(R2, 1);
        code.store(AccessSize::B8, R8, ROW_SUM + WORD as i16, R2);
        code.place(carried);
        code.load(AccessSize::B8, R2, R8, ROW_GREATEST);
        code.jump_if_register(JumpIf::GreaterEqual, R2, R1, not_greatest);
        code.store(AccessSize::B8, R8, ROW_GREATEST, R1);
        code.place(not_greatest);
        // The complement of the least is the greatest complement, so that it can begin with 0.
        code.copy(R3, R1);
        code.alu_constant(BpfAlu::Xor, R3, -1);
        code.load(AccessSize::B8, R2, R8, ROW_LEAST);
        code.jump_if_register(JumpIf::GreaterEqual, R2, R3, not_least);
        code.store(AccessSize::B8, R8, ROW_LEAST, R3);
        code.place(not_least);
        code.set_long(R2, LONGEST_NS);
        code.jump_if_register(JumpIf::LessEqual, R1, R2, in_range);
        self.increment(PairCounter::Clamped);
        self.code.place(in_range);
    }

    /// Adds 1 to a counter; changes R0 to R5.
    pub(super) fn increment(&mut self, counter: PairCounter) {
        increment(self.code, self.maps.counters, counter.at());
    }
}
