//! The CPUs that can ever be online: maps have a value for each of them.

use std::io;
use std::sync::OnceLock;

use crate::base::text::cpulist;

/// The CPUs that can ever be online. Their numbers may have gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PossibleCpus {
    count: usize,
    /// One more than the largest number.
    numbers: usize,
}

impl PossibleCpus {
    /// Parses a list in the notation of the kernel.
    fn parse(text: &str) -> Option<PossibleCpus> {
        let cpus = cpulist::parse(text).ok()?;
        Some(PossibleCpus { count: cpus.len(), numbers: *cpus.last()? as usize + 1 })
    }

    fn known() -> io::Result<PossibleCpus> {
        static KNOWN: OnceLock<PossibleCpus> = OnceLock::new();
        if let Some(cpus) = KNOWN.get() {
            return Ok(*cpus);
        }
        let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
        let cpus = PossibleCpus::parse(&text).ok_or(io::ErrorKind::InvalidData)?;
        Ok(*KNOWN.get_or_init(|| cpus))
    }
}

/// Returns the number of CPUs that can ever be online. A map has a value for each of them.
///
/// # Errors
/// The file in /sys cannot be read.
pub fn possible_cpus() -> io::Result<usize> {
    PossibleCpus::known().map(|cpus| cpus.count)
}

/// Returns the length of an array by the number of such a CPU.
///
/// # Errors
/// As [`possible_cpus`].
pub fn cpu_numbers() -> io::Result<usize> {
    PossibleCpus::known().map(|cpus| cpus.numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn possible_cpus_may_have_gaps() {
        let of = |text| PossibleCpus::parse(text).map(|cpus| (cpus.count, cpus.numbers));
        assert_eq!(of("0-1\n"), Some((2, 2)));
        assert_eq!(of("0-3,8-11\n"), Some((8, 12)));
        assert_eq!(of("\n"), None);
    }
}
