//! Fields that a handler reads and its event does not have are reported before anything is opened;
//! undecidable cases are not.

use std::rc::Rc;

use perilune::decode::format::Format;
use perilune::event::catalog::Catalog;
use perilune::event::kind::{Counter, Event, EventKind, Tracepoint};
use perilune::script::host::{Host, Rules, Setting};
use perilune::script::load::library::{Library, Script, ScriptOrigin};

/// A catalog: `s:switch` has `prev_pid` and `next_pid`, `s:wakeup` has `pid`, and `clock` is a
/// counter.
struct Three;

impl Catalog for Three {
    fn describe(&self, name: &str) -> anyhow::Result<Rc<Event>> {
        let field = |(at, name): (usize, &str)| {
            format!("\tfield:int {name};\toffset:{};\tsize:4;\tsigned:1;\n", 8 + 4 * at)
        };
        let format = |fields: &[&str]| -> anyhow::Result<EventKind> {
            let lines: String = fields.iter().copied().enumerate().map(field).collect();
            let format = Format::parse(&format!("name: x\nID: 7\nformat:\n{lines}"))?;
            Ok(Tracepoint { format }.into())
        };
        let what = match name {
            "s:switch" => format(&["prev_pid", "next_pid", "prio"])?,
            "s:wakeup" => format(&["pid", "prio", "end"])?,
            "clock" => Counter::default().into(),
            other => anyhow::bail!("no event '{other}'"),
        };
        Ok(Rc::new(Event::new(name, what)))
    }

    fn names(&self) -> anyhow::Result<Vec<String>> {
        Ok(["s:switch", "s:wakeup"].map(str::to_owned).to_vec())
    }
}

/// Starts a run of `text` without opening anything.
fn begin(text: String) -> anyhow::Result<()> {
    let _alone = crate::alone();
    let mut host = Host::new(false)?;
    let script = Script {
        name: "t".to_owned(),
        origin: ScriptOrigin::Path("/somewhere/t.lua".into()),
        text,
    };
    host.load(&script, &Library::default(), &[])?;
    let options = host.lua().create_table()?;
    options.set("on", true)?;
    options.set("off", false)?;
    host.begin(&options, &Setting::of(Rc::new(Three)), Rules::default())
}

/// Returns a monitor whose handler of `s:switch` is `body`, after `before` in init, both on line 3.
fn monitor(before: &str, body: &str) -> String {
    format!(
        "local m = monitor {{ summary = 'x' }} function m.init(opt) local ev\n\n{before} ev = \
         evsel('s:switch', function(e) {body} end) end return m"
    )
}

/// Code before the handler, and a handler that reads `nxt_pid` where this is certainly an error.
const FOUND: &[(&str, &str)] = &[
    ("", "print(e.nxt_pid)"),
    ("", "print(e['nxt_pid'])"),
    ("", "local x = e print(x.nxt_pid)"),
    ("", "if e.prio == -12345 then print(e.nxt_pid) end"),
    ("", "if e.prio ~= -12345 then return end print(e.nxt_pid)"),
    ("", "if e.prev_pid > 5 and e.prio < 3 or e.nxt_pid == 1 then print(1) end"),
    ("", "local n = e.prio > 1 and e.prev_pid or e.nxt_pid print(n)"),
    ("", "while e.prio > 3 do print(e.nxt_pid) end"),
    ("", "repeat print(1) until e.nxt_pid == 3"),
    ("", "for i = 1, 3 do print(i) end print(e.nxt_pid)"),
    ("", "for k in pairs({ 1 }) do print(k) end print(e.nxt_pid)"),
    ("", "local t = {} t[e.nxt_pid] = 1"),
    ("", "print(('%d'):format(e.nxt_pid))"),
    ("local n = 0", "n = n + 1 if n > 1000 then print(n) end print(e.nxt_pid)"),
    (
        "local p = pending { 'x' }",
        "local s = p:close(e.prev_pid, e) if s then print(e.nxt_pid) end",
    ),
    ("local p = pending { 'x' }", "p:open(e.prev_pid, e, e.nxt_pid)"),
    ("local by = kv { 'x' }", "if e._comm:find 'y' then by:add(e.nxt_pid) end"),
    ("local function read(r) return r.nxt_pid end", "if e.prio == 7 then print(read(e)) end"),
    ("local T = { read = function(a, r) return a(r) end }", "print(T.read(2, e), e.nxt_pid)"),
    ("", "local f = function() return 1 end print(f, e.nxt_pid)"),
];

/// Cases that are errors, too, but depend on an unknown value: the first event reports them.
const REPORTED_LATER: &[(&str, &str)] = &[
    ("", "for i = 1, e.prio do print(i + e.nxt_pid) end"),
    ("", "if not opt.off then print(e.nxt_pid) end"),
    ("", "if opt.on then print(e.nxt_pid) end"),
    ("local than = 5", "if than and e.prio > than then print(e.nxt_pid) end"),
    ("local key = 'nxt_pid'", "print(e[key])"),
    (
        "local p = pending { 'x' }",
        "local s = p:get(e.prio) if s and s.x == 3 then print(e.nxt_pid) end",
    ),
    ("local T = { read = function(a, r) return r.nxt_pid end }", "print(T.read(1, e))"),
    ("local function prio(r) return r.prio end", "if prio(e) == 7 then print(e.nxt_pid) end"),
    ("", "if e._event == ev then print(e.nxt_pid) end"),
    ("", "if e._event.name == 's:switch' then print(e.nxt_pid) end"),
    ("", "if ev.fields.prio then print(e.nxt_pid) end"),
];

/// Cases that are correct or undecidable.
const NOT_FOUND: &[(&str, &str)] = &[
    ("", "print(e.next_pid, e.prio, e._tid, e._event, e._text)"),
    ("", "local e = { nxt_pid = 1 } print(e.nxt_pid)"),
    ("", "local x = e x = { nxt_pid = 1 } print(x.nxt_pid)"),
    (
        "local t = { nxt_pid = 1 }",
        "local x = e for i = 1, e.prio do if i > 1 then print(x.nxt_pid) end x = t end",
    ),
    ("local t = { nxt_pid = 1 }", "local x = t if e.prio == 1 then x = e end print(x.nxt_pid)"),
    ("local t = { nxt_pid = 1 }", "local x = e.prio == 1 and e or t print(x.nxt_pid)"),
    (
        "local t = { nxt_pid = 1 }",
        "local x = e local f = function() x = t end f() print(x.nxt_pid)",
    ),
    ("local has = false", "if has then print(e.nxt_pid) end"),
    ("local has = false", "print(has and e.nxt_pid or 1)"),
    ("local has = false", "if not has then return end print(e.nxt_pid)"),
    ("local has = true", "if has then has = false else print(e.nxt_pid) end"),
    ("local has = true", "has = ev.fields.nxt_pid ~= nil if has then print(e.nxt_pid) end"),
    (
        "local has = true local function look() has = ev.fields.nxt_pid end",
        "look() if has then print(e.nxt_pid) end",
    ),
    (
        "local c = { has = true }",
        "if not c.seen then c.seen, c.has = true, ev.fields.nxt_pid end if c.has then \
         print(e.nxt_pid) end",
    ),
    (
        "local c = { has = true }",
        "local k = 'has' c[k] = ev.fields.nxt_pid if c.has then print(e.nxt_pid) end",
    ),
    (
        "local c = setmetatable({}, { __index = function() return ev.fields.nxt_pid end })",
        "if c.has then print(e.nxt_pid) end",
    ),
    ("local function has() return ev.fields.nxt_pid end", "if has() then print(e.nxt_pid) end"),
    (
        "local function has(x) return ev.fields.nxt_pid end",
        "if has(e.prio) then print(e.nxt_pid) end",
    ),
    ("", "if ev.fields.nxt_pid then print(e.nxt_pid) end"),
    ("", "if e._event.fields.nxt_pid then print(e.nxt_pid) end"),
    ("", "if e._text:find 'nxt_pid' then print(e.nxt_pid) end"),
    ("", "for name in pairs(ev.fields) do if name == 'nxt_pid' then print(e.nxt_pid) end end"),
    ("", "for _, name in ipairs { 'prio' } do print(e[name]) end"),
    ("", "local i = 1 while i < 1 do print(e.nxt_pid) end"),
    ("", "for i = 1, 0 do print(e.nxt_pid) end"),
    ("", "print(pcall(function() return e.nxt_pid end))"),
    ("local function read(r) return r.nxt_pid end", "print(pcall(read, e))"),
    (
        "local function read(r) return r.nxt_pid end",
        "if e.prio == 1 and ev.fields.nxt_pid then print(read(e)) end",
    ),
    (
        "local function is(r, x) return r._event.name == x end",
        "if is(e, 's:wakeup') then print(e.nxt_pid) end",
    ),
    (
        "local function may(r) if r.prio > 1 then return ev.fields.nxt_pid end return false end",
        "if may(e) then print(e.nxt_pid) end",
    ),
    (
        "local by = { ['s:wakeup'] = function(e) return e.nxt_pid end }",
        "local f = by[e._event.name] if f then f(e) end",
    ),
    ("local function f(...) local e = ... return e.nxt_pid end", "if opt.off then f(e) end"),
    ("", "if e._event ~= ev then print(e.nxt_pid) end"),
    ("", "if opt.off then print(e.nxt_pid) end"),
    ("", "if opt.on then goto out end print(e.nxt_pid) ::out::"),
    ("local function f(e) return f(e) end", "f(e)"),
    // On another machine `wanted` may be a possible value of `prio`.
    ("local wanted = -1", "if e.prio == wanted then print(e.nxt_pid) end"),
    (
        "local ok",
        "for _, v in ipairs {} do if v then return end ok = v end if ok then print(e.nxt_pid) end",
    ),
    ("local ok", "for _, v in ipairs { 1 } do if v then return end end print(e.nxt_pid)"),
    ("local ok", "repeat if e.prio > 0 or e.prio < 1 then return end until ok print(e.nxt_pid)"),
    ("local ok", "while not ok do if e.prio > 0 then return end return end print(e.nxt_pid)"),
    ("local p = pending { 'x' }", "local s = p:close(1, e) if s and s.x then print(e.nxt_pid) end"),
    ("", "local has = ev.fields.nxt_pid if has then if e.prio > 1 then print(e.nxt_pid) end end"),
    ("", "local has = ev.fields.nxt_pid print(e.prio > 1 and has and e.nxt_pid)"),
    (
        "local function f() return ev.fields.nxt_pid end",
        "local x = f(e) if x then print(e.nxt_pid) end",
    ),
    ("", "e = { nxt_pid = 1 } print(e.nxt_pid)"),
    ("", "local f = function() e = { nxt_pid = 1 } end f() print(e.nxt_pid)"),
    (
        "",
        "local f = function() return function() e = { nxt_pid = 1 } end end f()() print(e.nxt_pid)",
    ),
    ("", "goto on ::out:: print(e.nxt_pid) ::on:: if opt.off then goto out end"),
];

/// Returns the error of each case whose error is not `expected`.
fn others(cases: &[(&str, &str)], expected: Option<&str>) -> Vec<String> {
    let refused = |(before, body): &(&str, &str)| {
        let why = begin(monitor(before, body)).err().map(|why| why.to_string());
        (why.as_deref() != expected).then(|| format!("{before} | {body}: {why:?}"))
    };
    cases.iter().filter_map(refused).collect()
}

#[test]
fn a_misspelt_field_is_reported_at_its_line_with_the_nearest_name() {
    let message = "t.lua:3: s:switch has no field 'nxt_pid'; did you mean 'next_pid'?";
    assert_eq!(others(FOUND, Some(message)), [""; 0]);
}

#[test]
fn correct_and_undecidable_fields_are_accepted() {
    assert_eq!(others(NOT_FOUND, None), [""; 0]);
    assert_eq!(others(REPORTED_LATER, None), [""; 0]);
}

#[test]
fn a_part_of_the_data_source_is_reported_with_the_fields_to_read() {
    let message = "t.lua:3: `_data_src` is a number; its parts are the fields _data_op, \
                   _data_level, _data_snoop, _data_tlb and _data_lock";
    let found = [
        ("", "print(e._data_src.level)"),
        ("", "local source = e._data_src print(source.snoop)"),
        ("", "if e.prio == -12345 then print(e._data_src.tlb) end"),
        ("", "print(e._data_src.no_such_part)"),
    ];
    assert_eq!(others(&found, Some(message)), [""; 0]);
    let correct = [
        ("", "print(e._data_src, e._data_level)"),
        ("", "local source = e._data_src source = { level = 1 } print(source.level)"),
        ("", "if e._data_src == 1 then print(e._data_lock) end"),
    ];
    assert_eq!(others(&correct, None), [""; 0]);
}

#[test]
fn a_misspelt_register_is_reported_with_those_that_there_are() {
    for body in [
        "print(e._regs.rip)",
        "local all = e._user_regs if all then print(all.rip) end",
        "if e.prio == -12345 then print(e._regs.ip, e._regs.rip) end",
    ] {
        let why = begin(monitor("", body)).err().map_or(String::new(), |why| why.to_string());
        assert!(why.starts_with("t.lua:3: no register 'rip'; the registers are "), "{body}: {why}");
        assert!(why.contains("ip, "), "{why}");
    }
    let correct = [
        ("", "print(e._regs.ip, e._user_regs.sp)"),
        ("", "local regs = e._regs regs = { rip = 1 } print(regs.rip)"),
    ];
    assert_eq!(others(&correct, None), [""; 0]);
}

#[test]
fn a_handler_of_several_events_is_judged_for_each_and_a_glob_for_all_together() {
    let text = |init: &str, sample: &str| {
        format!(
            "local m = monitor {{ summary = 'x' }} local a, b function m.init() {init} end \
             function m.sample(e) {sample} end return m"
        )
    };
    let why = |init: &str, sample: &str| begin(text(init, sample)).err().map(|why| why.to_string());
    let both = "a, b = evsel 's:switch', evsel 's:wakeup'";
    let split = "if e._event == a then print(e.prev_pid) else print(e.pid) end";
    assert_eq!(why(both, split), None);
    assert_eq!(why(both, "print(e.prio)"), None);
    let missing = "t.lua:1: s:wakeup has no field 'prev_pid'; it has pid, prio, end";
    assert_eq!(why(both, "print(e.prev_pid)").as_deref(), Some(missing));
    assert_eq!(why("evsel 's:*'", "if e.prio > 1 then print(e.pid) end"), None);
    let missing = "t.lua:1: s:* has no field 'pidd'; did you mean 'pid'?";
    assert_eq!(why("evsel 's:*'", "print(e.pidd)").as_deref(), Some(missing));
    let missing = "t.lua:1: clock has no field 'pid'; did you mean '_pid'?";
    assert_eq!(why("evsel 'clock'", "print(e._ip, e.pid)").as_deref(), Some(missing));
}

#[test]
fn a_function_of_any_size_and_shape_is_judged_in_time() {
    let start = cpu_seconds();
    let many: String =
        (0..300).map(|n| format!("if e.prio == {n} then n = n + {n} end ")).collect();
    assert_eq!(others(&[("local n = 0", &format!("{many} print(e.prio)"))], None), [""; 0]);
    let deep = format!("{}print(e.nxt_pid){}", "if n > 1 then ".repeat(100), " end".repeat(100));
    assert_eq!(others(&[("local n = 0", &format!("n = n + 1 {deep}"))], None), [""; 0]);
    let calls = "local function a(e) return e.prio end local function b(e) return a(e) + a(e) + \
                 a(e) + a(e) end local function c(e) return b(e) + b(e) + b(e) + b(e) end";
    assert_eq!(others(&[(calls, "print(c(e) + c(e) + c(e) + c(e))")], None), [""; 0]);
    let used = cpu_seconds() - start;
    assert!(used < 5.0, "{used} s");
}

/// Returns the CPU time of this thread.
fn cpu_seconds() -> f64 {
    perilune::sys::clock::thread_cpu_ns() as f64 / 1e9
}

#[test]
fn a_field_with_the_name_of_a_keyword_is_refused_with_its_name_in_a_script() {
    let script = |read: &str| {
        format!(
            "local m = monitor {{ summary = 'x' }} function m.init() evsel('s:wakeup', \
             function(e) print({read}) end) end return m"
        )
    };
    let why = begin(script("e['end']")).unwrap_err().to_string();
    let expected = "s:wakeup has no field 'end': a keyword of Lua gets an underscore; write 'end_'";
    assert!(why.contains(expected), "{why}");
    begin(script("e.end_")).unwrap();
}
