//! The frames of a call chain: its addresses, each with its side (kernel, user or guest).
//!
//! The first address after a marker is that of the running code, or of code that a signal
//! interrupted; the others are return addresses.

use crate::base::event::chain::{KERNEL, TRUNCATED, USER, begins_kernel, is_marker};
use crate::base::kernel::address::is_kernel_address;

/// Marker of a user chain that is delivered separately, when the task returns to user mode.
const USER_DEFERRED: u64 = -640_i64 as u64;
const GUEST: u64 = -2048_i64 as u64;

/// The side that an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodeSide {
    /// Kernel code.
    Kernel,
    /// Code of the process.
    User,
    /// Code of a virtual machine, whose names are unknown.
    Guest,
    /// No address: the rest of the stack is missing.
    Cut,
}

/// One address of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChainStep {
    /// The address in the chain.
    pub address: u64,
    /// The side of the address.
    pub side: CodeSide,
    /// Whether it is a return address: the call precedes it.
    pub caller: bool,
}

/// Returns the frames of a chain, innermost first. Without a marker, the top bit of an address
/// selects the kernel.
pub fn steps(chain: &[u64]) -> impl Iterator<Item = ChainStep> + '_ {
    let (mut side, mut caller) = (None, false);
    chain.iter().filter_map(move |&address| {
        if address == TRUNCATED {
            return Some(ChainStep { address: 0, side: CodeSide::Cut, caller: false });
        }
        if is_marker(address) {
            // An unknown marker changes nothing.
            if let Some(marked) = side_of(address) {
                (side, caller) = (Some(marked), false);
            }
            return None;
        }
        let own = if is_kernel_address(address) { CodeSide::Kernel } else { CodeSide::User };
        let caller = std::mem::replace(&mut caller, true);
        Some(ChainStep { address, side: side.unwrap_or(own), caller })
    })
}

/// Returns whether an address of the chain is only valid in one process.
#[inline]
pub fn has_user_frames(chain: &[u64]) -> bool {
    // Searches from the end, where user frames are. The kernel's addresses and all markers have the
    // top bit set.
    chain.iter().rev().any(|&address| !is_kernel_address(address))
}

fn side_of(marker: u64) -> Option<CodeSide> {
    match marker {
        KERNEL => Some(CodeSide::Kernel),
        USER | USER_DEFERRED => Some(CodeSide::User),
        GUEST => Some(CodeSide::Guest),
        other => begins_kernel(other).map(|_| CodeSide::Guest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(address: u64, side: CodeSide, caller: bool) -> ChainStep {
        ChainStep { address, side, caller }
    }

    #[test]
    fn markers_set_the_side_and_are_not_frames() {
        let chain =
            [KERNEL, u64::MAX << 32, u64::MAX << 31, USER, 0x1000, 0x2000, GUEST, 5, TRUNCATED];
        let steps: Vec<ChainStep> = steps(&chain).collect();
        assert_eq!(
            steps,
            [
                step(u64::MAX << 32, CodeSide::Kernel, false),
                step(u64::MAX << 31, CodeSide::Kernel, true),
                step(0x1000, CodeSide::User, false),
                step(0x2000, CodeSide::User, true),
                step(5, CodeSide::Guest, false),
                step(0, CodeSide::Cut, false),
            ]
        );
    }

    #[test]
    fn the_address_that_a_signal_interrupted_is_not_a_return_address() {
        let callers: Vec<bool> =
            steps(&[USER, 0x1000, 0x2000, USER, 0x3000, 0x4000]).map(|step| step.caller).collect();
        assert_eq!(callers, [false, true, false, true]);
    }

    #[test]
    fn without_a_marker_the_top_bit_sets_the_side() {
        let sides = |chain: &[u64]| steps(chain).map(|step| step.side).collect::<Vec<_>>();
        assert_eq!(sides(&[u64::MAX << 12 << 4, 0x1000]), [CodeSide::Kernel, CodeSide::User]);
        assert_eq!(sides(&[(-32_i64) as u64]), []);
    }

    #[test]
    fn only_user_addresses_need_their_process() {
        assert!(!has_user_frames(&[KERNEL, u64::MAX << 32]));
        assert!(has_user_frames(&[KERNEL, u64::MAX << 32, USER, 0x1000]));
    }
}
