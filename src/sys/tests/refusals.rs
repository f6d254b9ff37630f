//! Refusals of the running kernel, and their explanations.

use super::*;
use crate::sys::live_tests::{Forked, needs_root, tracepoint};
use crate::sys::machine::{is_root, page_size, paranoid};

#[test]
fn a_second_filter_is_refused_by_name() {
    if !needs_root("a tracepoint") {
        return;
    }
    let attr = tracepoint("syscalls", "sys_enter_getppid", PLACED);
    let event = PerfEvent::open(&attr, SELF, "syscalls:sys_enter_getppid").unwrap().event;
    let wrong = event.set_filter("no_such_field == 1").unwrap_err();
    assert_eq!(wrong.errno, libc::EINVAL);
    assert!(wrong.to_string().contains("refuses the filter 'no_such_field == 1'"), "{wrong}");
    event.set_filter("common_pid != 0").unwrap();
    let twice = event.set_filter("common_pid != 1").unwrap_err();
    assert_eq!(twice.errno, libc::EEXIST);
    assert_eq!(
        twice.to_string(),
        "syscalls:sys_enter_getppid: it already has a filter; the kernel allows one per event: \
         open the event again"
    );
}

#[test]
fn refusals_of_this_kernel_are_explained() {
    if !needs_root("events of every CPU") {
        return;
    }
    let mut deep = Attr::software(0);
    for (name, value) in [("sample_max_stack", 60_000), ("sample_type", 32), ("sample_period", 1)] {
        deep.set(name, value).unwrap();
    }
    let soft = Attr::software(0);
    let at = |pid, cpu| PerfTarget { pid, cpu };
    for (attr, target, says) in [
        (soft, at(i32::MAX, -1), "x: there is no task 2147483647: it has ended"),
        (soft, at(-1, 7000), "x: CPU 7000 is not on this machine; online: 0"),
        (soft, at(-1, -1), "x: neither a task nor a CPU is given"),
        (Attr::software(4000), SELF, "x: this kernel has no event of type 1 with config 0xfa0"),
        (
            deep,
            SELF,
            "x: a call chain of 60000 frames is too deep; kernel.perf_event_max_stack is ",
        ),
    ] {
        let refusal = PerfEvent::open(&attr, target, "x").unwrap_err().to_string();
        assert!(refusal.starts_with(says), "{refusal}");
    }
    let hardware = Attr::counter(b::PERF_TYPE_HARDWARE, 0);
    if let Err(refusal) = PerfEvent::open(&hardware, SELF, "cycles") {
        assert!(refusal.to_string().contains("no such hardware counter"), "{refusal}");
    }
}

#[test]
fn an_unsupported_attr_bit_is_dropped_and_reported() {
    let mut attr = Attr::software(u64::from(b::PERF_COUNT_SW_DUMMY));
    attr.set("defer_output", 1).unwrap();
    attr.set("build_id", 1).unwrap();
    attr.set("exclude_kernel", 1).unwrap();
    let opened = PerfEvent::open(&attr, SELF, "dummy").unwrap();
    let in_force = opened.event.attr();
    for name in ["defer_output", "build_id"] {
        let dropped = opened.dropped.contains(&name);
        assert_eq!(in_force.get(name), Some(u64::from(!dropped)), "{name}");
    }
    // The attributes in force are not refused again.
    let again = PerfEvent::open(in_force, SELF, "dummy").unwrap();
    assert!(again.dropped.is_empty());
}

#[test]
fn without_privileges_rings_shrink_and_refusals_name_the_sysctl() {
    if !needs_root("changing the user") {
        return;
    }
    let paranoid = paranoid().unwrap();
    if !(0..=2).contains(&paranoid) {
        return;
    }
    let sched = tracepoint("sched", "sched_switch", PLACED | b::PERF_SAMPLE_RAW);
    Forked::new(move || {
        const OTHER_USER: u32 = 65534;
        // SAFETY: they have no preconditions.
        unsafe {
            assert_eq!(libc::setgid(OTHER_USER), 0);
            assert_eq!(libc::setuid(OTHER_USER), 0);
        }
        let refusal = PerfEvent::open(&sched, SELF, "sched:sched_switch").unwrap_err().to_string();
        assert_eq!(
            refusal,
            format!(
                "sched:sched_switch: permission denied; perf_event_paranoid is {paranoid}: run as \
                 root, or set it to -1"
            )
        );
        let mut dummy = Attr::software(u64::from(b::PERF_COUNT_SW_DUMMY));
        dummy.set("exclude_kernel", 1).unwrap();
        let event = open(&dummy, SELF);
        let wanted = (1 << 30) / page_size();
        let refusal = Ring::map(&event, wanted).map(drop).unwrap_err().to_string();
        let exceeds = "exceeds the memory that this user may lock; perf_event_mlock_kb is ";
        assert!(refusal.contains(exceeds), "{refusal}");
        let fitted = Ring::map_largest(&event, wanted).unwrap();
        assert!(fitted.pages < wanted && fitted.pages.is_power_of_two());
        assert_eq!(fitted.ring.capacity(), (fitted.pages * page_size()) as u64);
        assert!(fitted.note.unwrap().starts_with("ring shrunk from "));
        assert!(!is_root());
    })
    .wait();
}
