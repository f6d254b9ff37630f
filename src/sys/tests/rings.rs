//! Rings: no uncounted loss, no record torn by the wrap, shared rings, and the operations that
//! reduce the number of records.

use super::*;
use crate::sys::cpus::online_cpus;
use crate::sys::live_tests::{Forked, getppid, needs_root, tracepoint};
use crate::sys::machine::page_size;
use crate::sys::own_tid::kernel_tid;
use crate::sys::poll::Poller;
use crate::sys::tracefs::Tracefs;
use std::io::{Read, Write};

#[test]
fn received_and_lost_records_add_up_to_those_sent() {
    if !needs_root("a tracepoint") {
        return;
    }
    const SENT: u64 = 20_000;
    let mut attr = tracepoint("syscalls", "sys_enter_getppid", PLACED | b::PERF_SAMPLE_RAW);
    attr.set("read_format", u64::from(b::PERF_FORMAT_LOST)).unwrap();
    let event = open(&attr, SELF);
    let mut ring = Ring::map(&event, 1).unwrap();
    event.enable().unwrap();
    getppid(SENT);
    event.disable().unwrap();
    let counts = event.read_counts().unwrap();
    let (received, _) = drain(&mut ring, |_, thread, _| assert_eq!(thread, tid()));
    assert_eq!(counts.value, SENT);
    assert!(received > 0 && received < 100, "a page held {received} records");
    // A kernel before 6.0 does not report losses.
    if let Some(lost) = counts.lost {
        assert_eq!(received + lost, SENT);
    }
}

#[test]
fn wrapped_records_are_complete_and_none_is_missing() {
    if !needs_root("a tracepoint") {
        return;
    }
    let attr = tracepoint("syscalls", "sys_enter_getppid", PLACED | b::PERF_SAMPLE_RAW);
    let event = open(&attr, SELF);
    let id = event.id().unwrap();
    let mut ring = Ring::map(&event, 1).unwrap();
    assert_eq!(ring.capacity(), page_size() as u64);
    event.enable().unwrap();
    let (mut samples, mut wrapped, mut last) = (0, 0, 0);
    for _ in 0..1000 {
        getppid(10);
        let (more, split) = drain(&mut ring, |identifier, thread, time| {
            assert_eq!((identifier, thread), (id, tid()));
            assert!(time > last);
            last = time;
        });
        samples += more;
        wrapped += split;
    }
    assert_eq!(samples, 10_000);
    assert!(wrapped > 10, "only {wrapped} records wrapped");
    assert!(ring.tail() > 100 * ring.capacity());
}

#[test]
fn a_position_without_a_record_is_an_error_or_the_end() {
    if !needs_root("a tracepoint") {
        return;
    }
    let event = open(&tracepoint("syscalls", "sys_enter_getppid", PLACED), SELF);
    let mut ring = Ring::map(&event, 1).unwrap();
    event.enable().unwrap();
    getppid(3);
    event.disable().unwrap();
    let (tail, head) = (ring.tail(), ring.head());
    let len = ring.piece(tail, head).unwrap().unwrap().len() as u64;
    assert_eq!(head, 3 * len);
    assert!(ring.piece(4, head).is_err(), "unaligned");
    assert!(ring.piece(tail, len - 8).is_err(), "the record overruns the head");
    assert!(ring.piece(head, u64::MAX).unwrap().is_none(), "a head is limited to the real one");
    assert!(ring.piece(u64::MAX - 7, u64::MAX).unwrap().is_none());
    ring.release(u64::MAX);
    assert_eq!(ring.tail(), head);
    assert!(ring.piece(0, head).is_err() || head == 0, "released");
    ring.release(0);
    assert_eq!(ring.tail(), head);
}

#[test]
fn events_that_share_the_ring_of_a_dummy_are_distinguished_by_id() {
    if !needs_root("tracepoints of every CPU") {
        return;
    }
    let own = format!("common_pid == {}", kernel_tid(&Tracefs::find().unwrap()).unwrap());
    let mut owner_attr = Attr::software(u64::from(b::PERF_COUNT_SW_DUMMY));
    owner_attr.set("sample_type", u64::from(PLACED)).unwrap();
    owner_attr.set("sample_id_all", 1).unwrap();
    let mut cpus = Vec::new();
    for cpu in online_cpus() {
        let target = PerfTarget { pid: -1, cpu: cpu as i32 };
        let owner = open(&owner_attr, target);
        let ring = Ring::map_largest(&owner, 16).unwrap().ring;
        let events = ["sys_enter_getppid", "sys_exit_getppid"].map(|name| {
            let event = open(&tracepoint("syscalls", name, PLACED), target);
            event.set_filter(&own).unwrap();
            event.set_output(&owner).unwrap();
            event.enable().unwrap();
            event
        });
        cpus.push((owner, ring, events));
    }
    getppid(500);
    let mut seen = [0, 0];
    for (_, ring, events) in &mut cpus {
        let ids = [events[0].id().unwrap(), events[1].id().unwrap()];
        drain(ring, |identifier, thread, _| {
            assert_eq!(thread, tid());
            seen[ids.iter().position(|id| *id == identifier).unwrap()] += 1;
        });
    }
    assert_eq!(seen, [500, 500]);
    // Closing one event leaves the rings and the other event alive.
    let mut exits: Vec<_> =
        cpus.into_iter().map(|(owner, ring, [_enter, exit])| (owner, ring, exit)).collect();
    getppid(7);
    let mut seen = 0;
    for (_, ring, exit) in &mut exits {
        let id = exit.id().unwrap();
        drain(ring, |identifier, _, _| seen += u64::from(identifier == id));
    }
    assert_eq!(seen, 7);
}

#[test]
fn pause_refresh_and_period_reduce_the_records_exactly() {
    if !needs_root("a tracepoint") {
        return;
    }
    let event = open(&tracepoint("syscalls", "sys_enter_getppid", PLACED), SELF);
    let mut ring = Ring::map(&event, 4).unwrap();
    let mut received = |calls| {
        getppid(calls);
        drain(&mut ring, |_, _, _| {}).0
    };
    assert_eq!(received(5), 0, "disabled");
    event.enable().unwrap();
    assert_eq!(received(5), 5, "enabled");
    event.pause(true).unwrap();
    assert_eq!(received(5), 0, "paused");
    event.pause(false).unwrap();
    assert_eq!(received(5), 5, "resumed");
    event.period(10).unwrap();
    // The first record comes early, as nothing was counted towards it yet.
    received(10);
    assert_eq!(received(100), 10, "period");
    event.reset().unwrap();
    received(4);
    assert_eq!(event.read_counts().unwrap().value, 4);
    event.disable().unwrap();
    event.period(1).unwrap();
    event.refresh(3).unwrap();
    assert_eq!(received(10), 3, "refreshed");
}

#[test]
fn a_task_that_ends_hangs_up_once_and_its_records_remain() {
    if !needs_root("a tracepoint of another task") {
        return;
    }
    let (mut wait, mut go) = std::io::pipe().unwrap();
    let task = Forked::new(move || {
        wait.read_exact(&mut [0]).unwrap();
        getppid(10);
        wait.read_exact(&mut [0]).unwrap();
    });
    let mut attr = tracepoint("syscalls", "sys_enter_getppid", PLACED);
    attr.set("wakeup_events", 10).unwrap();
    let event = open(&attr, PerfTarget { pid: task.pid, cpu: -1 });
    let mut ring = Ring::map(&event, 4).unwrap();
    event.enable().unwrap();
    let mut poller = Poller::new();
    poller.add(&event, 42);
    assert!(poller.wait(0).unwrap().readable.is_empty());
    go.write_all(&[1]).unwrap();
    let ready = poller.wait(10_000).unwrap();
    assert_eq!((&ready.readable[..], &ready.hung_up[..]), (&[42][..], &[][..]));
    go.write_all(&[1]).unwrap();
    while !poller.is_empty() {
        assert_eq!(poller.wait(10_000).unwrap().hung_up, [42]);
    }
    assert_eq!(drain(&mut ring, |_, _, _| {}).0, 10);
    task.wait();
}
