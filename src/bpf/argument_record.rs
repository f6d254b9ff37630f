//! The record of a tracepoint, built on the stack of a program from the tracepoint's arguments.
//!
//! A program of a raw tracepoint runs where the event happens, before the kernel makes a record. It
//! costs less, and the kernel runs it also while another program runs on the CPU. The instructions
//! here store the fields that a program reads, at their places in the record, so that the program
//! itself is the same as for a record. A text is copied behind these fields, and its location leads
//! there.

pub mod request;

use std::rc::Rc;

use super::assembler::BpfRegister::{self, *};
use super::assembler::{AccessSize, Assembler, BpfAlu, BpfHelper, JumpIf, Label};
use super::expression::STACK;
use super::map_access::WORD;
use super::memory_use::MemoryUse;
use super::record_text::TEXT_MAX;
use request::{RequestField, RequestLayout, SECTOR_SHIFT};

/// The fields of a record that are known from arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentRecord {
    /// The fields.
    pub fields: Vec<ArgumentField>,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentField {
    /// Its offset in the record.
    pub at: i16,
    /// Its size in bytes.
    pub bytes: i16,
    /// Its value.
    pub value: ArgumentValue,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentValue {
    /// An argument, by its index.
    Argument(i16),
    /// A text whose place differs between records (`__data_loc`, `__rel_loc`). The field is its
    /// location.
    Text {
        /// The index of the argument.
        of: i16,
        /// The offset in the structure to which the argument points.
        at: i16,
        /// Whether the structure contains a pointer to the text, not the bytes of the text.
        is_pointer: bool,
        /// Offset in the record to which the location is relative.
        from: i16,
    },
    /// Bytes of the structure to which an argument points.
    Member {
        /// The index of the argument.
        of: i16,
        /// The offset of the bytes.
        at: i16,
    },
    /// A member of 4 bytes in a field of 8.
    Extended {
        /// The index of the argument.
        of: i16,
        /// The offset of the member.
        at: i16,
        /// Whether it has a sign.
        signed: bool,
    },
    /// An argument of 4 bytes that is a number of bytes, in sectors.
    Sectors(i16),
    /// A field of a block request.
    Request(RequestField, Rc<RequestLayout>),
    /// `prev_state` of `sched:sched_switch`, of its four arguments.
    SwitchState {
        /// Offset of `exit_state` in `struct task_struct`.
        exit_state_at: i16,
    },
}

/// Bytes for the copy of a text: a word more than a program keeps, which shows that the text is
/// longer.
const TEXT_ROOM: i16 = (TEXT_MAX + WORD) as i16;
/// Bytes of `(null)` with its NUL.
const NULL_BYTES: i32 = 7;

/// States of a task in include/linux/sched.h, since 6.7: those that `sched:sched_switch` shows by
/// their own bits, up to `TASK_PARKED`.
const TASK_REPORT: i32 = 0x7f;
/// `TASK_REPORT_IDLE`: the state of a task in `TASK_IDLE`.
const REPORT_IDLE: i32 = 0x80;
/// `TASK_REPORT_MAX`: the state of a task that was preempted.
const REPORT_PREEMPTED: i32 = 0x100;
/// `TASK_UNINTERRUPTIBLE`.
const UNINTERRUPTIBLE: i32 = 2;
/// `TASK_IDLE`: `TASK_UNINTERRUPTIBLE | TASK_NOLOAD`.
const TASK_IDLE: i32 = 0x402;
/// `TASK_RTLOCK_WAIT | TASK_FROZEN`: shown as uninterruptible.
const LOCK_OR_FROZEN: i32 = 0x9000;

/// Prepends the copy of the context (R1) to R2, where a program of pairs expects it. At a
/// tracepoint the context is the record; at a raw tracepoint [`ArgumentRecord::before`] sets both.
pub fn with_context(program: &[u64]) -> Option<Vec<u64>> {
    let mut code = Assembler::default();
    code.copy(R2, R1);
    Some([code.finish()?, program.to_vec()].concat())
}

impl ArgumentRecord {
    /// Returns a program for the arguments of the tracepoint, from one for its record, which finds
    /// the context in R2 ([`with_context`]). Returns None if it reads a field or a text that is
    /// not known, uses the record for more than loads and texts, or leaves no room on its stack.
    pub fn before(&self, program: &[u64]) -> Option<Vec<u64>> {
        let used = MemoryUse::of(program)?;
        let end = used.loads.iter().map(|load| load.end).max().unwrap_or(0);
        let texts_at = end.checked_add(WORD as i16 - 1)? & -(WORD as i16);
        let texts_bytes = TEXT_ROOM.checked_mul(used.texts.len().try_into().ok()?)?;
        let texts_end = texts_at.checked_add(texts_bytes)?;
        let base = used.lowest.checked_sub(texts_end)? & -(WORD as i16);
        if base < -STACK {
            return None;
        }
        let mut fields: Vec<&ArgumentField> = Vec::new();
        for load in &used.loads {
            let holds = |field: &&ArgumentField| {
                field.at <= load.start && load.end <= field.at + field.bytes
            };
            let field = self.fields.iter().find(holds)?;
            if !fields.iter().any(|known| known.at == field.at) {
                fields.push(field);
            }
        }
        let mut code = Assembler::default();
        for field in fields {
            match used.texts.iter().position(|at| *at == field.at) {
                Some(n) => field.store_text(&mut code, base, texts_at + n as i16 * TEXT_ROOM)?,
                None => field.store(&mut code, base)?,
            }
        }
        code.copy(R2, R1);
        code.copy(R1, R10);
        code.add_constant(R1, base.into());
        Some([code.finish()?, program.to_vec()].concat())
    }
}

impl ArgumentField {
    /// Stores it in the record at `base` from R10. R1 has the arguments; R2 to R5 are overwritten.
    fn store(&self, code: &mut Assembler, base: i16) -> Option<()> {
        let to = base + self.at;
        match self.value {
            ArgumentValue::Argument(of) => {
                load_argument(code, R3, of);
                self.store_number(code, to)?;
            }
            ArgumentValue::Extended { of, at, signed } => {
                load_argument(code, R2, of);
                code.load(AccessSize::B4, R3, R2, at);
                if signed {
                    code.sign_extend(R3, 4);
                }
                self.store_number(code, to)?;
            }
            ArgumentValue::Sectors(of) => {
                load_argument(code, R3, of);
                code.copy_low(R3, R3);
                code.alu_constant(BpfAlu::ShiftRight, R3, SECTOR_SHIFT);
                self.store_number(code, to)?;
            }
            ArgumentValue::Request(field, ref layout) => {
                field.compute(code, layout);
                self.store_number(code, to)?;
            }
            ArgumentValue::Member { of, at } => {
                load_argument(code, R2, of);
                let mut done = 0;
                while done < self.bytes {
                    let size = AccessSize::largest(to + done, at + done, self.bytes - done);
                    code.load(size, R3, R2, at + done);
                    code.store(size, R10, to + done, R3);
                    done += size.bytes() as i16;
                }
            }
            ArgumentValue::SwitchState { exit_state_at } => {
                switch_state(code, exit_state_at);
                self.store_number(code, to)?;
            }
            // A location is stored only with its text.
            ArgumentValue::Text { .. } => return None,
        }
        Some(())
    }

    /// Copies a text to the offset `place` of the record, which is at `base` from R10, and stores
    /// its location. R1 has the arguments; R0 and R2 to R6 are overwritten. Returns None if it is
    /// not a text.
    fn store_text(&self, code: &mut Assembler, base: i16, place: i16) -> Option<()> {
        let ArgumentValue::Text { of, at, is_pointer, from } = self.value else { return None };
        let found = code.label();
        load_argument(code, R3, of);
        match is_pointer {
            true => code.load(AccessSize::B8, R3, R3, at),
            false => code.add_constant(R3, at.into()),
        }
        code.copy(R6, R1);
        code.copy(R1, R10);
        code.add_constant(R1, (base + place).into());
        code.set(R2, TEXT_ROOM.into());
        code.call(BpfHelper::ReadKernelText);
        code.jump_if(JumpIf::SignedGreater, R0, 0, found);
        // The kernel records this for a null pointer.
        code.set_long(R0, u64::from_ne_bytes(*b"(null)\0\0"));
        code.store(AccessSize::B8, R10, base + place, R0);
        code.set(R0, NULL_BYTES);
        code.place(found);
        code.shift_left(R0, 16);
        code.add_constant(R0, (place - from).into());
        code.store(AccessSize::B4, R10, base + self.at, R0);
        code.copy(R1, R6);
        Some(())
    }

    /// Stores R3 at an offset from R10.
    fn store_number(&self, code: &mut Assembler, to: i16) -> Option<()> {
        code.store(AccessSize::of(usize::try_from(self.bytes).ok()?)?, R10, to, R3);
        Some(())
    }
}

fn load_argument(code: &mut Assembler, dst: BpfRegister, index: i16) {
    code.load(AccessSize::B8, dst, R1, index * WORD as i16);
}

/// Sets R3 to the state with which a task leaves a CPU, as `__trace_sched_switch_state()` in
/// include/trace/events/sched.h does. The arguments are: whether the task was preempted, the task,
/// the next task, the state of the task.
fn switch_state(code: &mut Assembler, exit_state_at: i16) {
    let [known, not_idle, not_waiting] = [(); 3].map(|()| code.label());
    load_argument(code, R2, 0);
    code.alu_constant(BpfAlu::And, R2, 0xff);
    code.set(R3, REPORT_PREEMPTED);
    code.jump_if(JumpIf::Unequal, R2, 0, known);
    load_argument(code, R2, 3);
    load_argument(code, R4, 1);
    code.load(AccessSize::B4, R3, R4, exit_state_at);
    code.or(R3, R2);
    code.alu_constant(BpfAlu::And, R3, TASK_REPORT);
    code.copy(R4, R2);
    code.alu_constant(BpfAlu::And, R4, TASK_IDLE);
    code.jump_if(JumpIf::Unequal, R4, TASK_IDLE, not_idle);
    code.set(R3, REPORT_IDLE);
    code.place(not_idle);
    code.alu_constant(BpfAlu::And, R2, LOCK_OR_FROZEN);
    code.jump_if(JumpIf::Equal, R2, 0, not_waiting);
    code.set(R3, UNINTERRUPTIBLE);
    code.place(not_waiting);
    keep_highest_bit(code, known);
    code.place(known);
}

/// Keeps the highest bit of R3, which is at most [`REPORT_IDLE`]; jumps to `known`.
fn keep_highest_bit(code: &mut Assembler, known: Label) {
    let mut bit = REPORT_IDLE;
    while bit > 1 {
        let lower = code.label();
        code.jump_if(JumpIf::Less, R3, bit, lower);
        code.set(R3, bit);
        code.jump(known);
        code.place(lower);
        bit >>= 1;
    }
}

#[cfg(test)]
mod tests;
