//! Many functions at once, by one BPF link: a program calls 300 functions, each a known number of
//! times.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Program, instructions, next_line};
use crate::live::{live_tests, skip_anywhere};
use crate::tool::{Run, Tool};

live_tests! {
    calls_of_300_functions_are_counted_exactly_by_one_link,
    calls_of_functions_whose_parameters_are_not_read_are_counted_by_one_link,
    returns_of_300_functions_are_counted_exactly_by_one_link,
    times_and_addresses_of_300_functions_need_no_parameters,
    calls_beside_a_flood_of_another_process_are_counted_or_lost,
    arguments_and_callers_are_read_through_a_link,
    a_link_leaves_nothing_behind_if_the_run_is_killed,
    an_interrupt_ends_the_opening_of_many_probes,
}

/// Number of functions.
const COUNT: usize = 300;

/// `chain ROUNDS PAUSE_US [WAIT]`: calls `many_I(I, round)` I % 7 + 1 times in each round, after a
/// pause unless it is 0, and once more in a child. With WAIT it starts at one line on stdin and
/// ends at the next.
fn program(flags: &[&str]) -> Program {
    let (mut functions, mut calls) = (String::new(), String::new());
    for i in 0..COUNT {
        let _ = writeln!(functions, "PLAIN long many_{i}(long i, long r) {{ return i * 2 + r; }}");
        let _ = writeln!(calls, "for (int n = 0; n < {}; n++) many_{i}({i}, r);", i % 7 + 1);
    }
    let source = format!(
        "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
         #define PLAIN __attribute__((noipa))\n{functions}\
         static PLAIN void round_of_calls(long r) {{\n{calls}}}\n\
         static void line(void) {{ char c; while (read(0, &c, 1) == 1 && c != '\\n'); }}\n\
         int main(int argc, char **argv) {{\n\
         long rounds = atol(argv[1]), pause = atol(argv[2]);\n\
         if (argc > 3) line();\n\
         if (!fork()) {{ round_of_calls(0); _exit(0); }}\n\
         for (long r = 0; r < rounds; r++) {{ if (pause) usleep(pause); round_of_calls(r); }}\n\
         wait(0);\n\
         if (argc > 3) line();\n\
         return 0; }}\n"
    );
    Program::of(&source, flags)
}

/// Another process that calls the functions, and must not be counted.
struct OtherCaller(Child);

impl OtherCaller {
    fn start(program: &Program, pause_us: &str) -> OtherCaller {
        let mut command = Command::new(program.path());
        command.args(["1000000000", pause_us]);
        OtherCaller(command.stdin(Stdio::null()).spawn().expect("it was built"))
    }
}

impl Drop for OtherCaller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns whether the functions were opened by a link; prints why not.
fn is_linked(run: &Run) -> bool {
    let note = notes(run).find(|text| text.contains("a probe for each of"));
    note.inspect(|why| skip_anywhere(&format!("no BPF link: {why}"))).is_none()
}

/// Skips a test of more functions than probes can watch where the kernel has no such link.
fn needs_link() {
    if !perilune::sys::machine::is_linux_since((6, 6)) {
        skip_anywhere("a BPF link of functions needs Linux 6.6");
    }
}

fn notes(run: &Run) -> impl Iterator<Item = &str> {
    run.of("note").filter_map(|note| note["text"].as_str())
}

/// Returns the number of calls of each function.
fn calls_of(run: &Run) -> HashMap<String, u64> {
    let mut calls = HashMap::new();
    for row in run.of("row") {
        let name = row["function"].as_str().expect("a name").to_owned();
        *calls.entry(name).or_default() += row["calls"].as_u64().expect("a number");
    }
    calls
}

fn counted(kind: &str, flags: &[&str]) {
    needs_link();
    let program = program(flags);
    let event = program.function(kind, "many_*");
    let other = OtherCaller::start(&program, "200000");
    let began = Instant::now();
    let run = program.with_arguments(&["funccount", "-v", "-e", &event], &["9", "0"]);
    let took = began.elapsed();
    drop(other);
    if !is_linked(&run) {
        return;
    }
    let linked = format!("{kind}: one BPF link for {COUNT} functions");
    assert!(notes(&run).any(|text| text == linked), "{:?}", notes(&run).collect::<Vec<_>>());
    let calls = calls_of(&run);
    assert_eq!(calls.len(), COUNT, "{calls:?}");
    for i in 0..COUNT {
        // Nine rounds, and one in the child.
        assert_eq!(calls.get(&format!("many_{i}")), Some(&(10 * (i as u64 % 7 + 1))), "many_{i}");
    }
    run.is_complete();
    // Probes would take 25 s to close.
    assert!(took < Duration::from_secs(10), "{took:?}");
}

fn calls_of_300_functions_are_counted_exactly_by_one_link() {
    counted("uprobe", &[]);
}

fn calls_of_functions_whose_parameters_are_not_read_are_counted_by_one_link() {
    counted("uprobe", &["-g"]);
}

fn returns_of_300_functions_are_counted_exactly_by_one_link() {
    counted("uretprobe", &[]);
}

fn times_and_addresses_of_300_functions_need_no_parameters() {
    needs_link();
    let program = program(&["-g"]);
    let event = program.function("uprobe", "many_*");
    let timed = program.with_arguments(&["funclatency", "-v", "-e", &event], &["9", "0"]);
    if !is_linked(&timed) {
        return;
    }
    timed.is_complete();
    let calls = calls_of(&timed);
    assert_eq!(calls.len(), COUNT, "{}", timed.stderr);
    assert!((0..COUNT).all(|i| calls[&format!("many_{i}")] == 10 * (i as u64 % 7 + 1)));
    let by_address = ["top", "-v", "-e", &event, "-k", "_ip"];
    let top = program.with_arguments(&by_address, &["9", "0"]);
    assert!(notes(&top).any(|text| text.contains("one BPF link for 300 functions")));
    assert_eq!(top.coverage()["events"], (0..COUNT as u64).map(|i| 10 * (i % 7 + 1)).sum::<u64>());
    top.is_complete();
    // A field of its own needs a probe.
    let by_field = program.with_arguments(&["top", "-e", &event, "-k", "r"], &["1", "0"]);
    assert!(by_field.stderr.contains("exceed the limit of 256"), "{}", by_field.stderr);
}

fn calls_beside_a_flood_of_another_process_are_counted_or_lost() {
    needs_link();
    let program = program(&[]);
    let event = program.function("uprobe", "many_*");
    let flood = OtherCaller::start(&program, "0");
    let run = program.with_arguments(&["funccount", "-v", "-e", &event], &["300", "200"]);
    drop(flood);
    if !is_linked(&run) {
        return;
    }
    let calls: u64 = calls_of(&run).values().sum();
    let each: u64 = (0..COUNT as u64).map(|i| i % 7 + 1).sum();
    let coverage = run.of("coverage").last().expect("one at the end");
    let lost = coverage["lost"].as_u64().expect("a number");
    assert!((301 * each).saturating_sub(lost) <= calls && calls <= 301 * each, "{coverage}");
}

fn arguments_and_callers_are_read_through_a_link() {
    let program = program(&[]);
    let event = program.function("uprobe", "many_1?");
    let run = program.with_arguments(&["trace", "-v", "--call-graph", "-e", &event], &["2", "0"]);
    if !is_linked(&run) {
        return;
    }
    let mut calls = 0;
    for event in run.of("event") {
        let name = event["event"].as_str().expect("a name");
        let (_, index) = name.rsplit_once("many_").expect("its function");
        assert_eq!(event["arg1"].as_i64(), index.parse().ok(), "{event}");
        assert!(matches!(event["arg2"].as_i64(), Some(0 | 1)), "{event}");
        assert!(event["stack"].to_string().contains("round_of_calls"), "{event}");
        calls += 1;
    }
    let each: u64 = (10..20).map(|i| i % 7 + 1).sum();
    assert_eq!(calls, 3 * each, "{}", run.stderr);
}

fn a_link_leaves_nothing_behind_if_the_run_is_killed() {
    needs_link();
    let program = program(&["-no-pie"]);
    let mut child = Command::new(program.path())
        .args(["1", "0", "wait"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("it was built");
    program.wait_for_exec(child.id());
    let bytes = || instructions::first_bytes(&program, child.id(), "many_299");
    let before = bytes();
    let tool = Tool::attach(&["funccount", "-e", &program.function("uprobe", "many_*")]);
    assert_ne!(bytes(), before, "there is a breakpoint");
    drop(tool);
    assert_eq!(bytes(), before);
    for _ in 0..2 {
        next_line(&mut child);
    }
    assert!(child.wait().expect("our own child").success());
}

fn an_interrupt_ends_the_opening_of_many_probes() {
    // Functions with known parameters have a probe each.
    let program = program(&["-g"]);
    let child = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["trace", "-e", &program.function("uprobe", "many_[12]*")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the built command runs");
    let (since, first) = (Instant::now(), format!(":perilune_{}/", child.id()));
    let events = || {
        let text = std::fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap_or_default();
        text.matches(&first).count()
    };
    while events() == 0 {
        assert!(since.elapsed() < crate::load::PATIENCE);
        std::thread::yield_now();
    }
    // SAFETY: takes no pointer; the child has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let output = child.wait_with_output().expect("our own child");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(printed.contains("interrupted while events were opened"), "{printed}");
    assert_eq!(events(), 0);
}
