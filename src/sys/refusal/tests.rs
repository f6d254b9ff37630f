//! Explanations of refused calls, on machines with different settings.

use perf_event_open_sys::bindings as b;

use super::*;

fn facts() -> Privileges {
    Privileges {
        paranoid: Some(2),
        perfmon: false,
        bpf: false,
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
    }
}

fn line(what: &str, call: RefusedCall<'_>, errno: i32, facts: &Privileges) -> String {
    Refusal::from_facts(what, call, errno, facts).to_string()
}

fn tracepoint() -> Attr {
    let mut attr = Attr::tracepoint(1);
    attr.set("sample_type", u64::from(b::PERF_SAMPLE_RAW)).unwrap();
    attr
}

const CPU0: PerfTarget = PerfTarget { pid: -1, cpu: 0 };

#[test]
fn a_tracepoint_without_permission_names_the_sysctl_and_its_value() {
    for errno in [libc::EACCES, libc::EPERM] {
        assert_eq!(
            line("sched:sched_switch", RefusedCall::Open(&tracepoint(), CPU0), errno, &facts()),
            "sched:sched_switch: permission denied; perf_event_paranoid is 2: run as root, or set \
             it to -1"
        );
    }
}

#[test]
fn a_refused_probe_is_explained_for_its_function() {
    let plain = Attr::tracepoint(7);
    let mut with_branches = plain;
    with_branches.set("branch_sample_type", 1).unwrap();
    let privileged = Privileges { perfmon: true, ..facts() };
    let (create, kernel, program) = (
        RefusedCall::CreateProbe,
        RefusedCall::OpenProbe(ProbeType::Kprobe, &plain, CPU0),
        RefusedCall::OpenProbe(ProbeType::Uprobe, &plain, CPU0),
    );
    let branches = RefusedCall::OpenProbe(ProbeType::Uprobe, &with_branches, CPU0);
    for (call, errno, facts, why) in [
        (branches, libc::EOPNOTSUPP, &privileged, "it has no branch records"),
        (
            create(ProbeType::Kprobe),
            libc::EACCES,
            &facts(),
            "permission denied; functions need root",
        ),
        (
            create(ProbeType::Uprobe),
            libc::EACCES,
            &privileged,
            "permission denied; functions need root",
        ),
        (create(ProbeType::Uprobe), libc::EROFS, &privileged, "tracefs is mounted read-only"),
        (kernel, libc::EACCES, &facts(), "permission denied; functions need root"),
        (program, libc::EACCES, &privileged, "permission denied even to root"),
        (
            create(ProbeType::Kprobe),
            libc::ENOENT,
            &privileged,
            "the kernel cannot find the function",
        ),
        (kernel, libc::EINVAL, &privileged, "the kernel does not allow a probe on this function"),
        (
            create(ProbeType::Kprobe),
            libc::EADDRNOTAVAIL,
            &privileged,
            "several functions have this name",
        ),
        (create(ProbeType::Tprobe), libc::ENOENT, &privileged, "the kernel cannot probe the tr"),
        (create(ProbeType::Tprobe), libc::EEXIST, &privileged, "before Linux 6.17 a tracepoint"),
        (create(ProbeType::Fprobe), libc::EINVAL, &privileged, "the kernel cannot trace this"),
        (program, libc::EIO, &privileged, "its file system does not support probes"),
        (program, 524, &privileged, "the kernel cannot put a probe on this instruction"),
        (program, libc::EMFILE, &privileged, "no file descriptor is left"),
    ] {
        let line = line("uprobe:x:f", call, errno, facts);
        assert!(line.starts_with(&format!("uprobe:x:f: {why}")) && line.contains(';'), "{line}");
    }
}

#[test]
fn the_suggested_sysctl_is_not_lower_than_needed() {
    let mut user_only = Attr::software(0);
    user_only.set("exclude_kernel", 1).unwrap();
    let own = PerfTarget { pid: 0, cpu: -1 };
    for (attr, target, paranoid, needed) in [
        (Attr::software(0), CPU0, 2, "0"),
        (Attr::software(0), own, 2, "1"),
        (user_only, own, 3, "2"),
    ] {
        let facts = Privileges { paranoid: Some(paranoid), ..facts() };
        let text = line("cpu-clock", RefusedCall::Open(&attr, target), libc::EACCES, &facts);
        assert!(text.ends_with(&format!("set it to {needed}")), "{text}");
    }
}

#[test]
fn a_user_without_physical_addresses_learns_which_field_needs_them() {
    let mut attr = Attr::software(0);
    attr.set("exclude_kernel", 1).unwrap();
    attr.set("sample_type", u64::from(b::PERF_SAMPLE_PHYS_ADDR)).unwrap();
    let own = PerfTarget { pid: 77, cpu: -1 };
    let facts = Privileges { paranoid: Some(2), ..facts() };
    let text = line("page-faults", RefusedCall::Open(&attr, own), libc::EACCES, &facts);
    assert!(text.ends_with("run as root, set it to 1, or omit `_phys_addr`"), "{text}");
}

#[test]
fn other_causes_are_not_blamed_on_the_sysctl() {
    let other = PerfTarget { pid: 77, cpu: -1 };
    let attr = Attr::software(0);
    let open = Privileges { paranoid: Some(-1), ..facts() };
    let root = Privileges { perfmon: true, ..facts() };
    let inside = Privileges { in_user_namespace: true, ..facts() };
    let locked = Privileges { lockdown: Some("confidentiality".into()), ..root.clone() };
    for (facts, says) in [
        (&open, "task 77 belongs to another user"),
        (&root, "even to root; a seccomp profile"),
        (&inside, "in a user namespace, perf needs CAP_PERFMON in the initial one"),
        (&locked, "locked down (confidentiality)"),
    ] {
        let text = line("cpu-clock", RefusedCall::Open(&attr, other), libc::EACCES, facts);
        assert!(text.contains(says) && !text.contains("paranoid"), "{text}");
    }
}

#[test]
fn a_tracepoint_that_no_process_may_sample_is_a_refusal_of_that_event() {
    let root = Privileges { perfmon: true, ..facts() };
    let closed = Privileges { opens_own: false, ..root.clone() };
    let refusal = |errno, facts: &Privileges| {
        Refusal::from_facts(
            "irq_vectors:irq_work_exit",
            RefusedCall::Open(&tracepoint(), CPU0),
            errno,
            facts,
        )
    };
    let of_event = refusal(libc::EPERM, &root);
    assert!(of_event.of_event && of_event.why.starts_with("the kernel does not allow sampling"));
    // If no event can be opened at all, the refusal is not a property of this event.
    let of_machine = refusal(libc::EPERM, &closed);
    assert!(!of_machine.of_event && of_machine.why.contains("seccomp"), "{of_machine}");
    assert!(!refusal(libc::EACCES, &facts()).of_event);
    assert!(!refusal(libc::EMFILE, &root).of_event);
    let held = refusal(libc::EINTR, &root);
    assert!(held.of_event && held.why.starts_with("another tracer uses it"), "{held}");
}

#[test]
fn a_process_that_cannot_be_started_names_the_limit() {
    let full = Privileges { full_pids_cgroup: Some(("/a/b".into(), 20)), ..facts() };
    for (facts, errno, says) in [
        (
            &facts(),
            libc::EAGAIN,
            "make: cannot start a process or thread; RLIMIT_NPROC is 5 (`ulimit -u`) and \
             kernel.threads-max is 3000: raise the limit that is reached, or end some processes",
        ),
        (
            &full,
            libc::EAGAIN,
            "make: cannot start a process or thread; pids.max of the cgroup /a/b is 20 and \
             reached: raise it, or end some processes",
        ),
        (
            &facts(),
            libc::EMFILE,
            "make: no file descriptor is left; RLIMIT_NOFILE is 1024: raise it (`ulimit -Hn`, \
             LimitNOFILE= of a service), or watch fewer events, tasks or CPUs",
        ),
    ] {
        assert_eq!(line("make", RefusedCall::Start, errno, facts), says);
    }
}

/// An attribute, a target, an errno, and the message.
type RefusedOpen = (Attr, PerfTarget, i32, &'static str);

fn check_refused_opens(opens: &[RefusedOpen]) {
    for (attr, target, errno, says) in opens {
        assert_eq!(&line("x", RefusedCall::Open(attr, *target), *errno, &facts()), says);
    }
}

#[test]
fn an_event_that_cannot_be_opened_here_names_the_fix() {
    let cycles = Attr::counter(b::PERF_TYPE_HARDWARE, 0);
    let breakpoint = Attr::counter(b::PERF_TYPE_BREAKPOINT, 0);
    let mut in_kernel = Attr::counter(b::PERF_TYPE_BREAKPOINT, 0);
    in_kernel.set("bp_addr", 0xffff_ffff_8100_0000).unwrap();
    let mut code = in_kernel;
    code.set("bp_type", 4).unwrap();
    let soft = Attr::software(99);
    let at = |pid, cpu| PerfTarget { pid, cpu };
    check_refused_opens(&[
        (
            cycles,
            CPU0,
            libc::ENOENT,
            "x: this machine has no such hardware counter (no PMU, as in most virtual machines); \
             use a software event such as cpu-clock",
        ),
        (
            soft,
            CPU0,
            libc::ENOENT,
            "x: this kernel has no event of type 1 with config 0x63; see \
             /sys/bus/event_source/devices",
        ),
        (soft, at(99, -1), libc::ESRCH, "x: there is no task 99: it has ended; name a running one"),
        (
            soft,
            at(-1, 1),
            libc::ENODEV,
            "x: CPU 1 is offline or not served by this PMU; online: 0,1",
        ),
        (soft, at(-1, 7), libc::EINVAL, "x: CPU 7 is not on this machine; online: 0,1"),
        (soft, at(-1, -1), libc::EINVAL, "x: neither a task nor a CPU is given; name one of them"),
        (
            breakpoint,
            CPU0,
            libc::ENOSPC,
            "x: all hardware breakpoints are in use (x86 has four per CPU; a mapped ring keeps its \
             own); watch fewer addresses, or stop the process that uses them",
        ),
        (
            in_kernel,
            CPU0,
            libc::EPERM,
            "x: permission denied; only root (CAP_SYS_ADMIN) may watch addresses of the kernel: run \
             as root",
        ),
        (
            in_kernel,
            CPU0,
            libc::EINVAL,
            "x: the kernel does not allow breakpoints at this address: its own debug exception \
             would access it; watch another one",
        ),
        (
            code,
            CPU0,
            libc::EINVAL,
            "x: the kernel does not allow an execution breakpoint here: it has no kprobes \
             (CONFIG_KPROBES), or their blacklist contains the address; use a tracepoint",
        ),
        (
            soft,
            CPU0,
            libc::EMFILE,
            "x: no file descriptor is left; RLIMIT_NOFILE is 1024: raise it (`ulimit -Hn`, \
             LimitNOFILE= of a service), or watch fewer events, tasks or CPUs",
        ),
        (
            soft,
            CPU0,
            libc::ENOSYS,
            "x: this kernel has no perf_event_open; it needs CONFIG_PERF_EVENTS=y, and in a \
             container a seccomp profile that allows the call",
        ),
    ]);
}

#[test]
fn refused_attributes_name_the_fix() {
    let mut fast = Attr::software(0);
    fast.set("sample_freq", 200_000).unwrap();
    let mut deep = Attr::software(0);
    deep.set("sample_max_stack", 500).unwrap();
    let soft = Attr::software(99);
    check_refused_opens(&[
        (
            fast,
            CPU0,
            libc::EINVAL,
            "x: a frequency of 200000 is too high; perf_event_max_sample_rate is 100000: lower the \
             frequency, or raise the limit",
        ),
        (soft, CPU0, libc::EINVAL, "x: the kernel refuses its attributes; -vv prints them"),
        (
            soft,
            CPU0,
            libc::E2BIG,
            "x: kernel 6.18.44 is too old for one of its attributes; -vv prints them: omit the \
             newest",
        ),
        (
            deep,
            CPU0,
            libc::EOVERFLOW,
            "x: a call chain of 500 frames is too deep; kernel.perf_event_max_stack is 127: use \
             fewer frames, or raise the limit",
        ),
        (
            soft,
            CPU0,
            libc::EOPNOTSUPP,
            "x: this PMU does not support the requested attributes; omit branch stacks, precise_ip \
             or sampling, or use another event",
        ),
        (soft, CPU0, libc::EIO, "x: input/output error (errno 5); -vv prints the attributes"),
    ]);
}

#[test]
fn refused_rings_filters_and_outputs_name_the_fix() {
    let page = crate::sys::machine::page_size();
    for (call, errno, says) in [
        (
            RefusedCall::Map(2048 * 1024 / page),
            libc::EPERM,
            "x: a ring of 2048 KiB exceeds the memory that this user may lock; perf_event_mlock_kb \
             is 516 per CPU and RLIMIT_MEMLOCK is 8192 KiB: use a smaller ring (-m), raise either \
             limit, or run as root",
        ),
        (
            RefusedCall::Map(3),
            libc::EINVAL,
            "x: it cannot have a ring of 3 pages; the number must be a power of two, and an \
             inherited event needs a CPU",
        ),
        (
            RefusedCall::Filter("a == 1"),
            libc::EEXIST,
            "x: it already has a filter; the kernel allows one per event: open the event again",
        ),
        (
            RefusedCall::Output("dummy"),
            libc::EINVAL,
            "x: it cannot write to the ring of dummy; both events need the same CPU and clock, and \
             only dummy may have a mapped ring",
        ),
        (
            RefusedCall::Mount("tracefs", "/sys/kernel/tracing"),
            libc::EPERM,
            "x: not mounted, and this user may not mount it; run as root, or `mount -t tracefs \
             nodev /sys/kernel/tracing`",
        ),
        (
            RefusedCall::Mount("tracefs", "/sys/kernel/tracing"),
            libc::ENODEV,
            "x: kernel 6.18.44 does not have it; tracepoints need CONFIG_TRACING=y",
        ),
        (
            RefusedCall::Events("/sys/kernel/tracing"),
            libc::EACCES,
            "x: permission denied on /sys/kernel/tracing; run as root, or `mount -o \
             remount,gid=GROUP,mode=750 /sys/kernel/tracing`",
        ),
    ] {
        assert_eq!(line("x", call, errno, &facts()), says);
    }
    // Whatever errno the parser returns, the filter is the cause.
    for errno in [libc::EINVAL, libc::ENOENT, libc::EPERM] {
        let text = line("x", RefusedCall::Filter("(a == 1"), errno, &facts());
        assert!(text.starts_with("x: the kernel refuses the filter '(a == 1'; check"), "{text}");
    }
}

#[test]
fn a_refused_bpf_program_names_the_missing_privilege_or_the_verdict() {
    let why = |log, errno, facts: &Privileges| {
        Refusal::from_facts("BPF", RefusedCall::Bpf(log), errno, facts).to_string()
    };
    let (user, root) = (facts(), Privileges { perfmon: true, bpf: true, ..facts() });
    let rights = "BPF: permission denied; run as root, or with CAP_BPF and CAP_PERFMON";
    assert_eq!(why("", libc::EPERM, &user), rights);
    assert_eq!(why("", libc::EPERM, &Privileges { bpf: false, ..root.clone() }), rights);
    assert!(why("", libc::EPERM, &root).contains("seccomp"));
    assert!(why("", libc::ENOSYS, &root).contains("CONFIG_BPF_SYSCALL"));
    let verdict = why("R1 type=scalar expected=fp", libc::EACCES, &root);
    assert!(verdict.contains("(R1 type=scalar expected=fp)"), "{verdict}");
}
