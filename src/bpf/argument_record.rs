//! The record of a tracepoint, built on the stack of a program from the tracepoint's arguments.
//!
//! A program of a raw tracepoint runs where the event happens, before the kernel makes a record. It
//! costs less, and the kernel runs it also while another program runs on the CPU. The instructions
//! here store the fields that a program reads, at their places in the record, so that the program
//! itself is the same as for a record.

pub mod request;

use std::rc::Rc;

use super::assembler::BpfRegister::{self, *};
use super::assembler::{AccessSize, Assembler, BpfAlu, JumpIf, Label};
use super::expression::STACK;
use super::map_access::WORD;
use super::memory_use::MemoryUse;
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
    /// the context in R2 ([`with_context`]). Returns None if it reads a field that is not known,
    /// uses the record for more than loads, or leaves no room on its stack.
    pub fn before(&self, program: &[u64]) -> Option<Vec<u64>> {
        let used = MemoryUse::of(program)?;
        let end = used.loads.iter().map(|load| load.end).max().unwrap_or(0);
        let base = (used.lowest - end) & -(WORD as i16);
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
        fields.iter().try_for_each(|field| field.store(&mut code, base))?;
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
        }
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
mod tests {
    use super::*;
    use crate::bpf::expression::CONTEXT;

    /// The record of `sched:sched_switch`, without priorities; `struct task_struct` has the name at
    /// 4, the number at 20 and the exit state at 24.
    fn switch() -> ArgumentRecord {
        let field = |at, bytes, value| ArgumentField { at, bytes, value };
        let member = |of, at| ArgumentValue::Member { of, at };
        ArgumentRecord {
            fields: vec![
                field(8, 16, member(1, 4)),
                field(24, 4, member(1, 20)),
                field(32, 8, ArgumentValue::SwitchState { exit_state_at: 24 }),
                field(40, 16, member(2, 4)),
                field(56, 4, member(2, 20)),
                field(60, 1, ArgumentValue::Argument(0)),
                field(64, 8, ArgumentValue::Extended { of: 1, at: 20, signed: true }),
            ],
        }
    }

    fn task(name: &str, number: u32, exit_state: u32) -> Vec<u8> {
        let mut bytes = vec![0; 20];
        bytes[4..4 + name.len()].copy_from_slice(name.as_bytes());
        bytes.extend(number.to_ne_bytes());
        bytes.extend(exit_state.to_ne_bytes());
        bytes
    }

    /// Returns what a program returns for the arguments of a switch.
    fn run(program: &[u64], arguments: (u64, &[u8], &[u8], u32)) -> u64 {
        let (preempt, prev, next, state) = arguments;
        let address = |task: &[u8]| task.as_ptr().expose_provenance() as u64;
        let words = [preempt, address(prev), address(next), state.into()];
        let mut words: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let code: Vec<u8> = program.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut machine = rbpf::EbpfVmRaw::new(Some(&code)).unwrap();
        for task in [prev, next] {
            machine.register_allowed_memory(address(task)..address(task) + task.len() as u64);
        }
        machine.execute_program(&mut words).unwrap()
    }

    /// Returns a program that returns the bytes of a record at an offset.
    fn reader(size: AccessSize, at: i16) -> Vec<u64> {
        let mut code = Assembler::default();
        code.copy(CONTEXT, R1);
        code.store_constant(AccessSize::B8, R10, -64, 0);
        code.load(size, R0, CONTEXT, at);
        code.load(AccessSize::B8, R1, R10, -64);
        code.add(R0, R1);
        code.exit();
        code.finish().unwrap()
    }

    fn read(size: AccessSize, at: i16, arguments: (u64, &[u8], &[u8], u32)) -> u64 {
        run(&switch().before(&reader(size, at)).unwrap(), arguments)
    }

    #[test]
    fn a_program_finds_the_fields_at_their_places() {
        let (prev, next) = (task("worker", 77, 0), task("another", 4_000_000_000, 0));
        let arguments = (0, &prev[..], &next[..], 1);
        let text = |text: &[u8; 8]| u64::from_ne_bytes(*text);
        assert_eq!(read(AccessSize::B8, 8, arguments), text(b"worker\0\0"));
        assert_eq!(read(AccessSize::B8, 48, arguments), 0, "the rest of the name");
        assert_eq!(read(AccessSize::B2, 42, arguments), text(b"other\0\0\0") & 0xffff);
        assert_eq!(read(AccessSize::B4, 24, arguments), 77);
        assert_eq!(read(AccessSize::B4, 56, arguments), 4_000_000_000);
        assert_eq!(read(AccessSize::B1, 60, (1, &prev[..], &next[..], 1)), 1);
        assert_eq!(read(AccessSize::B8, 64, arguments), 77);
        let negative = (0, &next[..], &prev[..], 1);
        assert_eq!(read(AccessSize::B8, 64, negative), 4_000_000_000_u32.cast_signed() as u64);
    }

    /// The expected states are those of the kernel's `task_state_array` and `fls()`.
    #[test]
    fn the_state_of_a_switch_is_a_single_bit() {
        let state = |preempt, state, exit| {
            let (prev, next) = (task("a", 1, exit), task("b", 2, 0));
            read(AccessSize::B8, 32, (preempt, &prev[..], &next[..], state))
        };
        assert_eq!([0, 1, 2, 4, 8, 0x40].map(|one| state(0, one, 0)), [0, 1, 2, 4, 8, 0x40]);
        assert_eq!(state(1, 0, 0), 0x100, "preempted");
        assert_eq!(state(1, 1, 0), 0x100, "preempted before it sleeps");
        assert_eq!([state(0, 0x80, 0x10), state(0, 0x80, 0x20)], [0x10, 0x20], "ended");
        assert_eq!(state(0, 0x402, 0), 0x80, "an idle worker");
        assert_eq!(state(0, 0x2001, 0), 1, "a sleep that can be frozen");
        assert_eq!([state(0, 0x102, 0), state(0, 0x109, 0)], [2, 8], "woken by a fatal signal");
        assert_eq!([state(0, 0x1000, 0), state(0, 0x8000, 0)], [2, 2], "a lock, frozen");
    }

    #[test]
    fn a_program_that_needs_more_than_the_fields_has_no_place_there() {
        let is_known = |program: &[u64]| switch().before(program).is_some();
        assert!(is_known(&reader(AccessSize::B4, 24)));
        assert!(!is_known(&reader(AccessSize::B4, 28)), "no such field");
        assert!(!is_known(&reader(AccessSize::B8, 24)), "two fields");
        let program = |write: fn(&mut Assembler)| {
            let mut code = Assembler::default();
            code.copy(CONTEXT, R1);
            write(&mut code);
            code.exit();
            code.finish().unwrap()
        };
        assert!(!is_known(&program(|code| code.copy(R3, CONTEXT))), "the address of the record");
        assert!(is_known(&program(|code| {
            code.store_constant(AccessSize::B8, R10, -448, 0);
            code.load(AccessSize::B4, R0, CONTEXT, 56);
        })));
        assert!(!is_known(&program(|code| {
            code.copy(R2, R10);
            code.add_constant(R2, -456);
            code.load(AccessSize::B4, R0, CONTEXT, 56);
        })));
        assert!(!is_known(&program(|code| {
            let end = code.label();
            code.jump_if_register(JumpIf::Equal, R0, CONTEXT, end);
            code.place(end);
        })));
        assert!(!is_known(&[]), "it does not begin with the record");
    }
}
