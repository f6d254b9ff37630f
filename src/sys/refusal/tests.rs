//! What a refused call says on machines with different knobs.

use super::*;

fn facts() -> Facts {
    Facts {
        paranoid: Some(2),
        perfmon: false,
        in_user_namespace: false,
        opens_own: true,
        nproc: Some(5),
        threads_max: Some(3000),
        full_pids_cgroup: None,
        lockdown: None,
        mlock_kb: Some(516),
        memlock_kb: Some(8192),
        nofile: 1024,
        max_stack: Some(127),
        sample_rate: Some(100_000),
        online: vec![0, 1],
        kernel: "6.18.44".into(),
        probes: [Some(6), Some(8)],
    }
}

fn line(what: &str, call: Call<'_>, errno: i32, facts: &Facts) -> String {
    Refusal::from_facts(what, call, errno, facts).to_string()
}

fn tracepoint() -> Attr {
    let mut attr = Attr::tracepoint(1);
    attr.set("sample_type", u64::from(b::PERF_SAMPLE_RAW)).unwrap();
    attr
}

const CPU0: Target = Target { pid: -1, cpu: 0 };

#[test]
fn a_tracepoint_without_permission_names_the_sysctl_and_its_value() {
    for errno in [libc::EACCES, libc::EPERM] {
        assert_eq!(
            line("sched:sched_switch", Call::Open(&tracepoint(), CPU0), errno, &facts()),
            "sched:sched_switch: permission denied; perf_event_paranoid is 2: run as root, or set it to -1"
        );
    }
}

#[test]
fn a_probe_is_refused_in_words_of_functions() {
    let (kernels, programs) = (Attr::counter(6, 0), Attr::counter(8, 0));
    let privileged = Facts { perfmon: true, ..facts() };
    let mut with_branches = programs;
    with_branches.set("branch_sample_type", 1).unwrap();
    for (attr, errno, facts, why) in [
        (with_branches, libc::EOPNOTSUPP, &privileged, "this PMU keeps no branch records"),
        (
            kernels,
            libc::EACCES,
            &facts(),
            "permission denied; functions are for root and CAP_PERFMON only",
        ),
        (programs, libc::EACCES, &privileged, "permission denied even to root"),
        (kernels, libc::ENOENT, &privileged, "the kernel does not find the function"),
        (kernels, libc::EINVAL, &privileged, "the kernel does not let this function be probed"),
        (kernels, libc::EADDRNOTAVAIL, &privileged, "several functions have this name"),
        (programs, libc::EIO, &privileged, "its file system has no pages"),
        (programs, 524, &privileged, "the kernel cannot put a probe on its first instruction"),
        (programs, libc::EMFILE, &privileged, "no file descriptor is left"),
    ] {
        let line = line("uprobe:x:f", Call::Open(&attr, CPU0), errno, facts);
        assert!(line.starts_with(&format!("uprobe:x:f: {why}")) && line.contains(';'), "{line}");
    }
}

#[test]
fn the_sysctl_asked_for_is_no_lower_than_needed() {
    let mut user_only = Attr::software(0);
    user_only.set("exclude_kernel", 1).unwrap();
    let own = Target { pid: 0, cpu: -1 };
    for (attr, target, paranoid, needed) in [
        (Attr::software(0), CPU0, 2, "0"),
        (Attr::software(0), own, 2, "1"),
        (user_only, own, 3, "2"),
    ] {
        let facts = Facts { paranoid: Some(paranoid), ..facts() };
        let text = line("cpu-clock", Call::Open(&attr, target), libc::EACCES, &facts);
        assert!(text.ends_with(&format!("set it to {needed}")), "{text}");
    }
}

#[test]
fn what_the_sysctl_does_not_explain_is_not_blamed_on_it() {
    let other = Target { pid: 77, cpu: -1 };
    let attr = Attr::software(0);
    let open = Facts { paranoid: Some(-1), ..facts() };
    let root = Facts { perfmon: true, ..facts() };
    let inside = Facts { in_user_namespace: true, ..facts() };
    let locked = Facts { lockdown: Some("confidentiality".into()), ..root.clone() };
    for (facts, says) in [
        (&open, "task 77 belongs to somebody else"),
        (&root, "even to root; a seccomp profile"),
        (&inside, "in a user namespace, perf needs CAP_PERFMON in the initial one"),
        (&locked, "locked down (confidentiality)"),
    ] {
        let text = line("cpu-clock", Call::Open(&attr, other), libc::EACCES, facts);
        assert!(text.contains(says) && !text.contains("paranoid"), "{text}");
    }
}

#[test]
fn a_tracepoint_that_nobody_may_sample_is_not_blamed_on_the_machine() {
    let root = Facts { perfmon: true, ..facts() };
    let closed = Facts { opens_own: false, ..root.clone() };
    let refusal = |errno, facts: &Facts| {
        Refusal::from_facts(
            "irq_vectors:irq_work_exit",
            Call::Open(&tracepoint(), CPU0),
            errno,
            facts,
        )
    };
    let of_event = refusal(libc::EPERM, &root);
    assert!(
        of_event.of_event && of_event.why.starts_with("the kernel does not let any process sample")
    );
    // Where nothing opens at all, it is no property of the event.
    let of_machine = refusal(libc::EPERM, &closed);
    assert!(!of_machine.of_event && of_machine.why.contains("seccomp"), "{of_machine}");
    assert!(!refusal(libc::EACCES, &facts()).of_event);
    assert!(!refusal(libc::EMFILE, &root).of_event);
    let held = refusal(libc::EINTR, &root);
    assert!(held.of_event && held.why.starts_with("another tracer holds it"), "{held}");
}

#[test]
fn a_process_that_cannot_be_started_names_the_limit() {
    let full = Facts { full_pids_cgroup: Some(("/a/b".into(), 20)), ..facts() };
    for (facts, errno, says) in [
        (
            &facts(),
            libc::EAGAIN,
            "make: no process or thread can be started; RLIMIT_NPROC is 5 (`ulimit -u`) and kernel.threads-max 3000: \
             raise the one that is reached, or end some processes",
        ),
        (
            &full,
            libc::EAGAIN,
            "make: no process or thread can be started; pids.max of the cgroup /a/b is 20, and as many run: \
             raise it, or end some of them",
        ),
        (
            &facts(),
            libc::EMFILE,
            "make: no file descriptor is left; RLIMIT_NOFILE is 1024: raise it (`ulimit -Hn`, LimitNOFILE= of a service), \
             or watch fewer events, tasks or CPUs",
        ),
    ] {
        assert_eq!(line("make", Call::Start, errno, facts), says);
    }
}

#[test]
fn each_refusal_of_an_open_says_what_to_do() {
    let mut fast = Attr::software(0);
    fast.set("sample_freq", 200_000).unwrap();
    let mut deep = Attr::software(0);
    deep.set("sample_max_stack", 500).unwrap();
    let cycles = Attr::counter(b::PERF_TYPE_HARDWARE, 0);
    let breakpoint = Attr::counter(b::PERF_TYPE_BREAKPOINT, 0);
    let soft = Attr::software(99);
    let at = |pid, cpu| Target { pid, cpu };
    for (attr, target, errno, says) in [
        (
            cycles,
            CPU0,
            libc::ENOENT,
            "x: this machine has no such hardware counter (no PMU, as in most virtual machines); use a software event such as cpu-clock",
        ),
        (
            soft,
            CPU0,
            libc::ENOENT,
            "x: this kernel has no event of type 1 with config 0x63; see /sys/bus/event_source/devices",
        ),
        (soft, at(99, -1), libc::ESRCH, "x: there is no task 99: it has ended; name a running one"),
        (
            soft,
            at(-1, 1),
            libc::ENODEV,
            "x: CPU 1 is offline or not served by this PMU; online are 0,1",
        ),
        (soft, at(-1, 7), libc::EINVAL, "x: CPU 7 is not on this machine; online are 0,1"),
        (soft, at(-1, -1), libc::EINVAL, "x: neither a task nor a CPU is given; name one of them"),
        (
            fast,
            CPU0,
            libc::EINVAL,
            "x: a frequency of 200000 is too high; perf_event_max_sample_rate is 100000: ask for less, or raise it",
        ),
        (soft, CPU0, libc::EINVAL, "x: the kernel refuses its attributes; see them with -vv"),
        (
            soft,
            CPU0,
            libc::E2BIG,
            "x: kernel 6.18.44 is too old for an attribute of it; see them with -vv, and leave out the newest",
        ),
        (
            deep,
            CPU0,
            libc::EOVERFLOW,
            "x: a call chain of 500 frames is too deep; kernel.perf_event_max_stack is 127: ask for fewer, or raise it",
        ),
        (
            breakpoint,
            CPU0,
            libc::ENOSPC,
            "x: all hardware breakpoints are in use (four on x86; a mapped ring keeps its own); watch fewer addresses, or end the other user",
        ),
        (
            soft,
            CPU0,
            libc::EOPNOTSUPP,
            "x: this PMU cannot do what is asked of it; leave out branch stacks, precise_ip or sampling, or take another event",
        ),
        (
            soft,
            CPU0,
            libc::EMFILE,
            "x: no file descriptor is left; RLIMIT_NOFILE is 1024: raise it (`ulimit -Hn`, LimitNOFILE= of a service), or watch fewer events, tasks or CPUs",
        ),
        (
            soft,
            CPU0,
            libc::ENOSYS,
            "x: this kernel has no perf_event_open; it needs CONFIG_PERF_EVENTS=y, and in a container a seccomp profile that allows the call",
        ),
        (soft, CPU0, libc::EIO, "x: input/output error (errno 5); see the attributes with -vv"),
    ] {
        assert_eq!(line("x", Call::Open(&attr, target), errno, &facts()), says);
    }
}

#[test]
fn rings_filters_and_outputs_explain_themselves() {
    let page = crate::sys::machine::page_size();
    for (call, errno, says) in [
        (
            Call::Map(2048 * 1024 / page),
            libc::EPERM,
            "x: a ring of 2048 KiB is above what this user may lock; perf_event_mlock_kb is 516 a CPU and \
             RLIMIT_MEMLOCK 8192 KiB: take a smaller ring (-m), raise either, or run as root",
        ),
        (
            Call::Map(3),
            libc::EINVAL,
            "x: it cannot have a ring of 3 pages; it takes a power of two, and an inherited event a CPU",
        ),
        (
            Call::Filter("a == 1"),
            libc::EEXIST,
            "x: it has a filter already; the kernel takes one per event: open it anew",
        ),
        (
            Call::Output("dummy"),
            libc::EINVAL,
            "x: it cannot write to the ring of dummy; both need the same CPU and clock, and a mapped ring there only",
        ),
        (
            Call::Mount("tracefs", "/sys/kernel/tracing"),
            libc::EPERM,
            "x: not mounted, and this user may not mount it; run as root, or `mount -t tracefs nodev /sys/kernel/tracing`",
        ),
        (
            Call::Mount("tracefs", "/sys/kernel/tracing"),
            libc::ENODEV,
            "x: kernel 6.18.44 has none; tracepoints need CONFIG_TRACING=y",
        ),
        (
            Call::Events("/sys/kernel/tracing"),
            libc::EACCES,
            "x: permission denied on /sys/kernel/tracing; run as root, or `mount -o remount,gid=GROUP,mode=750 /sys/kernel/tracing`",
        ),
    ] {
        assert_eq!(line("x", call, errno, &facts()), says);
    }
    // Whatever its parser answers, a filter is at fault.
    for errno in [libc::EINVAL, libc::ENOENT, libc::EPERM] {
        let text = line("x", Call::Filter("(a == 1"), errno, &facts());
        assert!(text.starts_with("x: the kernel refuses the filter '(a == 1'; check"), "{text}");
    }
}
