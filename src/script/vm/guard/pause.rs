//! Work of the host that does not count against the time limit of a script.
//!
//! The first stack from a large program makes the host read its symbols, which can take a second or
//! more. That is not a runaway script, and it ends by itself.

use std::sync::atomic::Ordering::SeqCst;

use super::hook::{TICKS, TICKS_MAX};

/// Runs `work` without counting its time against the current call.
pub fn off_the_clock<T>(work: impl FnOnce() -> T) -> T {
    let _paused = Paused { ticks: TICKS.load(SeqCst), most: TICKS_MAX.swap(u32::MAX, SeqCst) };
    work()
}

/// Restores the tick count and the limit on drop, also after a panic.
struct Paused {
    ticks: u32,
    most: u32,
}

impl Drop for Paused {
    fn drop(&mut self) {
        // Restores the count first: with the limit first, a tick between the two stores would arm.
        TICKS.store(self.ticks, SeqCst);
        TICKS_MAX.store(self.most, SeqCst);
    }
}
