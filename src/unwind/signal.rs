//! Unwinds through signal handlers: finds the interrupted registers, which the kernel has put on
//! the stack.
//!
//! A handler returns to a few instructions of the C library or the vDSO that call the kernel to
//! resume the interrupted code. Their unwind tables compute each register from memory, which
//! framehop does not support; but the place is always the same: the `ucontext` of `rt_sigframe`
//! (arch/*/kernel/signal.c, asm/ucontext.h and asm/sigcontext.h).

use std::ops::Range;

use super::registers;
use framehop::UnwindRegsNative;

/// Returns the interrupted instruction pointer and the registers there; None if the stack cannot be
/// read. `values` are the registers in the code that the handler returns to.
pub(super) fn interrupted(
    values: &UnwindRegsNative,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<(u64, UnwindRegsNative)> {
    let frame = registers::stack_pointer(values);
    let mut register = |offset: u64| read(frame.checked_add(offset)?).ok();
    let link = LINK.map_or(Some(0), &mut register)?;
    let instruction_pointer = register(INSTRUCTION_POINTER)?;
    let (stack_pointer, frame_pointer) = (register(STACK_POINTER)?, register(FRAME_POINTER)?);
    let link = if LINK.is_some() { link } else { instruction_pointer };
    Some((instruction_pointer, registers::values(link, stack_pointer, frame_pointer)))
}

/// Offsets from the stack pointer, where the `ucontext` is; its registers follow flags, link and
/// stack (40 bytes) in the order r8-r15 di si bp bx dx ax cx sp ip.
#[cfg(target_arch = "x86_64")]
const FRAME_POINTER: u64 = 40 + 8 * 10;
#[cfg(target_arch = "x86_64")]
const STACK_POINTER: u64 = 40 + 8 * 15;
#[cfg(target_arch = "x86_64")]
const INSTRUCTION_POINTER: u64 = 40 + 8 * 16;
#[cfg(target_arch = "x86_64")]
const LINK: Option<u64> = None;

/// Offsets from the stack pointer: `siginfo` (128 bytes), the `ucontext` up to its machine part
/// (176), the fault address, then x0-x30, sp, pc.
#[cfg(target_arch = "aarch64")]
const REGISTERS: u64 = 128 + 176 + 8;
#[cfg(target_arch = "aarch64")]
const FRAME_POINTER: u64 = REGISTERS + 8 * 29;
#[cfg(target_arch = "aarch64")]
const STACK_POINTER: u64 = REGISTERS + 8 * 31;
#[cfg(target_arch = "aarch64")]
const INSTRUCTION_POINTER: u64 = REGISTERS + 8 * 32;
#[cfg(target_arch = "aarch64")]
const LINK: Option<u64> = Some(REGISTERS + 8 * 30);

/// Maximum number of ranges of an object; a C library has one.
pub(super) const RANGES_MAX: usize = 64;

/// Returns the code that handlers return to, in addresses before relocation: the functions of
/// `.eh_frame` whose augmentation has an `S`. `address` is the address of the section.
///
/// The format is defined by the Linux Standard Base, "Exception Frames". The section is read once,
/// whatever it contains.
pub(super) fn trampolines(eh_frame: &[u8], address: u64) -> Vec<Range<u64>> {
    let (mut found, mut marked) = (Vec::new(), Vec::new());
    let mut at = 0;
    while found.len() < RANGES_MAX
        && let Some(length) = u32_at(eh_frame, at).filter(|length| !matches!(*length, 0 | u32::MAX))
    {
        let body = at + 4;
        let Some(id) = u32_at(eh_frame, body) else { break };
        if id == 0 {
            if is_marked(eh_frame, body + 4) == Some(true) {
                marked.push(at);
            }
        } else if let Some(common) = body.checked_sub(id as usize)
            && marked.binary_search(&common).is_ok()
        {
            found.extend(range(eh_frame, body + 4, address));
        }
        at = body + length as usize;
    }
    found
}

/// Returns whether the common entry at an offset, after its id, has the augmentation `zRS` and
/// relative 32-bit addresses, as every compiler writes it.
fn is_marked(eh_frame: &[u8], at: usize) -> Option<bool> {
    const AUGMENTATION: &[u8] = b"zRS\0";
    const RELATIVE: u8 = 0x1b;
    let rest = eh_frame.get(at + 1..)?.strip_prefix(AUGMENTATION)?;
    // Alignments, return address register and length: one byte each in all existing tables.
    Some(rest.get(4) == Some(&RELATIVE))
}

fn range(eh_frame: &[u8], at: usize, address: u64) -> Option<Range<u64>> {
    let (relative, length) = (u32_at(eh_frame, at)?.cast_signed(), u32_at(eh_frame, at + 4)?);
    let start = address.wrapping_add(at as u64).wrapping_add_signed(relative.into());
    Some(start..start.checked_add(length.into())?)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32).to_ne_bytes()[..], body].concat()
    }

    #[test]
    fn only_marked_functions_are_trampolines() {
        let common = |augmentation: &[u8]| {
            entry(&[&[0; 4][..], &[1], augmentation, &[0, 1, 0x78, 16, 1, 0x1b, 0, 0]].concat())
        };
        let (plain, marked) = (common(b"zR"), common(b"zRS"));
        let mut bytes = [plain, marked.clone()].concat();
        let at_marked = bytes.len() - marked.len();
        for (common, begin, length) in [(0usize, 0x100i32, 8u32), (at_marked, -0x40, 9)] {
            let id = (bytes.len() + 4 - common) as u32;
            let body = [id.to_ne_bytes(), begin.to_ne_bytes(), length.to_ne_bytes()].concat();
            bytes.extend(entry(&body));
        }
        let field = bytes.len() as u64 - 8;
        bytes.extend([0; 4]);
        let start = 0x1000 + field - 0x40;
        assert_eq!(trampolines(&bytes, 0x1000), vec![start..start + 9]);
        // Many entries of both kinds are read in linear time, and the number of ranges is bounded.
        let mut many = marked.repeat(1 << 15);
        let near = many.len() - marked.len();
        for _ in 0..1 << 15 {
            let id = (many.len() + 4 - near) as u32;
            many.extend(entry(&[id.to_ne_bytes(), [0; 4], [1, 0, 0, 0]].concat()));
        }
        assert_eq!(trampolines(&many, 0).len(), RANGES_MAX);
        for end in 0..bytes.len() {
            assert!(trampolines(&bytes[..end], 0x1000).len() < 2);
        }
    }
}
