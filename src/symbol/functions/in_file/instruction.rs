//! Instructions inside of a file's functions.
//!
//! A breakpoint in the middle of an instruction kills the process that executes it, and the kernel
//! does not refuse one in a user-space program of x86. The function is therefore decoded from its
//! beginning, which is known from its symbol, or from the unwind tables of a stripped file.

use anyhow::{Result, bail};

use super::{ProgramFile, elf};
use crate::decode::elf::symbols::ElfFunction;
use crate::decode::elf::unwind_index::function_start;
use crate::event::kind::function::FunctionLocation;

/// An offset that is not the beginning of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Misplaced {
    /// It is inside the instruction that begins and ends at these offsets.
    Inside(usize, usize),
    /// The bytes at this offset are not an instruction.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "elsewhere, instructions have one length and are not decoded")
    )]
    Undecodable(usize),
}

/// Why an instruction cannot be probed.
const MISTAKEN: &str = "has a VEX or EVEX encoding, which the kernel takes for another \
    instruction: a probe may change what the program computes; watch a function that calls it";

impl ProgramFile {
    /// Returns whether the kernel executes the instruction at this address of the file as it is.
    pub(super) fn is_probeable(&self, address: u64) -> bool {
        let at = elf(&self.object).and_then(|elf| elf.offset_of_code(address));
        at.is_some_and(|at| !is_mistaken(self.bytes_from(at)))
    }

    /// Returns the bytes of the file from an offset on.
    pub(super) fn bytes_from(&self, offset: u64) -> &[u8] {
        let bytes = usize::try_from(offset).ok().and_then(|at| self.object.bytes().get(at..));
        bytes.unwrap_or_default()
    }

    /// Returns the location of the instruction at a byte offset in the function `name`, which
    /// begins at `start`. If its name is not known, messages contain addresses.
    ///
    /// # Errors
    /// The offset is outside the function or not the beginning of an instruction, or the function
    /// is not in the file.
    pub(super) fn inside(
        &self,
        name: Option<&str>,
        start: u64,
        offset: u64,
    ) -> Result<FunctionLocation> {
        let shown = self.path.display();
        let elf = elf(&self.object);
        let Some(first) = elf.and_then(|elf| elf.offset_of_code(start)) else {
            bail!(
                "{shown} has no code at the address of this symbol; its debug file may be of \
                 another build: install the matching one"
            );
        };
        let function = || name.map_or_else(|| format!("{start:#x}"), str::to_owned);
        let code = self.bytes_from(first);
        if offset == 0 {
            if is_mistaken(code) {
                bail!("the first instruction of '{}' {MISTAKEN}", function());
            }
            return Ok(FunctionLocation::in_file(self.code.clone(), first, true));
        }
        let size = self.size_of(start);
        let code = code.get(..usize::try_from(size)?).unwrap_or(code);
        let Some(inside) = usize::try_from(offset).ok().filter(|inside| *inside < code.len())
        else {
            bail!("'{}' of {shown} has {} bytes; use a smaller offset", function(), code.len());
        };
        let place = |offset: u64| match name {
            Some(name) => format!("{name}+{offset:#x}"),
            None => format!("{:#x}", start + offset),
        };
        match check(code, inside) {
            Ok(()) if is_mistaken(code.get(inside..).unwrap_or_default()) => {
                bail!("the instruction at {} {MISTAKEN}", place(offset))
            }
            Ok(()) => Ok(FunctionLocation::in_file(self.code.clone(), first + offset, false)),
            Err(Misplaced::Inside(begin, end)) => bail!(
                "{} is in the middle of an instruction, where a probe would kill the program; use \
                 {} or {}",
                place(offset),
                place(begin as u64),
                place(end as u64)
            ),
            Err(Misplaced::Undecodable(at)) => bail!(
                "the code at {} cannot be decoded, so the instructions behind it are not known; \
                 use one before it",
                place(at as u64)
            ),
        }
    }

    /// Checks that an instruction begins at a byte offset in the function `name`, which begins at
    /// `start`. It need not be one that can be probed. Code that cannot be decoded is accepted.
    ///
    /// # Errors
    /// The offset is inside an instruction, or the file has no code at the address.
    pub(in crate::symbol::functions) fn check_instruction(
        &self,
        name: &str,
        start: u64,
        offset: u64,
    ) -> Result<()> {
        let Some(first) = elf(&self.object).and_then(|elf| elf.offset_of_code(start)) else {
            bail!("{} has no code at the address of {name}", self.path.display());
        };
        match check(self.bytes_from(first), usize::try_from(offset)?) {
            Err(Misplaced::Inside(begin, end)) => bail!(
                "no instruction begins at {name}+{offset:#x}; use {name}+{begin:#x} or \
                 {name}+{end:#x}"
            ),
            _ => Ok(()),
        }
    }

    /// Returns the location of the instruction at an address of the symbol table.
    ///
    /// # Errors
    /// No function contains the address; or as [`ProgramFile::inside`].
    pub(super) fn at_address(&self, address: u64) -> Result<FunctionLocation> {
        if elf(&self.object).and_then(|elf| elf.offset_of_code(address)).is_none() {
            bail!(
                "{} has no code at this address; use one of its symbol table, as nm and objdump \
                 show it",
                self.path.display()
            );
        }
        let mut nearest: Option<ElfFunction<'_>> = None;
        let mut any = false;
        self.each(&mut |function| {
            any = true;
            let by = address.checked_sub(function.address);
            let contains = by.is_some_and(|by| function.size == 0 || by < function.size);
            if contains && nearest.is_none_or(|best| best.address < function.address) {
                nearest = Some(function);
            }
            true
        });
        let unwound = elf(&self.object).and_then(|elf| function_start(&elf, address));
        // A symbol without a size, such as `_init`, may be followed by functions without symbols.
        let is_nearer = |start: &u64| {
            nearest.is_none_or(|function| function.size == 0 && function.address < *start)
        };
        if let Some(start) = unwound.filter(is_nearer) {
            return self.inside(None, start, address - start);
        }
        if let Some(function) = nearest {
            let name = String::from_utf8_lossy(function.name);
            return self.inside(Some(&name), function.address, address - function.address);
        }
        if !any {
            return Err(self.no_symbols());
        }
        bail!(
            "{} has no function that contains this address; use one of its symbol table, as nm \
             and objdump show it",
            self.path.display()
        )
    }

    /// Returns the size in bytes of the function that begins at an address: that of its symbol, or
    /// up to the next one.
    fn size_of(&self, start: u64) -> u64 {
        let (mut size, mut next) = (0, u64::MAX);
        self.each(&mut |function| {
            if function.address == start {
                size = size.max(function.size);
            } else if function.address > start {
                next = next.min(function.address);
            }
            true
        });
        if size > 0 { size } else { next - start }
    }
}

/// Returns whether the instruction at the beginning of `code` has a VEX or EVEX encoding.
///
/// Linux looks at its opcode alone (`OPCODE1()` in arch/x86/kernel/uprobes.c), whose numbers are
/// those of other instructions without such an encoding. It skips `vpbroadcastb` (7a, as `jp`),
/// and never puts a probe on `vmovd` (6e, as `outs`), without an error if no process has mapped it.
#[cfg(target_arch = "x86_64")]
fn is_mistaken(code: &[u8]) -> bool {
    // Prefixes of segments and of the address size.
    const PREFIXES: [u8; 7] = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x67];
    let first = code.iter().find(|byte| !PREFIXES.contains(byte));
    matches!(first, Some(0xc4 | 0xc5 | 0x62))
}

/// All instructions of aarch64 have encodings of their own.
#[cfg(target_arch = "aarch64")]
fn is_mistaken(_: &[u8]) -> bool {
    false
}

/// Returns whether the first instruction does nothing, as that of a USDT probe.
#[cfg(target_arch = "x86_64")]
pub(super) fn is_nop(code: &[u8]) -> bool {
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};
    Decoder::new(64, code, DecoderOptions::NONE).decode().mnemonic() == Mnemonic::Nop
}

/// Returns whether the first instruction does nothing, as that of a USDT probe.
#[cfg(target_arch = "aarch64")]
pub(super) fn is_nop(code: &[u8]) -> bool {
    code.starts_with(&0xd503_201f_u32.to_le_bytes())
}

/// Checks that an instruction begins at an offset of a function's code.
#[cfg(target_arch = "x86_64")]
fn check(code: &[u8], offset: usize) -> Result<(), Misplaced> {
    use iced_x86::{Decoder, DecoderOptions, Instruction};
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    loop {
        let begin = decoder.position();
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return Err(Misplaced::Undecodable(begin));
        }
        if begin == offset {
            return Ok(());
        }
        if decoder.position() > offset {
            return Err(Misplaced::Inside(begin, decoder.position()));
        }
    }
}

/// Checks that an instruction begins at an offset of a function's code: all of them have 4 bytes.
#[cfg(target_arch = "aarch64")]
fn check(_: &[u8], offset: usize) -> Result<(), Misplaced> {
    let begin = offset / 4 * 4;
    if begin == offset { Ok(()) } else { Err(Misplaced::Inside(begin, begin + 4)) }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn encodings_that_the_kernel_mistakes_are_found() {
        for (code, mistaken) in [
            (&[0x62, 0xe2, 0x7d, 0x48, 0x7a, 0xc6][..], true), // vpbroadcastb %esi,%zmm16
            (&[0xc5, 0xf9, 0x7e, 0x07], true),                 // vmovd %xmm0,(%rdi)
            (&[0xc5, 0xf8, 0x77], true),                       // vzeroupper
            (&[0xc4, 0xe2, 0x7d, 0x78, 0xc0], true),           // vpbroadcastb %xmm0,%ymm0
            (&[0x67, 0xc5, 0xf9, 0xeb, 0xc1], true),           // vpor with a prefix
            (&[0xc5, 0xf9, 0x6e, 0xce], true),                 // vmovd %esi,%xmm1
            (&[0x7a, 0x10], false),                            // jp
            (&[0xf3, 0x0f, 0x1e, 0xfa], false),                // endbr64
            (&[0x64, 0x48, 0x8b], false),                      // mov %fs:…
            (&[], false),
        ] {
            assert_eq!(is_mistaken(code), mistaken, "{code:x?}");
        }
    }

    #[test]
    fn only_the_beginning_of_an_instruction_is_accepted() {
        // push %rbp; mov %rsp,%rbp; lea 0x10(%rdi,%rsi,4),%rax; (invalid)
        let code = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x8d, 0x44, 0xb7, 0x10, 0x06, 0x90];
        for (offset, wanted) in [
            (0, Ok(())),
            (1, Ok(())),
            (2, Err(Misplaced::Inside(1, 4))),
            (4, Ok(())),
            (8, Err(Misplaced::Inside(4, 9))),
            (9, Err(Misplaced::Undecodable(9))),
            (10, Err(Misplaced::Undecodable(9))),
            (99, Err(Misplaced::Undecodable(9))),
        ] {
            assert_eq!(check(&code, offset), wanted, "{offset}");
        }
        assert_eq!(check(&code[..5], 4), Err(Misplaced::Undecodable(4)), "cut off");
        assert_eq!(check(&[], 3), Err(Misplaced::Undecodable(0)));
    }
}
