//! Drawn tables: rows, columns, order, exact numbers.

use super::{Host, keys, rows, titles};
use mlua::Value;
use perilune::base::event::chain::USER;
use perilune::base::report::cell::Cell;
use perilune::base::report::draw::{Align, Report, Style};
use perilune::base::report::frame::Space;

#[test]
fn latency_has_exact_columns_sorted_by_total() {
    let host = Host::new();
    host.run::<()>(
        r#"
        local names = { [1] = "EXTERNAL_INTERRUPT", [12] = "HLT", [32] = "MSR_WRITE" }
        local exits = latency { perins(), { "exit_reason", function(n) return names[n] end } }
        exits:add(900, 17, 32) exits:add(800, 17, 32)
        exits:add(4100000, 17, 1) exits:add(2300, 18, 12)"#,
    )
    .unwrap();
    let table = host.table();
    assert_eq!(
        titles(&table),
        "exit_reason calls total(us) min(us) avg(us) p50(us) p95(us) p99(us) max(us)"
    );
    assert_eq!(
        keys(&table),
        "exit_reason calls total_us min_us avg_us p50_us p95_us p99_us max_us"
    );
    let widths: Vec<usize> = table.columns.iter().map(|column| column.width).collect();
    assert_eq!(widths, [13, 6, 9, 7, 7, 7, 7, 7, 8]);
    let line = widths.iter().sum::<usize>() + widths.len() - 1;
    assert!(line < 80, "a terminal of 80 columns wraps a line of {line}");
    assert_eq!(
        (table.style, table.columns[0].align, table.columns[1].align),
        (Style::Ruled, Align::Left, Align::Right)
    );
    assert!(table.columns[2..].iter().all(|column| column.decimals == Some(3)));
    let expected = [
        "EXTERNAL_INTERRUPT|1|4100|4100|4100|4100|4100|4100|4100",
        "HLT|1|2.3|2.3|2.3|2.3|2.3|2.3|2.3",
        "MSR_WRITE|2|1.7|0.8|0.85|0.803|0.9|0.9|0.9",
    ];
    assert_eq!(rows(&table), expected);
}

#[test]
fn a_column_prints_64_bit_values_with_their_sign() {
    let host = Host::new();
    host.run::<()>(
        r#"
        local t = kv { { "i", as = "signed" }, { "u", as = "unsigned" }, { "p", as = function() return "pointer" end },
          { "t", as = "text" }, sums = { { "s", as = "unsigned" } } }
        t:add(-1, -1, -1, -1, -1)
        t:add("0x8000000000000001", "0x8000000000000001", "0x8000000000000001", "0x8000000000000001", "0x8000000000000001")
        t:add(5, 5, 5, "0x5", 5) t:add("0x5", "0x5", "nginx", 1.5, 1.5)"#,
    )
    .unwrap();
    let expected = [
        "-1|18446744073709551615|0xffffffffffffffff|-1|18446744073709551615",
        "-9223372036854775807|9223372036854775809|0x8000000000000001|0x8000000000000001|\
         9223372036854775809",
        "5|5|0x5|0x5|5",
        "0x5|0x5|nginx|1.5|1.5",
    ];
    assert_eq!(rows(&host.table()), expected);
    let refused = host.error(r#"kv { { "id", as = "hex" } }"#);
    assert!(refused.contains(r#"option 'as' must be "signed" or "unsigned" or"#), "{refused}");
}

#[test]
fn a_boolean_counts_as_one_and_a_percent_sign_is_part_of_the_key() {
    let host = Host::new();
    host.run::<()>(
        r#"
        local t = kv { { "share%", function(n) return n > 1 end } }
        t:add(1) t:add(2) t:add(2)"#,
    )
    .unwrap();
    let table = host.table();
    assert_eq!(keys(&table), "share_percent count");
    assert_eq!([&table.rows[0][0], &table.rows[1][0]], [&Cell::Bool(true), &Cell::Bool(false)]);
}

#[test]
fn values_that_no_double_holds_are_summed_exactly() {
    let host = Host::new();
    host.run::<()>(
        r#"
        local t = kv { "id", sums = { "BYTES" }, style = "top" }
        t:add("0x20000000000001", "0x20000000000001") t:add("0x20000000000001", 1)
        local add = t:adding(1, 1)
        add("0x8000000000000001", "0xffffffffffffffff") add(3, "0x10")"#,
    )
    .unwrap();
    let expected = ["9007199254740993|9007199254740994", "3|16", "-9223372036854775807|-1"];
    assert_eq!(rows(&host.table()), expected);
    let refused = host.error(r#"kv { "id", sums = { "BYTES" } }:add(1, "0x10000000000000000")"#);
    assert_eq!(refused, "site.lua:1: add(id, BYTES): 'BYTES' is a string; it must be a number");
}

#[test]
fn perins_adds_the_instance_and_its_argument() {
    let source = r#"
        local l = latency { perins(), { "state" }, "comm" }
        l:add(1000, 3, 1, "nginx") l:add(1000, 4, 1, "nginx")
        return l:each()()"#;
    let without = Host::new();
    let first: (bool, f64, String) = without.run(source).unwrap();
    assert_eq!(first, (false, 1.0, "nginx".to_owned()));
    assert_eq!(rows(&without.table()), ["1|nginx|2|2|1|1|1|1|1|1"]);
    for (by_thread, title) in [(false, "cpu"), (true, "tid")] {
        let host = Host::new();
        host.shared.perins.set(true);
        host.shared.by_thread.set(by_thread);
        host.run::<()>(source).unwrap();
        let table = host.table();
        assert_eq!(
            (table.columns[0].title.as_str(), table.columns[0].width, table.rows.len()),
            (title, 4, 2)
        );
    }
    let host = Host::new();
    host.shared.perins.set(true);
    assert_eq!(host.run::<String>("return perins 'vcpu'").unwrap(), "vcpu");
}

#[test]
fn an_arrow_table_is_in_the_order_of_its_stages() {
    let host = Host::new();
    host.run::<()>(
        r#"
        local names = { "timer:hrtimer_start", "timer:hrtimer_expire_entry", "timer:hrtimer_expire_exit" }
        local function name(id) return names[id] end
        local d = latency { { "start", name, arrow = true, names = { names[1], names[2] } }, { "end", name, names = { names[2], names[3] } }, percentiles = false }
        d:add(9e9, 2, 3) d:add(10, 1, 2)"#,
    )
    .unwrap();
    let table = host.table();
    assert_eq!(
        rows(&table)[0],
        "timer:hrtimer_start|timer:hrtimer_expire_entry|1|0.01|0.01|0.01|0.01|0.01|0.01|0.01"
    );
    let look = |i: usize| (table.columns[i].width, table.columns[i].align, table.columns[i].arrow);
    assert_eq!((look(0), look(1)), ((26, Align::Right, true), (26, Align::Left, false)));
    let json_only: Vec<&str> =
        table.columns.iter().filter(|c| c.json_only).map(|c| c.key.as_str()).collect();
    assert_eq!(json_only, ["p50_us", "p95_us", "p99_us"]);
}

#[test]
fn the_unit_changes_titles_keys_and_values() {
    let host = Host::new();
    host.run::<()>(r#"latency { "x", unit = "ms", title = "slow calls" }:add(2500000, 1)"#)
        .unwrap();
    let table = host.table();
    assert!(titles(&table).contains("total(ms)") && keys(&table).contains("max_ms"));
    assert_eq!((table.title.as_deref(), table.name.as_str()), (Some("slow calls"), "slow_calls"));
    assert_eq!(table.rows[0][2], Cell::Num(2.5));
}

#[test]
fn each_gives_nanoseconds_in_drawing_order() {
    let host = Host::new();
    let found: (String, f64, f64, f64, f64, f64, String) = host
        .run(
            r#"
            local l = latency { "comm", top = 1 }
            l:add(1000, "a") l:add(5000, "b") l:add(3000, "b")
            local keys, first = {}
            for comm, s in l:each() do keys[#keys + 1] = comm first = first or s end
            return keys[1], first.calls, first.total, first.min, first.max, first.avg, keys[2]"#,
        )
        .unwrap();
    assert_eq!(found, ("b".into(), 2.0, 8000.0, 3000.0, 5000.0, 4000.0, "a".into()));
    assert_eq!(host.table().rows.len(), 1, "top = 1");
}

#[test]
fn kv_counts_by_any_key() {
    let host = Host::new();
    host.run::<()>(
        r#"
        local k = kv { "signal", "comm" }
        k:add(9, "nginx") k:add(15, "nginx") k:add(9, "nginx") k:add(9, "apache") k:add("9", "apache")"#,
    )
    .unwrap();
    let table = host.table();
    assert_eq!((titles(&table), table.style), ("signal comm count".to_owned(), Style::Plain));
    assert!(table.columns.iter().all(|column| column.align == Align::Right));
    assert_eq!(table.columns.iter().map(|c| c.width).collect::<Vec<_>>(), [8, 8, 12]);
    // Ties are sorted by key, numbers before strings.
    assert_eq!(rows(&table), ["9|nginx|2", "9|apache|1", "15|nginx|1", "9|apache|1"]);
    assert_eq!(table.rows[3][0], Cell::Text("9".to_owned()));
}

#[test]
fn kv_sorts_by_its_first_sums_then_the_others() {
    let host = Host::new();
    host.run::<()>(
        r#"
        local k = kv { "comm", sums = { "objects", { "bytes", first = true } }, top = 3 }
        k:add("a", 5, 10) k:add("b", 1, 512) k:add("b", 1, 0) k:add("c", 9, 10) k:add("d", 1, 1)
        local n = 0 for comm, objects, bytes in k:each() do n = n + bytes end assert(n == 533)"#,
    )
    .unwrap();
    let table = host.table();
    assert_eq!(
        (titles(&table), rows(&table)),
        ("comm objects bytes".into(), vec!["b|2|512".into(), "c|9|10".into(), "a|5|10".into()])
    );
}

#[test]
fn a_sum_is_exact_beyond_two_to_the_53() {
    let host = Host::new();
    host.run::<()>(
        r#"
        local k = kv { "x", sums = { "bytes" } }
        k:add(1, 2^53) for i = 1, 1001 do k:add(1, 1) end
        -- A value that a double cannot hold is read as a signed integer.
        k:add(2, "0x7fffffffffffffff") k:add(3, "0xffdfffffffffffff")"#,
    )
    .unwrap();
    assert_eq!(
        rows(&host.table()),
        ["2|9223372036854775807", "1|9007199254741993", "3|-9007199254740993"]
    );
}

#[test]
fn top_shows_names_partial_sums_and_the_samples_of_its_rows() {
    let host = Host::new();
    let source = r#"
        rows = rows or kv { { "PREV_PID" }, sums = { { "SCHED_SWITCH" }, { "RUNTIME", first = true } }, style = "top", name = { "PREV_COMM" } }
        local switch, runtime = rows:adding(1, 1), rows:adding(2, 1)
        if switch(100, 1) then rows:name(100, "nginx") end
        assert(switch(100, 1) == false)
        assert(runtime(200, 48000000) == true)
        return rows"#;
    let handle: Value = host.run(source).unwrap();
    let table = host.table();
    assert_eq!(titles(&table), "PREV_PID SCHED_SWITCH RUNTIME PREV_COMM");
    assert_eq!((table.style, table.samples, table.columns[3].align), (Style::Top, 3, Align::Left));
    assert_eq!(rows(&table), ["200|0|48000000|", "100|2|0|nginx"]);
    host.aggregates.reset_after_interval(Some(&[handle]));
    assert_eq!(
        (host.table().rows.len(), host.table().samples),
        (0, 0),
        "a screen shows a table without rows"
    );
    host.run::<()>(source).unwrap();
    assert_eq!(host.table().samples, 3);
}

#[test]
fn a_hidden_key_leaves_its_name() {
    let host = Host::new();
    host.run::<()>(
        r#"
        local names = { "one", "two" }
        local k = kv { "PID", sums = { "N" }, style = "top", hide_key = true, name = { "COMM", function(pid) return names[pid] end } }
        k:add(1, 1) k:add(2, 5)"#,
    )
    .unwrap();
    assert_eq!(
        (titles(&host.table()), rows(&host.table())),
        ("N COMM".into(), vec!["5|two".into(), "1|one".into()])
    );
}

#[test]
fn a_column_function_runs_once_per_value_and_may_add_to_tables() {
    let host = Host::new();
    host.run::<()>(
        r#"
        drawn, other = 0, kv { "n" }
        local k
        k = kv { { "fn", function(v) drawn = drawn + 1 k:add(99, 0) other:add(v) latency { "late" } return "f" .. v end }, "x" }
        for i = 1, 6 do k:add(i % 2, i) end"#,
    )
    .unwrap();
    let reports = host.draw();
    assert_eq!(host.run::<u32>("return drawn").unwrap(), 2);
    let Some(Report::Table(table)) = reports.last() else { panic!() };
    assert_eq!(rows(table)[0], "f0|2|1");
}

#[test]
fn a_failing_column_is_an_error_not_a_lost_run() {
    let host = Host::new();
    host.run::<()>("local k = kv { { 'fn', function(v) error 'boom' end } } k:add(1)").unwrap();
    assert!(host.aggregates.draw(&host.lua, None).unwrap_err().to_string().contains("boom"));
}

#[test]
fn stacks_with_equal_text_are_one_row() {
    let host = Host::new();
    let stack = |space| host.shared.stacks.borrow_mut().intern(&[USER, 0x10], || Space(space));
    let (before, again) = (stack(1), stack(2));
    assert_ne!(before, again);
    host.run::<()>(&format!(
        "local f = flame_graph {{ unit = 'bytes' }}
         f:add({before}, 5, 'a') f:add({again}, 6, 'a') f:add({again}, 20, 'b')"
    ))
    .unwrap();
    assert_eq!(rows(&host.table()), ["[unknown]|b|20", "[unknown]|a|11"]);
}

#[test]
fn hist_log2_is_drawn_from_zero_with_its_unit() {
    let host = Host::new();
    host.run::<()>(
        r#"
        local h = hist.log2 { title = "kvm-exit latency", unit = "ns" }
        for _, v in ipairs { 800, 900, 2300 } do h:add(v) end"#,
    )
    .unwrap();
    let hist = host.hists().remove(0);
    assert_eq!(
        (hist.title.as_str(), hist.unit.as_str(), hist.name.as_str()),
        ("kvm-exit latency", "ns", "kvm_exit_latency")
    );
    let buckets: Vec<(i64, i64, u64)> =
        hist.buckets.iter().map(|b| (b.low, b.high, b.count)).collect();
    assert_eq!(buckets, [(0, 511, 0), (512, 1023, 2), (1024, 2047, 0), (2048, 4095, 1)]);
}

#[test]
fn hist_linear_by_key_and_its_each() {
    let host = Host::new();
    let found: (String, i64, i64, i64) = host
        .run(
            r#"
            local h = hist.linear { "comm", min = 0, step = 10, max = 30, unit = "kB" }
            h:add(5, "a") h:add(25, "b") h:add(29, "b") h:add(31, "b")
            local comm, buckets = h:each()()
            return comm, buckets[1][1], buckets[1][2], buckets[1][3]"#,
        )
        .unwrap();
    assert_eq!(found, ("b".into(), 20, 29, 2));
    let hists = host.hists();
    assert_eq!(hists[0].keys, [("comm".to_owned(), Cell::Text("b".to_owned()))]);
    assert_eq!((hists[0].buckets[1].low, hists[0].buckets[1].high), (30, i64::MAX));
    assert_eq!(hists[1].buckets.len(), 1);
}
