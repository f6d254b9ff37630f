//! execs: each program with its arguments, exit code and duration.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::functions::watch;
use crate::{live::live_tests, tool::Tool};

live_tests! {
    each_program_is_printed_with_its_arguments_and_exit_code,
    a_program_that_still_runs_at_the_end_is_in_a_table,
    programs_of_a_command_end_with_their_exit_codes,
    arguments_of_short_programs_are_read_in_time,
    a_program_has_the_name_and_the_parent_that_it_had,
}

fn shell(line: &str) -> Child {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).stderr(Stdio::null()).spawn().expect("a shell starts")
}

fn each_program_is_printed_with_its_arguments_and_exit_code() {
    let tool = Tool::attach(&["execs"]);
    let ends = [
        ("sleep 0.2; exit 7", Value::from(7)),
        ("sleep 0.2; kill -TERM $$", Value::from("TERM")),
        ("sleep 0.2; kill -KILL $$", Value::from("KILL")),
    ];
    let ended = ends.clone().map(|(line, _)| {
        let since = Instant::now();
        let mut child = shell(line);
        child.wait().expect("it ends");
        (child.id(), since.elapsed().as_secs_f64() * 1e3)
    });
    let run = tool.finish();
    for ((line, exit), (pid, ms)) in ends.iter().zip(ended) {
        let rows: Vec<_> = run.of("row").filter(|row| row["pid"] == pid).collect();
        let [row] = rows[..] else { panic!("{line}: {rows:?} {}", run.stderr) };
        assert_eq!(row["exit"], *exit, "{row}");
        assert_eq!(row["args"], format!("sh -c {line}"), "{row}");
        assert_eq!(row["ppid"], std::process::id(), "{row}");
        // SAFETY: geteuid has no arguments and cannot fail.
        assert_eq!(row["uid"], unsafe { libc::geteuid() }, "{row}");
        let ran = row["ran_ms"].as_f64().expect("it has a duration");
        assert!((200.0..=ms).contains(&ran), "{ran} ms of {ms}: {row}");
        // The sleep is a program of its own, whose parent is the shell.
        assert_eq!(run.of("row").filter(|row| row["ppid"] == pid).count(), 1, "{:?}", run.objects);
    }
    run.is_complete();
}

fn a_program_has_the_name_and_the_parent_that_it_had() {
    let tool = Tool::attach(&["execs"]);
    // The shell ends at once. The one that it forked is an orphan when it executes its programs.
    let mut parent = shell("(sleep 0.2; exec sh -c 'sleep 0.2; exec sleep 0.21') &");
    parent.wait().expect("it ends");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let run = tool.finish();
    let last = run.of("row").find(|row| row["args"] == "sleep 0.21");
    let last = last.unwrap_or_else(|| panic!("{:?}", run.objects));
    let rows: Vec<_> = run.of("row").filter(|row| row["pid"] == last["pid"]).collect();
    let names: Vec<_> = rows.iter().map(|row| (&row["comm"], &row["exit"])).collect();
    assert_eq!(names, [(&"sh".into(), &"exec".into()), (&"sleep".into(), &0.into())], "{rows:?}");
    assert!(rows.iter().all(|row| row["ppid"] == parent.id()), "{rows:?}");
    run.is_complete();
}

fn a_program_that_still_runs_at_the_end_is_in_a_table() {
    // Only children of this process: the table has the 20 oldest programs.
    let own = std::process::id().to_string();
    let tool = Tool::attach(&["execs", "--starts", "-p", &own]);
    let mut child = shell("exec sleep 600");
    tool.wait_for_lines(2);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let run = tool.finish();
    child.kill().expect("it still runs");
    child.wait().expect("it has ended");
    let rows = run.of("row").filter(|row| row["pid"] == child.id());
    let last = rows.last().unwrap_or_else(|| panic!("{:?}", run.objects));
    assert_eq!((&last["table"], &last["args"]), (&"still_running".into(), &"sleep 600".into()));
}

fn programs_of_a_command_end_with_their_exit_codes() {
    let script = "sh -c 'exit 3'; sh -c 'kill -TERM $$'; exit 5";
    let run = watch(&["execs"], &["sh", "-c", script]);
    let exits: Vec<_> = run.of("row").map(|row| &row["exit"]).collect();
    assert_eq!(exits, [&Value::from(3), &"TERM".into(), &5.into()], "{:?}", run.objects);
}

fn arguments_of_short_programs_are_read_in_time() {
    const PROGRAMS: usize = 20;
    let tool = Tool::attach(&["execs"]);
    let ran: Vec<u32> = (0..PROGRAMS)
        .map(|_| {
            let mut child = Command::new("sleep").arg("0.02").spawn().expect("it starts");
            child.wait().expect("it ends");
            child.id()
        })
        .collect();
    let run = tool.finish();
    let rows = run.of("row").filter(|row| ran.iter().any(|pid| row["pid"] == *pid));
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.len(), PROGRAMS, "{:?}", run.objects);
    let named = rows.iter().filter(|row| row["args"] == "sleep 0.02").count();
    // Idle rings are read ten times a second, which would be in time for four of them.
    assert!(named > PROGRAMS / 2, "{named} of {PROGRAMS}: {rows:?}");
    let mut unnamed = rows.iter().filter(|row| row["args"].is_null());
    assert!(unnamed.all(|row| row["file"].is_string()), "{rows:?}");
}
