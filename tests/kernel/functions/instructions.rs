//! Probes at instructions inside of functions, by offset and by address: their counts and registers
//! are those of the program. Each offset of a function is either an instruction, as a disassembler
//! shows it, or refused.

use std::os::unix::fs::FileExt as _;
use std::process::Command;

use super::Program;
use crate::live::{live_tests, skip_anywhere};

live_tests! {
    an_instruction_inside_a_function_is_probed_by_offset_and_by_address,
    an_offset_inside_an_instruction_is_refused_with_its_neighbours,
    an_address_of_a_stripped_program_is_probed,
    an_address_behind_a_symbol_without_a_size_is_checked_in_its_own_function,
    an_instruction_of_a_kernel_function_is_probed_by_offset,
}

/// Returns the addresses of the instructions of a function, from objdump.
fn instructions(program: &Program, function: &str) -> Vec<u64> {
    let wanted = format!("--disassemble={function}");
    let out = Command::new("objdump").args([&wanted, &program.path()]).output();
    let text = String::from_utf8(out.expect("it is installed").stdout).expect("text");
    let instruction = |line: &str| {
        let (address, rest) = line.trim_start().split_once(":\t")?;
        // A line without a mnemonic continues the bytes of the one before.
        rest.contains('\t').then(|| u64::from_str_radix(address, 16).ok())?
    };
    let found: Vec<u64> = text.lines().filter_map(instruction).collect();
    assert!(found.len() > 4, "{text}");
    found
}

fn an_instruction_inside_a_function_is_probed_by_offset_and_by_address() {
    const N: u32 = 50;
    for flags in [&["-pie", "-fPIE"][..], &["-no-pie"]] {
        let program = Program::built(flags);
        let all = instructions(&program, "minus");
        let last = all[all.len() - 1] - all[0];
        // At the `ret` of `minus(i)`, the lower half of the register of the result is -i.
        for place in [format!("minus+{last:#x}"), format!("{:#x}", all[all.len() - 1])] {
            let run = program.watched(&["trace", "-e", &program.function("uprobe", &place)], N, 2);
            assert_eq!(run.of("event").count() as u32, 3 * N, "{place}: {}", run.stderr);
            let register = if cfg!(target_arch = "x86_64") { "ax" } else { "x0" };
            let sum: i64 = run
                .of("event")
                .map(|event| i64::from(event[register].as_i64().expect("a register") as i32))
                .sum();
            let n = i64::from(N);
            assert_eq!(sum, -3 * n * (n - 1) / 2, "{place}");
            run.is_complete();
        }
        // The address of the function itself is its call, with its arguments.
        let place = program.function("uprobe", &format!("{:#x}", all[0]));
        let run = program.watched(&["trace", "-e", &place], N, 0);
        let sum: i64 = run.of("event").map(|e| e["arg1"].as_i64().expect("a register")).sum();
        assert_eq!(sum, i64::from(N * (N - 1) / 2), "{}", run.stderr);
    }
}

/// Returns whether a place in the program can be probed, and the message.
fn described(program: &Program, place: &str) -> (bool, String) {
    let words = ["list", "-v", &program.function("uprobe", place)];
    let out = Command::new(env!("CARGO_BIN_EXE_perilune")).args(words).output().expect("it runs");
    (out.status.success(), String::from_utf8_lossy(&out.stderr).into_owned())
}

fn an_offset_inside_an_instruction_is_refused_with_its_neighbours() {
    let program = Program::built(&[]);
    let all = instructions(&program, "minus");
    let described = |name: &str| described(&program, name);
    for offset in 1..all[all.len() - 1] - all[0] {
        let place = format!("minus+{offset:#x}");
        let (accepted, why) = described(&place);
        assert_eq!(accepted, all.contains(&(all[0] + offset)), "{place}: {why}");
        if !accepted {
            let after = all.iter().find(|at| **at > all[0] + offset).expect("a later one") - all[0];
            assert!(why.contains("is in the middle of an instruction"), "{why}");
            assert!(why.contains(&format!(" or minus+{after:#x}")), "{why}");
        }
    }
    for (name, why) in [
        ("minus+0x1000", "bytes; use a smaller offset"),
        ("0x1", "has no code at this address"),
        ("wrok+4", "has no function 'wrok'; did you mean 'work'?"),
    ] {
        let (accepted, text) = described(name);
        assert!(!accepted && text.contains(why), "{name}: {text}");
    }
    let inside = format!("minus+{:#x}", all[1] - all[0]);
    let refused = program.watched(&["trace", "-e", &program.function("uretprobe", &inside)], 1, 0);
    assert!(refused.stderr.contains("a return has no offset in the function"));
}

fn an_address_of_a_stripped_program_is_probed() {
    const N: u32 = 50;
    let program = Program::built(&["-no-pie"]);
    let all = instructions(&program, "minus");
    program.run(Command::new("strip").arg(program.path()));
    let (first, last) = (all[0], all[all.len() - 1]);
    for address in first..=last {
        let place = format!("{address:#x}");
        let (accepted, why) = described(&program, &place);
        assert_eq!(accepted, all.contains(&address), "{place}: {why}");
        if let Some(after) = all.iter().find(|at| **at > address).filter(|_| !accepted) {
            assert!(why.contains(&format!(" or {after:#x}")), "{why}");
        }
    }
    let place = program.function("uprobe", &format!("{last:#x}"));
    let run = program.watched(&["trace", "-e", &place], N, 2);
    assert_eq!(run.of("event").count() as u32, 3 * N, "{}", run.stderr);
    run.is_complete();
}

/// A function without a size, whose last bytes are the beginning of an instruction, precedes
/// `minus`.
const WITHOUT_SIZE: &str = r#"
__asm__(".section .text.unlikely,\"ax\"\n.globl plain\n.type plain, @function\n"
        "plain: ret\n.byte 0x48, 0xb8\n.text");
__attribute__((noipa)) int minus(int i) { return -i; }
int main(int argc, char **argv) { return minus(argc) + argc; }
"#;

fn an_address_behind_a_symbol_without_a_size_is_checked_in_its_own_function() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let program = Program::of(WITHOUT_SIZE, &["-no-pie"]);
    let all = instructions(&program, "minus");
    program.run(Command::new("strip").args(["--keep-symbol=plain", &program.path()]));
    for address in all[0]..=all[all.len() - 1] {
        let (accepted, why) = described(&program, &format!("{address:#x}"));
        assert_eq!(accepted, all.contains(&address), "{address:#x}: {why}");
    }
    let (accepted, why) = described(&program, "plain");
    assert!(accepted, "{why}");
}

/// Calls `getppid` N times, past the cache of the C library.
const CALLS: &str = r#"
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    for (long i = 0, n = atol(argv[1]); i < n; i++) syscall(SYS_getppid);
    return 0;
}
"#;

fn an_instruction_of_a_kernel_function_is_probed_by_offset() {
    const N: u32 = 100;
    if !std::path::Path::new("/sys/bus/event_source/devices/kprobe").exists() {
        skip_anywhere("this kernel has no kprobes");
    }
    let program = Program::of(CALLS, &[]);
    let run = |place: &str| {
        program.watched(&["trace", "-e", &format!("kprobe:__x64_sys_getppid+{place}")], N, 0)
    };
    let (mut accepted, mut refused) = (Vec::new(), 0);
    // The function begins with an instruction of 5 bytes, behind one of 4 bytes on some kernels.
    for offset in 1..10 {
        let run = run(&offset.to_string());
        if run.code == Some(0) {
            assert_eq!(run.of("event").count() as u32, N, "+{offset}: {}", run.stderr);
            assert!(run.of("event").all(|event| event["ax"].is_i64()), "+{offset}");
            accepted.push(offset);
        } else {
            assert!(run.stderr.contains("none begins at this offset"), "{}", run.stderr);
            refused += 1;
        }
    }
    assert!(accepted.contains(&5) || accepted.contains(&9), "{accepted:?}");
    assert!(refused > 0, "{accepted:?}");
    let outside = run("0x100000");
    assert!(outside.stderr.contains("bytes; use a smaller offset"), "{}", outside.stderr);
}

/// Returns the first bytes of a function of a running program that is mapped at its linked address.
pub(super) fn first_bytes(program: &Program, pid: u32, function: &str) -> [u8; 4] {
    let symbols = Command::new("nm").arg(program.path()).output().expect("it is installed");
    let symbols = String::from_utf8(symbols.stdout).expect("text");
    let address = symbols.lines().find_map(|line| line.strip_suffix(&format!(" T {function}")));
    let address = u64::from_str_radix(address.expect("it is there"), 16).expect("an address");
    let mut bytes = [0; 4];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("it runs");
    memory.read_exact_at(&mut bytes, address).expect("it is mapped");
    bytes
}
