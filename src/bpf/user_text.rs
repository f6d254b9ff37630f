//! The program that writes the record of a system call's entry with the strings that its pointer
//! arguments point to.
//!
//! It runs at the tracepoint, before perf writes a record, and writes the whole record itself, in
//! the layout of the format: the common fields, the arguments, and for each string a location
//! (`__data_loc`) and the text behind all of them. It always returns 1: a program belongs to the
//! tracepoint, not to a perf event, and 0 would drop the records of every other perf user.
//!
//! The kernel gives the program the call's arguments at the offsets of the format, but a pointer in
//! place of the common fields (`perf_call_bpf_enter()`, kernel/trace/trace_syscalls.c).

use super::assembler::BpfRegister::{self, *};
use super::assembler::{AccessSize, Assembler, BpfHelper, JumpIf, Label};
use super::record_output::{FAILED_AT, look_up, write_record};

/// Maximum bytes of a string with its NUL: `PATH_MAX`.
pub const TEXT_MAX: usize = 4096;

/// The text of a string that cannot be read, as in the kernel's own probes.
pub const FAULT: &[u8; 8] = b"(fault)\0";

/// Size in bytes of a CPU's scratch value, in which a record is built. All programs share it: no
/// other one runs on the CPU meanwhile.
pub const SCRATCH_BYTES: usize = 256 + TEXTS_MAX * TEXT_MAX;

/// Maximum number of strings of a record.
const TEXTS_MAX: usize = 3;

/// Size in bytes of a CPU's counters ([`UserTextCounts`]).
pub const COUNTS_BYTES: usize = 16;
/// Offset of the number of strings that could not be read.
const FAULTS_AT: i16 = 8;
/// Place on the stack of the number of strings of this record that could not be read.
const RECORD_FAULTS: i16 = -16;

/// File descriptors of the maps of a program.
#[derive(Clone, Copy, Debug)]
pub struct UserTextMaps {
    /// An array of one scratch value per CPU.
    pub scratch: i32,
    /// An array of one set of counters per CPU.
    pub counts: i32,
    /// The array of perf events to which it writes.
    pub events: i32,
}

/// Counters of programs, on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserTextCounts {
    /// Records that were not written for another reason than a full ring, which the kernel counts.
    pub failed: u64,
    /// Strings in written records that were not read: their page was not in memory, or the address
    /// was invalid.
    pub faults: u64,
}

/// A field that is copied from the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedField {
    /// Offset in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
}

/// A string that is added to the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddedText {
    /// Offset of the pointer.
    pub pointer: usize,
    /// Offset of the location, 4 bytes.
    pub location: usize,
}

/// The record that a program writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserTextRecord {
    /// `common_type`: the number of the tracepoint.
    pub id: u16,
    /// Fields that are copied.
    pub fields: Vec<CopiedField>,
    /// Strings that are added.
    pub texts: Vec<AddedText>,
    /// Offset of the first string.
    pub texts_at: usize,
}

impl UserTextRecord {
    /// Returns the program. It writes nothing for the threads `own`, in the kernel's numbers, and
    /// where the instructions that `filter` appends jump to its label; they find the context in R6
    /// and the thread in R7, and may change R0 to R5.
    ///
    /// Returns None if the record is too large.
    pub fn program(
        &self,
        maps: UserTextMaps,
        own: &[i32],
        filter: impl FnOnce(&mut Assembler, Label),
    ) -> Option<Vec<u64>> {
        if self.texts_at + self.texts.len() * TEXT_MAX > SCRATCH_BYTES {
            return None;
        }
        let mut code = Assembler::default();
        let out = code.label();
        code.copy(R6, R1);
        code.call(BpfHelper::CurrentTask);
        code.copy_low(R7, R0);
        for tid in own {
            code.jump_if(JumpIf::Equal, R7, *tid, out);
        }
        filter(&mut code, out);
        look_up(&mut code, maps.scratch);
        code.jump_if(JumpIf::Equal, R0, 0, out);
        code.copy(R8, R0);
        code.store_constant(AccessSize::B4, R8, 0, i32::from(self.id));
        code.store(AccessSize::B4, R8, 4, R7);
        for field in &self.fields {
            let size = AccessSize::of(field.size)?;
            let offset = i16::try_from(field.offset).ok()?;
            code.load(size, R1, R6, offset);
            code.store(size, R8, offset, R1);
        }
        code.set(R9, i32::try_from(self.texts_at).ok()?);
        code.store_constant(AccessSize::B8, R10, RECORD_FAULTS, 0);
        for text in &self.texts {
            read_text(&mut code, *text)?;
        }
        code.copy(R1, R6);
        code.set_map(R2, maps.events);
        // BPF_F_CURRENT_CPU.
        code.set_low(R3, -1);
        code.copy(R4, R8);
        code.copy(R5, R9);
        let done = code.label();
        write_record(&mut code, maps.counts, done);
        code.jump(out);
        code.place(done);
        code.jump_if(JumpIf::SignedLess, R0, 0, out);
        count_faults(&mut code, maps.counts, out);
        code.place(out);
        code.set(R0, 1);
        code.exit();
        code.finish()
    }
}

/// Appends a string at the offset R9 of the record, and its location; R9 is then behind it.
fn read_text(code: &mut Assembler, text: AddedText) -> Option<()> {
    let (fault, empty, done) = (code.label(), code.label(), code.label());
    end_of_record(code, R1);
    code.set(R2, TEXT_MAX as i32);
    code.load(AccessSize::B8, R3, R6, i16::try_from(text.pointer).ok()?);
    code.call(BpfHelper::ReadUserText);
    code.jump_if(JumpIf::Equal, R0, 0, empty);
    code.jump_if(JumpIf::SignedLess, R0, 0, fault);
    code.jump_if(JumpIf::Greater, R0, TEXT_MAX as i32, fault);
    code.jump(done);
    // Some kernels (6.1 is one) return 0 for an empty text, and write no NUL.
    code.place(empty);
    end_of_record(code, R1);
    code.store_constant(AccessSize::B1, R1, 0, 0);
    code.set(R0, 1);
    code.jump(done);
    code.place(fault);
    code.load(AccessSize::B8, R1, R10, RECORD_FAULTS);
    code.add_constant(R1, 1);
    code.store(AccessSize::B8, R10, RECORD_FAULTS, R1);
    end_of_record(code, R1);
    code.set_long(R2, u64::from_ne_bytes(*FAULT));
    code.store(AccessSize::B8, R1, 0, R2);
    code.set(R0, FAULT.len() as i32);
    code.place(done);
    code.copy(R1, R0);
    code.shift_left(R1, 16);
    code.or(R1, R9);
    code.store(AccessSize::B4, R8, i16::try_from(text.location).ok()?, R1);
    code.add(R9, R0);
    Some(())
}

/// Adds the strings of this record that could not be read to the counters. Jumps to `out` or ends
/// before it.
fn count_faults(code: &mut Assembler, counts: i32, out: Label) {
    code.load(AccessSize::B8, R9, R10, RECORD_FAULTS);
    code.jump_if(JumpIf::Equal, R9, 0, out);
    look_up(code, counts);
    code.jump_if(JumpIf::Equal, R0, 0, out);
    code.load(AccessSize::B8, R1, R0, FAULTS_AT);
    code.add(R1, R9);
    code.store(AccessSize::B8, R0, FAULTS_AT, R1);
}

/// Sets a register to the end of the record so far.
fn end_of_record(code: &mut Assembler, register: BpfRegister) {
    code.copy(register, R8);
    code.add(register, R9);
}

impl UserTextCounts {
    /// Returns the sums over CPUs, of which `values` has the counters; one that is too short counts
    /// nothing.
    pub fn of_cpus(values: &[Vec<u8>]) -> UserTextCounts {
        let each = values.iter().filter_map(|value| UserTextCounts::read(value));
        each.fold(UserTextCounts::default(), UserTextCounts::plus)
    }

    fn plus(self, other: UserTextCounts) -> UserTextCounts {
        UserTextCounts { failed: self.failed + other.failed, faults: self.faults + other.faults }
    }

    /// Reads the counters of a CPU; None if the value is too short.
    fn read(value: &[u8]) -> Option<UserTextCounts> {
        let word = |at: i16| {
            let bytes = value.get(usize::try_from(at).ok()?..)?.first_chunk()?;
            Some(u64::from_ne_bytes(*bytes))
        };
        Some(UserTextCounts { failed: word(FAILED_AT)?, faults: word(FAULTS_AT)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> UserTextRecord {
        UserTextRecord {
            id: 782,
            fields: vec![CopiedField { offset: 8, size: 4 }, CopiedField { offset: 16, size: 8 }],
            texts: vec![AddedText { pointer: 16, location: 24 }],
            texts_at: 28,
        }
    }

    const MAPS: UserTextMaps = UserTextMaps { scratch: 3, counts: 4, events: 5 };

    #[test]
    fn a_record_that_exceeds_the_scratch_value_gives_no_program() {
        let mut record = record();
        record.texts = vec![record.texts[0]; 3];
        assert!(record.program(MAPS, &[], |_, _| ()).is_some());
        record.texts_at = 300;
        assert_eq!(record.program(MAPS, &[], |_, _| ()), None);
    }

    #[test]
    fn every_way_through_the_program_returns_1() {
        let code = record().program(MAPS, &[77], |_, _| ()).unwrap();
        let end = code.len();
        assert_eq!(code[end - 2..], [0x1_0000_00b7, 0x95]);
        assert_eq!(code.iter().filter(|one| **one & 0xff == 0x95).count(), 1, "one exit");
    }

    #[test]
    fn a_field_of_another_size_gives_no_program() {
        let mut record = record();
        record.fields[0].size = 3;
        assert_eq!(record.program(MAPS, &[], |_, _| ()), None);
    }

    #[test]
    fn counters_are_read_in_the_order_of_their_offsets() {
        let mut value = [0; COUNTS_BYTES];
        (value[0], value[8]) = (2, 5);
        assert_eq!(UserTextCounts::read(&value), Some(UserTextCounts { failed: 2, faults: 5 }));
        assert_eq!(UserTextCounts::read(&value[..15]), None);
    }
}
