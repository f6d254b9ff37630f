//! The options that several monitors have, declared here once: a script lists them by name.

use anyhow::{Result, bail};
use indexmap::IndexMap;

use super::{Kind, OptionSpec, value::OptionValue};

/// What `--call-graph` takes, the first without a word: frame pointers, DWARF unwinding, the last branches.
const CALL_GRAPHS: [&str; 3] = ["fp", "dwarf", "lbr"];

/// All of them.
pub fn options() -> Vec<OptionSpec> {
    let flag = |long, short, help| OptionSpec { short, ..OptionSpec::new(long, Kind::Flag, help) };
    let text = |long, value: &str, help| OptionSpec {
        value_name: Some(value.to_owned()),
        ..OptionSpec::new(long, Kind::Text, help)
    };
    let call_graph = Kind::Choice {
        of: CALL_GRAPHS.map(str::to_owned).to_vec(),
        bare: Some(CALL_GRAPHS[0].to_owned()),
    };
    vec![
        OptionSpec {
            short: Some('g'),
            ..OptionSpec::new("call-graph", call_graph, "take the stack of each event")
        },
        text("flame-graph", "NAME", "write the stacks as NAME.folded and NAME.svg; implies -g"),
        flag("perins", None, "a table per instance: the CPU, with -p or -t the thread, or the key"),
        OptionSpec {
            short: Some('F'),
            value_name: Some("HZ".to_owned()),
            default: Some("100".to_owned()),
            ..OptionSpec::new("freq", Kind::Whole(0), "samples a second; 0 takes none")
        },
        flag("detail", None, "with --than: print what happened in between, too"),
        text("heatmap", "FILE", "write each latency to FILE.lat, drawn in FILE.svg"),
        flag("guest", Some('G'), "watch guests only"),
        flag("exclude-user", None, "leave user mode out"),
        flag("exclude-kernel", None, "leave the kernel out"),
        flag("exclude-guest", None, "leave guests out"),
    ]
}

/// The shared option of that name.
pub fn find(name: &str) -> Option<OptionSpec> {
    options().into_iter().find(|o| o.long == name)
}

/// Settles what shared options mean together: gives what was said by implication a value and returns a
/// line for each; refuses what contradicts itself.
pub fn settle(values: &mut IndexMap<String, OptionValue>) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let given = |values: &IndexMap<String, OptionValue>, name: &str| {
        values.get(name).is_some_and(OptionValue::is_given)
    };
    if given(values, "flame-graph") && values.get("call-graph") == Some(&OptionValue::Absent) {
        values.insert("call-graph".to_owned(), OptionValue::Choice(CALL_GRAPHS[0].to_owned()));
        notes.push("--flame-graph takes stacks: -g is implied".to_owned());
    }
    if given(values, "detail") && values.get("than") == Some(&OptionValue::Absent) {
        notes.push("--detail does nothing without --than".to_owned());
    }
    if given(values, "guest") && given(values, "exclude-guest") {
        bail!("-G and --exclude-guest together leave nothing to watch; leave one away");
    }
    let modes = ["exclude-user", "exclude-kernel", "exclude-guest"];
    if modes.iter().all(|mode| given(values, mode)) {
        bail!("all of --exclude-* together leave nothing to watch; leave one away");
    }
    Ok(notes)
}
