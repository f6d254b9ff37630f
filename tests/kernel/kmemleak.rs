//! kmemleak: a workload that keeps N objects of a known size leaks N, whatever else it allocated and freed.

use crate::{can_trace, load::Pipes, tool::Tool};

/// Slots of a pipe (`PIPE_DEF_BUFFERS`) times `struct pipe_buffer`: what `alloc_pipe_info()` asks for.
const REQUESTED: u32 = 16 * 40;

#[test]
fn what_is_kept_is_what_leaked() {
    if !can_trace("allocations") {
        return;
    }
    let mut pipes = Pipes::new(50, 20);
    let pid = pipes.pid();
    let alloc = format!("kmem:kmalloc/bytes_req=={REQUESTED}/");
    let of = pid.to_string();
    let tool =
        Tool::attach(&["kmemleak", "--alloc", &alloc, "--free", "kmem:kfree", "-g", "-p", &of]);
    pipes.run();
    let run = tool.finish();
    pipes.end();
    let live = run.events_of(pid);
    assert_eq!(live.len(), 30, "{:?} {}", run.objects, run.stderr);
    assert!(
        live.iter()
            .all(|event| event["bytes_req"] == REQUESTED && event["event"] == "kmem:kmalloc")
    );
    let rows: Vec<_> = run.of("row").collect();
    assert_eq!(rows.len(), 1, "one place allocates them: {rows:?}");
    assert_eq!((&rows[0]["objects"], &rows[0]["bytes"]), (&30.into(), &(30 * 1024).into()));
    assert!(rows[0]["stack"].to_string().contains("alloc_pipe_info"), "{}", rows[0]);
    run.is_complete();
}

#[test]
fn what_is_younger_than_asked_is_left_out() {
    if !can_trace("ages of allocations") {
        return;
    }
    let mut pipes = Pipes::new(5, 0);
    let of = pipes.pid().to_string();
    let alloc = format!("kmem:kmalloc/bytes_req=={REQUESTED}/");
    let args = ["kmemleak", "--alloc", &alloc, "--free", "kmem:kfree", "-p", &of, "--than", "1h"];
    let tool = Tool::attach(&args);
    pipes.run();
    let run = tool.finish();
    pipes.end();
    assert_eq!((run.of("event").count(), run.of("row").count()), (0, 0), "{:?}", run.objects);
    run.is_complete();
}

#[test]
fn an_event_without_a_pointer_is_refused_with_its_fields() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["kmemleak", "--alloc", "sched:sched_wakeup", "--free", "kmem:kfree"])
        .output()
        .expect("the built command runs");
    let said = String::from_utf8_lossy(&output.stderr);
    if crate::load::is_root() {
        let expected = "sched:sched_wakeup has no field 'ptr'; say with ptr= which it is: comm, pid, prio, target_cpu";
        assert!(said.contains(expected), "{said}");
    }
    assert!(!output.status.success());
}
