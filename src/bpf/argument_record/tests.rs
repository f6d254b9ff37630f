//! Programs find the fields of a record that is built from arguments.

use super::*;
use crate::bpf::expression::CONTEXT;
use crate::bpf::record_text::{RecordText, TextLocation};

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
fn only_a_text_is_read_at_a_place_that_the_record_has() {
    let text = TextLocation { at: 8, from: 0 };
    let reads = |text: RecordText, stack: i16| {
        let mut code = Assembler::default();
        code.copy(CONTEXT, R1);
        text.store(&mut code, R10, -stack).unwrap();
        code.exit();
        code.finish().unwrap()
    };
    let value = ArgumentValue::Text { of: 1, at: 4, is_pointer: false, from: 0 };
    let known = ArgumentRecord { fields: vec![ArgumentField { at: 8, bytes: 4, value }] };
    let short = reads(RecordText::Short(text), 16);
    assert!(known.before(&short).is_some());
    assert!(switch().before(&short).is_none(), "no location");
    assert!(known.before(&reader(AccessSize::B4, 8)).is_none(), "a location without its text");
    // 16 bytes of the record and 72 of the text.
    let [fits, too_large] = [512 - 88, 512 - 80].map(|stack| reads(RecordText::Long(text), stack));
    assert!(known.before(&fits).is_some() && known.before(&too_large).is_none());
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
