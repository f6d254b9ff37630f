//! Sessions over the running kernel, with lines from a pipe: the counts match what this test did.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::piped::{NO_FILES, Session, close_in_vain, counting};
use crate::live::live_tests;

live_tests! {
    a_probe_counts_while_lines_are_read,
    a_probe_watches_the_threads_and_children_that_began_after_the_prompt,
    events_before_a_probe_is_turned_off_are_handled,
    a_filter_narrows_a_probe_that_is_open,
    several_probes_are_opened_and_closed_and_a_failing_one_does_not_affect_the_others,
    two_probes_of_one_event_count_the_same_and_are_filtered_separately,
    an_event_of_everyone_is_read_on_all_cpus,
    run_delivers_declared_events_only_while_it_lasts,
    typed_lines_are_saved_as_a_monitor_that_runs,
    threads_of_the_session_are_named,
    the_end_of_the_watched_process_is_noted_once,
    show_prints_interrupts_of_the_session_itself,
}

fn a_probe_counts_while_lines_are_read() {
    let first = NO_FILES[0];
    let mut session = Session::begin(&[]);
    session.ask("n = 0");
    assert_eq!(
        session.ask(&format!("p = probe(\"syscalls:sys_enter_close\", {})", counting(first, 1))),
        ""
    );
    close_in_vain(first, 1000);
    session.reaches("n", 1000);
    session.ask("p:off()");
    close_in_vain(first, 100);
    session.ask("p:on()");
    close_in_vain(first, 10);
    session.reaches("n", 1010);
    session.ask(&format!("p:replace({})", counting(first, 1000)));
    close_in_vain(first, 3);
    session.reaches("n", 4010);
    assert_eq!(session.end(), 0);
}

fn a_probe_watches_the_threads_and_children_that_began_after_the_prompt() {
    // Each waits until the pipe is closed.
    let script = "import os, sys, threading\n\
        r, w = os.pipe()\n\
        def calls(n):\n    \
            os.read(r, 1)\n    \
            for i in range(n): os.getppid()\n\
        sys.stdin.readline()\n\
        thread = threading.Thread(target=calls, args=(100,))\n\
        thread.start()\n\
        child = os.fork()\n\
        if child == 0:\n    \
            os.close(w)\n    \
            calls(1000)\n    \
            os._exit(0)\n\
        print('begun', flush=True)\n\
        sys.stdin.readline()\n\
        os.close(w)\n\
        thread.join()\n\
        os.waitpid(child, 0)\n";
    let mut command = Command::new("python3");
    command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("python3 runs");
    let mut input = child.stdin.take().expect("it was piped");
    let mut session = Session::begin(&["-p", &child.id().to_string()]);
    session.ask("n = 0");
    writeln!(input, "begin").expect("it reads");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it prints");
    assert_eq!(line, "begun\n");
    session.ask("p = probe(\"syscalls:sys_enter_getppid\", function(e) n = n + 1 end)");
    writeln!(input, "go").expect("it reads");
    assert!(child.wait().expect("it ends").success());
    session.reaches("n", 1100);
    assert_eq!(session.end(), 0);
}

fn events_before_a_probe_is_turned_off_are_handled() {
    let first = NO_FILES[5];
    let mut session = Session::begin(&[]);
    session.ask("n = 0");
    // Stacks make the records differ from the usual ones.
    let probe = "p = probe(\"syscalls:sys_enter_close\", { stack = true }, ";
    session.ask(&format!("{probe}{})", counting(first, 1)));
    for turn in 1..=5 {
        close_in_vain(first, 100);
        session.ask("p:off()");
        assert_eq!(session.ask("n"), (100 * turn).to_string());
        session.ask("p:on()");
    }
    assert_eq!(session.end(), 0);
}

fn a_filter_narrows_a_probe_that_is_open() {
    let first = NO_FILES[1];
    let mut session = Session::begin(&[]);
    session.ask("n = 0");
    session.ask(&format!("p = probe(\"syscalls:sys_enter_close\", {})", counting(first, 1)));
    session.ask(&format!("p:filter(\"fd == {}\")", first + 1));
    close_in_vain(first, 100);
    close_in_vain(first + 1, 7);
    session.reaches("n", 7);
    // Conditions that the kernel cannot check are checked in user space.
    session.ask("p:filter(\"fd % 2 == 1\")");
    close_in_vain(first + 1, 5);
    session.reaches("n", 12);
    session.ask("p:filter(\"fd % 2 == 0\")");
    // Another probe counts them, so they were handled.
    let other = counting(first, 1).replace("n = n", "m = m");
    session.ask(&format!("m = 0 q = probe(\"syscalls:sys_enter_close\", {other})"));
    close_in_vain(first + 1, 5);
    session.reaches("m", 5);
    assert_eq!(session.ask("n"), "12");
    assert_eq!(session.end(), 0);
}

fn several_probes_are_opened_and_closed_and_a_failing_one_does_not_affect_the_others() {
    let first = NO_FILES[2];
    let mut session = Session::begin(&[]);
    session.ask("n = 0");
    session.ask("bad = probe(\"syscalls:sys_enter_getppid\", function() error \"bad\" end)");
    session.ask(&format!("p = probe(\"syscalls:sys_enter_close\", {})", counting(first, 1)));
    // SAFETY: it has no preconditions.
    unsafe { libc::getppid() };
    close_in_vain(first, 50);
    session.reaches("n", 50);
    session.ask("clear()");
    close_in_vain(first, 50);
    // The next probe counts later calls.
    session.ask(&format!("q = probe(\"syscalls:sys_enter_close\", {})", counting(first, 1000)));
    close_in_vain(first, 1);
    session.reaches("n", 1050);
    assert_eq!(session.end(), 0);
}

fn two_probes_of_one_event_count_the_same_and_are_filtered_separately() {
    let first = NO_FILES[6];
    let mut session = Session::begin(&[]);
    session.ask("n, m = 0, 0");
    session.ask(&format!("p = probe(\"syscalls:sys_enter_close\", {})", counting(first, 1)));
    let other = counting(first, 1).replace("n = n", "m = m");
    session.ask(&format!("q = probe(\"syscalls:sys_enter_close\", {other})"));
    close_in_vain(first, 1000);
    session.reaches("n", 1000);
    session.reaches("m", 1000);
    session.ask(&format!("q:filter(\"fd == {}\")", first + 1));
    close_in_vain(first, 100);
    close_in_vain(first + 1, 10);
    session.reaches("n", 1110);
    session.reaches("m", 1010);
    session.ask("p:off()");
    close_in_vain(first + 1, 10);
    session.reaches("m", 1020);
    assert_eq!(session.ask("n"), "1110");
    assert_eq!(session.end(), 0);
}

fn run_on(cpus: &libc::cpu_set_t) {
    // SAFETY: the kernel reads the set, whose size is passed.
    let set = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus) };
    assert_eq!(set, 0);
}

fn an_event_of_everyone_is_read_on_all_cpus() {
    // SAFETY: the sets are filled before they are read, and their size is passed.
    let (own, cpus) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        let cpus = (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &set));
        (set, cpus.collect::<Vec<_>>())
    };
    let [watched, .., other] = cpus[..] else { return };
    let first = NO_FILES[7];
    let mut session = Session::begin(&["-C", &watched.to_string()]);
    session.ask("n, m = 0, 0");
    session.ask(&format!("probe(\"syscalls:sys_enter_close\", {})", counting(first, 1)));
    let everyone = counting(first, 1).replace("n = n", "m = m");
    session
        .ask(&format!("probe(\"syscalls:sys_enter_close\", {{ all_tasks = true }}, {everyone})"));
    // SAFETY: zero is a valid, empty set.
    let mut only: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number comes from a set, so it is within the bounds.
    unsafe { libc::CPU_SET(other, &mut only) };
    run_on(&only);
    close_in_vain(first, 100);
    run_on(&own);
    session.reaches("m", 100);
    assert_eq!(session.ask("n"), "0");
    assert_eq!(session.end(), 0);
}

fn run_delivers_declared_events_only_while_it_lasts() {
    let first = NO_FILES[3];
    let mut session = Session::begin(&[]);
    session.ask("n = 0");
    session.ask(&format!("evsel(\"syscalls:sys_enter_close\", {})", counting(first, 1)));
    close_in_vain(first, 100);
    let begun = Instant::now();
    session.ask("run \"200ms\"");
    assert!(begun.elapsed() >= Duration::from_millis(200));
    close_in_vain(first, 100);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(session.ask("n"), "0");
    assert_eq!(session.end(), 0);
}

fn typed_lines_are_saved_as_a_monitor_that_runs() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("closes.lua");
    let path = path.to_str().expect("a path in UTF-8");
    let mut session = Session::begin(&[]);
    session.ask("local closes = kv { \"fd\" }");
    session.ask("p = probe(\"syscalls:sys_enter_close\", function(e) closes:add(e.fd) end)");
    let (kept, other) = (NO_FILES[11], NO_FILES[11] + 1);
    session.ask(&format!("p:filter(\"fd == {kept}\")"));
    session.ask("show(\"syscalls:sys_enter_getppid\", { time = \"10ms\" })");
    let asked = session.ask(&format!(":save {path}"));
    assert!(asked.contains("is outside the current folder"), "{asked}");
    assert!(!std::path::Path::new(path).exists(), "the file is not written before confirmation");
    let saved = session.ask(&format!(":save {path}"));
    assert!(saved.starts_with("wrote "), "{saved}");
    assert_eq!(session.end(), 0);
    let mut run = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args([path, "--duration", "120s"])
        .env_remove("PERILUNE_PATH")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the built command runs");
    let mut said = BufReader::new(run.stderr.take().expect("it was piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("the session prints when it starts");
    assert!(line.contains("watching"), "{line}");
    close_in_vain(kept, 42);
    close_in_vain(other, 7);
    // SAFETY: a child of this process that has not been waited for.
    assert_eq!(unsafe { libc::kill(run.id().cast_signed(), libc::SIGINT) }, 0);
    let output = run.wait_with_output().expect("our own child can be waited for");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_count = |line: &&str| [kept, other].iter().any(|fd| line.contains(&fd.to_string()));
    let counts: Vec<&str> = text.lines().filter(is_count).collect();
    // The filter is part of the definition: the other descriptor is not counted.
    assert!(matches!(counts[..], [line] if line.trim_end().ends_with(" 42")), "{text}");
}

fn threads_of_the_session_are_named() {
    let mut session = Session::begin(&[]);
    session.ask("p = probe(\"sched:sched_process_exec\", function() end)");
    let folder = format!("/proc/{}/task", session.child.id());
    let tasks = std::fs::read_dir(&folder).expect("it runs").flatten();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    let mut names: Vec<String> = tasks.filter_map(|task| name(task).ok()).collect();
    names.sort();
    assert_eq!(names.concat(), "perilune\nperilune:close\nperilune:read\n");
    assert_eq!(session.end(), 0);
}

fn show_prints_interrupts_of_the_session_itself() {
    let mut session = Session::begin(&[]);
    session.ask("every(\"1ms\", function() for i = 1, 2e6 do end end)");
    let shown = session.ask("show(\"timer:hrtimer_expire_entry\", { n = 200, time = \"5s\" })");
    let own = session.child.id().to_string();
    let is_ours = |line: &str| line.split_whitespace().any(|word| word == own);
    assert!(shown.lines().any(is_ours), "{shown}");
    assert_eq!(session.end(), 0);
}

fn the_end_of_the_watched_process_is_noted_once() {
    let mut watched = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat runs");
    let mut session = Session::heard(&["-p", &watched.id().to_string()]);
    assert_eq!(session.ask("probe(\"syscalls:sys_enter_close\", function() end)"), "");
    assert_eq!(session.ask("run \"200ms\""), "");
    drop(watched.stdin.take());
    watched.wait().expect("our own child can be waited for");
    assert_eq!(session.ask("run \"200ms\""), "perilune: note: the watched tasks have ended");
    assert_eq!(session.ask("run \"200ms\""), "");
    assert_eq!(session.end(), 0);
}
