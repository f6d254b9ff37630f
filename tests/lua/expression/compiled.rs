//! Expressions in handlers are compiled and create no garbage.

use super::{lua, record};

/// Batches before the first measured one, and measured batches.
const WARM_UP: usize = 300;
const COUNTED: usize = 100;
const EVENTS: usize = 300;

/// Counts aborted attempts to compile the code of expressions. Abort code 0 is a finalizer that ran
/// while LuaJIT recorded (`gc_call_finalizer` ends any recording); it is not caused by the code,
/// which is compiled again.
const WATCH: &str = r#"
    local util = require "jit.util"
    local aborts = 0
    jit.attach(function(what, _, func, _, code)
      if what == "abort" and code ~= 0 and func and util.funcinfo(func).source == "=perilune:expression" then
        aborts = aborts + 1
        print("abort", code)
      end
    end, "trace")
    return function() return aborts end
"#;

/// Returns the bytes of garbage per event, and the number of aborts of the expression.
fn cost(body: &str) -> (f64, u32) {
    // Records that take the same path through the code, as most records of a run do.
    let records = record::records(40).split_off(39);
    let mut run = lua::Run::new(body, &records);
    let aborts: mlua::Function = run.host.lua().load(WATCH).eval().unwrap();
    for _ in 0..WARM_UP {
        run.dispatch(EVENTS);
    }
    let lua = run.host.lua().clone();
    let collect = |what: &str| -> f64 {
        lua.load(format!("return collectgarbage({what:?})")).eval().unwrap()
    };
    collect("collect");
    collect("stop");
    let before = collect("count");
    for _ in 0..COUNTED {
        run.dispatch(EVENTS);
    }
    let grown = (collect("count") - before) * 1024.0;
    (grown / (COUNTED * EVENTS) as f64, aborts.call(()).unwrap())
}

#[test]
fn expressions_on_numbers_are_compiled_and_make_no_garbage() {
    let sources = [
        "si + 1",
        "(__cpu<<32)|uh",
        "si * si - ui",
        "sl",
        "(long)((ul * 3 + sl) >> 40)",
        "(ul ^ 0x5555) % 1000000007",
        "sl / 1000 * 1000 - sl % 7",
        "ul >> ub % 64 & 0xffff",
        "sl < ul ? sl & 0xff : ul >> 60",
        "ul > 5 && sl != 7 || ui",
        "ints[ub % 4] + longs[one] % 100",
        "si / zero + (ul >> 64)",
        "text == \"kworker/0:1\"",
        "text ~ \"kwork*\" || text == \"swapper\"",
        "ntohl(ui) ^ ntohs(uh)",
        "strncmp(text, \"kwork\", 5) == 0",
    ];
    for source in sources {
        let (bytes, aborts) = cost(&format!(
            "local ev = evsel \"test:extremes\"
             local n, f = kv {{ 'key' }}, expr_of({}, ev)
             ev:each(function(e) n:add(f(e)) end)",
            lua::quoted(source)
        ));
        // The tables of a report use far less than one object per event.
        assert!(bytes < 1.0, "{source}: {bytes} bytes an event");
        assert_eq!(aborts, 0, "{source}");
    }
}

#[test]
fn the_measurement_finds_one_object_per_event() {
    let (bytes, _) = cost(
        "local kept
         evsel(\"test:extremes\", function(e) kept = { e._tid } end)",
    );
    assert!(bytes > 16.0, "{bytes} bytes an event");
}
