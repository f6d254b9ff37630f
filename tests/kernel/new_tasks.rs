//! Tasks that come and go in other ways than by fork and exit: the kernel counts their events as
//! records do.

use std::collections::BTreeMap;

use perilune::sys::machine::is_linux_since;

use crate::functions::{Program, next_line};
use crate::live::{live_tests, skip_anywhere};
use crate::paired::start;
use crate::tool::Tool;

live_tests! {
    workers_of_io_uring_belong_to_their_process,
    a_thread_is_counted_while_it_executes_a_program,
}

/// Waits for a line, and lets a worker do 500 operations one after the other. Ends with 77 without
/// io_uring.
const WORKERS: &str = r#"
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *map(int ring, unsigned long size, unsigned long at) {
    return mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, at);
}
int main(void) {
    char go;
    struct io_uring_params of = {0};
    int ring = syscall(SYS_io_uring_setup, 8, &of);
    if (read(0, &go, 1) != 1) return 1;
    if (ring < 0) return 77;
    char *sent = map(ring, of.sq_off.array + of.sq_entries * 4, IORING_OFF_SQ_RING);
    char *done = map(ring, of.cq_off.cqes + of.cq_entries * 16, IORING_OFF_CQ_RING);
    struct io_uring_sqe *entries = map(ring, of.sq_entries * sizeof *entries, IORING_OFF_SQES);
    unsigned *tail = (void *)(sent + of.sq_off.tail), *array = (void *)(sent + of.sq_off.array);
    for (unsigned i = 0; i < 500; i++) {
        unsigned at = i % of.sq_entries;
        memset(entries + at, 0, sizeof *entries);
        entries[at].opcode = IORING_OP_NOP;
        entries[at].flags = IOSQE_ASYNC;
        array[at] = at;
        __atomic_store_n(tail, i + 1, __ATOMIC_RELEASE);
        syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0);
        *(unsigned *)(done + of.cq_off.head) = i + 1;
    }
    return 0;
}
"#;

/// Waits for a line. Then its second thread executes the program again, while another process spins
/// on the CPU, so that it is preempted while the kernel frees the memory of the old program.
const EXECUTES: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char spins[16];
static void *other(void *path) {
    execl(path, path, spins, "next", (char *)0);
    return 0;
}
int main(int count, char **words) {
    char go;
    pthread_t thread;
    cpu_set_t cpus;
    size_t size = 500 << 20;
    if (count == 3) return kill(atoi(words[1]), SIGKILL);
    if (read(0, &go, 1) != 1) return 1;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    char *memory = malloc(size);
    for (size_t at = 0; at < size; at += 4096) memory[at] = 1;
    pid_t child = fork();
    if (child == 0) for (;;) {}
    snprintf(spins, sizeof spins, "%d", child);
    if (pthread_create(&thread, 0, other, words[0])) return 1;
    for (;;) pause();
}
"#;

/// Counts switches of a program by name in both places. Returns the rows of each, or None if the
/// program ends with 77.
fn switches(source: &str, flags: &[&str]) -> Option<[BTreeMap<String, u64>; 2]> {
    if !is_linux_since((6, 16)) {
        skip_anywhere("before Linux 6.16, the kernel counts more of a task's end");
    }
    let program = Program::of(source, flags);
    let mut child = program.waiting(1, 0);
    program.wait_for_exec(child.id());
    let pid = child.id().to_string();
    let event = "sched:sched_switch//key=_comm/alias=n/";
    let args = ["top", "-e", event, "-m", "2048", "-p", &pid];
    let tools = ["kernel", "user"].map(|place| start(place, &args));
    next_line(&mut child);
    let status = child.wait().expect("our own child can be waited for");
    let runs = tools.map(Tool::finish);
    if status.code() == Some(77) {
        return None;
    }
    assert!(status.success(), "{status}");
    Some(runs.map(|run| {
        run.is_complete();
        let row =
            |row: &serde_json::Value| Some((row["comm"].as_str()?.to_owned(), row["n"].as_u64()?));
        run.of("row").filter_map(row).collect()
    }))
}

fn workers_of_io_uring_belong_to_their_process() {
    let Some([kernel, user]) = switches(WORKERS, &[]) else { skip_anywhere("no io_uring") };
    let of_workers = |(name, n): (&String, &u64)| name.starts_with("iou-wrk").then_some(*n);
    let [counted, recorded] =
        [&kernel, &user].map(|rows| rows.iter().filter_map(of_workers).sum::<u64>());
    assert!(counted >= 100 && counted == recorded, "{kernel:?} {user:?}");
}

fn a_thread_is_counted_while_it_executes_a_program() {
    let [kernel, user] = switches(EXECUTES, &["-pthread"]).expect("it does not end with 77");
    assert_eq!(kernel, user);
    // A fast machine switches rarely: its threads seldom wait for each other.
    assert!(user.values().sum::<u64>() >= 5, "{user:?}");
}
