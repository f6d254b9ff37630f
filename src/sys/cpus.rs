//! The CPUs that are online.

/// Numbers of the online CPUs, rising; at least one.
///
/// From /sys/devices/system/cpu/online. Where /sys is hidden, CPUs are counted and taken to be the first ones.
pub fn online_cpus() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    match parse(&text) {
        Some(cpus) if !cpus.is_empty() => cpus,
        _ => {
            // SAFETY: it has no preconditions.
            let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
            (0..count.max(1) as u32).collect()
        }
    }
}

/// The kernel's own list format: `0-3,5`.
fn parse(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?.min(MOST));
    }
    Some(cpus)
}

/// More CPUs than any kernel can be configured for (NR_CPUS is at most 8192).
const MOST: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_is_read() {
        assert_eq!(parse("0-1,4,6-7\n"), Some(vec![0, 1, 4, 6, 7]));
        assert_eq!(parse("0\n"), Some(vec![0]));
        assert_eq!(parse(""), None);
        assert_eq!(parse("0-x"), None);
    }

    #[test]
    fn the_machine_has_the_cpus_that_the_library_counts() {
        // SAFETY: it has no preconditions.
        let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        assert_eq!(online_cpus().len(), count as usize);
    }
}
