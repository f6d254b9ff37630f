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

/// A record with a text at 8, from the structure of the second argument.
fn with_text(from: i16) -> ArgumentRecord {
    let value = ArgumentValue::Text { of: 1, at: 4, is_pointer: false, from };
    ArgumentRecord { fields: vec![ArgumentField { at: 8, bytes: 4, value }] }
}

/// Returns a program that stores a text at an offset from R10, and returns its location.
fn text_reader(text: RecordText, stack: i16) -> Vec<u64> {
    let mut code = Assembler::default();
    code.copy(CONTEXT, R1);
    text.store(&mut code, R10, -stack).unwrap();
    code.load(AccessSize::B4, R0, CONTEXT, 8);
    code.exit();
    code.finish().unwrap()
}

#[test]
fn a_location_is_known_only_together_with_its_text() {
    let short = text_reader(RecordText::Short(TextLocation { at: 8, from: 0 }), 16);
    assert!(with_text(0).before(&short).is_some());
    assert!(switch().before(&short).is_none(), "no location");
    assert!(with_text(0).before(&reader(AccessSize::B4, 8)).is_none(), "not its text");
}

#[test]
fn the_copy_of_a_text_needs_room_on_the_stack() {
    // 16 bytes of the record and 72 of the text.
    for (stack, fits) in [(512 - 88, true), (512 - 80, false)] {
        let program = text_reader(RecordText::Long(TextLocation { at: 8, from: 0 }), stack);
        assert_eq!(with_text(0).before(&program).is_some(), fits, "{stack}");
    }
}

#[test]
fn a_location_has_the_length_of_the_text_and_leads_to_its_copy() {
    let location = |result: fn(u64, u64, u64, u64, u64) -> u64, from| {
        let text = RecordText::Long(TextLocation { at: 8, from });
        let program = with_text(from).before(&text_reader(text, 64)).unwrap();
        let code: Vec<u8> = program.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut machine = rbpf::EbpfVmRaw::new(Some(&code)).unwrap();
        machine.register_helper(BpfHelper::ReadKernelText as u32, result).unwrap();
        machine.execute_program(&mut [0; 16]).unwrap()
    };
    assert_eq!(location(|_, bytes, _, _, _| bytes.min(5), 0), 5 << 16 | 16, "a text of 4 bytes");
    assert_eq!(location(|_, bytes, _, _, _| bytes.min(5), 12), 5 << 16 | 4, "__rel_loc");
    // A program keeps 64 bytes, so this one is longer.
    assert_eq!(location(|_, bytes, _, _, _| bytes, 0), 72 << 16 | 16);
    assert_eq!(location(|_, _, _, _, _| -14_i64 as u64, 0), 7 << 16 | 16, "(null)");
}

#[test]
fn a_program_that_needs_more_than_the_fields_is_refused() {
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
