//! Real split locks: locked instructions on memory that lies across two cache lines.

use std::time::Instant;

/// Result of [`make`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Nanoseconds per split lock.
    pub split_ns: f64,
    /// Nanoseconds per locked instruction within one cache line.
    pub aligned_ns: f64,
}

/// Bytes of a cache line on all x86 processors with 64-bit mode.
const LINE: usize = 64;

/// Two cache lines, so that a counter at the end of the first lies across both.
#[repr(align(64))]
struct CacheLines([u8; 2 * LINE]);

/// Makes `count` split locks, and as many locked instructions on an aligned counter. A kernel that
/// traps split locks may slow this process down, or end it by SIGBUS (`split_lock_detect`).
///
/// # Errors
/// The architecture is not x86_64.
pub fn make(count: u64) -> anyhow::Result<Measured> {
    let mut lines = CacheLines([0; 2 * LINE]);
    let aligned_ns = time(count, &mut lines, 0)?;
    let split_ns = time(count, &mut lines, LINE - 4)?;
    Ok(Measured { split_ns, aligned_ns })
}

/// Returns the nanoseconds per addition, of `count` locked additions to the eight bytes at
/// `offset`, at most `LINE`.
fn time(count: u64, lines: &mut CacheLines, offset: usize) -> anyhow::Result<f64> {
    let counter: &mut [u8] = &mut lines.0[offset..offset + 8];
    let since = Instant::now();
    for _ in 0..count {
        add_locked(counter)?;
    }
    Ok(since.elapsed().as_nanos() as f64 / count.max(1) as f64)
}

#[cfg(target_arch = "x86_64")]
fn add_locked(counter: &mut [u8]) -> anyhow::Result<()> {
    anyhow::ensure!(counter.len() == 8, "a counter has eight bytes");
    // SAFETY: the instruction adds to the eight bytes of `counter`, which this function borrows
    // exclusively; x86 allows any alignment.
    unsafe {
        std::arch::asm!("lock add qword ptr [{at}], 1", at = in(reg) counter.as_mut_ptr());
    }
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
fn add_locked(_: &mut [u8]) -> anyhow::Result<()> {
    anyhow::bail!("split locks exist on x86 only")
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn locked_additions_are_exact_also_across_cache_lines() {
        let mut lines = CacheLines([0; 2 * LINE]);
        assert!(time(300, &mut lines, LINE - 4).is_ok());
        let counter: [u8; 8] = lines.0[LINE - 4..LINE + 4].try_into().unwrap();
        assert_eq!(u64::from_le_bytes(counter), 300);
        assert!(lines.0[..LINE - 4].iter().all(|byte| *byte == 0));
    }
}
