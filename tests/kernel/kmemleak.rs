//! kmemleak: a workload that keeps N objects of a known size leaks N, regardless of its other
//! allocations.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::{
    live::live_tests,
    load::{PATIENCE, Pipes},
    tool::{Run, Tool},
};

live_tests! {
    root: [
        allocations_that_are_kept_are_reported_as_leaks,
        leaks_of_an_ended_program_have_its_symbols_and_not_those_of_the_next_one,
        allocations_younger_than_the_limit_are_omitted,
        leaked_bytes_equal_the_sum_of_the_flame_graph,
        a_free_without_its_allocation_is_ignored,
        allocations_possibly_freed_in_a_loss_window_are_possible_leaks,
        a_loss_window_at_the_end_without_a_record_counts_too,
        memory_freed_by_another_process_is_not_a_leak,
        leaks_are_reported_in_time_order,
        objects_of_a_cache_leak_as_well,
    ],
    any: [
        allocations_beyond_the_limit_are_dropped_and_counted,
        one_event_cannot_allocate_and_free,
        an_event_without_a_pointer_is_refused_with_its_fields,
    ]
}

/// Slots of a pipe (`PIPE_DEF_BUFFERS`) times `struct pipe_buffer`: the size that
/// `alloc_pipe_info()` requests.
const REQUESTED: u32 = 16 * 40;

fn allocations_that_are_kept_are_reported_as_leaks() {
    let mut pipes = Pipes::new(50, 20);
    let pid = pipes.pid();
    let alloc = format!("kmem:kmalloc/bytes_req=={REQUESTED}/");
    let of = pid.to_string();
    let tool = Tool::attach(&[
        "kmemleak",
        "--detail",
        "--alloc",
        &alloc,
        "--free",
        "kmem:kfree",
        "-g",
        "-p",
        &of,
    ]);
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

fn leaks_of_an_ended_program_have_its_symbols_and_not_those_of_the_next_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let graph = folder.path().join("left").display().to_string();
    for drawn in [false, true] {
        let mut pipes = Pipes::then_another_program(20);
        let (pid, of) = (pipes.pid(), pipes.pid().to_string());
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("it runs");
        let name = name.trim_end();
        let alloc = format!("kmem:kmalloc/bytes_req=={REQUESTED}/");
        let mut args = vec![
            "kmemleak",
            "--detail",
            "--alloc",
            &alloc,
            "--free",
            "kmem:kfree",
            "-g",
            "-p",
            &of,
        ];
        if drawn {
            args.extend(["--flame-graph", &graph]);
        }
        let tool = Tool::attach(&args);
        pipes.run();
        pipes.execute();
        let run = tool.finish();
        drop(pipes);
        run.is_complete();
        let is_of_pipes = |text: &str| text.contains("alloc_pipe_info");
        if drawn {
            let lines = std::fs::read_to_string(format!("{graph}.folded")).expect("it was drawn");
            let lines: Vec<&str> = lines.lines().filter(|line| is_of_pipes(line)).collect();
            let own = |line: &&str| line.starts_with(name) && line.contains("pipe;");
            assert!(!lines.is_empty() && lines.iter().all(own), "{lines:?}");
            continue;
        }
        let left = run.events_of(pid).into_iter().filter(|e| is_of_pipes(&e["stack"].to_string()));
        let left: Vec<_> = left.collect();
        assert_eq!(left.len(), 20, "{:?}", run.objects);
        for event in left {
            assert_eq!(event["comm"], name, "{event}");
            let user = event["stack"].to_string();
            assert!(user.contains(" pipe+0x") || user.contains(" __pipe+0x"), "{event}");
        }
    }
}

fn allocations_younger_than_the_limit_are_omitted() {
    let mut pipes = Pipes::new(5, 0);
    let of = pipes.pid().to_string();
    let alloc = format!("kmem:kmalloc/bytes_req=={REQUESTED}/");
    let args = [
        "kmemleak",
        "--detail",
        "--alloc",
        &alloc,
        "--free",
        "kmem:kfree",
        "-p",
        &of,
        "--than",
        "1h",
    ];
    let tool = Tool::attach(&args);
    pipes.run();
    let run = tool.finish();
    pipes.end();
    assert_eq!((run.of("event").count(), run.of("row").count()), (0, 0), "{:?}", run.objects);
    run.is_complete();
}

/// Watches one process's allocations for pipes, and its own frees, while it does its work, so that
/// no other process fills the ring.
fn watch(mut pipes: Pipes, more: &[&str]) -> (u32, Run) {
    let of = pipes.pid().to_string();
    let alloc = format!("kmem:kmalloc/bytes_req=={REQUESTED}/");
    let free = format!("kmem:kfree/common_pid=={of}/");
    let args = ["kmemleak", "--detail", "--alloc", &alloc, "--free", &free, "-p", &of];
    let tool = Tool::attach(&[&args, more].concat());
    pipes.run();
    let run = tool.finish();
    let pid = pipes.pid();
    pipes.end();
    (pid, run)
}

fn leaked_bytes_equal_the_sum_of_the_flame_graph() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let name = folder.path().join("x");
    let name = name.to_str().expect("a folder of ASCII");
    let (_, run) = watch(Pipes::new(40, 10), &["--flame-graph", name, "--weight", "bytes"]);
    let folded = std::fs::read_to_string(folder.path().join("x.folded")).expect("it was written");
    let picture = std::fs::read_to_string(folder.path().join("x.svg")).expect("it was drawn");
    // The size that `kmalloc` returns for 640 bytes.
    let bytes = format!(" {}", 30 * 1024);
    assert_eq!(folded.lines().count(), 1, "{folded}");
    assert!(
        folded.trim_end().ends_with(&bytes) && folded.contains(";alloc_pipe_info;"),
        "{folded}"
    );
    assert!(picture.contains("30720 bytes<"), "the flame graph has no total");
    run.is_complete();
}

fn a_free_without_its_allocation_is_ignored() {
    let older = Pipes::doing(|held| held.open(20), |held| held.close(20));
    let (pid, run) = watch(older, &[]);
    assert!(run.coverage()["events"].as_u64() >= Some(20), "{}", run.coverage());
    assert_eq!((run.events_of(pid).len(), run.of("row").count()), (0, 0), "{:?}", run.objects);
    assert_eq!(run.coverage()["unmatched"], 0);
    run.is_complete();
}

fn allocations_possibly_freed_in_a_loss_window_are_possible_leaks() {
    let pipes = Pipes::doing(
        |_| {},
        |held| {
            // One by one, so that a small ring can hold them beside what other tasks allocate.
            for _ in 0..20 {
                held.open(1);
                held.pause(10);
            }
            // Most of these frees lie in a loss window.
            for _ in 0..20 {
                held.churn(2000);
                held.close(1);
            }
            held.churn(2000);
            // The ring has room again: no further records are lost.
            held.pause(500);
            held.open(7);
        },
    );
    let (pid, run) = watch(pipes, &["-m", "1", "-g"]);
    let count = |key: &str| run.coverage()[key].as_u64().unwrap_or_default();
    assert!(count("lost") > 0, "a ring of one page held them all: {}", run.coverage());
    let live = run.events_of(pid);
    let possible = live.iter().filter(|event| event["leak"] == "possible").count();
    // The 20, less those whose allocation other records displaced, and one object of the churn for
    // each loss window that began between its allocation and its end.
    assert!((1..=40).contains(&possible), "{possible}: {}", run.coverage());
    assert_eq!(live.len() - possible, 7, "{}", run.coverage());
    let own = run.of("row").filter(|row| row["comm"] == comm(pid, &run));
    let (marked, leaked): (Vec<_>, Vec<_>) = own.partition(|row| row["leak"] == "possible");
    let objects = |rows: &[&serde_json::Value]| -> u64 {
        rows.iter().filter_map(|row| row["objects"].as_u64()).sum()
    };
    assert_eq!((objects(&marked), objects(&leaked)), (possible as u64, 7), "{:?}", run.objects);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

fn a_loss_window_at_the_end_without_a_record_counts_too() {
    let pipes = Pipes::doing(
        |_| {},
        |held| {
            held.open(20);
            held.churn(20_000);
            held.close(20);
        },
    );
    let (pid, run) = watch(pipes, &["-m", "1"]);
    assert!(run.coverage()["lost"].as_u64() > Some(0), "{}", run.coverage());
    let live = run.events_of(pid);
    let marked = |it: &&serde_json::Value| it["leak"] == "possible";
    assert!(live.iter().all(marked), "all were freed: {live:?} {}", run.coverage());
    assert!(run.of("row").all(|row| marked(&row)), "{:?}", run.objects);
}

fn memory_freed_by_another_process_is_not_a_leak() {
    for freed in [true, false] {
        // Long enough for another process to open them.
        let mut pipes = Pipes::doing(
            |_| {},
            |held| {
                held.open(20);
                held.pause(500);
                held.close(20);
            },
        );
        let (pid, of) = (pipes.pid(), pipes.pid().to_string());
        let alloc = format!("kmem:kmalloc/bytes_req=={REQUESTED}/");
        let args = ["kmemleak", "--detail", "--alloc", &alloc, "--free", "kmem:kfree", "-p", &of];
        let tool = Tool::attach(&args);
        let holder = std::thread::spawn(move || holder_of_pipes(pid, 40));
        pipes.run();
        // The last holder of a pipe frees it, and this one is not watched.
        let mut holder = holder.join().expect("they were there");
        let end = |holder: &mut Child| (holder.kill().is_ok(), holder.wait().is_ok());
        if freed {
            assert_eq!(end(&mut holder), (true, true));
        }
        let run = tool.finish();
        pipes.end();
        let expected = if freed { 0 } else { 20 };
        assert_eq!(run.events_of(pid).len(), expected, "{:?} {}", run.objects, run.stderr);
        end(&mut holder);
        run.is_complete();
    }
}

/// Starts a process that opens the pipe ends of another process, once there are at least `least` of
/// them.
fn holder_of_pipes(pid: u32, least: usize) -> Child {
    let since = Instant::now();
    loop {
        let listed = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").flatten();
        let is_pipe = |path: &PathBuf| {
            std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("pipe:"))
        };
        let ends: Vec<PathBuf> = listed.map(|entry| entry.path()).filter(is_pipe).collect();
        if ends.len() >= least {
            let script = r#"for end; do exec {held}<"$end"; done; echo; read"#;
            let holder = Command::new("bash")
                .args(["-c", script, "bash"])
                .args(&ends)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn();
            let mut holder = holder.expect("bash runs");
            let mut said = [0];
            let read = holder.stdout.as_mut().expect("it is piped").read_exact(&mut said);
            assert!(read.is_ok(), "it could not open them");
            return holder;
        }
        assert!(since.elapsed() < PATIENCE, "{} ends of pipes", ends.len());
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn comm(pid: u32, run: &Run) -> String {
    run.events_of(pid)[0]["comm"].as_str().unwrap_or_default().to_owned()
}

fn leaks_are_reported_in_time_order() {
    // Younger pipes reuse the memory of the closed ones.
    let mixed = Pipes::doing(
        |_| {},
        |held| {
            held.open(30);
            held.close(20);
            held.open(25);
        },
    );
    let (pid, run) = watch(mixed, &[]);
    let times: Vec<&str> =
        run.events_of(pid).iter().filter_map(|event| event["time"].as_str()).collect();
    assert_eq!(times.len(), 35, "{}", run.stderr);
    assert!(times.is_sorted(), "{times:?}");
    run.is_complete();
}

fn objects_of_a_cache_leak_as_well() {
    let mut pipes = Pipes::new(30, 0);
    let of = pipes.pid().to_string();
    let alloc = "kmem:kmem_cache_alloc/name==\"filp\"/";
    let args =
        ["kmemleak", "--detail", "--alloc", alloc, "--free", "kmem:kmem_cache_free", "-p", &of];
    let tool = Tool::attach(&args);
    pipes.run();
    let run = tool.finish();
    let pid = pipes.pid();
    pipes.end();
    // One file per end of a pipe.
    assert_eq!(run.events_of(pid).len(), 60, "{:?} {}", run.objects, run.stderr);
    assert_eq!(run.sum("objects", "comm", comm(pid, &run)), 60);
    run.is_complete();
}

fn allocations_beyond_the_limit_are_dropped_and_counted() {
    const ALLOCATIONS: u64 = 200_000;
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("many.events");
    let mut events = String::new();
    for i in 0..ALLOCATIONS {
        let (s, us, ptr) = (i / 1_000_000, i % 1_000_000, 0x1000 + i * 64);
        let _ = writeln!(
            events,
            "{s}.{us:06} 0 100 nginx kmem:kmalloc: ptr={ptr} bytes_req=64 bytes_alloc=64"
        );
    }
    events.push_str("1.0 0 100 nginx kmem:kfree: ptr=1\n");
    std::fs::write(&path, events).expect("a file can be written");
    let replay = path.to_str().expect("a folder of ASCII");
    let events = ["--alloc", "kmem:kmalloc", "--free", "kmem:kfree"];
    let run = run_to_its_end(&[&events[..], &["--json", "--detail", "--replay", replay]].concat());
    let text = String::from_utf8_lossy(&run.stdout);
    let last = |kind: &str| -> serde_json::Value {
        let line = text.lines().rfind(|line| line.contains(kind)).expect("there is one");
        serde_json::from_str(line).expect("it is JSON")
    };
    let (row, coverage) = (last("\"type\":\"row\""), last("\"type\":\"coverage\""));
    let (live, evicted) = (row["objects"].as_u64(), coverage["evicted"].as_u64());
    let (live, evicted) = (live.unwrap_or_default(), evicted.unwrap_or_default());
    assert!(live > 10_000 && evicted > 0, "{row} {coverage}");
    assert_eq!(live + evicted, ALLOCATIONS, "{row} {coverage}");
}

fn run_to_its_end(args: &[&str]) -> Output {
    let run = Command::new(env!("CARGO_BIN_EXE_perilune")).arg("kmemleak").args(args).output();
    run.expect("the built command runs")
}

fn one_event_cannot_allocate_and_free() {
    let run = run_to_its_end(&["--alloc", "kmem:kmalloc", "--free", "kmem:kmalloc"]);
    if crate::load::is_root() {
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(said.contains("--alloc and --free are the same event"), "{said}");
    }
    assert!(!run.status.success());
}

fn an_event_without_a_pointer_is_refused_with_its_fields() {
    let output = run_to_its_end(&["--alloc", "sched:sched_wakeup", "--free", "kmem:kfree"]);
    let said = String::from_utf8_lossy(&output.stderr);
    if crate::load::is_root() {
        let expected = "sched:sched_wakeup has no field 'ptr'; select one with ptr=: comm, \
                        pid, prio, target_cpu";
        assert!(said.contains(expected), "{said}");
    }
    assert!(!output.status.success());
}
