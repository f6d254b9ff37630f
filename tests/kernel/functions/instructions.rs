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
    an_instruction_that_the_kernel_mistakes_is_not_probed,
    data_beside_code_is_not_probed,
    an_instruction_that_the_kernel_cannot_probe_is_refused,
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

/// Functions that begin with instructions that the kernel takes for a jump, a call and `outs`, and
/// one that it executes as it is.
const VECTORS: &str = r#"
void filled(void *to, int byte); void stored(void *to); void moved(void *to, int value);
__asm__(".text\n.type filled,@function\n.globl filled\nfilled:\n"
        ".byte 0x62,0xf2,0x7d,0x48,0x7a,0xc6\nmovb $1,(%rdi)\nret\n.size filled,.-filled\n"
        ".type stored,@function\n.globl stored\nstored:\n"
        ".byte 0xc5,0xf9,0xe8,0xc0\nret\n.size stored,.-stored\n"
        ".type loaded,@function\n.globl loaded\nloaded:\n"
        ".byte 0xc5,0xf9,0x6e,0xde\nret\n.size loaded,.-loaded\n"
        ".type moved,@function\n.globl moved\nmoved:\n"
        "movd %esi,%xmm3\nmovd %xmm3,(%rdi)\nret\n.size moved,.-moved\n");
int main(int argc, char **argv) {
    int all = 0, to = 0;
    for (int i = 0; i < 10; i++) { moved(&to, i); all += to; }
    return all != 45;
}
"#;

fn an_instruction_that_the_kernel_mistakes_is_not_probed() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let program = Program::of(VECTORS, &[]);
    for place in ["filled", "stored", "loaded"] {
        let (accepted, why) = described(&program, place);
        assert!(!accepted && why.contains("takes for another instruction"), "{place}: {why}");
    }
    // A glob omits them; the program checks its own result.
    let run = program.watched(&["funccount", "-e", &program.function("uprobe", "*ed")], 1, 0);
    let rows: Vec<_> = run.of("row").collect();
    assert_eq!(rows.len(), 1, "{:?} {}", run.objects, run.stderr);
    assert_eq!((&rows[0]["function"], &rows[0]["calls"]), (&"moved".into(), &10.into()));
    assert!(run.code == Some(0) && !run.stderr.contains("exit"), "{}", run.stderr);
}

/// A function that begins with `hlt`, which a program does not execute, and one without.
const PRIVILEGED: &str = r#"
void halt(void); int plain(void);
__asm__(".text\n.type halt,@function\n.globl halt\nhalt: hlt\nret\n.size halt,.-halt\n"
        ".type plain,@function\n.globl plain\nplain: xorl %eax,%eax\nret\n.size plain,.-plain\n");
int main(int argc, char **argv) { if (argc > 9) halt(); return plain(); }
"#;

fn an_instruction_that_the_kernel_cannot_probe_is_refused() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let program = Program::of(PRIVILEGED, &[]);
    let run = program.watched(&["trace", "-e", &program.function("uprobe", "halt")], 1, 0);
    assert!(run.stderr.contains("cannot put a probe on this instruction"), "{}", run.stderr);
    let run = program.watched(&["trace", "-e", &program.function("uprobe", "plain")], 1, 0);
    assert_eq!(run.of("event").count(), 1, "{}", run.stderr);
}

/// A constant in a segment with code.
const CONSTANT: &str = r#"
#include <stdio.h>
const char constant[] = "PPPPPPPPPPPPPPPP";
int main(int argc, char **argv) { return puts(constant) < 0; }
"#;

fn data_beside_code_is_not_probed() {
    let program = Program::of(CONSTANT, &["-no-pie", "-Wl,-z,noseparate-code"]);
    let symbols = Command::new("nm").arg(program.path()).output().expect("it is installed");
    let symbols = String::from_utf8(symbols.stdout).expect("text");
    let line = symbols.lines().find(|line| line.ends_with(" constant")).expect("it is there");
    let address = line.split(' ').next().expect("an address").trim_start_matches('0');
    let (accepted, why) = described(&program, &format!("0x{address}"));
    assert!(!accepted && why.contains("has no code at this address"), "{why}");
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
