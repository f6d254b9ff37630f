//! The model of the CPU, and how its kernel treats split locks, from /proc.

/// The model of the CPU. On architectures other than x86 only the name may be known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuModel {
    /// `GenuineIntel`, `AuthenticAMD`; empty if the kernel does not print it.
    pub vendor: String,
    /// The family, as CPUID reports it.
    pub family: u32,
    /// The model within the family.
    pub model: u32,
    /// The name that the CPU reports.
    pub name: String,
    /// Whether the CPU can trap split locks (`split_lock_detect`) or bus locks (`bus_lock_detect`).
    pub traps_split_locks: bool,
}

impl CpuModel {
    /// Reads the first CPU of this machine; the others are of the same model, or close to it.
    pub fn read() -> CpuModel {
        Self::parse(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    fn parse(cpuinfo: &str) -> CpuModel {
        let first = cpuinfo.split("\n\n").next().unwrap_or_default();
        let pairs: Vec<(&str, &str)> =
            first.lines().filter_map(|line| line.split_once(':')).collect();
        let of = |key: &str| {
            let found = pairs.iter().find(|(name, _)| name.trim_end() == key);
            found.map_or("", |(_, value)| value.trim())
        };
        let number = |key: &str| of(key).parse().unwrap_or(0);
        let is_trap = |flag: &str| matches!(flag, "split_lock_detect" | "bus_lock_detect");
        CpuModel {
            vendor: of("vendor_id").to_owned(),
            family: number("cpu family"),
            model: number("model"),
            name: of("model name").to_owned(),
            traps_split_locks: of("flags").split(' ').any(is_trap),
        }
    }
}

/// Returns what the kernel does when a task makes a split lock: the value of `split_lock_detect` on
/// its command line, `warn` by default; None if the CPU cannot trap split locks, so that the kernel
/// does nothing (arch/x86/kernel/cpu/bus_lock.c).
pub fn split_lock_detection() -> Option<String> {
    let cmdline = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    detection(CpuModel::read().traps_split_locks, &cmdline)
}

fn detection(traps: bool, cmdline: &str) -> Option<String> {
    let options = cmdline.split_ascii_whitespace();
    let configured =
        options.filter_map(|option| option.strip_prefix("split_lock_detect=")).next_back();
    traps.then(|| configured.unwrap_or("warn").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTEL: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n\
        model\t\t: 106\nmodel name\t: Intel(R) Xeon(R) Platinum 8370C\n\
        flags\t\t: fpu split_lock_detect\n\n\
        processor\t: 1\nmodel\t\t: 7\n";

    #[test]
    fn the_first_cpu_names_the_model() {
        let model = CpuModel::parse(INTEL);
        assert_eq!((model.vendor.as_str(), model.family, model.model), ("GenuineIntel", 6, 106));
        assert_eq!(model.name, "Intel(R) Xeon(R) Platinum 8370C");
        assert!(model.traps_split_locks);
        let arm = CpuModel::parse("processor\t: 0\nCPU implementer\t: 0x41\n");
        assert_eq!(arm, CpuModel::default());
    }

    #[test]
    fn split_lock_detection_warns_unless_the_command_line_sets_it() {
        assert_eq!(detection(true, "quiet ro"), Some("warn".to_owned()));
        assert_eq!(detection(true, "split_lock_detect=fatal ro"), Some("fatal".to_owned()));
        assert_eq!(detection(false, "split_lock_detect=fatal"), None);
    }
}
