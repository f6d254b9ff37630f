//! Interprets the values of the common options, and refuses those that contradict each other.

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::values::{
    duration, interval, number, pages, parquet, scrape_address, share, tasks, text, watermark,
};
use crate::base::text::cpulist;
use crate::base::text::stack_style::StackStyle;
use crate::event::sampling::ChainPart;
use crate::output::ColourChoice;
use crate::output::format::OutputFormat;
use crate::output::metrics::SERIES;
use crate::output::otlp::OtlpUrl;
use crate::run::request::{CountingPlace, RunOptions};
use crate::run::start_at::StartAt;
use crate::script::option::value::{OptionValue, OptionValues};

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
        order: order(flag("order"), flag("no-order"))?,
        callchain: callchain(flag("user-callchain"), flag("kernel-callchain"))?,
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
            Some("user") => CountingPlace::User,
            _ => CountingPlace::Auto,
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
    check_contradictions(&common)?;
    Ok((common, notes))
}

/// Refuses options that contradict each other.
fn check_contradictions(common: &RunOptions) -> Result<()> {
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
    Ok(())
}

/// Returns whether events are delivered in order of time; None for the choice of the monitor.
fn order(on: bool, off: bool) -> Result<Option<bool>> {
    match (on, off) {
        (true, true) => bail!("--order and --no-order contradict each other; give one"),
        (true, _) => Ok(Some(true)),
        (_, true) => Ok(Some(false)),
        _ => Ok(None),
    }
}

/// Returns the part of stacks that is recorded.
fn callchain(user: bool, kernel: bool) -> Result<ChainPart> {
    match (user, kernel) {
        (true, true) => bail!(
            "--user-callchain and --kernel-callchain exclude each other; omit both to record whole \
             stacks"
        ),
        (true, _) => Ok(ChainPart::User),
        (_, true) => Ok(ChainPart::Kernel),
        _ => Ok(ChainPart::Both),
    }
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
