//! Waits until a ring has data, an event ends, or a timeout expires.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// The descriptors that a run waits for, each with a token chosen by the caller.
///
/// A descriptor must stay open while it is here. A descriptor that hung up (its task ended, its CPU
/// went offline) is reported once and removed, since poll(2) would report it forever.
#[derive(Debug, Default)]
pub struct Poller {
    fds: Vec<libc::pollfd>,
    tokens: Vec<usize>,
    ready: Ready,
}

/// Result of a wait; empty after a timeout or a signal.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Tokens of the descriptors with data.
    pub readable: Vec<usize>,
    /// Tokens of the descriptors that hung up. Read their rings once more: they may contain records
    /// even if the descriptors are not reported as readable.
    pub hung_up: Vec<usize>,
}

impl Poller {
    /// Creates a poller without descriptors.
    pub fn new() -> Poller {
        Poller::default()
    }

    /// Adds a descriptor with a token.
    pub fn add(&mut self, fd: &impl AsFd, token: usize) {
        self.fds.push(libc::pollfd {
            fd: fd.as_fd().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        self.tokens.push(token);
    }

    /// Removes the descriptors with this token.
    pub fn remove(&mut self, token: usize) {
        let mut tokens = self.tokens.iter();
        self.fds.retain(|_| tokens.next() != Some(&token));
        self.tokens.retain(|t| *t != token);
    }

    /// Stops waiting for the descriptors with this token, or waits for them again.
    pub fn mute(&mut self, token: usize, muted: bool) {
        for (fd, _) in self.fds.iter_mut().zip(&self.tokens).filter(|(_, own)| **own == token) {
            // poll(2) ignores negative descriptors; the complement is one, and keeps the number.
            if (fd.fd < 0) != muted {
                fd.fd = !fd.fd;
            }
        }
    }

    /// Returns the number of descriptors.
    pub fn len(&self) -> usize {
        self.fds.len()
    }

    /// Returns whether there are no descriptors, so that a wait only sleeps.
    pub fn is_empty(&self) -> bool {
        self.fds.is_empty()
    }

    /// Waits for at most `timeout_ms` milliseconds (negative: no limit). A signal also ends the
    /// wait.
    ///
    /// # Errors
    /// Those of poll(2), except `EINTR`.
    pub fn wait(&mut self, timeout_ms: i32) -> io::Result<&Ready> {
        self.ready.readable.clear();
        self.ready.hung_up.clear();
        // SAFETY: the pointer and the length are the vector's, and the kernel writes only
        // `revents`.
        let count = unsafe {
            libc::poll(self.fds.as_mut_ptr(), self.fds.len() as libc::nfds_t, timeout_ms)
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(&self.ready),
                _ => Err(error),
            };
        }
        if count > 0 {
            self.sort_out();
        }
        Ok(&self.ready)
    }

    fn sort_out(&mut self) {
        const GONE: i16 = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
        for (fd, token) in self.fds.iter().zip(&self.tokens) {
            if fd.revents & libc::POLLIN != 0 {
                self.ready.readable.push(*token);
            }
            if fd.revents & GONE != 0 {
                self.ready.hung_up.push(*token);
            }
        }
        if !self.ready.hung_up.is_empty() {
            let mut fds = self.fds.iter();
            self.tokens.retain(|_| fds.next().is_some_and(|fd| fd.revents & GONE == 0));
            self.fds.retain(|fd| fd.revents & GONE == 0);
        }
    }
}

/// A descriptor to wait for once: for data, or with `writes` for room to write.
pub(super) fn waiting(fd: BorrowedFd<'_>, writes: bool) -> WaitingFd<'_> {
    let events = if writes { libc::POLLOUT } else { libc::POLLIN };
    let fd = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    WaitingFd { fd, _open: PhantomData }
}

/// An entry of [`wait_once`], as the kernel reads it.
#[repr(transparent)]
pub(super) struct WaitingFd<'fd> {
    fd: libc::pollfd,
    _open: PhantomData<BorrowedFd<'fd>>,
}

/// Waits until one of the descriptors is ready, at most `timeout_ms` milliseconds (negative: no
/// limit). A signal also ends the wait.
///
/// # Errors
/// Those of poll(2), except `EINTR`.
pub(super) fn wait_once(fds: &mut [WaitingFd<'_>], timeout_ms: i32) -> io::Result<()> {
    // SAFETY: the entries have the layout of pollfd, the pointer and the length are the slice's,
    // and the kernel writes only `revents`.
    let count =
        unsafe { libc::poll(fds.as_mut_ptr().cast(), fds.len() as libc::nfds_t, timeout_ms) };
    match count {
        0.. => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn readable_and_hung_up_are_distinguished_and_hung_up_is_removed() {
        let (quiet, _quiet_end) = io::pipe().unwrap();
        let (full, mut full_end) = io::pipe().unwrap();
        let (ended, end) = io::pipe().unwrap();
        full_end.write_all(b"x").unwrap();
        drop(end);
        let mut poller = Poller::new();
        poller.add(&quiet, 10);
        poller.add(&ended, 20);
        poller.add(&full, 30);
        let ready = poller.wait(0).unwrap();
        assert_eq!((&ready.readable[..], &ready.hung_up[..]), (&[30][..], &[20][..]));
        assert_eq!(poller.len(), 2);
        let ready = poller.wait(0).unwrap();
        assert_eq!((&ready.readable[..], &ready.hung_up[..]), (&[30][..], &[][..]));
        for muted in [true, true, false, false] {
            poller.mute(30, muted);
            let readable: &[usize] = if muted { &[] } else { &[30] };
            assert_eq!(poller.wait(0).unwrap().readable, readable);
        }
        poller.remove(30);
        assert_eq!(poller.wait(0).unwrap(), &Ready::default());
        poller.remove(10);
        assert!(poller.is_empty());
    }

    #[test]
    fn a_signal_ends_the_wait_without_an_error() {
        extern "C" fn note(_: libc::c_int) {}
        // SAFETY: the handler does nothing; the signal goes to this thread by pthread_kill below.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut());
        }
        // SAFETY: pthread_self has no preconditions.
        let (this, (_reader, _writer)) = (unsafe { libc::pthread_self() }, io::pipe().unwrap());
        let mut poller = Poller::new();
        poller.add(&_reader, 1);
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let signaller = std::thread::spawn(move || {
            // Repeated until the wait has ended: a single signal could arrive before it begins.
            while stopped.recv_timeout(std::time::Duration::from_millis(1)).is_err() {
                // SAFETY: the thread is alive: it joins this one.
                unsafe { libc::pthread_kill(this, libc::SIGUSR2) };
            }
        });
        assert_eq!(poller.wait(-1).unwrap(), &Ready::default());
        stop.send(()).unwrap();
        signaller.join().unwrap();
    }
}
