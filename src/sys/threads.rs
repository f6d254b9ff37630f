//! Threads of this process. If one cannot be started, the error names the limit that is reached.

use std::thread::{Builder, JoinHandle};

use super::refusal::{Refusal, RefusedCall};

/// Starts a thread with this name.
///
/// # Errors
/// The kernel refuses it; the [`Refusal`] explains why.
pub fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Refusal> {
    let started = Builder::new().name(name.to_owned()).spawn(work);
    started.map_err(|why| {
        Refusal::new(name, RefusedCall::Start, why.raw_os_error().unwrap_or(libc::EAGAIN))
    })
}
