//! The accesses that raise a breakpoint, and the number of bytes.

use anyhow::{Context as _, Result, bail};

/// Bytes of an execution breakpoint: `sizeof(long)`.
const CODE_LENGTH: u8 = 8;

/// Accesses that raise a breakpoint; the value is that of `perf_event_attr.bp_type`
/// (`HW_BREAKPOINT_R`, `_W` and `_X`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MemoryAccess {
    /// Reads.
    Read = 1,
    /// Writes.
    Write = 2,
    /// Reads and writes.
    ReadWrite = 3,
    /// Execution.
    Execute = 4,
}

/// Returns the accesses that letters of `rwx` stand for.
///
/// # Errors
/// The CPU cannot watch them.
pub(super) fn access(letters: &str) -> Result<MemoryAccess> {
    let has = |c: char| letters.contains(c);
    match (has('r'), has('w'), has('x')) {
        (true, false, false) if cfg!(target_arch = "x86_64") => {
            bail!("an x86 CPU cannot watch reads alone; use :rw for reads and writes")
        }
        (true, false, false) => Ok(MemoryAccess::Read),
        (false, true, false) => Ok(MemoryAccess::Write),
        (true, true, false) => Ok(MemoryAccess::ReadWrite),
        (false, false, true) => Ok(MemoryAccess::Execute),
        _ => bail!("the CPU cannot watch execution together with reads or writes; use two events"),
    }
}

/// Returns the number of watched bytes; `usual` is that without a typed one.
///
/// # Errors
/// The CPU cannot watch as many.
pub(super) fn length(typed: Option<&str>, access: MemoryAccess, usual: u8) -> Result<u8> {
    let length = match typed {
        None if access == MemoryAccess::Execute => CODE_LENGTH,
        None => usual,
        Some(typed) => {
            typed.parse().ok().filter(|n| matches!(n, 1 | 2 | 4 | 8)).with_context(|| {
                format!("/{typed}: the CPU watches 1, 2, 4 or 8 bytes; use one of these")
            })?
        }
    };
    if access == MemoryAccess::Execute && length != CODE_LENGTH {
        bail!("/{length}: execution is watched at one address; omit the length");
    }
    Ok(length)
}
