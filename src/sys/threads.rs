//! Threads of this process, whose refusal names the limit that is reached.

use std::thread::{Builder, JoinHandle};

use super::refusal::{Call, Refusal};

/// Starts a thread of that name.
///
/// # Errors
/// The kernel's refusal, explained.
pub fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Refusal> {
    let started = Builder::new().name(name.to_owned()).spawn(work);
    started
        .map_err(|why| Refusal::new(name, Call::Start, why.raw_os_error().unwrap_or(libc::EAGAIN)))
}
