//! What every declaration in the tree promises, and the words around an option whose word may be left out.

use std::ffi::OsString;

use clap::Command;
use proptest::prelude::*;

use super::{OptionSpec, args, check_names, shared, value};
use crate::event::sampling::Walk;

#[test]
fn shared_options_collide_with_nothing_and_their_defaults_are_values() {
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
fn a_long_name_becomes_one_that_follows_a_dot_in_lua() {
    assert_eq!(value::lua_name("call-graph"), "call_graph");
    assert_eq!(value::lua_name("end"), "end_");
    assert_eq!(value::lua_name("until"), "until_");
    assert_eq!(value::lua_name("end-time"), "end_time");
}

fn attached(words: &str, positional: usize) -> String {
    let mut options = shared::options();
    options
        .push(OptionSpec { short: Some('o'), ..OptionSpec::new("output", super::Kind::Text, "") });
    options.push(OptionSpec { short: Some('S'), ..OptionSpec::new("all", super::Kind::Flag, "") });
    let words = words.split_whitespace().map(OsString::from).collect();
    let words = args::attach_choices(words, &options, positional);
    words.join(" ".as_ref()).into_string().unwrap()
}

#[test]
fn a_choice_is_attached_only_where_it_is_one() {
    for (words, expected) in [
        ("-g dwarf", "--call-graph=dwarf"),
        ("--call-graph lbr -S", "--call-graph=lbr -S"),
        ("-Sg fp ls", "-S --call-graph=fp ls"),
        ("--call-graph dwarf,16384 ls", "--call-graph=dwarf,16384 ls"),
        ("-g dwarfs", "-g dwarfs"),
        ("-g ls dwarf", "-g ls dwarf"),
        ("-g -S dwarf", "-g -S dwarf"),
        // A value of another option is none of its words, and an attached one is complete.
        ("-o -g dwarf", "-o -g dwarf"),
        ("-og dwarf", "-og dwarf"),
        ("--call-graph=fp dwarf", "--call-graph=fp dwarf"),
        // A workload is left as it is.
        ("perf record -g dwarf", "perf record -g dwarf"),
        ("-g", "-g"),
    ] {
        assert_eq!(attached(words, 0), expected, "{words}");
    }
    assert_eq!(attached("nginx -g dwarf", 1), "nginx --call-graph=dwarf");
    assert_eq!(attached("nginx ls -g dwarf", 1), "nginx ls -g dwarf");
}

proptest! {
    #[test]
    fn attaching_keeps_every_word_that_is_no_choice(
        words in prop::collection::vec("-g|-S|-Sg|--call-graph|-o|--|ls|[a-z-]{0,6}", 0..8),
        positional in 0usize..2,
    ) {
        let choices = |word: &String| Walk::WORDS.contains(&word.as_str());
        prop_assume!(!words.iter().any(choices));
        let typed: Vec<OsString> = words.iter().map(Into::into).collect();
        prop_assert_eq!(args::attach_choices(typed.clone(), &shared::options(), positional), typed);
    }
}
