//! Memory limits of scripts and tables, and the effects of exceeding them.

use std::process::Output;

use crate::{last_coverage, replay_with};

#[test]
fn refused_memory_is_reported_with_the_handler_and_the_option() {
    let script = r#"
        local m = monitor { summary = "eats all in one event" }
        local kept = {}
        function m.init()
          evsel("signal:signal_generate", function(e)
            for i = 1, 1e9 do kept[i] = { i } end
          end)
        end
        return m
    "#;
    let output = replay_with("eats", "signal", script, &["--lua-mem", "20M"]);
    let (_, text) = last_coverage(&output);
    let expected = ":5: not enough memory; --lua-mem raises the limit";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains(":5: the script's memory is full (20MiB; --lua-mem raises"), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn memory_refused_in_init_is_reported_with_its_line() {
    let script = "local m, kept = monitor { summary = 'eats' }, {}
        function m.init() for i = 1, 1e9 do kept[i] = { i } end end
        return m";
    let output = replay_with("init", "signal", script, &["--lua-mem", "20M"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("init.lua:2: not enough memory; --lua-mem raises"), "{errors}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_memory_limit_below_the_minimum_is_refused_with_the_minimum() {
    let script = "local m = monitor { summary = 'small' }
        function m.init() evsel('signal:signal_generate', function() end) end
        return m";
    let run = |size: &str| replay_with("little", "signal", script, &["--lua-mem", size]);
    let output = run("1K");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.starts_with("perilune: ") && errors.contains("--lua-mem: 1KiB is too little"));
    assert_eq!((errors.lines().count(), output.status.code()), (1, Some(1)), "{errors}");
    let least = errors.split("use --lua-mem ").nth(1).and_then(|rest| rest.split(' ').next());
    let least = least.unwrap_or_else(|| panic!("no size in {errors}"));
    assert_eq!(run(least).status.code(), Some(0), "{least}");
}

#[test]
fn all_tables_together_stay_within_their_memory_and_keep_every_count() {
    let script = r#"
        local m = monitor { summary = "fills tables" }
        function m.init()
          local tables = {}
          for i = 1, 40 do tables[i] = kv { "k", title = "t" .. i, top = 1 } end
          evsel("signal:signal_generate", function()
            for i = 1, 40 do for k = 1, 2000 do tables[i]:add(k * 3) end end
          end)
        end
        return m
    "#;
    let output = replay_with("budget", "signal", script, &["--aggregate-mem", "512KB"]);
    let (coverage, text) = last_coverage(&output);
    assert!(coverage["evicted"].as_u64().is_some_and(|evicted| evicted > 10_000), "{text}");
    assert!(text.contains("tables and pending states have used their 512KiB"), "{text}");
    let roomy = replay_with("roomy", "signal", script, &[]);
    let (coverage, text) = last_coverage(&roomy);
    assert_eq!(coverage["evicted"], 0, "{text}");
    // The total keeps what was evicted, in the row `(evicted)` of each table.
    let total = |output: &Output| -> u64 {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let rows = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        let rows =
            rows.filter(|row: &serde_json::Value| row["type"] == "row" && row["k"] == "(evicted)");
        rows.filter_map(|row| row["count"].as_u64()).sum()
    };
    let events = coverage["events"].as_u64().expect("a number of events");
    assert!(total(&output) > 40 * events * 1000, "{}", total(&output));
    assert_eq!(total(&roomy), 0);
}
