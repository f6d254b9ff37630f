//! The host's own options, which every monitor has: one table, and what the values mean.

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::{
    base::{cpulist, stack_style::StackStyle, units::Unit},
    event::sampling::Part,
    run::request::{Color, HostOptions},
    script::option::{
        Kind, OptionSpec,
        value::{OptionValue, Values},
    },
};

/// The shortest interval, in nanoseconds.
pub const LEAST_INTERVAL_NS: u64 = 1_000_000;

/// Data pages of one ring at most: 4 GiB of 4 KiB pages.
pub const MOST_PAGES: u64 = 1 << 20;

/// The host's options in the order of help. `-?` beside `-h` is added where they become arguments.
pub fn options() -> Vec<OptionSpec> {
    use Kind::{Duration, Flag, List, Repeated, Size, Text, Whole};
    let color =
        || Kind::Choice { of: ["auto", "always", "never"].map(str::to_owned).to_vec(), bare: None };
    // name, letter, kind, value, default, help
    #[rustfmt::skip]
    let table = [
        ("cpu", Some('C'), List, "LIST", "", "watch these CPUs only: 0-3,8"),
        ("all-cpus", Some('a'), Flag, "", "", "watch all CPUs; a workload then is only the clock"),
        ("pids", Some('p'), List, "PID,…", "", "watch these processes"),
        ("tids", Some('t'), List, "TID,…", "", "watch these threads"),
        ("interval", Some('i'), Duration(Unit::Millisecond), "INT", "", "report this often; at least 1ms"),
        ("exit-N", Some('N'), Whole(1), "N", "", "end after N events"),
        ("duration", None, Duration(Unit::Second), "TIME", "", "end after this time"),
        ("mmap-pages", Some('m'), Whole(1), "N", "", "pages of each ring, rounded up to a power of two"),
        ("watermark", None, Whole(0), "PCT", "50", "percent of a ring that wakes the run; 0: every event"),
        ("realtime", None, Flag, "", "", "go first where others keep all CPUs busy and events are lost for it: SCHED_RR 1, for half of a CPU at most"),
        ("order", None, Flag, "", "", "put the events of all CPUs into the order of time"),
        ("no-order", None, Flag, "", "", "take the events as they come"),
        ("order-mem", None, Size, "SIZE", "", "accepted for the C tool's sake: the merge needs none"),
        ("user-callchain", None, Flag, "", "", "of each stack, take the frames of user space only"),
        ("kernel-callchain", None, Flag, "", "", "of each stack, take the frames of the kernel only"),
        ("json", None, Flag, "", "", "one JSON object a line"),
        ("plugin", None, List, "FILE,…", "", "run these files for their printers; may be given again"),
        ("events", None, Flag, "", "", "the printed events as a recording, for --replay"),
        ("batch", Some('b'), Flag, "", "", "text that scrolls, also where there could be a full screen"),
        ("output", Some('o'), Text, "FILE", "", "write results to FILE instead of stdout"),
        ("total", None, Flag, "", "", "at the end, report the whole run once more"),
        ("stats", None, Flag, "", "", "at the end, report what the run cost, and the script lines that were not compiled"),
        ("verbose", Some('v'), Repeated, "", "", "say more; -vv: every event as it is opened"),
        ("quiet", Some('q'), Flag, "", "", "results and errors only"),
        ("lines", None, Flag, "", "", "of stacks, show source lines and inlined functions; slow with large programs"),
        ("stack-style", None, Text, "LIST", "", "of stacks, print kernel,user,addr,symbol,offset,dso,reverse,frames=TEXT,stacks=TEXT"),
        ("color", None, color(), "WHEN", "auto", "colour text: auto, always or never"),
        ("no-color", None, Flag, "", "", "the same as --color never"),
        ("self", None, Flag, "", "", "also trace perilune itself (sched and interrupt events always include it)"),
        ("replay", None, Text, "FILE", "", "take the events from FILE instead of the kernel"),
        ("lua-mem", None, Size, "SIZE", "256MB", "memory that the script may use"),
        ("aggregate-mem", None, Size, "SIZE", "512MB", "memory that all tables and pending states together may use"),
        ("unsafe", None, Flag, "", "", "let the script use files, commands and memory"),
        ("help", Some('h'), Flag, "", "", "print this help"),
        ("usage", None, Flag, "", "", "print how it is called, in short"),
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

/// Whether a word as typed is one of them: `-C`, `-C0`, `--cpu=0`.
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

/// What the values mean, without a workload, and a line for each that is taken otherwise than typed.
pub fn meaning(values: &Values) -> Result<(HostOptions, Vec<String>)> {
    let mut notes = Vec::new();
    let flag = |name: &str| values.get(name) == Some(&OptionValue::Flag(true));
    let path = |name| text(values, name).map(Into::into);
    let host = HostOptions {
        cpus: text(values, "cpu").map(cpulist::parse).transpose().context("-C")?,
        all_cpus: flag("all-cpus"),
        pids: tasks(values, "pids").context("-p")?,
        tids: tasks(values, "tids").context("-t")?,
        interval_ns: interval(values).context("-i")?,
        exit_after: number(values, "exit-N"),
        duration_ns: duration(values).context("--duration")?,
        mmap_pages: pages(values, &mut notes).context("-m")?,
        watermark: watermark(values).context("--watermark")?,
        order: match (flag("order"), flag("no-order")) {
            (true, true) => bail!("--order and --no-order contradict each other; give one"),
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        },
        order_mem: number(values, "order-mem"),
        callchain: match (flag("user-callchain"), flag("kernel-callchain")) {
            (true, true) => bail!(
                "--user-callchain and --kernel-callchain leave nothing of a stack; leave both away to have both parts"
            ),
            (true, _) => Part::User,
            (_, true) => Part::Kernel,
            _ => Part::Both,
        },
        json: flag("json"),
        events: flag("events"),
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
        allow_unsafe: flag("unsafe"),
        replay: path("replay"),
        lines: flag("lines"),
        stack_style: match text(values, "stack-style") {
            Some(list) => StackStyle::parse(list).map_err(|why| anyhow!("--stack-style: {why}"))?,
            None => StackStyle::default(),
        },
        color: match text(values, "color") {
            _ if flag("no-color") => Color::Never,
            Some("always") => Color::Always,
            Some("never") => Color::Never,
            _ => Color::Auto,
        },
        workload: Vec::new(),
    };
    ensure!(
        !(host.json && host.events),
        "--json and --events are two formats of the same results; give one of them"
    );
    ensure!(
        !(host.all_cpus && host.cpus.is_some()),
        "-a watches all CPUs and -C only some; give one of them"
    );
    Ok((host, notes))
}

/// Refuses what a replay cannot do; `host` with its workload.
pub fn check_replay(host: &HostOptions) -> Result<()> {
    if host.replay.is_none() {
        return Ok(());
    }
    let live = [
        ("a workload", !host.workload.is_empty()),
        ("-a", host.all_cpus),
        ("-m", host.mmap_pages.is_some()),
    ];
    for (what, given) in live {
        ensure!(!given, "{what} means nothing to --replay, which reads a file; leave it away");
    }
    Ok(())
}

fn text<'a>(values: &'a Values, name: &str) -> Option<&'a str> {
    match values.get(name) {
        Some(OptionValue::Text(text) | OptionValue::Choice(text)) => Some(text),
        _ => None,
    }
}

/// The value of an option that counts something: bytes, nanoseconds, times.
fn number(values: &Values, name: &str) -> Option<u64> {
    match values.get(name) {
        Some(OptionValue::Number(n)) => Some(*n as u64),
        Some(OptionValue::Count(n) | OptionValue::DurationNs(n) | OptionValue::Bytes(n)) => {
            Some(*n)
        }
        _ => None,
    }
}

/// Process or thread numbers, each once, as typed.
fn tasks(values: &Values, name: &str) -> Result<Vec<u32>> {
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
            _ => bail!("`{word}` is not the number of a task; for example 1234,1240"),
        }
    }
    Ok(tasks)
}

fn interval(values: &Values) -> Result<Option<u64>> {
    let ns = number(values, "interval");
    ensure!(
        ns.is_none_or(|ns| ns >= LEAST_INTERVAL_NS),
        "the shortest interval is 1ms; a number without a unit counts milliseconds"
    );
    Ok(ns)
}

fn duration(values: &Values) -> Result<Option<u64>> {
    let ns = number(values, "duration");
    ensure!(ns != Some(0), "a run of no time sees nothing; leave it away to run until Ctrl-C");
    Ok(ns)
}

fn pages(values: &Values, notes: &mut Vec<String>) -> Result<Option<u32>> {
    let Some(asked) = number(values, "mmap-pages") else { return Ok(None) };
    ensure!(asked <= MOST_PAGES, "{asked} pages are too many for a ring; at most {MOST_PAGES}");
    let pages = asked.next_power_of_two();
    if pages != asked {
        notes.push(format!("-m {asked}: a ring has a power of two of pages; taking {pages}"));
    }
    Ok(u32::try_from(pages).ok())
}

fn watermark(values: &Values) -> Result<u8> {
    let percent = number(values, "watermark").unwrap_or_default();
    ensure!(percent <= 100, "{percent} is more than a whole ring; 0 to 100");
    Ok(percent as u8)
}
