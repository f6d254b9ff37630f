//! Waiting until a ring has something to read, an event has ended, or time is up.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The descriptors that a run waits for, each under a number that the caller chose.
///
/// A descriptor must stay open while it is here. One that hung up (its task has ended, its CPU went away) is
/// told once and taken out, since poll(2) would report it forever.
#[derive(Debug, Default)]
pub struct Poller {
    fds: Vec<libc::pollfd>,
    tokens: Vec<usize>,
    ready: Ready,
}

/// What a wait ended with; all empty when time was up or a signal came.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Numbers of the descriptors with something to read.
    pub readable: Vec<usize>,
    /// Numbers of those that hung up, seldom told to be readable then: what is in their ring still has to be read.
    pub hung_up: Vec<usize>,
}

impl Poller {
    /// Waits for nothing yet.
    pub fn new() -> Poller {
        Poller::default()
    }

    /// Adds a descriptor under a number.
    pub fn add(&mut self, fd: &impl AsFd, token: usize) {
        self.fds.push(libc::pollfd {
            fd: fd.as_fd().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        self.tokens.push(token);
    }

    /// Takes the descriptors of a number out.
    pub fn remove(&mut self, token: usize) {
        let mut tokens = self.tokens.iter();
        self.fds.retain(|_| tokens.next() != Some(&token));
        self.tokens.retain(|t| *t != token);
    }

    /// Leaves the descriptors of a number alone, or waits for them again.
    pub fn mute(&mut self, token: usize, muted: bool) {
        for (fd, _) in self.fds.iter_mut().zip(&self.tokens).filter(|(_, own)| **own == token) {
            // poll(2) passes over negative descriptors; the complement is one, and keeps the number.
            if (fd.fd < 0) != muted {
                fd.fd = !fd.fd;
            }
        }
    }

    /// How many descriptors are waited for.
    pub fn len(&self) -> usize {
        self.fds.len()
    }

    /// Whether there is none, so that a wait only sleeps.
    pub fn is_empty(&self) -> bool {
        self.fds.is_empty()
    }

    /// Waits for at most `timeout_ms` milliseconds (negative: without end). A signal ends the wait, too.
    ///
    /// # Errors
    /// Those of poll(2) but `EINTR`.
    pub fn wait(&mut self, timeout_ms: i32) -> io::Result<&Ready> {
        self.ready.readable.clear();
        self.ready.hung_up.clear();
        // SAFETY: the vector is as long as it says, and the kernel writes only its `revents`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn tells_readable_and_hung_up_apart_and_forgets_the_latter() {
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
        // SAFETY: the handler does nothing; the alarm goes to this thread by pthread_kill below.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut());
        }
        // SAFETY: it has no preconditions.
        let (this, (_reader, _writer)) = (unsafe { libc::pthread_self() }, io::pipe().unwrap());
        let mut poller = Poller::new();
        poller.add(&_reader, 1);
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let signaller = std::thread::spawn(move || {
            // Until the wait has ended: one signal could come before it begins.
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
