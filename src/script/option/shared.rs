//! The options that several monitors have, declared here once: a script lists them by name.

use anyhow::{Result, bail};
use indexmap::IndexMap;

use super::{Kind, OptionSpec, value::OptionValue};
use crate::event::sampling::Walk;

/// All of them.
pub fn options() -> Vec<OptionSpec> {
    let flag = |long, short, help| OptionSpec { short, ..OptionSpec::new(long, Kind::Flag, help) };
    let text = |long, value: &str, help| OptionSpec {
        value_name: Some(value.to_owned()),
        ..OptionSpec::new(long, Kind::Text, help)
    };
    vec![
        OptionSpec {
            short: Some('g'),
            ..OptionSpec::new(
                "call-graph",
                Kind::CallGraph,
                "take the stack of each event: by frame pointers, by unwind tables from a copy of SIZE bytes \
                 (8192), or by branch records",
            )
        },
        text("flame-graph", "NAME", "write the stacks as NAME.folded and NAME.svg; implies -g"),
        text("diff", "OLD", "draw how the flame graph differs from the one in OLD.folded"),
        flag("perins", None, "a table per instance: the CPU, with -p or -t the thread, or the key"),
        OptionSpec {
            short: Some('F'),
            value_name: Some("HZ".to_owned()),
            default: Some("100".to_owned()),
            ..OptionSpec::new("freq", Kind::Whole(0), "samples a second; 0 takes none")
        },
        OptionSpec {
            short: Some('c'),
            value_name: Some("N".to_owned()),
            ..OptionSpec::new(
                "period",
                Kind::Whole(1),
                "a sample every N events, or N nanoseconds of a clock; instead of -F",
            )
        },
        OptionSpec::new(
            "detail",
            Kind::Detail,
            "with --than: print all events in between, and those so long before and after; or only those of the \
             same CPU, process, thread or key",
        ),
        text(
            "heatmap",
            "FILE",
            "draw in FILE.svg how delays spread over time, and write each to FILE.lat; of a monitor that measures none, draw when events came",
        ),
        flag("guest", Some('G'), "watch guests only"),
        flag("exclude-user", None, "leave user mode out"),
        flag("exclude-kernel", None, "leave the kernel out"),
        flag("exclude-guest", None, "leave guests out"),
    ]
}

/// Adds `-F` and `-c` to a monitor that takes events by `-e` and has no such options: clocks and
/// hardware events need a rate. One that has an event of its own for `-e` samples it as it needs.
pub fn add_rate(options: &mut Vec<OptionSpec>) {
    let takes_events = |option: &OptionSpec| {
        let is_events = matches!(option.kind, Kind::Event { .. } | Kind::Events { .. });
        is_events && option.short == Some('e') && option.default.is_none()
    };
    if !options.iter().any(takes_events) {
        return;
    }
    let rates = [
        (
            "freq",
            'F',
            "HZ",
            "samples a second of clocks and hardware events; 100 without -F and -c",
        ),
        ("period", 'c', "N", "sample them every N events; for a clock, every N nanoseconds"),
    ];
    for (long, letter, value, help) in rates {
        if options.iter().any(|option| option.long == long) {
            continue;
        }
        options.push(OptionSpec {
            short: (!options.iter().any(|option| option.short == Some(letter))).then_some(letter),
            value_name: Some(value.to_owned()),
            ..OptionSpec::new(long, Kind::Whole(1), help)
        });
    }
}

/// The shared option of that name, and those that come with it.
pub fn find(name: &str) -> Vec<OptionSpec> {
    let with = |option: &OptionSpec| match name {
        "flame-graph" => option.long == "diff" || option.long == "heatmap",
        _ => false,
    };
    options().into_iter().filter(|option| option.long == name || with(option)).collect()
}

/// Settles what shared options mean together: gives what was said by implication a value and returns a
/// line for each; refuses what contradicts itself.
pub fn settle(values: &mut IndexMap<String, OptionValue>) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let given = |values: &IndexMap<String, OptionValue>, name: &str| {
        values.get(name).is_some_and(OptionValue::is_given)
    };
    if given(values, "flame-graph") && values.get("call-graph") == Some(&OptionValue::Absent) {
        values.insert("call-graph".to_owned(), OptionValue::Choice(Walk::default().to_string()));
    }
    if given(values, "diff") && !given(values, "flame-graph") {
        bail!("--diff is drawn as a flame graph; add --flame-graph NAME");
    }
    if given(values, "weight") && values.get("flame-graph") == Some(&OptionValue::Absent) {
        notes.push("--weight does nothing without --flame-graph".to_owned());
    }
    let only_longer = given(values, "than") || given(values, "only-than");
    if given(values, "detail") && values.contains_key("than") && !only_longer {
        notes.push("--detail does nothing without --than".to_owned());
    }
    if given(values, "guest") && given(values, "exclude-guest") {
        bail!("-G and --exclude-guest together leave nothing to watch; leave one away");
    }
    // A guest has these two modes as well, so that leaving them out leaves it out, too.
    if ["exclude-user", "exclude-kernel"].iter().all(|mode| given(values, mode)) {
        let all = if given(values, "exclude-guest") {
            "all of --exclude-*"
        } else {
            "--exclude-user and --exclude-kernel"
        };
        bail!("{all} together leave nothing to watch; leave one away");
    }
    Ok(notes)
}
