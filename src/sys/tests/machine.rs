//! The environment: tracefs mounted or not, pid namespaces.

use super::*;
use crate::sys::cpus::online_cpus;
use crate::sys::live_tests::{Forked, getppid, needs_root, tracepoint};
use crate::sys::namespace::in_root_pid_namespace;
use crate::sys::own_tid::kernel_tid;
use crate::sys::tracefs::Tracefs;
use std::io::{Read, Write};

#[test]
fn a_thread_in_a_pid_namespace_finds_its_id_in_the_initial_namespace() {
    if !needs_root("a pid namespace") {
        return;
    }
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let (mut wait, mut go) = std::io::pipe().unwrap();
    let outer = Forked::new(move || {
        // SAFETY: unshare has no preconditions; only later children of this process are affected.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWPID) }, 0);
        let mut inner_writer = writer.try_clone().unwrap();
        let inner = Forked::new(move || {
            assert!(!in_root_pid_namespace());
            assert_eq!(tid(), 1);
            let claimed = kernel_tid(&Tracefs::find().unwrap()).unwrap();
            inner_writer.write_all(&claimed.to_ne_bytes()).unwrap();
            wait.read_exact(&mut [0]).unwrap();
            getppid(1000);
        });
        writer.write_all(&inner.pid.to_ne_bytes()).unwrap();
        inner.wait();
    });
    // The order does not matter: they must be equal.
    let mut numbers = [[0; 4]; 2];
    numbers.iter_mut().for_each(|number| reader.read_exact(number).unwrap());
    let [one, other] = numbers.map(i32::from_ne_bytes);
    if in_root_pid_namespace() {
        assert_eq!(one, other);
    }
    let counters: Vec<PerfEvent> = online_cpus()
        .into_iter()
        .map(|cpu| {
            let attr = tracepoint("syscalls", "sys_enter_getppid", 0);
            let counter = open(&attr, PerfTarget { pid: -1, cpu: cpu as i32 });
            counter.set_filter(&format!("common_pid == {one}")).unwrap();
            counter.enable().unwrap();
            counter
        })
        .collect();
    go.write_all(&[1]).unwrap();
    outer.wait();
    let total: u64 = counters.iter().map(|counter| counter.read_counts().unwrap().value).sum();
    assert_eq!(total, 1000);
}

#[test]
fn tracefs_lists_and_describes_tracepoints() {
    if !needs_root("tracefs") {
        return;
    }
    let tracefs = Tracefs::find().unwrap();
    assert!(!Tracefs::find().unwrap().mounted_here, "it is mounted now");
    let events = tracefs.events().unwrap();
    assert!(events.is_sorted() && events.len() > 100);
    assert!(events.contains(&("sched".into(), "sched_switch".into())));
    let format = tracefs.format("sched", "sched_switch").unwrap();
    let id = tracefs.id("sched", "sched_switch").unwrap();
    assert!(format.contains(&format!("\nID: {id}\n")));
    let error = tracefs.format("sched", "sched_swich").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn tracefs_is_mounted_if_it_is_absent_and_permitted() {
    if !needs_root("a mount namespace") {
        return;
    }
    const PLACES: [&std::ffi::CStr; 2] = [c"/sys/kernel/tracing", c"/sys/kernel/debug"];
    let unmount = || {
        for place in PLACES {
            // SAFETY: the place ends with a NUL; this process has its own mount table.
            while unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) } == 0 {}
        }
    };
    Tracefs::find().unwrap();
    Forked::new(move || {
        // SAFETY: the strings end with a NUL; only this process's mounts are changed, once they are
        // private.
        unsafe {
            assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0);
            let private = libc::MS_REC | libc::MS_PRIVATE;
            let none = std::ptr::null();
            assert_eq!(libc::mount(none, c"/".as_ptr(), none, private, none.cast()), 0);
        }
        unmount();
        let tracefs = Tracefs::find().unwrap();
        assert_eq!(
            (tracefs.root().to_str(), tracefs.mounted_here),
            (PLACES[0].to_str().ok(), true)
        );
        assert!(!tracefs.events().unwrap().is_empty());
        assert!(!Tracefs::find().unwrap().mounted_here);

        // SAFETY: setuid has no preconditions.
        let drop_privileges = || assert_eq!(unsafe { libc::setuid(65534) }, 0);
        Forked::new(move || {
            drop_privileges();
            let refusal = Tracefs::find().unwrap_err().to_string();
            assert!(
                refusal
                    .starts_with("tracefs: permission denied on /sys/kernel/tracing; run as root")
            );
        })
        .wait();
        unmount();
        drop_privileges();
        let refusal = Tracefs::find().unwrap_err().to_string();
        assert_eq!(
            refusal,
            "tracefs: not mounted, and this user may not mount it; run as root, or `mount -t \
             tracefs nodev /sys/kernel/tracing`"
        );
    })
    .wait();
}
