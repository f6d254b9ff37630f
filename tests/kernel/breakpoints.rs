//! Hardware breakpoints: a program that the test builds writes to its variables, and calls its
//! functions, a known number of times, from its main thread, from threads and from children.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::process::Command;

use serde_json::Value;

use crate::functions::{Program, next_line};
use crate::live::{live_tests, skip_anywhere};
use crate::load;
use crate::tool::{Run, Tool};
use hits::needs_each_hit;

pub(crate) mod hits;
pub(crate) mod mapped_files;
pub(crate) mod registers;
pub(crate) mod waiting;

live_tests! {
    each_write_is_an_event_also_of_threads_and_children,
    writes_reads_and_executions_are_distinguished,
    a_write_is_counted_once,
    running_processes_are_watched_at_their_own_addresses,
    a_child_that_executes_a_program_is_no_longer_watched,
    a_program_that_a_wrapper_executes_is_watched_to_its_end,
    stacks_name_the_writer,
    a_recording_is_replayed_by_the_same_selector,
    a_fifth_breakpoint_is_refused,
    breakpoints_that_cannot_be_set_are_refused_with_the_reason,
    symbols_are_listed,
    an_ordinary_user_watches_a_program_in_user_mode_only,
    each_call_of_a_kernel_function_is_an_event,
    each_read_of_the_kernel_from_its_own_memory_is_an_event,
}

/// `chain N KIDS [WAIT]`: `main`, two threads and each child write to `counter` N times. With WAIT
/// it starts at one line on stdin and ends at the next.
const SOURCE: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define PLAIN __attribute__((noipa))
volatile long counter;
volatile char flags[8];
__thread volatile long own;
PLAIN void store(long i) { counter = i; }
PLAIN long fetch(void) { return counter; }
static PLAIN void writes(long n) { for (long i = 0; i < n; i++) store(i); }
static void *thread(void *n) { writes((long)n); return 0; }
static void line(void) { char c; while (read(0, &c, 1) == 1 && c != '\n'); }
int main(int argc, char **argv) {
    long n = atol(argv[1]), kids = atol(argv[2]);
    if (n < 0) { writes(-n); return 0; }
    if (argc > 3) line();
    for (long kid = 0; kid < kids; kid++)
        if (!fork()) { writes(n); _exit(0); }
    if (!fork()) execl("/proc/self/exe", "again", "-50", "0", (char *)0);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, thread, (void *)n);
    writes(n);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    while (wait(0) > 0);
    for (long i = 0; i < n; i++) fetch();
    flags[1] = 1;
    if (argc > 3) line();
    return 0;
}
"#;

/// Writes per thread.
const N: u32 = 100;
/// Number of children.
const KIDS: u32 = 3;
/// Main thread, threads and children.
const WRITERS: u32 = 1 + 2 + KIDS;

/// Builds the program for a test that counts hits.
fn built(flags: &[&str]) -> Program {
    needs_each_hit();
    program(flags)
}

fn program(flags: &[&str]) -> Program {
    Program::of(SOURCE, &[&["-pthread"], flags].concat())
}

/// Returns the name of a breakpoint of the program.
fn at(program: &Program, place: &str) -> String {
    format!("mem:{}:{place}", program.path())
}

fn traced(program: &Program, event: &str) -> Run {
    let run = program.watched(&["trace", "-e", event], N, KIDS);
    run.is_complete();
    run
}

fn events(run: &Run) -> u32 {
    run.of("event").count() as u32
}

fn each_write_is_an_event_also_of_threads_and_children() {
    for flags in [&["-pie", "-fPIE"][..], &["-no-pie"]] {
        let program = built(flags);
        let run = traced(&program, &at(&program, "counter:w"));
        assert_eq!(events(&run), N * WRITERS, "{flags:?}: {}", run.stderr);
        let tids: HashSet<String> = run.of("event").map(|event| event["tid"].to_string()).collect();
        assert_eq!(tids.len() as u32, WRITERS);
    }
}

fn writes_reads_and_executions_are_distinguished() {
    let program = built(&[]);
    let of = |place: &str| events(&traced(&program, &at(&program, place)));
    assert_eq!(of("counter/8:rw"), N * WRITERS + N);
    assert_eq!(of("store:x"), N * WRITERS);
    assert_eq!(of("store"), N * WRITERS, "a function is executed");
    assert_eq!(of("fetch"), N);
    assert_eq!((of("flags+1/1:w"), of("flags+2/1:w"), of("flags:w")), (1, 0, 1));
}

fn a_write_is_counted_once() {
    let program = built(&[]);
    let event = at(&program, "counter:w");
    let run = program.watched(&["stat", "-e", &event], N, KIDS);
    let counts: Vec<&Value> = run.of("row").collect();
    let of_event = |row: &&&Value| row.to_string().contains("counter:w");
    let row = counts.iter().find(of_event).unwrap_or_else(|| panic!("{:?}", run.objects));
    assert!(row.to_string().contains(&format!(":{}", N * WRITERS)), "{row}");
}

fn running_processes_are_watched_at_their_own_addresses() {
    let program = built(&["-pie", "-fPIE"]);
    let mut children = [(); 3].map(|()| program.waiting(N, KIDS));
    children.iter().for_each(|child| program.wait_for_exec(child.id()));
    let [first, second, _] = &children;
    let watched = format!("{},{}", first.id(), second.id());
    let tool = Tool::attach(&["trace", "-e", &at(&program, "counter:w"), "-p", &watched]);
    for _ in 0..2 {
        children.iter_mut().for_each(next_line);
    }
    for child in &mut children {
        assert!(child.wait().expect("our own child").success());
    }
    let run = tool.finish();
    run.is_complete();
    assert_eq!(events(&run), 2 * N * WRITERS, "{}", run.stderr);
    let addresses: HashSet<String> = run.of("event").map(|e| e["addr"].to_string()).collect();
    let randomized = std::fs::read_to_string("/proc/sys/kernel/randomize_va_space");
    let is_random = randomized.is_ok_and(|level| level.trim() != "0");
    assert_eq!(addresses.len(), if is_random { 2 } else { 1 }, "{addresses:?}");
}

fn a_child_that_executes_a_program_is_no_longer_watched() {
    // The addresses are the same in the process that executes the program again.
    let program = built(&["-no-pie"]);
    let run = traced(&program, &at(&program, "counter:w"));
    assert!(run.of("event").all(|event| event["comm"] != "exe"), "{}", run.stderr);
    assert_eq!(events(&run), N * WRITERS);
}

fn a_program_that_a_wrapper_executes_is_watched_to_its_end() {
    let program = built(&[]);
    let event = at(&program, "counter:w");
    for wrapper in [&["env"][..], &["sh", "-c", "exec \"$@\"", "sh"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
        command.args(["trace", "-e", &event, "--json", "--"]).args(wrapper);
        let output = command.args([&*program.path(), "-50", "0"]).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert_eq!(text.matches("\"type\":\"event\"").count(), 50, "{said}");
    }
}

fn stacks_name_the_writer() {
    let program = built(&[]);
    for walk in ["--call-graph=fp", "--call-graph=dwarf"] {
        let event = format!("{}/stack/", at(&program, "counter:w"));
        let run = program.watched(&["trace", walk, "-e", &event], 5, 0);
        run.is_complete();
        assert_eq!(events(&run), 15, "{}", run.stderr);
        for event in run.of("event") {
            let stack = event["stack"].as_array().expect("a stack");
            for (frame, name) in stack.iter().zip(["store+", "writes+"]) {
                assert!(frame.as_str().is_some_and(|f| f.contains(name)), "{walk}: {event}");
            }
        }
    }
}

fn a_recording_is_replayed_by_the_same_selector() {
    let program = built(&[]);
    program.run(Command::new("cp").args(["chain", "a chain, of: writes"]));
    let path = program.path().replace("chain", "a chain, of: writes");
    let event = format!("mem:{path:?}:counter/8:w");
    let file = program.path() + ".events";
    let perilune = |args: &[&str]| {
        let run =
            Command::new(env!("CARGO_BIN_EXE_perilune")).args(args).output().expect("it runs");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8(run.stdout).expect("text")
    };
    perilune(&["trace", "-e", &event, "--events", "-o", &file, "--", &path, "20", "1"]);
    let printed = perilune(&["trace", "-e", &event, "--json", "--replay", &file]);
    let replayed = printed.lines().filter(|line| line.contains("\"type\":\"event\"")).count();
    assert_eq!(replayed, 20 * 4, "{printed}");
}

fn a_fifth_breakpoint_is_refused() {
    let program = self::program(&[]);
    let four = "mem:0x1000/8:w,mem:0x2000/8:w,mem:0x3000/8:w,mem:0x4000/8:w";
    assert_eq!(program.watched(&["trace", "-e", four], 1, 0).code, Some(0));
    let run = program.watched(&["trace", "-e", &format!("{four},mem:0x5000/8:w")], 1, 0);
    assert!(run.stderr.contains("x86 has four per CPU"), "{}", run.stderr);
    assert!(run.code.is_some_and(|code| code != 0));
}

fn breakpoints_that_cannot_be_set_are_refused_with_the_reason() {
    let program = self::program(&[]);
    for (place, why) in [
        ("conter:w", "has no symbol 'conter'; did you mean 'counter'?"),
        ("own:w", "'own' is thread-local"),
        ("counter+8:w", "'counter' has only 8 bytes"),
        ("counter+1:w", "is not a multiple of 4"),
        ("counter/3:w", "the CPU watches 1, 2, 4 or 8 bytes"),
        ("counter:r", "use :rw for reads and writes"),
        ("counter:x", "'counter' is a variable, not code"),
    ] {
        let run = program.watched(&["trace", "-e", &at(&program, place)], 1, 0);
        assert!(run.stderr.contains(why), "{place}: {}", run.stderr);
        assert!(run.code.is_some_and(|code| code != 0) && run.objects.is_empty(), "{place}");
    }
    // x86 has no six instructions of one byte at the beginning of a function.
    if cfg!(target_arch = "x86_64") {
        let inside = (1..=6).map(|offset| format!("main+{offset}:x"));
        let errors: Vec<_> = inside
            .map(|place| program.watched(&["trace", "-e", &at(&program, &place)], 1, 0).stderr)
            .collect();
        assert!(
            errors.iter().any(|why| why.contains("no instruction begins at main+0x")),
            "{errors:?}"
        );
    }
    let event = at(&program, "counter:w");
    let this = std::process::id().to_string();
    for (args, why) in [
        (&["-a"][..], "differs between processes; add -p PID, or a COMMAND"),
        (&["-p", &this], "has not mapped"),
        (&["--", "/bin/true"], "the command ended and its process has not mapped this file"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .args(["trace", "-e", &event, "--duration", "1s"])
            .args(args)
            .output()
            .expect("the built command runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(why), "{args:?}: {stderr}");
    }
}

fn symbols_are_listed() {
    let program = self::program(&[]);
    let list = |args: &[&str]| {
        let run = Command::new(env!("CARGO_BIN_EXE_perilune")).arg("list").args(args).output();
        String::from_utf8(run.expect("it runs").stdout).expect("text")
    };
    let names = list(&[&at(&program, "count*")]);
    assert_eq!(
        names.split_whitespace().collect::<Vec<_>>(),
        [&at(&program, "counter"), "breakpoint"]
    );
    let described = list(&["-v", &at(&program, "counter:w")]);
    assert!(described.contains("a breakpoint: writes to 8 bytes at 0x"), "{described}");
    let has_kprobes = std::path::Path::new("/sys/bus/event_source/devices/kprobe").exists();
    assert_eq!(list(&["mem:vfs_rea*"]).contains("mem:vfs_read "), has_kprobes);
}

fn an_ordinary_user_watches_a_program_in_user_mode_only() {
    let program = built(&[]);
    let folder = program.path().replace("/chain", "");
    program.run(Command::new("chmod").args(["755", &folder]));
    let as_user = |event: &str| {
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
            .arg(env!("CARGO_BIN_EXE_perilune"))
            .args(["trace", "--json", "-e", event, "--", &program.path(), "10", "0"])
            .output()
            .expect("setpriv runs");
        let [text, errors] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
        (text.lines().filter(|line| line.contains("\"type\":\"event\"")).count(), errors)
    };
    let (seen, errors) = as_user(&at(&program, "counter:w"));
    if seen == 0 && errors.contains("perf_event_paranoid") {
        skip_anywhere("this machine denies events to ordinary users");
    }
    assert_eq!(seen, 30, "{errors}");
    let (_, errors) = as_user("mem:0xffffffff81000000/8:w");
    assert!(errors.contains("only root (CAP_SYS_ADMIN) may watch addresses"), "{errors}");
    let (_, errors) = as_user("mem:vfs_read:x");
    assert!(errors.contains("the kernel hides its addresses"), "{errors}");
}

fn each_call_of_a_kernel_function_is_an_event() {
    let load = load::getppid(N);
    let of = load.pid().to_string();
    let event = "mem:__x64_sys_getppid:x";
    let refused = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["trace", "-e", event, "--duration", "0.1s"])
        .output()
        .expect("the built command runs");
    let stderr = String::from_utf8_lossy(&refused.stderr);
    if !refused.status.success() {
        assert!(stderr.contains("does not allow an execution breakpoint here"), "{stderr}");
        skip_anywhere("this kernel has no kprobes, and no execution breakpoints without them");
    }
    let run = crate::watch(&["trace", "-e", event, "-p", &of], load);
    run.is_complete();
    assert_eq!(events(&run), N, "{}", run.stderr);
}

fn each_read_of_the_kernel_from_its_own_memory_is_an_event() {
    needs_each_hit();
    // A read of this file copies the kernel's notes, byte by byte.
    let tool = Tool::attach(&["trace", "-e", "mem:__start_notes/1:rw/stack/"]);
    for _ in 0..N {
        let mut file = File::open("/sys/kernel/notes").expect("it is there");
        assert!(file.read(&mut [0; 64]).expect("it is readable") > 0);
    }
    let run = tool.finish();
    run.is_complete();
    assert_eq!(run.events_of(std::process::id()).len() as u32, N, "{}", run.stderr);
    for event in run.of("event") {
        assert!(event["stack"][0].as_str().is_some_and(|frame| frame.contains("mem")), "{event}");
    }
}
