//! Counts of a session that the kernel does: the same numbers as from records, without records.

use super::piped::{NO_FILES, Session, close_in_vain};
use crate::live::{live_tests, skip};

live_tests! {
    a_declared_count_is_exact_while_its_event_is_on,
    a_handler_set_later_gets_records,
    a_filter_set_later_limits_the_count,
    a_monitor_in_the_background_counts_in_the_kernel,
    a_monitor_is_stopped_by_its_name_and_others_go_on,
    a_table_of_two_events_is_counted_while_both_are_on,
    an_event_of_two_tables_is_counted_once,
    a_table_that_is_declared_later_takes_records,
    the_first_counts_are_compared_with_perfs,
    counts_of_all_system_calls_agree_with_perfs_under_load,
    what_perf_counts_otherwise_raises_no_alarm,
}

/// Starts a session that counts in the kernel, or skips the test where that is not possible.
fn begin() -> Session {
    let doctor = std::process::Command::new(env!("CARGO_BIN_EXE_perilune")).arg("doctor").output();
    let text = doctor.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.expect("the built command runs");
    if !text.lines().any(|line| line.starts_with("counting") && line.contains(" ok ")) {
        skip("events are not counted in the kernel here");
    }
    Session::begin(&["--where", "kernel"])
}

/// Returns the line that prints the count of a key, or `nil`.
fn count_of(key: i32) -> String {
    format!("do local n for fd, c in by:each() do if fd == {key} then n = c end end print(n) end")
}

/// Returns the line that declares `p`, the calls that close one of ten descriptors, and counts them
/// in `by`.
fn declared(first: i32) -> String {
    let last = first + 9;
    format!(
        "p = evsel(\"syscalls:sys_enter_close/fd >= {first} && fd <= {last}/\") \
         by = kv {{ \"fd\" }} by:count(p, {{ key = \"fd\" }})"
    )
}

fn is_counted_in_the_kernel(session: &mut Session) -> bool {
    let cost = session.ask(":cost");
    cost.lines().any(|line| {
        line.starts_with("syscalls:sys_enter_close: ")
            && line.contains(" counted in the kernel, without records")
    })
}

fn a_declared_count_is_exact_while_its_event_is_on() {
    let first = NO_FILES[8];
    let mut session = begin();
    session.ask(&declared(first));
    close_in_vain(first, 5);
    assert!(!is_counted_in_the_kernel(&mut session), "it is off");
    session.ask("p:on()");
    assert!(is_counted_in_the_kernel(&mut session));
    close_in_vain(first, 1000);
    close_in_vain(first + 1, 20);
    assert_eq!(session.ask(&count_of(first)), "1000");
    assert_eq!(session.ask(&count_of(first + 1)), "20");
    session.ask("p:off()");
    close_in_vain(first, 7);
    assert_eq!(session.ask(&count_of(first)), "1000");
    session.ask("p:on()");
    close_in_vain(first, 3);
    assert_eq!(session.ask(&count_of(first)), "1003");
    assert!(session.ask("by").contains("1003"));
    assert_eq!(session.ask(":lost"), "1023 events: nothing lost");
    session.ask("by:clear()");
    close_in_vain(first, 2);
    assert_eq!(session.ask(&count_of(first)), "2");
    assert_eq!(session.end(), 0);
}

fn a_handler_set_later_gets_records() {
    let first = NO_FILES[9];
    let mut session = begin();
    session.ask(&declared(first));
    session.ask("p:on()");
    close_in_vain(first, 100);
    session.ask("n = 0");
    session.ask("p:replace(function(e) n = n + 1 end)");
    assert!(!is_counted_in_the_kernel(&mut session));
    close_in_vain(first, 30);
    session.reaches("n", 30);
    assert_eq!(session.ask(&count_of(first)), "100");
    assert_eq!(session.end(), 0);
}

fn a_filter_set_later_limits_the_count() {
    let first = NO_FILES[10];
    let mut session = begin();
    session.ask(&declared(first));
    session.ask("p:on()");
    close_in_vain(first, 10);
    session.ask(&format!("p:filter(\"fd == {}\")", first + 1));
    assert!(is_counted_in_the_kernel(&mut session));
    close_in_vain(first, 10);
    close_in_vain(first + 1, 4);
    assert_eq!(session.ask(&count_of(first)), "10");
    assert_eq!(session.ask(&count_of(first + 1)), "4");
    assert_eq!(session.end(), 0);
}

fn a_monitor_in_the_background_counts_in_the_kernel() {
    let first = NO_FILES[11];
    let mut session = begin();
    let event = format!("syscalls:sys_enter_close/fd=={first}/key=fd/");
    session.ask(&format!("run(\"top\", {{ event = \"{event}\", interval = 60000 }})"));
    assert!(is_counted_in_the_kernel(&mut session));
    close_in_vain(first, 321);
    let report = session.ask("stop(1)");
    assert!(report.lines().any(|line| line.contains("321")), "{report}");
    assert!(!is_counted_in_the_kernel(&mut session));
    assert_eq!(session.end(), 0);
}

fn a_monitor_is_stopped_by_its_name_and_others_go_on() {
    let first = NO_FILES[11] + 5;
    let mut session = Session::heard(&[]);
    session.ask(&declared(first));
    session.ask("p:on()");
    let event = format!("syscalls:sys_enter_close/fd=={first}/key=fd/");
    session.ask(&format!("run(\"top\", {{ event = \"{event}\", interval = 60000 }})"));
    close_in_vain(first, 321);
    assert!(session.ask(":stop tops").contains("stop: there is no monitor 'tops'"));
    assert!(session.ask(":stop").contains("stop takes the number or the name of a monitor"));
    let report = session.ask(":stop top");
    assert!(report.lines().any(|line| line.contains("321")), "{report}");
    assert!(session.ask(":jobs").contains("no monitor runs"));
    close_in_vain(first, 100);
    assert_eq!(session.ask(&count_of(first)), "421");
    session.end();
}

fn a_table_of_two_events_is_counted_while_both_are_on() {
    let first = NO_FILES[8] + 5;
    let mut session = begin();
    session.ask(&format!(
        "by = kv {{ \"fd\" }} p = evsel(\"syscalls:sys_enter_close/fd == {first}/\") \
         q = evsel(\"syscalls:sys_enter_fsync/fd == {first}/\") \
         by:count(p, {{ key = \"fd\" }}) by:count(q, {{ key = \"fd\" }}) p:on() q:on()"
    ));
    assert!(session.ask(":cost").contains("counted in the kernel"));
    close_in_vain(first, 40);
    // SAFETY: the descriptor does not exist, so nothing is written.
    (0..2).for_each(|_| _ = unsafe { libc::fsync(first) });
    assert_eq!(session.ask(&count_of(first)), "42");
    // Records take over: one event alone is on.
    session.ask("q:off()");
    assert!(!session.ask(":cost").contains("counted in the kernel"));
    close_in_vain(first, 8);
    let since = std::time::Instant::now();
    while session.ask(&count_of(first)) != "50" && since.elapsed().as_secs() < 10 {}
    assert_eq!(session.ask(&count_of(first)), "50");
    assert_eq!(session.end(), 0);
}

fn an_event_of_two_tables_is_counted_once() {
    let first = NO_FILES[9] + 5;
    let mut session = begin();
    session.ask(&format!(
        "{} all = kv {{ \"n\" }} all:count(p, {{ key = \"1\" }}) p:on()",
        declared(first)
    ));
    assert!(is_counted_in_the_kernel(&mut session));
    close_in_vain(first, 40);
    assert_eq!(session.ask(&count_of(first)), "40");
    assert_eq!(session.ask("for _, n in all:each() do print(n) end"), "40");
    assert_eq!(session.ask(":lost"), "40 events: nothing lost");
    assert_eq!(session.end(), 0);
}

fn a_table_that_is_declared_later_takes_records() {
    let first = NO_FILES[10] + 5;
    for later in [
        "all = kv { \"n\" } all:count(p, { key = \"1\" })",
        "x = evsel \"syscalls:sys_exit_close\" all = kv { \"n\" } \
         all:between(p, x, { key = \"_tid\", rows = { \"1\" } }) x:on()",
    ] {
        let mut session = begin();
        session.ask(&declared(first));
        session.ask("p:on()");
        close_in_vain(first, 10);
        session.ask(later);
        assert!(!is_counted_in_the_kernel(&mut session));
        close_in_vain(first, 7);
        let all = "do local all_n = 0 for _, n in all:each() do all_n = n end print(all_n) end";
        let since = std::time::Instant::now();
        while session.ask(all) != "7" && since.elapsed().as_secs() < 10 {}
        assert_eq!(session.ask(all), "7", "{later}");
        assert_eq!(session.ask(&count_of(first)), "17", "{later}");
        assert_eq!(session.end(), 0);
    }
}

/// Asks until an answer contains the result of the comparison, and returns that.
fn compared(session: &mut Session) -> String {
    let since = std::time::Instant::now();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let answer = session.ask("print(1)");
        if answer.contains("perf's own counter") {
            return answer;
        }
        assert!(since.elapsed().as_secs() < 10, "no comparison: {answer}");
    }
}

fn the_first_counts_are_compared_with_perfs() {
    let first = NO_FILES[12];
    begin().end();
    let mut session = Session::heard(&[]);
    session.ask(&declared(first));
    session.ask("p:on()");
    let events = session.events();
    close_in_vain(first, 1234);
    let answer = compared(&mut session);
    assert!(answer.contains("agrees with the first 1234 events"), "{answer}");
    assert_eq!(session.ask(&count_of(first)), "1234");
    let since = std::time::Instant::now();
    while session.events() >= events {
        assert!(since.elapsed().as_secs() < 10, "its perf events stay open");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // Once is enough.
    session.ask("p:off()");
    session.ask("p:on()");
    close_in_vain(first, 10);
    std::thread::sleep(std::time::Duration::from_millis(1300));
    let answer = session.ask(&count_of(first));
    assert_eq!(answer, "1244", "without another message");
    assert_eq!(session.end(), 0);
}

/// Starts a thread that closes a descriptor in vain for so many seconds.
fn closing_in_vain(number: i32, seconds: u64) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
        while std::time::Instant::now() < end {
            close_in_vain(number, 1000);
        }
    })
}

fn counts_of_all_system_calls_agree_with_perfs_under_load() {
    begin().end();
    let loads = [0; 2].map(|_| closing_in_vain(NO_FILES[13], 3));
    let mut session = Session::heard(&[]);
    session.ask(
        "p = evsel \"raw_syscalls:sys_enter\" by = kv { \"id\" } by:count(p, { key = \"id\" })",
    );
    session.ask("p:on()");
    let answer = compared(&mut session);
    assert!(answer.contains("agrees with the first"), "{answer}");
    assert_eq!(session.end(), 0);
    loads.into_iter().for_each(|load| load.join().expect("the load ends"));
}

fn what_perf_counts_otherwise_raises_no_alarm() {
    begin().end();
    let close = "syscalls:sys_enter_close";
    let of_two_tables = format!(
        "p = evsel(\"{close}\") q = evsel(\"syscalls:sys_enter_openat\") \
         a, b = kv {{ \"id\" }}, kv {{ \"id\" }} \
         a:count(p, {{ key = \"1\" }}) b:count(p, {{ key = \"1\" }}) b:count(q, {{ key = \"2\" }}) \
         p:on() q:on()"
    );
    let nanoseconds = "p = evsel \"sched:sched_stat_runtime\" by = kv { \"pid\" } \
                       by:count(p, { key = \"pid\" }) p:on()";
    let of_a_cpu = format!(
        "p = evsel(\"{close}\", {{ cpus = \"0\" }}) by = kv {{ \"fd\" }} \
         by:count(p, {{ key = \"fd\" }}) p:on()"
    );
    let load = closing_in_vain(NO_FILES[13] + 1, 6);
    for line in [&*of_two_tables, nanoseconds, &of_a_cpu] {
        let mut session = Session::heard(&[]);
        let mut answer = session.ask(line);
        std::thread::sleep(std::time::Duration::from_millis(1500));
        answer += &session.ask("print(1)");
        assert!(!answer.contains("warning") && !answer.contains("error"), "{line}: {answer}");
        assert_eq!(session.end(), 0);
    }
    load.join().expect("the load ends");
}
