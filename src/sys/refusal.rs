//! Explains a system call that the kernel refused: which event, why, which setting, what to do.
//!
//! The text of a [`Refusal`] is `WHAT: WHY; WHAT TO DO`. A pure function makes it from the call,
//! its errno and the [`Privileges`] of the machine. `errno` alone is ambiguous: `EACCES` may mean
//! `perf_event_paranoid`, a missing capability, lockdown, or another user's process.
//!
//! Sources: `perf_event_open(2)`, Documentation/admin-guide/{perf-security,sysctl/kernel}.rst, and
//! the return values of kernel/events/core.c and kernel/trace/trace_event_perf.c.

mod bpf;
mod breakpoint;
mod cgroup;
mod permission;
mod probe;

pub use probe::FUNCTIONS_NEED_ROOT;

use super::attr::{Attr, PerfTarget};
use super::privileges::Privileges;
use super::probe_type::ProbeType;
use perf_event_open_sys::bindings as b;
use permission::{is_tracepoint_of_kernels_own, permission};
use probe::{create_probe, probe};

/// A refused call, as a line for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Refusal {
    /// The kernel's errno; 0 if it was not asked.
    pub errno: i32,
    /// The event, or the requested object.
    pub what: String,
    /// The reason and the fix.
    pub why: String,
    /// Whether it concerns this event alone: others may open.
    pub of_event: bool,
}

/// Internal to the kernel, so libc does not define it.
const ENOTSUPP: i32 = 524;

/// The refused call, with the values that the explanation depends on.
#[derive(Clone, Copy, Debug)]
pub enum RefusedCall<'a> {
    /// `perf_event_open(2)`.
    Open(&'a Attr, PerfTarget),
    /// `perf_event_open(2)` for a control group, which refuses all events alike.
    OpenInCgroup,
    /// Creating a probe in tracefs.
    CreateProbe(ProbeType),
    /// `perf_event_open(2)` of such a probe.
    OpenProbe(ProbeType, &'a Attr, PerfTarget),
    /// `mmap(2)` of a ring with this many data pages.
    Map(usize),
    /// `PERF_EVENT_IOC_SET_FILTER`.
    Filter(&'a str),
    /// `PERF_EVENT_IOC_SET_OUTPUT` to the event of this name.
    Output(&'a str),
    /// `mount(2)` of the file system of this name, at this path.
    Mount(&'a str, &'a str),
    /// Reading the event files at this path.
    Events(&'a str),
    /// `bpf(2)`, with the verdict of the verifier if it has one.
    Bpf(&'a str),
    /// Starting a process or a thread.
    Start,
}

impl Refusal {
    /// Explains a refusal with the facts of this machine, read now.
    pub fn new(what: &str, call: RefusedCall<'_>, errno: i32) -> Refusal {
        Refusal::from_facts(what, call, errno, &Privileges::read())
    }

    /// Explains a refusal with the given facts.
    pub fn from_facts(what: &str, call: RefusedCall<'_>, errno: i32, facts: &Privileges) -> Self {
        let why = match call {
            RefusedCall::Open(attr, target) => open(attr, target, errno, facts),
            RefusedCall::OpenInCgroup => cgroup::open_in_cgroup(errno),
            RefusedCall::CreateProbe(type_) => create_probe(type_, errno, facts),
            RefusedCall::OpenProbe(type_, attr, target) => match probe(type_, errno, facts) {
                Some(why) if attr.as_raw().branch_sample_type == 0 => why.to_owned(),
                _ => open(attr, target, errno, facts),
            },
            RefusedCall::Map(pages) => map(pages, errno, facts),
            RefusedCall::Filter(filter) => self::filter(filter, errno),
            RefusedCall::Output(owner) => output(owner, errno),
            RefusedCall::Mount(kind, at) => mount(kind, at, errno, facts),
            RefusedCall::Events(at) => events(at, errno, facts),
            RefusedCall::Bpf(log) => bpf::bpf(log, errno, facts),
            RefusedCall::Start => start(errno, facts),
        };
        let of_event = match call {
            RefusedCall::Open(attr, _) | RefusedCall::OpenProbe(_, attr, _) => {
                is_of_event(attr, errno, facts)
            }
            RefusedCall::CreateProbe(_) => {
                !matches!(errno, libc::EACCES | libc::EPERM | libc::EROFS)
            }
            _ => false,
        };
        Refusal { errno, what: what.to_owned(), why, of_event }
    }

    /// Returns whether a privilege is missing, so that another user may be allowed the call.
    pub fn is_permission(&self) -> bool {
        matches!(self.errno, libc::EACCES | libc::EPERM)
    }

    /// Explains an event that the kernel would open, but not count as requested.
    pub fn of_unsupported(what: &str, why: &str) -> Refusal {
        let (what, why) = (what.to_owned(), why.to_owned());
        Refusal { errno: 0, what, why, of_event: true }
    }

    /// Returns whether the kernel was not asked, because it would not count as requested.
    pub fn is_unsupported(&self) -> bool {
        self.errno == 0
    }

    /// Returns whether the machine does not have the event.
    pub fn is_absence(&self) -> bool {
        matches!(self.errno, libc::ENOENT | libc::ENXIO | libc::ENODEV)
    }

    /// Returns whether a probe was refused because of its location: another one may be accepted.
    pub fn is_of_place(&self) -> bool {
        let of_place = [libc::EINVAL, libc::ENOENT, libc::EADDRNOTAVAIL, libc::EILSEQ];
        of_place.contains(&self.errno) || [libc::EOPNOTSUPP, ENOTSUPP].contains(&self.errno)
    }
}

/// Returns whether an open was refused for the event itself, not a privilege, resource or target.
fn is_of_event(attr: &Attr, errno: i32, facts: &Privileges) -> bool {
    match errno {
        libc::EACCES | libc::EPERM => is_tracepoint_of_kernels_own(attr, facts),
        libc::EMFILE | libc::ENFILE | libc::ENOMEM => false,
        libc::ESRCH | libc::ENODEV | libc::ENOSYS | libc::E2BIG => false,
        _ => true,
    }
}

fn open(attr: &Attr, target: PerfTarget, errno: i32, facts: &Privileges) -> String {
    let raw = attr.as_raw();
    let PerfTarget { pid, cpu } = target;
    if let Some(why) = breakpoint::breakpoint(attr, errno, facts) {
        return why.to_owned();
    }
    match errno {
        libc::EACCES | libc::EPERM => permission(attr, target, facts),
        libc::EINTR if raw.type_ == b::PERF_TYPE_TRACEPOINT => "another tracer uses it: a uprobe \
             event that is enabled in tracefs cannot be opened by perf; write 0 to its `enable` \
             file there, also in each folder of `instances`"
            .into(),
        libc::EINTR => "signals interrupted each attempt to open it; try again".into(),
        libc::ENOENT if hardware(raw.type_) => "this machine has no such hardware counter (no \
             PMU, as in most virtual machines); use a software event such as cpu-clock"
            .into(),
        libc::ENOENT | libc::ENXIO => format!(
            "this kernel has no event of type {} with config {:#x}; see \
             /sys/bus/event_source/devices",
            raw.type_, raw.config
        ),
        libc::ESRCH => format!("there is no task {pid}: it has ended; name a running one"),
        libc::ENODEV if cpu >= 0 => {
            format!("CPU {cpu} is offline or not served by this PMU; {}", online(facts))
        }
        libc::EINVAL if pid < 0 && cpu < 0 => {
            "neither a task nor a CPU is given; name one of them".into()
        }
        libc::EINVAL if cpu >= 0 && !facts.online.contains(&(cpu as u32)) => {
            format!("CPU {cpu} is not on this machine; {}", online(facts))
        }
        libc::EINVAL if over(raw.freq() == 1, attr.get("sample_freq"), facts.sample_rate) => {
            format!(
                "a frequency of {} is too high; perf_event_max_sample_rate is {}: lower the \
                 frequency, or raise the limit",
                attr.get("sample_freq").unwrap_or(0),
                number(facts.sample_rate)
            )
        }
        libc::EOPNOTSUPP | libc::EINVAL if raw.branch_sample_type != 0 => {
            branches(raw.type_, raw.branch_sample_type)
        }
        libc::EINVAL if raw.inherit() == 1 && samples_counts(attr) => "this kernel cannot sample \
             the counts of a group for tasks and their children (since Linux 6.12); add -a"
            .into(),
        libc::EINVAL if raw.type_ == b::PERF_TYPE_TRACEPOINT => {
            "the kernel refuses its attributes (see -vv), or the tracepoint was removed".into()
        }
        libc::EINVAL if dynamic(raw.type_) => "its PMU refuses the attributes: it may not \
             support this config, sampling or modifiers; use it with stat and without modifiers; \
             -vv prints the attributes"
            .into(),
        libc::EINVAL => "the kernel refuses its attributes; -vv prints them".into(),
        libc::E2BIG => format!(
            "kernel {} is too old for one of its attributes; -vv prints them: omit the newest",
            facts.kernel
        ),
        libc::EOVERFLOW => format!(
            "a call chain of {} frames is too deep; kernel.perf_event_max_stack is {}: use fewer \
             frames, or raise the limit",
            raw.sample_max_stack,
            number(facts.max_stack)
        ),
        libc::EOPNOTSUPP => "this PMU does not support the requested attributes; omit branch \
             stacks, precise_ip or sampling, or use another event"
            .into(),
        libc::EBUSY => "the PMU is in exclusive use by another process; stop it".into(),
        libc::EMFILE => no_descriptor(facts),
        libc::ENFILE => "the machine has no free file descriptor; raise fs.file-max".into(),
        libc::ENOSYS => "this kernel has no perf_event_open; it needs CONFIG_PERF_EVENTS=y, and \
             in a container a seccomp profile that allows the call"
            .into(),
        libc::ENOMEM => "the kernel has no memory for it; watch fewer events or CPUs".into(),
        errno => strange(errno, "-vv prints the attributes"),
    }
}

/// Returns whether samples are to have the counts of a group.
fn samples_counts(attr: &Attr) -> bool {
    let (raw, group) = (attr.as_raw(), u64::from(b::PERF_FORMAT_GROUP));
    raw.sample_type & u64::from(b::PERF_SAMPLE_READ) != 0 && raw.read_format & group != 0
}

/// Explains `EMFILE`. The soft limit is raised to the hard one before events are opened.
fn no_descriptor(facts: &Privileges) -> String {
    format!(
        "no file descriptor is left; RLIMIT_NOFILE is {}: raise it (`ulimit -Hn`, LimitNOFILE= of \
         a service), or watch fewer events, tasks or CPUs",
        facts.nofile
    )
}

/// Explains missing branch records: only hardware counters have them, and not on all hardware.
fn branches(pmu_type: u32, requested: u64) -> String {
    let why = match pmu_type {
        b::PERF_TYPE_TRACEPOINT | b::PERF_TYPE_SOFTWARE | b::PERF_TYPE_BREAKPOINT => {
            "it has no branch records (LBR), which only hardware counters such as cycles have"
        }
        _ => "this PMU has no branch records (LBR) of calls, as in most virtual machines",
    };
    let of_chains = requested & u64::from(b::PERF_SAMPLE_BRANCH_CALL_STACK) != 0;
    let fix = match of_chains {
        true => "use --call-graph=fp or --call-graph=dwarf",
        false => "omit `_branches`",
    };
    format!("{why}; {fix}")
}

fn map(pages: usize, errno: i32, facts: &Privileges) -> String {
    let kib = pages * super::machine::page_size() / 1024;
    match errno {
        // Exceeding the locked memory is EPERM here, unlike everywhere else.
        libc::EPERM => format!(
            "a ring of {kib} KiB exceeds the memory that this user may lock; perf_event_mlock_kb \
             is {} per CPU and RLIMIT_MEMLOCK is {}: use a smaller ring (-m), raise either limit, \
             or run as root",
            number(facts.mlock_kb),
            facts.memlock_kb.map_or("unlimited".into(), |kb| format!("{kb} KiB"))
        ),
        libc::ENOMEM => format!("no memory for a ring of {kib} KiB; use a smaller one (-m)"),
        libc::EINVAL => format!(
            "it cannot have a ring of {pages} pages; the number must be a power of two, and an \
             inherited event needs a CPU"
        ),
        libc::EMFILE => no_descriptor(facts),
        libc::ENFILE => "the machine has no free file descriptor; raise fs.file-max".into(),
        errno => strange(errno, "use a smaller ring (-m)"),
    }
}

fn filter(filter: &str, errno: i32) -> String {
    match errno {
        libc::EEXIST => {
            "it already has a filter; the kernel allows one per event: open the event again".into()
        }
        libc::ENOMEM => "the kernel has no memory for the filter; shorten it".into(),
        // The parser's errno is not a diagnosis: an unbalanced parenthesis is ENOENT or EPERM.
        libc::EINVAL | libc::ENOENT | libc::EPERM => format!(
            "the kernel refuses the filter '{filter}'; check the field names, quote strings, use \
             == != < <= > >= & ~ && || ! and parentheses"
        ),
        errno => strange(errno, "omit the filter"),
    }
}

fn output(owner: &str, errno: i32) -> String {
    match errno {
        libc::EINVAL => format!(
            "it cannot write to the ring of {owner}; both events need the same CPU and clock, and \
             only {owner} may have a mapped ring"
        ),
        errno => strange(errno, "give it its own ring"),
    }
}

fn mount(kind: &str, at: &str, errno: i32, facts: &Privileges) -> String {
    match errno {
        libc::ENODEV => {
            format!("kernel {} does not have it; tracepoints need CONFIG_TRACING=y", facts.kernel)
        }
        libc::EPERM | libc::EACCES => format!(
            "not mounted, and this user may not mount it; run as root, or `mount -t {kind} nodev \
             {at}`"
        ),
        libc::ENOENT => format!("not mounted, and there is no {at}; mount it elsewhere"),
        errno => strange(errno, &format!("run `mount -t {kind} nodev {at}`")),
    }
}

fn events(at: &str, errno: i32, facts: &Privileges) -> String {
    match errno {
        libc::EACCES | libc::EPERM if facts.lockdown.as_deref() == Some("confidentiality") => {
            format!(
                "permission denied on {at}; the kernel is locked down (confidentiality): boot with \
                 lockdown=integrity or lockdown=none"
            )
        }
        libc::EACCES | libc::EPERM => format!(
            "permission denied on {at}; run as root, or `mount -o remount,gid=GROUP,mode=750 {at}`"
        ),
        libc::ENOENT => {
            format!("{at} has no events; the kernel needs CONFIG_EVENT_TRACING=y")
        }
        errno => strange(errno, &format!("check {at}")),
    }
}

fn start(errno: i32, facts: &Privileges) -> String {
    match (errno, &facts.full_pids_cgroup) {
        (libc::EAGAIN, Some((cgroup, max))) => format!(
            "cannot start a process or thread; pids.max of the cgroup {cgroup} is {max} and \
             reached: raise it, or end some processes"
        ),
        (libc::EAGAIN, None) => format!(
            "cannot start a process or thread; RLIMIT_NPROC is {} (`ulimit -u`) and \
             kernel.threads-max is {}: raise the limit that is reached, or end some processes",
            facts.nproc.map_or("unlimited".into(), |most| most.to_string()),
            number(facts.threads_max)
        ),
        (libc::EMFILE, _) => no_descriptor(facts),
        (libc::ENFILE, _) => "the machine has no free file descriptor; raise fs.file-max".into(),
        (libc::ENOMEM, _) => "the kernel has no memory for a process; end some processes".into(),
        _ => strange(errno, "start fewer processes"),
    }
}

/// Returns whether the number of a PMU is assigned at run time.
fn dynamic(pmu_type: u32) -> bool {
    pmu_type > b::PERF_TYPE_BREAKPOINT
}

fn hardware(pmu_type: u32) -> bool {
    [b::PERF_TYPE_HARDWARE, b::PERF_TYPE_HW_CACHE, b::PERF_TYPE_RAW].contains(&pmu_type)
}

fn online(facts: &Privileges) -> String {
    let cpus: Vec<String> = facts.online.iter().map(u32::to_string).collect();
    format!("online: {}", cpus.join(","))
}

fn over(applies: bool, value: Option<u64>, limit: Option<u64>) -> bool {
    applies && matches!((value, limit), (Some(value), Some(limit)) if value > limit)
}

fn number(value: Option<u64>) -> String {
    value.map_or("unknown".into(), |n| n.to_string())
}

/// Explains an errno that is not expected here.
fn strange(errno: i32, to_do: &str) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    let text = text.split(" (os error").next().unwrap_or_default().to_lowercase();
    format!("{text} (errno {errno}); {to_do}")
}

#[cfg(test)]
mod tests;
