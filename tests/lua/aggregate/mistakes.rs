//! Every mistake is reported at the script's line.

use super::Host;

/// Lines of a script and their errors.
const MISTAKES: &[(&str, &str)] = &[
    ("latency { 'x', titel = 1 }", "latency has no option 'titel'; did you mean 'title'?"),
    (
        "latency { 'x', unit = 'h' }",
        r#"latency option 'unit' must be "ns" or "us" or "ms" or "s" or "none""#,
    ),
    ("latency 'x'", "latency takes a table: latency { … }"),
    (
        "latency { { 'x', ksymm } , { draw = 1 } }",
        "latency column 2 has no title: { \"title\", draw }",
    ),
    (
        "latency { { 'x', 5 } }",
        "latency column 1 'x' has a integer as `draw`; it must be a function",
    ),
    (
        "latency { { 'x', widht = 5 } }",
        "latency column 1 has no option 'widht'; did you mean 'width'?",
    ),
    (
        "kv { 'x', sums = { { 'y', frist = true } } }",
        "a sum of kv has no option 'frist'; did you mean 'first'?",
    ),
    ("kv { 'x', top = 0 }", "kv option 'top' must be at least 1"),
    ("kv { 1, 2 }", "kv column 1 is a integer; a column is \"name\", { \"title\", draw } or false"),
    ("hist.log2 { step = 1 }", "hist.log2 has no option 'step'; it has title, unit, keep, metric"),
    ("hist.linear { step = 1 }", "hist.linear needs `max`, the end of its last bucket"),
    ("hist.linear { step = 0, max = 5 }", "hist.linear: `step` must be at least 1"),
    ("rate {}", "rate has no `window`: rate { window = \"1s\" }"),
    ("rate { window = '1x' }", "rate option 'window' must be a duration, as \"1s\" or \"100ms\""),
    ("pending { 'time' }", "pending has a 'time' of its own; use another name"),
    (
        "pending { key = 'pid' }",
        "pending option 'key' must be \"tid\" or \"cpu\" or \"pointer\" or \"any\"",
    ),
    ("per_cpu()", "per_cpu(init) takes a number, text or a boolean"),
    ("l:add(1)", "add(ns, comm) has no value for 'comm'"),
    ("l:add()", "add(ns, comm) has no value for 'ns'"),
    ("l:add(1, 'a', 2)", "add(ns, comm) has an argument too many"),
    ("l:add(1, {})", "add(ns, comm): 'comm' is a table; it must be a number or a string"),
    ("l:add(1, true)", "add(ns, comm): 'comm' is a boolean; it must be a number or a string"),
    ("l:add('1', 'a')", "add(ns, comm): 'ns' is a string; it must be a number"),
    ("l.add(1, 'a')", "add(ns, comm) is called with a colon: object:add(ns, comm)"),
    ("l:ad(1, 'a')", "latency has no 'ad'; did you mean 'add'?"),
    ("l.extra = 1", "latency cannot be written: 'extra'"),
    ("k:add(1)", "add(x, bytes, calls) has no value for 'bytes'"),
    ("k:adding(2, 2)", "adding(first, n): this kv has 2 sums, there are no 2 from the 2th on"),
    ("p:open(1, nil, 2)", "open(key, e, state) has no event: pass the e of the handler"),
    ("p:open(1, e)", "open(key, e, state) has no value for 'state'"),
    (
        "p:open(1, e, {})",
        "open(key, e, state): 'state' is a table; it must be a number, a string or a boolean",
    ),
    ("p:open(nil, e, 1)", "open(key, e, state) has no key"),
    ("p:close({}, e)", "close(key, e): the key is a table; it must be a number or a string"),
    ("p:get()", "get(key) has no key"),
    ("local _ = p:close(7, e).stat", "what close() returned has no 'stat'; did you mean 'state'?"),
    (
        "p:close(7, e).state = 1",
        "what close() returned is closed; only what get() returns can be written",
    ),
    ("local _ = p:close(7, e).event", "this pending keeps no events; declare it with keep = true"),
    ("p:get(7).stat = 1", "a state has no 'stat' to write; did you mean 'state'?"),
];

#[test]
fn errors_have_the_line_of_the_script() {
    for (source, expected) in MISTAKES {
        let host = Host::new();
        host.run::<()>(
            r#"
            l, k, p = latency { "comm" }, kv { "x", sums = { "bytes", "calls" } }, pending { "state" }
            e = { _time = 0 }
            p:open(7, e, 1)"#,
        )
        .unwrap();
        // The failing code is on its own line of a function, as in a handler.
        let source = format!("local function handler()\n\n  {source}\nend\nlocal _ = handler()");
        assert_eq!(host.error(&source), format!("site.lua:3: {expected}"), "{source}");
    }
}
