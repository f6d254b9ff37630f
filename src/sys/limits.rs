//! The limits of this process that perf events meet: open files and locked memory.

/// A limit on open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// In force.
    pub soft: u64,
    /// How far it can be raised.
    pub hard: u64,
}

/// `RLIMIT_NOFILE`.
pub fn nofile() -> OpenFiles {
    let mut limit = NONE;
    // SAFETY: the kernel fills the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    OpenFiles { soft: limit.rlim_cur, hard: limit.rlim_max }
}

/// Raises the soft limit on open files to the hard one; returns what is then in force.
///
/// An event takes a descriptor for each CPU and thread, so that the usual 1024 are few.
pub fn raise_nofile() -> OpenFiles {
    let hard = nofile().hard;
    let limit = libc::rlimit { rlim_cur: hard, rlim_max: hard };
    // SAFETY: the kernel reads the structure. A refusal leaves the limit as it was, which is returned.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    nofile()
}

/// `RLIMIT_MEMLOCK` in KiB; `None` is unlimited.
pub fn memlock_kb() -> Option<u64> {
    let mut limit = NONE;
    // SAFETY: the kernel fills the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    match limit.rlim_cur {
        libc::RLIM_INFINITY => None,
        bytes => Some(bytes / 1024),
    }
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
