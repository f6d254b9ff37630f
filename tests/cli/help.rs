//! Overview, help and lists.

use perilune::cli::main_with;

use crate::bench::{Bench, ClosedPipe, call, call_on};

#[test]
fn the_overview_groups_monitors_by_question_and_shows_first_commands() {
    let called = call(&[]);
    assert_eq!((called.code, called.err.as_str()), (0, ""));
    let text = called.out;
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part:?} in\n{text}"));
    assert!(at("Any event") < at("  trace        print events, their fields and stacks"));
    assert!(at("Processes") < at("  signal       signals generated for a task"));
    assert!(at("Yours") < at("  who-kills    who sends fatal signals"));
    assert!(at("Run ") < at("Write ") && at("Write ") < at("Explore "));
    assert!(!text.contains("Virtual machines"), "a group without monitors is not shown");
    assert_eq!(call(&["--help"]).out, text);
    assert_eq!(call(&["-?"]).out, text);
    assert_eq!(call(&["help"]).out, text);
}

#[test]
fn every_command_of_the_overview_is_accepted() {
    let text = call(&[]).out;
    let lua = text.split("a whole monitor:\n").nth(1).unwrap();
    let script = lua.split_once("         perilune ").unwrap().0;
    let mut tried = 0;
    for line in text.lines() {
        let Some((_, command)) = line.split_once(" perilune ") else { continue };
        let command = command.split("   ").next().unwrap();
        let words: Vec<&str> = command.split(' ').map(|w| w.trim_matches('\'')).collect();
        if words.contains(&"MONITOR|FILE.lua") {
            continue;
        }
        let called = call_on(Bench::with("forks.lua", script), &words);
        assert_eq!(called.code, 0, "{command}: {}", called.err);
        tried += 1;
    }
    assert_eq!(tried, 13);
}

#[test]
fn a_monitor_that_does_not_load_leaves_the_overview_whole() {
    let called = call_on(Bench::with("broken", "local m = monitor { sumary = 1 }"), &[]);
    let line =
        "broken       does not load: broken:1: monitor has no 'sumary'; did you mean 'summary'?";
    assert!(called.out.contains(line), "{}", called.out);
    assert!(called.out.contains("Explore "));
}

#[test]
fn help_shows_usage_examples_and_both_kinds_of_options() {
    let called = call(&["help", "signal"]);
    assert_eq!((called.code, called.err.as_str()), (0, ""));
    let expected = "\
signal - signals generated for a task

Signals sent, and to whom.

Usage: perilune signal [-g] [--flame-graph NAME] [--pprof FILE] [--firefox FILE] [--otlp-profiles] [--diff OLD] [--heatmap FILE] [--filter GLOB] [OPTION…] [COMMAND [ARG…]]

Examples:
  perilune signal --filter nginx -g

Monitor's options:
";
    assert!(called.out.starts_with(expected), "{}", called.out);
    let squeezed = called.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "-g, --call-graph[=<fp|dwarf[,SIZE]|lbr>] take the stack of each event",
        "--user-callchain record only the user-space frames of stacks",
        "--kernel-callchain record only the kernel frames of stacks",
        "--filter <GLOB> only signals sent to tasks whose name matches",
        "Common options:",
        "-C, --cpu <LIST> watch these CPUs only: 0-3,8",
        "-i, --interval <INT> report interval, at least 1ms; default: at the end [ms without a \
         unit]",
        "--watermark <PCT> ring fill level in percent that wakes perilune; 0: every event [default \
         50]",
        "--lua-mem <SIZE> memory limit of the script [bytes, default 256MiB]",
        "--aggregate-mem <SIZE> memory limit of all tables and pending states together [bytes, \
         default 512MiB]",
        "-h, --help print this help [alias: -?]",
        "From bundled",
    ] {
        assert!(squeezed.contains(line), "no {line:?} in\n{}", called.out);
    }
    for words in [["signal", "--help"], ["signal", "-h"], ["signal", "-?"]] {
        assert_eq!(call(&words).out, called.out);
    }
}

#[test]
fn help_prints_unit_and_default_of_an_option() {
    let text = call(&["help", "units"]).out;
    let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "--ms <TIME> [ms without a unit]",
        "--us <TIME> [us without a unit, default 20ms]",
        "--ns <TIME> [ns without a unit]",
        "--share <PCT> [%]",
        "--impl <delay|pair> [default delay]",
        "-F, --freq <HZ> samples per second; 0 takes none [default 100]",
        "-i, --interval <INT> report interval, at least 1ms; default 1s, or once for a COMMAND [ms \
         without a unit]",
    ] {
        assert!(squeezed.contains(line), "no {line:?} in\n{text}");
    }
}

#[test]
fn usage_is_one_line_and_names_what_is_required() {
    let line = "Usage: perilune trace -e EVENT,… [-e …] [--bias N] [-S] [-g] [-F HZ] [-c N] \
                [OPTION…] [COMMAND [ARG…]]\n";
    assert_eq!(call(&["trace", "--usage"]).out, line);
    let line = "Usage: perilune who-kills [-g] GLOB [OPTION…] [COMMAND [ARG…]]\n";
    assert_eq!(call(&["who-kills", "--usage"]).out, line);
}

#[test]
fn help_needs_nothing_that_a_run_needs() {
    assert_eq!(call(&["trace", "--help"]).code, 0);
    assert_eq!(call(&["who-kills", "--help"]).code, 0);
}

#[test]
fn the_version_is_the_crates() {
    assert_eq!(call(&["--version"]).out, concat!("perilune ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn monitors_lists_each_with_its_origin_in_its_group() {
    let text = call(&["monitors"]).out;
    let lines: Vec<&str> = text.lines().collect();
    let at = |line: &str| lines.iter().position(|l| *l == line);
    let headings: Vec<&str> = lines.iter().copied().filter(|l| !l.starts_with(' ')).collect();
    assert_eq!(headings, ["Any event", "Processes", "Yours"]);
    assert_eq!(lines.len(), 7 + headings.len());
    let signal = "  signal       signals generated for a task           bundled";
    assert!(at("Processes") < at(signal) && at(signal) < at("Yours"), "{text}");
    let last = "  who-kills    who sends fatal signals                /etc/perilune/who-kills.lua";
    assert_eq!(lines.last(), Some(&last));
}

#[test]
fn an_unknown_group_is_an_error_that_shows_the_nearest_or_all() {
    for (group, hint) in [
        ("disks", "; did you mean 'disk'?"),
        ("zzzz", "; there are events, cpu, memory, disk, network, locks, processes, kernel, vm"),
    ] {
        let text = format!("local m = monitor {{ group = '{group}' }}");
        let called = call_on(Bench::with("grouped", &text), &["monitors"]);
        let why = format!("does not load: grouped:1: monitor's group: no group '{group}'{hint}");
        assert!(called.out.contains(&why), "{}", called.out);
    }
}

#[test]
fn a_monitor_without_a_summary_has_its_first_sentence() {
    assert!(call(&["monitors"]).out.contains("units        Units  "));
}

#[test]
fn list_takes_a_glob_or_a_part_of_a_name() {
    let all = "\
cpu-cycles OR cycles    hardware
context-switches OR cs  software
sched:sched_switch      tracepoint
sched:sched_wakeup      tracepoint
signal:signal_generate  tracepoint
";
    assert_eq!(call(&["list"]).out, all);
    let sched = "sched:sched_switch  tracepoint\nsched:sched_wakeup  tracepoint\n";
    assert_eq!(call(&["list", "sched:*"]).out, sched);
    assert_eq!(call(&["list", "sched_"]).out, sched);
    assert_eq!(call(&["list", "c[s]"]).out, "context-switches OR cs  software\n");
    assert_eq!(call(&["list", "software"]).out, "context-switches OR cs  software\n");
    assert_eq!(call(&["list", "hw"]).out, "cpu-cycles OR cycles  hardware\n");
}

#[test]
fn list_without_a_match_names_the_nearest_and_fails() {
    let error = |pattern| {
        let called = call(&["list", pattern]);
        assert_eq!((called.code, called.out.as_str()), (1, ""));
        called.err
    };
    assert_eq!(error("shced:*"), "perilune: no event matches 'shced:*'; did you mean 'sched:*'?\n");
    assert_eq!(
        error("sched:sched_swich"),
        "perilune: no event matches 'sched:sched_swich'; did you mean 'sched:sched_switch'?\n"
    );
    assert_eq!(error("zzz"), "perilune: no event matches 'zzz' (perilune list shows all)\n");
}

#[test]
fn a_command_has_its_help_too() {
    let text = call(&["help", "list"]).out;
    assert!(text.ends_with("Usage: perilune list [-v] [--json] [GLOB]\n"), "{text}");
    assert_eq!(call(&["list", "--help"]).out, text);
}

#[test]
fn a_closed_stdout_is_success() {
    for words in [&["perilune"][..], &["perilune", "list"], &["perilune", "signal", "--help"]] {
        let argv: Vec<_> = words.iter().map(Into::into).collect();
        let mut err = Vec::new();
        let code = main_with(&argv, &mut Bench::new(), &mut ClosedPipe, &mut err);
        assert_eq!((code, err.len()), (0, 0), "{words:?}");
    }
}

/// The description of the bench's `sched_switch`, as text.
const SWITCH: &str = "\
sched:sched_switch: tracepoint 7
  TYPE           FIELD       OFFSET  SIZE  SIGN
  char[16]       prev_comm        8    16
  pid_t          prev_pid        24     4  signed
  unsigned long  prev_state      32     8  unsigned
  prev_state is any of 0x1 S, 0x2 D
  common fields:    common_type, common_pid
  in-kernel filter: sched:sched_switch/prev_pid == 1/
";

#[test]
fn help_of_events_shows_their_fields_and_an_example() {
    let called = call(&["top", "-e", "sched:sched_switch,sched:sched_wakeup", "help"]);
    assert_eq!((called.code, called.err.as_str()), (0, ""));
    let expected = format!(
        "{SWITCH}
sched:sched_wakeup: tracepoint 7
  TYPE  FIELD  OFFSET  SIZE  SIGN
  int   pid         8     4  signed
  common fields:    common_type, common_pid
  in-kernel filter: sched:sched_wakeup/pid == 1/

Begin with: perilune top -e sched:sched_switch//key=prev_pid/,sched:sched_wakeup//key=pid/
"
    );
    assert_eq!(called.out, expected);
    let command = called.out.lines().last().unwrap().split("perilune ").nth(1).unwrap();
    let words: Vec<&str> = command.split(' ').collect();
    assert!(call(&words).ran.is_some(), "the suggested command runs: {command}");
}

#[test]
fn help_of_events_does_not_check_the_requirements_of_a_run() {
    // A run needs more than one group, and the filter's field does not exist.
    let called = call(&["multi-trace", "-e", "sched:sched_switch/nothing==1/", "help"]);
    assert_eq!(
        called.out,
        format!(
            "{SWITCH}\nBegin with: perilune multi-trace -e sched:sched_switch//key=prev_pid/\n"
        )
    );
    let called = call(&["trace", "-e", "sched:*", "-e", "cs,sched:sched_switch", "help"]);
    assert_eq!(called.out.matches(SWITCH).count(), 1, "{}", called.out);
    assert!(called.out.contains("context-switches: a counter (type 1, config 0x3)\n"));
    let command =
        "Begin with: perilune trace -e 'sched:*' -e context-switches,sched:sched_switch\n";
    assert!(called.out.ends_with(command), "{}", called.out);
}

#[test]
fn help_of_events_is_json_on_request() {
    for words in [
        ["trace", "-e", "sched:sched_switch", "help", "--json"],
        ["trace", "--json", "-e", "sched:sched_switch", "help"],
    ] {
        let called = call(&words);
        let objects: Vec<serde_json::Value> =
            called.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(objects.len(), 2, "{}", called.out);
        assert_eq!(objects[0]["type"], "event_format");
        assert_eq!(objects[0]["event"], "sched:sched_switch");
        assert_eq!(objects[0]["fields"][1]["common"], true);
        let field = &objects[0]["fields"][2];
        assert_eq!((&field["name"], &field["type"]), (&"prev_comm".into(), &"char[16]".into()));
        assert_eq!((&field["offset"], &field["size"]), (&8.into(), &16.into()));
        assert_eq!(objects[0]["constants"][0]["values"], serde_json::json!([[1, "S"], [2, "D"]]));
        assert_eq!(objects[1]["command"], "perilune trace -e sched:sched_switch");
    }
}

#[test]
fn help_of_a_misspelt_event_names_the_nearest() {
    let called = call(&["trace", "-e", "sched:sched_swich", "help"]);
    assert_eq!((called.code, called.out.as_str()), (1, ""));
    assert_eq!(
        called.err,
        "perilune: no event 'sched:sched_swich'; did you mean 'sched:sched_switch'?\n"
    );
    let called = call(&["trace", "-e", "a:b/'/", "help"]);
    assert_eq!(called.code, 2);
    assert!(called.err.contains("this quote is not closed"), "{}", called.err);
}

#[test]
fn help_without_events_is_a_workload() {
    assert_eq!(crate::bench::request(&["signal", "help"]).options.workload, ["help"]);
    assert_eq!(
        crate::bench::request(&["trace", "-e", "a:b", "--", "help"]).options.workload,
        ["help"]
    );
    let words = ["trace", "-e", "a:b", "help", "me"];
    assert_eq!(crate::bench::request(&words).options.workload, ["help", "me"]);
}

#[test]
fn list_v_shows_the_fields_of_records() {
    let expected = format!(
        "{SWITCH}
Begin with: perilune trace -e sched:sched_switch
            perilune top -e sched:sched_switch//key=prev_pid/comm=prev_comm/
"
    );
    for words in [["list", "-v", "sched:sched_switch"], ["list", "sched_switch", "-v"]] {
        assert_eq!(call(&words).out, expected);
    }
    let all = call(&["list", "-v", "sched:*"]).out;
    assert!(all.starts_with(SWITCH) && all.contains("sched:sched_wakeup: tracepoint 7"), "{all}");
    assert!(!all.contains("Begin with"), "{all}");
    let json = call(&["list", "-v", "--json", "cs"]).out;
    assert!(json.contains("\"type\":\"event_format\"") && json.contains("\"config\":3"), "{json}");
}

#[test]
fn list_is_json_on_request() {
    let out = call(&["list", "--json", "cs"]).out;
    let object: serde_json::Value = serde_json::from_str(&out).unwrap();
    let expected = serde_json::json!({
        "type": "event", "event": "context-switches", "aliases": ["cs"], "category": "software"
    });
    assert_eq!(object, expected);
}

#[test]
fn the_doctor_describes_this_machine_to_every_user() {
    let called = call(&["doctor"]);
    assert!(called.code <= 1, "{}", called.err);
    assert!(called.out.starts_with("kernel "), "{}", called.out);
    let json = call(&["doctor", "--json"]);
    assert_eq!(json.code, called.code);
    assert_eq!(json.out.lines().count(), 18, "{}", json.out);
}
