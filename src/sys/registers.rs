//! Registers that a task's stack is unwound from, and registers of a function's arguments and
//! result, by their numbers in this architecture's samples.
//!
//! Numbers: `enum perf_event_x86_regs` and `enum perf_event_arm_regs` in
//! arch/*/include/uapi/asm/perf_regs.h.

use perf_event_open_sys::bindings as abi;

/// Address of the next instruction.
#[cfg(target_arch = "x86_64")]
pub const INSTRUCTION_POINTER: u32 = abi::PERF_REG_X86_IP;
/// End of the used part of the stack.
#[cfg(target_arch = "x86_64")]
pub const STACK_POINTER: u32 = abi::PERF_REG_X86_SP;
/// Frame of the function, if it keeps a frame pointer.
#[cfg(target_arch = "x86_64")]
pub const FRAME_POINTER: u32 = abi::PERF_REG_X86_BP;
/// Return address of a function that has just been called; on x86 it is on the stack.
#[cfg(target_arch = "x86_64")]
pub const LINK: Option<u32> = None;

/// Address of the next instruction.
#[cfg(target_arch = "aarch64")]
pub const INSTRUCTION_POINTER: u32 = abi::PERF_REG_ARM64_PC;
/// End of the used part of the stack.
#[cfg(target_arch = "aarch64")]
pub const STACK_POINTER: u32 = abi::PERF_REG_ARM64_SP;
/// Frame of the function, if it keeps a frame pointer.
#[cfg(target_arch = "aarch64")]
pub const FRAME_POINTER: u32 = abi::PERF_REG_ARM64_X29;
/// Return address of a function that has just been called.
#[cfg(target_arch = "aarch64")]
pub const LINK: Option<u32> = Some(abi::PERF_REG_ARM64_LR);

/// All of these registers, for `sample_regs_user`.
pub const UNWOUND: u64 = 1 << INSTRUCTION_POINTER
    | 1 << STACK_POINTER
    | 1 << FRAME_POINTER
    | match LINK {
        Some(link) => 1 << link,
        None => 0,
    };

/// The first six arguments of a function when it is called, in order (System V ABI for x86-64,
/// 3.2.3). Floating-point arguments are elsewhere, and structures may be in several registers or in
/// none.
#[cfg(target_arch = "x86_64")]
pub const ARGUMENTS: [u32; 6] = [
    abi::PERF_REG_X86_DI,
    abi::PERF_REG_X86_SI,
    abi::PERF_REG_X86_DX,
    abi::PERF_REG_X86_CX,
    abi::PERF_REG_X86_R8,
    abi::PERF_REG_X86_R9,
];
/// The result of a function when it has returned.
#[cfg(target_arch = "x86_64")]
pub const RETURNED: u32 = abi::PERF_REG_X86_AX;

/// The first six arguments of a function when it is called, in order (Procedure Call Standard for
/// AArch64, 6.8.2). Floating-point arguments are elsewhere, and structures may be in several
/// registers or in none.
#[cfg(target_arch = "aarch64")]
pub const ARGUMENTS: [u32; 6] = [
    abi::PERF_REG_ARM64_X0,
    abi::PERF_REG_ARM64_X1,
    abi::PERF_REG_ARM64_X2,
    abi::PERF_REG_ARM64_X3,
    abi::PERF_REG_ARM64_X4,
    abi::PERF_REG_ARM64_X5,
];
/// The result of a function when it has returned.
#[cfg(target_arch = "aarch64")]
pub const RETURNED: u32 = abi::PERF_REG_ARM64_X0;

/// The registers that hold integers and pointers when a function is called, by their DWARF numbers
/// (System V ABI for x86-64, figure 3.36).
#[cfg(target_arch = "x86_64")]
pub const CALL_DWARF: &[(u16, &str)] =
    &[(5, "di"), (4, "si"), (1, "dx"), (2, "cx"), (8, "r8"), (9, "r9"), (7, "sp")];
/// Bytes between the stack pointer and the end of the caller's frame when a function is called.
#[cfg(target_arch = "x86_64")]
pub const CALL_PUSHED: i64 = 8;

/// The registers that hold integers and pointers when a function is called, by their DWARF numbers
/// (DWARF for the Arm 64-bit Architecture, 4.1).
#[cfg(target_arch = "aarch64")]
#[rustfmt::skip]
pub const CALL_DWARF: &[(u16, &str)] = &[
    (0, "x0"), (1, "x1"), (2, "x2"), (3, "x3"), (4, "x4"), (5, "x5"), (6, "x6"), (7, "x7"),
    (31, "sp"),
];
/// Bytes between the stack pointer and the end of the caller's frame when a function is called.
#[cfg(target_arch = "aarch64")]
pub const CALL_PUSHED: i64 = 0;

/// Names of the registers in the kernel's `pt_regs`, and their numbers: [`GENERAL`], then others.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub const NAMES: &[(&str, u32)] = &[
    ("ax", abi::PERF_REG_X86_AX),   ("bx", abi::PERF_REG_X86_BX),   ("cx", abi::PERF_REG_X86_CX),
    ("dx", abi::PERF_REG_X86_DX),   ("si", abi::PERF_REG_X86_SI),   ("di", abi::PERF_REG_X86_DI),
    ("bp", abi::PERF_REG_X86_BP),   ("sp", abi::PERF_REG_X86_SP),   ("r8", abi::PERF_REG_X86_R8),
    ("r9", abi::PERF_REG_X86_R9),   ("r10", abi::PERF_REG_X86_R10), ("r11", abi::PERF_REG_X86_R11),
    ("r12", abi::PERF_REG_X86_R12), ("r13", abi::PERF_REG_X86_R13), ("r14", abi::PERF_REG_X86_R14),
    ("r15", abi::PERF_REG_X86_R15),
    ("ip", abi::PERF_REG_X86_IP),   ("flags", abi::PERF_REG_X86_FLAGS),
    ("cs", abi::PERF_REG_X86_CS),   ("ss", abi::PERF_REG_X86_SS),
];

/// Names of the registers in the kernel's `pt_regs`, and their numbers: [`GENERAL`], then others.
#[cfg(target_arch = "aarch64")]
#[rustfmt::skip]
pub const NAMES: &[(&str, u32)] = &[
    ("x0", 0), ("x1", 1), ("x2", 2), ("x3", 3), ("x4", 4), ("x5", 5), ("x6", 6), ("x7", 7),
    ("x8", 8), ("x9", 9), ("x10", 10), ("x11", 11), ("x12", 12), ("x13", 13), ("x14", 14),
    ("x15", 15), ("x16", 16), ("x17", 17), ("x18", 18), ("x19", 19), ("x20", 20), ("x21", 21),
    ("x22", 22), ("x23", 23), ("x24", 24), ("x25", 25), ("x26", 26), ("x27", 27), ("x28", 28),
    ("x29", abi::PERF_REG_ARM64_X29), ("lr", abi::PERF_REG_ARM64_LR),
    ("sp", abi::PERF_REG_ARM64_SP),
    ("ip", abi::PERF_REG_ARM64_PC),
];

/// Number of general registers.
const GENERAL_COUNT: usize = if cfg!(target_arch = "x86_64") { 16 } else { 32 };

/// The general registers.
pub const GENERAL: &[(&str, u32)] = NAMES.split_at(GENERAL_COUNT).0;

/// All registers of [`NAMES`], one bit each.
pub const ALL: u64 = {
    let (mut mask, mut at) = (0, 0);
    while at < NAMES.len() {
        mask |= 1 << NAMES[at].1;
        at += 1;
    }
    mask
};
