//! The name of a task.

/// A name of `TASK_COMM_LEN` bytes (include/linux/sched.h): at most 15 bytes, padded with NULs. A
/// copy of all 16 bytes costs a fifth of a copy of only the bytes in use.
#[derive(Clone, Copy)]
pub(super) struct Name(pub(super) [u8; 16]);

impl Name {
    /// Keeps the bytes before the first NUL, at most 15.
    pub(super) fn new(text: &[u8]) -> Name {
        let mut bytes = [0; 16];
        let name = text.iter().take(15).take_while(|byte| **byte != 0);
        bytes.iter_mut().zip(name).for_each(|(into, byte)| *into = *byte);
        Name(bytes)
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        let len = self.0.iter().position(|byte| *byte == 0).unwrap_or(15);
        &self.0[..len]
    }
}
