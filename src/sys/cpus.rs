//! The CPUs that are online.

use crate::base::cpulist;

/// Numbers of the online CPUs, rising; at least one.
///
/// From /sys/devices/system/cpu/online. Where /sys is hidden, CPUs are counted and taken to be the first ones.
pub fn online_cpus() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    match cpulist::parse(&text) {
        Ok(cpus) if !cpus.is_empty() => cpus,
        _ => {
            // SAFETY: it has no preconditions.
            let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
            (0..count.max(1) as u32).collect()
        }
    }
}

/// Why some of these CPUs cannot be watched; None if all of them are online.
pub fn absent(asked: &[u32], online: &[u32]) -> Option<String> {
    let missing = asked.iter().find(|cpu| !online.contains(cpu))?;
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
        // SAFETY: it has no preconditions.
        let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        assert_eq!(online_cpus().len(), count as usize);
    }
}
