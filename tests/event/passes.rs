//! Filters evaluated by perilune on raw records, compared with the kernel's result on the same
//! events.

use perilune::{
    base::event::value::Value,
    event::filter::{Filter, KernelOnly},
};

use crate::live::{live_tests, skip_anywhere};
use crate::{
    compare::compare,
    kernel::{self, Of, Sample},
};

live_tests! {
    root: [],
    any: [
        signals_that_pass_the_in_kernel_filter_pass_the_user_space_filter,
        switches_that_pass_the_in_kernel_filter_pass_the_user_space_filter,
        dynamic_text_passes_as_in_the_kernel,
        numbers_of_64_bits_pass_as_in_the_kernel,
        conditions_on_data_outside_the_record_are_left_to_the_kernel,
    ]
}

const SWITCH: &str = "sched:sched_switch";
const SIGNAL: &str = "signal:signal_generate";

fn pin_to_cpu0() {
    // SAFETY: a CPU set is plain memory, for which zero is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is within the set, and the passed size is that of the set.
    let done = unsafe {
        libc::CPU_SET(0, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    assert_eq!(done, 0);
}

fn rename_to(name: &std::ffi::CStr) {
    // SAFETY: the name is a C string.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }, 0);
}

/// Filters of signals.
const SIGNALS: &[&str] = &[
    "sig == 10",
    "sig != 10",
    "sig < 12 && sig > 9",
    "sig <= 10 || sig >= 23",
    "sig & 8",
    "sig & 0x100000008",
    "sig == 4294967306",
    "sig == 012",
    "!(sig == 10 || sig == 12)",
    "!sig == 10 && code == -6",
    "code < 0",
    "code <= -6",
    "code > -1",
    "comm == \"flt-alpha\"",
    "comm != \"flt-alpha\"",
    "comm == \"flt\"",
    "comm == \"\"",
    "comm ~ \"flt*\"",
    "comm ~ \"*alpha\"",
    "comm ~ \"*bcdef\"",
    "comm ~ \"*lph*\"",
    "comm ~ \"*\"",
    "comm ~ \"f?t-*\"",
    "comm ~ \"fl[a-u]-[!b]*\"",
    "comm ~ \"!flt-a*\"",
    "comm ~ \"9*\"",
    "comm ~ \"9lives\"",
    "comm ~ \"flt\"",
    "comm ~ \"f*t-*a\"",
    "comm ~ \"*f*t*\"",
    "COMM == \"flt-alpha\"",
    "common_pid == 1",
    "common_pid > 1",
    "common_type == 0",
    "group == 0 && result == 0",
    "CPU >= 0",
    "CPU == -1",
];

/// Filters of signals that are split, and equivalent ones for the kernel alone.
const SPLIT_SIGNALS: &[(&str, &str)] = &[
    ("sig < 12 && 9 < sig", "sig < 12 && sig > 9"),
    ("sig + 0 == 10", "sig == 10"),
    ("sig % 2 == 0 && comm ~ \"flt*\"", "sig != 23 && comm ~ \"flt*\""),
    ("sig == 10 || 12 == sig", "sig == 10 || sig == 12"),
    ("(sig == 10 || sig * 2 == 24) && code < 0", "(sig == 10 || sig == 12) && code < 0"),
    ("(unsigned)code > 100 && sig == 23", "code < 0 && sig == 23"),
    ("-code == 6 && comm ~ \"*lph*\"", "code == -6 && comm ~ \"*lph*\""),
    ("(sig << 20 >> 20) == 10", "sig == 10"),
    ("sig == 4294967306 || sig == 6 * 2", "sig == 12"),
    ("!(sig == 10 && comm[0] == 'f')", "!(sig == 10 && comm ~ \"f*\")"),
    ("strncmp(comm, \"flt-a\", 5) == 0", "comm ~ \"flt-a*\""),
    ("comm ~ \"!flt-a*\" || sig == 5 + 5", "comm ~ \"!flt-a*\" || sig == 10"),
    ("comm_get(common_pid + 0) == \"9lives\" && sig < 20", "COMM == \"9lives\" && sig < 20"),
    ("comm == comm_get(_tid) || sig == 10", "comm ~ \"*\""),
    (
        "_comm ~ \"flt-?*\" && sig == 10 && (_comm ~ \"*a\") == 1",
        "COMM == \"flt-alpha\" && sig == 10",
    ),
    (
        "(sig == 10 ? comm ~ \"flt\" : comm != \"flt\")",
        "(sig == 10 && comm == \"flt\") || (sig != 10 && comm != \"flt\")",
    ),
    ("sig == 10 && 0", "sig == 10 && sig == 12"),
];

fn signals_that_pass_the_in_kernel_filter_pass_the_user_space_filter() {
    let names = [c"flt-alpha", c"9lives", c"flt-0123abcdef!", c"flt"];
    let order: Vec<&[u8]> = names.iter().flat_map(|n| [n.to_bytes(); 6]).collect();
    let seen = std::cell::Cell::new(0);
    for signal in [10, 12, 23] {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // An ignored signal is still generated, with result TRACE_SIGNAL_IGNORED.
    let signals = compare(
        SIGNAL,
        Of::Me,
        SIGNALS,
        SPLIT_SIGNALS,
        |_| {
            let index = seen.get();
            seen.set((index + 1) % order.len());
            order[index].to_vec()
        },
        || {
            for name in names {
                rename_to(name);
                for signal in [10, 12, 23, 10, 12, 23] {
                    // SAFETY: sends an ignored signal to this thread.
                    let sent = unsafe {
                        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal)
                    };
                    assert_eq!(sent, 0);
                }
            }
        },
    );
    assert_eq!(signals, names.len() * 6);
}

fn switches_that_pass_the_in_kernel_filter_pass_the_user_space_filter() {
    let filters = [
        "prev_state == 0",
        "prev_state & 0x1",
        "prev_state != 0 && next_pid == 0",
        "prev_pid == 0 || next_pid == 0",
        "prev_comm ~ \"swapper*\"",
        "prev_comm ~ \"*0\"",
        "next_comm ~ \"*/*\"",
        "next_comm == \"flt-ping\"",
        "next_comm != 'flt-ping'",
        "prev_prio >= 120",
        "prev_prio < 120 || next_prio == 120",
        "CPU == 0",
        "CPU & CPUS{0}",
        "CPU != CPUS{0}",
        "CPU == CPUS{0}",
        "next_prio & CPUS{0}",
        "prev_pid & CPUS{0}",
        "common_pid == 0",
        "common_preempt_count > 0",
        "common_flags & 1",
        "COMM ~ \"swapper*\"",
        "!(prev_comm == \"flt-ping\" && next_comm != \"swapper/0\") || prev_pid < 5",
    ];
    let splits = [
        ("prev_pid != 0 && prev_prio - 100 >= 20", "prev_pid != 0 && prev_prio >= 120"),
        ("prev_state && next_pid == 0", "prev_state != 0 && next_pid == 0"),
        ("prev_state & 1 || 0 == prev_pid", "prev_state & 1 || prev_pid == 0"),
        ("prev_comm ~ \"swapper*\" && 0 == _cpu", "prev_comm ~ \"swapper*\" && CPU == 0"),
        ("prev_comm == _comm && next_comm == \"flt-ping\"", "next_comm == \"flt-ping\""),
        ("!prev_pid || next_comm ~ \"*/*\"", "prev_pid == 0 || next_comm ~ \"*/*\""),
        ("prev_pid & CPUS{0} || prev_state / 2", "prev_pid & CPUS{0} || prev_state > 1"),
    ];
    let format = kernel::format(SWITCH).unwrap();
    let comm = format.field("prev_comm").unwrap().clone();
    let events = compare(
        SWITCH,
        Of::Cpu0,
        &filters,
        &splits,
        // The event is attributed to the task that is switched out.
        |sample| match comm.read(&sample.raw) {
            Ok(Value::Text(text)) => text.to_vec(),
            other => panic!("{other:?}"),
        },
        || {
            let sleeper = std::thread::spawn(|| {
                rename_to(c"flt-ping");
                pin_to_cpu0();
                for _ in 0..20 {
                    std::thread::sleep(std::time::Duration::from_micros(100));
                }
            });
            sleeper.join().unwrap();
        },
    );
    assert!(events >= 20, "{events}");
}

fn dynamic_text_passes_as_in_the_kernel() {
    if kernel::format("sched:sched_process_exec").is_none() {
        skip_anywhere("no event sched:sched_process_exec");
    }
    let filters = [
        "filename == \"/bin/true\"",
        "filename != \"/bin/true\"",
        "filename == \"/bin/tru\"",
        "filename ~ \"*true\"",
        "filename ~ \"*tru\"",
        "filename ~ \"/bin/*\"",
        "filename ~ \"*bin/t*\"",
        "filename ~ \"/*/t?ue\"",
        "filename ~ \"!*true\"",
    ];
    let splits = [
        ("filename ~ \"*true\" && filename[0] == '/'", "filename ~ \"*true\""),
        ("filename == \"/bin/true\" || old_pid - old_pid", "filename == \"/bin/true\""),
        ("strncmp(filename, \"/bin/tru\", 8) == 0", "filename ~ \"/bin/tru*\""),
    ];
    let events = compare(
        "sched:sched_process_exec",
        Of::Cpu0,
        &filters,
        &splits,
        |_| Vec::new(),
        || {
            let pinned = std::thread::spawn(|| {
                pin_to_cpu0();
                for program in ["/bin/true", "/bin/false"] {
                    std::process::Command::new(program).status().unwrap();
                }
            });
            pinned.join().unwrap();
        },
    );
    assert!(events >= 2, "{events}");
}

fn numbers_of_64_bits_pass_as_in_the_kernel() {
    if kernel::format("syscalls:sys_enter_close").is_none() {
        skip_anywhere("no event syscalls:sys_enter_close");
    }
    // SAFETY: the descriptors are not open, and the kernel uses 32 bits of them; the page is
    // referenced only here.
    let calls = || unsafe {
        for fd in [-1, 1 << 20, 5_000_000_000, i64::MIN | 1 << 20, i64::MAX] {
            libc::syscall(libc::SYS_close, fd);
        }
        for _ in 0..3 {
            libc::syscall(libc::SYS_getppid);
            let page = libc::mmap(std::ptr::null_mut(), 4096, 0, PRIVATE, -1, 0);
            libc::munmap(page, 4096);
        }
    };
    let none = |_: &Sample| Vec::new();
    let signed = [
        "ret < 0",
        "ret == -9",
        "ret <= -9 || ret >= 4096",
        "ret > 0x7fffffff",
        "ret != 0 && id == 110",
        "ret & 0x1000",
        "ret & -4096",
        "id == 110 || id == 3",
        "ret == 9223372036854775807",
        "ret > -9223372036854775808",
        "!(ret < 0 && id == 3)",
    ];
    let splits = [
        ("id == 3 && -ret == 9", "id == 3 && ret == -9"),
        ("(unsigned long)ret > 0xfffffffffffff000", "ret < 0 && ret > -4096"),
        ("ret > 100 && ret >> 12 << 12 == ret", "ret > 100 && ret & 0xfffffffff000 && id == 9"),
        ("ret & 0x1000 || ret - 1 == -10", "ret & 0x1000 || ret == -9"),
    ];
    let results = compare("raw_syscalls:sys_exit", Of::Me, &signed, &splits, none, calls);
    assert!(results >= 14, "{results}");
    let unsigned = [
        "fd == 18446744073709551615",
        "fd > 0x7fffffffffffffff",
        "fd >= 0x8000000000000000",
        "fd & 0x8000000000000000",
        "fd < 4294967296",
        "fd == 5000000000",
        "fd != 1048576 && fd <= 9223372036854775807",
    ];
    let splits = [
        ("fd + 1 == 0", "fd == 18446744073709551615"),
        ("fd > 1000 && fd / 1000 == 5000000", "fd == 5000000000"),
        ("(long)fd < 0", "fd & 0x8000000000000000"),
        ("fd == 5000000000 || fd == 1 << 20", "fd == 5000000000 || fd == 1048576"),
    ];
    let event = "syscalls:sys_enter_close";
    assert_eq!(compare(event, Of::Me, &unsigned, &splits, none, calls), 5);
}

/// Flags of an anonymous mapping, which is used only for its address.
const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

fn conditions_on_data_outside_the_record_are_left_to_the_kernel() {
    for (event, filter) in [
        ("timer:hrtimer_start", "function.function == hrtimer_wakeup"),
        ("syscalls:sys_enter_openat", "filename.ustring == \"a\""),
        ("syscalls:sys_enter_openat", "flags == 0 && filename == \"a\""),
    ] {
        let Some(format) = kernel::format(event) else { continue };
        let bound = Filter::parse(filter).unwrap().bind(event, &format);
        let of_kernel = matches!(bound, Err(KernelOnly::Condition(_) | KernelOnly::UserText(_)));
        assert!(of_kernel, "{event} {filter}");
    }
}
