//! Work that the host does for a script, which the script's time does not pay for.
//!
//! The first stack out of a large program makes its symbols be read, which can take a second or more: that is no
//! loop that a script got stuck in, and it ends by itself.

use std::sync::atomic::Ordering::SeqCst;

use super::{TICKS, TICKS_MAX};

/// Does some work whose time does not count against the call at hand.
pub fn off_the_clock<T>(work: impl FnOnce() -> T) -> T {
    let _paused = Paused { ticks: TICKS.load(SeqCst), most: TICKS_MAX.swap(u32::MAX, SeqCst) };
    work()
}

/// Sets the clock back, however the work ends.
struct Paused {
    ticks: u32,
    most: u32,
}

impl Drop for Paused {
    fn drop(&mut self) {
        // First the count: with the limit first, a tick between the two would arm.
        TICKS.store(self.ticks, SeqCst);
        TICKS_MAX.store(self.most, SeqCst);
    }
}
