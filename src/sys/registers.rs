//! Which registers of a task its stack is unwound from, and which hold what functions are given and return, by the numbers that
//! this architecture's samples give them.
//!
//! Numbers: `enum perf_event_x86_regs` and `enum perf_event_arm_regs` in arch/*/include/uapi/asm/perf_regs.h.

use perf_event_open_sys::bindings as abi;

/// The next instruction.
#[cfg(target_arch = "x86_64")]
pub const INSTRUCTION_POINTER: u32 = abi::PERF_REG_X86_IP;
/// The end of the stack that is in use.
#[cfg(target_arch = "x86_64")]
pub const STACK_POINTER: u32 = abi::PERF_REG_X86_SP;
/// Where functions that keep one have their frame.
#[cfg(target_arch = "x86_64")]
pub const FRAME_POINTER: u32 = abi::PERF_REG_X86_BP;
/// Where a function that has just been called returns to; on x86 the stack tells that.
#[cfg(target_arch = "x86_64")]
pub const LINK: Option<u32> = None;

/// The next instruction.
#[cfg(target_arch = "aarch64")]
pub const INSTRUCTION_POINTER: u32 = abi::PERF_REG_ARM64_PC;
/// The end of the stack that is in use.
#[cfg(target_arch = "aarch64")]
pub const STACK_POINTER: u32 = abi::PERF_REG_ARM64_SP;
/// Where functions that keep one have their frame.
#[cfg(target_arch = "aarch64")]
pub const FRAME_POINTER: u32 = abi::PERF_REG_ARM64_X29;
/// Where a function that has just been called returns to.
#[cfg(target_arch = "aarch64")]
pub const LINK: Option<u32> = Some(abi::PERF_REG_ARM64_LR);

/// All of them, as `sample_regs_user` asks for them.
pub const UNWOUND: u64 = 1 << INSTRUCTION_POINTER
    | 1 << STACK_POINTER
    | 1 << FRAME_POINTER
    | match LINK {
        Some(link) => 1 << link,
        None => 0,
    };

/// Where the first six arguments of a function are when it is called, in their order (System V ABI for x86-64, 3.2.3). Floating-point
/// ones are elsewhere, and structures may be in several or in none.
#[cfg(target_arch = "x86_64")]
pub const ARGUMENTS: [u32; 6] = [
    abi::PERF_REG_X86_DI,
    abi::PERF_REG_X86_SI,
    abi::PERF_REG_X86_DX,
    abi::PERF_REG_X86_CX,
    abi::PERF_REG_X86_R8,
    abi::PERF_REG_X86_R9,
];
/// Where what a function returns is when it has returned.
#[cfg(target_arch = "x86_64")]
pub const RETURNED: u32 = abi::PERF_REG_X86_AX;

/// Where the first six arguments of a function are when it is called, in their order (Procedure Call Standard for AArch64, 6.8.2).
/// Floating-point ones are elsewhere, and structures may be in several or in none.
#[cfg(target_arch = "aarch64")]
pub const ARGUMENTS: [u32; 6] = [
    abi::PERF_REG_ARM64_X0,
    abi::PERF_REG_ARM64_X1,
    abi::PERF_REG_ARM64_X2,
    abi::PERF_REG_ARM64_X3,
    abi::PERF_REG_ARM64_X4,
    abi::PERF_REG_ARM64_X5,
];
/// Where what a function returns is when it has returned.
#[cfg(target_arch = "aarch64")]
pub const RETURNED: u32 = abi::PERF_REG_ARM64_X0;
