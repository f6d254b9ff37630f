//! Commands and arguments as perf, bpftrace and bcc spell them: the error has the replacement.

use std::process::Command;

use crate::bench::refused;

/// Returns the messages of `perilune WORDS…`, which must fail.
fn error_of(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(words)
        .output()
        .expect("the built command runs");
    assert!(!output.status.success(), "{words:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_tool_of_bcc_is_refused_with_the_monitor_to_use() {
    for (name, hint) in [
        ("execsnoop", "; instead of bcc's: 'execs'"),
        ("execsnoop-bpfcc", "; instead of bcc's: 'execs'"),
        ("tcplife.bt", "; instead of bcc's: 'tcp --each'"),
        ("syscalls-bpfcc", "; did you mean 'syscalls'?"),
        ("no-such-tool-bpfcc", ""),
    ] {
        assert_eq!(
            refused(&[name]),
            format!(
                "perilune: no monitor or command '{name}'{hint} (perilune monitors lists them)"
            )
        );
    }
}

#[test]
fn a_rate_that_is_not_a_whole_number_is_refused_with_the_form() {
    for (words, why) in [
        (["units", "-F", "max"], "-F: `max` is not a number; write the rate: sysctl kernel.perf_"),
        (["units", "-F", "1K"], "`1K` is not a whole number of at least 0; write it without a"),
        (["trace", "-e", "cs/period=1K/"], "expected a whole number of events per sample"),
        (["trace", "-e", "cs/freq=true/"], "expected a whole number of samples per second"),
    ] {
        let line = refused(&words);
        assert!(line.contains(why), "{line}");
    }
}

#[test]
fn an_option_of_another_tool_is_refused_with_its_replacement() {
    for (words, hint) in [
        (&["stat", "-x,", "-e", "cs"][..], "'-x'; instead of perf's: '--csv'"),
        (&["stat", "--timeout", "9"], "'--timeout'; instead of perf's: '--duration TIME'"),
        (&["stat", "--per-thread"], "'--per-thread'; instead of perf's: '--perins', with '-p'"),
        (&["stat", "-D", "9"], "'-D'; instead of perf's: '--start-at TIME'"),
        (&["stat", "-G", "s2a", "-e", "cs", "true"], "'-G CGROUP': 'stat --cgroup PATH'"),
        (&["-l"], "no option '-l'; instead of bpftrace's: 'perilune list GLOB'"),
        (&["list", "-l"], "no option '-l'; instead of bpftrace's: omit it: 'list GLOB'"),
    ] {
        let error = error_of(words);
        assert!(error.contains(hint), "{words:?}: {error}");
    }
}

#[test]
fn an_event_in_place_of_another_argument_is_refused_with_the_command_to_use() {
    for (words, hint) in [
        (
            &["funccount", "./a:f*"][..],
            "funccount: '-e EVENTS' is missing; write -e 'uprobe:./a:f*'",
        ),
        (&["funccount", "vfs_*"], "'-e EVENTS' is missing; write -e 'kprobe:vfs_*'"),
        (&["funccount", "u:./a:f"], "instead of bpftrace's: 'uprobe:FILE:FUNCTION'"),
        (&["types", "sched:x"], "types: 'sched:x' is an event, not a folder: perilune list -v"),
        (&["help", "uprobe"], "'uprobe'; perilune list 'uprobe:FILE:*' lists events of this kind"),
        (&["help", "events"], "'events'; perilune list '*:*' lists events of this kind"),
        (&["sched:x"], "'sched:x'; for an event, write perilune list -v 'sched:x' or perilune"),
        (&["help", "uprobe:./none:f"], "there is no file ./none"),
        (&["list", "t:sched:*"], "'t:sched:*'; instead of bpftrace's: 'SYSTEM:EVENT', without"),
        (&["top", "-e", "cs", "-k", "a,b"], "to combine two, write printf(\"%d %s\", A, B)"),
    ] {
        let error = error_of(words);
        assert!(error.contains(hint), "{words:?}: {error}");
    }
    assert!(!std::path::Path::new("sched:x").exists());
}

#[test]
fn a_program_of_bpftrace_is_refused_with_the_form_in_lua() {
    for code in ["BEGIN { printf(\"x\"); }", "tracepoint:sched:sched_switch { @[comm] = count(); }"]
    {
        let error = error_of(&["eval", code]);
        assert!(error.contains("the code is Lua, not bpftrace: perilune eval 'probe("), "{error}");
        assert!(!error.contains("traceback") && error.lines().count() == 1, "{error}");
    }
}
