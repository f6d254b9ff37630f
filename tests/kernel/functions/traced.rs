//! Probes at tracepoints, and at functions by ftrace: their values are those that the program
//! passed to the kernel.

use super::in_kernel::{N, READS};
use super::{Program, sum};
use crate::live::{live_tests, skip_anywhere};
use crate::tool::{Run, Tool};

live_tests! {
    a_tracepoint_has_its_arguments_and_what_they_point_to,
    a_function_has_its_parameters_at_its_call_and_at_its_return,
    a_tracepoint_has_two_probes_with_different_arguments,
    traced_probes_of_a_killed_run_are_removed_by_the_next,
    probes_that_the_kernel_does_not_have_are_refused_with_the_equivalent,
}

/// Sum of 1 to N.
const ALL: i128 = N as i128 * (N as i128 + 1) / 2;

/// Returns whether the kernel has probes of a kind.
fn has(kind: &str) -> bool {
    let readme = std::fs::read_to_string("/sys/kernel/tracing/README").expect("tracefs is there");
    let begin = format!("{}[:[<group>/]", &kind[..1]);
    readme.lines().any(|line| line.trim_start().starts_with(&begin))
}

fn with(kind: &str) -> Program {
    if !has(kind) {
        skip_anywhere(&format!("this kernel has no {kind}s"));
    }
    Program::of(READS, &[])
}

/// Watches an event in the program, which is seen `n` times.
fn traced(program: &Program, event: &str, n: usize) -> Run {
    let run = program.watched(&["trace", "-e", event], N, 0);
    assert_eq!(run.of("event").count(), n, "{event}: {}", run.stderr);
    run.is_complete();
    run
}

fn a_tracepoint_has_its_arguments_and_what_they_point_to() {
    let program = with("tprobe");
    let filter = format!("id == {}", libc::SYS_getppid);
    let all = traced(&program, &format!("tprobe:sys_enter/{filter}/"), N as usize);
    assert!(all.of("event").all(|event| event["id"] == libc::SYS_getppid));
    if cfg!(target_arch = "x86_64") {
        let run = traced(&program, &format!("tprobe:sys_enter(id, regs.di)/{filter}/"), N as usize);
        assert_eq!(sum(&run, "regs_di"), ALL);
    }
    let executed = traced(&program, "tprobe:sched_process_exec(p.comm, bprm.filename, old_pid)", 1);
    let event = executed.of("event").next().expect("one");
    assert_eq!(
        (&event["p_comm"], &event["bprm_filename"]),
        (&"chain".into(), &program.path().into())
    );
    let seen = program.watched(&["top", "-e", "tprobe:sys_enter", "-k", "id"], N, 0);
    let of_call = seen.of("row").find(|row| row["id"] == libc::SYS_getppid).expect("a row");
    assert!(of_call.as_object().expect("a row").values().any(|n| *n == N), "{of_call}");
}

fn a_function_has_its_parameters_at_its_call_and_at_its_return() {
    let program = with("fprobe");
    let (name, filter) = ("file.f_path.dentry.d_name.name", "count <= 300");
    let of_file = format!("{filter} && file_f_path_dentry_d_name_name == \"chain\"");
    let run = traced(&program, &format!("fprobe:vfs_read(count, {name})/{of_file}/"), N as usize);
    assert_eq!(sum(&run, "count"), ALL);
    let called = program.watched(&["trace", "-e", "fprobe:vfs_read"], N, 0);
    let counts = called.of("event").filter_map(|event| event["count"].as_i64());
    assert!(counts.filter(|count| *count <= 300).sum::<i64>() as i128 >= ALL);
    assert!(called.of("event").all(|event| event["file"].is_string()), "{:?}", called.objects);
    // At its return, a function has the parameters of its call, and its result with its type.
    let event = format!("fretprobe:vfs_read(count, retval)/{filter} && retval == count/");
    let run = program.watched(&["trace", "-e", &event], N, 0);
    assert!(run.of("event").count() >= N as usize, "{}", run.stderr);
    assert!(run.of("event").all(|event| event["retval"] == event["count"]));
    let returned: Vec<i64> = run.of("event").filter_map(|event| event["retval"].as_i64()).collect();
    assert_eq!(returned[returned.len() - N as usize..], (1..=N.into()).collect::<Vec<_>>());
}

fn a_tracepoint_has_two_probes_with_different_arguments() {
    let program = with("tprobe");
    if !perilune::sys::machine::is_linux_since((6, 17)) {
        skip_anywhere("before Linux 6.17, a tracepoint has one tprobe at a time");
    }
    let filter = format!("id == {}", libc::SYS_getppid);
    let events = format!("tprobe:sys_enter(id)/{filter}/,tprobe:sys_enter(id, nr=id)/{filter}/");
    let run = traced(&program, &events, 2 * N as usize);
    assert_eq!(
        run.of("event").filter(|event| event["nr"] == libc::SYS_getppid).count(),
        N as usize
    );
}

fn traced_probes_of_a_killed_run_are_removed_by_the_next() {
    let program = with("tprobe");
    let read =
        || std::fs::read_to_string("/sys/kernel/tracing/dynamic_events").expect("tracefs is there");
    let tool = Tool::attach(&["trace", "-e", "tprobe:sched_process_exec"]);
    let group = format!("t:perilune_{}/", tool.pid());
    assert!(read().contains(&group), "{}", read());
    drop(tool);
    assert!(read().contains(&group), "a killed run cannot remove its probes: {}", read());
    traced(&program, "tprobe:sched_process_exec", 1);
    assert!(!read().contains(":perilune_"), "{}", read());
}

fn probes_that_the_kernel_does_not_have_are_refused_with_the_equivalent() {
    let program = Program::of(READS, &[]);
    let mut refusals = vec![
        ("tprobe", "tprobe:sys_entre", "has no tracepoint 'sys_entre'; did you mean 'sys_enter'?"),
        ("tprobe", "tprobe:raw_syscalls:sys_enter", "write tprobe:sys_enter"),
        ("tprobe", "tprobe:sys_enter(idd)", "has no parameter 'idd'; did you mean 'id'?"),
        ("tprobe", "tprobe:sys_enter(arg7)", "has no parameter 'arg7'; it has regs, id"),
        ("fprobe", "fprobe:vfs_raed", "has no function 'vfs_raed'; did you mean 'vfs_read'"),
        ("fprobe", "fprobe:vfs_read+4", "it has no offset"),
        ("fprobe", "fprobe:vfs_read(retval)", "a call has no retval yet; write fretprobe:vfs_read"),
    ];
    refusals.retain(|(kind, _, _)| has(kind));
    let equivalents = [
        ("tprobe", "tprobe:sys_enter", "use SYSTEM:EVENT"),
        ("fprobe", "fprobe:vfs_read", "use kprobe:FUNCTION"),
        ("fprobe", "fretprobe:vfs_read", "use kretprobe:FUNCTION"),
    ];
    refusals.extend(equivalents.into_iter().filter(|(kind, _, _)| !has(kind)));
    for (_, event, why) in refusals {
        let run = program.watched(&["trace", "-e", event], 1, 0);
        assert!(run.stderr.contains(why), "{event}: {}", run.stderr);
        assert!(run.code.is_some_and(|code| code != 0) && run.objects.is_empty(), "{event}");
    }
}
