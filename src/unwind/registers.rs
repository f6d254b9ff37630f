//! The registers at the start of a walk, for both architectures.

use framehop::UnwindRegsNative;
use perf_event_open_sys::bindings as abi;

use crate::decode::sample_extra;
use crate::sys::registers::{FRAME_POINTER, INSTRUCTION_POINTER, LINK, STACK_POINTER};

/// User registers of a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserRegisters {
    /// Address of the next instruction.
    pub(super) instruction_pointer: u64,
    /// Address of the first byte of the stack copy.
    pub(super) stack_pointer: u64,
    /// Registers that the walk updates at each frame.
    pub(super) values: UnwindRegsNative,
}

impl UserRegisters {
    /// Returns the registers of a sample. An error is the instruction pointer of a program of
    /// another word size; None: the sample does not have all registers.
    pub(super) fn of(
        sampled: &sample_extra::SampledRegisters<'_>,
    ) -> Option<Result<UserRegisters, u64>> {
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
        Some(Ok(UserRegisters { instruction_pointer, stack_pointer, values }))
    }
}

/// Returns the registers at the start of a walk.
#[cfg(target_arch = "x86_64")]
pub(super) fn values(
    instruction_pointer: u64,
    stack_pointer: u64,
    frame_pointer: u64,
) -> UnwindRegsNative {
    UnwindRegsNative::new(instruction_pointer, stack_pointer, frame_pointer)
}

/// Returns the registers at the start of a walk.
///
/// Return addresses may carry a signature above their 48 bits
/// (Documentation/arch/arm64/pointer-authentication.rst).
#[cfg(target_arch = "aarch64")]
pub(super) fn values(link: u64, stack_pointer: u64, frame_pointer: u64) -> UnwindRegsNative {
    let mask = framehop::aarch64::PtrAuthMask((1 << 48) - 1);
    UnwindRegsNative::new_with_ptr_auth_mask(mask, link, stack_pointer, frame_pointer)
}

/// Returns the current frame pointer of the walk.
#[cfg(target_arch = "x86_64")]
pub(super) fn frame_pointer(values: &UnwindRegsNative) -> u64 {
    values.bp()
}

/// Returns the current frame pointer of the walk.
#[cfg(target_arch = "aarch64")]
pub(super) fn frame_pointer(values: &UnwindRegsNative) -> u64 {
    values.fp()
}

/// Returns the current stack pointer of the walk.
pub(super) fn stack_pointer(values: &UnwindRegsNative) -> u64 {
    values.sp()
}
