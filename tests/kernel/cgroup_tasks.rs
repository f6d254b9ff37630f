//! `--cgroup` with events that are about another task than the one that raises them.

use std::process::Command;

use serde_json::Value;

use crate::cgroup::Cgroup;
use crate::live::live_tests;

live_tests! {
    waits_of_a_cgroup_are_those_that_the_kernel_counts_for_its_tasks,
    tasks_that_are_forked_in_a_cgroup_are_included,
    tasks_that_join_and_end_at_once_are_included,
    moves_and_clones_between_cgroups_are_followed,
    a_task_that_joins_has_no_cpu_time_of_before,
    a_monitor_of_whole_cpus_refuses_a_cgroup,
}

/// Runs `perilune ARGS… --json -- sh -c SHELL`; returns the rows, and all output.
fn run(args: &[&str], shell: &str) -> (Vec<Value>, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(args)
        .args(["--json", "--", "sh", "-c", shell])
        .output()
        .expect("the built command runs");
    let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    let objects = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    (objects.filter(|object| object["type"] == "row").collect(), text)
}

/// A folder with copies of the shell, each of which has its own name as a task.
struct Shells(tempfile::TempDir);

impl Shells {
    fn new(names: &[&str]) -> Shells {
        let folder = tempfile::tempdir().expect("a folder can be made");
        for name in names {
            std::fs::copy("/bin/sh", folder.path().join(name)).expect("the shell can be copied");
        }
        Shells(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_string_lossy().into_owned()
    }
}

/// Returns shell code that counts to a number.
fn count_to(number: u32) -> String {
    format!("i=0; while [ $i -lt {number} ]; do i=$((i+1)); done")
}

fn waits_of_a_cgroup_are_those_that_the_kernel_counts_for_its_tasks() {
    let group = Cgroup::new("waits");
    let shells = Shells::new(&["inside", "outside"]);
    let measured = shells.path("measured");
    let delay = "read ran waited turns < /proc/$$/schedstat";
    let work = format!(
        "{delay}; before=$waited; {}; {delay}; echo $((waited - before)) > {measured}",
        count_to(300_000)
    );
    let (inside, outside) = (shells.path("inside"), shells.path("outside"));
    let shell = format!(
        "taskset -c 0 {outside} -c '{}' & \
         sh -c 'echo $$ > {}/cgroup.procs; exec taskset -c 0 {inside} -c \"$0\"' '{work}'; wait",
        count_to(600_000),
        group.path.display(),
    );
    let (rows, text) = run(&["rundelay", "--cgroup", &group.name], &shell);
    let of = |comm: &str| {
        let rows = rows.iter().filter(|row| row["comm"] == comm);
        rows.filter_map(|row| row["total_us"].as_f64()).sum::<f64>()
    };
    let measured = std::fs::read_to_string(&measured).expect("the task has written its delay");
    let measured = measured.trim().parse::<f64>().expect("a number") / 1e3;
    assert!(measured > 10_000.0, "the tasks shared a CPU: {measured} us; {text}");
    let ratio = of("inside") / measured;
    assert!((0.9..1.1).contains(&ratio), "{ratio} of {measured} us: {text}");
    assert!(rows.iter().all(|row| row["comm"] != "outside"), "{text}");
}

fn tasks_that_are_forked_in_a_cgroup_are_included() {
    let group = Cgroup::new("forked");
    let shells = Shells::new(&["inside", "outside"]);
    let each = |name: &str| format!("for i in 1 2 3 4 5; do {} -c :; done", shells.path(name));
    // The outer shell joins without an exec; its children are in the group from their fork on.
    let shell = format!(
        "sh -c 'echo $$ > {}/cgroup.procs; {}; sleep 0.3'; {}",
        group.path.display(),
        each("inside"),
        each("outside")
    );
    let script = "local m = monitor { summary = 'forks and exits' }
        function m.init() evsel('sched:sched_process_exit', function() end) end
        function m.on_exec(r) emit { what = 'exec', comm = r.comm } end
        return m";
    let file = shells.path("execs.lua");
    std::fs::write(&file, script).expect("the script can be written");
    let (rows, text) = run(&[&file, "--cgroup", &group.name], &shell);
    let of = |comm: &str| rows.iter().filter(|row| row["comm"] == comm).count();
    assert_eq!((of("inside"), of("outside")), (5, 0), "{text}");
}

/// A monitor with a row for each thread of a name that was woken.
const WAKEUPS: &str = "local m = monitor { summary = 'wakeups of tasks',
      options = { text { 'name', required = true, help = 'name of the tasks' } } }
    local rows
    function m.init(opt)
      rows = kv { 'pid', count = 'wakeups' }
      evsel(('sched:sched_wakeup/comm == \"%s\"/'):format(opt.name), { task = 'pid' },
        function(e) rows:add(e.pid) end)
    end
    function m.deinit() return rows end
    return m";

/// Folder with two shells, `inside` and `outside`, and with what they execute: `waits NAME` writes
/// its process to the file NAME, and is woken by the end of its child.
fn waiting_shells() -> Shells {
    let shells = Shells::new(&["inside", "outside"]);
    let waits = format!("echo $$ >> {}/$1.pids; /bin/true; :", shells.0.path().display());
    std::fs::write(shells.path("waits"), waits).expect("the script can be written");
    shells
}

/// Checks that the tasks of `inside`, and none of `outside`, were woken in a group while the shell
/// code ran, which starts as many of both.
fn check_woken(shells: &Shells, group: &Cgroup, shell: &str, tasks: usize) {
    let monitor = shells.path("wakeups.lua");
    std::fs::write(&monitor, WAKEUPS).expect("the script can be written");
    // On one CPU, a child wakes its parent there. Some kernels omit records of idle CPUs.
    let shell = format!("taskset -cp 0 $$ > /dev/null; {shell}");
    for comm in ["inside", "outside"] {
        let (rows, text) = run(&[&monitor, "--name", comm, "--cgroup", &group.name], &shell);
        let pids = std::fs::read_to_string(shells.path(&format!("{comm}.pids")));
        let pids = pids.expect("the shells have written their processes");
        let was_woken = |pid: &&str| rows.iter().any(|row| row["pid"].as_u64() == pid.parse().ok());
        let woken = pids.lines().rev().take(tasks).filter(was_woken).count();
        assert_eq!(woken, if comm == "inside" { tasks } else { 0 }, "{comm}: {text}");
    }
}

fn tasks_that_join_and_end_at_once_are_included() {
    const TASKS: usize = 60;
    let (group, shells) = (Cgroup::new("joined"), waiting_shells());
    let [inside, outside, waits] = ["inside", "outside", "waits"].map(|name| shells.path(name));
    // Each task joins a group that exists for as long as the task.
    let shell = format!(
        "for i in $(seq {TASKS}); do mkdir {0}/$i; \
         sh -c 'echo $$ > {0}/'$i'/cgroup.procs; exec {inside} {waits} inside'; rmdir {0}/$i; \
         {outside} {waits} outside; done",
        group.path.display(),
    );
    check_woken(&shells, &group, &shell, TASKS);
}

/// `cloned GROUP COMMAND…`: executes a command in a child that is created in another group.
const CLONED: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sched.h>
#include <stdint.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct clone_args how = { .flags = 0x200000000ULL, .exit_signal = SIGCHLD,
                              .cgroup = (uint64_t)open(argv[1], O_RDONLY | O_PATH) };
    long pid = syscall(SYS_clone3, &how, sizeof how);
    if (pid < 0) return 3;
    if (!pid) { execv(argv[2], argv + 2); _exit(4); }
    int status;
    return waitpid((pid_t)pid, &status, 0) < 0 || status;
}
"#;

fn moves_and_clones_between_cgroups_are_followed() {
    const TASKS: usize = 20;
    let (group, other) = (Cgroup::new("own"), Cgroup::new("other"));
    let shells = waiting_shells();
    std::fs::write(shells.path("cloned.c"), CLONED).expect("it can be written");
    let (source, cloned) = (shells.path("cloned.c"), shells.path("cloned"));
    let built = Command::new("cc").args(["-o", &cloned, &source]).status();
    assert!(built.is_ok_and(|status| status.success()));
    let (own, away) = (group.path.display(), other.path.display());
    let [inside, outside, waits] = ["inside", "outside", "waits"].map(|name| shells.path(name));
    // A shell of the group starts `outside` in the other one, and a shell beside it `inside` in the
    // group; half of `outside` moves before it is executed.
    let shell = format!(
        "set -e; for i in $(seq {TASKS}); do {cloned} {own} {inside} {waits} inside; done; \
         sh -c 'echo $$ > {own}/cgroup.procs; for i in $(seq {}); do \
           {cloned} {away} {outside} {waits} outside; \
           (echo 0 > {away}/cgroup.procs; exec {outside} {waits} outside); done'",
        TASKS / 2,
    );
    check_woken(&shells, &group, &shell, TASKS);
}

fn a_task_that_joins_has_no_cpu_time_of_before() {
    let (group, shells) = (Cgroup::new("late"), Shells::new(&["inside"]));
    let (inside, measured) = (shells.path("inside"), shells.path("measured"));
    let ran = "read ran waited turns < /proc/$$/schedstat";
    // The sleep after the join ends the stay that began outside of the group.
    let work = format!(
        "sleep 1; echo $$ > {}/cgroup.procs; sleep 0.01; {ran}; before=$ran; {}; {ran}; \
         echo $((ran - before)) > {measured}",
        group.path.display(),
        count_to(300_000),
    );
    let shell = format!("exec taskset -c 0 {inside} -c '{work}'");
    let (rows, text) = run(&["oncpu", "--cgroup", &group.name], &shell);
    let measured = std::fs::read_to_string(&measured).expect("the task has written its time");
    let measured_ms = measured.trim().parse::<f64>().expect("a number") / 1e6;
    let rows = rows.iter().filter(|row| row["comm"] == "inside");
    let ms: f64 = rows.filter_map(|row| row["ms"].as_f64()).sum();
    assert!((0.8..1.5).contains(&(ms / measured_ms)), "{ms} of {measured_ms} ms: {text}");
}

fn a_monitor_of_whole_cpus_refuses_a_cgroup() {
    let (_, text) = run(&["irq-off", "--cgroup", "/"], "true");
    let why = "irq-off watches whole CPUs, not the tasks of a cgroup; omit --cgroup";
    assert!(text.contains(why), "{text}");
}
