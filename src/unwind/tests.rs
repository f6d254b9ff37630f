//! Walks over artificial stacks of functions of this program. Walks over real programs are in
//! tests/stack/unwind.

use super::*;
use crate::base::report::frame::Space;
use crate::decode::cursor::Words;
use crate::sys::registers::{FRAME_POINTER, INSTRUCTION_POINTER, LINK, STACK_POINTER, UNWOUND};
use perf_event_open_sys::bindings as abi;
use proptest::prelude::*;

const BOTTOM: u64 = 0x7ffd_0000_1000;

/// Functions with only a return address on the stack at their first instruction.
#[inline(never)]
extern "C" fn callee(n: u64) -> u64 {
    std::hint::black_box(n) + 1
}

#[inline(never)]
extern "C" fn caller(n: u64) -> u64 {
    callee(std::hint::black_box(n)) + 2
}

/// Walks the stack of a task; returns the frames, and whether they are complete.
fn walk(
    unwinder: &mut Unwinder,
    programs: &mut Programs,
    pid: u32,
    task: &Task,
) -> (Vec<u64>, bool) {
    let mut values = Vec::new();
    for register in (0..64).filter(|register| UNWOUND >> register & 1 == 1) {
        let value = match register {
            INSTRUCTION_POINTER => task.address,
            STACK_POINTER => task.stack_pointer,
            FRAME_POINTER => task.frame_pointer,
            // The return address of a function that has just begun.
            _ if Some(register) == LINK => task.words.first().copied().unwrap_or(0),
            _ => 0,
        };
        values.extend(value.to_ne_bytes());
    }
    let bytes: Vec<u8> = task.words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let registers = crate::decode::sample_extra::SampledRegisters {
        abi: task.abi,
        mask: UNWOUND,
        values: Words::new(&values),
    };
    let mut frames = Vec::new();
    let mut room = ChainBuilder::new(&mut frames, task.room);
    unwinder.walk(programs, &UserStack { pid, registers, bytes: &bytes }, &mut room);
    let whole = !room.is_cut();
    (frames, whole)
}

struct Task {
    abi: u64,
    address: u64,
    frame_pointer: u64,
    stack_pointer: u64,
    words: Vec<u64>,
    room: usize,
}

/// A task at the first instruction of a function of this program.
fn task(words: &[u64]) -> Task {
    let abi = u64::from(abi::PERF_SAMPLE_REGS_ABI_64);
    let address = callee as *const () as u64;
    let words = words.to_vec();
    Task { abi, address, frame_pointer: 0, stack_pointer: BOTTOM, words, room: 100 }
}

/// Returns a return address after the first byte of `caller`, so that the tables are looked up for
/// its start.
fn behind_caller() -> u64 {
    caller as *const () as u64 + 1
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_walk_follows_the_tables_until_the_stack_begins() {
    let (mut unwinder, mut programs) = (Unwinder::default(), Programs::default());
    let (own, task) = (std::process::id(), task(&[behind_caller(), behind_caller(), 0]));
    let expected = vec![task.address, behind_caller(), behind_caller()];
    for _ in 0..2 {
        let found = walk(&mut unwinder, &mut programs, own, &task);
        assert_eq!(found, (expected.clone(), true));
    }
    assert_eq!((unwinder.processes.len(), unwinder.tables.len()), (1, 1));
    let found = walk(&mut unwinder, &mut programs, own, &Task { room: 2, ..task });
    assert_eq!(found, (expected[..2].to_vec(), false));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn an_incomplete_walk_is_reported() {
    let (mut unwinder, mut programs) = (Unwinder::default(), Programs::default());
    let own = std::process::id();
    // The copy ends; a return address is not in code; there is no copy.
    for words in [&[behind_caller()][..], &[behind_caller(), 0x10], &[]] {
        let task = task(words);
        let expected = [&[task.address][..], &words[..words.len().min(1)]].concat();
        assert_eq!(walk(&mut unwinder, &mut programs, own, &task), (expected, false));
    }
}

#[test]
fn a_program_of_another_word_size_has_one_frame() {
    let (mut unwinder, mut programs) = (Unwinder::default(), Programs::default());
    let narrow = Task { abi: u64::from(abi::PERF_SAMPLE_REGS_ABI_32), ..task(&[1, 2]) };
    let found = walk(&mut unwinder, &mut programs, std::process::id(), &narrow);
    assert_eq!(found, (vec![narrow.address], false));
    let no_registers = Task { abi: 0, ..narrow };
    let found = walk(&mut unwinder, &mut programs, std::process::id(), &no_registers);
    assert_eq!(found, (vec![no_registers.address], false));
}

#[test]
fn processes_are_forgotten_beyond_the_limit_or_when_their_mappings_change() {
    let (mut unwinder, mut programs) = (Unwinder::default(), Programs::default());
    for pid in 0..PROCESSES as u32 + 50 {
        // Above every possible process id: nothing is mapped there.
        walk(&mut unwinder, &mut programs, (1 << 22) + 1 + pid, &task(&[]));
    }
    assert_eq!(unwinder.processes.len(), PROCESSES);
    let newest = programs.space_of((1 << 22) + PROCESSES as u32 + 50);
    assert!(unwinder.processes.contains_key(&newest));
    unwinder.forget_space(newest);
    assert!(!unwinder.processes.contains_key(&newest) && newest != Space::UNKNOWN);
    unwinder.forget();
    assert!(unwinder.processes.is_empty() && unwinder.tables.is_empty());
}

/// Addresses, and values that resemble addresses.
fn addresses() -> impl Strategy<Value = u64> {
    let code = callee as *const () as u64;
    prop_oneof![
        (0..0x10_0000u64).prop_map(move |by| code.wrapping_sub(0x8_0000) + by),
        (0..64u64).prop_map(|words| BOTTOM + 8 * words),
        0..32u64,
        (0..32u64).prop_map(|by| u64::MAX - by),
        any::<u64>(),
    ]
}

proptest! {
    #[test]
    fn no_registers_and_no_stack_make_a_walk_fail(
        (address, frame_pointer, stack_pointer) in (addresses(), addresses(), addresses()),
        words in prop::collection::vec(addresses(), 0..64),
    ) {
        thread_local! {
            static STATE: std::cell::RefCell<(Unwinder, Programs)> = Default::default();
        }
        let task = Task { address, frame_pointer, stack_pointer, ..task(&words) };
        STATE.with_borrow_mut(|(unwinder, programs)| {
            let (frames, _) = walk(unwinder, programs, std::process::id(), &task);
            assert!(frames.len() <= task.room && frames.first() == Some(&address));
        });
    }
}
