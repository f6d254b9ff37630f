//! `split-locks [N]`: makes real split locks, to see what counts them and what the kernel does then.

use std::ffi::OsString;
use std::io::Write;

use anyhow::Context as _;

use super::{Failed, one_word};
use crate::sys::split_lock;

/// Split locks that are made without a number.
const COUNT: u64 = 100_000;

/// Makes them in this process, and writes how many and how long each took.
///
/// # Errors
/// A word that is not a number; another architecture.
pub fn run(words: &[OsString], out: &mut dyn Write) -> Result<u8, Failed> {
    let count = match one_word("split-locks", words)? {
        None => COUNT,
        Some(word) => word.parse().ok().filter(|count| *count > 0).ok_or_else(|| {
            Failed::Usage(format!("split-locks: '{word}' is not a number of split locks: 1000"))
        })?,
    };
    let made = split_lock::make(count).context("split-locks")?;
    writeln!(
        out,
        "made {count} split locks, {:.1} ns each; the same within a cache line takes {:.1} ns",
        made.split_ns, made.aligned_ns
    )?;
    Ok(0)
}
