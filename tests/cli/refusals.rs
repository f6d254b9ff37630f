//! Every invalid command line and declaration: one line with the argument, the problem and the fix.

use perilune::cli::main_with;
use proptest::prelude::*;

use crate::bench::{Bench, ClosedPipe, call, call_on, refused};

#[test]
fn an_unknown_name_gets_the_nearest() {
    assert_eq!(
        refused(&["singal"]),
        "perilune: no monitor or command 'singal'; did you mean 'signal'? (perilune monitors lists \
         them)"
    );
    assert_eq!(refused(&["help", "singal"]), refused(&["singal"]));
    assert_eq!(
        refused(&["lits"]),
        "perilune: no monitor or command 'lits'; did you mean 'list'? (perilune monitors lists \
         them)"
    );
    assert_eq!(
        refused(&["zzzzzz"]),
        "perilune: no monitor or command 'zzzzzz' (perilune monitors lists them)"
    );
    assert_eq!(refused(&["./x.lua"]), "perilune: no file './x.lua'; check the path");
}

/// Arguments that are refused, and the line behind `perilune: `.
const INVALID: &[(&str, &str)] = &[
    (
        "signal --fliter x",
        "signal: no option '--fliter'; did you mean '--filter'? (perilune signal --help lists \
         them)",
    ),
    ("signal --zzzz", "signal: no option '--zzzz' (perilune signal --help lists them)"),
    ("signal -Z", "signal: no option '-Z' (perilune signal --help lists them)"),
    ("signal --filter", "signal: '--filter' needs a value: --filter GLOB"),
    ("signal -i", "signal: '-i' needs a value: -i INT"),
    ("signal --json=pretty", "signal: '--json' takes no value; omit '=pretty'"),
    ("signal -i 5 -i 6", "signal: '-i' is given twice; give it once"),
    (
        "signal -i 0",
        "signal: -i: the shortest interval is 1ms; a number without a unit counts milliseconds \
         (perilune signal --help shows more)",
    ),
    (
        "signal -i 999us",
        "signal: -i: the shortest interval is 1ms; a number without a unit counts milliseconds \
         (perilune signal --help shows more)",
    ),
    (
        "signal -N 0",
        "signal: -N: `0` is not a whole number of at least 1 (perilune signal --help shows \
         more)",
    ),
    (
        "signal -m 0",
        "signal: -m: `0` is not a whole number of at least 1 (perilune signal --help shows \
         more)",
    ),
    (
        "signal -m 9999999",
        "signal: -m: 9999999 pages are too many for a ring; at most 1048576 (perilune signal \
         --help shows more)",
    ),
    (
        "signal --watermark 101",
        "signal: --watermark: 101 is out of range; expected 0 to 100 (perilune signal --help \
         shows more)",
    ),
    (
        "signal -p nginx",
        "signal: -p: `nginx` is not a PID or TID; for example 1234,1240 (perilune \
         signal --help shows more)",
    ),
    (
        "signal -p 1,,",
        "signal: -p: `1,,`: a number is missing; for example 1234,1240 (perilune signal --help \
         shows more)",
    ),
    (
        "signal -C 3-1",
        "signal: -C: CPU list `3-1`: the range 3-1 is reversed; use 1-3 (perilune signal \
         --help shows more)",
    ),
    (
        "signal -a -C 0",
        "signal: -a watches all CPUs and -C only some; give one of them (perilune signal \
         --help shows more)",
    ),
    (
        "signal --order --no-order",
        "signal: --order and --no-order contradict each other; give one (perilune signal \
         --help shows more)",
    ),
    (
        "signal --color alway",
        "signal: --color: `alway` is none of auto, always, never; did you mean 'always'? \
         (perilune signal --help shows more)",
    ),
    (
        "signal --filter=",
        "signal: --filter: the value is empty; pass one or omit the option (perilune signal \
         --help shows more)",
    ),
    (
        "signal --call-graph=dwarv",
        "signal: -g: `dwarv` is not one of fp, dwarf, lbr; did you mean 'dwarf'? (perilune \
         signal --help shows more)",
    ),
    (
        "signal --call-graph=dwarf,12",
        "signal: -g: invalid stack size `12`: expected bytes, a multiple of 8 and at most \
         65528, such as dwarf,16384 (perilune signal --help shows more)",
    ),
    (
        "signal --user-callchain --kernel-callchain",
        "signal: --user-callchain and --kernel-callchain exclude each other; omit both to \
         record whole stacks (perilune signal --help shows more)",
    ),
    (
        "signal --json --events --stack-style nope",
        "signal: --stack-style: unknown stack option 'nope'; expected kernel, user, addr, \
         symbol, offset, dso, reverse, frames=TEXT, stacks=TEXT (perilune signal --help shows \
         more)",
    ),
    (
        "signal --duration 0",
        "signal: --duration: must be greater than 0; omit it to run until Ctrl-C \
         (perilune signal --help shows more)",
    ),
    ("trace", "trace: '-e EVENT,…' is missing (perilune trace --help shows more)"),
    (
        "top -e a:b -e c:d",
        "top: -e: given 2 times; give it once, the events joined by ',' (perilune top --help \
         shows more)",
    ),
    (
        "multi-trace -e a:b",
        "multi-trace: -e: given once; it takes at least 2, each with its events (perilune \
         multi-trace --help shows more)",
    ),
    (
        "units --impl dleay",
        "units: --impl: `dleay` is none of delay, pair; did you mean 'delay'? (perilune units \
         --help shows more)",
    ),
    (
        "units --count many",
        "units: --count: `many` is not a number; for example 1000 or 0.5 (perilune units \
         --help shows more)",
    ),
    (
        "units -F -5",
        "units: -F: `-5` is not a whole number of at least 0 (perilune units --help shows more)",
    ),
    (
        "units -G --exclude-guest",
        "units: -G and --exclude-guest together leave nothing to watch; omit one \
         (perilune units --help shows more)",
    ),
    (
        "units --exclude-user --exclude-kernel --exclude-guest",
        "units: all of --exclude-* together leave nothing to watch; omit one (perilune \
         units --help shows more)",
    ),
    (
        "units --exclude-user --exclude-kernel",
        "units: --exclude-user and --exclude-kernel together leave nothing to watch; omit one \
         (perilune units --help shows more)",
    ),
    ("-i 5 signal", "'-i' must follow the monitor: perilune signal -i …"),
    ("--json", "'--json' must follow the monitor: perilune MONITOR --json …"),
    ("--zzz", "no option '--zzz' (perilune --help shows the usage)"),
    ("list a b", "list: unexpected argument 'b' (perilune list --help shows the usage)"),
    ("monitors a", "monitors: unexpected argument 'a' (perilune monitors --help shows the usage)"),
    ("list -x", "list: no option '-x' (perilune list --help shows the usage)"),
    ("list -v", "list: -v needs an event, or a glob: perilune list -v 'sched:*'"),
    ("doctor all", "doctor: unexpected argument 'all' (perilune doctor --help shows the usage)"),
];

#[test]
fn invalid_arguments_are_refused_in_one_line() {
    for (words, line) in INVALID {
        let words: Vec<&str> = words.split(' ').collect();
        assert_eq!(refused(&words), format!("perilune: {line}"));
    }
}

/// Returns the error line of loading a script, which is a failure and not a usage error.
fn fails(script: &str) -> String {
    let called = call_on(Bench::with("x.lua", script), &["x.lua"]);
    assert_eq!((called.code, called.out.as_str()), (1, ""), "{}", called.err);
    assert_eq!(called.err.lines().count(), 1, "{}", called.err);
    let line = called.err.trim_end();
    line.strip_prefix("perilune: ").unwrap_or_else(|| panic!("{line}")).to_owned()
}

/// Returns the error of a script with these options, the first of which is in line 3.
fn fails_with_options(options: &str) -> String {
    fails(&format!(
        "local m = monitor {{\n  options = {{\n{options}\n}} }}\nfunction m.init() end\nreturn m\n"
    ))
}

#[test]
fn a_colliding_option_is_an_error_at_its_line() {
    for (options, line) in [
        (
            "flag { \"port\", short = \"p\" }",
            "x.lua:3: option '-p' (--port) is '--pids' of perilune; choose another letter",
        ),
        (
            "flag { \"fine\" },\nduration { \"interval\" }",
            "x.lua:4: option '--interval' belongs to perilune; choose another name",
        ),
        (
            "flag { \"than\" },\n\nflag { \"than\" }",
            "x.lua:5: option '--than' is declared twice; remove one",
        ),
        (
            "flag { \"one\", short = \"x\" },\nflag { \"two\", short = \"x\" }",
            "x.lua:4: option '-x' (--two) is used by '--one'; choose another letter",
        ),
        (
            "\"call-graph\",\nflag { \"graph\", short = \"g\" }",
            "x.lua:4: option '-g' (--graph) is used by '--call-graph'; choose another letter",
        ),
        ("flag { \"help\" }", "x.lua:3: option '--help' belongs to perilune; choose another name"),
        (
            "flag { \"Big_One\" }",
            "x.lua:3: 'Big_One' is not an option name: use at least two lower-case letters, with \
             '-' between words",
        ),
        (
            "flag { \"x\" }",
            "x.lua:3: 'x' is not an option name: use at least two lower-case letters, with '-' \
             between words",
        ),
        (
            "text { \"one\", positional = true },\ntext { \"two\", positional = true }",
            "x.lua:4: 'one' and 'two' are both positional; only one option can be",
        ),
    ] {
        assert_eq!(fails_with_options(options), line);
    }
}

#[test]
fn a_wrong_declaration_is_an_error_at_its_line() {
    for (options, line) in [
        ("text { \"filter\", hlep = \"x\" }", "x.lua:3: text has no 'hlep'; did you mean 'help'?"),
        ("text { \"filter\", unit = \"ms\" }", "x.lua:3: text has no 'unit'"),
        (
            "text { help = \"x\" }",
            "x.lua:3: text has no name; text { \"long-name\", help = \"…\" }",
        ),
        (
            "text \"filter\"",
            "x.lua:3: text takes a table, not text; text { \"long-name\", help = \"…\" }",
        ),
        ("text { \"one\", \"two\" }", "x.lua:3: text takes one name; write a text for each option"),
        ("text { \"one\", help = 5 }", "x.lua:3: help is text, not a number"),
        ("flag { \"one\", short = \"ab\" }", "x.lua:3: short is one letter, not 'ab'"),
        (
            "flag { \"one\", default = \"x\" }",
            "x.lua:3: option 'one': a flag has only short, help and load: it is off unless \
             given",
        ),
        (
            "duration { \"one\", unit = \"sec\" }",
            "x.lua:3: no unit 'sec'; ns, us, ms, s, m, h are known",
        ),
        (
            "duration { \"one\",\n default = \"5%\" }",
            "x.lua:3: option 'one': default: --one: `5%` is a percentage, not a duration; for \
             example 10ms, 1.5s or 500us",
        ),
        (
            "number { \"one\", default = 5, required = true }",
            "x.lua:3: option 'one': with a default it cannot be required; remove one",
        ),
        ("choice { \"one\" }", "x.lua:3: choice needs its values: of = { \"delay\", \"pair\" }"),
        (
            "choice { \"one\", of = { \"a\" }, default = \"b\" }",
            "x.lua:3: option 'one': default: --one: `b` is none of a",
        ),
        (
            "events { \"one\", groups = \"two\" }",
            "x.lua:3: groups is a number, \"2..\" or \"2..4\"",
        ),
        (
            "events { \"one\", attrs = { key = size } }",
            "x.lua:3: attribute 'key' must be expr, text or flag",
        ),
        ("\"call-grph\"", "x.lua:1: no shared option 'call-grph'; did you mean 'call-graph'?"),
        ("flag", "x.lua:1: an option in options needs its table: flag { \"name\" }"),
        (
            "5",
            "x.lua:1: options takes options such as flag { \"name\" } and names of shared options, \
             not a number",
        ),
        (
            "name = flag { \"one\" }",
            "x.lua:1: options is a list; write text { \"name\", … } instead of name = …",
        ),
    ] {
        assert_eq!(fails_with_options(options), line, "{options}");
    }
}

#[test]
fn a_wrong_monitor_is_an_error_at_its_line() {
    for (script, line) in [
        (
            "\n\nlocal m = monitor { sumary = \"x\" }",
            "x.lua:3: monitor has no 'sumary'; did you mean 'summary'?",
        ),
        (
            "local m = monitor { summary = \"x\", api = 2 }",
            "x.lua:1: monitor needs version 2 of the API, and this perilune has version 1; update \
             perilune",
        ),
        (
            "local m = monitor { every = \"fast\" }",
            "x.lua:1: every: `fast` is not a duration: unknown unit `fast`; use ns, us, ms, s, m \
             or h, for example 10ms, 1.5s or 500us",
        ),
        ("local m = monitor { every = 0.5 }", "x.lua:1: every: `0.5` is too short; at least 1ms"),
        (
            "local m = monitor { pages = 0 }",
            "x.lua:1: monitor's pages is a whole number from 1 to 1048576",
        ),
        (
            "local m = monitor { order = 1 }",
            "x.lua:1: monitor's order is true or false, not a number",
        ),
        (
            "local m = monitor \"x\"",
            "x.lua:1: monitor takes a table, not text; monitor { summary = \"…\" }",
        ),
        (
            "local m = monitor {}\nfunction m.intervall() end",
            "x.lua:2: no callback 'm.intervall'; did you mean 'm.interval'?",
        ),
        (
            "local m = monitor {}\nfunction m.zzz() end",
            "x.lua:2: no callback 'm.zzz'; m holds only callbacks; make it a local",
        ),
        ("local m = monitor {}\nm.init = 5", "x.lua:2: m.init is a function, not a number"),
        (
            "local m = monitor {}\nm.opt = {}",
            "x.lua:2: m.opt holds the values of the options; use another name",
        ),
        (
            "local m = monitor {}\nreturn m",
            "./x.lua: has no init; declare its events in `function m.init(opt)`",
        ),
        (
            "local m = monitor {}",
            "./x.lua: returns nothing, not a monitor; begin with `local m = monitor { … }` and end \
             with `return m`",
        ),
        (
            "return {}",
            "./x.lua: returns a table, not a monitor; begin with `local m = monitor { … }` and end \
             with `return m`",
        ),
        (
            "local m = monitor {}\nsetmetatable(m, nil)",
            "x.lua:2: cannot change a protected metatable",
        ),
    ] {
        assert_eq!(fails(script), line, "{script}");
    }
}

#[test]
fn a_usage_error_is_one_even_if_stdout_is_closed() {
    let argv = ["perilune", "signal", "--zzz"].map(Into::into);
    let mut err = Vec::new();
    assert_eq!(main_with(&argv, &mut Bench::new(), &mut ClosedPipe, &mut err), 2);
    assert!(!err.is_empty());
}

proptest! {
    #[test]
    fn no_arguments_cause_a_panic(
        words in prop::collection::vec(
            "signal|trace|units|top|who-kills|help|list|monitors|-[a-zA-Z?]{1,3}|--|-g|dwarf|\
             --call-graph|--[a-z-]{1,8}(=[0-9a-z%]{0,4})?|[0-9]{1,22}(ms|%|GB)?|\\PC{0,6}",
            0..7,
        ),
    ) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let called = call(&words);
        prop_assert!(matches!(called.code, 0..=2), "{:?}", called);
        prop_assert_eq!(called.code == 0, called.err.is_empty(), "{:?}", called);
    }
}
