//! Bursts of system calls, a random mixture with known counts.

use std::collections::BTreeMap;

use super::Load;

/// The system calls, and their shares in percent.
pub(crate) const CALLS: [(i64, u64); 6] = [
    (libc::SYS_getppid, 50),
    (libc::SYS_getuid, 25),
    (libc::SYS_geteuid, 12),
    (libc::SYS_getgid, 8),
    (libc::SYS_getegid, 4),
    (libc::SYS_gettid, 1),
];

/// Makes `bursts` bursts of `calls` calls, one each `every_us` microseconds.
pub(crate) fn mixed_calls(bursts: u64, calls: u64, every_us: u32, seed: u64) -> Load {
    Load::new(move || {
        let mut state = seed;
        // SAFETY: calls without arguments that change nothing.
        with_pauses(bursts, calls, every_us, || unsafe { libc::syscall(next(&mut state)) });
    })
}

/// Makes `bursts` bursts of `calls` system calls as [`mixed_calls`], but each burst begins so long
/// after the one before it began, also if its calls take longer.
pub(crate) fn paced_calls(bursts: u64, calls: u64, every_us: u64, seed: u64) -> Load {
    Load::new(move || {
        let mut state = seed;
        // SAFETY: calls without arguments that change nothing.
        paced(bursts, calls, every_us, || unsafe { libc::syscall(next(&mut state)) });
    })
}

/// Makes bursts as [`paced_calls`], of calls that allocate and free memory for the name of a file.
pub(crate) fn paced_lookups(bursts: u64, calls: u64, every_us: u64) -> Load {
    Load::new(move || paced(bursts, calls, every_us, lookup))
}

/// Makes bursts as [`mixed_calls`], of the calls of [`paced_lookups`].
pub(crate) fn lookups(bursts: u64, calls: u64, every_us: u32) -> Load {
    Load::new(move || with_pauses(bursts, calls, every_us, lookup))
}

/// Looks for a file with an empty name, which the kernel refuses.
fn lookup() -> libc::c_long {
    // SAFETY: the name is a C string.
    unsafe { libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, c"".as_ptr(), libc::F_OK) }
}

fn with_pauses(bursts: u64, calls: u64, us: u32, mut call: impl FnMut() -> libc::c_long) {
    for _ in 0..bursts {
        for _ in 0..calls {
            call();
        }
        // SAFETY: a sleep.
        unsafe { libc::usleep(us) };
    }
}

fn paced(bursts: u64, calls: u64, every_us: u64, mut call: impl FnMut() -> libc::c_long) {
    let begin = std::time::Instant::now();
    for burst in 0..bursts {
        for _ in 0..calls {
            call();
        }
        let at = std::time::Duration::from_micros((burst + 1) * every_us);
        let left = at.saturating_sub(begin.elapsed());
        // SAFETY: a sleep.
        unsafe { libc::usleep(left.as_micros() as u32) };
    }
}

/// Returns how often each call is among the first `calls` of a mixture.
pub(crate) fn numbers_of(calls: u64, seed: u64) -> BTreeMap<i64, u64> {
    let mut state = seed;
    let mut all: BTreeMap<i64, u64> = CALLS.iter().map(|(number, _)| (*number, 0)).collect();
    for _ in 0..calls {
        *all.entry(next(&mut state)).or_default() += 1;
    }
    all
}

fn next(state: &mut u64) -> i64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let mut left = (*state >> 33) % 100;
    for (number, share) in CALLS {
        match left.checked_sub(share) {
            Some(rest) => left = rest,
            None => return number,
        }
    }
    libc::SYS_getppid
}
