//! Pairs whose delay is longer than a threshold: their end writes a record with the fields of both
//! events to a perf event, so that a script gets the few pairs that it prints.
//!
//! The end stores its part on the stack directly below the start, which the map has kept, so that
//! one helper call writes both. In words of 8 bytes:
//!
//! ```text
//! end:   side, task, time, fields, texts
//! start: time, kept values, side, task, name of the task, CPU, fields, texts
//! ```
//!
//! User space replaces the word before the fields of each event by the common fields of a record,
//! so that the record can be read in place. A text whose place differs between records is copied
//! behind the fields. A pair with a text of more than 15 bytes is not written but counted
//! ([`PairCounter::Unwritten`]).

use super::layout::{FINISH_HEAD, PairCounter, PairLayout, START_HEAD};
use super::writer::PairWriter;
use crate::bpf::assembler::BpfRegister::*;
use crate::bpf::assembler::{AccessSize, BpfHelper, JumpIf, Label};
use crate::bpf::expression::CONTEXT;
use crate::bpf::map_access::WORD;
use crate::bpf::record_output::RING_IS_FULL;
use crate::bpf::record_text::{COMM_WORDS, RecordText, TextLocation};

/// Bytes of the common fields of a record, which a program does not see.
pub const COMMON_BYTES: usize = 8;

/// Bytes of a [`TextLocation`]: the place and the length.
const LOCATION_BYTES: usize = 4;

/// The fields of an event that its program copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiedFields {
    /// The number of the side, by which user space finds its format.
    pub side: i32,
    /// Offset in the record and size of each field, in bytes.
    pub fields: Vec<(usize, usize)>,
    /// The texts whose place differs between records.
    pub texts: Vec<TextLocation>,
}

/// Bytes for each text, with the NUL that it usually has.
const TEXT_BYTES: usize = COMM_WORDS * WORD;

/// Stored in place of the side of a start if one of its texts does not fit [`TEXT_BYTES`].
const TOO_LONG: i32 = i32::MAX;

/// The pairs that an end writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongPairs {
    /// Delays of at most this are not written.
    pub than_ns: i64,
    /// The fields of the end.
    pub copied: CopiedFields,
}

impl CopiedFields {
    /// Returns the size of the fields and texts, in bytes.
    pub fn bytes(&self) -> usize {
        self.field_bytes() + self.texts.len() * TEXT_BYTES
    }

    fn field_bytes(&self) -> usize {
        let ends = self.fields.iter().map(|(at, size)| at + size);
        let locations = self.texts.iter().map(|text| text.at as usize + LOCATION_BYTES);
        let end = ends.chain(locations).max().unwrap_or(0);
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
        let [too_long, copied] = [(); 2].map(|()| self.code.label());
        let bytes = self.layout.long?.start;
        self.copy_fields(of, at + START_HEAD as i16, bytes, too_long)?;
        // The verifier refuses unreachable instructions.
        if !of.texts.is_empty() {
            self.code.jump(copied);
            self.code.place(too_long);
            self.code.store_constant(AccessSize::B8, R10, at, TOO_LONG);
            self.code.place(copied);
        }
        Some(())
    }

    /// Writes the record of a pair whose delay is longer than a threshold, or counts it if a text
    /// is too long. The delay, and the start with its time, are on the stack. Changes R0 to R5.
    pub(super) fn write_long(&mut self, of: &LongPairs) -> Option<()> {
        let (layout, stack) = (self.layout.long?, self.stack);
        let [unwritten, done] = [(); 2].map(|()| self.code.label());
        self.code.load(AccessSize::B8, R1, R10, stack.delay);
        self.code.set_long(R2, of.than_ns.cast_unsigned());
        self.code.jump_if_register(JumpIf::SignedLessEqual, R1, R2, done);
        let places = LongRecord::of(self.layout)?;
        let at = stack.finish;
        self.code.load(AccessSize::B8, R1, R10, at + places.start_side as i16);
        self.code.jump_if(JumpIf::Equal, R1, TOO_LONG, unwritten);
        self.code.store_constant(AccessSize::B8, R10, at, of.copied.side);
        self.code.call(BpfHelper::CurrentTask);
        self.code.store(AccessSize::B8, R10, at + WORD as i16, R0);
        self.code.load(AccessSize::B8, R1, R10, stack.delay);
        self.code.load(AccessSize::B8, R2, R10, stack.start);
        self.code.add(R1, R2);
        self.code.store(AccessSize::B8, R10, at + 2 * WORD as i16, R1);
        self.copy_fields(&of.copied, at + FINISH_HEAD as i16, layout.finish, unwritten)?;
        self.code.load(AccessSize::B8, R1, R10, stack.context);
        self.code.set_map(R2, self.maps.records);
        // BPF_F_CURRENT_CPU.
        self.code.set_low(R3, -1);
        self.code.copy(R4, R10);
        self.code.add_constant(R4, at.into());
        self.code.set(R5, i32::try_from(places.bytes).ok()?);
        self.code.call(BpfHelper::PerfOutput);
        self.code.jump_if(JumpIf::SignedGreaterEqual, R0, 0, done);
        // The emulator of the tests extends a constant without its sign.
        self.code.negate(R0);
        self.code.jump_if(JumpIf::Equal, R0, RING_IS_FULL, done);
        self.code.place(unwritten);
        self.increment(PairCounter::Unwritten);
        self.code.place(done);
        Some(())
    }

    /// Copies fields and texts of the record to `bytes` at an offset from R10; the bytes between
    /// them are 0. Jumps to `too_long` if a text does not fit.
    fn copy_fields(
        &mut self,
        of: &CopiedFields,
        to: i16,
        bytes: usize,
        too_long: Label,
    ) -> Option<()> {
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
        let behind = of.field_bytes();
        for (n, text) in of.texts.iter().enumerate() {
            self.copy_text(*text, to, i16::try_from(behind + n * TEXT_BYTES).ok()?, too_long);
        }
        Some(())
    }

    /// Copies a text to `behind` after the fields at `to`, and stores its new location. Jumps to
    /// `too_long` if it does not fit.
    fn copy_text(&mut self, text: TextLocation, to: i16, behind: i16, too_long: Label) {
        let copied = self.code.label();
        text.load_length(self.code, R2);
        self.code.jump_if(JumpIf::SignedGreater, R2, TEXT_BYTES as i32, too_long);
        self.code.copy(R1, R2);
        self.code.shift_left(R1, 16);
        self.code.add_constant(R1, i32::from(behind + COMMON_BYTES as i16 - text.from));
        self.code.store(AccessSize::B4, R10, to + text.at - COMMON_BYTES as i16, R1);
        self.code.jump_if(JumpIf::Equal, R2, 0, copied);
        text.copy_array(self.code, to + behind);
        self.code.place(copied);
    }
}
