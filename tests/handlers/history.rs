//! The function `history`: events shown to a script that looks back, the reported gaps, and invalid
//! calls.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Output of a script for a recording.
struct Ran {
    objects: Vec<Value>,
    text: String,
}

impl Ran {
    fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| object["type"] == kind)
    }

    /// Returns the field `n` of each event that was printed as a part of a detail.
    fn shown(&self, detail: u64) -> Vec<i64> {
        let of = self.of("event").filter(|event| event["detail"] == detail);
        of.filter_map(|event| event["n"].as_i64()).collect()
    }

    /// Returns the last coverage.
    fn coverage(&self) -> &Value {
        self.of("coverage").last().unwrap_or_else(|| panic!("no coverage in {}", self.text))
    }
}

/// Replays a recording through `m.init` with this body.
fn replay(name: &str, recording: &str, init: &str) -> Ran {
    replay_with(name, recording, init, &[])
}

fn replay_with(name: &str, recording: &str, init: &str, options: &[&str]) -> Ran {
    let path = |kind: &str| -> PathBuf {
        let file = format!("perilune-history-{}-{name}.{kind}", std::process::id());
        std::env::temp_dir().join(file)
    };
    let (script, events) = (path("lua"), path("events"));
    let text = format!(
        "--- Looks back.\nlocal m = monitor {{ summary = \"looks back\" }}\nfunction m.init() \
         {init} end\nreturn m"
    );
    std::fs::write(&script, text).expect("the script can be written");
    std::fs::write(&events, recording).expect("the recording can be written");
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .arg(&script)
        .args(["--json", "--stats", "--replay"])
        .arg(&events)
        .args(options)
        .stdin(Stdio::null())
        .output()
        .expect("the built command runs");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    let objects = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    text += &String::from_utf8_lossy(&output.stderr);
    for file in [script, events] {
        std::fs::remove_file(file).expect("the file is still there");
    }
    Ran { objects, text }
}

/// Returns a recording of `count` events `a:tick` on one CPU, one per millisecond, each with its
/// number `n`.
fn ticks(count: usize) -> String {
    let mut lines = String::new();
    for n in 0..count {
        writeln!(lines, "{}.{:03} 0 100 worker a:tick: n={n}", n / 1000, n % 1000)
            .expect("writing to a String cannot fail");
    }
    lines
}

#[test]
fn a_script_can_print_the_events_between_two_times() {
    let ran = replay(
        "times",
        &ticks(20),
        r#"local past = history()
           evsel("a:tick", function(e)
             if e.n == 10 then past:between(3e6, e, { values = { { "why", "ten" } } }) end
             if e.n == 12 then
               local even = function(x) return x.n % 2 == 0 end
               past:between(e._time - 1e6, e, { before = 2e6, where = even })
             end
           end)"#,
    );
    assert_eq!(ran.shown(1), (3..=10).collect::<Vec<_>>(), "{}", ran.text);
    assert_eq!(ran.shown(2), [10, 12], "{}", ran.text);
    let heads: Vec<&Value> = ran.of("row").collect();
    assert_eq!((&heads[0]["detail"], &heads[0]["why"]), (&1.into(), &"ten".into()));
    let offsets = ran.of("event").filter(|event| event["detail"] == 2);
    let offsets: Vec<_> = offsets.filter_map(|event| event["offset_ns"].as_i64()).collect();
    assert_eq!(offsets, [-1_000_000, 1_000_000]);
}

#[test]
fn a_window_waits_for_future_events_until_the_run_ends() {
    let ran = replay(
        "after",
        &ticks(10),
        r#"local past = history()
           evsel("a:tick", function(e)
             if e.n == 3 then past:between(e, e, { before = 1e6, after = 2e6 }) end
             if e.n == 8 then past:between(e, e, { after = 1e9 }) end
             emit { now = e.n }
           end)"#,
    );
    assert_eq!(ran.shown(1), [2, 3, 4, 5], "{}", ran.text);
    assert_eq!(ran.shown(2), [8, 9], "{}", ran.text);
    // It is printed as soon as a later event has arrived.
    let at = |wanted: &dyn Fn(&Value) -> bool| ran.objects.iter().position(wanted);
    let head = at(&|object| object["detail"] == 1 && object["type"] == "row");
    assert!(at(&|object| object["now"] == 6) < head && head < at(&|object| object["now"] == 7));
}

#[test]
fn windows_beyond_the_limit_of_waiting_ones_are_counted() {
    let ran = replay(
        "full",
        &ticks(1100),
        r#"local past = history()
           evsel("a:tick", function(e) past:between(e, e, { after = 1e12 }) end)"#,
    );
    assert_eq!(ran.of("row").count(), 1024);
    assert_eq!(ran.coverage()["evicted"], 1100 - 1024, "{}", ran.coverage());
}

#[test]
fn a_failing_condition_is_reported_and_does_not_delay_other_windows() {
    let ran = replay(
        "fails",
        &ticks(6),
        r#"local past = history()
           evsel("a:tick", function(e)
             local n = e.n
             local where = n == 1 and function(x) return x.nothing end or nil
             if n < 3 then past:between(e, e, { after = 1e6, where = where }) end
           end)"#,
    );
    assert_eq!((ran.shown(1), ran.shown(3)), (vec![0, 1], vec![2, 3]), "{}", ran.text);
    assert_eq!(ran.coverage()["errors"], 1, "{}", ran.text);
    assert!(ran.text.contains("a:tick has no field 'nothing'"), "{}", ran.text);
}

#[test]
fn a_start_without_an_end_holds_no_history_and_its_detail_notes_the_evicted_events() {
    const EVENTS: usize = 100_000;
    let ran = replay(
        "long",
        &ticks(EVENTS),
        r#"local past = history { memory = "64KiB" }
           local open = pending { "n", keep = true }
           evsel("a:tick", function(e)
             if e.n == 5 then open:open(1, e, e.n) end
             if e.n == 99999 then past:between(open:close(1, e), e) end
           end)"#,
    );
    let (shown, head) = (ran.shown(1), ran.of("row").next().expect("a heading"));
    // The start has been evicted; it is shown from the copy in the pending state.
    assert_eq!((shown[0], shown.last()), (5, Some(&99_999)), "{head}");
    assert!(shown[1..].windows(2).all(|two| two[0] + 1 == two[1]), "{shown:?}");
    let left = shown.len() - 1;
    // 64 KiB hold a thousand copies of some 60 bytes.
    assert!((900..1100).contains(&left), "{left}");
    // The count of old evictions is coarse, and never too high.
    let gone = head["earlier_events_gone"].as_u64().unwrap_or_default() as usize;
    let all = EVENTS - 5;
    assert!(gone + left <= all && gone + left + all / 64 > all, "{gone} and {left} of {all}");
    assert_eq!(ran.coverage()["evicted"], gone as u64);
}

#[test]
fn the_history_keeps_only_the_time_that_windows_can_request() {
    const EVENTS: usize = 40_000;
    let ran = |name: &str, more: &str| {
        replay(
            name,
            &ticks(EVENTS),
            &format!(
                r#"local past, open, first = history {{ before = 2e6 }}, pending {{ "n", keep = true }}, nil
                   {more}
                   evsel("a:tick", function(e)
                     if e.n == 39000 then past:between(open:close(1, e), e, {{ before = 2e6 }}) past:between(0, e) end
                     if e.n >= 38990 or e.n % 10000 == 5 then open:open(1, e, e.n) end
                   end)"#
            ),
        )
    };
    let known = ran("before", "");
    assert_eq!(known.shown(1), (38_997..=39_000).collect::<Vec<_>>(), "{}", known.text);
    // The oldest open state limits the history: all events since its start are kept, most of the
    // earlier ones are evicted.
    let (left, head) = (known.shown(2), known.of("row").nth(1).expect("a heading"));
    assert_eq!(left.last(), Some(&39_000));
    assert!((9_000..20_000).contains(&left.len()), "{}", left.len());
    assert_eq!(head["earlier_events_gone"], 39_001 - left.len(), "{head}");
    // `history()` keeps every event, because `between` may ask for any of them.
    let all = ran("all", "history()");
    assert_eq!(all.shown(2).len(), 39_001);
}

#[test]
fn a_record_of_two_roles_is_shown_once_and_a_filtered_record_never() {
    let ran = replay(
        "roles",
        &ticks(10),
        r#"local past = history()
           evsel("a:tick/n%2==0/", function() end)
           evsel("a:tick/n%3==0/", function(e) if e.n == 9 then past:between(0, e) end end)"#,
    );
    assert_eq!(ran.shown(1), [0, 2, 3, 4, 6, 8, 9], "{}", ran.text);
}

#[test]
fn a_past_event_has_the_task_name_of_its_time() {
    let ran = replay(
        "names",
        "0.001 0 7 old a:tick: n=1\n0.002 0 7 old COMM: comm=new\n0.003 0 7 new a:tick: n=2\n",
        r#"local past = history()
           evsel("a:tick", function(e) if e.n == 2 then past:between(0, e) end end)"#,
    );
    let names: Vec<_> = ran.of("event").filter_map(|event| event["comm"].as_str()).collect();
    assert_eq!(names, ["old", "new"], "{}", ran.text);
}

#[test]
fn events_lost_in_a_window_are_reported() {
    let ran = replay(
        "lost",
        "0.001 0 7 a a:tick: n=1\n0.002 0 7 a LOST: n=5\n0.003 0 7 a a:tick: n=2\n0.004 0 7 a \
         a:tick: n=3\n",
        r#"local past = history()
           evsel("a:tick", function(e)
             if e.n == 2 then past:between(0, e) end
             if e.n == 3 then past:between(e, e) end
           end)"#,
    );
    let lost: Vec<&Value> = ran.of("row").map(|row| &row["events_lost"]).collect();
    assert_eq!(lost, [&Value::from(5), &Value::Null], "{}", ran.text);
}

#[test]
fn detail_needs_events_in_time_order() {
    let looks_back = r#"history() evsel("a:tick", function(e) emit(e) end)"#;
    let ran = replay_with("no-order", &ticks(2), looks_back, &["--no-order"]);
    assert!(
        ran.text.contains("perilune: --no-order: --detail needs events in time order"),
        "{}",
        ran.text
    );
    assert_eq!(ran.of("event").count(), 0);
    let ordered = replay_with("order", &ticks(2), looks_back, &["--order"]);
    assert_eq!(ordered.of("event").count(), 2, "{}", ordered.text);
}

#[test]
fn misuse_is_an_error_at_the_scripts_own_line() {
    for (name, init, expected) in [
        ("late", r#"evsel("a:tick", function(e) history() end)"#, "call history in init"),
        (
            "what",
            r#"local past = history() evsel("a:tick", function(e) past:between("x", e) end)"#,
            "a window begins with a time, an event or a state, not a string",
        ),
        (
            "how",
            r#"local past = history() evsel("a:tick", function(e) past:between(0, e, { befor = 1 }) end)"#,
            "between has no 'befor'",
        ),
        (
            "emits",
            r#"local past = history()
               evsel("a:tick", function(e) past:between(0, e, { where = function(x) emit(x) end }) end)"#,
            "emit is for handlers",
        ),
        (
            "again",
            r#"local past = history()
               evsel("a:tick", function(e) past:between(0, e, { where = function() past:between(0, 1) end }) end)"#,
            "a history cannot be read while",
        ),
        ("memory", r#"history { memory = "lots" } evsel("a:tick", function() end)"#, "memory: "),
        (
            "name",
            r#"history { size = 1 } evsel("a:tick", function() end)"#,
            "no 'size'; it has memory",
        ),
        (
            "before-longer",
            r#"history { before = "1ms" } evsel("a:tick", function() end)"#,
            "'before' of history is a number of nanoseconds, not a string",
        ),
    ] {
        let ran = replay(name, &ticks(2), init);
        assert!(ran.text.contains(expected), "{name}: {}", ran.text);
        assert!(ran.text.contains(".lua:"), "{name}: {}", ran.text);
    }
}
