//! Declared pairs in a table of sums, made from the records of a recording.

use serde_json::Value;

use crate::{last_coverage, replay};

/// Returns a script with the body of its `init`.
fn script(init: &str) -> String {
    format!(
        "local m = monitor {{ summary = \"memory\" }}\nfunction m.init()\n{init}\nend\nreturn m\n"
    )
}

/// Returns the rows of a replay, each as the values of these columns, and all that was printed.
fn rows<const N: usize>(name: &str, init: &str, columns: [&str; N]) -> (Vec<[Value; N]>, String) {
    let output = replay(name, "kmem", &script(init));
    let (_, text) = last_coverage(&output);
    let objects = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let rows = objects.filter(|object| object["type"] == "row");
    (rows.map(|row| columns.map(|column| row[column].clone())).collect(), text)
}

/// Returns the message of a script that is refused.
fn refused(name: &str, init: &str) -> String {
    let output = replay(name, "kmem", &script(init));
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_end_adds_its_own_values_and_those_of_its_start() {
    let init = r#"
        local freed = kv { "requested", "by", sums = { "calls", "bytes", "pointers" } }
        freed:between({ evsel "kmem:kmalloc", rows = { "bytes_req" }, sums = { [2] = "bytes_alloc" } },
          evsel "kmem:kfree", { key = "ptr", rows = { [2] = "_tid" }, sums = { "1", [3] = "ptr" } })"#;
    let (rows, text) = rows("kept", init, ["requested", "by", "calls", "bytes", "pointers"]);
    assert_eq!(rows, [[100, 100, 1, 128, 1000].map(Value::from)], "{text}");
}

#[test]
fn starts_are_added_with_their_own_values() {
    let init = r#"
        local memory = kv { "event", sums = { "bytes" } }
        memory:between({ { evsel "kmem:kmalloc", rows = { "1" }, sums = { "bytes_alloc" } } },
          { { evsel "kmem:kfree", rows = { "2" } } }, { key = "ptr", starts = true })"#;
    let (rows, text) = rows("starts", init, ["event", "bytes"]);
    assert_eq!(rows, [[1, 640], [2, 128]].map(|row| row.map(Value::from)), "{text}");
}

#[test]
fn pairs_are_counted_by_columns_without_sums() {
    let init = r#"
        local freed, all = kv { "freed" }, kv { false, "bytes", count = "n" }
        local alloc, free = evsel "kmem:kmalloc", evsel "kmem:kfree"
        freed:between(alloc, free, { key = "ptr", rows = { "ptr" } })
        all:between({ alloc, rows = { [2] = "bytes_alloc" } }, { free, where = "ptr < 5000" },
          { key = "ptr" })"#;
    let (rows, text) = rows("counted", init, ["freed", "count", "bytes", "n"]);
    let null = Value::Null;
    assert_eq!(rows[0], [1000.into(), 1.into(), null.clone(), null.clone()], "{text}");
    assert_eq!(rows[1], [null.clone(), null, 128.into(), 1.into()], "{text}");
}

#[test]
fn an_event_may_be_counted_in_several_tables() {
    let init = r#"
        local small, sizes = kv { "small", count = "n" }, kv { "size", sums = { "bytes" } }
        local alloc = evsel "kmem:kmalloc"
        small:count(alloc, { key = "bytes_req", where = "bytes_req < 150" })
        sizes:count(alloc, { key = "bytes_req", sums = { "bytes_alloc" } })"#;
    let (rows, text) = rows("several", init, ["small", "n", "size", "bytes"]);
    let shown: Vec<_> = rows.iter().map(|row| row.each_ref().map(Value::as_u64)).collect();
    let expected = [
        [Some(100), Some(1), None, None],
        [None, None, Some(200), Some(512)],
        [None, None, Some(100), Some(128)],
    ];
    assert_eq!(shown, expected, "{text}");
}

#[test]
fn a_missing_value_and_a_sum_of_text_are_refused() {
    for (what, side, of, why) in [
        ("column", "", "rows = { \"ptr\" }", "kmem:kmalloc has no expression for column 2"),
        (
            "text",
            "",
            "rows = { \"ptr\" }, sums = { \"_comm\" }",
            "_comm is text; it must be a number",
        ),
        (
            "starts",
            ", sums = { \"1\" }",
            "rows = { \"ptr\" }, sums = { \"1\" }, starts = true",
            "kmem:kmalloc has no expression for column 1",
        ),
    ] {
        let init = format!(
            "kv {{ \"pointer\", sums = {{ \"bytes\" }} }}:between({{ evsel \"kmem:kmalloc\"{side} }}, \
             evsel \"kmem:kfree\", {{ key = \"ptr\", {of} }})"
        );
        let text = refused(what, &init);
        assert!(text.contains(why) && text.contains(".lua:3:"), "{what}: {text}");
    }
}

#[test]
fn a_handled_event_cannot_be_paired() {
    let init = r#"
        local alloc = evsel("kmem:kmalloc", function() end)
        kv { "freed" }:between(alloc, evsel "kmem:kfree", { key = "ptr", rows = { "ptr" } })"#;
    let text = refused("handled", init);
    assert!(text.contains("this event has a handler; call evsel again for the pairs"), "{text}");
}
