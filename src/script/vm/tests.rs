//! The sandbox, its errors, its memory limit, and `require`.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;

const MIB: usize = 1 << 20;

fn vm() -> Vm {
    Vm::new(Limits { memory: 64 * MIB }).unwrap()
}

fn text(vm: &Vm, source: &str) -> String {
    let value = vm.script("@test.lua", source).map_err(|e| describe(&e).to_string()).unwrap();
    value.to_string().unwrap()
}

fn error(source: &str) -> String {
    describe(&vm().script("@dir/test.lua", source).unwrap_err()).message
}

#[test]
fn a_script_has_only_the_allowed_globals() {
    let vm = vm();
    for name in ["io", "ffi", "debug", "package", "dofile", "jit", "_G", "getfenv", "setfenv"] {
        let message = error(&format!("return {name}"));
        assert!(message.starts_with(&format!("test.lua:1: no global '{name}'")), "{message}");
        assert!(message.contains("--unsafe"), "{message}");
    }
    assert_eq!(
        text(&vm, "return ('%s%s%s'):format(os.getenv, os.execute, string.dump)"),
        "nilnilnil"
    );
    assert_eq!(text(&vm, "return ('x').dump"), "nil");
    let script = "assert(select('#', bit.band, math.floor, table.concat, coroutine.wrap, os.clock, \
                 rawlen) == 6)";
    vm.script("@test.lua", script).unwrap();
}

#[test]
fn an_unknown_global_is_an_error_at_its_line_with_the_nearest_name() {
    let vm = vm();
    vm.add_global("latency", 1).unwrap();
    let error = vm.script("@/etc/x/test.lua", "\n\nreturn latencyy").unwrap_err();
    let message = describe(&error).message;
    assert_eq!(message, "test.lua:3: no global 'latencyy'; did you mean 'latency'?");
}

#[test]
fn assigning_a_global_is_an_error_with_the_fix() {
    let message = "test.lua:1: assignment to the global 'x'; assign to a local: local x";
    assert_eq!(error("x = 1"), message);
    assert_eq!(error("function x() end"), message);
}

#[test]
fn bytecode_is_refused_from_every_source() {
    let vm = vm();
    let dump: mlua::LuaString =
        vm.lua().load("return string.dump(function() return 1 end)").eval().unwrap();
    vm.add_global("bytecode", &dump).unwrap();
    for call in ["load(bytecode)", "load(bytecode, 'x', 'b')", "loadstring(bytecode)"] {
        assert_eq!(text(&vm, &format!("return tostring(({call}))")), "nil", "{call}");
    }
    let pieces =
        "local s = bytecode return tostring((load(function() local t = s s = nil return t end)))";
    assert_eq!(text(&vm, pieces), "nil");
}

#[test]
fn loaded_text_runs_in_the_sandbox_or_in_the_table_that_is_passed() {
    let vm = vm();
    assert!(error("return load('return io')()").contains("no global 'io'"));
    assert_eq!(text(&vm, "return load('return a', 'x', 't', { a = 7 })()"), "7");
    assert!(error("load('return 1', '=perilune:view')").contains("belongs to the runtime"));
}

#[test]
fn a_script_cannot_poison_trusted_code() {
    let vm = vm();
    vm.script(
        "@evil.lua",
        "string.format = 1 string.upper = 1 table.concat = 1 math.floor = 1
         assert(getmetatable('') == false)
         assert(not pcall(setmetatable, '', {}))",
    )
    .unwrap();
    let source = "return string.format('%d', 3) .. ('x'):upper() .. table.concat({ 1, 2 }) .. \
                  math.floor(1.5)";
    assert_eq!(vm.trusted::<String>("test", source, ()).unwrap(), "3X121");
    assert_eq!(
        text(&vm, "return ('x'):upper()"),
        "X",
        "string methods must be the trusted ones, not the script's"
    );
}

#[test]
fn a_closed_table_cannot_be_written_raw() {
    let vm = vm();
    let closed: Table =
        vm.trusted("test", "return setmetatable({}, { __metatable = false })", ()).unwrap();
    vm.add_global("closed", closed).unwrap();
    let error = describe(&vm.script("@test.lua", "rawset(closed, 'a', 1)").unwrap_err()).message;
    assert_eq!(error, "test.lua:1: the table is closed");
    assert_eq!(text(&vm, "return rawset({}, 'a', 1).a"), "1");
}

#[test]
fn trusted_code_has_every_library() {
    let vm = vm();
    let sum = "local a, b = ... return tonumber(require('ffi').new('int', a) + b)";
    assert_eq!(vm.trusted::<i64>("test", sum, (1, 2)).unwrap(), 3);
}

#[test]
fn unsafe_mode_gives_ffi_io_os_and_debug() {
    let vm = vm();
    vm.unsafe_mode(true).unwrap();
    let uses = "return tostring(io.open and os.getenv and debug.traceback and \
                require('ffi').sizeof('int') == ffi.sizeof('int'))";
    assert_eq!(text(&vm, uses), "true");
}

#[test]
fn print_passes_one_line_at_a_time_to_the_host() {
    let vm = vm();
    let lines = Rc::new(RefCell::new(Vec::new()));
    let sink = lines.clone();
    vm.on_print(Box::new(move |line| sink.borrow_mut().push(line.to_owned())));
    vm.script("@test.lua", "print(1, nil, 'x', true) print()").unwrap();
    assert_eq!(*lines.borrow(), ["1\tnil\tx\ttrue", ""]);
}

#[test]
fn a_shebang_line_is_skipped_and_lines_keep_their_numbers() {
    let vm = vm();
    assert_eq!(text(&vm, "#!/usr/bin/env perilune\nreturn 5"), "5");
    let message = error("#!/usr/bin/env perilune\n\nerror 'here'");
    assert_eq!(message, "test.lua:3: here");
}

#[test]
fn a_syntax_error_has_its_line() {
    assert_eq!(error("local x = 1\nlocal y = = 2"), "test.lua:2: unexpected symbol near '='");
}

#[test]
fn an_error_of_a_rust_function_has_the_line_of_the_call() {
    let vm = vm();
    let evsel = |_: &Lua, ()| -> mlua::Result<()> { Err(mlua::Error::runtime("no event 'x'")) };
    vm.add_global("evsel", vm.lua().create_function(evsel).unwrap()).unwrap();
    let source = "local function open()\n  evsel()\nend\nopen()";
    let error = describe(&vm.script("@dir/test.lua", source).unwrap_err());
    assert_eq!(error.message, "test.lua:2: no event 'x'");
    let traceback = error.traceback.unwrap();
    assert!(traceback.contains("dir/test.lua:4: in main chunk"), "{traceback}");
    assert!(!traceback.contains("[C]: at"), "{traceback}");
}

#[test]
fn an_error_that_is_not_text_is_described() {
    assert!(!error("error({ 1 })").is_empty());
    assert!(!error("error()").is_empty());
    let message = error("error(setmetatable({}, { __tostring = function() return 'mine' end }))");
    assert_eq!(message, "test.lua:1: mine");
}

#[test]
fn one_allocation_over_the_limit_is_an_error_and_the_vm_continues() {
    let vm = vm();
    let error = describe(&vm.script("@test.lua", "return ('x'):rep(2e9)").unwrap_err());
    assert!(error.out_of_memory, "{error}");
    assert!(!vm.out_of_memory());
    assert_eq!(text(&vm, "return #('x'):rep(1000)"), "1000");
}

#[test]
fn two_gigabytes_of_tables_exceed_the_limit_and_the_report_is_still_made() {
    let vm = vm();
    let source = "local list, n = nil, 0
        local function grow() for i = 1, 2e9 / 48 do list, n = { list }, n + 1 end end
        local function report() return n end
        return { grow = grow, report = report }";
    let Value::Table(script) = vm.script("@test.lua", source).unwrap() else { panic!("no table") };
    let grow: Function = script.get("grow").unwrap();
    let report: Function = script.get("report").unwrap();
    for _ in 0..3 {
        let error = describe(&grow.call::<()>(()).unwrap_err());
        assert!(error.out_of_memory, "{error}");
        assert!(vm.used_memory() <= 64 * MIB);
    }
    assert!(vm.out_of_memory());
    vm.lift_memory_limit();
    assert!(!vm.out_of_memory());
    let kept: usize = report.call(()).unwrap();
    assert!(kept > 500_000, "{kept}");
    let garbage = "local n = 0 for i = 1, 1e5 do n = n + #tostring(i) end return n";
    assert_eq!(text(&vm, garbage), "488895");
    let error = describe(&vm.script("@test.lua", "return ('x'):rep(2e9)").unwrap_err());
    assert!(error.out_of_memory, "the memory of the report is limited, too");
}

#[test]
fn garbage_does_not_exhaust_the_memory_limit() {
    let vm = vm();
    let Value::Function(waste) =
        vm.script("@test.lua", "return function() return #('x'):rep(3e6) end").unwrap()
    else {
        panic!("no function")
    };
    for _ in 0..200 {
        waste.call::<usize>(()).unwrap();
        assert!(!vm.out_of_memory());
    }
}

#[test]
fn require_finds_modules_beside_the_script_runs_them_once_and_reports_cycles() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("once.lua", "print 'loaded' return { n = 1 }");
    write("nothing.lua", "");
    write("a.lua", "local b = require 'b' return b");
    write("b.lua", "local a = require 'a' return a");
    write("broken.lua", "\nerror 'inside'");
    write("main.lua", "");
    let library = Library::default();
    let script = library.find(folder.path().join("main.lua").to_str().unwrap()).unwrap();
    let vm = vm();
    let lines = Rc::new(Cell::new(0));
    let counted = lines.clone();
    vm.on_print(Box::new(move |_| counted.set(counted.get() + 1)));
    vm.search(&library, &script);
    assert_eq!(text(&vm, "return require('once').n + require('once').n"), "2");
    assert_eq!(lines.get(), 1);
    assert_eq!(text(&vm, "return tostring(require 'nothing')"), "true");
    let error = |source: &str| describe(&vm.script("@main.lua", source).unwrap_err()).message;
    assert_eq!(error("require 'a'"), "b.lua:1: modules require each other: a → b → a");
    assert_eq!(error("require 'broken'"), "broken.lua:2: inside");
    assert_eq!(error("require 'onse'"), "main.lua:1: no module 'onse'; did you mean 'once'?");
    // Each folder has its own module of a name.
    std::fs::create_dir(folder.path().join("other")).unwrap();
    write("other/once.lua", "return { n = 5 }");
    write("other/main.lua", "return require('once').n");
    let other = library.find(folder.path().join("other/main.lua").to_str().unwrap()).unwrap();
    let got = vm.loader().run(vm.lua(), &other).unwrap();
    assert_eq!(got.as_i64(), Some(5));
    assert_eq!(text(&vm, "return tostring(require('once').n)"), "1");
    // A function that is called after its script was loaded finds what the script required.
    write("other/only.lua", "return { n = 7 }");
    write("other/late.lua", "require 'only' return function() return require('only').n end");
    let late = library.find(folder.path().join("other/late.lua").to_str().unwrap()).unwrap();
    let late: mlua::Function =
        vm.loader().run(vm.lua(), &late).unwrap().as_function().unwrap().clone();
    assert_eq!(late.call::<i64>(()).unwrap(), 7);
    for bad in ["../once", "..", ".once", "a..b", "/etc/x", ""] {
        assert!(error(&format!("require '{bad}'")).contains("is not a module name"), "{bad}");
    }
}
