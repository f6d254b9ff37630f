//! The registers that a walk begins with, of either architecture.

use framehop::UnwindRegsNative;
use perf_event_open_sys::bindings as abi;

use crate::decode::rest;
use crate::sys::registers::{FRAME_POINTER, INSTRUCTION_POINTER, LINK, STACK_POINTER};

/// Where a task was in user space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    /// The next instruction.
    pub(super) instruction_pointer: u64,
    /// Where the copy of the stack begins.
    pub(super) stack_pointer: u64,
    /// What the walk changes with each frame.
    pub(super) values: UnwindRegsNative,
}

impl Registers {
    /// Those of a sample. An error is a program of another word size, with the address where it was; None is a sample that
    /// has not all of them.
    pub(super) fn of(sampled: &rest::Registers<'_>) -> Option<Result<Registers, u64>> {
        let instruction_pointer = sampled.get(INSTRUCTION_POINTER)?;
        if sampled.abi != u64::from(abi::PERF_SAMPLE_REGS_ABI_64) {
            return Some(Err(instruction_pointer));
        }
        let stack_pointer = sampled.get(STACK_POINTER)?;
        let link = match LINK {
            Some(link) => sampled.get(link)?,
            None => instruction_pointer,
        };
        let values = values(link, stack_pointer, sampled.get(FRAME_POINTER)?);
        Some(Ok(Registers { instruction_pointer, stack_pointer, values }))
    }
}

/// Those that a walk begins with.
#[cfg(target_arch = "x86_64")]
pub(super) fn values(
    instruction_pointer: u64,
    stack_pointer: u64,
    frame_pointer: u64,
) -> UnwindRegsNative {
    UnwindRegsNative::new(instruction_pointer, stack_pointer, frame_pointer)
}

/// Those that a walk begins with.
///
/// Return addresses may carry a signature above their 48 bits (Documentation/arch/arm64/pointer-authentication.rst).
#[cfg(target_arch = "aarch64")]
pub(super) fn values(link: u64, stack_pointer: u64, frame_pointer: u64) -> UnwindRegsNative {
    let mask = framehop::aarch64::PtrAuthMask((1 << 48) - 1);
    UnwindRegsNative::new_with_ptr_auth_mask(mask, link, stack_pointer, frame_pointer)
}

/// The frame pointer as the walk has it now.
#[cfg(target_arch = "x86_64")]
pub(super) fn frame_pointer(values: &UnwindRegsNative) -> u64 {
    values.bp()
}

/// The frame pointer as the walk has it now.
#[cfg(target_arch = "aarch64")]
pub(super) fn frame_pointer(values: &UnwindRegsNative) -> u64 {
    values.fp()
}

/// The stack pointer as the walk has it now.
pub(super) fn stack_pointer(values: &UnwindRegsNative) -> u64 {
    values.sp()
}
