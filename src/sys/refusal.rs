//! A system call that the kernel refused, explained: which event, why, which knob, what to do.
//!
//! [`Refusal`]'s text is the user's line, `WHAT: WHY; WHAT TO DO`. It is made by a pure function from the
//! call, its errno and the [`Facts`] of the machine, because `errno` alone says little: `EACCES` may be
//! `perf_event_paranoid`, a missing capability, lockdown, or somebody else's process.
//!
//! Sources: `perf_event_open(2)`, Documentation/admin-guide/{perf-security,sysctl/kernel}.rst, and what
//! kernel/events/core.c and kernel/trace/trace_event_perf.c return.

use super::attr::Attr;
use super::facts::Facts;
use super::perf::Target;
use perf_event_open_sys::bindings as b;

/// What the machine would not do, in a line for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Refusal {
    /// The kernel's errno.
    pub errno: i32,
    /// The event, or the object that was asked for.
    pub what: String,
    /// Why, and what to do.
    pub why: String,
    /// It is about this event alone: others may open.
    pub of_event: bool,
}

/// Of the kernel only, so that libc does not know it.
const ENOTSUPP: i32 = 524;

/// The call that was refused, with what decides the explanation.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    /// `perf_event_open(2)`.
    Open(&'a Attr, Target),
    /// `mmap(2)` of a ring with this many data pages.
    Map(usize),
    /// `PERF_EVENT_IOC_SET_FILTER`.
    Filter(&'a str),
    /// `PERF_EVENT_IOC_SET_OUTPUT` to the event of this name.
    Output(&'a str),
    /// `mount(2)` of the file system of this name, at this place.
    Mount(&'a str, &'a str),
    /// Reading the event files at this place.
    Events(&'a str),
    /// Starting a process or a thread.
    Start,
}

impl Refusal {
    /// Explains a refusal with the facts of this machine, read now.
    pub fn new(what: &str, call: Call<'_>, errno: i32) -> Refusal {
        Refusal::from_facts(what, call, errno, &Facts::read())
    }

    /// Explains a refusal: a pure function.
    pub fn from_facts(what: &str, call: Call<'_>, errno: i32, facts: &Facts) -> Refusal {
        let why = match call {
            Call::Open(attr, target) => open(attr, target, errno, facts),
            Call::Map(pages) => map(pages, errno, facts),
            Call::Filter(filter) => self::filter(filter, errno),
            Call::Output(owner) => output(owner, errno),
            Call::Mount(kind, at) => mount(kind, at, errno, facts),
            Call::Events(at) => events(at, errno, facts),
            Call::Start => start(errno, facts),
        };
        let of_event = matches!(call, Call::Open(attr, _) if is_of_event(attr, errno, facts));
        Refusal { errno, what: what.to_owned(), why, of_event }
    }

    /// Whether somebody else might be allowed what was refused.
    pub fn is_permission(&self) -> bool {
        matches!(self.errno, libc::EACCES | libc::EPERM)
    }

    /// Whether a probe was refused for what stands at its place, so that one elsewhere may be taken.
    pub fn is_of_place(&self) -> bool {
        let of_place = [libc::EINVAL, libc::ENOENT, libc::EADDRNOTAVAIL, libc::EILSEQ];
        of_place.contains(&self.errno) || [libc::EOPNOTSUPP, ENOTSUPP].contains(&self.errno)
    }
}

/// Whether an open was refused for what the event is, and not for want of a privilege, a resource
/// or its target.
fn is_of_event(attr: &Attr, errno: i32, facts: &Facts) -> bool {
    match errno {
        libc::EACCES | libc::EPERM => is_tracepoint_of_kernels_own(attr, facts),
        libc::EMFILE | libc::ENFILE | libc::ENOMEM => false,
        libc::ESRCH | libc::ENODEV | libc::ENOSYS | libc::E2BIG => false,
        _ => true,
    }
}

/// Whether a permission is missing that no process has: the kernel marks some tracepoints so
/// (`TRACE_EVENT_PERF_PERM`).
fn is_tracepoint_of_kernels_own(attr: &Attr, facts: &Facts) -> bool {
    let locked = facts.lockdown.as_deref() == Some("confidentiality");
    attr.as_raw().type_ == b::PERF_TYPE_TRACEPOINT && facts.perfmon && facts.opens_own && !locked
}

fn open(attr: &Attr, target: Target, errno: i32, facts: &Facts) -> String {
    let raw = attr.as_raw();
    let Target { pid, cpu } = target;
    if let Some(kind) = facts.probes.iter().position(|pmu| *pmu == Some(raw.type_))
        && raw.branch_sample_type == 0
        && let Some(why) = probe(kind == 0, errno, facts)
    {
        return why.to_owned();
    }
    match errno {
        libc::EACCES | libc::EPERM => permission(attr, target, facts),
        libc::EINTR if raw.type_ == b::PERF_TYPE_TRACEPOINT => {
            "another tracer holds it: a uprobe event that is enabled in tracefs does not open for perf; \
             write 0 to its `enable` file there, also in each folder of `instances`"
                .into()
        }
        libc::EINTR => "signals interrupted each attempt to open it; try again".into(),
        libc::ENOENT if hardware(raw.type_) => {
            "this machine has no such hardware counter (no PMU, as in most virtual machines); \
             use a software event such as cpu-clock"
                .into()
        }
        libc::ENOENT | libc::ENXIO => format!(
            "this kernel has no event of type {} with config {:#x}; see /sys/bus/event_source/devices",
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
                "a frequency of {} is too high; perf_event_max_sample_rate is {}: ask for less, or raise it",
                attr.get("sample_freq").unwrap_or(0),
                number(facts.sample_rate)
            )
        }
        libc::EOPNOTSUPP | libc::EINVAL if raw.branch_sample_type != 0 => branches(raw.type_),
        libc::EINVAL if raw.type_ == b::PERF_TYPE_TRACEPOINT => {
            "the kernel refuses its attributes, or the tracepoint is gone; see them with -vv".into()
        }
        libc::EINVAL => "the kernel refuses its attributes; see them with -vv".into(),
        libc::E2BIG => format!(
            "kernel {} is too old for an attribute of it; see them with -vv, and leave out the newest",
            facts.kernel
        ),
        libc::EOVERFLOW => format!(
            "a call chain of {} frames is too deep; kernel.perf_event_max_stack is {}: ask for fewer, or raise it",
            raw.sample_max_stack,
            number(facts.max_stack)
        ),
        libc::ENOSPC if raw.type_ == b::PERF_TYPE_BREAKPOINT => {
            "all hardware breakpoints are in use (four on x86; a mapped ring keeps its own); \
             watch fewer addresses, or end the other user"
                .into()
        }
        libc::EOPNOTSUPP => "this PMU cannot do what is asked of it; leave out branch stacks, \
             precise_ip or sampling, or take another event"
            .into(),
        libc::EBUSY => "the PMU is in exclusive use by another process; stop it".into(),
        libc::EMFILE => no_descriptor(facts),
        libc::ENFILE => "the machine has no file descriptor left; raise fs.file-max".into(),
        libc::ENOSYS => {
            "this kernel has no perf_event_open; it needs CONFIG_PERF_EVENTS=y, and in \
             a container a seccomp profile that allows the call"
                .into()
        }
        libc::ENOMEM => "the kernel has no memory for it; watch fewer events or CPUs".into(),
        errno => strange(errno, "see the attributes with -vv"),
    }
}

/// What to do about `EMFILE`. The soft limit is raised to the hard one before events are opened.
fn no_descriptor(facts: &Facts) -> String {
    format!(
        "no file descriptor is left; RLIMIT_NOFILE is {}: raise it (`ulimit -Hn`, LimitNOFILE= of a service), \
         or watch fewer events, tasks or CPUs",
        facts.nofile
    )
}

/// Who may watch functions.
pub const FUNCTIONS_ARE_FOR: &str = "permission denied; functions are for root and CAP_PERFMON only, whatever perf_event_paranoid is: run as root";

/// What is special about functions, the kernel's own or not: `create_local_trace_kprobe()` and `create_local_trace_uprobe()` of
/// kernel/trace, and what they call.
fn probe(of_kernel: bool, errno: i32, facts: &Facts) -> Option<&'static str> {
    Some(match (errno, of_kernel) {
        (libc::EACCES | libc::EPERM, _) if !facts.perfmon => FUNCTIONS_ARE_FOR,
        (libc::ENOENT, true) => {
            "the kernel does not find the function; its module may have been unloaded: load it first"
        }
        (libc::EINVAL, true) => {
            "the kernel does not let this function be probed (probes need it themselves, or it runs where none may be); \
             watch one that calls it"
        }
        (libc::EADDRNOTAVAIL, true) => {
            "several functions have this name, and the kernel takes none of them for it; watch one that calls it"
        }
        (libc::EILSEQ | libc::EOPNOTSUPP | ENOTSUPP, _) => {
            "the kernel cannot put a probe on its first instruction; watch one that calls it"
        }
        (libc::ENOENT | libc::EINVAL, false) => {
            "the kernel does not take its file for a probe; is it still there, and on a disk of this machine?"
        }
        (libc::EIO, false) => {
            "its file system has no pages that a probe could be put into; copy the program elsewhere and start it there"
        }
        _ => return None,
    })
}

/// Branch records belong to the hardware's counters, and only some hardware keeps them.
fn branches(pmu_type: u32) -> String {
    let why = match pmu_type {
        b::PERF_TYPE_TRACEPOINT | b::PERF_TYPE_SOFTWARE | b::PERF_TYPE_BREAKPOINT => {
            "no branch records (LBR) come with it, only with a counter of the hardware such as cycles"
        }
        _ => "this PMU keeps no branch records (LBR) of calls, as in most virtual machines",
    };
    format!("{why}; take its stacks with --call-graph=fp or --call-graph=dwarf")
}

/// Why a permission is missing; the first reason that explains it.
fn permission(attr: &Attr, target: Target, facts: &Facts) -> String {
    let raw = attr.as_raw();
    let tracepoint = raw.type_ == b::PERF_TYPE_TRACEPOINT;
    // What perf_event_paranoid must be for someone without the capability (kernel.rst).
    let needed: i64 = if tracepoint && raw.sample_type & u64::from(b::PERF_SAMPLE_RAW) != 0 {
        -1
    } else if target.pid < 0 {
        0
    } else if raw.exclude_kernel() == 0 {
        1
    } else {
        2
    };
    if facts.lockdown.as_deref() == Some("confidentiality") {
        return "permission denied; the kernel is locked down (confidentiality), which forbids \
                perf even to root: boot with lockdown=integrity or none"
            .into();
    }
    if facts.in_user_namespace {
        return "permission denied; in a user namespace, perf needs CAP_PERFMON in the initial one: run outside of it"
            .into();
    }
    if is_tracepoint_of_kernels_own(attr, facts) {
        return "the kernel does not let any process sample this tracepoint, since a sample would \
                trigger it again; leave it out"
            .into();
    }
    if facts.perfmon {
        return "permission denied even to root; a seccomp profile (containers), a security module \
                or lockdown forbids it: allow perf_event_open there, or run on the host"
            .into();
    }
    match facts.paranoid {
        Some(paranoid) if paranoid > needed => format!(
            "permission denied; perf_event_paranoid is {paranoid}: run as root, or set it to {needed}"
        ),
        _ if target.pid > 0 => format!(
            "permission denied; task {} belongs to somebody else: run as root, or with CAP_PERFMON",
            target.pid
        ),
        _ => "permission denied; run as root, or with CAP_PERFMON".into(),
    }
}

fn map(pages: usize, errno: i32, facts: &Facts) -> String {
    let kib = pages * super::machine::page_size() / 1024;
    match errno {
        // What the budget lacks is EPERM here, unlike everywhere else.
        libc::EPERM => format!(
            "a ring of {kib} KiB is above what this user may lock; perf_event_mlock_kb is {} a CPU and \
             RLIMIT_MEMLOCK {}: take a smaller ring (-m), raise either, or run as root",
            number(facts.mlock_kb),
            facts.memlock_kb.map_or("unlimited".into(), |kb| format!("{kb} KiB"))
        ),
        libc::ENOMEM => format!("no memory for a ring of {kib} KiB; take a smaller one (-m)"),
        libc::EINVAL => format!(
            "it cannot have a ring of {pages} pages; it takes a power of two, and an inherited event a CPU"
        ),
        libc::EMFILE => no_descriptor(facts),
        libc::ENFILE => "the machine has no file descriptor left; raise fs.file-max".into(),
        errno => strange(errno, "take a smaller ring (-m)"),
    }
}

fn filter(filter: &str, errno: i32) -> String {
    match errno {
        libc::EEXIST => {
            "it has a filter already; the kernel takes one per event: open it anew".into()
        }
        libc::ENOMEM => "the kernel has no memory for the filter; shorten it".into(),
        // The parser's errno is no diagnosis: an unbalanced parenthesis is ENOENT or EPERM.
        libc::EINVAL | libc::ENOENT | libc::EPERM => format!(
            "the kernel refuses the filter '{filter}'; check the field names, quote strings, use == != < <= > >= & ~ && || ! and parentheses"
        ),
        errno => strange(errno, "leave out the filter"),
    }
}

fn output(owner: &str, errno: i32) -> String {
    match errno {
        libc::EINVAL => format!(
            "it cannot write to the ring of {owner}; both need the same CPU and clock, and a mapped ring there only"
        ),
        errno => strange(errno, "give it its own ring"),
    }
}

fn mount(kind: &str, at: &str, errno: i32, facts: &Facts) -> String {
    match errno {
        libc::ENODEV => {
            format!("kernel {} has none; tracepoints need CONFIG_TRACING=y", facts.kernel)
        }
        libc::EPERM | libc::EACCES => format!(
            "not mounted, and this user may not mount it; run as root, or `mount -t {kind} nodev {at}`"
        ),
        libc::ENOENT => format!("not mounted, and there is no {at}; mount it elsewhere"),
        errno => strange(errno, &format!("`mount -t {kind} nodev {at}` by hand")),
    }
}

fn events(at: &str, errno: i32, facts: &Facts) -> String {
    match errno {
        libc::EACCES | libc::EPERM if facts.lockdown.as_deref() == Some("confidentiality") => {
            format!("{at} is closed; the kernel is locked down (confidentiality): boot without")
        }
        libc::EACCES | libc::EPERM => {
            format!(
                "permission denied on {at}; run as root, or `mount -o remount,gid=GROUP,mode=750 {at}`"
            )
        }
        libc::ENOENT => {
            format!("{at} has no events; the kernel needs CONFIG_EVENT_TRACING=y")
        }
        errno => strange(errno, &format!("look at {at}")),
    }
}

/// What `fork(2)` and `clone(2)` lack.
fn start(errno: i32, facts: &Facts) -> String {
    match (errno, &facts.full_pids_cgroup) {
        (libc::EAGAIN, Some((cgroup, max))) => format!(
            "no process or thread can be started; pids.max of the cgroup {cgroup} is {max}, and as many run: \
             raise it, or end some of them"
        ),
        (libc::EAGAIN, None) => format!(
            "no process or thread can be started; RLIMIT_NPROC is {} (`ulimit -u`) and kernel.threads-max {}: \
             raise the one that is reached, or end some processes",
            facts.nproc.map_or("unlimited".into(), |most| most.to_string()),
            number(facts.threads_max)
        ),
        (libc::EMFILE, _) => no_descriptor(facts),
        (libc::ENFILE, _) => "the machine has no file descriptor left; raise fs.file-max".into(),
        (libc::ENOMEM, _) => "the kernel has no memory for another process; end some".into(),
        _ => strange(errno, "start fewer processes"),
    }
}

fn hardware(pmu_type: u32) -> bool {
    [b::PERF_TYPE_HARDWARE, b::PERF_TYPE_HW_CACHE, b::PERF_TYPE_RAW].contains(&pmu_type)
}

fn online(facts: &Facts) -> String {
    let cpus: Vec<String> = facts.online.iter().map(u32::to_string).collect();
    format!("online are {}", cpus.join(","))
}

fn over(applies: bool, value: Option<u64>, limit: Option<u64>) -> bool {
    applies && matches!((value, limit), (Some(value), Some(limit)) if value > limit)
}

fn number(value: Option<u64>) -> String {
    value.map_or("unknown".into(), |n| n.to_string())
}

/// An errno that nobody expects here.
fn strange(errno: i32, to_do: &str) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    let text = text.split(" (os error").next().unwrap_or_default().to_lowercase();
    format!("{text} (errno {errno}); {to_do}")
}

#[cfg(test)]
mod tests;
