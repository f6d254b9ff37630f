//! syscalls: calls selected by name, and calls without a return.

use std::process::Command;

use serde_json::Value;

use crate::functions::{Program, next_line};
use crate::live::live_tests;
use crate::load;
use crate::tool::{Run, Tool};

live_tests! {
    only_the_selected_calls_are_counted,
    a_call_that_does_not_return_is_counted,
    a_call_that_has_not_returned_is_shown_with_its_age,
    a_call_that_the_last_event_began_has_no_age,
    returns_from_signal_handlers_are_counted_wherever_calls_are_paired,
    arguments_of_common_calls_have_the_names_of_their_values,
    a_call_is_printed_with_its_parameters_and_its_result,
}

/// Calls with known arguments, each in a way that no library makes at its start.
const CALLS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
int main(void) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return 1;
    int server = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    mmap(0, 8192, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int file = open("/etc/passwd", O_RDONLY | O_NOFOLLOW | O_DIRECTORY);
    file = open("/etc/passwd", O_RDONLY | O_APPEND);
    lseek(file, 0, SEEK_HOLE);
    fcntl(file, F_DUPFD_CLOEXEC, 9);
    flock(file, LOCK_SH | LOCK_NB);
    madvise(0, 0, MADV_PAGEOUT);
    send(server, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    kill(getpid(), SIGCONT);
    return 0;
}
"#;

fn arguments_of_common_calls_have_the_names_of_their_values() {
    let run = Program::of(CALLS, &[]).with_arguments(&["syscalls", "--than", "0"], &[]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for (call, column, text) in [
        ("pipe2", "flags", "NONBLOCK|CLOEXEC"),
        ("socket", "domain", "INET6"),
        ("socket", "socket_type", "STREAM|CLOEXEC"),
        ("mmap", "flags", "SHARED|ANONYMOUS|NORESERVE"),
        ("mmap", "prot", "READ|EXEC"),
        ("mmap", "prot", "NONE"),
        ("openat", "flags", "RDONLY|DIRECTORY|NOFOLLOW"),
        ("openat", "flags", "RDONLY|APPEND"),
        ("lseek", "whence", "HOLE"),
        ("fcntl", "op", "DUPFD_CLOEXEC"),
        ("flock", "op", "SH|NB"),
        ("madvise", "advice", "PAGEOUT"),
        ("sendto", "flags", "DONTWAIT|NOSIGNAL"),
        ("kill", "sig", "CONT"),
    ] {
        let found = run.of("event").any(|line| line["syscall"] == call && line[column] == text);
        assert!(found, "{call} {column}={text}: {:?}", run.objects);
    }
}

fn a_call_is_printed_with_its_parameters_and_its_result() {
    let run = Program::of(CALLS, &[]).with_arguments(&["syscalls", "--than", "0"], &[]);
    let texts: Vec<&str> = run.of("event").filter_map(|line| line["text"].as_str()).collect();
    for call in [
        "lseek(fd=6, offset=0, whence=HOLE)",
        "mmap(addr=NULL, len=8192, prot=NONE, flags=PRIVATE|ANONYMOUS, fd=-1, off=0)",
        "fcntl(fd=6, op=DUPFD_CLOEXEC, arg=9)",
        "getpid()",
        "madvise(start=NULL, len_in=0, advice=PAGEOUT)",
        "openat = -20 ENOTDIR",
        "fcntl = 9",
        "getpid = ",
    ] {
        assert!(texts.iter().any(|text| text.starts_with(call)), "{call}: {texts:?}");
    }
    let opens = texts.iter().filter(|text| {
        text.starts_with("openat(dfd=AT_FDCWD, filename=0x")
            && text.ends_with(", flags=RDONLY|APPEND, mode=0x0)")
    });
    assert_eq!(opens.count(), 1, "{texts:?}");
}

fn only_the_selected_calls_are_counted() {
    for (option, names, calls) in [("--only", "getpp*,close", 3000), ("--not", "getppid", 0)] {
        let load = load::getppid(3000);
        let args = ["syscalls", option, names, "-p", &load.pid().to_string()];
        let run = crate::watch(&args, load);
        assert_eq!(run.sum("calls", "syscall", "getppid"), calls, "{option}: {:?}", run.objects);
        let other = run.of("row").any(|row| row["syscall"] == "exit_group");
        assert_eq!(other, option == "--not", "{:?}", run.objects);
        run.is_complete();
    }
}

fn a_call_that_has_not_returned_is_shown_with_its_age() {
    for place in ["kernel", "user"] {
        let run = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .args(["syscalls", "--where", place, "--duration", "1", "--json", "--", "sleep", "30"])
            .output()
            .expect("the built command runs");
        let text = String::from_utf8_lossy(&run.stdout);
        let rows = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        let open: Vec<Value> = rows.filter(|row: &Value| row["table"] == "in_progress").collect();
        let [row] = &open[..] else { panic!("{place}: {text}") };
        assert_eq!(row["syscall"], "clock_nanosleep", "{text}");
        let age = row["for_ms"].as_f64().unwrap_or_else(|| panic!("{row}"));
        assert!((500.0..1500.0).contains(&age), "{place}: {row}");
    }
}

fn a_call_that_the_last_event_began_has_no_age() {
    let mut ages = Vec::new();
    // One of two successive events begins a call.
    for events in ["99", "100"] {
        let load = load::getppid(3000);
        let args = ["syscalls", "--only", "getppid", "-N", events, "-p", &load.pid().to_string()];
        let run = crate::watch(&args, load);
        let open = run.of("row").filter(|row| row["table"] == "in_progress");
        ages.extend(open.map(|row| row["for_ms"].clone()));
    }
    assert_eq!(ages, [0.0]);
}

fn a_call_that_does_not_return_is_counted() {
    let load = load::forks(20);
    let parent = load.pid();
    let run = crate::watch(&["syscalls", "--only", "exit_group", "-p", &parent.to_string()], load);
    // Each child ends with exit_group, and so does their parent.
    let rows = run.of("row").filter(|row| row["unpaired"] == "does not return");
    let calls: u64 = rows.filter_map(|row| row["calls"].as_u64()).sum();
    assert_eq!(calls, 21, "{:?}", run.objects);
}

/// Waits for a line if it has an argument, and raises a handled signal 1000 times.
const SIGNALS: &str = r#"
#include <signal.h>
#include <unistd.h>
static void handle(int number) { (void)number; }
int main(int count, char **words) {
    char go;
    (void)words;
    if (count > 1 && read(0, &go, 1) != 1) return 1;
    signal(SIGUSR1, handle);
    for (int i = 0; i < 1000; i++) kill(getpid(), SIGUSR1);
    return 0;
}
"#;

/// Asserts that a run has 1000 calls of rt_sigreturn, all without a return, and missed none.
fn has_all_sigreturns(run: &Run, args: &[&str]) {
    let is_unpaired = |row: &&serde_json::Value| row["unpaired"] == "does not return";
    let rows = run.of("row").filter(|row| row["syscall"] == "rt_sigreturn").filter(is_unpaired);
    let calls: u64 = rows.filter_map(|row| row["calls"].as_u64()).sum();
    assert_eq!(calls, 1000, "{args:?}: {:?}", run.objects);
    assert_eq!(run.sum("calls", "syscall", "rt_sigreturn"), 1000, "{args:?}: {:?}", run.objects);
    assert_eq!(run.coverage()["unmatched"], 0, "{args:?}: {}", run.coverage());
    run.is_complete();
}

fn returns_from_signal_handlers_are_counted_wherever_calls_are_paired() {
    let program = Program::of(SIGNALS, &[]);
    for place in ["kernel", "user"] {
        for selected in [["--only", "rt_sig*,kill"], ["--not", "getpid"]] {
            let args = [&["syscalls", "--where", place], &selected[..]].concat();
            has_all_sigreturns(&program.with_arguments(&args, &[]), &args);
            let mut child = program.waiting(1, 0);
            program.wait_for_exec(child.id());
            let pid = child.id().to_string();
            let args = [&args[..], &["-p", &pid]].concat();
            let tool = Tool::attach(&args);
            next_line(&mut child);
            assert!(child.wait().expect("our own child can be waited for").success());
            has_all_sigreturns(&tool.finish(), &args);
        }
    }
}
