//! A script that tries to leave its sandbox by every reachable value: each way is tried in a
//! handler, which has access to the most values, and must fail.

use std::fs;
use std::process::{Command, Output};

/// Ways out by name: Lua that returns a true value if it reached something forbidden, or fails. `e`
/// is the record, `ev` its evsel, `p` a pending, `s` a state of it, `by` a kv, `m` the module,
/// `opt` the options.
const WAYS: &[(&str, &str)] = &[
    (
        "a library by its name",
        "for _, n in ipairs { 'io', 'ffi', 'debug', 'package', 'jit', '_G', '_ENV', 'arg' } do if \
         (pcall(load('return ' .. n))) then return n end end",
    ),
    (
        "a function that leads out",
        "for _, n in ipairs { 'dofile', 'loadfile', 'getfenv', 'setfenv', 'collectgarbage', \
         'newproxy', 'module' } do if (pcall(load('return ' .. n))) then return n end end",
    ),
    (
        "a library by require",
        "for _, n in ipairs { 'io', 'ffi', 'debug', 'package', 'jit', 'jit.util', 'jit.opt', 'os', \
         'string.buffer', 'table.new', 'table.clear', '_G' } do if (pcall(require, n)) then return \
         n end end",
    ),
    (
        "a file by require",
        "for _, n in ipairs { '/etc/passwd', '../../etc/passwd', 'a/b', '..' } do if \
         (pcall(require, n)) then return n end end",
    ),
    ("package.loadlib", "return package.loadlib"),
    (
        "what os has",
        "return os.execute or os.getenv or os.remove or os.rename or os.exit or os.tmpname or \
         os.setlocale",
    ),
    ("string.dump", "return string.dump or ('').dump"),
    (
        "bytecode",
        "return load('\\27LJ\\2\\2\\0') or loadstring('\\27LJ\\2\\2\\0') or \
         load('\\27LJ\\2\\2\\0', 'x', 'b', {}) or load(coroutine.wrap(function() coroutine.yield \
         '\\27LJ' end))",
    ),
    ("bytecode behind a first line", "return loadstring('#!\\n\\27LJ\\2\\2\\0')"),
    (
        "the runtime's own chunk names",
        "for _, n in ipairs { '=perilune:view', '@perilune:view', 'perilune:view' } do if \
         (pcall(load, 'return 1', n)) then return n end end",
    ),
    (
        "globals of loaded text",
        "return pcall(load 'x = 1') or pcall(load 'return io') or pcall(load('return io', 'x', \
         't'))",
    ),
    ("the metatable of a string", "return getmetatable '' or pcall(setmetatable, '', {})"),
    (
        "a method of strings, changed",
        "string.upper = function() return 'mine' end return ('x'):upper() == 'mine'",
    ),
    ("the metatable of the record", "return getmetatable(e) or pcall(setmetatable, e, {})"),
    ("the metatable of an evsel", "return getmetatable(ev) or pcall(setmetatable, ev, {})"),
    ("the metatable of a table", "return getmetatable(by) or pcall(setmetatable, by, {})"),
    (
        "the metatable of a state",
        "return getmetatable(s) or getmetatable(p) or pcall(setmetatable, s, {})",
    ),
    (
        "the metatable of a kept event",
        "return getmetatable(s.event) or pcall(setmetatable, s.event, {})",
    ),
    ("the metatable of the module", "return getmetatable(m) or pcall(setmetatable, m, {})"),
    (
        "the metatable of the globals",
        "return load('return getmetatable(...)')(hist) or getmetatable(machine) and \
         type(getmetatable(machine)) == 'table' and getmetatable(machine).__index == nil",
    ),
    ("the metatable of an option", "return getmetatable(flag { 'x' })"),
    (
        "the metatable of a function",
        "return getmetatable(print) or getmetatable(coroutine.create(print)) or getmetatable(nil)",
    ),
    (
        "the metatable of an error of the host",
        "local ok, why = pcall(evsel, 5) return not ok and type(why) ~= 'string' and \
         getmetatable(why)",
    ),
    (
        "the metatable of a 64-bit number",
        "return type(getmetatable(1LL)) == 'table' or pcall(setmetatable, 1LL, {})",
    ),
    (
        "memory behind a 64-bit number",
        "return pcall(function() return (1LL)[0] end) or pcall(function() return (1LL)() end) or \
         pcall(function() (1LL)[0] = 1 end)",
    ),
    (
        "memory behind a complex number",
        "local z = 1i for i = 0, 9 do if z[i] ~= 0 and z[i] ~= 1 then return z[i] end end return \
         pcall(function() z[0] = 1 end)",
    ),
    (
        "writing to the record",
        "return pcall(function() e.pid = 1 end) or pcall(rawset, e, 'pid', 1) or e.pid == 1",
    ),
    (
        "writing to a kept event",
        "return pcall(function() s.event.pid = 1 end) or pcall(rawset, s.event, 'pid', 1)",
    ),
    (
        "writing to an evsel",
        "return pcall(rawset, ev, 'id', 99) or pcall(rawset, ev, 'each', print)",
    ),
    (
        "methods of one object for another",
        "return pcall(p.open, by, 1, e) or pcall(by.add, p, 1) or pcall(p.get, e, 1) or \
         pcall(ev.filter, e, 'x')",
    ),
    ("a forged record", "return pcall(emit, setmetatable({}, { __index = e }), e, 5)"),
    (
        "a forged kept event",
        "p:open(7, { _time = 1 }, 1) local f = p:get(7) return f and pcall(function() return \
         f.event.pid end)",
    ),
    (
        "elements that are not there",
        "return pcall(function() return e.pid[0] end) or pcall(function() return e[1e9] end) or \
         pcall(function() return e[-1] end)",
    ),
    (
        "a finaliser",
        "local ran = false for _ = 1, 2e4 do setmetatable({}, { __gc = function() ran = true end \
         }) end return ran",
    ),
    (
        "a traceback of the host",
        "local ok, why = pcall(error) return why ~= nil and tostring(why):find 'perilune:'",
    ),
    (
        "the host's functions through xpcall",
        "local _, why = xpcall(evsel, function(w) return w end, 5) return type(why) == 'function'",
    ),
    (
        "a closed table by next",
        "for _, t in ipairs { s, s.event } do if next(t) ~= nil then return true end end",
    ),
    (
        "a record's table by next",
        "local k, v = next(e) return k ~= '#' or type(v) ~= 'number' or next(e, k) ~= nil",
    ),
    ("a huge text", "return pcall(string.rep, 'x', 2e9)"),
    ("endless recursion", "local function f() return 1 + f() end return pcall(f)"),
    ("endless gsub", "local function f() return (('x'):gsub('x', f)) end return pcall(f)"),
    (
        "gsub in coroutines in gsub",
        "local function f() return (('x'):gsub('x', coroutine.wrap(f))) end return pcall(f)",
    ),
    ("endless coroutines", "local function f() return coroutine.wrap(f)() end return pcall(f)"),
    (
        "endless __index",
        "local t = {} for i = 1, 300 do t = setmetatable({}, { __index = t }) end local l = {} \
         setmetatable(l, { __index = function(x, k) return x[k] end }) return pcall(function() \
         return l.x end)",
    ),
    (
        "endless sort",
        "return pcall(table.sort, { 3, 1, 2, 5, 4, 9, 8 }, function() return true end) and false",
    ),
    ("a pattern too deep", "return pcall(string.find, ('('):rep(300), ('('):rep(300))"),
];

/// Replays some signals through a script.
fn replay(script: &str, options: &[&str]) -> Output {
    replay_by("exec \"$0\" \"$@\"", script, options)
}

/// Like [`replay`], started by a shell command.
fn replay_by(shell: &str, script: &str, options: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.lua");
    fs::write(&path, script).unwrap();
    let events = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts/signal.events");
    Command::new("sh")
        .args(["-c", shell, env!("CARGO_BIN_EXE_perilune")])
        .arg(&path)
        .args(["--replay", events])
        .args(options)
        .output()
        .expect("the built command runs")
}

/// Returns a monitor that tries every way at the second event.
fn trying() -> String {
    let ways: String = WAYS
        .iter()
        .map(|(name, way)| format!("  {{ {name:?}, function(e, opt) {way} end }},\n"))
        .collect();
    format!(
        "local m = monitor {{ summary = 'gets out' }} local ev, p, by, s, m_kept, tried\n\
         function m.init(opt)\n\
         p, by = pending {{ 'x', key = 'any', keep = true }}, kv {{ 'x' }}\n\
         local ways = {{\n{ways}}}\n\
         ev = evsel('signal:signal_generate', function(e)\n\
           if not m_kept then m_kept = setmetatable({{}}, {{ __index = e }}) p:open(1, e, 1) \
           return end\n\
           if tried then return end\n\
           tried, s = 0, p:get(1)\n\
           for _, way in ipairs(ways) do\n\
             local ok, got = pcall(way[2], e) tried = tried + 1\n\
             if ok and got then note('OUT: %s: %s', way[1], tostring(got)) end\n\
           end\n\
           note('tried %d', tried)\n\
         end)\nend\nreturn m\n"
    )
}

#[test]
fn the_sandbox_cannot_be_escaped() {
    let output = replay(&trying(), &[]);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(text.contains(&format!("tried {}", WAYS.len())), "{text}");
    let out: Vec<&str> = text.lines().filter(|line| line.contains("OUT: ")).collect();
    assert_eq!(out, [""; 0]);
    assert!(output.status.success(), "{text}");
}

#[test]
fn unsafe_allows_libraries_os_and_require() {
    let output = replay(&trying(), &["--unsafe"]);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    for name in ["a library by its name", "what os has", "a library by require"] {
        assert!(text.contains(&format!("OUT: {name}")), "{name}: {text}");
    }
}

#[test]
fn functions_called_without_end_are_stopped_before_memory_is_exhausted() {
    let endless = [
        ("for i = 1, 1e9 do kv { 'a' } end", ""),
        ("for i = 1, 1e9 do printer('a:b' .. i, print) end", ""),
        ("for i = 1, 1e9 do every('1s', print) end", ""),
        ("", "for i = 1, 1e9 do alert { 'x' .. i, key = i } end"),
        ("local by = kv { 'x' }", "for i = 1, 1e9 do by:add('x' .. i) end"),
    ];
    for (init, handler) in endless {
        let script = format!(
            "local m = monitor {{ summary = 'eats' }} function m.init() {init} \
             evsel('signal:signal_generate', function(e) {handler} end) end return m"
        );
        // A process that allocates more than 1 GiB of address space is killed by a signal.
        let output = replay_by("ulimit -v 1048576; exec \"$0\" \"$@\"", &script, &[]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{init}{handler}: {text}");
        assert!(text.contains("out.lua:1: "), "{init}{handler}: {text}");
    }
}
