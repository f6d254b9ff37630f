//! Parsing of a monitor's head and callbacks.

use mlua::{Lua, Value};

use super::{Monitor, ScriptSource, doc, register};
use crate::script::option::OptionKind;

fn load(text: &str) -> Monitor {
    let lua = Lua::new();
    register(&lua, &lua.globals()).unwrap();
    let returned = lua.load(text).set_name("=x.lua").eval::<Value>().unwrap();
    // Leaks the state: the monitor's table must not outlive it.
    std::mem::forget(lua);
    Monitor::load(ScriptSource { name: "x", origin: "x.lua", text }, &returned, &[]).unwrap()
}

#[test]
fn the_doc_is_the_leading_comment_without_dashes() {
    let text = "#!/usr/bin/env perilune\n--- Signals sent.\n---@meta\n--\n\
                --   perilune signal \\\n--       -g\nlocal m\n-- not this";
    assert_eq!(doc(text), "Signals sent.\n\n  perilune signal \\\n      -g");
    assert_eq!(doc("local m"), "");
    assert_eq!(doc("--[[ a block ]]"), "");
}

#[test]
fn callbacks_are_found_on_the_module() {
    let monitor = load(
        "local m = monitor {}\nfunction m.init() return 7 end\nm.sample = nil\n\
         function m.on_exit() end\nreturn m",
    );
    let init: mlua::Function = monitor.table.raw_get("init").unwrap();
    assert_eq!(init.call::<i64>(()).unwrap(), 7);
    assert!(monitor.table.contains_key("on_exit").unwrap());
    assert!(!monitor.table.contains_key("sample").unwrap());
}

#[test]
fn a_screen_is_off_unless_declared() {
    let screen = |declared: &str| {
        let end = "function m.init() end\nreturn m";
        load(&format!("local m = monitor {{ {declared} }}\n{end}")).screen
    };
    assert!(screen("screen = true") && !screen("screen = false") && !screen(""));
}

#[test]
fn a_callback_may_be_replaced() {
    let monitor = load(
        "local m = monitor {}\nfunction m.init() return 1 end\nfunction m.init() return 2 end\n\
         return m",
    );
    let init: mlua::Function = monitor.table.raw_get("init").unwrap();
    assert_eq!(init.call::<i64>(()).unwrap(), 2);
}

#[test]
fn attributes_are_declared_by_functions_of_their_kind() {
    let monitor = load(
        "local m = monitor { options = { events { 'event', attrs = { key = expr, \
         ['top-by'] = expr, alias = text, untraced = flag } } } }\nfunction m.init() end\nreturn m",
    );
    let OptionKind::Events { attrs, .. } = &monitor.option("event").unwrap().kind else { panic!() };
    let attrs: Vec<String> = attrs.iter().map(|(name, attr)| format!("{name}={attr:?}")).collect();
    assert_eq!(attrs, ["alias=Text", "key=Expr", "top-by=Expr", "untraced=Flag"]);
}

#[test]
fn declarations_remember_their_line() {
    let monitor = load(
        "local m = monitor { options = {\n  flag { 'one' },\n  text {\n    'two' } } }\n\
         function m.init() end\nreturn m",
    );
    let place = |long| monitor.option(long).unwrap().place.clone();
    assert_eq!(place("one").as_deref(), Some("x.lua:2"));
    assert_eq!(place("two").as_deref(), Some("x.lua:3"));
}

#[test]
fn a_declaration_by_a_function_that_also_formats_knows_its_line() {
    let lua = Lua::new();
    let env = lua.globals();
    register(&lua, &env).unwrap();
    let wrap = "local declare = ...\nreturn function(value) return declare(value) end";
    let declare: mlua::Function = env.get("duration").unwrap();
    let wrapped: mlua::Function = lua.load(wrap).set_name("=perilune:api").call(declare).unwrap();
    env.set("duration", wrapped).unwrap();
    let script = "\nlocal d = duration { 'than', unti = 'us' }";
    let error = lua.load(script).set_name("=x.lua").exec().unwrap_err().to_string();
    assert!(error.contains("x.lua:2: duration has no 'unti'; did you mean 'unit'?"), "{error}");
}
