//! A call chain: addresses, innermost first, in sections that begin with a marker.
//!
//! ```text
//! KERNEL, address, caller, its caller …, USER, address, caller …[, TRUNCATED]
//! ```
//!
//! A slot's chain has this form whatever walked the stack (the kernel, unwind tables, branch
//! records). The entry of a caller is its return address, which is the address after the call. A
//! further `USER` begins where a signal interrupted the code: the entry after it is the address of
//! an instruction that has not run, like the first one. The markers are the kernel's
//! `PERF_CONTEXT_*` (include/uapi/linux/perf_event.h). [`TRUNCATED`] is perilune's own; it is an
//! entry of the chain, so every copy of the chain keeps it.

/// Marker: kernel addresses follow.
pub const KERNEL: u64 = -128_i64 as u64;

/// Marker: addresses of the task's user space follow.
pub const USER: u64 = -512_i64 as u64;

/// The last entry of a chain that contains only the inner part of its stack. Lies in the range of
/// the markers, at a value that the kernel does not use.
pub const TRUNCATED: u64 = -4000_i64 as u64;

/// Markers: addresses of a guest's kernel, and of a guest's user space, follow.
const GUEST: (u64, u64) = (-2176_i64 as u64, -2560_i64 as u64);

/// The lowest marker.
const FIRST: u64 = -4095_i64 as u64;

/// Returns whether an entry is a marker instead of an address: the last page contains no code.
#[inline]
pub fn is_marker(entry: u64) -> bool {
    entry >= FIRST
}

/// Returns whether the section that a marker begins holds kernel addresses; None if the entry does
/// not begin a section.
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

/// Appends the frames of a stack walk to a chain, up to a limit.
#[derive(Debug)]
pub struct ChainBuilder<'a> {
    chain: &'a mut Vec<u64>,
    left: usize,
    cut: bool,
}

impl<'a> ChainBuilder<'a> {
    /// Returns room for `frames` frames at the end of a chain.
    pub fn new(chain: &'a mut Vec<u64>, frames: usize) -> ChainBuilder<'a> {
        ChainBuilder { chain, left: frames, cut: false }
    }

    /// Adds a frame. Returns false if the limit is reached: the chain is then truncated and the
    /// walk can stop.
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

    /// Adds a frame whose entry is not a return address: a marker precedes it, which takes the room
    /// of a frame. Otherwise like [`ChainBuilder::push`].
    pub fn push_interrupted(&mut self, address: u64) -> bool {
        if self.left < 2 {
            self.cut = true;
            return false;
        }
        self.push(USER) && self.push(address)
    }

    /// Marks the chain as truncated: the stack continues, but cannot be followed.
    pub fn cut(&mut self) {
        self.cut = true;
    }

    /// Returns whether the stack has more frames than the chain.
    pub fn is_cut(&self) -> bool {
        self.cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event_open_sys::bindings as abi;

    #[test]
    fn markers_match_the_kernel_headers() {
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
    fn a_chain_is_cut_at_its_capacity() {
        let mut chain = vec![USER];
        let mut room = ChainBuilder::new(&mut chain, 2);
        assert!(room.push(1) && room.push(2) && !room.is_cut());
        assert!(!room.push(3) && room.is_cut());
        assert_eq!(chain, [USER, 1, 2]);
    }

    #[test]
    fn an_interrupted_frame_begins_a_section_and_fits_with_its_marker_or_not_at_all() {
        let mut chain = vec![USER];
        let mut room = ChainBuilder::new(&mut chain, 4);
        assert!(room.push(1) && room.push_interrupted(2));
        assert!(!room.push_interrupted(3) && room.is_cut());
        assert_eq!(chain, [USER, 1, USER, 2]);
    }
}
