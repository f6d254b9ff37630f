//! Properties of all declarations, and parsing of options with an optional value.

use std::ffi::OsString;

use clap::Command;
use proptest::prelude::*;

use super::{OptionSpec, args, check_names, shared, value};
use crate::event::sampling::CallGraph;

#[test]
fn shared_options_have_unique_names_and_valid_defaults() {
    let options = shared::options();
    check_names(&options, &[]).unwrap();
    for option in &options {
        if let Some(default) = &option.default {
            value::parse(option, default).unwrap();
        }
        assert!(!option.help.is_empty(), "{}", option.long);
    }
    Command::new("all").args(args::to_args(&options)).debug_assert();
}

#[test]
fn a_message_about_an_option_begins_with_its_name() {
    let options = shared::options();
    let freq = options.iter().find(|option| option.long == "freq").unwrap();
    for message in ["-F: too high", "--freq: too high", "-F 0 takes none", "-F, -c: use -T"] {
        assert!(freq.is_subject_of(message), "{message}");
    }
    for message in ["-Fx: no", "--frequency: no", "use -F", "freq: no", "-c, -F: no", ""] {
        assert!(!freq.is_subject_of(message), "{message}");
    }
}

#[test]
fn a_long_name_becomes_a_lua_identifier() {
    assert_eq!(value::lua_name("call-graph"), "call_graph");
    assert_eq!(value::lua_name("end"), "end_");
    assert_eq!(value::lua_name("until"), "until_");
    assert_eq!(value::lua_name("end-time"), "end_time");
}

fn attached(arguments: &str, positional: usize) -> String {
    let mut options = shared::options();
    options.push(OptionSpec {
        short: Some('o'),
        ..OptionSpec::new("output", super::OptionKind::Text, "")
    });
    options.push(OptionSpec {
        short: Some('S'),
        ..OptionSpec::new("all", super::OptionKind::Flag, "")
    });
    let arguments = arguments.split_whitespace().map(OsString::from).collect();
    let arguments = args::attach_choices(arguments, &options, positional);
    arguments.join(" ".as_ref()).into_string().unwrap()
}

#[test]
fn only_a_valid_choice_is_attached() {
    for (arguments, expected) in [
        ("-g dwarf", "--call-graph=dwarf"),
        ("--call-graph lbr -S", "--call-graph=lbr -S"),
        ("-Sg fp ls", "-S --call-graph=fp ls"),
        ("--call-graph dwarf,16384 ls", "--call-graph=dwarf,16384 ls"),
        ("-g dwarfs", "-g dwarfs"),
        ("-g ls dwarf", "-g ls dwarf"),
        ("-g -S dwarf", "-g -S dwarf"),
        // The value of another option is not an option; an attached value is complete.
        ("-o -g dwarf", "-o -g dwarf"),
        ("-og dwarf", "-og dwarf"),
        ("--call-graph=fp dwarf", "--call-graph=fp dwarf"),
        // The arguments of a workload are left unchanged.
        ("perf record -g dwarf", "perf record -g dwarf"),
        ("-g", "-g"),
    ] {
        assert_eq!(attached(arguments, 0), expected, "{arguments}");
    }
    assert_eq!(attached("nginx -g dwarf", 1), "nginx --call-graph=dwarf");
    assert_eq!(attached("nginx ls -g dwarf", 1), "nginx ls -g dwarf");
}

proptest! {
    #[test]
    fn attaching_keeps_arguments_that_are_not_choices(
        arguments in prop::collection::vec("-g|-S|-Sg|--call-graph|-o|--|ls|[a-z-]{0,6}", 0..8),
        positional in 0usize..2,
    ) {
        let choices = |argument: &String| CallGraph::METHODS.contains(&argument.as_str());
        prop_assume!(!arguments.iter().any(choices));
        let typed: Vec<OsString> = arguments.iter().map(Into::into).collect();
        prop_assert_eq!(args::attach_choices(typed.clone(), &shared::options(), positional), typed);
    }
}
