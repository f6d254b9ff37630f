//! Online CPUs, and requested ones that are not among them.

use crate::base::text::cpulist;

/// Returns the numbers of the online CPUs, ascending; at least one.
///
/// Reads /sys/devices/system/cpu/online. If /sys is hidden, takes the first CPUs, as many as are
/// online.
pub fn online_cpus() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    match cpulist::parse(&text) {
        Ok(cpus) if !cpus.is_empty() => cpus,
        _ => {
            // SAFETY: sysconf has no preconditions.
            let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
            (0..count.max(1) as u32).collect()
        }
    }
}

/// Returns why some of these CPUs cannot be traced; None if all of them are online.
pub fn absent(requested: &[u32], online: &[u32]) -> Option<String> {
    let missing = requested.iter().find(|cpu| !online.contains(cpu))?;
    let text = std::fs::read_to_string("/sys/devices/system/cpu/present").unwrap_or_default();
    let present = cpulist::parse(&text).ok().filter(|cpus| !cpus.is_empty());
    let present = present.unwrap_or_else(|| online.to_vec());
    let list = |cpus: &[u32]| match cpus {
        [only] => format!("only CPU {only}"),
        all => format!("CPUs {}", cpulist::format(all)),
    };
    Some(match present.contains(missing) {
        true => format!("CPU {missing} is offline; online: {}", list(online)),
        false => format!("this machine has {}", list(&present)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_the_cpus_that_the_library_counts() {
        // SAFETY: sysconf has no preconditions.
        let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        assert_eq!(online_cpus().len(), count as usize);
    }
}
