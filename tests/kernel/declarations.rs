//! Counts and pairs that a script declares: in one place, with the same sums in both, and without
//! mistakes.

use crate::counting::usual_refusal;
use crate::live::live_tests;
use crate::load;
use crate::paired::{run_briefly, start, sum};
use crate::script::written;

live_tests! {
    a_declaration_that_needs_records_takes_those_of_the_same_event_with_it,
    sums_without_a_sign_are_the_same_in_both_places,
    mistakes_of_declarations_have_the_line_of_the_script,
}

const SCRIPT: &str = r#"
local m = monitor { summary = "calls of getppid in three tables", order = true }
function m.init()
  local by_process = kv { "process", title = "processes" }
  local by_number = kv { "nr", title = "numbers" }
  local pairs = kv { "nr", sums = { "calls", "kept" }, title = "pairs" }
  local enter = evsel("raw_syscalls:sys_enter", { filter = "id == NUMBER" })
  local exit = evsel("raw_syscalls:sys_exit", { filter = "id == NUMBER" })
  by_process:count(enter, { key = "_pid", where = "_pid == PROCESS" })
  by_number:count(enter, { key = "id", where = "_pid == PROCESS" })
  pairs:between(enter, exit, { key = "_tid", threads = true, rows = { "id" }, sums = { "1" },
    OPTIONS })
end
return m
"#;

fn a_declaration_that_needs_records_takes_those_of_the_same_event_with_it() {
    const CALLS: u32 = 1000;
    for (options, is_recorded) in [("", false), ("age = 1e12,", true)] {
        let load = load::getppid(CALLS);
        let pid = load.pid().to_string();
        let script = SCRIPT.replace("NUMBER", &libc::SYS_getppid.to_string());
        let script = script.replace("PROCESS", &pid).replace("OPTIONS", options);
        let start_of = "{ enter, sums = { [2] = \"_pid\" } }";
        let script = script.replace("between(enter", &format!("between({start_of}"));
        let (_folder, path) = written(&script);
        let place = if is_recorded { "auto" } else { "kernel" };
        let tool = start(place, &[&path, "-v", "-m", "2048", "-p", &pid]);
        load.run();
        let run = tool.finish();
        let calls = f64::from(CALLS);
        for table in ["processes", "numbers"] {
            assert_eq!(sum(&run, table, "count", |_| true), calls, "{:?}", run.objects);
        }
        let kept = pid.parse::<f64>().expect("a number") * calls;
        let found = ["calls", "kept"].map(|column| sum(&run, "pairs", column, |_| true));
        assert_eq!(found, [calls, kept], "{:?}", run.objects);
        assert_eq!(run.coverage()["events"], 2 * CALLS, "{}", run.coverage());
        let notes: Vec<_> = run.of("note").filter_map(|note| note["text"].as_str()).collect();
        let expected = match is_recorded {
            true => "counted in user space: a maximum age of starts",
            false => "counted in the kernel",
        };
        for event in ["enter", "exit"] {
            let note = format!("raw_syscalls:sys_{event}: {expected}");
            let is_usual = is_recorded && usual_refusal().is_some();
            assert!(is_usual || notes.contains(&&*note), "{note}: {notes:?}");
        }
    }
}

fn sums_without_a_sign_are_the_same_in_both_places() {
    const CALLS: u32 = 1000;
    const SCRIPT: &str = r#"
local m = monitor { summary = "sums of arguments with all upper bits", order = true }
function m.init()
  local counted = kv { "process", sums = { "large", "negative" }, title = "counted" }
  local pairs = kv { "nr", sums = { "large", "negative" }, title = "pairs" }
  local enter = evsel("raw_syscalls:sys_enter", { filter = "id == NUMBER" })
  local exit = evsel("raw_syscalls:sys_exit", { filter = "id == NUMBER" })
  counted:count(enter, { key = "_pid", sums = { "~args[0]", "-1 - id" } })
  pairs:between({ enter, sums = { "~args[0]" } }, exit,
    { key = "_tid", threads = true, rows = { "id" }, sums = { [2] = "-1 - id" } })
end
return m
"#;
    let (_folder, path) = written(&SCRIPT.replace("NUMBER", &libc::SYS_getppid.to_string()));
    for place in ["kernel", "user"] {
        let load = load::getppid_with_arguments(CALLS);
        let pid = load.pid();
        let tool = start(place, &[&path, "-m", "2048", "-p", &pid.to_string()]);
        load.run();
        let run = tool.finish();
        let first = u64::from(pid) << load::PROCESS_SHIFT;
        let large: f64 = (first..first + u64::from(CALLS)).map(|argument| !argument as f64).sum();
        let negative = -f64::from(CALLS) * (libc::SYS_getppid + 1) as f64;
        for table in ["counted", "pairs"] {
            let found = sum(&run, table, "large", |_| true);
            assert!((found / large - 1.0).abs() < 1e-12, "{place} {table}: {found} {large}");
            assert_eq!(sum(&run, table, "negative", |_| true), negative, "{place} {table}");
        }
    }
}

/// Declarations of a script and their errors; `times`, `rows`, `enter` and `exit` are known.
const MISTAKES: &[(&str, &str)] = &[
    (
        "times:between(enter, exit, { key = { \"_tid\", \"id\" }, rows = { \"id\" } })",
        "a key of several columns needs records = function(open) … end",
    ),
    (
        "times:between(enter, exit, { key = \"_tid\", row = { \"id\" } })",
        "between has no option 'row'; did you mean 'rows'?",
    ),
    (
        "times:between(enter, exit, { key = \"_tid\", rows = { \"id\" }, strict = true })",
        "between: strict needs records = function(open) … end",
    ),
    (
        "times:between(enter, exit, { key = \"_tid\", rows = { \"id\" }, sums = { \"1\" } })",
        "between has no option 'sums'",
    ),
    (
        "times:between({ enter, wher = \"id\" }, exit, { key = \"_tid\", rows = { \"id\" } })",
        "between: raw_syscalls:sys_enter has no option 'wher'; did you mean 'where'?",
    ),
    (
        "times:between(enter, exit, { key = \"_tid\", rows = { \"id\", \"ret\" } })",
        "between: 'rows' has the index 2; the largest index of this table is 1",
    ),
    (
        "rows:between(enter, exit, { key = \"_tid\", rows = { \"id\" }, sums = { \"1\", \"2\" } })",
        "between: 'sums' has the index 2; the largest index of this table is 1",
    ),
    (
        "rows:between(enter, exit, { key = \"_tid\", rows = { \"id\" }, sums = \"1\" })",
        "between: 'sums' takes a list of expressions",
    ),
    (
        "times:between(enter, exit, { key = \"_tid\", rows = { \"id\" }, \
         counts = { { rows, at = \"pair\", keys = { \"id\" } } } })",
        "between: an entry of counts has no option 'keys'; did you mean 'key'?",
    ),
    (
        "times:between(enter, exit, { key = \"_tid\", rows = { \"id\" }, counts = { rows } })",
        "between: counts takes a list of tables",
    ),
    (
        "rows:count(enter, { key = \"id\", sums = { \"1\", \"2\" } })",
        "count: this kv has 1 sums, the count adds 2 of them from the 1th on",
    ),
    (
        "rows:count(enter, { key = \"id\", sum = { \"1\" } })",
        "count has no option 'sum'; did you mean 'sums'?",
    ),
    (
        "times:measure(enter, { value = \"id\", rows = { \"id\" }, key = \"id\" })",
        "measure has no option 'key'",
    ),
];

fn mistakes_of_declarations_have_the_line_of_the_script() {
    for (declaration, expected) in MISTAKES {
        let script = format!(
            "local m = monitor {{ summary = \"calls\" }}\n\
             function m.init()\n\
             local times, rows = latency {{ \"nr\" }}, kv {{ \"nr\", sums = {{ \"n\" }} }}\n\
             local enter = evsel \"raw_syscalls:sys_enter\" \
             local exit = evsel \"raw_syscalls:sys_exit\"\n\
             {declaration}\nend\nreturn m"
        );
        let (_folder, path) = written(&script);
        let (code, text) = run_briefly(&[&path]);
        assert_eq!(code, Some(1), "{declaration}: {text}");
        assert!(text.contains(expected) && text.contains(":5:"), "{declaration}: {text}");
    }
}
