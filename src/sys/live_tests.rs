//! Helpers of live tests: required privileges, and workloads with exact counts.

/// Returns whether a test that needs root may run. Without root, prints why it is skipped; in CI it
/// fails instead, so that no run passes by skipping.
#[must_use]
pub(crate) fn needs_root(what: &str) -> bool {
    let root = super::machine::is_root();
    let ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(root || !ci, "skipped in CI: {what} needs root");
    if !root {
        use std::io::Write;
        let _ = writeln!(super::streams::stderr(), "skipped: {what} needs root");
    }
    root
}

/// Calls getppid(2) `times` times.
pub(crate) fn getppid(times: u64) {
    for _ in 0..times {
        // SAFETY: getppid has no preconditions.
        unsafe { libc::getppid() };
    }
}

/// Returns the attr of a tracepoint: disabled, with every event sampled and these fields in each
/// record.
pub(crate) fn tracepoint(system: &str, name: &str, sample_type: u32) -> super::attr::Attr {
    let id = super::tracefs::Tracefs::find().unwrap().id(system, name).unwrap();
    let mut attr = super::attr::Attr::tracepoint(id);
    for (field, value) in
        [("sample_type", u64::from(sample_type)), ("sample_period", 1), ("disabled", 1)]
    {
        attr.set(field, value).unwrap();
    }
    attr
}

/// A forked process that runs a closure and ends; reaped by [`Forked::wait`].
pub(crate) struct Forked {
    pub(crate) pid: i32,
}

impl Forked {
    /// Forks. The closure must not print: the other threads of the test are gone, and their locks
    /// stay locked.
    pub(crate) fn new(run: impl FnOnce() + std::panic::UnwindSafe) -> Forked {
        // SAFETY: the child runs only the closure and leaves with _exit; the C library makes its
        // allocator usable.
        match unsafe { libc::fork() } {
            0 => {
                let failed = std::panic::catch_unwind(run).is_err();
                // SAFETY: _exit has no preconditions.
                unsafe { libc::_exit(i32::from(failed)) }
            }
            pid => {
                assert!(pid > 0, "failed to fork: {}", std::io::Error::last_os_error());
                Forked { pid }
            }
        }
    }

    /// Waits for its end; panics if it failed.
    pub(crate) fn wait(self) {
        let mut status = 0;
        // SAFETY: the kernel writes one int.
        let reaped = unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        assert_eq!((reaped, status), (self.pid, 0), "the forked process failed");
    }
}
