//! USDT probes of a program that writes their notes itself: each time that the program reaches a
//! probe is one event with the values that the program had, at all sites; the semaphore is raised
//! while the probe is watched.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::parameters::needs_user_text;
use super::{Program, next_line, sum, watch};
use crate::live::{live_tests, skip_anywhere};
use crate::tool::{Run, Tool};

live_tests! {
    each_time_that_a_usdt_probe_is_reached_has_its_arguments_at_all_sites,
    a_usdt_probe_is_filtered_and_counted_by_the_kernel,
    text_behind_an_argument_is_read_on_request,
    arguments_in_variables_are_read_at_any_load_address,
    a_python_that_is_built_with_probes_names_its_functions,
    usdt_probes_are_listed_and_described,
    a_usdt_probe_of_another_mount_namespace_is_watched_through_its_process,
    usdt_probes_that_cannot_be_watched_are_refused_with_the_reason;
    alone: [the_semaphore_is_raised_while_the_probe_is_watched_also_if_the_run_is_killed]
}

/// `chain N KIDS [WAIT]`: each child and then `main` itself reaches `shop:sale` N times in `sell`
/// and once in `close_shop`, and `shop:idle` once. With WAIT it prints the semaphore of `sale` for
/// each line on stdin, sells at the line `s`, and ends with stdin.
const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define NOTE(provider, name, semaphore, arguments, ...) __asm__ volatile( \
    "990: nop\n" \
    ".pushsection .note.stapsdt,\"\",\"note\"\n" \
    ".balign 4\n.4byte 992f-991f, 994f-993f, 3\n" \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n" \
    "993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte " semaphore "\n" \
    ".asciz \"" provider "\"\n.asciz \"" name "\"\n.asciz \"" arguments "\"\n" \
    "994: .balign 4\n.popsection\n" \
    ".ifndef _.stapsdt.base\n" \
    ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
    ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n" \
    "_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection\n.endif\n" \
    :: __VA_ARGS__)
__attribute__((section(".probes"), used)) volatile unsigned short shop_sale_semaphore;
struct item { int pad; short price; };
__attribute__((noinline)) static void sell(long i, long who) {
    volatile long sum = i * 3;
    volatile signed char mood = -1;
    volatile unsigned char flags = 200;
    struct item item = { 0, -9 }, *p = &item;
    __asm__ volatile("" :: "r"(p) : "memory");
    NOTE("shop", "sale", "shop_sale_semaphore",
         "-4@%0 8@%1 -1@%2 1@%3 -2@4(%4) -4@%5 8@(%4,%6,1)",
         "r"((int)-i), "m"(sum), "m"(mood), "m"(flags), "r"(p), "n"(-7), "r"(who));
    (void)who;
}
__attribute__((noinline)) static void close_shop(void) {
    NOTE("shop", "sale", "shop_sale_semaphore", "-4@%0 8@%0 -1@%0 1@%0 -2@%0 -4@%0 8@%0", "n"(5));
}
__attribute__((noinline)) static void idle(void) { NOTE("shop", "idle", "0", "", "n"(0)); }
__attribute__((noinline)) static void name(long i) {
    static char names[2][8] = { "apple", "pear" };
    char *text = names[i % 2];
    char *volatile stored = text;
    NOTE("shop", "name", "0", "8@%0 8@%1 -4@%2", "r"(text), "m"(stored), "r"((int)i));
}
static int stock = 1000;
static struct { long pad, sold; const char *last; } totals;
__attribute__((noinline)) static void count(void) {
    stock--;
    totals.sold += 2;
    totals.last = "last";
    NOTE("shop", "count", "0", "-4@stock(%%rip) 8@totals+8(%%rip) 8@totals+16(%%rip)", "n"(0));
}
static void work(long n, long who) {
    for (long i = 0; i < n; i++) { sell(i, who); name(i); count(); }
    close_shop();
    idle();
}
int main(int argc, char **argv) {
    long n = atol(argv[1]), kids = atol(argv[2]);
    if (argc > 3) {
        for (int c; (c = getchar()) != EOF;) {
            if (c == 's') work(n, 0);
            if (c == '\n') { printf("%d\n", shop_sale_semaphore); fflush(stdout); }
        }
        return 0;
    }
    for (long kid = 1; kid <= kids; kid++)
        if (!fork()) { work(n, kid); _exit(0); }
    work(n, 0);
    int status, bad = 0;
    while (wait(&status) > 0) bad |= status;
    return bad != 0;
}
"#;

const N: u32 = 400;
const KIDS: u32 = 2;

fn arguments_in_variables_are_read_at_any_load_address() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    for flags in [&["-pie", "-fPIE"][..], &["-no-pie"], &["-O2", "-pie", "-fPIE"]] {
        let program = Program::of(SOURCE, flags);
        let event = program.function("usdt", "shop:count");
        let run = program.watched(&["trace", "-e", &event], N, 0);
        let n = i128::from(N);
        assert_eq!(run.of("event").count() as i128, n, "{}", run.stderr);
        assert_eq!(sum(&run, "arg1"), (1..=n).map(|i| 1000 - i).sum(), "{flags:?}");
        assert_eq!(sum(&run, "arg2"), n * (n + 1), "{flags:?}");
        run.is_complete();
        let run = program.watched(&["trace", "-e", &format!("{event}(last=arg3.text)")], N, 0);
        needs_user_text(&run);
        assert_eq!(run.of("event").filter(|event| event["last"] == "last").count() as u32, N);
    }
    let stripped = Program::of(SOURCE, &["-s"]);
    let event = stripped.function("usdt", "shop:count");
    let run = stripped.watched(&["trace", "-e", &format!("{event}(arg1)")], N, 0);
    assert!(run.stderr.contains("'arg1' is in the variable `stock`: "), "{}", run.stderr);
}

fn sale(program: &Program) -> String {
    program.function("usdt", "shop:sale")
}

fn each_time_that_a_usdt_probe_is_reached_has_its_arguments_at_all_sites() {
    for flags in [&["-pie", "-fPIE"][..], &["-no-pie"], &["-O2", "-pie", "-fPIE", "-s"]] {
        let program = Program::of(SOURCE, flags);
        let run = program.watched(&["trace", "-e", &sale(&program)], N, KIDS);
        check_sales(&run);
        let idle =
            program.watched(&["trace", "-e", &program.function("usdt", "shop:idle")], N, KIDS);
        assert_eq!(idle.of("event").count() as u32, KIDS + 1, "{}", idle.stderr);
        idle.is_complete();
    }
}

/// Checks the events of N sales and one end in each of KIDS + 1 processes.
fn check_sales(run: &Run) {
    let (n, processes) = (i128::from(N), i128::from(KIDS) + 1);
    assert_eq!(run.of("event").count() as i128, (n + 1) * processes, "{}", run.stderr);
    let each = n * (n - 1) / 2;
    assert_eq!(sum(run, "arg1"), processes * (5 - each));
    assert_eq!(sum(run, "arg2"), processes * (5 + 3 * each));
    for (field, value) in [("arg3", -1), ("arg4", 200), ("arg5", -9), ("arg6", -7)] {
        assert_eq!(sum(run, field), processes * (n * value + 5), "{field}");
    }
    assert!(run.of("event").all(|event| event["arg7"].is_null()));
    run.is_complete();
}

fn a_usdt_probe_is_filtered_and_counted_by_the_kernel() {
    let program = Program::of(SOURCE, &[]);
    let selector = format!("{}/arg1 < -390 && arg4 == 200/", sale(&program));
    let run = program.watched(&["trace", "-e", &selector], N, 0);
    assert_eq!(run.of("event").count(), 9, "{}", run.stderr);
    assert!(run.of("event").all(|event| event["arg1"].as_i64().is_some_and(|i| i < -390)));
    run.is_complete();
    let keyed = format!("{}//key=arg5/", sale(&program));
    let run = program.watched(&["top", "-e", &keyed], N, 0);
    let rows: Vec<_> = run.of("row").collect();
    let sales = |row: &Value| {
        row.as_object()?.iter().find(|(name, _)| name.ends_with("shop_sale"))?.1.as_u64()
    };
    let of = |price: i64| rows.iter().find(|row| row["arg5"] == price).and_then(|row| sales(row));
    assert_eq!((of(-9), of(5)), (Some(N.into()), Some(1)), "{:?}", run.objects);
    let selector = format!("{}/arg1 > -5/", sale(&program));
    let run = program.watched(&["stat", "-a", "-e", &selector], N, 0);
    let counts: Vec<_> = run.of("row").map(|row| row["count"].as_u64()).collect();
    assert_eq!(counts, [Some(5 + 1)], "{}", run.stderr);
}

/// The program, which waits for lines.
struct Shop {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Shop {
    fn open(program: &Program) -> Shop {
        let mut command = Command::new(program.path());
        command.args([&N.to_string(), "0", "wait"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it was built");
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        Shop { child, out }
    }

    /// Returns the value of the semaphore.
    fn semaphore(&mut self) -> u32 {
        next_line(&mut self.child);
        let mut line = String::new();
        self.out.read_line(&mut line).expect("it prints");
        line.trim().parse().expect("a number")
    }

    fn wait_for_semaphore(&mut self, wanted: u32) {
        let since = Instant::now();
        while self.semaphore() != wanted {
            assert!(since.elapsed() < Duration::from_secs(10), "it is not {wanted}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn close(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("our own child").success());
    }
}

fn the_semaphore_is_raised_while_the_probe_is_watched_also_if_the_run_is_killed() {
    let program = Program::of(SOURCE, &[]);
    let mut shop = Shop::open(&program);
    assert_eq!(shop.semaphore(), 0);
    let tool = Tool::attach(&["trace", "-e", &sale(&program)]);
    // Each of the two sites raises it.
    assert_eq!(shop.semaphore(), 2);
    let run = tool.finish();
    assert_eq!(run.of("event").count(), 0, "{}", run.stderr);
    shop.wait_for_semaphore(0);
    let tool = Tool::attach(&["trace", "-e", &sale(&program)]);
    let group = format!("perilune_{}/", tool.pid());
    assert_eq!(shop.semaphore(), 2);
    // Dropping the tool kills it.
    drop(tool);
    shop.wait_for_semaphore(0);
    // A killed run leaves the lines of its event, which have no effect and which the next removes.
    let lines = || {
        let list = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].into_iter();
        let mut list =
            list.filter_map(|at| std::fs::read_to_string(format!("{at}/uprobe_events")).ok());
        list.next().unwrap_or_default().lines().filter(|line| line.contains(&group)).count()
    };
    assert_eq!(lines(), 2);
    check_sales(&program.watched(&["trace", "-e", &sale(&program)], N, KIDS));
    assert_eq!(lines(), 0);
    shop.close();
}

fn text_behind_an_argument_is_read_on_request() {
    let program = Program::of(SOURCE, &["-O1"]);
    let event = program.function("usdt", "shop:name(arg1.text, arg3, arg2.text)");
    let run = program.watched(&["trace", "-e", &event], N, 0);
    needs_user_text(&run);
    assert_eq!(run.of("event").count() as u32, N, "{}", run.stderr);
    for (i, event) in run.of("event").enumerate() {
        let name = if i % 2 == 0 { "apple" } else { "pear" };
        assert_eq!((&event["arg1_text"], &event["arg2_text"]), (&name.into(), &name.into()));
        assert!(event["arg3"] == i && event["arg1"].is_null(), "{event}");
    }
    run.is_complete();
    for (list, why) in [
        ("text", "'text' is not an argument of the probe; it has arg1 to arg3"),
        ("arg4.text", "'arg4.text' is not an argument of the probe; it has arg1 to arg3"),
        ("arg3.text", "'arg3.text' points to nothing: it has 4 bytes, not 8"),
        ("arg1, arg1", "'arg1' is there twice"),
        ("", "a parameter is missing between the parentheses"),
    ] {
        let event = program.function("usdt", &format!("shop:name({list})"));
        let run = program.watched(&["trace", "-e", &event], 1, 0);
        assert!(run.stderr.contains(why) && run.objects.is_empty(), "{list}: {}", run.stderr);
    }
}

fn a_python_that_is_built_with_probes_names_its_functions() {
    let python = "/usr/bin/python3.11";
    // This version passes the probe when a generator runs, not when Python calls Python.
    let event = format!("usdt:{python}:python:function__entry(arg1.text, arg2.text, arg3)");
    let code = "def apple(n):\n  yield n\n\nfor i in range(50): next(apple(i))";
    let run = watch(&["trace", "-e", &event], &[python, "-c", code]);
    if run.objects.is_empty() {
        skip_anywhere("this machine has no /usr/bin/python3.11 with probes, or Linux before 6.12");
    }
    let calls = run.of("event").filter(|event| {
        event["arg1_text"] == "<string>" && event["arg2_text"] == "apple" && event["arg3"] == 2
    });
    assert_eq!(calls.count(), 50, "{}", run.stderr);
    run.is_complete();
}

fn listed(words: &[&str]) -> (bool, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_perilune")).args(words).output().expect("it runs");
    let text = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8(text).expect("text"))
}

fn usdt_probes_are_listed_and_described() {
    let program = Program::of(SOURCE, &[]);
    let path = program.path();
    let (_, text) = listed(&["list", &format!("usdt:{path}:*")]);
    let names: Vec<_> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let all = ["count", "idle", "name", "sale"].map(|name| format!("usdt:{path}:shop:{name}"));
    assert_eq!(names, all);
    assert!(text.lines().all(|line| line.ends_with("  usdt")), "{text}");
    let (_, text) = listed(&["list", "-v", &sale(&program)]);
    for part in ["a USDT probe with 2 sites", "s32", "arg6", "arg7 is omitted: it is at `"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let run = program.watched(&["trace", "-e", &format!("usdt:{path}:shop:*")], 3, 0);
    assert_eq!(run.of("event").count(), 3 + 1 + 1 + 3 + 3, "{}", run.stderr);
    run.is_complete();
}

fn a_usdt_probe_of_another_mount_namespace_is_watched_through_its_process() {
    let program = Program::of(SOURCE, &[]);
    // The file is at /mnt/chain in a mount namespace of its own.
    let script = format!(
        "mount -t tmpfs none /mnt && cp '{}' /mnt/chain && echo ready && read x && \
         exec /mnt/chain {N} 0 wait",
        program.path()
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it is installed");
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("it prints");
    assert_eq!(line.trim(), "ready");
    let pid = child.id().to_string();
    let selector = format!("usdt:/proc/{pid}/root/mnt/chain:shop:sale");
    let tool = Tool::attach(&["trace", "-e", &selector, "-p", &pid]);
    next_line(&mut child);
    let mut shop = Shop { child, out };
    shop.wait_for_semaphore(2);
    use std::io::Write as _;
    shop.child.stdin.as_mut().expect("it is piped").write_all(b"s").expect("it reads");
    // The program answers a line after it has sold.
    shop.semaphore();
    let run = tool.finish();
    assert_eq!(run.of("event").count() as u32, N + 1, "{}", run.stderr);
    run.is_complete();
    shop.close();
}

fn usdt_probes_that_cannot_be_watched_are_refused_with_the_reason() {
    let program = Program::of(SOURCE, &[]);
    let path = program.path();
    let plain = Program::built(&[]);
    for (selector, why) in [
        (
            format!("usdt:{path}:shop:sail"),
            "has no USDT probe 'shop:sail'; did you mean 'shop:sale' or 'shop:name'?",
        ),
        (format!("usdt:{path}:sale"), "incomplete name; write usdt:FILE:PROVIDER:NAME"),
        (format!("usdt:{path}"), "the USDT probe is missing here: usdt:FILE:PROVIDER:NAME"),
        (format!("usdt:{path}:bank:*"), "no USDT probe matches"),
        (
            format!("usdt:{path}:shop:*(arg1)"),
            "a glob has no list of parameters: name one USDT probe, or omit the parentheses",
        ),
        (plain.function("usdt", "shop:sale"), "has no USDT probes (no section .note.stapsdt)"),
    ] {
        let run = program.watched(&["trace", "-e", &selector], 1, 0);
        assert!(run.stderr.contains(why), "{selector}: {}", run.stderr);
        assert!(run.code.is_some_and(|code| code != 0) && run.objects.is_empty(), "{selector}");
    }
    let (accepted, text) = listed(&["list", &plain.function("usdt", "*")]);
    assert!(!accepted && text.contains("has no USDT probes"), "{text}");
}
