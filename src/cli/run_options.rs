//! The options that every monitor has: one table. [`meaning`] interprets their values.

mod meaning;
mod values;

use crate::base::text::units::Unit;
use crate::script::option::OptionKind::{self, Duration, Flag, List, Repeated, Size, Text, Whole};
use crate::script::option::OptionSpec;
pub use meaning::{check_replay, meaning};

/// Shortest report interval, in nanoseconds.
pub const LEAST_INTERVAL_NS: u64 = 1_000_000;

/// Largest number of data pages of a ring: 4 GiB with 4 KiB pages.
pub const MOST_PAGES: u64 = 1 << 20;

/// Returns the common options in help order. `-?` is added to `-h` where they become arguments.
pub fn options() -> Vec<OptionSpec> {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let spec = |(long, short, kind, value, default, help)| OptionSpec {
        short,
        value_name: given(value),
        default: given(default),
        ..OptionSpec::new(long, kind, help)
    };
    watching().into_iter().chain(results()).map(spec).collect()
}

/// A common option: name, letter, kind, name of its value, default, help.
type OptionRow = (&'static str, Option<char>, OptionKind, &'static str, &'static str, &'static str);

/// Returns the options of what is watched, and how.
#[rustfmt::skip]
fn watching() -> Vec<OptionRow> {
    vec![
        ("cpu", Some('C'), List, "LIST", "", "watch these CPUs only: 0-3,8"),
        ("all-cpus", Some('a'), Flag, "", "", "watch all CPUs; a workload only sets the duration"),
        ("pids", Some('p'), List, "PID,…", "", "watch these processes"),
        ("tids", Some('t'), List, "TID,…", "", "watch these threads"),
        ("cgroup", None, Text, "PATH", "",
            "watch the tasks of this cgroup; a glob such as '/docker/*' watches several"),
        ("interval", Some('i'), Duration(Unit::Millisecond), "INT", "",
            "report interval, at least 1ms"),
        ("exit-N", Some('N'), Whole(1), "N", "", "end after N events"),
        ("duration", None, Duration(Unit::Second), "TIME", "", "end after this time"),
        ("start-at", None, Text, "TIME", "",
            "start at this time: the next multiple of 10 s (/10s), 14:30:00, or RFC 3339"),
        ("mmap-pages", Some('m'), Whole(1), "N", "",
            "pages of each ring, rounded up to a power of two"),
        ("watermark", None, Whole(0), "PCT", "50",
            "ring fill level in percent that wakes perilune; 0: every event"),
        ("realtime", None, Flag, "", "",
            "run at SCHED_RR priority 1 (at most 50 % of a CPU) to lose fewer events on a busy \
             machine"),
        ("budget", None, Text, "PCT", "",
            "limit the cost to PCT percent of the CPUs: record a part of the events, and estimate"),
        ("strict", None, Flag, "", "", "end a run that exceeds --budget, instead of estimating"),
        ("order", None, Flag, "", "", "deliver the events of all CPUs in time order"),
        ("no-order", None, Flag, "", "", "deliver the events as they arrive"),
        ("user-callchain", None, Flag, "", "", "record only the user-space frames of stacks"),
        ("kernel-callchain", None, Flag, "", "",
            "record only the kernel frames of stacks"),
    ]
}

/// Returns the options of results, and of the run itself.
#[rustfmt::skip]
fn results() -> Vec<OptionRow> {
    vec![
        ("json", None, Flag, "", "", "print one JSON object per line"),
        ("csv", None, Flag, "", "", "print comma-separated values under one header"),
        ("parquet", None, Text, "DIR", "",
            "write events and rows as Parquet files below DIR instead of printing them"),
        ("rotate", None, List, "SIZE,TIME", "",
            "finish each file of --parquet at this size or age; the default is 64MiB,60s"),
        ("prometheus", None, Text, "[ADDR:]PORT", "",
            "serve the reports as metrics at http://ADDR:PORT/metrics; ADDR is 127.0.0.1 by \
             default"),
        ("otlp", None, Text, "URL", "",
            "send the reports as metrics, and events and alerts as logs, to this receiver of \
             OpenTelemetry: http://127.0.0.1:4318"),
        ("series", None, Whole(2), "N", "1000", "limit of the series of each metric"),
        ("plugin", None, List, "FILE,…", "",
            "load printers from these files; may be repeated"),
        ("events", None, Flag, "", "", "print the events as a recording for --replay"),
        ("batch", Some('b'), Flag, "", "",
            "print scrolling text, even if a full screen is possible"),
        ("output", Some('o'), Text, "FILE", "", "write results to FILE instead of stdout"),
        ("total", None, Flag, "", "", "also report the whole run at its end"),
        ("stats", None, Flag, "", "",
            "report overhead and uncompiled script lines at the end"),
        ("verbose", Some('v'), Repeated, "", "",
            "print more notes; -vv: also every event as it is opened"),
        ("quiet", Some('q'), Flag, "", "", "print only results and errors"),
        ("lines", None, Flag, "", "",
            "show source lines and inlined functions in stacks; slow for large programs"),
        ("stack-style", None, Text, "LIST", "",
            "print in stacks: kernel,user,addr,symbol,offset,dso,reverse,frames=TEXT,stacks=TEXT"),
        ("color", None, one_of(["auto", "always", "never"]), "WHEN", "auto",
            "colour text: auto, always or never"),
        ("no-color", None, Flag, "", "", "same as --color never"),
        ("self", None, Flag, "", "",
            "also trace perilune itself (sched and interrupt events always include it)"),
        ("replay", None, Text, "FILE", "", "read the events from FILE instead of the kernel"),
        ("lua-mem", None, Size, "SIZE", "256MiB", "memory limit of the script"),
        ("where", None, one_of(["auto", "kernel", "user"]), "PLACE", "auto",
            "where to count events that need no record: kernel, user or auto"),
        ("aggregate-mem", None, Size, "SIZE", "512MiB",
            "memory limit of all tables and pending states together"),
        ("unsafe", None, Flag, "", "", "let the script use files, commands and memory"),
        ("help", Some('h'), Flag, "", "", "print this help"),
        ("usage", None, Flag, "", "", "print the usage line"),
    ]
}

/// Returns the kind of an option with these values.
fn one_of(values: [&str; 3]) -> OptionKind {
    OptionKind::Choice { of: values.map(str::to_owned).to_vec(), bare: None }
}

/// Options that a monitor may have itself, with a meaning of its own: `stat` prints a row for each
/// cgroup.
const OWN: [&str; 1] = ["cgroup"];

/// Returns the common options whose names no monitor may use.
pub fn reserved() -> Vec<OptionSpec> {
    options().into_iter().filter(|option| !OWN.contains(&option.long.as_str())).collect()
}

/// Returns the common options beside those of a monitor.
pub fn options_beside(own: &[OptionSpec]) -> Vec<OptionSpec> {
    let is_own = |option: &OptionSpec| own.iter().any(|one| one.long == option.long);
    options().into_iter().filter(|option| !is_own(option)).collect()
}

/// Returns whether an argument is a common option: `-C`, `-C0`, `--cpu=0`.
pub fn is_option(word: &str) -> bool {
    let options = options();
    match word.strip_prefix("--") {
        Some(long) => {
            let name = long.split('=').next().unwrap_or_default();
            options.iter().any(|o| o.long == name)
        }
        None => {
            let letter = word.chars().nth(1);
            options.iter().any(|o| o.short.is_some() && o.short == letter)
        }
    }
}
