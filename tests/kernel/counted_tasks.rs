//! Counts in the kernel of some tasks only: equal to what these tasks did.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::{fs, time::Duration};

use serde_json::Value;

use crate::counting::can_count;
use crate::live::{live_tests, skip_anywhere};
use crate::load;
use crate::tool::{Run, Tool};

live_tests! {
    a_process_is_counted_with_its_children_and_without_other_tasks,
    a_watched_thread_is_counted_with_its_children_only,
    the_events_at_the_end_of_a_task_are_those_of_user_space,
    a_command_is_counted_from_its_exec_to_the_end_of_its_children,
    a_program_that_another_thread_executes_is_counted,
    threads_that_are_created_while_the_run_begins_are_counted,
    the_members_of_a_cgroup_are_counted,
}

const CHILDREN: u32 = 40;
const CALLS: u32 = 500;

fn calls(run: &Run) -> u64 {
    run.of("row").filter_map(|row| row["sys_enter"].as_u64()).sum()
}

/// Starts `top` of getppid calls for some tasks.
fn top(place: &str, tasks: &[&str]) -> Tool {
    let event = format!("raw_syscalls:sys_enter/id=={}/", libc::SYS_getppid);
    Tool::attach(&[&["top", "--where", place, "-e", &event, "-i", "60000"], tasks].concat())
}

fn a_process_is_counted_with_its_children_and_without_other_tasks() {
    can_count();
    let (tree, other) = (load::getppid_in_tree(CHILDREN, CALLS), load::getppid(10_000));
    let of = tree.pid().to_string();
    let tools = ["kernel", "user"].map(|place| top(place, &["-p", &of]));
    tree.run();
    other.run();
    for run in tools.map(Tool::finish) {
        run.is_complete();
        assert_eq!(calls(&run), u64::from((2 * CHILDREN + 1) * CALLS), "{}", run.stderr);
        assert_eq!(run.coverage()["undelivered"], 0, "{}", run.coverage());
    }
}

fn a_watched_thread_is_counted_with_its_children_only() {
    can_count();
    let (tree, other) = (load::getppid_in_tree(2, CALLS), load::getppid(CALLS));
    let of = tree.pid().to_string();
    let tool = top("kernel", &["-t", &of]);
    other.run();
    tree.run();
    let run = tool.finish();
    run.is_complete();
    assert_eq!(calls(&run), u64::from(5 * CALLS), "{:?}", run.objects);
}

fn the_events_at_the_end_of_a_task_are_those_of_user_space() {
    can_count();
    if !perilune::sys::machine::is_linux_since((6, 16)) {
        skip_anywhere("before Linux 6.16, the kernel counts more of a task's end");
    }
    let tree = load::getppid_in_tree(CHILDREN, 1);
    let of = tree.pid().to_string();
    let tools = ["kernel", "user"].map(|place| {
        let event = "kmem:rss_stat//alias=n/";
        Tool::attach(&["top", "--where", place, "-k", "common_pid", "-e", event, "-p", &of])
    });
    tree.run();
    let [kernel, user] = tools.map(Tool::finish);
    let count = |run: &Run| -> u64 { run.of("row").filter_map(|row| row["n"].as_u64()).sum() };
    [&kernel, &user].into_iter().for_each(Run::is_complete);
    assert!(count(&user) > u64::from(CHILDREN), "{:?}", user.objects);
    assert_eq!(count(&kernel), count(&user), "{}", kernel.stderr);
}

/// Runs `top` of an event with this key for a command. Returns its rows.
fn top_of_command(place: &str, [key, event]: [&str; 2], command: &[&str]) -> (Output, Vec<Value>) {
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["top", "--where", place, "--json", "-k", key, "-e", event, "--"])
        .args(command)
        .output()
        .expect("the built command runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let objects = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let rows = objects.filter(|one| one["type"] == "row").collect();
    (output, rows)
}

/// Runs a shell that executes `true` five times, and returns the sum of the rows of `top`.
fn five_commands(place: &str, event: &str) -> (Output, u64) {
    let script = "for i in 1 2 3 4 5; do /bin/true; done; exit 7";
    let (output, rows) = top_of_command(place, ["common_pid & 0", event], &["sh", "-c", script]);
    let sum = rows.iter().map(|row| row["n"].as_u64().expect("a row has a count")).sum();
    (output, sum)
}

fn a_command_is_counted_from_its_exec_to_the_end_of_its_children() {
    can_count();
    let enter = |number: libc::c_long| format!("raw_syscalls:sys_enter/id=={number}/alias=n/");
    let exec_ends = format!("raw_syscalls:sys_exit/id=={}/alias=n/", libc::SYS_execve);
    for place in ["kernel", "user"] {
        for (event, expected) in [
            // The shell's own exec has begun before its events count.
            (enter(libc::SYS_execve), 5),
            (exec_ends.clone(), 6),
            (enter(libc::SYS_exit_group), 6),
            ("sched:sched_process_fork//alias=n/".to_owned(), 5),
            ("task:task_rename//alias=n/".to_owned(), 6),
            ("sched:sched_process_exit//alias=n/".to_owned(), 6),
        ] {
            let (output, count) = five_commands(place, &event);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(7), "{said}");
            assert_eq!(count, expected, "{place} {event}: {said}");
        }
    }
}

fn a_program_that_another_thread_executes_is_counted() {
    can_count();
    const BLOCKS: u64 = 5000;
    let script = format!(
        "import os, threading\n\
         dd = ['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=1', 'count={BLOCKS}', 'status=none']\n\
         thread = threading.Thread(target=os.execvp, args=('dd', dd))\n\
         thread.start()\n\
         thread.join()\n"
    );
    let event = format!("raw_syscalls:sys_enter/id=={}/alias=n/", libc::SYS_write);
    for place in ["kernel", "user"] {
        let (_, rows) = top_of_command(place, ["_comm", &event], &["python3", "-c", &script]);
        let row = rows.iter().find(|row| row["comm"] == "dd");
        let row = row.unwrap_or_else(|| panic!("{place}: no row of dd in {rows:?}"));
        assert_eq!(row["n"], BLOCKS, "{place}: {rows:?}");
    }
}

fn threads_that_are_created_while_the_run_begins_are_counted() {
    can_count();
    ["kernel", "user"].into_iter().for_each(counts_new_threads);
}

fn counts_new_threads(place: &str) {
    const CALLS: u64 = 10;
    // Creates a thread each millisecond until a line arrives; then all threads make their calls.
    let script = format!(
        "import os, sys, threading, time\n\
         threading.stack_size(65536)\n\
         begin = threading.Event()\n\
         def calls():\n    \
             begin.wait()\n    \
             for i in range({CALLS}): os.getppid()\n\
         def create():\n    \
             while not begin.is_set() and len(threads) < 4000:\n        \
                 threads.append(threading.Thread(target=calls))\n        \
                 threads[-1].start()\n        \
                 time.sleep(0.001)\n\
         threads = []\n\
         creator = threading.Thread(target=create)\n\
         creator.start()\n\
         print('ready', flush=True)\n\
         sys.stdin.readline()\n\
         begin.set()\n\
         creator.join()\n\
         for thread in threads: thread.join()\n\
         print(len(threads), flush=True)\n"
    );
    let mut child = Command::new("python3")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert_eq!(line(), "ready");
    let tool = top(place, &["-p", &child.id().to_string()]);
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
    let threads: u64 = line().parse().expect("a number");
    child.wait().expect("it ends");
    let run = tool.finish();
    assert!(threads > 4, "{threads} threads");
    assert_eq!(calls(&run), CALLS * threads, "{place}: {threads} threads, {}", run.stderr);
    run.is_complete();
}

/// A cgroup that is removed at the end.
pub(crate) struct MadeCgroup {
    /// Its name.
    pub(crate) name: String,
    folder: PathBuf,
}

impl MadeCgroup {
    /// Creates a cgroup; ends the test if its tasks cannot be watched in the kernel.
    pub(crate) fn create(name: &str) -> MadeCgroup {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let of = |kind: &str, option: &str| {
            let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
            let found = mounts.find(|mount| mount[2] == kind && mount[3].contains(option));
            found.map(|mount| PathBuf::from(mount[1]))
        };
        let Some(root) = of("cgroup2", "").filter(|_| of("cgroup", "perf_event").is_none()) else {
            skip_anywhere("the perf_event controller has no cgroup hierarchy of version 2");
        };
        let name = format!("perilune-{name}-{}", std::process::id());
        MadeCgroup { folder: root.join(&name), name }.made()
    }

    /// Creates a cgroup in it.
    fn inner(&self) -> MadeCgroup {
        let name = "inner".to_owned();
        MadeCgroup { folder: self.folder.join(&name), name }.made()
    }

    fn made(self) -> MadeCgroup {
        fs::create_dir_all(&self.folder).expect("cgroups can be made");
        self
    }

    /// Moves a task into it.
    pub(crate) fn add(&self, pid: u32) {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string()).expect("a task can move");
    }
}

impl Drop for MadeCgroup {
    fn drop(&mut self) {
        // Its last task may still be exiting.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn the_members_of_a_cgroup_are_counted() {
    can_count();
    let group = MadeCgroup::create("counted");
    let inner = group.inner();
    let (member, below, outside) =
        (load::getppid_in_tree(2, CALLS), load::getppid(CALLS), load::getppid(CALLS));
    group.add(member.pid());
    inner.add(below.pid());
    let tools = ["kernel", "user"].map(|place| top(place, &["--cgroup", &group.name]));
    member.run();
    below.run();
    outside.run();
    for run in tools.map(Tool::finish) {
        run.is_complete();
        assert_eq!(calls(&run), u64::from(6 * CALLS), "{:?}", run.objects);
    }
    drop(inner);
}
