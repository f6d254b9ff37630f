//! The halves of the 64-bit address space.

/// Returns whether an address is in the kernel's half of the address space: its top bit is set.
#[inline]
pub fn is_kernel_address(address: u64) -> bool {
    address >> 63 == 1
}
