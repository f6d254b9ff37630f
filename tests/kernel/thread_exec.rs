//! Programs that a thread executes that is not the first one of its process. It ends under its own
//! number, which has no EXIT record, and continues under that of the first thread.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use perilune::sys::machine::is_linux_since;

use crate::functions::{Program, next_line};
use crate::live::{live_tests, skip_anywhere};
use crate::load::never_idle;
use crate::tool::{Run, Tool};

live_tests! {
    the_replaced_program_ends_by_exec,
    the_old_thread_is_not_shown_as_running,
    the_execve_began_in_another_thread,
    a_watched_thread_is_watched_after_its_exec,
    the_program_keeps_its_ancestors,
}

/// The second thread prints its number, waits for a line, calls getppid 700 times and executes the
/// program again with an argument. Then the first one calls it 300 times, and the program ends
/// with the exit code 5.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
static void calls(int n) { while (n--) syscall(SYS_getppid); }
static void *other(void *path) {
    char c;
    printf("%ld\n", syscall(SYS_gettid));
    fflush(stdout);
    read(0, &c, 1);
    calls(700);
    execl(path, "next", "1", (char *)0);
    return 0;
}
int main(int argc, char **argv) {
    pthread_t thread;
    if (argc > 1) { usleep(500000); calls(300); return 5; }
    if (pthread_create(&thread, 0, other, argv[0])) return 1;
    for (;;) pause();
}
"#;

const ALL_CALLS: u64 = 1000;

/// A running program whose second thread waits.
struct Waiting {
    child: Child,
    tid: u32,
}

impl Waiting {
    fn start(program: &Program) -> Waiting {
        let mut command = Command::new(program.path());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it was built");
        let mut line = String::new();
        let output =
            BufReader::new(child.stdout.as_mut().expect("it is piped")).read_line(&mut line);
        output.expect("it prints a line");
        Waiting { child, tid: line.trim().parse().expect("the number of its thread") }
    }

    /// Returns the output of the tool, which ends after the program.
    fn run(mut self, tool: Tool) -> Run {
        next_line(&mut self.child);
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(5));
        tool.finish()
    }
}

fn built() -> Program {
    Program::of(SOURCE, &["-pthread"])
}

fn getppid() -> String {
    format!("raw_syscalls:sys_enter/id == {}/", libc::SYS_getppid)
}

fn the_replaced_program_ends_by_exec() {
    let program = built();
    let tool = Tool::attach(&["execs"]);
    let waiting = Waiting::start(&program);
    let pid = waiting.child.id();
    let run = waiting.run(tool);
    let rows: Vec<_> = run.of("row").filter(|row| row["pid"] == pid).collect();
    let [old, new] = rows[..] else { panic!("{rows:?} {}", run.stderr) };
    let exit = if is_linux_since((6, 16)) { "exec" } else { "KILL" };
    assert_eq!((&old["exit"], &old["comm"]), (&exit.into(), &"chain".into()), "{old}");
    assert_eq!((&new["exit"], &new["args"]), (&5.into(), &"next 1".into()), "{new}");
    let own = std::process::id();
    assert!(rows.iter().all(|row| row["ppid"] == own), "{rows:?}");
    run.is_complete();
}

fn the_old_thread_is_not_shown_as_running() {
    let _busy = never_idle();
    let program = built();
    for _ in 0..5 {
        let waiting = Waiting::start(&program);
        let (pid, tid) = (waiting.child.id(), waiting.tid);
        let args = ["task-state", "--than", "100ms", "--perins", "-p", &pid.to_string()];
        let run = waiting.run(Tool::attach(&args));
        let rows: Vec<_> = run.of("row").filter(|row| row["tid"] == tid).collect();
        assert!(rows.iter().all(|row| row["table"] != "not_ended"), "{rows:?}");
        let ran = rows.iter().filter(|row| row["state"] == "R" && row["calls"].is_u64());
        match ran.count() {
            1 => return,
            // The kernel wrote no record of some events; the switch to the thread may be one.
            0 if run.coverage()["undelivered"] != 0 => {}
            calls => panic!("{calls} rows: {:?}", run.objects),
        }
    }
    skip_anywhere("this kernel wrote no record of some switches")
}

fn the_execve_began_in_another_thread() {
    let program = built();
    for place in ["kernel", "user"] {
        let waiting = Waiting::start(&program);
        let of = waiting.child.id().to_string();
        let run = waiting.run(Tool::attach(&["syscalls", "--where", place, "-p", &of]));
        let execs: Vec<_> = run.of("row").filter(|row| row["syscall"] == "execve").collect();
        let [unpaired] = execs[..] else { panic!("{place}: {execs:?} {}", run.stderr) };
        let why = "began before the run or in another thread";
        assert_eq!((&unpaired["unpaired"], &unpaired["calls"]), (&why.into(), &1.into()));
        assert_eq!(run.sum("calls", "syscall", "getppid"), ALL_CALLS, "{place}");
    }
}

fn a_watched_thread_is_watched_after_its_exec() {
    let program = built();
    for further in [&["--order"][..], &[]] {
        let waiting = Waiting::start(&program);
        let (event, of) = (getppid(), waiting.tid.to_string());
        let args = ["top", "-e", &event, "-k", "_pid", "--where", "user", "-t", &of];
        let pid = waiting.child.id();
        let run = waiting.run(Tool::attach(&[&args, further].concat()));
        assert_eq!(run.sum("sys_enter", "pid", pid), ALL_CALLS, "{further:?} {:?}", run.objects);
        run.is_complete();
    }
}

fn the_program_keeps_its_ancestors() {
    let text = format!(
        "local m = monitor {{ summary = 'ancestors', order = true }}
         function m.init()
           local calls = kv {{ 'ancestors' }}
           evsel('{}', function(e) calls:add(select(2, ancestry(e._pid):gsub('<%-', ''))) end)
         end
         return m",
        getppid()
    );
    let (_folder, script) = crate::script::written(&text);
    let program = built();
    let waiting = Waiting::start(&program);
    let tool = Tool::attach(&[&script, "-p", &waiting.child.id().to_string()]);
    let run = waiting.run(tool);
    let counts: Vec<_> = run.of("row").filter_map(|row| row["count"].as_u64()).collect();
    // One row: the first 700 calls and those after the exec have the same number of ancestors.
    assert_eq!(counts, [ALL_CALLS], "{:?}", run.objects);
    run.is_complete();
}
