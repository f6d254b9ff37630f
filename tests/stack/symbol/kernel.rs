//! Names of kernel addresses: names of code that the kernel generates during a run, and the reason
//! when there are none.

use std::process::{Command, Stdio};

use super::programs::Program;
use super::stacks::Watched;
use crate::live::{live_tests, skip_anywhere};

live_tests! {
    a_bpf_program_that_was_loaded_later_has_a_name,
    hidden_kernel_addresses_are_explained_once,
}

/// Makes the watcher read the list of symbols, then loads a BPF program, lets it run, and unloads
/// it.
const FILTER: &str = r#"
#include <sys/syscall.h>
#include <linux/bpf.h>
int main(void) {
    for (int i = 0; i < 40; i++) { getppid(); usleep(10000); }
    static struct bpf_insn code[2000];
    for (int i = 0; i < 1999; i++)
        code[i] = (struct bpf_insn){ .code = BPF_ALU64 | BPF_MOV | BPF_K };
    code[1999] = (struct bpf_insn){ .code = BPF_JMP | BPF_EXIT };
    union bpf_attr load = { .prog_type = BPF_PROG_TYPE_SOCKET_FILTER, .insn_cnt = 2000,
        .insns = (unsigned long)code, .license = (unsigned long)"GPL", .prog_name = "made_later" };
    int program = syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load);
    if (program < 0) { perror("load"); return 1; }
    static char packet[64];
    for (int i = 0; i < 30; i++) {
        union bpf_attr run = { .test = { .prog_fd = program, .data_in = (unsigned long)packet,
            .data_size_in = sizeof packet, .repeat = 20000 } };
        if (syscall(SYS_bpf, BPF_PROG_TEST_RUN, &run, sizeof run) < 0) { perror("run"); return 1; }
    }
    close(program);
    return 0;
}
"#;

const BOTH: &str = r#"
local m = monitor { summary = "what asks for its parent, and what runs" }
function m.init()
  evsel("syscalls:sys_enter_getppid", { stack = true })
  evsel("cpu-clock", { stack = true, freq = 997 })
end
function m.sample(e) emit(e) end
return m
"#;

fn a_bpf_program_that_was_loaded_later_has_a_name() {
    if std::fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").is_ok_and(|on| on.trim() == "0")
    {
        skip_anywhere("BPF programs are interpreted here");
    }
    let program = Program::c(FILTER, &[]);
    let monitor = program.directory().join("both.lua");
    std::fs::write(&monitor, BOTH).unwrap();
    let watched = Watched::by(&[monitor.to_str().unwrap()], &[], &[program.path()]);
    let made = watched.stacks.iter().flatten().filter(|frame| {
        frame.dso == "[bpf]"
            && frame.symbol.starts_with("bpf_prog_")
            && frame.symbol.ends_with("_made_later")
    });
    assert!(made.count() > 0, "{}", watched.printed);
}

fn hidden_kernel_addresses_are_explained_once() {
    let sysctl = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap();
        text.trim().parse::<i32>().unwrap()
    };
    if sysctl("kptr_restrict") == 0 && sysctl("perf_event_paranoid") < 2 {
        skip_anywhere("every user may see kernel addresses here");
    }
    let output = Command::new("setpriv")
        .args([
            "--bounding-set=-syslog",
            "--inh-caps=-syslog",
            env!("CARGO_BIN_EXE_perilune"),
            "trace",
        ])
        .args(["-e", "sched:sched_process_exit//stack/", "--", "true"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stdout.contains("([kernel])") && !stdout.contains("do_exit"), "{stdout}{stderr}");
    assert_eq!(stderr.matches("the kernel hides its addresses").count(), 1, "{stderr}");
}
