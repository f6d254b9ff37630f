//! The prompt on a terminal: keys, completion, output above the line, Ctrl-C.

use std::time::Duration;

use crate::live::{live_tests, skip_anywhere};
use crate::pty::{CTRL_C, OnTerminal};

live_tests! {
    typed_lines_have_priority_over_output_and_signals,
    a_line_is_answered_and_ctrl_d_ends_the_session,
    a_statement_may_have_several_lines,
    tab_completes_events_fields_functions_and_methods,
    output_of_events_appears_above_the_typed_line,
    a_flood_of_output_is_limited_and_omitted_lines_are_counted,
    ctrl_c_ends_a_line_that_loops_and_not_the_session,
    a_termination_signal_restores_the_terminal,
    a_ctrl_c_that_arrives_together_with_the_line_stops_it,
    a_ctrl_c_during_start_or_between_lines_does_not_end_the_session,
    ctrl_c_stops_every_kind_of_endless_line,
}

const CTRL_D: &str = "\x04";
/// Deletes the typed line.
const CTRL_U: &str = "\x15";

/// Starts a prompt and waits until it is ready.
fn prompt() -> OnTerminal {
    let mut prompt = OnTerminal::start(100, 24, &["repl"]);
    prompt.wait_for("> ");
    prompt
}

fn a_line_is_answered_and_ctrl_d_ends_the_session() {
    let mut prompt = prompt();
    prompt.press("20 + 22\r");
    prompt.wait_for("\n42\r\n");
    prompt.press(CTRL_D);
    let (status, text) = prompt.finish();
    assert_eq!(status.code(), Some(0), "{text}");
}

fn a_statement_may_have_several_lines() {
    let mut prompt = prompt();
    prompt.press("for i = 1, 2 do\r");
    prompt.press("print(\"line \" .. i * 21)\r");
    prompt.press("end\r");
    prompt.wait_for("line 21\r\n");
    prompt.wait_for("line 42\r\n");
    prompt.press(CTRL_D);
    assert_eq!(prompt.finish().0.code(), Some(0));
}

fn tab_completes_events_fields_functions_and_methods() {
    let mut prompt = prompt();
    for (typed, wanted) in [
        ("\"sched:sched_process_for\t\"", "\nsched:sched_process_fork\r\n"),
        ("(\"x\" .. 1) -- probe(\"sched:sched_switch\", function(e) e.prev_st\t", "e.prev_state"),
        ("\"cs,syscalls/--tha\t 1ms/\"", "\ncs,syscalls/--than 1ms/\r\n"),
        ("\"{context-swi\t,cs}\"", "\n{context-switches,cs}\r\n"),
        ("\"{cs,cpu-clock//fre\t9/}\"", "\n{cs,cpu-clock//freq=9/}\r\n"),
        ("(\"z\" .. 1) -- probe(\"page-faults\", function(e) e._code_pa\t", "e._code_page_size"),
        ("latenc\t == latency", "\ntrue\r\n"),
        ("\"uprobe:bash:shell_exec\t\"", "\nuprobe:bash:shell_execve\r\n"),
        ("\"uprobe:bash:shell_execve(arg1.te\t)\"", "\nuprobe:bash:shell_execve(arg1.text)\r\n"),
        ("\"a:b,uprobe:/bin/rbas\t:shell_exec\t\"", "\na:b,uprobe:/bin/rbash:shell_execve\r\n"),
        ("(\"y\" .. 1) -- probe(\"uretprobe:bash:shell_execve\", function(e) e.retv\t", "e.retval"),
    ] {
        prompt.press(typed);
        // The completion is computed by the session's thread, so it takes some time.
        std::thread::sleep(Duration::from_millis(300));
        prompt.press("\r");
        prompt.wait_for(wanted);
    }
    prompt.press("by = kv { \"comm\" }\r");
    prompt.press("by:ad\t");
    prompt.wait_for("by:add");
    prompt.press(CTRL_U);
    prompt.press(CTRL_D);
    assert_eq!(prompt.finish().0.code(), Some(0));
}

fn output_of_events_appears_above_the_typed_line() {
    let mut prompt = prompt();
    prompt.press("every(\"300ms\", function() print(\"tick\" .. \"tock\") end)\r");
    prompt.press("half");
    // Printed on a separate line; the typed line below it is drawn again.
    prompt.wait_for("\x1b[Kticktock\r\n> half");
    prompt.press(CTRL_U);
    prompt.press(CTRL_D);
    assert_eq!(prompt.finish().0.code(), Some(0));
}

fn a_flood_of_output_is_limited_and_omitted_lines_are_counted() {
    let mut prompt = prompt();
    prompt.press("every(\"1ms\", function() for i = 1, 10 do print(\"flo\" .. \"od\") end end)\r");
    prompt.wait_for("lines omitted");
    prompt.press("6 * 7\r");
    prompt.wait_for("\n42\r\n");
    prompt.wait_for("lines omitted");
    let flood = prompt.text().matches("flood").count();
    prompt.press("clear()\r");
    prompt.press(CTRL_D);
    assert_eq!(prompt.finish().0.code(), Some(0));
    // Ten thousand lines per second were printed.
    assert!((50..2000).contains(&flood), "{flood}");
}

fn typed_lines_have_priority_over_output_and_signals() {
    // SAFETY: the calls only read their arguments; the policy is that of a thread that ends here.
    let may = std::thread::spawn(|| unsafe {
        let lowest = libc::sched_param { sched_priority: 1 };
        // A nice value other than 0 was set by the user and is not changed.
        libc::getpriority(libc::PRIO_PROCESS, 0) == 0
            && libc::sched_setscheduler(0, libc::SCHED_RR, &raw const lowest) == 0
    });
    if !may.join().expect("the thread does not panic") {
        skip_anywhere("this process may not raise its priority");
    }
    let mut prompt = prompt();
    let tasks = std::fs::read_dir(format!("/proc/{}/task", prompt.child.id())).expect("it runs");
    let mut in_front: Vec<String> = Vec::new();
    for task in tasks.flatten() {
        let read = |name| std::fs::read_to_string(task.path().join(name)).expect("it is there");
        // The policy is the 41st field, see proc_pid_stat(5).
        let policy = read("stat")
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().nth(38)?.parse().ok());
        if policy == Some(libc::SCHED_RR) {
            in_front.push(read("comm").trim_end().to_owned());
        }
    }
    in_front.sort();
    // Closing events may take long, and events must be buffered first, so these threads are not
    // real-time.
    assert_eq!(in_front, ["perilune:print", "perilune:read", "perilune:signal"]);
    prompt.press(CTRL_D);
    assert_eq!(prompt.finish().0.code(), Some(0));
}

fn ctrl_c_ends_a_line_that_loops_and_not_the_session() {
    let mut prompt = prompt();
    for line in ["while true do end\r", "run()\r"] {
        prompt.press(line);
        // `run` waits, and a Ctrl-C that arrives before it starts stops it as well.
        if line.starts_with("while") {
            prompt.wait_until_it_spins();
        }
        prompt.press(CTRL_C);
        prompt.press("6 * 7\r");
        prompt.wait_for("\n42\r\n");
    }
    assert!(prompt.text().contains("stopped by Ctrl-C"), "{}", prompt.text());
    prompt.press(CTRL_D);
    assert_eq!(prompt.finish().0.code(), Some(0));
}

fn a_termination_signal_restores_the_terminal() {
    let prompt = prompt();
    // SAFETY: a child of this process that has not been waited for.
    unsafe { libc::kill(prompt.child.id() as i32, libc::SIGTERM) };
    assert_eq!(prompt.finish().0.code(), Some(0));
}

/// Waits until the command catches SIGINT.
fn catches_interrupts(prompt: &OnTerminal) {
    let path = format!("/proc/{}/status", prompt.child.id());
    let caught = || {
        let status = std::fs::read_to_string(&path).expect("it runs");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).expect("Linux");
        u64::from_str_radix(mask, 16).expect("a mask") & (1 << (libc::SIGINT - 1)) != 0
    };
    while !caught() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn a_ctrl_c_that_arrives_together_with_the_line_stops_it() {
    let mut prompt = prompt();
    for n in 1..=10 {
        // One write: the terminal has both before the line is read.
        prompt.press("while true do end\r\x03");
        prompt.wait_for("stopped by Ctrl-C");
        prompt.press(&format!("{n} * 1000\r"));
        prompt.wait_for(&format!("\n{n}000\r\n"));
        prompt.wait_for("> ");
    }
    // Ctrl-C in an unfinished line discards the line.
    prompt.press("6 * \x03");
    prompt.press_until("7 * 7\r", "\n49\r\n");
    prompt.press(CTRL_D);
    assert_eq!(prompt.finish().0.code(), Some(0));
}

fn a_ctrl_c_during_start_or_between_lines_does_not_end_the_session() {
    let mut prompt = OnTerminal::start(100, 24, &["repl"]);
    let pid = prompt.child.id().cast_signed();
    // SAFETY: it takes no pointer; the child is not reaped before it is waited for.
    let interrupt = || assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    catches_interrupts(&prompt);
    interrupt();
    prompt.wait_for("> ");
    for (line, wanted) in [("6 * 7\r", "\n42\r\n"), ("7 * 7\r", "\n49\r\n")] {
        interrupt();
        prompt.press_until(line, wanted);
    }
    prompt.press(CTRL_D);
    assert_eq!(prompt.finish().0.code(), Some(0));
}

fn ctrl_c_stops_every_kind_of_endless_line() {
    let mut prompt = prompt();
    for line in [
        "xpcall(function() while true do end end, function() while true do end end)\r",
        "(\"a\"):rep(1e6):find((\"a*\"):rep(20) .. \"b\")\r",
        "setmetatable({}, { __tostring = function() while true do end end })\r",
        "by = kv { { \"n\", function() while true do end end } } by:add(1) return by\r",
    ] {
        prompt.press(line);
        prompt.wait_until_it_spins();
        prompt.press(CTRL_C);
        prompt.press("6 * 7\r");
        prompt.wait_for("\n42\r\n");
    }
    assert_eq!(prompt.text().matches("stopped by Ctrl-C").count(), 4, "{}", prompt.text());
    prompt.press(CTRL_D);
    assert_eq!(prompt.finish().0.code(), Some(0));
}
