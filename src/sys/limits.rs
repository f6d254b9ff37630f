//! Limits of this process that affect a run: open files, locked memory, processes.

use std::path::{Path, PathBuf};

/// A limit on open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// The limit in force.
    pub soft: u64,
    /// The maximum of the soft limit.
    pub hard: u64,
}

/// Returns `RLIMIT_NOFILE`.
pub fn nofile() -> OpenFiles {
    let mut limit = NONE;
    // SAFETY: the kernel fills the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    OpenFiles { soft: limit.rlim_cur, hard: limit.rlim_max }
}

/// Raises the soft limit on open files to the hard one; returns the limits that are then in force.
///
/// An event takes a descriptor per CPU and thread, so the usual 1024 may not be enough.
pub fn raise_nofile() -> OpenFiles {
    let hard = nofile().hard;
    let limit = libc::rlimit { rlim_cur: hard, rlim_max: hard };
    // SAFETY: the kernel reads the structure. A refusal leaves the limit as it was, which is
    // returned.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    nofile()
}

/// Returns `RLIMIT_MEMLOCK` in KiB; `None` is unlimited.
pub fn memlock_kb() -> Option<u64> {
    let mut limit = NONE;
    // SAFETY: the kernel fills the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    match limit.rlim_cur {
        libc::RLIM_INFINITY => None,
        bytes => Some(bytes / 1024),
    }
}

/// Returns `RLIMIT_NPROC`; `None` is unlimited.
pub fn nproc() -> Option<u64> {
    let mut limit = NONE;
    // SAFETY: the kernel fills the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &raw mut limit) };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Returns the innermost cgroup of this process with as many tasks as its `pids.max` allows, and
/// that number.
pub fn full_pids_cgroup() -> Option<(String, u64)> {
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut places = text.lines().filter_map(pids_cgroup);
    places.find_map(|(roots, path)| {
        let root = roots.into_iter().map(Path::new).find(|root| root.is_dir())?;
        let folders = Path::new(path).ancestors();
        folders.map(|folder| full(root, folder)).find_map(|full| full)
    })
}

/// Returns the possible mount points of the hierarchy that counts tasks, and the path in it, from a
/// line of /proc/PID/cgroup: `8:pids:/user.slice` or, in the unified hierarchy, `0::/user.slice`.
fn pids_cgroup(line: &str) -> Option<(Vec<&'static str>, &str)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    if controllers.is_empty() {
        return Some((vec!["/sys/fs/cgroup/unified", "/sys/fs/cgroup"], path));
    }
    let counts = controllers.split(',').any(|controller| controller == "pids");
    counts.then(|| (vec!["/sys/fs/cgroup/pids"], path))
}

fn full(root: &Path, folder: &Path) -> Option<(String, u64)> {
    let below = folder.strip_prefix("/").unwrap_or(folder);
    let number = |file: &str| {
        let path: PathBuf = root.join(below).join(file);
        std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
    };
    // Without a limit, the file contains `max`.
    let (max, current) = (number("pids.max")?, number("pids.current")?);
    (current >= max).then(|| (folder.to_string_lossy().into_owned(), max))
}

const NONE: libc::rlimit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_are_raised_to_the_hard_limit() {
        let raised = raise_nofile();
        assert_eq!(raised.soft, raised.hard);
        assert_eq!(nofile(), raised);
    }
}
