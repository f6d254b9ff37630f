//! Our evaluation of filters on raw records, against the kernel's on the same events.

use perilune::{
    base::value::Value,
    event::filter::{Context, Filter, KernelOnly},
};

use crate::kernel::{self, Of, Sample, Tracepoint};

const SWITCH: &str = "sched:sched_switch";
const SIGNAL: &str = "signal:signal_generate";

/// Opens the event unfiltered and once per filter, runs the load, and compares what passed with our own
/// evaluation; how many events there were.
fn compare(
    event: &str,
    of: Of,
    filters: &[&str],
    comm: impl Fn(&Sample) -> Vec<u8>,
    load: impl FnOnce(),
) -> usize {
    let format = kernel::format(event).unwrap();
    let all = Tracepoint::open(format.id, of, 256).unwrap();
    let filtered: Vec<_> = filters
        .iter()
        .map(|filter| {
            let parsed = Filter::parse(filter).unwrap();
            let tracepoint = all.join(format.id, of, 256).unwrap();
            tracepoint.set_filter(&parsed.to_kernel()).unwrap();
            (parsed.bind(event, &format).unwrap(), tracepoint)
        })
        .collect();
    all.enable(true);
    load();
    all.enable(false);

    let everything = all.samples();
    for (filter, (bound, tracepoint)) in filters.iter().zip(&filtered) {
        let theirs: Vec<Vec<u8>> = tracepoint.samples().into_iter().map(|s| s.raw).collect();
        let ours: Vec<Vec<u8>> = everything
            .iter()
            .filter(|s| bound.passes(&Context { raw: &s.raw, cpu: s.cpu, comm: &comm(s) }))
            .map(|s| s.raw.clone())
            .collect();
        println!("{event} {filter}: {} of {}", theirs.len(), everything.len());
        assert!(ours == theirs, "{filter}: {} by us, {} by the kernel", ours.len(), theirs.len());
    }
    everything.len()
}

fn pin_to_cpu0() {
    // SAFETY: a CPU set is plain memory, for which zero is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is within the set, and the set has the size that is told.
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

#[test]
fn signals_that_pass_the_kernels_filter_pass_ours() {
    if kernel::tracefs().is_none() {
        return;
    }
    let filters = [
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
    let names = [c"flt-alpha", c"9lives", c"flt-0123abcdef!", c"flt"];
    let order: Vec<&[u8]> = names.iter().flat_map(|n| [n.to_bytes(); 6]).collect();
    let seen = std::cell::Cell::new(0);
    for signal in [10, 12, 23] {
        // SAFETY: to ignore a signal takes no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // An ignored signal is still generated, with result TRACE_SIGNAL_IGNORED.
    let signals = compare(
        SIGNAL,
        Of::Me,
        &filters,
        |_| {
            let index = seen.get();
            seen.set((index + 1) % order.len());
            order[index].to_vec()
        },
        || {
            for name in names {
                rename_to(name);
                for signal in [10, 12, 23, 10, 12, 23] {
                    // SAFETY: sends an ignored signal to this very thread.
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

#[test]
fn switches_that_pass_the_kernels_filter_pass_ours() {
    if kernel::tracefs().is_none() {
        return;
    }
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
    let format = kernel::format(SWITCH).unwrap();
    let comm = format.field("prev_comm").unwrap().clone();
    let events = compare(
        SWITCH,
        Of::Cpu0,
        &filters,
        // The task that switches is the one that goes.
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

#[test]
fn dynamic_text_passes_as_in_the_kernel() {
    if kernel::tracefs().is_none() || kernel::format("sched:sched_process_exec").is_none() {
        return;
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
    let events = compare(
        "sched:sched_process_exec",
        Of::Cpu0,
        &filters,
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

#[test]
fn what_a_record_does_not_hold_is_left_to_the_kernel() {
    if kernel::tracefs().is_none() {
        return;
    }
    for (event, filter) in [
        ("timer:hrtimer_start", "function.function == hrtimer_wakeup"),
        ("syscalls:sys_enter_openat", "filename.ustring == \"a\""),
        ("syscalls:sys_enter_openat", "flags == 0 && filename == \"a\""),
    ] {
        let Some(format) = kernel::format(event) else { continue };
        let bound = Filter::parse(filter).unwrap().bind(event, &format);
        assert!(matches!(bound, Err(KernelOnly::Condition(_))), "{event} {filter}");
    }
}
