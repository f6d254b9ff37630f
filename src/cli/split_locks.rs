//! `split-locks [N]`: makes real split locks, to test what counts them and how the kernel reacts.

use std::ffi::OsString;
use std::io::Write;

use anyhow::Context as _;

use super::{CommandError, optional_argument};
use crate::sys::split_lock;

/// Default number of split locks.
const COUNT: u64 = 100_000;

/// Makes split locks in this process, and writes how many, and the time of each.
///
/// # Errors
/// The argument is not a number, or the architecture is not supported.
pub fn run(words: &[OsString], out: &mut dyn Write) -> Result<u8, CommandError> {
    let count = match optional_argument("split-locks", words)? {
        None => COUNT,
        Some(word) => word.parse().ok().filter(|count| *count > 0).ok_or_else(|| {
            CommandError::Usage(format!("split-locks: '{word}' is not a count; for example 1000"))
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
