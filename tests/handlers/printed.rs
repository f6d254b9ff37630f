//! Values that a script passes to the report, and the rejection of invalid ones.

use std::process::Command;

/// Replays two signals through a script; returns the exit code, stdout and stderr.
fn replay(script: &str, options: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (monitor, events) = (folder.path().join("t.lua"), folder.path().join("t.events"));
    std::fs::write(&monitor, script).expect("the script can be written");
    std::fs::write(&events, "0.1 0 7 a s:x: n=1\n0.2 0 7 a s:x: n=2\n").expect("so can events");
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .arg(&monitor)
        .arg("--replay")
        .arg(&events)
        .args(options)
        .output()
        .expect("the built command runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Returns a monitor of `s:x` with this function `m.deinit`, on its fifth line.
fn returning(deinit: &str) -> String {
    format!(
        "local m = monitor {{ summary = 'returns' }}\n\
         local by, open, heat\n\
         function m.init() by, open, heat = kv {{ 'n' }}, pending {{}}, heat_map {{}} evsel 's:x' \
         end\n\
         function m.sample(e) by:add(e.n) end\n\
         function m.deinit() {deinit} end\nreturn m\n"
    )
}

#[test]
fn a_value_that_cannot_be_printed_is_an_error_at_the_functions_line() {
    for (returned, kind) in
        [("1", "number"), ("'done'", "string"), ("{ by }", "table"), ("true", "boolean")]
            .into_iter()
            .chain([("open", "pending"), ("by, heat", "heat_map")])
    {
        let (code, out, err) = replay(&returning(&format!("return {returned}")), &[]);
        let expected = format!(
            "t.lua:5: this function returned a {kind}, which cannot be drawn; return a latency, \
             kv, hist,"
        );
        assert!(err.contains(&expected), "{returned}: {err}");
        assert_eq!(code, Some(1), "{returned}: {err}");
        // The error does not discard what was collected.
        assert!(out.contains("1     1") || out.contains("count"), "{returned}: {out}");
    }
}

#[test]
fn nothing_nil_and_false_print_nothing() {
    for returned in ["", "return nil", "return false", "return nil, false"] {
        let (code, out, err) = replay(&returning(returned), &[]);
        assert_eq!((code, out.as_str()), (Some(0), ""), "{returned}: {err}");
    }
    let (code, out, _) = replay(&returning("return false, by, nil"), &["--json"]);
    assert_eq!((code, out.matches("\"type\":\"row\"").count()), (Some(0), 2), "{out}");
}

#[test]
fn a_boolean_is_printed_as_one() {
    let script = "local m = monitor { summary = 'booleans' }\n\
        function m.init() evsel('s:x', function(e) emit { odd = e.n % 2 == 1, n = e.n } end) \
        end\nreturn m\n";
    let (_, out, err) = replay(script, &["--json"]);
    assert!(out.contains(r#""n":1,"odd":true}"#) && out.contains(r#""n":2,"odd":false}"#), "{err}");
    let (_, out, _) = replay(script, &[]);
    assert!(out.contains("odd=true") && out.contains("odd=false"), "{out}");
}

#[test]
fn sums_beyond_128_bits_are_floats_and_invalid_times_are_not_counted() {
    let script = "local m = monitor { summary = 'extremes' }\n\
        function m.init()\n\
          local by, la = kv { 'k', sums = { 's' } }, latency { 'k' }\n\
          evsel('s:x', function(e) by:add('large', 1e38) by:add('most', 1e308) la:add(1/0, 'k') \
          la:add(-1, 'k') la:add(0/0, 'k') la:add(1000, 'k') end)\n\
        end\nreturn m\n";
    let (_, out, err) = replay(script, &["--json"]);
    assert!(out.contains(r#""k":"large","s":2e+38}"#), "{out}{err}");
    assert!(out.contains(r#""k":"most","s":null}"#), "{out}");
    assert!(out.contains(r#""k":"k","calls":2,"total_us":2.0,"#), "{out}");
    assert!(out.contains(r#""disordered":6,"#), "{out}");
    let (_, out, _) = replay(script, &[]);
    assert!(out.contains("inf"), "{out}");
}

#[test]
fn a_heat_map_that_is_declared_twice_counts_its_losses_once() {
    let script = "local m = monitor { summary = 'heat' }\n\
        function m.init()\n\
          local one, other = heat_map {}, heat_map {}\n\
          evsel('s:x', function(e) one:add(e._time, -1) other:add(e._time, 1) end)\n\
        end\nreturn m\n";
    let (_, out, err) = replay(script, &["--json"]);
    assert!(out.contains(r#""disordered":2,"#), "{out}{err}");
}

#[test]
fn a_column_that_is_too_wide_is_an_error_of_the_script() {
    for (option, most) in [("decimals = 70000", 20), ("width = 1e9", 1000), ("width = -1", 1000)] {
        let script = format!(
            r#"
        local m = monitor {{ summary = "a wide column", order = true }}
        function m.init() evsel("s:x", function() end) end
        function m.deinit() return report("wide", {{ {{ "n", {option} }} }}, {{ {{ 1.5 }} }}) end
        return m"#
        );
        let (code, out, errors) = replay(&script, &[]);
        let expected = format!("is a whole number from 0 to {most}");
        assert!((out + &errors).contains(&expected), "{option}: {errors}");
        assert_eq!(code, Some(1), "{option}");
    }
}
