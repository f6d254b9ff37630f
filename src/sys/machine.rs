//! Facts about this kernel and this process; reading one never fails, or returns `None`.

use std::path::Path;
use std::sync::OnceLock;

/// Returns the page size in bytes.
pub fn page_size() -> usize {
    static PAGE: OnceLock<usize> = OnceLock::new();
    // SAFETY: sysconf has no preconditions; the page size is always known.
    *PAGE.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize)
}

/// Returns the size of the machine's memory in bytes.
pub fn memory_bytes() -> usize {
    // SAFETY: sysconf has no preconditions.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    usize::try_from(pages).unwrap_or(0).saturating_mul(page_size())
}

/// Returns the release of the running kernel, as `uname -r` prints it.
pub fn kernel_release() -> String {
    text_of(&names().release)
}

/// Returns the name of this host, as `uname -n` prints it.
pub fn host_name() -> String {
    text_of(&names().nodename)
}

fn names() -> libc::utsname {
    // SAFETY: zero is a valid value of this structure of arrays.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the structure.
    unsafe { libc::uname(&raw mut names) };
    names
}

/// Returns the text of a field of [`names`].
fn text_of(field: &[libc::c_char]) -> String {
    let bytes: Vec<u8> =
        field.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns whether the running kernel has this version (major, minor) or a later one.
pub fn is_linux_since(version: (u32, u32)) -> bool {
    let release = kernel_release();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= version
}

/// Returns whether the CPU is from AMD, or from Hygon with the same design: its guests exit by SVM.
pub fn is_amd() -> bool {
    let facts = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let vendor = facts.lines().find(|line| line.starts_with("vendor_id")).unwrap_or_default();
    vendor.contains("AuthenticAMD") || vendor.contains("HygonGenuine")
}

/// Returns major and minor number of a block device by its name in /dev, `vda` or `mapper/root`, or
/// by its path; its numbers, `259:3`, are returned as they are. `None` if it is not a block device.
pub fn block_device(name: &str) -> Option<(u32, u32)> {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    if let Some((major, minor)) = name.split_once(':')
        && let (Ok(major), Ok(minor)) = (major.parse(), minor.parse())
    {
        return Some((major, minor));
    }
    let found = std::fs::metadata(Path::new("/dev").join(name)).ok()?;
    let number = found.rdev();
    found.file_type().is_block_device().then(|| (libc::major(number), libc::minor(number)))
}

/// Returns the name of the disk of a partition by its major and minor number; `None` if they are
/// not those of a partition.
pub fn disk_of_partition(device: (u32, u32)) -> Option<String> {
    disk_in(Path::new("/sys/dev/block"), device)
}

/// Does what [`disk_of_partition`] does with a folder that has the links of /sys/dev/block: each
/// leads to the folder of its device, that of a partition is in the folder of its disk.
fn disk_in(links: &Path, (major, minor): (u32, u32)) -> Option<String> {
    let device = links.join(format!("{major}:{minor}")).canonicalize().ok()?;
    let is_partition = device.join("partition").exists();
    let disk = device.parent().filter(|_| is_partition)?.file_name()?;
    disk.to_str().map(str::to_owned)
}

/// Returns whether the effective user is root.
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Returns `kernel.perf_event_paranoid`, or `None` if this kernel has no perf.
pub fn paranoid() -> Option<i64> {
    sysctl("kernel/perf_event_paranoid")
}

/// Returns how many branches the hardware records, if the CPU's driver reports it (Linux 5.0 and
/// later, on Intel).
pub fn branches_remembered() -> Option<usize> {
    let text = std::fs::read_to_string("/sys/bus/event_source/devices/cpu/caps/branches").ok()?;
    text.trim().parse().ok()
}

/// Returns the type of a PMU, `perf_event_attr.type`; None if this kernel has no PMU of that name.
pub fn pmu_type(name: &str) -> Option<u32> {
    let text =
        std::fs::read_to_string(format!("/sys/bus/event_source/devices/{name}/type")).ok()?;
    text.trim().parse().ok()
}

/// Returns a number under /proc/sys; None if it cannot be read.
pub fn sysctl<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().parse().ok()
}

/// Returns the CPU time that all threads of this process have used, user and kernel, in nanoseconds
/// with microsecond resolution.
pub fn own_cpu_ns() -> u64 {
    let usage = resource_usage();
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// Returns the number of tasks that run or wait for a CPU, this one included; None if it cannot be
/// read.
pub fn runnable_tasks() -> Option<u32> {
    runnable(&std::fs::read_to_string("/proc/loadavg").ok()?)
}

/// Returns the number of runnable tasks in the text of /proc/loadavg (proc_loadavg(5)).
fn runnable(text: &str) -> Option<u32> {
    text.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// Returns the maximum resident memory of this program, in KiB.
///
/// Reads `VmHWM`, because `ru_maxrss` includes the process before its exec, which after a fork is
/// as large as its parent.
pub fn max_rss_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or_else(|| resource_usage().ru_maxrss as u64)
}

fn resource_usage() -> libc::rusage {
    // SAFETY: zero is a valid value of this structure of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the structure.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_of_a_partition_is_the_device_whose_folder_it_is_in() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let links = folder.path().join("dev/block");
        let disk = folder.path().join("devices/nvme0n1");
        for part in [&links, &disk.join("nvme0n1p2")] {
            std::fs::create_dir_all(part).expect("a folder can be made");
        }
        std::fs::write(disk.join("nvme0n1p2/partition"), "2").expect("it can be written");
        for (number, device) in [("259:0", "nvme0n1"), ("259:2", "nvme0n1/nvme0n1p2")] {
            let target = Path::new("../../devices").join(device);
            std::os::unix::fs::symlink(target, links.join(number)).expect("a link can be made");
        }
        assert_eq!(disk_in(&links, (259, 2)).as_deref(), Some("nvme0n1"));
        assert_eq!(disk_in(&links, (259, 0)), None);
        assert_eq!(disk_in(&links, (8, 1)), None);
    }

    #[test]
    fn a_block_device_has_numbers_by_its_numbers() {
        assert_eq!(block_device("259:3"), Some((259, 3)));
        assert_eq!(block_device("259:x"), None);
    }

    #[test]
    fn runnable_tasks_are_the_first_part_of_the_fourth_column() {
        assert_eq!(runnable("0.61 0.84 1.14 3/412 29412\n"), Some(3));
        assert_eq!(runnable("0.61 0.84 1.14\n"), None);
        assert!(runnable_tasks() >= Some(1));
    }

    #[test]
    fn the_machine_is_described() {
        assert!(page_size().is_power_of_two());
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(kernel_release(), release.trim());
        assert!(is_linux_since((4, 17)) && !is_linux_since((u32::MAX, 0)));
        assert_eq!(sysctl::<u64>("kernel/no/such/thing"), None);
        assert!(max_rss_kb() > 100);
    }

    #[test]
    fn own_cpu_time_grows_with_work() {
        let before = own_cpu_ns();
        let mut work = 1u64;
        while own_cpu_ns() < before + 2_000_000 {
            work = std::hint::black_box(work.wrapping_mul(3));
        }
        assert!(own_cpu_ns() > before);
    }
}
