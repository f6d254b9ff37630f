//! Counts in the kernel: equal to those of user space and to what the load did.

#[path = "../lua/expression/chance.rs"]
pub(crate) mod chance;
pub(crate) mod filters;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use perilune::bpf::assembler::{AccessSize, Assembler, BpfRegister};
use perilune::bpf::expression::{CONTEXT, CPU_AT, ExpressionWriter, PROCESS_AT, THREAD, UNDEFINED};
use perilune::decode::format::Format;
use perilune::event::expr::in_kernel::KernelExpr;
use perilune::source::counting::WITH_MISSES;
use perilune::sys::bpf::{BpfProgram, BpfProgramType};

use crate::live::{live_tests, skip_anywhere};
use crate::load::{self, Load};
use crate::tool::{Run, Tool};

live_tests! {
    each_call_is_counted_in_the_kernel_and_by_records_beside_it,
    sums_names_and_two_events_of_a_table_equal_those_of_user_space,
    each_of_many_keys_has_its_count_and_keys_without_room_are_counted_together,
    a_table_grows_to_the_keys_of_the_intervals_before,
    only_events_of_watched_cpus_are_counted,
    short_lived_tasks_have_their_counts_and_names,
    a_killed_run_leaves_no_program,
    what_needs_records_is_refused_or_counted_in_user_space,
    the_names_of_cgroups_come_from_records_by_default,
    a_script_counts_in_the_kernel_by_declaring,
    the_verifier_accepts_random_expressions,
}

/// A selector of calls of getppid.
fn getppid_calls(attributes: &str) -> String {
    format!("raw_syscalls:sys_enter/id=={}/{attributes}", libc::SYS_getppid)
}

/// Ends the test if this kernel does not count.
pub(crate) fn can_count() {
    if let Some(why) = perilune::source::counting::refusal() {
        skip_anywhere(&why.to_string());
    }
}

/// Returns why nothing is counted in the kernel by default; None if this kernel counts what it
/// misses.
pub(crate) fn usual_refusal() -> Option<&'static str> {
    let counts_misses = perilune::sys::machine::is_linux_since(WITH_MISSES);
    (!counts_misses).then_some("before Linux 6.7, the kernel does not count what it misses")
}

/// Starts `top` with its counts in the kernel. Ends the test if this kernel does not count.
fn in_kernel(args: &[&str]) -> Tool {
    can_count();
    Tool::attach(&[&["top", "--where", "kernel"], args].concat())
}

fn in_user_space(args: &[&str]) -> Tool {
    Tool::attach(&[&["top", "--where", "user"], args].concat())
}

/// Fails unless the run missed nothing and counted in the kernel without records.
fn is_exact(run: &Run) {
    run.is_complete();
    assert_eq!(run.coverage()["undelivered"], 0, "{}", run.coverage());
}

fn each_call_is_counted_in_the_kernel_and_by_records_beside_it() {
    const CALLS: u32 = 400_000;
    let load = load::getppid(CALLS);
    let pid = load.pid();
    let event = getppid_calls("");
    let user = in_user_space(&["-e", &event]);
    let kernel = in_kernel(&["-e", &event]);
    load.run();
    let (kernel, user) = (kernel.finish(), user.finish());
    assert_eq!(kernel.sum("sys_enter", "pid", pid), u64::from(CALLS), "{}", kernel.stderr);
    is_exact(&kernel);
    // A program at the tracepoint takes no record from another perf user.
    let lost = user.coverage()["lost"].as_u64().unwrap_or_default();
    assert_eq!(user.sum("sys_enter", "pid", pid) + lost, u64::from(CALLS), "{}", user.stderr);
}

fn sums_names_and_two_events_of_a_table_equal_those_of_user_space() {
    // An event in an interrupt that hits another program is missed, and counted as that.
    let complete = (0..6).find(|_| both_count_the_same_run());
    assert!(complete.is_some(), "each of 6 runs missed events");
}

/// Counts one load in both places. Returns whether nothing was missed.
fn both_count_the_same_run() -> bool {
    let (load, _) = load::sleeps::<30>();
    let pid = load.pid();
    let events = "sched:sched_stat_runtime//key=pid/comm=comm/top-by=runtime/top-add=pid-7/,\
                  sched:sched_switch//key=prev_pid/comm=prev_comm/alias=away/";
    let user = in_user_space(&["-e", events, "-m", "2048"]);
    let kernel = in_kernel(&["-e", events]);
    load.run();
    let (kernel, user) = (kernel.finish(), user.finish());
    kernel.is_complete();
    is_exact(&user);
    let sums = |run: &Run| ["away", "runtime", "pid_7"].map(|column| run.sum(column, "pid", pid));
    let (of_kernel, of_user) = (sums(&kernel), sums(&user));
    assert!(of_kernel.iter().all(|sum| *sum > 0), "{:?}", kernel.objects);
    let missed = kernel.coverage()["undelivered"].as_u64().unwrap_or_default();
    if missed > 0 {
        assert!(of_user[0].abs_diff(of_kernel[0]) <= missed, "{of_kernel:?} {of_user:?}");
        return false;
    }
    assert_eq!(of_kernel, of_user, "{:?}", kernel.objects);
    let name = |run: &Run| {
        let row = run.of("row").find(|row| row["pid"] == pid).cloned();
        row.map(|row| row["comm"].clone())
    };
    assert_eq!(name(&kernel), name(&user));
    true
}

fn each_of_many_keys_has_its_count_and_keys_without_room_are_counted_together() {
    const KEYS: u32 = 40_000;
    // Few keys fit into the first table of the kernel.
    for keys in [5000, KEYS] {
        let load = load::getppid_with_arguments(keys);
        let (number, shift, pid) = (libc::SYS_getppid, load::PROCESS_SHIFT, load.pid());
        let filter = format!("id == {number} && args[0] >> {shift} == {pid}");
        let tool = in_kernel(&["-e", &format!("raw_syscalls:sys_enter/{filter}/key=args[0]/")]);
        load.run();
        let run = tool.finish();
        run.is_complete();
        assert_eq!(run.coverage()["events"], keys, "{}", run.coverage());
        let has_key = |row: &&serde_json::Value| row["args_0"].is_u64() && row["sys_enter"] == 1;
        let alone = run.of("row").filter(has_key).count() as u64;
        let evicted = run.coverage()["evicted"].as_u64().unwrap_or_default();
        assert_eq!(alone + evicted, u64::from(keys), "{}", run.coverage());
        assert_eq!(evicted > 0, keys > 16_384, "{}", run.coverage());
        let is_warned =
            |note: &serde_json::Value| note["text"].as_str().unwrap().contains("evicted");
        assert_eq!(run.of("note").filter(|note| is_warned(note)).count(), usize::from(evicted > 0));
    }
}

fn a_table_grows_to_the_keys_of_the_intervals_before() {
    const KEYS: u32 = 60_000;
    let load = Load::new(|| {
        let first = u64::from(std::process::id()) << load::PROCESS_SHIFT;
        for _ in 0..2 {
            for argument in first..first + u64::from(KEYS) {
                // SAFETY: the call takes no argument, and changes nothing.
                unsafe { libc::syscall(libc::SYS_getppid, argument) };
            }
            // Both maps of the table are replaced.
            std::thread::sleep(Duration::from_millis(3500));
        }
    });
    let (number, shift, pid) = (libc::SYS_getppid, load::PROCESS_SHIFT, load.pid());
    let filter = format!("id == {number} && args[0] >> {shift} == {pid}");
    let event = format!("raw_syscalls:sys_enter/{filter}/key=args[0]/");
    let tool = in_kernel(&["-e", &event, "-i", "1000"]);
    load.run();
    let run = tool.finish();
    run.is_complete();
    let (mut before, mut after, mut is_after) = ([0; 2], [0; 2], false);
    for interval in run.of("coverage").filter(|coverage| coverage["final"] == false) {
        let [events, evicted] =
            ["events", "evicted"].map(|name| interval[name].as_u64().unwrap_or_default());
        is_after = is_after || events == 0 && before[0] > 0;
        let of_load = if is_after { &mut after } else { &mut before };
        *of_load = [of_load[0] + events, of_load[1] + evicted];
    }
    assert_eq!([before[0], after[0]], [u64::from(KEYS); 2], "{:?}", run.coverage());
    assert!(before[1] > 0 && after[1] == 0, "{before:?} {after:?}");
}

fn only_events_of_watched_cpus_are_counted() {
    let cpus = perilune::sys::cpus::online_cpus();
    let [first, .., last] = cpus[..] else { skip_anywhere("one CPU") };
    let (watched, other) = (load::getppid_on(first, 3000), load::getppid_on(last, 3000));
    let pids = [watched.pid(), other.pid()];
    let tool = in_kernel(&["-e", &getppid_calls(""), "-C", &first.to_string()]);
    watched.run();
    other.run();
    let run = tool.finish();
    assert_eq!(pids.map(|pid| run.sum("sys_enter", "pid", pid)), [3000, 0], "{}", run.stderr);
    is_exact(&run);
}

fn short_lived_tasks_have_their_counts_and_names() {
    const FORKS: u32 = 3000;
    let load = load::forks(FORKS);
    let pid = load.pid();
    let events = format!(
        "sched:sched_process_fork/parent_pid=={pid}/key=child_pid/comm=child_comm/alias=forks/,\
         sched:sched_process_exit//key=pid/comm=comm/alias=exits/"
    );
    let tool = in_kernel(&["-e", &events]);
    load.run();
    let run = tool.finish();
    run.is_complete();
    let rows: Vec<_> = run.of("row").filter(|row| row["forks"] == 1).collect();
    assert_eq!(rows.len(), FORKS as usize, "{}", run.stderr);
    let name = std::fs::read_to_string("/proc/thread-self/comm");
    let name = name.expect("this thread, which forked the load, has a name");
    let unnamed = rows.iter().filter(|row| row["child_comm"] != name.trim_end());
    assert_eq!(unnamed.count(), 0, "{:?}", rows.first());
}

/// Returns the numbers of the BPF programs that a process holds.
fn programs_of(pid: u32) -> BTreeSet<u32> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let number = |text: String| {
        text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
    };
    texts.filter_map(number).collect()
}

/// Returns the numbers of all BPF programs of the kernel.
fn programs() -> BTreeSet<u32> {
    /// `BPF_PROG_GET_NEXT_ID`
    const NEXT: libc::c_int = 11;
    let (mut found, mut last) = (BTreeSet::new(), 0u32);
    loop {
        let mut attr = [last, 0, 0, 0];
        // SAFETY: the command reads and writes the first two fields of an attr of 16 bytes.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, NEXT, attr.as_mut_ptr(), size_of_val(&attr)) };
        if result < 0 {
            return found;
        }
        last = attr[1];
        found.insert(last);
    }
}

fn a_killed_run_leaves_no_program() {
    let tool = in_kernel(&["-e", "sched:sched_switch,raw_syscalls:sys_enter"]);
    leaves_no_program(tool, 2);
}

/// Kills a run that has as many programs, and waits until the kernel has removed them.
pub(crate) fn leaves_no_program(tool: Tool, count: usize) {
    let own = programs_of(tool.pid());
    assert_eq!(own.len(), count, "a program for each event, and one for the end of threads");
    assert!(programs().is_superset(&own));
    // Kills it.
    drop(tool);
    let since = Instant::now();
    while programs().intersection(&own).next().is_some() {
        assert!(since.elapsed() < Duration::from_secs(20), "{own:?} are left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs `top` for a moment. Returns its exit code and stderr.
fn top(args: &[&str]) -> (Option<i32>, String) {
    perilune(&[&["top", "--duration", "300ms", "-v"], args].concat())
}

fn perilune(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(args)
        .output()
        .expect("the built command runs");
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    (output.status.code(), text.into_owned())
}

fn what_needs_records_is_refused_or_counted_in_user_space() {
    can_count();
    for (args, why) in [
        (&["-e", "sched:sched_switch", "-k", "_time"][..], "`_time`"),
        (&["-e", "sched:sched_switch/prev_comm ~ \"a*\"/"], "the filter 'prev_comm ~ \"a*\"'"),
        (&["-e", "sched:sched_switch//period=10/"], "its samples have options"),
        (&["-e", "cpu-clock"], "it is not a tracepoint"),
    ] {
        let (code, text) = top(&[&["--where", "kernel"], args].concat());
        assert_eq!(code, Some(1), "{text}");
        let refusal = format!("cannot be counted in the kernel: {why}");
        assert!(text.contains(&refusal), "{refusal}: {text}");
        let (code, text) = top(&[&["--where", "auto"], args].concat());
        assert_eq!(code, Some(0), "{text}");
        let note = format!("counted in user space: {}", usual_refusal().unwrap_or(why));
        assert!(text.contains(&note), "{note}: {text}");
    }
}

fn the_names_of_cgroups_come_from_records_by_default() {
    can_count();
    for key in ["_cgroup", "_container"] {
        let (code, text) = top(&["-e", "sched:sched_switch", "-k", key]);
        assert_eq!(code, Some(0), "{text}");
        let why = "a cgroup that is removed before the report would have no name";
        let note = format!("counted in user space: {}", usual_refusal().unwrap_or(why));
        assert!(text.contains(&note), "{note}: {text}");
        let event = format!("syscalls:sys_enter_write//num=count/key={key}/");
        let (code, text) = perilune(&["num-dist", "-e", &event, "--duration", "100ms", "-v"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(&note), "{note}: {text}");
    }
}

const SCRIPT: &str = r#"
local m = monitor { summary = "calls by process and number", every = "1s" }
function m.init()
  local calls = kv { "process", "nr", sums = { "args" }, count = "n" }
  calls:count(evsel("raw_syscalls:sys_enter", { filter = "args[0] % 2 == 1" }),
    { key = { "_pid", "id" }, sums = { "args[0] & 3" } })
end
return m
"#;

fn a_script_counts_in_the_kernel_by_declaring() {
    can_count();
    let load: Load = load::getppid_with_arguments(4001);
    let pid = load.pid();
    let file = tempfile::Builder::new().suffix(".lua").tempfile().expect("a temporary file");
    std::fs::write(file.path(), SCRIPT).expect("a script can be written");
    let path = file.path().to_str().expect("a path in UTF-8");
    let tools = ["kernel", "user"].map(|place| Tool::attach(&[path, "--where", place]));
    load.run();
    for run in tools.map(Tool::finish) {
        let of_calls =
            |row: &&serde_json::Value| row["process"] == pid && row["nr"] == libc::SYS_getppid;
        let sum = |column: &str| -> u64 {
            run.of("row").filter(of_calls).filter_map(|row| row[column].as_u64()).sum()
        };
        assert_eq!([sum("n"), sum("args")], [2000, 4000], "{:?}", run.objects);
        run.is_complete();
    }
}

/// The fields of random expressions, each at a multiple of its size.
pub(crate) const FORMAT: &str = "name: extremes\nID: 7\nformat:\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
    \tfield:signed char sb;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield:unsigned char ub;\toffset:9;\tsize:1;\tsigned:0;\n\
    \tfield:short sh;\toffset:10;\tsize:2;\tsigned:1;\n\
    \tfield:unsigned short uh;\toffset:12;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char zero;\toffset:14;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char one;\toffset:15;\tsize:1;\tsigned:0;\n\
    \tfield:int si;\toffset:16;\tsize:4;\tsigned:1;\n\
    \tfield:unsigned int ui;\toffset:20;\tsize:4;\tsigned:0;\n\
    \tfield:long sl;\toffset:24;\tsize:8;\tsigned:1;\n\
    \tfield:unsigned long ul;\toffset:32;\tsize:8;\tsigned:0;\n\
    \tfield:unsigned int count;\toffset:40;\tsize:4;\tsigned:0;\n\
    \tfield:char text[16];\toffset:44;\tsize:16;\tsigned:1;\n\
    \tfield:int ints[4];\toffset:60;\tsize:16;\tsigned:1;\n\
    \tfield:unsigned long longs[2];\toffset:80;\tsize:16;\tsigned:0;\n\
    \tfield:unsigned short shorts[2];\toffset:96;\tsize:4;\tsigned:0;\n\nprint fmt: \"\"\n";

fn the_verifier_accepts_random_expressions() {
    const EXPRESSIONS: usize = 3000;
    can_count();
    let format = Format::parse(FORMAT).expect("a format");
    let mut chance = chance::Chance(0x2468_ace0_1357_9bdf);
    let mut loaded = 0;
    for n in 0.. {
        let (text, _) = chance.tree(1 + n % 6);
        let Ok(KernelExpr::Integer(node, _)) = KernelExpr::parse(&text, &format) else { continue };
        let mut code = Assembler::default();
        code.copy(CONTEXT, BpfRegister::R1);
        code.set(THREAD, 1);
        code.set(UNDEFINED, 0);
        for at in [CPU_AT, PROCESS_AT] {
            code.store_constant(AccessSize::B8, BpfRegister::R10, at, 1);
        }
        if ExpressionWriter::new(&mut code).value(&node).is_none() {
            continue;
        }
        code.set(BpfRegister::R0, 1);
        code.exit();
        let code = code.finish().expect("all labels are placed");
        if let Err(why) = BpfProgram::load(BpfProgramType::Tracepoint, &code) {
            panic!("{text}: {why}");
        }
        loaded += 1;
        if loaded == EXPRESSIONS {
            break;
        }
    }
}
