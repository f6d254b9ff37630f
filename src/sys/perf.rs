//! An open perf event: its file descriptor, control operations and counts.
//!
//! [`PerfEvent::open`] drops the attributes that an old kernel does not support
//! (`attr_fallback.rs`) and reports them; [`PerfEvent::attr`] returns the attributes in force. Open
//! the same event on the next CPU with those, and nothing is refused twice. The event ends when it
//! is dropped, unless a ring of it is still mapped.

use super::attr::{Attr, PerfTarget};
use super::attr_fallback;
use super::bpf::OutputArray;
use super::dynamic_event::DynamicEvent;
use super::errno::errno;
use super::read_format::{COUNT_WORDS, MEMBER_WORDS, parse, parse_group};
pub use super::read_format::{EventCounts, is_unscheduled};
use super::refusal::{Refusal, RefusedCall};
use perf_event_open_sys::{self as sys, bindings as b, ioctls};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::raw::c_int;
use std::sync::Arc;

/// Maximum number of members of a group: the kernel refuses a group whose reading takes more than
/// 16 KiB.
pub const MEMBERS_MAX: usize = 500;

/// Groups that an event belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Membership<'a> {
    /// The leader of its event group: the events of a group count at the same times.
    pub leader: Option<&'a PerfEvent>,
    /// The folder of the control group whose tasks it counts, on one CPU; the target's `pid` is not
    /// used then.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// The event in tracefs that it opens.
    pub probe: Option<&'a Arc<DynamicEvent>>,
    /// The array in which BPF programs find it by its CPU.
    pub array: Option<&'a Arc<OutputArray>>,
}

/// An open event.
#[derive(Debug)]
pub struct PerfEvent {
    fd: OwnedFd,
    name: Box<str>,
    attr: Attr,
    /// Removed from tracefs after the last event of it was closed.
    probe: Option<Arc<DynamicEvent>>,
    array: Option<Arc<OutputArray>>,
}

/// An opened event, and the attributes that were dropped.
#[derive(Debug)]
pub struct OpenResult {
    /// The event.
    pub event: PerfEvent,
    /// Names of the attributes that this kernel does not support.
    pub dropped: Vec<&'static str>,
}

impl PerfEvent {
    /// Opens an event; `name` identifies it in messages.
    ///
    /// # Errors
    /// The kernel refuses it; the [`Refusal`] explains why.
    pub fn open(attr: &Attr, target: PerfTarget, name: &str) -> Result<OpenResult, Refusal> {
        PerfEvent::open_as(attr, target, name, Membership::default())
    }

    /// Opens an event as a member of a group of events, or of a control group.
    ///
    /// # Errors
    /// The kernel refuses it; the [`Refusal`] explains why.
    pub fn open_as(
        attr: &Attr,
        target: PerfTarget,
        name: &str,
        member: Membership<'_>,
    ) -> Result<OpenResult, Refusal> {
        let landed = attr_fallback::descend(attr, |attr| open_exactly(attr, target, member))
            .map_err(|errno| {
                let call = match member.probe {
                    _ if is_without_state(member, target, errno) => RefusedCall::OpenInCgroup,
                    Some(probe) => RefusedCall::OpenProbe(probe.type_(), attr, target),
                    None => RefusedCall::Open(attr, target),
                };
                Refusal::new(name, call, errno)
            })?;
        let probe = member.probe.cloned();
        if let Some(array) = member.array {
            let set = array.set_event(target.cpu as u32, landed.opened.as_fd());
            set.map_err(|why| Refusal::new(name, RefusedCall::Bpf(""), errno(&why)))?;
        }
        let (fd, array) = (landed.opened, member.array.cloned());
        let event = PerfEvent { fd, name: name.into(), attr: landed.attr, probe, array };
        Ok(OpenResult { event, dropped: landed.dropped })
    }

    /// Returns an event of any file descriptor.
    #[cfg(test)]
    pub(crate) fn of_fd(fd: OwnedFd, attr: Attr) -> PerfEvent {
        PerfEvent { fd, name: "cycles".into(), attr, probe: None, array: None }
    }

    /// Returns the name that identifies the event in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the event in tracefs that was opened, if it was made for this event.
    pub fn probe(&self) -> Option<&Arc<DynamicEvent>> {
        self.probe.as_ref()
    }

    /// Returns the array in which BPF programs find it.
    pub fn array(&self) -> Option<&Arc<OutputArray>> {
        self.array.as_ref()
    }

    /// Returns the attributes in force.
    pub fn attr(&self) -> &Attr {
        &self.attr
    }

    /// Starts counting and sampling.
    ///
    /// # Errors
    /// `PERF_EVENT_IOC_ENABLE` fails.
    pub fn enable(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open; the call takes no pointer.
        check(unsafe { ioctls::ENABLE(self.fd.as_raw_fd(), 0) })
    }

    /// Stops counting and sampling.
    ///
    /// # Errors
    /// `PERF_EVENT_IOC_DISABLE` fails.
    pub fn disable(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open, and the argument is a number.
        check(unsafe { ioctls::DISABLE(self.fd.as_raw_fd(), 0) })
    }

    /// Sets the count to zero.
    ///
    /// # Errors
    /// `PERF_EVENT_IOC_RESET` fails.
    pub fn reset(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open, and the argument is a number.
        check(unsafe { ioctls::RESET(self.fd.as_raw_fd(), 0) })
    }

    /// Enables a disabled sampling event for this many more overflows.
    ///
    /// After these, a tracepoint stays silent even if it is enabled again (seen on 6.18); open it
    /// again.
    ///
    /// # Errors
    /// `PERF_EVENT_IOC_REFRESH` fails.
    pub fn refresh(&self, overflows: i32) -> io::Result<()> {
        // SAFETY: the descriptor is open, and the argument is a number.
        check(unsafe { ioctls::REFRESH(self.fd.as_raw_fd(), overflows) })
    }

    /// Changes the sampling period, or the frequency of an event that has one.
    ///
    /// # Errors
    /// `PERF_EVENT_IOC_PERIOD` fails.
    pub fn period(&self, period: u64) -> io::Result<()> {
        let at: *const u64 = &raw const period;
        // SAFETY: the kernel reads eight bytes through the argument, which is a pointer although
        // the binding declares a number; `period` outlives the call.
        check(unsafe { ioctls::PERIOD(self.fd.as_raw_fd(), at as u64) })
    }

    /// Pauses (`true`) or resumes writing to this event's ring.
    ///
    /// # Errors
    /// `PERF_EVENT_IOC_PAUSE_OUTPUT` fails.
    pub fn pause(&self, paused: bool) -> io::Result<()> {
        // SAFETY: the descriptor is open, and the argument is a number.
        check(unsafe { ioctls::PAUSE_OUTPUT(self.fd.as_raw_fd(), u32::from(paused)) })
    }

    /// Sets the tracepoint's filter, which is possible only once.
    ///
    /// # Errors
    /// `EEXIST` if it has a filter; the kernel's other errnos do not show what is wrong with the
    /// filter.
    pub fn set_filter(&self, filter: &str) -> Result<(), Refusal> {
        let refuse = |errno| Refusal::new(&self.name, RefusedCall::Filter(filter), errno);
        let text = CString::new(filter).map_err(|_| refuse(libc::EINVAL))?;
        // SAFETY: the kernel reads the string up to its NUL and does not write it, although the
        // pointer is mutable.
        check(unsafe { ioctls::SET_FILTER(self.fd.as_raw_fd(), text.as_ptr().cast_mut()) })
            .map_err(|e| refuse(errno(&e)))
    }

    /// Directs this event's records to the ring of `owner`, which must be mapped.
    ///
    /// # Errors
    /// The kernel refuses it: another CPU, another clock, or a ring of its own.
    pub fn set_output(&self, owner: &PerfEvent) -> Result<(), Refusal> {
        // SAFETY: both descriptors are open; the call takes no pointer.
        check(unsafe { ioctls::SET_OUTPUT(self.fd.as_raw_fd(), owner.fd.as_raw_fd()) })
            .map_err(|e| Refusal::new(&self.name, RefusedCall::Output(&owner.name), errno(&e)))
    }

    /// Returns the id that its records contain.
    ///
    /// # Errors
    /// `PERF_EVENT_IOC_ID` fails (kernels before 3.12), and `read_format` lacks `PERF_FORMAT_ID`.
    pub fn id(&self) -> io::Result<u64> {
        let mut id = 0u64;
        // SAFETY: the kernel writes eight bytes to `id`.
        match check(unsafe { ioctls::ID(self.fd.as_raw_fd(), &raw mut id) }) {
            Ok(()) => Ok(id),
            Err(_) if self.reads(b::PERF_FORMAT_ID) => Ok(self.read_counts()?.id),
            Err(error) => Err(error),
        }
    }

    /// Returns how many of its records the kernel has dropped (`PERF_FORMAT_LOST`); None if the
    /// kernel does not count them (before 6.0), or the event cannot be read.
    pub fn lost(&self) -> Option<u64> {
        self.read_counts().ok().and_then(|counts| counts.lost)
    }

    /// Returns the count without the dropped records; None as for [`PerfEvent::lost`].
    pub fn delivered(&self) -> Option<u64> {
        self.read_counts().ok()?.delivered()
    }

    /// Reads the counts.
    ///
    /// # Errors
    /// Those of `read(2)`. Besides: the event is in its error state (a pinned event that got no
    /// counter), which the kernel reports as end of file; see [`is_unscheduled`].
    pub fn read_counts(&self) -> io::Result<EventCounts> {
        if self.leads() {
            let mut own = None;
            self.read_group(MEMBERS_MAX, &mut Vec::new(), |one| own = own.or(Some(one)))?;
            return own.ok_or_else(|| self.no_counts(0));
        }
        let mut words = [0u64; COUNT_WORDS];
        // SAFETY: `words` is writable for its size, and any bytes are a value of it.
        let got = unsafe {
            libc::read(self.fd.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words))
        };
        let words = self.words_read(got, &words)?;
        parse(words, self.attr.as_raw().read_format).ok_or_else(|| self.no_counts(got))
    }

    /// Reads the counts of the group that this event leads, and passes each to `take`, the leader's
    /// first. `words` is scratch space; the group has `members` events besides the leader.
    ///
    /// # Errors
    /// As for [`PerfEvent::read_counts`].
    pub fn read_group(
        &self,
        members: usize,
        words: &mut Vec<u64>,
        take: impl FnMut(EventCounts),
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

    /// Returns the part of `words` that a `read(2)` filled.
    fn words_read<'a>(&self, got: isize, words: &'a [u64]) -> io::Result<&'a [u64]> {
        match got {
            ..0 => Err(io::Error::last_os_error()),
            0 => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{}: the event is in error state: other events use its counter", self.name),
            )),
            bytes => Ok(words.get(..bytes as usize / 8).unwrap_or_default()),
        }
    }

    fn no_counts(&self, bytes: isize) -> io::Error {
        io::Error::other(format!(
            "{}: a read returned {bytes} bytes, which are not counts",
            self.name
        ))
    }

    /// Returns another descriptor of the event, which ends when both are closed.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn duplicate(&self) -> io::Result<PerfEvent> {
        let (name, probe) = (self.name.clone(), self.probe.clone());
        let array = self.array.clone();
        Ok(PerfEvent { fd: self.fd.try_clone()?, name, attr: self.attr, probe, array })
    }

    /// Returns whether the event leads a group that is read by one call.
    pub fn leads(&self) -> bool {
        self.reads(b::PERF_FORMAT_GROUP)
    }

    fn reads(&self, format: b::perf_event_read_format) -> bool {
        self.attr.as_raw().read_format & u64::from(format) != 0
    }
}

impl AsFd for PerfEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Maximum number of attempts to open an event if signals interrupt them. Usually one or two are
/// interrupted; a uprobe event that is enabled in tracefs returns `EINTR` every time
/// (`probe_event_enable()`, kernel/trace/trace_uprobe.c).
const OPEN_TRIES: u32 = 8;

fn open_exactly(
    attr: &mut Attr,
    target: PerfTarget,
    member: Membership<'_>,
) -> Result<OwnedFd, i32> {
    let leader = member.leader.map_or(-1, |leader| leader.fd.as_raw_fd());
    let (pid, of_cgroup) = match member.cgroup {
        Some(folder) => (folder.as_raw_fd(), b::PERF_FLAG_PID_CGROUP),
        None => (target.pid, 0),
    };
    for _ in 0..OPEN_TRIES {
        // SAFETY: the attr is initialised and contains its size; the kernel writes at most that
        // field. Nothing that an attr requests touches this process's memory, except `sigtrap`,
        // which is a signal.
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
            // SAFETY: the kernel just returned this descriptor, and nothing else owns it.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        match errno(&io::Error::last_os_error()) {
            libc::EINTR => {}
            errno => return Err(errno),
        }
    }
    Err(libc::EINTR)
}

/// Returns whether the kernel refuses every event of a control group, also one that it always has.
fn is_without_state(member: Membership<'_>, target: PerfTarget, errno: i32) -> bool {
    let mut dummy = Attr::software(u64::from(b::PERF_COUNT_SW_DUMMY));
    let alone = Membership { cgroup: member.cgroup, ..Membership::default() };
    errno == libc::ENOENT
        && member.cgroup.is_some()
        && open_exactly(&mut dummy, target, alone).is_err_and(|errno| errno == libc::ENOENT)
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_read_means_that_other_events_use_the_counter() {
        let fd = std::fs::File::open("/dev/null").unwrap().into();
        let event = PerfEvent::of_fd(fd, Attr::counter(0, 0));
        assert!(is_unscheduled(&event.read_counts().unwrap_err()));
        assert!(is_unscheduled(&event.read_group(1, &mut Vec::new(), |_| ()).unwrap_err()));
        assert!(!is_unscheduled(&io::Error::other("anything else")));
    }
}
