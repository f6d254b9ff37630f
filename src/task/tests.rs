//! Names, parents and ids of tasks that come and go.

use super::*;

fn process(tid: u32, parent_pid: u32, comm: &str) -> ExistingTask<'_> {
    ExistingTask { tid, pid: tid, parent_pid, comm: comm.as_bytes() }
}

fn fork(tid: u32, parent: u32) -> Fork {
    Fork { tid, pid: tid, parent_tid: parent, parent_pid: parent }
}

/// init (1) and a shell (10) below it.
fn shell() -> Tasks {
    let mut tasks = Tasks::new(2);
    // The child before its parent, as a snapshot may have it.
    tasks.snapshot([process(10, 1, "bash"), process(1, 0, "systemd")], -100.0);
    tasks
}

#[test]
fn a_child_has_its_parents_name_until_it_executes() {
    let mut tasks = shell();
    tasks.on_fork(fork(11, 10), 0.0);
    assert_eq!(tasks.comm(11), Some(&b"bash"[..]));
    tasks.on_comm(11, 11, b"make\0\0\0\0", 0.0);
    assert_eq!(tasks.comm(11), Some(&b"make"[..]));
    assert_eq!(tasks.comm(10), Some(&b"bash"[..]));
}

#[test]
fn a_thread_belongs_to_its_process_and_has_its_parent() {
    let mut tasks = shell();
    tasks.on_fork(Fork { tid: 12, pid: 10, parent_tid: 10, parent_pid: 10 }, 0.0);
    tasks.on_comm(12, 10, b"worker", 0.0);
    // A thread that a thread made.
    tasks.on_fork(Fork { tid: 13, pid: 10, parent_tid: 12, parent_pid: 10 }, 0.0);
    assert_eq!((tasks.process(13), tasks.parent(13)), (Some(10), Some(1)));
    assert_eq!(tasks.comm(13), Some(&b"worker"[..]));
    // A process that a thread made is the child of the thread's process.
    tasks.on_fork(Fork { tid: 14, pid: 14, parent_tid: 13, parent_pid: 10 }, 0.0);
    assert_eq!((tasks.parent(14), tasks.comm(14)), (Some(10), Some(&b"worker"[..])));
}

#[test]
fn a_snapshot_does_not_overwrite_a_record() {
    let mut tasks = Tasks::new(1);
    tasks.on_comm(20, 20, b"new", 0.0);
    tasks.on_fork(fork(21, 19), 0.0);
    let names = [process(20, 1, "old"), process(21, 1, "child"), process(22, 1, "other")];
    tasks.snapshot(names, 0.0);
    assert_eq!(tasks.comm(20), Some(&b"new"[..]));
    assert_eq!(tasks.parent(20), Some(1));
    // A record that gave no name leaves it to the snapshot; its parent stays.
    assert_eq!((tasks.comm(21), tasks.parent(21)), (Some(&b"child"[..]), Some(19)));
    tasks.snapshot([process(22, 1, "renamed")], 0.0);
    assert_eq!(tasks.comm(22), Some(&b"renamed"[..]));
}

#[test]
fn a_fork_before_the_snapshot_does_not_overwrite_its_name() {
    let mut tasks = Tasks::new(1);
    // The shell forked both at -20, executed make at -15, and was read at -10.
    tasks.snapshot([process(20, 1, "make"), process(21, 20, "sh"), process(22, 20, "ls")], -10.0);
    tasks.on_fork(fork(21, 20), -20.0);
    assert_eq!((tasks.comm(21), tasks.parent(21)), (Some(&b"sh"[..]), Some(20)));
    // A later record has a newer name, and a later task with its id another one.
    tasks.on_comm(21, 21, b"cc", 5.0);
    assert_eq!(tasks.comm(21), Some(&b"cc"[..]));
    tasks.on_fork(fork(22, 20), 5.0);
    assert_eq!(tasks.comm(22), Some(&b"make"[..]));
}

#[test]
fn a_process_keeps_its_parent_when_another_thread_executes() {
    let mut tasks = shell();
    tasks.on_fork(fork(11, 10), 0.0);
    for tid in [12, 13] {
        tasks.on_fork(Fork { tid, pid: 11, parent_tid: 11, parent_pid: 11 }, 1.0);
    }
    tasks.on_fork(fork(14, 11), 1.0);
    tasks.on_exit(13, 11, 2.0);
    tasks.on_exit(11, 11, 2.0);
    assert_eq!(tasks.on_exec(11, b"sleep", 3.0), [12]);
    assert_eq!((tasks.comm(11), tasks.parent(11)), (Some(&b"sleep"[..]), Some(10)));
    assert_eq!(tasks.ancestry(14).collect::<Vec<_>>(), [14, 11, 10, 1]);
    // The program lives, and the old id of its thread is forgotten.
    for tid in 1000..1000 + GRACE as u32 {
        tasks.on_fork(fork(tid, 1), 4.0);
        tasks.on_exit(tid, tid, 4.0);
    }
    assert_eq!((tasks.comm(11), tasks.comm(12)), (Some(&b"sleep"[..]), None));
    // The first thread executes the next one.
    assert_eq!(tasks.on_exec(11, b"true", 5.0), [0; 0]);
    assert_eq!((tasks.comm(11), tasks.parent(11)), (Some(&b"true"[..]), Some(10)));
}

#[test]
fn an_exec_of_an_ended_process_is_that_of_another_one() {
    let mut tasks = shell();
    tasks.on_exit(10, 10, 0.0);
    assert_eq!(tasks.on_exec(10, b"cron", 1.0), [0; 0]);
    assert_eq!((tasks.comm(10), tasks.parent(10)), (Some(&b"cron"[..]), None));
}

#[test]
fn an_ended_task_keeps_its_name_for_late_events() {
    let mut tasks = shell();
    tasks.on_exit(10, 10, 0.0);
    assert_eq!(tasks.comm(10), Some(&b"bash"[..]));
    for tid in 1000..1000 + GRACE as u32 {
        tasks.on_fork(fork(tid, 1), 0.0);
        tasks.on_exit(tid, tid, 0.0);
    }
    assert_eq!(tasks.comm(10), None);
    assert_eq!(tasks.len(), GRACE + 1);
    assert_eq!(tasks.comm(1), Some(&b"systemd"[..]));
}

#[test]
fn a_reused_id_is_another_task() {
    let mut tasks = shell();
    tasks.on_fork(fork(11, 10), 0.0);
    tasks.on_exit(10, 10, 0.0);
    tasks.on_fork(fork(10, 1), 0.0);
    tasks.on_comm(10, 10, b"cron", 0.0);
    assert_eq!(tasks.comm(10), Some(&b"cron"[..]));
    // The old shell's child is not cron's.
    assert_eq!(tasks.ancestry(11).collect::<Vec<_>>(), [11]);
    // Nor does the old shell's end forget the new task.
    for tid in 1000..1001 + GRACE as u32 {
        tasks.on_fork(fork(tid, 1), 0.0);
        tasks.on_exit(tid, tid, 0.0);
    }
    assert_eq!(tasks.comm(10), Some(&b"cron"[..]));
}

#[test]
fn records_of_one_task_may_come_in_another_order() {
    let mut tasks = shell();
    // The child set its name, and another one ended, before their forks were read.
    tasks.on_comm(11, 11, b"make", 20.0);
    tasks.on_exit(12, 12, 20.0);
    tasks.on_fork(fork(11, 10), 10.0);
    tasks.on_fork(fork(12, 10), 11.0);
    assert_eq!((tasks.comm(11), tasks.parent(11)), (Some(&b"make"[..]), Some(10)));
    assert_eq!((tasks.comm(12), tasks.parent(12)), (Some(&b"bash"[..]), Some(10)));
    // A task that ended, and the name that it had set before.
    tasks.on_exit(11, 11, 30.0);
    tasks.on_comm(11, 11, b"cc", 25.0);
    assert_eq!(tasks.comm(11), Some(&b"cc"[..]));
    // The next tasks with their ids, and older records of the first ones.
    tasks.on_fork(fork(11, 1), 40.0);
    tasks.on_fork(fork(12, 1), 40.0);
    tasks.on_comm(11, 11, b"late", 29.0);
    tasks.on_exit(12, 12, 39.0);
    assert_eq!(tasks.comm(11), Some(&b"systemd"[..]));
    for tid in 1000..1001 + GRACE as u32 {
        tasks.on_exit(tid, tid, 50.0);
    }
    assert_eq!(tasks.comm(12), Some(&b"systemd"[..]));
    assert_eq!(tasks.len(), 4 + GRACE);
}

#[test]
fn a_name_of_an_ended_task_without_its_fork_begins_a_new_one() {
    let mut tasks = shell();
    tasks.on_exit(10, 10, 0.0);
    tasks.on_comm(10, 10, b"cron", 0.0);
    assert_eq!((tasks.comm(10), tasks.parent(10)), (Some(&b"cron"[..]), None));
}

#[test]
fn ancestry_leads_from_the_thread_to_init() {
    let mut tasks = shell();
    tasks.on_fork(fork(11, 10), 0.0);
    tasks.on_fork(Fork { tid: 12, pid: 11, parent_tid: 11, parent_pid: 11 }, 0.0);
    assert_eq!(tasks.ancestry(12).collect::<Vec<_>>(), [12, 10, 1]);
    assert_eq!(tasks.ancestry(99).count(), 0);
}

#[test]
fn ancestry_ends_at_a_cycle_of_parents() {
    let mut tasks = Tasks::new(1);
    tasks.snapshot([process(5, 6, "a"), process(6, 5, "b")], 0.0);
    assert_eq!(tasks.ancestry(5).count(), GENERATIONS);
}

#[test]
fn the_idle_task_is_named_after_its_cpu() {
    let mut tasks = Tasks::new(2);
    tasks.on_comm(0, 0, b"idle", 0.0);
    assert_eq!(tasks.padded_comm_on(1, 0), Some(*b"swapper/1\0\0\0\0\0\0\0"));
    assert_eq!(tasks.padded_comm_on(7, 0), Some(*b"swapper\0\0\0\0\0\0\0\0\0"));
    assert_eq!((tasks.process(0), tasks.parent(0)), (Some(0), None));
    assert_eq!(tasks.padded_comm_on(1, 99), None);
}

#[test]
fn a_name_is_any_bytes_up_to_fifteen() {
    let mut tasks = Tasks::new(1);
    tasks.on_comm(2, 2, b"\xff\xfe name", 0.0);
    tasks.on_comm(3, 3, b"0123456789abcdefgh", 0.0);
    tasks.on_comm(4, 4, b"", 0.0);
    assert_eq!(tasks.comm(2), Some(&b"\xff\xfe name"[..]));
    assert_eq!(tasks.comm(3), Some(&b"0123456789abcde"[..]));
    assert_eq!(tasks.comm(4), Some(&b""[..]));
}

#[test]
fn the_table_is_bounded_and_counts_refused_tasks() {
    let bytes = 64 << 10;
    let mut tasks = Tasks::with_bound(1, bytes);
    for tid in 1..100_000 {
        tasks.on_comm(tid, tid, b"x", 0.0);
    }
    let known = tasks.len();
    assert!(tasks.known.allocation_size() <= bytes, "{}", tasks.known.allocation_size());
    assert_eq!(tasks.refused() + known as u64, 99_999);
    // Ended tasks make room.
    tasks.on_exit(1, 1, 0.0);
    tasks.on_comm(200_000, 200_000, b"y", 0.0);
    assert_eq!((tasks.comm(1), tasks.comm(200_000)), (None, Some(&b"y"[..])));
}

#[test]
fn short_lived_tasks_do_not_grow_the_table() {
    let mut tasks = Tasks::new(1);
    let mut grown = Vec::new();
    for tid in 1..1_000_000u32 {
        tasks.on_fork(fork(tid, tid - 1), 0.0);
        tasks.on_comm(tid, tid, b"x", 0.0);
        tasks.on_exit(tid, tid, 0.0);
        if tid % 100_000 == 0 {
            grown.push(tasks.known.allocation_size());
        }
    }
    assert!(grown.iter().all(|size| *size == grown[0]), "{grown:?}");
}
