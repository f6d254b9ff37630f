//! `--cgroup` with events that are about another task than the one that raises them.

use std::process::Command;

use serde_json::Value;

use crate::cgroup::Cgroup;
use crate::live::live_tests;

live_tests! {
    waits_of_a_cgroup_are_those_that_the_kernel_counts_for_its_tasks,
    tasks_that_are_forked_in_a_cgroup_are_included,
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

fn a_monitor_of_whole_cpus_refuses_a_cgroup() {
    let (_, text) = run(&["irq-off", "--cgroup", "/"], "true");
    let why = "irq-off watches whole CPUs, not the tasks of a cgroup; omit --cgroup";
    assert!(text.contains(why), "{text}");
}
