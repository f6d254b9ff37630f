//! Pairs whose delay is longer than a threshold: their end writes a record with the fields of both
//! events to a perf event, so that a script gets the few pairs that it prints.
//!
//! The end stores its part on the stack directly below the start, which the map has kept, so that
//! one helper call writes both. In words of 8 bytes:
//!
//! ```text
//! end:   side, task, time, fields
//! start: time, kept values, side, task, name of the task, CPU, fields
//! ```
//!
//! User space replaces the word before the fields of each event by the common fields of a record,
//! so that the record can be read in place.

use super::layout::{FINISH_HEAD, PairCounter, PairLayout, START_HEAD};
use super::writer::PairWriter;
use crate::bpf::assembler::BpfRegister::*;
use crate::bpf::assembler::{AccessSize, BpfHelper, JumpIf};
use crate::bpf::expression::CONTEXT;
use crate::bpf::map_access::WORD;
use crate::bpf::record_output::RING_IS_FULL;
use crate::bpf::record_text::{COMM_WORDS, RecordText};

/// Bytes of the common fields of a record, which a program does not see.
pub const COMMON_BYTES: usize = 8;

/// The fields of an event that its program copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiedFields {
    /// The number of the side, by which user space finds its format.
    pub side: i32,
    /// Offset in the record and size of each field, in bytes.
    pub fields: Vec<(usize, usize)>,
}

/// The pairs that an end writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongPairs {
    /// Delays of at most this are not written.
    pub than_ns: i64,
    /// The fields of the end.
    pub copied: CopiedFields,
}

impl CopiedFields {
    /// Returns the size of the fields, in bytes.
    pub fn bytes(&self) -> usize {
        let end = self.fields.iter().map(|(at, size)| at + size).max().unwrap_or(0);
        end.saturating_sub(COMMON_BYTES).next_multiple_of(WORD)
    }
}

/// Where a written record has its parts: offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongRecord {
    /// The side of the end, 8 bytes.
    pub finish_side: usize,
    /// The process of the end in the upper 4 bytes, and its thread.
    pub finish_task: usize,
    /// The time of the end, which is also the beginning of its record.
    pub finish: usize,
    /// The time of the start.
    pub start_time: usize,
    /// The side of the start.
    pub start_side: usize,
    /// The process of the start in the upper 4 bytes, and its thread.
    pub start_task: usize,
    /// The name of the task of the start.
    pub start_comm: usize,
    /// The CPU of the start, which is also the beginning of its record.
    pub start: usize,
    /// The size.
    pub bytes: usize,
}

impl LongRecord {
    /// Returns the places in the records of a layout; None if it has none.
    pub fn of(layout: &PairLayout) -> Option<LongRecord> {
        let start_time = layout.long?.finish_bytes();
        let start_side = start_time + WORD + layout.kept.bytes();
        Some(LongRecord {
            finish_side: 0,
            finish_task: WORD,
            finish: 2 * WORD,
            start_time,
            start_side,
            start_task: start_side + WORD,
            start_comm: start_side + 2 * WORD,
            start: start_side + (2 + COMM_WORDS) * WORD,
            bytes: start_time + layout.start_bytes(),
        })
    }
}

impl PairWriter<'_> {
    /// Stores what a start adds to its values, at an offset from R10. Changes R0 to R5.
    pub(super) fn copy_start(&mut self, of: &CopiedFields, at: i16) -> Option<()> {
        self.code.store_constant(AccessSize::B8, R10, at, of.side);
        self.code.call(BpfHelper::CurrentTask);
        self.code.store(AccessSize::B8, R10, at + WORD as i16, R0);
        RecordText::Comm.store(self.code, R10, at + 2 * WORD as i16)?;
        self.code.call(BpfHelper::ProcessorId);
        self.code.copy_low(R0, R0);
        self.code.store(AccessSize::B8, R10, at + (START_HEAD - WORD) as i16, R0);
        let bytes = self.layout.long?.start;
        self.copy_fields(of, at + START_HEAD as i16, bytes)
    }

    /// Writes the record of a pair whose delay is longer than a threshold. The delay, and the start
    /// with its time, are on the stack. Changes R0 to R5.
    pub(super) fn write_long(&mut self, of: &LongPairs) -> Option<()> {
        let (layout, stack) = (self.layout.long?, self.stack);
        let size = LongRecord::of(self.layout)?.bytes;
        let done = self.code.label();
        self.code.load(AccessSize::B8, R1, R10, stack.delay);
        self.code.set_long(R2, of.than_ns.cast_unsigned());
        self.code.jump_if_register(JumpIf::SignedLessEqual, R1, R2, done);
        let at = stack.finish;
        self.code.store_constant(AccessSize::B8, R10, at, of.copied.side);
        self.code.call(BpfHelper::CurrentTask);
        self.code.store(AccessSize::B8, R10, at + WORD as i16, R0);
        self.code.load(AccessSize::B8, R1, R10, stack.delay);
        self.code.load(AccessSize::B8, R2, R10, stack.start);
        self.code.add(R1, R2);
        self.code.store(AccessSize::B8, R10, at + 2 * WORD as i16, R1);
        self.copy_fields(&of.copied, at + FINISH_HEAD as i16, layout.finish)?;
        self.code.load(AccessSize::B8, R1, R10, stack.context);
        self.code.set_map(R2, self.maps.records);
        // BPF_F_CURRENT_CPU.
        self.code.set_low(R3, -1);
        self.code.copy(R4, R10);
        self.code.add_constant(R4, at.into());
        self.code.set(R5, i32::try_from(size).ok()?);
        self.code.call(BpfHelper::PerfOutput);
        self.code.jump_if(JumpIf::SignedGreaterEqual, R0, 0, done);
        // The emulator of the tests extends a constant without its sign.
        self.code.negate(R0);
        self.code.jump_if(JumpIf::Equal, R0, RING_IS_FULL, done);
        self.increment(PairCounter::Unwritten);
        self.code.place(done);
        Some(())
    }

    /// Copies fields of the record to `bytes` at an offset from R10; the bytes between them are 0.
    fn copy_fields(&mut self, of: &CopiedFields, to: i16, bytes: usize) -> Option<()> {
        for word in (0..bytes as i16).step_by(WORD) {
            self.code.store_constant(AccessSize::B8, R10, to + word, 0);
        }
        for (field, size) in &of.fields {
            let (mut from, end) = (i16::try_from(*field).ok()?, i16::try_from(field + size).ok()?);
            while from < end {
                let at = to + from - COMMON_BYTES as i16;
                let size = AccessSize::largest(at, from, end - from);
                self.code.load(size, R1, CONTEXT, from);
                self.code.store(size, R10, at, R1);
                from += size.bytes() as i16;
            }
        }
        Some(())
    }
}
