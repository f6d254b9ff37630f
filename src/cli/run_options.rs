//! The options that every monitor has: one table, and how their values are
//! interpreted.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::{
    base::{
        text::cpulist,
        text::stack_style::StackStyle,
        text::units::{Unit, parse_duration_with_unit, parse_size},
    },
    event::sampling::ChainPart,
    output::ColourChoice,
    output::format::OutputFormat,
    output::metrics::SERIES,
    output::otlp::OtlpUrl,
    output::parquet::{FILE_AGE, FILE_BYTES, ParquetSettings},
    run::request::{CountingPlace, RunOptions},
    run::start_at::StartAt,
    script::option::{
        OptionKind, OptionSpec,
        value::{OptionValue, OptionValues},
    },
    sys::machine::host_name,
};

/// Shortest report interval, in nanoseconds.
pub const LEAST_INTERVAL_NS: u64 = 1_000_000;

/// Largest number of data pages of a ring: 4 GiB with 4 KiB pages.
pub const MOST_PAGES: u64 = 1 << 20;

/// Returns the common options in help order. `-?` is added to `-h` where they become arguments.
pub fn options() -> Vec<OptionSpec> {
    use OptionKind::{Duration, Flag, List, Repeated, Size, Text, Whole};
    let color = || OptionKind::Choice {
        of: ["auto", "always", "never"].map(str::to_owned).to_vec(),
        bare: None,
    };
    let place = || OptionKind::Choice {
        of: ["kernel", "user", "auto"].map(str::to_owned).to_vec(),
        bare: None,
    };
    // Columns: name, letter, kind, value, default, help.
    #[rustfmt::skip]
    let table = [
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
            "limit the cost to PCT percent of the CPUs: record 1 in N events, and estimate"),
        ("strict", None, Flag, "", "", "end a run that exceeds --budget, instead of estimating"),
        ("order", None, Flag, "", "", "deliver the events of all CPUs in time order"),
        ("no-order", None, Flag, "", "", "deliver the events as they arrive"),
        ("user-callchain", None, Flag, "", "", "record only the user-space frames of stacks"),
        ("kernel-callchain", None, Flag, "", "",
            "record only the kernel frames of stacks"),
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
        ("color", None, color(), "WHEN", "auto", "colour text: auto, always or never"),
        ("no-color", None, Flag, "", "", "same as --color never"),
        ("self", None, Flag, "", "",
            "also trace perilune itself (sched and interrupt events always include it)"),
        ("replay", None, Text, "FILE", "", "read the events from FILE instead of the kernel"),
        ("lua-mem", None, Size, "SIZE", "256MiB", "memory limit of the script"),
        ("where", None, place(), "PLACE", "user",
            "where to count events that need no record: kernel, user or auto"),
        ("aggregate-mem", None, Size, "SIZE", "512MiB",
            "memory limit of all tables and pending states together"),
        ("unsafe", None, Flag, "", "", "let the script use files, commands and memory"),
        ("help", Some('h'), Flag, "", "", "print this help"),
        ("usage", None, Flag, "", "", "print the usage line"),
    ];
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let row = |(long, short, kind, value, default, help)| OptionSpec {
        short,
        value_name: given(value),
        default: given(default),
        ..OptionSpec::new(long, kind, help)
    };
    table.map(row).into()
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

/// Interprets the values, without a workload. Also returns a note for each value that was adjusted.
///
/// # Errors
/// A value is invalid, or two options contradict each other.
pub fn meaning(values: &OptionValues) -> Result<(RunOptions, Vec<String>)> {
    let mut notes = Vec::new();
    let flag = |name: &str| values.get(name) == Some(&OptionValue::Flag(true));
    let given = |name: &str| values.get(name).is_some_and(OptionValue::is_given);
    let path = |name| text(values, name).map(Into::into);
    let common = RunOptions {
        cpus: text(values, "cpu").map(cpulist::parse).transpose().context("-C")?,
        all_cpus: flag("all-cpus"),
        pids: tasks(values, "pids").context("-p")?,
        tids: tasks(values, "tids").context("-t")?,
        cgroup: text(values, "cgroup").map(str::to_owned),
        interval_ns: interval(values).context("-i")?,
        exit_after: number(values, "exit-N"),
        duration_ns: duration(values).context("--duration")?,
        start_at: text(values, "start-at").map(StartAt::parse).transpose().context("--start-at")?,
        mmap_pages: pages(values, &mut notes).context("-m")?,
        watermark: watermark(values).context("--watermark")?,
        budget: text(values, "budget").map(share).transpose()?,
        strict: flag("strict"),
        order: match (flag("order"), flag("no-order")) {
            (true, true) => bail!("--order and --no-order contradict each other; give one"),
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        },
        callchain: match (flag("user-callchain"), flag("kernel-callchain")) {
            (true, true) => bail!(
                "--user-callchain and --kernel-callchain exclude each other; omit both to record \
                 whole stacks"
            ),
            (true, _) => ChainPart::User,
            (_, true) => ChainPart::Kernel,
            _ => ChainPart::Both,
        },
        parquet: parquet(values)?,
        prometheus: text(values, "prometheus").map(scrape_address).transpose()?,
        otlp: text(values, "otlp").map(OtlpUrl::parse).transpose().context("--otlp")?,
        series: number(values, "series").unwrap_or(SERIES as u64) as usize,
        batch: flag("batch"),
        output: path("output"),
        plugins: text(values, "plugin")
            .map_or_else(Vec::new, |t| t.split(',').map(Into::into).collect()),
        verbose: number(values, "verbose").unwrap_or(0).min(u8::MAX.into()) as u8,
        quiet: flag("quiet"),
        stats: flag("stats"),
        realtime: flag("realtime"),
        watch_self: flag("self"),
        total: flag("total"),
        lua_mem: number(values, "lua-mem").unwrap_or_default(),
        aggregate_mem: number(values, "aggregate-mem").unwrap_or_default(),
        counting: match text(values, "where") {
            Some("kernel") => CountingPlace::Kernel,
            Some("auto") => CountingPlace::Auto,
            _ => CountingPlace::User,
        },
        allow_unsafe: flag("unsafe"),
        replay: path("replay"),
        lines: flag("lines"),
        stack_style: match text(values, "stack-style") {
            Some(list) => StackStyle::parse(list).map_err(|why| anyhow!("--stack-style: {why}"))?,
            None => StackStyle::default(),
        },
        color: match text(values, "color") {
            _ if flag("no-color") => ColourChoice::Never,
            Some("always") => ColourChoice::Always,
            Some("never") => ColourChoice::Never,
            _ => ColourChoice::Auto,
        },
        workload: Vec::new(),
        // Last: a wrong value is reported before a contradiction.
        format: OutputFormat::selected(given).map_err(|[one, other]| {
            anyhow!("--{one} and --{other} are two formats of the same results; give one of them")
        })?,
    };
    ensure!(
        !(common.all_cpus && common.cpus.is_some()),
        "-a watches all CPUs and -C only some; give one of them"
    );
    ensure!(
        common.cgroup.is_none() || common.pids.is_empty() && common.tids.is_empty(),
        "--cgroup already selects the tasks; omit -p and -t"
    );
    ensure!(
        common.parquet.is_none() || common.output.is_none() && !common.total,
        "--parquet writes files of its own, each row once; omit -o and --total"
    );
    ensure!(
        common.budget.is_some() || !common.strict,
        "--strict ends a run that exceeds its budget; add --budget, such as --budget 1%"
    );
    Ok((common, notes))
}

/// Refuses options that do not work with a replay; `common` includes the workload.
///
/// # Errors
/// Such an option was given.
pub fn check_replay(common: &RunOptions) -> Result<()> {
    if common.replay.is_none() {
        return Ok(());
    }
    let live = [
        ("a workload", !common.workload.is_empty()),
        ("-a", common.all_cpus),
        ("-m", common.mmap_pages.is_some()),
        ("--cgroup", common.cgroup.is_some()),
        ("--prometheus", common.prometheus.is_some()),
        ("--otlp", common.otlp.is_some()),
        ("--start-at", common.start_at.is_some()),
        ("--budget", common.budget.is_some()),
    ];
    for (what, given) in live {
        ensure!(!given, "{what} cannot be combined with --replay, which reads a file; omit it");
    }
    Ok(())
}

/// Returns the settings of `--parquet` and `--rotate`. `$PERILUNE_HOST` replaces the name of this
/// machine.
///
/// # Errors
/// A value is invalid.
fn parquet(values: &OptionValues) -> Result<Option<ParquetSettings>> {
    let rotate = text(values, "rotate");
    let Some(folder) = text(values, "parquet") else {
        ensure!(rotate.is_none(), "--rotate finishes the files of --parquet; give a folder, too");
        return Ok(None);
    };
    let host = std::env::var("PERILUNE_HOST").ok().filter(|name| !name.is_empty());
    let mut settings = ParquetSettings {
        folder: folder.into(),
        host: host.unwrap_or_else(host_name),
        size: FILE_BYTES,
        age: FILE_AGE,
    };
    for part in rotate.into_iter().flat_map(|list| list.split(',')) {
        match (parse_duration_with_unit(part), parse_size(part)) {
            (Ok(ns), _) if ns > 0 => settings.age = Duration::from_nanos(ns),
            (_, Ok(bytes)) if bytes > 0 => settings.size = bytes,
            _ => bail!("--rotate: `{part}` is neither a size nor a time; for example 64MiB,60s"),
        }
    }
    Ok(Some(settings))
}

/// Parses `[ADDR:]PORT`.
///
/// # Errors
/// The address or the port is invalid.
fn scrape_address(text: &str) -> Result<SocketAddr> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| {
        anyhow!(
            "--prometheus: `{text}` is not [ADDR:]PORT; for example 9464, 0.0.0.0:9464 or [::1]:9464"
        )
    })
}

/// Parses `1%` or `0.5`: a percentage, returned as a share.
///
/// # Errors
/// It is not a number from 0.01 to 100.
fn share(text: &str) -> Result<f64> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(percent) if (0.01..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => bail!("--budget: `{text}` is not a percentage from 0.01 to 100, such as 1%"),
    }
}

fn text<'a>(values: &'a OptionValues, name: &str) -> Option<&'a str> {
    match values.get(name) {
        Some(OptionValue::Text(text) | OptionValue::Choice(text)) => Some(text),
        _ => None,
    }
}

/// Returns the value of a numeric option: bytes, nanoseconds, counts.
fn number(values: &OptionValues, name: &str) -> Option<u64> {
    match values.get(name) {
        Some(OptionValue::Number(n)) => Some(*n as u64),
        Some(OptionValue::Count(n) | OptionValue::DurationNs(n) | OptionValue::Bytes(n)) => {
            Some(*n)
        }
        _ => None,
    }
}

/// Returns process or thread numbers in the order given, without duplicates.
fn tasks(values: &OptionValues, name: &str) -> Result<Vec<u32>> {
    let Some(list) = text(values, name) else { return Ok(Vec::new()) };
    let mut tasks = Vec::new();
    for word in list.split(',').map(str::trim) {
        match word.parse::<i32>() {
            Ok(id) if id > 0 => {
                let id = id.unsigned_abs();
                if !tasks.contains(&id) {
                    tasks.push(id);
                }
            }
            _ if word.is_empty() => bail!("`{list}`: a number is missing; for example 1234,1240"),
            _ => bail!("`{word}` is not a PID or TID; for example 1234,1240"),
        }
    }
    Ok(tasks)
}

fn interval(values: &OptionValues) -> Result<Option<u64>> {
    let ns = number(values, "interval");
    ensure!(
        ns.is_none_or(|ns| ns >= LEAST_INTERVAL_NS),
        "the shortest interval is 1ms; a number without a unit counts milliseconds"
    );
    Ok(ns)
}

fn duration(values: &OptionValues) -> Result<Option<u64>> {
    let ns = number(values, "duration");
    ensure!(ns != Some(0), "must be greater than 0; omit it to run until Ctrl-C");
    Ok(ns)
}

fn pages(values: &OptionValues, notes: &mut Vec<String>) -> Result<Option<u32>> {
    let Some(asked) = number(values, "mmap-pages") else { return Ok(None) };
    ensure!(asked <= MOST_PAGES, "{asked} pages are too many for a ring; at most {MOST_PAGES}");
    let pages = asked.next_power_of_two();
    if pages != asked {
        notes
            .push(format!("-m {asked}: the pages of a ring must be a power of two; using {pages}"));
    }
    Ok(u32::try_from(pages).ok())
}

fn watermark(values: &OptionValues) -> Result<u8> {
    let percent = number(values, "watermark").unwrap_or_default();
    ensure!(percent <= 100, "{percent} is out of range; expected 0 to 100");
    Ok(percent as u8)
}
