//! A call chain: addresses, the innermost first, in sections that begin with a marker.
//!
//! ```text
//! KERNEL, address, caller, its caller …, USER, address, caller …[, TRUNCATED]
//! ```
//!
//! Whatever walked the stack (the kernel, unwind tables, branch records), a slot's chain looks like this. Of callers it has
//! the address to return to, which is the one behind the call. The markers are the kernel's `PERF_CONTEXT_*`
//! (include/uapi/linux/perf_event.h), but for [`TRUNCATED`]: that is ours, and stands in the chain itself, so that
//! wherever a chain is kept, it is kept with it.

/// What follows are addresses of the kernel.
pub const KERNEL: u64 = -128_i64 as u64;

/// What follows are addresses of the task's user space.
pub const USER: u64 = -512_i64 as u64;

/// The last entry of a chain that is only the inner part of its stack. Among the markers, where no kernel has one.
pub const TRUNCATED: u64 = -4000_i64 as u64;

/// What follows are addresses of a guest's kernel, and of its user space.
const GUEST: (u64, u64) = (-2176_i64 as u64, -2560_i64 as u64);

/// The lowest marker.
const FIRST: u64 = -4095_i64 as u64;

/// Whether an entry is a marker and no address: no code lies in the last page.
#[inline]
pub fn is_marker(entry: u64) -> bool {
    entry >= FIRST
}

/// Whether the section that a marker begins holds addresses of a kernel; None if it begins none.
#[inline]
pub fn begins_kernel(entry: u64) -> Option<bool> {
    let (guest_kernel, guest_user) = GUEST;
    match entry {
        KERNEL => Some(true),
        USER => Some(false),
        _ if entry == guest_kernel => Some(true),
        _ if entry == guest_user => Some(false),
        _ => None,
    }
}

/// Room for the frames of a stack that somebody walks: no more than the chain may have.
#[derive(Debug)]
pub struct Room<'a> {
    chain: &'a mut Vec<u64>,
    left: usize,
    cut: bool,
}

impl<'a> Room<'a> {
    /// Room for so many frames at the end of a chain.
    pub fn new(chain: &'a mut Vec<u64>, frames: usize) -> Room<'a> {
        Room { chain, left: frames, cut: false }
    }

    /// Adds a frame. When there is no room the chain is cut, and the walk may as well end.
    #[inline]
    pub fn push(&mut self, address: u64) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                self.chain.push(address);
            }
            None => self.cut = true,
        }
        !self.cut
    }

    /// Says that the stack goes on, but cannot be followed.
    pub fn cut(&mut self) {
        self.cut = true;
    }

    /// Whether there is more of the stack than the chain shows.
    pub fn is_cut(&self) -> bool {
        self.cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event_open_sys::bindings as abi;

    #[test]
    fn markers_are_those_of_the_kernel_and_one_of_our_own() {
        assert_eq!((KERNEL, USER), (abi::PERF_CONTEXT_KERNEL, abi::PERF_CONTEXT_USER));
        assert_eq!(GUEST, (abi::PERF_CONTEXT_GUEST_KERNEL, abi::PERF_CONTEXT_GUEST_USER));
        assert_eq!(FIRST, abi::PERF_CONTEXT_MAX);
        let others =
            [abi::PERF_CONTEXT_HV, abi::PERF_CONTEXT_GUEST, abi::PERF_CONTEXT_USER_DEFERRED];
        for marker in others.into_iter().chain([TRUNCATED]) {
            assert!(is_marker(marker));
            assert_eq!(begins_kernel(marker), None);
        }
        assert!(!others.contains(&TRUNCATED));
        assert!(!is_marker(0xffff_ffff_8100_0000) && !is_marker(0x7fff_ffff_f000));
    }

    #[test]
    fn a_chain_has_no_more_frames_than_there_is_room_for() {
        let mut chain = vec![USER];
        let mut room = Room::new(&mut chain, 2);
        assert!(room.push(1) && room.push(2) && !room.is_cut());
        assert!(!room.push(3) && room.is_cut());
        assert_eq!(chain, [USER, 1, 2]);
    }
}
