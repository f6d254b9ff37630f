//! The argument of `bpf(2)`.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Number of 8-byte words of `union bpf_attr` that any command here uses.
const ATTR_WORDS: usize = 14;

/// `union bpf_attr`, as words in native byte order.
#[derive(Default)]
pub(super) struct BpfAttr([u64; ATTR_WORDS]);

impl BpfAttr {
    /// Sets a field of 4 bytes at a byte offset that is a multiple of 4.
    pub(super) fn set_u32(&mut self, offset: usize, value: u32) {
        let shift = if cfg!(target_endian = "big") { 32 - offset % 8 * 8 } else { offset % 8 * 8 };
        self.0[offset / 8] |= u64::from(value) << shift;
    }

    /// Returns a field of 4 bytes, which the kernel may have written.
    pub(super) fn u32_at(&self, offset: usize) -> u32 {
        let shift = if cfg!(target_endian = "big") { 32 - offset % 8 * 8 } else { offset % 8 * 8 };
        (self.0[offset / 8] >> shift) as u32
    }

    /// Sets a pointer at a byte offset that is a multiple of 8. The memory must outlive the call.
    pub(super) fn set_pointer<T>(&mut self, offset: usize, to: *const T) {
        self.0[offset / 8] = to.expose_provenance() as u64;
    }

    /// Returns an attr with the number of a descriptor in a field of 4 bytes.
    pub(super) fn fd(offset: usize, fd: &OwnedFd) -> BpfAttr {
        let mut attr = BpfAttr::default();
        attr.set_u32(offset, fd.as_raw_fd().cast_unsigned());
        attr
    }

    /// Makes the call.
    ///
    /// # Safety
    /// Each pointer of the attr refers to memory of the size that the command reads or writes.
    pub(super) unsafe fn call(&mut self, command: libc::c_int) -> io::Result<libc::c_int> {
        // SAFETY: the attr has the size that is passed; the caller vouches for its pointers.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, command, self.0.as_mut_ptr(), size_of_val(&self.0))
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
    }
}

/// Returns the descriptor that a call has returned.
///
/// # Safety
/// The kernel just returned it, and nothing else owns it.
pub(super) unsafe fn owned(fd: libc::c_int) -> OwnedFd {
    // SAFETY: the kernel just returned `fd`, and nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_four_bytes_share_a_word() {
        let mut attr = BpfAttr::default();
        attr.set_u32(0, 5);
        attr.set_u32(4, 7);
        assert_eq!((attr.u32_at(0), attr.u32_at(4)), (5, 7));
        let bytes = attr.0[0].to_ne_bytes();
        assert_eq!(bytes[..4], 5u32.to_ne_bytes());
        assert_eq!(bytes[4..], 7u32.to_ne_bytes());
    }
}
