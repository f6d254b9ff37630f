//! Probes in the kernel: calls, arguments and return values are those of the program, and a killed
//! run leaves nothing.

use super::{Program, sum};
use crate::live::{live_tests, skip_anywhere};
use crate::tool::Tool;

live_tests! {
    calls_and_returns_of_a_kernel_function_have_the_values_of_the_caller,
    calls_of_kernel_functions_by_glob_are_counted_exactly_by_one_link,
    probes_of_a_killed_run_are_removed_by_the_next,
    numbers_behind_pointers_that_lead_nowhere_are_0,
}

/// Reads 1, 2 … N bytes of its own file, each after a system call with the same number.
pub(super) const READS: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    static char bytes[4096];
    int fd = open("/proc/self/exe", O_RDONLY);
    for (long i = 1, n = atol(argv[1]); i <= n; i++) {
        syscall(SYS_getppid, i);
        if (read(fd, bytes, i) != i || lseek(fd, 0, SEEK_SET)) return 1;
    }
    return 0;
}
"#;

pub(super) const N: u32 = 300;
const EVENTS: &str = "/sys/kernel/tracing/kprobe_events";

fn with_kprobes() -> Program {
    if !std::path::Path::new("/sys/bus/event_source/devices/kprobe").exists() {
        skip_anywhere("this kernel has no kprobes");
    }
    Program::of(READS, &[])
}

fn calls_and_returns_of_a_kernel_function_have_the_values_of_the_caller() {
    let program = with_kprobes();
    let n = i128::from(N);
    let filter = "/file_f_path_dentry_d_name_name == \"chain\" && count <= 300/";
    let event = format!("kprobe:vfs_read(count, file.f_path.dentry.d_name.name){filter}");
    let run = program.watched(&["trace", "-e", &event], N, 0);
    assert_eq!(run.of("event").count() as i128, n, "{}", run.stderr);
    assert_eq!(sum(&run, "count"), n * (n + 1) / 2);
    run.is_complete();
    // The dynamic linker and the shell read, too.
    let run = program.watched(&["trace", "-e", "kretprobe:vfs_read"], N, 0);
    let returned: Vec<i64> = run.of("event").filter_map(|event| event["retval"].as_i64()).collect();
    assert_eq!(returned[returned.len() - N as usize..], (1..=n as i64).collect::<Vec<_>>());
    run.is_complete();
}

fn calls_of_kernel_functions_by_glob_are_counted_exactly_by_one_link() {
    let program = with_kprobes();
    let arguments = [N.to_string()];
    let arguments = arguments.each_ref().map(String::as_str);
    let run = program.with_arguments(&["funccount", "-v", "-e", "kprobe:ksys_*"], &arguments);
    run.is_complete();
    let rows = run.of("row").filter(|row| row["function"] == "ksys_lseek");
    let calls: u64 = rows.filter_map(|row| row["calls"].as_u64()).sum();
    assert_eq!(calls, u64::from(N), "{:?}", run.objects);
    let texts: Vec<_> = run.of("note").filter_map(|note| note["text"].as_str()).collect();
    if let Some(why) = texts.iter().find(|text| text.contains("a probe for each of")) {
        skip_anywhere(&format!("counted exactly, but by probes: {why}"));
    }
    assert!(texts.iter().any(|text| text.starts_with("kprobe: one BPF link for ")), "{texts:?}");
}

fn probes_of_a_killed_run_are_removed_by_the_next() {
    let program = with_kprobes();
    let read = || std::fs::read_to_string(EVENTS).expect("tracefs is mounted");
    let tool = Tool::attach(&["trace", "-e", "kprobe:vfs_read(count)"]);
    let group = format!(":perilune_{}/", tool.pid());
    assert!(read().contains(&group), "{}", read());
    drop(tool);
    assert!(read().contains(&group), "a killed run cannot remove its probes: {}", read());
    let run = program.watched(&["trace", "-e", "kprobe:vfs_read(count)/count <= 300/"], N, 0);
    assert!(run.of("event").count() >= N as usize, "{}", run.stderr);
    assert!(!read().contains(":perilune_"), "{}", read());
}

/// Asks for N sleeps of 777 ns, each followed by two at addresses where nothing is mapped.
const SLEEPS: &str = r#"
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static void asked(void *time) { syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, time, 0); }
int main(int argc, char **argv) {
    for (long i = 0, n = atol(argv[1]); i < n; i++) {
        struct timespec time = { 0, 777 };
        asked(&time);
        asked((void *)8);
        asked(0);
    }
    return 0;
}
"#;

fn numbers_behind_pointers_that_lead_nowhere_are_0() {
    with_kprobes();
    let program = Program::of(SLEEPS, &[]);
    for (condition, passed) in [("", 3), ("/uts_tv_nsec == 0/", 2), ("/uts_tv_nsec == 777/", 1)] {
        let event = format!("kprobe:get_timespec64(uts.tv_nsec){condition}");
        let run = program.watched(&["trace", "-e", &event], N, 0);
        assert_eq!(run.of("event").count() as u32, passed * N, "{condition}: {}", run.stderr);
        let slept = if condition.ends_with("0/") { 0 } else { i128::from(N) };
        assert_eq!(sum(&run, "uts_tv_nsec"), 777 * slept, "{condition}");
        run.is_complete();
    }
}
