//! Options that several monitors share. A script lists them by name.

use anyhow::{Result, bail};
use indexmap::IndexMap;

use super::{OptionKind, OptionSpec, value::OptionValue};
use crate::event::sampling::CallGraph;

/// Returns all shared options.
pub fn options() -> Vec<OptionSpec> {
    let flag =
        |long, short, help| OptionSpec { short, ..OptionSpec::new(long, OptionKind::Flag, help) };
    let text = |long, value: &str, help| OptionSpec {
        value_name: Some(value.to_owned()),
        ..OptionSpec::new(long, OptionKind::Text, help)
    };
    vec![
        OptionSpec {
            short: Some('g'),
            ..OptionSpec::new(
                "call-graph",
                OptionKind::CallGraph,
                "take the stack of each event: by frame pointers, from unwind tables and a copy of \
                 SIZE bytes (8192), or from branch records",
            )
        },
        text("flame-graph", "NAME", "write the stacks as NAME.folded and NAME.svg; implies -g"),
        text("pprof", "FILE", "write the stacks as a profile for pprof; implies -g"),
        text(
            "firefox",
            "FILE",
            "write the stacks as a profile for the Firefox Profiler; implies -g",
        ),
        text(
            "perfetto",
            "FILE",
            "write the events and spans as a timeline for https://ui.perfetto.dev",
        ),
        text("database", "FILE", "keep the events in a SQLite database; -o FILE.db is the same"),
        flag(
            "otlp-profiles",
            None,
            "with --otlp, send the stacks of each interval as profiles (alpha); implies -g",
        ),
        text("diff", "OLD", "draw the difference to the flame graph OLD, read from OLD.folded"),
        flag("perins", None, "print a table per CPU, with -p or -t per thread, or per key"),
        OptionSpec {
            short: Some('F'),
            value_name: Some("HZ".to_owned()),
            default: Some("100".to_owned()),
            ..OptionSpec::new("freq", OptionKind::Whole(0), "samples per second; 0 takes none")
        },
        OptionSpec {
            short: Some('c'),
            value_name: Some("N".to_owned()),
            ..OptionSpec::new(
                "period",
                OptionKind::Whole(1),
                "sample every N events, or N nanoseconds of a clock, instead of -F",
            )
        },
        OptionSpec::new(
            "detail",
            OptionKind::Detail,
            "with --than: print all events in between, and those up to TIME before and after; \
             or only those of the same CPU, process, thread or key",
        ),
        text(
            "heatmap",
            "FILE",
            "draw the delays over time as a heat map in FILE.svg, and write each to FILE.lat; \
             for a monitor without delays, draw the times of its events",
        ),
        text("filter", "GLOBS", "only tasks with these names: nginx*,!java-debug"),
        text("device", "NAMES", "only these disks, by name or the MAJ:MIN of lsblk: vda,8:0"),
        flag("interruptible", Some('S'), "only interruptible sleep (S)"),
        flag("uninterruptible", Some('D'), "only uninterruptible sleep (D)"),
        OptionSpec::new(
            "weight",
            OptionKind::Choice { of: ["count", "time"].map(str::to_owned).into(), bare: None },
            "weight of the flame graph",
        ),
        flag("guest", Some('G'), "watch guests only"),
        flag("exclude-user", None, "exclude user mode"),
        flag("exclude-kernel", None, "exclude the kernel"),
        flag("exclude-guest", None, "exclude guests"),
    ]
}

/// Adds `-F` and `-c` to a monitor that takes events by `-e` and does not have these options,
/// because clocks and hardware events need a rate. A monitor with a default for `-e` sets its own
/// rate.
pub fn add_rate(options: &mut Vec<OptionSpec>) {
    let takes_events = |option: &OptionSpec| {
        let is_events = matches!(option.kind, OptionKind::Event { .. } | OptionKind::Events { .. });
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
            "samples per second of clocks and hardware events; 100 without -F and -c",
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
            ..OptionSpec::new(long, OptionKind::Whole(1), help)
        });
    }
}

/// The help of `--heatmap` for a monitor that has a `stack_map`.
const PAGE: &str = "; FILE.html: a page of stacks over time, with the flame graph of each range";

/// Returns the shared option with this name, and the options that come with it.
/// `flame-graph-over-time` is `flame-graph` of a monitor that has a `stack_map`.
pub fn find(name: &str) -> Vec<OptionSpec> {
    const WITH_STACKS: [&str; 6] =
        ["flame-graph", "pprof", "firefox", "otlp-profiles", "diff", "heatmap"];
    let has_page = name == "flame-graph-over-time";
    let mut found = options();
    found.retain(|option| match name {
        "flame-graph" | "flame-graph-over-time" => WITH_STACKS.contains(&option.long.as_str()),
        _ => option.long == name,
    });
    for option in found.iter_mut().filter(|option| has_page && option.long == "heatmap") {
        option.help += PAGE;
    }
    found
}

/// The value of `flame-graph` if other files of stacks imply it; no argument contains NUL.
pub const IMPLIED: &str = "\0";

/// Checks shared options against each other and sets values that others imply. Returns notes to
/// print, one per line.
///
/// # Errors
/// The options contradict each other.
pub fn check_and_imply(values: &mut IndexMap<String, OptionValue>) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let given = |values: &IndexMap<String, OptionValue>, name: &str| {
        values.get(name).is_some_and(OptionValue::is_given)
    };
    let profile = ["pprof", "firefox", "otlp-profiles"].iter().any(|option| given(values, option));
    if profile && !given(values, "flame-graph") {
        values.insert("flame-graph".to_owned(), OptionValue::Text(IMPLIED.to_owned()));
    }
    if given(values, "flame-graph") && values.get("call-graph") == Some(&OptionValue::Absent) {
        values
            .insert("call-graph".to_owned(), OptionValue::Choice(CallGraph::default().to_string()));
    }
    let drawn = values.get("flame-graph") != Some(&OptionValue::Text(IMPLIED.to_owned()));
    if given(values, "diff") && !(drawn && given(values, "flame-graph")) {
        bail!("--diff needs --flame-graph NAME");
    }
    if given(values, "weight") && values.get("flame-graph") == Some(&OptionValue::Absent) {
        notes.push("--weight does nothing without --flame-graph".to_owned());
    }
    let only_longer = given(values, "than") || given(values, "only-than");
    if given(values, "detail") && values.contains_key("than") && !only_longer {
        notes.push("--detail does nothing without --than".to_owned());
    }
    if given(values, "guest") && given(values, "exclude-guest") {
        bail!("-G and --exclude-guest together leave nothing to watch; omit one");
    }
    // Guests also run in these two modes, so excluding both excludes guests, too.
    if ["exclude-user", "exclude-kernel"].iter().all(|mode| given(values, mode)) {
        let all = if given(values, "exclude-guest") {
            "all of --exclude-*"
        } else {
            "--exclude-user and --exclude-kernel"
        };
        bail!("{all} together leave nothing to watch; omit one");
    }
    Ok(notes)
}
