//! Where the options end and the command begins.

use std::ffi::OsString;

use perilune::{output::format::OutputFormat, script::option::value::OptionValue};

use crate::bench::{refused, request};

fn workload(words: &[&str]) -> Vec<OsString> {
    request(words).options.workload
}

#[test]
fn the_first_positional_argument_begins_the_workload() {
    assert_eq!(workload(&["syscalls", "ls", "-l"]), ["ls", "-l"]);
    assert_eq!(workload(&["syscalls", "-i", "100", "ls", "-i", "x"]), ["ls", "-i", "x"]);
    assert_eq!(
        workload(&["syscalls", "ls", "--json", "--help", "--zzz"]),
        ["ls", "--json", "--help", "--zzz"]
    );
    assert_eq!(request(&["syscalls", "ls", "--json"]).options.format, OutputFormat::Text);
}

#[test]
fn arguments_after_two_dashes_are_the_workload() {
    assert_eq!(workload(&["syscalls", "--", "ls", "-l"]), ["ls", "-l"]);
    assert_eq!(workload(&["syscalls", "--json", "--", "-odd"]), ["-odd"]);
    assert_eq!(request(&["syscalls", "--json", "--", "-odd"]).options.format, OutputFormat::Json);
    assert_eq!(
        workload(&["syscalls", "sh", "-c", "echo $1", "--", "x"]),
        ["sh", "-c", "echo $1", "--", "x"]
    );
    assert_eq!(workload(&["syscalls", "--", "sh", "--", "x"]), ["sh", "--", "x"]);
}

#[test]
fn a_positional_option_is_taken_before_the_workload() {
    for words in [
        &["who-kills", "nginx", "ls", "-l"][..],
        &["who-kills", "nginx", "--", "ls", "-l"],
        &["who-kills", "nginx", "-v", "ls", "-l"],
    ] {
        let request = request(words);
        assert_eq!(request.values["name"], OptionValue::Text("nginx".into()), "{words:?}");
        assert_eq!(request.options.workload, ["ls", "-l"], "{words:?}");
    }
    assert!(workload(&["who-kills", "nginx"]).is_empty());
}

#[test]
fn two_dashes_do_not_feed_a_positional_option() {
    let line = refused(&["who-kills", "--", "nginx"]);
    assert_eq!(
        line,
        "perilune: who-kills: 'GLOB' is missing (perilune who-kills --help shows more)"
    );
}

#[test]
fn two_dashes_without_a_command_are_refused() {
    let line = refused(&["syscalls", "--"]);
    assert_eq!(
        line,
        "perilune: syscalls: no command after '--' (perilune syscalls --help shows more)"
    );
}

#[test]
fn a_replay_has_no_workload() {
    let line = refused(&["syscalls", "--replay", "x.events", "ls"]);
    assert!(line.contains("a workload cannot be combined with --replay"), "{line}");
}
