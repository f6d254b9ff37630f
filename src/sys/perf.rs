//! An open perf event: its file descriptor, its switches, its counts.
//!
//! [`Event::open`] leaves out what an old kernel does not know (`ladder.rs`) and says so; [`Event::attr`] is
//! what is really in force: open the same event for the next CPU with it, and nothing is refused twice.
//! The event ends when it is dropped, unless a ring of it is still mapped.

use super::attr::Attr;
use super::ladder;
use super::read_format::{COUNT_WORDS, MEMBER_WORDS, parse, parse_group};
pub use super::read_format::{Counts, is_unscheduled};
use super::refusal::{Call, Refusal};
use perf_event_open_sys::{self as sys, bindings as b, ioctls};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::raw::c_int;

/// Whom to watch, as `perf_event_open(2)` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// A thread; 0 is the calling one, -1 is every task of `cpu`.
    pub pid: i32,
    /// A CPU; -1 is wherever the thread runs.
    pub cpu: i32,
}

/// What an event belongs to besides its target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Membership<'a> {
    /// The leader of its group: the events of a group count at the same times.
    pub leader: Option<&'a Event>,
    /// The folder of the control group whose tasks it counts, on one CPU; the target's `pid` is not
    /// used then.
    pub cgroup: Option<BorrowedFd<'a>>,
}

/// An open event.
#[derive(Debug)]
pub struct Event {
    fd: OwnedFd,
    name: Box<str>,
    attr: Attr,
}

/// An event as opened, and what had to be left out.
#[derive(Debug)]
pub struct Opened {
    /// The event.
    pub event: Event,
    /// Attributes that this kernel does not know, by name.
    pub dropped: Vec<&'static str>,
}

impl Event {
    /// Opens an event; `name` is what the user calls it.
    ///
    /// # Errors
    /// The kernel's refusal, explained.
    pub fn open(attr: &Attr, target: Target, name: &str) -> Result<Opened, Refusal> {
        Event::open_as(attr, target, name, Membership::default())
    }

    /// Opens an event as a member of a group of events, or of a control group.
    ///
    /// # Errors
    /// The kernel's refusal, explained.
    pub fn open_as(
        attr: &Attr,
        target: Target,
        name: &str,
        member: Membership<'_>,
    ) -> Result<Opened, Refusal> {
        let landed = ladder::descend(attr, |attr| open_exactly(attr, target, member))
            .map_err(|errno| Refusal::new(name, Call::Open(attr, target), errno))?;
        let event = Event { fd: landed.opened, name: name.into(), attr: landed.attr };
        Ok(Opened { event, dropped: landed.dropped })
    }

    /// An event that any file stands for.
    #[cfg(test)]
    pub(crate) fn of_fd(fd: OwnedFd, attr: Attr) -> Event {
        Event { fd, name: "cycles".into(), attr }
    }

    /// What the user calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The attributes in force.
    pub fn attr(&self) -> &Attr {
        &self.attr
    }

    /// Starts counting and sampling.
    pub fn enable(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open; the call takes no pointer.
        check(unsafe { ioctls::ENABLE(self.fd.as_raw_fd(), 0) })
    }

    /// Stops counting and sampling.
    pub fn disable(&self) -> io::Result<()> {
        // SAFETY: as in `enable`.
        check(unsafe { ioctls::DISABLE(self.fd.as_raw_fd(), 0) })
    }

    /// Sets the count to zero.
    pub fn reset(&self) -> io::Result<()> {
        // SAFETY: as in `enable`.
        check(unsafe { ioctls::RESET(self.fd.as_raw_fd(), 0) })
    }

    /// Enables a disabled sampling event for this many more overflows.
    ///
    /// When they are spent, a tracepoint stays silent even if it is enabled again (seen on 6.18): open it anew.
    pub fn refresh(&self, overflows: i32) -> io::Result<()> {
        // SAFETY: as in `enable`.
        check(unsafe { ioctls::REFRESH(self.fd.as_raw_fd(), overflows) })
    }

    /// Changes the sampling period, or the frequency if the event has one.
    pub fn period(&self, period: u64) -> io::Result<()> {
        let at: *const u64 = &raw const period;
        // SAFETY: the kernel reads eight bytes through the argument, which is a pointer although the
        // binding calls it a number; `period` outlives the call.
        check(unsafe { ioctls::PERIOD(self.fd.as_raw_fd(), at as u64) })
    }

    /// Stops (`true`) or resumes writing into this event's ring.
    pub fn pause(&self, paused: bool) -> io::Result<()> {
        // SAFETY: as in `enable`.
        check(unsafe { ioctls::PAUSE_OUTPUT(self.fd.as_raw_fd(), u32::from(paused)) })
    }

    /// Sets the tracepoint's filter: once in its life.
    ///
    /// # Errors
    /// `EEXIST` if it has one; the kernel's other errnos do not tell what is wrong with the text.
    pub fn set_filter(&self, filter: &str) -> Result<(), Refusal> {
        let refuse = |errno| Refusal::new(&self.name, Call::Filter(filter), errno);
        let text = CString::new(filter).map_err(|_| refuse(libc::EINVAL))?;
        // SAFETY: the kernel reads the string up to its NUL; it does not write, whatever the type says.
        check(unsafe { ioctls::SET_FILTER(self.fd.as_raw_fd(), text.as_ptr().cast_mut()) })
            .map_err(|e| refuse(errno(&e)))
    }

    /// Directs this event's records into the ring of `owner`, which must be mapped.
    ///
    /// # Errors
    /// The kernel's refusal: another CPU, another clock, a ring of its own.
    pub fn set_output(&self, owner: &Event) -> Result<(), Refusal> {
        // SAFETY: both descriptors are open; the call takes no pointer.
        check(unsafe { ioctls::SET_OUTPUT(self.fd.as_raw_fd(), owner.fd.as_raw_fd()) })
            .map_err(|e| Refusal::new(&self.name, Call::Output(&owner.name), errno(&e)))
    }

    /// The id that its records carry.
    ///
    /// # Errors
    /// A kernel before 3.12 cannot tell, unless `read_format` has `PERF_FORMAT_ID`.
    pub fn id(&self) -> io::Result<u64> {
        let mut id = 0u64;
        // SAFETY: the kernel writes eight bytes to `id`.
        match check(unsafe { ioctls::ID(self.fd.as_raw_fd(), &raw mut id) }) {
            Ok(()) => Ok(id),
            Err(_) if self.reads(b::PERF_FORMAT_ID) => Ok(self.read_counts()?.id),
            Err(error) => Err(error),
        }
    }

    /// How many of its records the kernel dropped so far (`PERF_FORMAT_LOST`); None where it does not count them (before 6.0), or
    /// where the event cannot be read.
    pub fn lost(&self) -> Option<u64> {
        self.read_counts().ok().and_then(|counts| counts.lost)
    }

    /// How many it counted and did not drop for want of room; None as for [`Event::lost`].
    pub fn delivered(&self) -> Option<u64> {
        self.read_counts().ok()?.delivered()
    }

    /// Reads the counts.
    ///
    /// # Errors
    /// Besides those of `read(2)`: the event is in its error state (a pinned one that found no counter), in
    /// which the kernel reports the end of the file; see [`is_unscheduled`].
    pub fn read_counts(&self) -> io::Result<Counts> {
        let mut words = [0u64; COUNT_WORDS];
        // SAFETY: `words` is writable for its size, and any bytes are a value of it.
        let got = unsafe {
            libc::read(self.fd.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words))
        };
        let words = self.words_read(got, &words)?;
        parse(words, self.attr.as_raw().read_format).ok_or_else(|| self.no_counts(got))
    }

    /// Reads the counts of the group that this event leads, and gives each to `take`, the leader's
    /// first. `words` is scratch space; the group has `members` events besides the leader.
    ///
    /// # Errors
    /// As [`Event::read_counts`].
    pub fn read_group(
        &self,
        members: usize,
        words: &mut Vec<u64>,
        take: impl FnMut(Counts),
    ) -> io::Result<()> {
        words.clear();
        words.resize(COUNT_WORDS + members * MEMBER_WORDS, 0);
        // SAFETY: `words` is writable for its length, and any bytes are values of it.
        let got =
            unsafe { libc::read(self.fd.as_raw_fd(), words.as_mut_ptr().cast(), words.len() * 8) };
        let words = self.words_read(got, words)?;
        let format = self.attr.as_raw().read_format;
        parse_group(words, format, take).ok_or_else(|| self.no_counts(got))
    }

    /// The part of `words` that a `read(2)` filled.
    fn words_read<'a>(&self, got: isize, words: &'a [u64]) -> io::Result<&'a [u64]> {
        match got {
            ..0 => Err(io::Error::last_os_error()),
            0 => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "{}: the event is in error state: other events hold its counter",
                    self.name
                ),
            )),
            bytes => Ok(words.get(..bytes as usize / 8).unwrap_or_default()),
        }
    }

    fn no_counts(&self, bytes: isize) -> io::Error {
        io::Error::other(format!(
            "{}: a read returned {bytes} bytes, which are not a count",
            self.name
        ))
    }

    /// Whether it leads a group that is read by one call.
    pub fn leads(&self) -> bool {
        self.reads(b::PERF_FORMAT_GROUP)
    }

    fn reads(&self, format: b::perf_event_read_format) -> bool {
        self.attr.as_raw().read_format & u64::from(format) != 0
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// How often an interrupted open is tried. A signal interrupts one or two; a uprobe event that
/// tracefs has enabled answers `EINTR` every time (`probe_event_enable()`,
/// kernel/trace/trace_uprobe.c).
const OPEN_TRIES: u32 = 8;

fn open_exactly(attr: &mut Attr, target: Target, member: Membership<'_>) -> Result<OwnedFd, i32> {
    let leader = member.leader.map_or(-1, |leader| leader.fd.as_raw_fd());
    let (pid, of_cgroup) = match member.cgroup {
        Some(folder) => (folder.as_raw_fd(), b::PERF_FLAG_PID_CGROUP),
        None => (target.pid, 0),
    };
    for _ in 0..OPEN_TRIES {
        // SAFETY: the attr is initialised and carries its size; the kernel writes at most that field. What
        // an attr can ask for does not touch this process's memory, `sigtrap` apart, which is a signal.
        let fd = unsafe {
            sys::perf_event_open(
                attr.raw(),
                pid,
                target.cpu,
                leader,
                libc::c_ulong::from(b::PERF_FLAG_FD_CLOEXEC | of_cgroup),
            )
        };
        if fd >= 0 {
            // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        match errno(&io::Error::last_os_error()) {
            libc::EINTR => {}
            errno => return Err(errno),
        }
    }
    Err(libc::EINTR)
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The errno of an error that came from a system call.
pub(super) fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_file_is_a_counter_that_others_have() {
        let fd = std::fs::File::open("/dev/null").unwrap().into();
        let event = Event::of_fd(fd, Attr::counter(0, 0));
        assert!(is_unscheduled(&event.read_counts().unwrap_err()));
        assert!(is_unscheduled(&event.read_group(1, &mut Vec::new(), |_| ()).unwrap_err()));
        assert!(!is_unscheduled(&io::Error::other("anything else")));
    }
}
