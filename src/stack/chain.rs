//! The frames of a call chain: its addresses, each with the side that it belongs to.
//!
//! Behind a marker stands the address that was running there; the others are those to return to.

use crate::base::chain::{KERNEL, TRUNCATED, USER, begins_kernel, is_marker};

/// A user chain that is delivered apart, when the task returns to user mode.
const USER_DEFERRED: u64 = -640_i64 as u64;
const GUEST: u64 = -2048_i64 as u64;

/// Whose code an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The kernel's.
    Kernel,
    /// That of the process.
    User,
    /// Of a virtual machine; nobody here knows its names.
    Guest,
    /// None: the rest of the stack is missing from here on.
    Cut,
}

/// One address of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// As the chain has it.
    pub address: u64,
    /// Whose code it is.
    pub side: Side,
    /// Whether it is an address to return to: the call stands in front of it.
    pub caller: bool,
}

/// The frames of a chain, innermost first. What stands in front of any marker is the kernel's if its top bit is set.
pub fn steps(chain: &[u64]) -> impl Iterator<Item = Step> + '_ {
    let (mut side, mut caller) = (None, false);
    chain.iter().filter_map(move |&address| {
        if address == TRUNCATED {
            return Some(Step { address: 0, side: Side::Cut, caller: false });
        }
        if is_marker(address) {
            // A marker that is not known changes nothing.
            if let Some(marked) = side_of(address) {
                (side, caller) = (Some(marked), false);
            }
            return None;
        }
        let own = if address >> 63 == 1 { Side::Kernel } else { Side::User };
        let caller = std::mem::replace(&mut caller, true);
        Some(Step { address, side: side.unwrap_or(own), caller })
    })
}

/// Whether an address of the chain means something in one process only.
#[inline]
pub fn has_user_frames(chain: &[u64]) -> bool {
    // The kernel's addresses and all markers have the top bit set.
    chain.iter().any(|address| address >> 63 == 0)
}

fn side_of(marker: u64) -> Option<Side> {
    match marker {
        KERNEL => Some(Side::Kernel),
        USER | USER_DEFERRED => Some(Side::User),
        GUEST => Some(Side::Guest),
        other => begins_kernel(other).map(|_| Side::Guest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(address: u64, side: Side, caller: bool) -> Step {
        Step { address, side, caller }
    }

    #[test]
    fn markers_tell_the_sides_apart_and_are_no_frames() {
        let chain =
            [KERNEL, u64::MAX << 32, u64::MAX << 31, USER, 0x1000, 0x2000, GUEST, 5, TRUNCATED];
        let steps: Vec<Step> = steps(&chain).collect();
        assert_eq!(
            steps,
            [
                step(u64::MAX << 32, Side::Kernel, false),
                step(u64::MAX << 31, Side::Kernel, true),
                step(0x1000, Side::User, false),
                step(0x2000, Side::User, true),
                step(5, Side::Guest, false),
                step(0, Side::Cut, false),
            ]
        );
    }

    #[test]
    fn without_a_marker_the_top_bit_tells() {
        let sides = |chain: &[u64]| steps(chain).map(|step| step.side).collect::<Vec<_>>();
        assert_eq!(sides(&[u64::MAX << 12 << 4, 0x1000]), [Side::Kernel, Side::User]);
        assert_eq!(sides(&[(-32_i64) as u64]), []);
    }

    #[test]
    fn only_user_addresses_need_their_process() {
        assert!(!has_user_frames(&[KERNEL, u64::MAX << 32]));
        assert!(has_user_frames(&[KERNEL, u64::MAX << 32, USER, 0x1000]));
    }
}
