//! funccount, funclatency and stackcount over a program that counts its own calls.

use std::collections::HashMap;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::Program;
use crate::live::{live_tests, skip_anywhere};
use crate::load;
use crate::tool::Run;

live_tests! {
    calls_are_counted_by_function,
    each_value_of_a_key_is_a_row,
    calls_before_the_exec_of_a_command_are_not_counted,
    parameters_with_names_of_their_own_are_fields,
    calls_with_named_parameters_are_timed,
    calls_are_timed_also_if_they_are_recursive,
    calls_deeper_than_the_returns_of_the_kernel_are_not_timed,
    a_longer_call_is_printed_with_its_return,
    call_chains_are_counted_and_summed,
    registers_and_their_text_are_fields_without_debug_information,
    functions_without_symbols_have_their_addresses,
    functions_of_the_kernel_are_counted_and_timed,
}

/// `chain FILE`: calls three functions, and writes how often it did into FILE.
const SOURCE: &str = r#"
#include <stdio.h>
#include <unistd.h>
#define PLAIN __attribute__((noipa))
static long quick, wait_, deep, said;
PLAIN void tool_quick(long size) { quick++; }
PLAIN void tool_wait(int us) { wait_++; usleep(us); }
PLAIN long tool_deep(long n) { deep++; return n ? 1 + tool_deep(n - 1) : 0; }
PLAIN void tool_say(const char *text, int number) { said++; }
PLAIN void tool_never(void) { quick++; }
static PLAIN void often(int n) { for (int i = 0; i < n; i++) tool_quick(i); }
int main(int argc, char **argv) {
    often(300);
    tool_quick(1000);
    for (int i = 0; i < 20; i++) tool_wait(2000);
    tool_wait(60000);
    tool_deep(9);
    tool_say("hello", 7);
    tool_say("world", 7);
    if (argc > 99) tool_never();
    FILE *file = fopen(argv[1], "w");
    fprintf(file, "tool_quick %ld tool_wait %ld tool_deep %ld tool_say %ld", quick, wait_, deep, said);
    return fclose(file);
}
"#;

/// Runs a monitor over the program; returns its output and how often the program called each
/// function.
fn run(args: &[&str], selector: impl Fn(&Program) -> String) -> (Run, HashMap<String, u64>) {
    let program = Program::of(SOURCE, &[]);
    let counts = format!("{}.counts", program.path());
    let event = selector(&program);
    let run = program.with_arguments(&[args, &["-e", &event]].concat(), &[&counts]);
    let text = fs::read_to_string(&counts).expect("the program wrote its counts");
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].parse().expect("a count")));
    run.is_complete();
    (run, pairs.collect())
}

fn all_tools(program: &Program) -> String {
    program.function("uprobe", "tool_*")
}

/// Returns the numbers of a column by function.
fn by_function(run: &Run, table: &str, column: &str) -> HashMap<String, u64> {
    let rows = run.of("row").filter(|row| row["table"] == table);
    let of = |row: &Value| {
        let name = row["function"].as_str().expect("a function").to_owned();
        (name, row[column].as_u64().expect("a number"))
    };
    rows.map(of).collect()
}

fn calls_are_counted_by_function() {
    let (run, counts) = run(&["funccount"], all_tools);
    assert_eq!(counts["tool_quick"], 301);
    assert_eq!(by_function(&run, "calls", "calls"), counts, "{}", run.stderr);
}

fn each_value_of_a_key_is_a_row() {
    let (run, counts) = run(&["funccount", "-k", "arg1"], |p| p.function("uprobe", "tool_quick"));
    let rows: Vec<_> = run.of("row").collect();
    assert_eq!(rows.len() as u64, counts["tool_quick"], "each call has another argument");
    assert!(rows.iter().all(|row| row["calls"] == 1 && row["arg1"].is_u64()), "{:?}", rows[0]);
}

fn calls_before_the_exec_of_a_command_are_not_counted() {
    let folder = tempfile::tempdir().expect("there is room");
    let libc = folder.path().join("libc.so.6");
    let maps = fs::read_to_string("/proc/self/maps").expect("our own");
    let mut paths = maps.lines().filter_map(|line| line.split_whitespace().last());
    let own = paths.find(|path| path.contains("libc.so.6")).expect("tests have a libc");
    fs::copy(own, &libc).expect("there is room");
    // perilune executes the shell, and the shell executes `true`.
    let out = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .env("LD_LIBRARY_PATH", folder.path())
        .args(["funccount", "--json", "-e", &format!("uprobe:{}:execve", libc.display())])
        .args(["--", "/bin/sh", "-c", "exec /bin/true"])
        .output()
        .expect("the built command runs");
    let text = String::from_utf8_lossy(&out.stdout);
    let objects = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let rows: Vec<_> = objects.filter(|object| object["type"] == "row").collect();
    let calls: Vec<_> = rows.iter().map(|row| row["calls"].as_u64()).collect();
    assert_eq!(calls, [Some(1)], "{text} {}", String::from_utf8_lossy(&out.stderr));
}

fn parameters_with_names_of_their_own_are_fields() {
    let of = |program: &Program| program.function("uprobe", "tool_quick(size=arg1)");
    let (run, counts) = run(&["funccount", "-k", "size"], of);
    let rows: Vec<_> = run.of("row").collect();
    assert_eq!(rows.len() as u64, counts["tool_quick"], "{}", run.stderr);
    assert!(rows.iter().all(|row| row["calls"] == 1), "{:?}", rows[0]);
}

fn calls_with_named_parameters_are_timed() {
    let of = |program: &Program| program.function("uprobe", "tool_wait(us=arg1)/us >= 60000/");
    let (run, _) = run(&["funclatency", "--than", "1ms"], of);
    let longer: Vec<_> = run.of("event").filter(|event| !event["delay_us"].is_null()).collect();
    assert_eq!(longer.len(), 1, "{:?} {}", run.objects, run.stderr);
}

fn calls_are_timed_also_if_they_are_recursive() {
    let (run, counts) = run(&["funclatency"], all_tools);
    let rows: Vec<_> = run.of("row").collect();
    let calls = by_function(&run, "latency", "calls");
    assert_eq!(calls, counts, "{}", run.stderr);
    let of = |name: &str, column: &str| {
        let row = rows.iter().find(|row| row["function"] == name).expect("it was called");
        row[column].as_f64().expect("a time")
    };
    assert!(of("tool_wait", "min_us") >= 2000.0 && of("tool_wait", "total_us") >= 100_000.0);
    assert!(of("tool_wait", "max_us") >= 60_000.0);
    // Each of the ten calls contains those inside it.
    assert!(of("tool_deep", "max_us") > of("tool_deep", "min_us"));
    assert_eq!(run.coverage()["unmatched"], 0, "{}", run.coverage());
}

fn calls_deeper_than_the_returns_of_the_kernel_are_not_timed() {
    const ROUNDS: u64 = 3;
    const DEPTH: u64 = 100;
    let source = format!(
        "#include <unistd.h>
         __attribute__((noipa)) long deep(long n) {{ usleep(100); return n ? 1 + deep(n - 1) : 0; }}
         int main(void) {{
           long sum = 0;
           for (int i = 0; i < {ROUNDS}; i++) sum += deep({});
           return sum == 0;
         }}",
        DEPTH - 1
    );
    let program = Program::of(&source, &[]);
    let event = program.function("uprobe", "deep");
    let run = program.with_arguments(&["funclatency", "-e", &event], &[]);
    let row = run.of("row").find(|row| row["function"] == "deep").expect("it was called");
    // `MAX_URETPROBE_DEPTH`; each call contains those inside it.
    let followed = 64;
    assert_eq!(row["calls"], ROUNDS * followed, "{row} {}", run.coverage());
    let least = |call: u64| (DEPTH - call) as f64 * 100.0;
    assert!(row["min_us"].as_f64() >= Some(least(followed - 1)), "{row}");
    assert!(row["max_us"].as_f64() >= Some(least(0)), "{row}");
    assert_eq!(run.coverage()["evicted"], ROUNDS * (DEPTH - followed), "{}", run.coverage());
    assert_eq!(run.coverage()["unmatched"], 0, "{}", run.coverage());
}

fn a_longer_call_is_printed_with_its_return() {
    let wait = |p: &Program| p.function("uprobe", "tool_wait");
    let (run, _) = run(&["funclatency", "--than", "59ms"], wait);
    let longer = run.of("event").filter(|event| event["delay_us"].as_f64() >= Some(59_000.0));
    let longer: Vec<_> = longer.collect();
    assert!(
        longer.iter().any(|event| event["us"] == 60_000 || event["arg1"] == 60_000),
        "{longer:?}"
    );
    assert!(longer.len() < 20, "the short calls are not printed: {longer:?}");
}

fn call_chains_are_counted_and_summed() {
    let (counted, counts) = run(&["stackcount"], all_tools);
    let all: u64 = counted.of("row").filter_map(|row| row["count"].as_u64()).sum();
    assert_eq!(all, counts.values().sum::<u64>(), "{}", counted.stderr);
    let deep = counted.of("row").filter(|row| row["stack"].to_string().contains("tool_deep"));
    assert_eq!(deep.count() as u64, counts["tool_deep"], "each depth is a chain");
    let quick = |p: &Program| p.function("uprobe", "tool_quick");
    let (summed, _) = run(&["stackcount", "--sum", "arg1"], quick);
    let of = |within: bool| {
        let rows = summed.of("row");
        let mut rows = rows.filter(|row| row["stack"].to_string().contains("often") == within);
        let row = rows.next().unwrap_or_else(|| panic!("no such chain: {:?}", summed.objects));
        row["arg1"].as_u64()
    };
    assert_eq!((of(true), of(false)), (Some(299 * 300 / 2), Some(1000)));
}

fn registers_and_their_text_are_fields_without_debug_information() {
    if !perilune::sys::machine::is_linux_since((6, 12)) {
        skip_anywhere("this kernel may write a long text beyond its buffer");
    }
    let say = |p: &Program| p.function("uprobe", "tool_say(arg1.text, arg2)");
    let (run, _) = run(&["funccount", "-k", "arg1_text"], say);
    let mut said: Vec<_> = run.of("row").filter_map(|row| row["arg1_text"].as_str()).collect();
    said.sort_unstable();
    assert_eq!(said, ["hello", "world"], "{:?}", run.objects);
}

fn functions_without_symbols_have_their_addresses() {
    let program = Program::of(SOURCE, &["-rdynamic"]);
    let symbols = Command::new("nm").arg(program.path()).output().expect("nm is installed");
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let often = symbols.lines().find(|line| line.ends_with(" often")).expect("it has symbols");
    let address = often.split(' ').next().expect("an address").trim_start_matches('0');
    program.run(Command::new("strip").arg("chain"));
    let counts = format!("{}.counts", program.path());
    let event = program.function("uprobe", "tool_quick");
    let run = program.with_arguments(&["stackcount", "-e", &event], &[&counts]);
    run.is_complete();
    let row = run.of("row").find(|row| row["count"] == 300).expect("most calls have one chain");
    let name = format!("[chain+0x{address}]");
    assert!(row["stack"].to_string().contains(&name), "{name}: {row}");
}

fn functions_of_the_kernel_are_counted_and_timed() {
    if !std::path::Path::new("/sys/bus/event_source/devices/kprobe").exists() {
        skip_anywhere("this kernel has no kprobes");
    }
    // The function that the kernel calls for this system call.
    let function = if cfg!(target_arch = "x86_64") { "__x64_sys_getppid" } else { "sys_getppid" };
    let event = format!("kprobe:*{function}");
    for monitor in ["funccount", "funclatency"] {
        let load = load::getppid(500);
        let of = load.pid().to_string();
        let run = crate::watch(&[monitor, "-e", &event, "-p", &of], load);
        run.is_complete();
        let rows: Vec<_> = run.of("row").collect();
        assert!(rows.len() == 1 && rows[0]["calls"] == 500, "{monitor}: {rows:?}");
    }
}
