//! Workloads that spin in functions with known names.

use super::{
    Load,
    measured::{Measured, clock_ns},
};

/// Spins for `ms` milliseconds of CPU time in `spin_outside`, calls getuid, spins as long in
/// `spin_between`, calls getgid, and spins outside again. Stores the CPU time between the calls in
/// nanoseconds.
pub(crate) fn spins_around_two_calls(ms: u64) -> (Load, Measured) {
    let measured = Measured::new();
    let at = measured.0;
    let load = Load::new(move || {
        let ran = || clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
        let spin = |spin: fn()| {
            let since = ran();
            while ran() - since < ms * 1_000_000 {
                spin();
            }
        };
        let call = |number| {
            // SAFETY: takes no argument, changes nothing.
            unsafe { libc::syscall(number) };
        };
        spin(spin_outside);
        call(libc::SYS_getuid);
        let since = ran();
        spin(spin_between);
        // SAFETY: the page is shared and large enough.
        unsafe { at.write_volatile(ran() - since) };
        call(libc::SYS_getgid);
        spin(spin_outside);
    });
    (load, measured)
}

/// Counts down, for about a millisecond: reading the clock is then a small part of the time.
#[inline(never)]
fn spin_between() {
    let mut left = 1_000_000u32;
    while std::hint::black_box(left) > 0 {
        left -= 1;
    }
}

/// Does the same, with another number, so that the two stay different functions.
#[inline(never)]
fn spin_outside() {
    let mut left = 900_000u32;
    while std::hint::black_box(left) > 0 {
        left -= 1;
    }
}
