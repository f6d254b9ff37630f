//! Functions of a program, watched at their calls and returns: a program that the test builds calls
//! them a known number of times with known arguments, from its main thread and from children.

use std::{
    collections::HashMap,
    io::Write as _,
    process::{Child, Command, Stdio},
    time::Instant,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    live::live_tests,
    tool::{Run, Tool},
};

pub(crate) mod clones;
pub(crate) mod in_kernel;
pub(crate) mod instructions;
pub(crate) mod many;
pub(crate) mod parameters;
pub(crate) mod refusals;
pub(crate) mod results;
pub(crate) mod tools;
pub(crate) mod traced;
pub(crate) mod usdt;

live_tests! {
    each_call_of_a_function_has_its_arguments_also_in_forked_children,
    a_stripped_program_still_has_its_exported_functions,
    each_return_of_a_function_has_its_return_value,
    an_int_is_half_a_register,
    a_running_process_is_watched_alone_and_can_still_fork,
    a_call_is_seen_once_even_if_its_thread_is_moved_to_another_cpu,
    stacks_name_the_callers,
    a_recording_of_calls_is_replayed_by_the_same_selector,
    functions_are_listed_and_selected_by_globs,
    nothing_is_left_behind_by_a_run_that_is_killed,
}

/// `chain N KIDS [WAIT]`: each child and then `main` itself calls `outer` N times, which calls
/// `work`, and `minus`. With WAIT it starts at one line on stdin and ends at the next.
const SOURCE: &str = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define PLAIN __attribute__((noipa))
PLAIN long work(long i, long who, long c, long d, long e, long f) { return i * 2 - who + c + d + e + f; }
PLAIN int minus(int i) { return -i; }
PLAIN long outer(long i, long who) { return work(i, who, -3, 1L << 62, 5, 6) + 1; }
static PLAIN long twice(void) { return 1; }
static PLAIN void calls(long n, long who) { for (long i = 0; i < n; i++) { outer(i, who); minus(i); } twice(); }
static void line(void) { char c; while (read(0, &c, 1) == 1 && c != '\n'); }
int main(int argc, char **argv) {
    long n = atol(argv[1]), kids = atol(argv[2]);
    if (argc > 3) line();
    for (long kid = 1; kid <= kids; kid++) {
        pid_t pid = fork();
        if (pid < 0) return 3;
        if (!pid) { calls(n, kid); _exit(0); }
    }
    calls(n, 0);
    int status, bad = 0;
    while (wait(&status) > 0) bad |= status;
    if (argc > 3) line();
    return bad != 0;
}
"#;

/// A compiled program.
pub(crate) struct Program {
    folder: TempDir,
}

impl Program {
    fn built(flags: &[&str]) -> Program {
        Program::of(SOURCE, flags)
    }

    pub(crate) fn of(source: &str, flags: &[&str]) -> Program {
        let folder = tempfile::tempdir().expect("there is room for a program");
        std::fs::write(folder.path().join("chain.c"), source).expect("it can be written");
        let program = Program { folder };
        program.run(
            Command::new("gcc")
                .args(["-O0", "-fno-omit-frame-pointer", "-o", "chain", "chain.c"])
                .args(flags),
        );
        program
    }

    pub(crate) fn run(&self, command: &mut Command) {
        let done = command.current_dir(self.folder.path()).output().expect("it is installed");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    pub(crate) fn path(&self) -> String {
        self.folder.path().join("chain").to_string_lossy().into_owned()
    }

    /// Returns the selector of one of its functions.
    pub(crate) fn function(&self, kind: &str, name: &str) -> String {
        format!("{kind}:{}:{name}", self.path())
    }

    /// Starts it; it waits for its lines on stdin.
    pub(crate) fn waiting(&self, n: u32, kids: u32) -> Child {
        let words = [n.to_string(), kids.to_string(), "wait".to_owned()];
        let mut command = Command::new(self.path());
        command.args(words).stdin(Stdio::piped()).spawn().expect("it was built")
    }

    /// Waits until its process has executed it: before that, its code is not mapped.
    pub(crate) fn wait_for_exec(&self, pid: u32) {
        let since = Instant::now();
        let exe = format!("/proc/{pid}/exe");
        while std::fs::read_link(&exe).ok() != Some(self.path().into()) {
            assert!(since.elapsed() < crate::load::PATIENCE);
            std::thread::yield_now();
        }
    }

    /// Returns the output of a run that watches the program from its start to its end.
    pub(crate) fn watched(&self, args: &[&str], n: u32, kids: u32) -> Run {
        self.with_arguments(args, &[&n.to_string(), &kids.to_string()])
    }

    /// Like [`Program::watched`], for a program with other arguments.
    pub(crate) fn with_arguments(&self, args: &[&str], own: &[&str]) -> Run {
        let path = self.path();
        watch(args, &[&[&*path], own].concat())
    }
}

/// Returns what `perilune ARGS… --json -- COMMAND` prints.
pub(crate) fn watch(args: &[&str], command: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(args)
        .args(["--json", "--duration", "120s", "--"])
        .args(command)
        .stdin(Stdio::null())
        .output()
        .expect("the built command runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    let object = |line: &str| serde_json::from_str(line).expect("JSON");
    Run {
        objects: printed.lines().map(object).collect(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code(),
    }
}

/// Returns the sum of a field over the events.
fn sum(run: &Run, field: &str) -> i128 {
    let value = |event: &Value| i128::from(event[field].as_i64().expect("a number"));
    run.of("event").map(value).sum()
}

pub(crate) fn next_line(child: &mut Child) {
    child.stdin.as_mut().expect("it is piped").write_all(b"\n").expect("it reads");
}

/// Calls per process.
const N: u32 = 700;
/// Number of children.
const KIDS: u32 = 3;

fn each_call_has_its_arguments(flags: &[&str], and_then: impl Fn(&Program)) {
    let program = Program::built(flags);
    and_then(&program);
    let run = program.watched(&["trace", "-e", &program.function("uprobe", "work")], N, KIDS);
    let (n, kids) = (i128::from(N), i128::from(KIDS));
    assert_eq!(run.of("event").count() as i128, n * (kids + 1), "{}", run.stderr);
    let each = n * (n - 1) / 2;
    assert_eq!(sum(&run, "arg1"), each * (kids + 1));
    assert_eq!(sum(&run, "arg2"), n * (1 + 2 + 3));
    for (field, value) in [("arg3", -3), ("arg4", 1_i64 << 62), ("arg5", 5), ("arg6", 6)] {
        assert!(run.of("event").all(|event| event[field] == value), "{field}");
    }
    run.is_complete();
}

fn each_call_of_a_function_has_its_arguments_also_in_forked_children() {
    each_call_has_its_arguments(&["-pie", "-fPIE"], |_| {});
    each_call_has_its_arguments(&["-no-pie"], |_| {});
}

fn a_stripped_program_still_has_its_exported_functions() {
    let strip = |program: &Program| program.run(Command::new("strip").arg("chain"));
    each_call_has_its_arguments(&["-rdynamic"], strip);
    let program = Program::built(&[]);
    strip(&program);
    let refused = program.watched(&["trace", "-e", &program.function("uprobe", "work")], 1, 0);
    assert!(refused.code.is_some_and(|code| code != 0));
    assert!(refused.stderr.contains("it was stripped"), "{}", refused.stderr);
}

fn each_return_of_a_function_has_its_return_value() {
    let program = Program::built(&[]);
    let run = program.watched(&["trace", "-e", &program.function("uretprobe", "work")], N, KIDS);
    let (n, kids) = (i128::from(N), i128::from(KIDS));
    assert_eq!(run.of("event").count() as i128, n * (kids + 1), "{}", run.stderr);
    let constant = -3 + (1 << 62) + 5 + 6;
    let all = (kids + 1) * (n * (n - 1) + n * constant) - n * (1 + 2 + 3);
    assert_eq!(sum(&run, "retval"), all);
    run.is_complete();
}

fn an_int_is_half_a_register() {
    let program = Program::built(&[]);
    let of = |condition: &str| {
        let event = format!("{}/{condition}/", program.function("uretprobe", "minus"));
        let run = program.watched(&["trace", "-e", &event], 10, 0);
        run.is_complete();
        run.of("event").count()
    };
    assert_eq!((of("(int)retval < 0"), of("(int)retval == -3"), of("retval == 0")), (9, 1, 1));
}

fn a_running_process_is_watched_alone_and_can_still_fork() {
    let program = Program::built(&[]);
    let (mut watched, mut other) = (program.waiting(N, KIDS), program.waiting(N, KIDS));
    let of = watched.id().to_string();
    // A file of another mount namespace is named through one of its processes.
    let through = format!("uprobe:/proc/{of}/root{}:work", program.path());
    let tool = Tool::attach(&["trace", "-e", &through, "-p", &of]);
    for child in [&mut watched, &mut other] {
        next_line(child);
    }
    // Both end at a second line, so that all of their calls have been made by then.
    for child in [&mut watched, &mut other] {
        next_line(child);
    }
    let ended = [&mut watched, &mut other].map(|child| child.wait().expect("our own child"));
    assert!(ended.iter().all(std::process::ExitStatus::success), "{ended:?}");
    let run = tool.finish();
    let mut calls = HashMap::new();
    for event in run.of("event") {
        let call = (event["tid"].to_string(), event["arg1"].to_string());
        let before = calls.insert(call, event);
        assert!(before.is_none(), "seen twice: {before:?} {event:?}");
    }
    assert_eq!(calls.len() as u32, N * (KIDS + 1), "{}", run.stderr);
    assert_eq!(sum(&run, "arg2"), i128::from(N) * (1 + 2 + 3));
    run.is_complete();
}

/// Calls `work` N times, while a child moves it from one CPU to the other all the time.
const MOVED: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noipa)) long work(long i) { return i + 1; }
int main(int argc, char **argv) {
    pid_t self = getpid(), mover = fork();
    for (int cpu = 0; !mover; cpu ^= 1) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(self, sizeof one, &one)) _exit(1);
        usleep(20);
    }
    for (long i = 0, n = atol(argv[1]); i < n; i++) work(i);
    kill(mover, SIGKILL);
    return waitpid(mover, NULL, 0) != mover;
}
"#;

fn a_call_is_seen_once_even_if_its_thread_is_moved_to_another_cpu() {
    const CALLS: u32 = 20_000;
    let program = Program::of(MOVED, &[]);
    let event = program.function("uprobe", "work");
    let run = program.watched(&["trace", "-m", "1024", "-e", &event], CALLS, 0);
    let mut calls = HashMap::new();
    for event in run.of("event") {
        let before = calls.insert(event["arg1"].to_string(), event);
        assert!(before.is_none(), "seen twice: {before:?} {event:?}");
    }
    assert_eq!(calls.len() as u32, CALLS, "{}", run.stderr);
    run.is_complete();
}

fn stacks_name_the_callers() {
    for flags in [&[][..], &["-O1", "-fomit-frame-pointer"]] {
        stacks_name_the_callers_of(&Program::built(flags), flags.is_empty());
    }
}

/// With `has_frames` every function has a frame; otherwise only the direct caller can be found
/// without unwind tables.
fn stacks_name_the_callers_of(program: &Program, has_frames: bool) {
    for (kind, frames) in [
        ("uprobe", &["work+0x0", "outer+", "calls+", "main+"][..]),
        ("uretprobe", &["outer+", "calls+", "main+"]),
    ] {
        for walk in ["--call-graph=fp", "--call-graph=dwarf"] {
            let event = format!("{}//stack/", program.function(kind, "work"));
            let run = program.watched(&["trace", walk, "-e", &event], 5, 0);
            assert_eq!(run.of("event").count(), 5, "{}", run.stderr);
            for event in run.of("event") {
                let stack = event["stack"].as_array().expect("a stack");
                let known = if has_frames || walk.ends_with("dwarf") { frames.len() } else { 2 };
                if kind == "uretprobe" && known == 2 {
                    continue;
                }
                for (frame, name) in stack.iter().zip(&frames[..known]) {
                    assert!(frame.as_str().is_some_and(|f| f.contains(name)), "{walk}: {event}");
                }
                // The registers follow the copy of the stack.
                if kind == "uprobe" {
                    assert_eq!((&event["arg3"], &event["arg6"]), (&(-3).into(), &6.into()));
                }
            }
            run.is_complete();
        }
    }
}

fn a_recording_of_calls_is_replayed_by_the_same_selector() {
    let program = Program::built(&[]);
    program.run(Command::new("cp").args(["chain", "a chain, of: calls"]));
    let path = program.folder.path().join("a chain, of: calls");
    let event = format!("uprobe:{path:?}:work//stack/");
    let events = program.folder.path().join("calls.events");
    let (file, path) = (events.to_string_lossy(), path.to_string_lossy());
    let perilune = |args: &[&str]| {
        let run =
            Command::new(env!("CARGO_BIN_EXE_perilune")).args(args).output().expect("it runs");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8(run.stdout).expect("text")
    };
    perilune(&["trace", "-e", &event, "--events", "-o", &file, "--", &path, "20", "1"]);
    let printed =
        perilune(&["trace", "-e", &event.replace("//", "/arg1 < 3/"), "--json", "--replay", &file]);
    let objects: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let replayed: Vec<_> = objects.iter().filter(|object| object["type"] == "event").collect();
    assert_eq!(replayed.len(), 2 * 3, "{printed}");
    for event in replayed {
        assert_eq!((&event["arg3"], &event["arg4"]), (&(-3).into(), &(1_i64 << 62).into()));
        assert!(event["stack"][0].as_str().is_some_and(|frame| frame.contains("work+0x0")));
    }
}

fn functions_are_listed_and_selected_by_globs() {
    let program = Program::built(&[]);
    let list = |pattern: &str| {
        let words = ["list", &program.function("uprobe", pattern)];
        let run =
            Command::new(env!("CARGO_BIN_EXE_perilune")).args(words).output().expect("it runs");
        let text = String::from_utf8(run.stdout).expect("text");
        text.lines()
            .filter_map(|line| Some(line.split_whitespace().next()?.rsplit_once(':')?.1.to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(list("o*"), ["outer"]);
    assert_eq!(list("wor"), ["work"]);
    assert!(list("").contains(&"main".to_owned()));
    let run =
        program.watched(&["trace", "-e", &program.function("uprobe", "[mow][iou][nrt]*")], 10, 0);
    let of = |name: &str| {
        run.of("event").filter(|e| e["event"] == program.function("uprobe", name)).count()
    };
    assert_eq!(
        (of("outer"), of("work"), of("minus"), of("main")),
        (10, 10, 10, 0),
        "{}",
        run.stderr
    );
    run.is_complete();
}

fn nothing_is_left_behind_by_a_run_that_is_killed() {
    let program = Program::built(&["-no-pie"]);
    let mut child = program.waiting(1, 0);
    let bytes = || instructions::first_bytes(&program, child.id(), "work");
    program.wait_for_exec(child.id());
    let before = bytes();
    let tool = Tool::attach(&["trace", "-e", &program.function("uprobe", "work")]);
    let watched = bytes();
    assert_ne!(watched, before, "there is a breakpoint");
    assert!(cfg!(not(target_arch = "x86_64")) || watched[0] == 0xcc, "{watched:x?}");
    let killed = tool.pid();
    drop(tool);
    assert_eq!(bytes(), before);
    // The next run removes what the killed one left in tracefs, and its own event at its end.
    let run = program.watched(&["trace", "-e", &program.function("uprobe", "work")], 1, 0);
    assert_eq!(run.of("event").count(), 1, "{}", run.stderr);
    let left = std::fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap_or_default();
    assert!(!left.contains(&format!(":perilune_{killed}/")), "{left}");
    for _ in 0..2 {
        next_line(&mut child);
    }
    assert!(child.wait().expect("our own child").success());
}
