//! The request for a run: a monitor, the values of its options, and the parsed common options.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf};

use anyhow::{Context as _, Result};

use super::start_at::StartAt;
use crate::base::text::stack_style::StackStyle;
use crate::event::rate::SamplingRate;
use crate::event::sampling::{CallGraph, ChainPart, StackSampling};
use crate::output::ColourChoice;
use crate::output::format::OutputFormat;
use crate::output::otlp::OtlpUrl;
use crate::output::parquet::ParquetSettings;
use crate::script::{
    load::monitor::Monitor,
    option::value::{OptionValue, OptionValues},
};

/// Everything that a run needs.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The name or path by which the monitor was called.
    pub called: String,
    /// The monitor; loaded, not started.
    pub monitor: Monitor,
    /// The values of the monitor's own options.
    pub values: OptionValues,
    /// Long names of the monitor's options that were typed.
    pub given: Vec<String>,
    /// The common options.
    pub options: RunOptions,
    /// Warnings about how the command line was interpreted, printed once when the run begins.
    pub notes: Vec<String>,
    /// Interpretations of ambiguous values, printed once when the run begins.
    pub understood: Vec<String>,
}

/// Interval of a run whose metrics are scraped, if it has none of its own.
const SCRAPED_NS: u64 = 1_000_000_000;

/// Options of monitors that write a file at the end of a run.
const FILES: [&str; 5] = ["flame-graph", "heatmap", "pprof", "firefox", "perfetto"];

impl RunRequest {
    /// Returns the long name of the first option given that writes a file at the end of the run.
    pub fn file_at_end(&self) -> Option<&'static str> {
        FILES.into_iter().find(|name| self.is_given(name))
    }

    /// Returns whether the monitor's option with this long name was given.
    pub fn is_given(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(OptionValue::is_given)
    }

    /// Returns the report interval in nanoseconds: that of `-i`, else the monitor's own. Without
    /// `-i`, a workload gets a single report of the whole run, as with `perf stat` and `strace -c`.
    pub fn interval_ns(&self) -> Option<u64> {
        let usual = self.monitor.every_ns.filter(|_| self.options.workload.is_empty());
        let scraped = self.options.exports().then_some(SCRAPED_NS);
        self.options.interval_ns.or(usual).or(scraped)
    }

    /// Returns how stacks are taken for events that only ask for one (`stack = true`, the attribute
    /// `stack`).
    ///
    /// # Errors
    /// The value of `--call-graph` is invalid.
    pub fn stack(&self) -> Result<StackSampling> {
        let walk = match self.values.get("call-graph") {
            Some(OptionValue::Choice(text)) => CallGraph::parse(text).context("--call-graph")?,
            _ => CallGraph::default(),
        };
        Ok(StackSampling { walk, part: self.options.callchain, depth: None })
    }
    /// Returns the sampling rate of clocks and hardware events for which neither the script nor a
    /// selector sets one: `-F` and `-c`, if the monitor has them.
    pub fn rate(&self) -> Option<SamplingRate> {
        let number = |name: &str| match self.values.get(name) {
            Some(OptionValue::Number(n)) if self.monitor.has_shared(name) => Some(*n as u64),
            _ => None,
        };
        let period = number("period").map(SamplingRate::Period);
        period.or(number("freq").filter(|hz| *hz > 0).map(SamplingRate::Frequency))
    }
}

/// The common options, parsed and checked. CPUs and tasks are checked later, when they are opened.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOptions {
    /// `-C`: these CPUs, sorted, each once; `None` if not given.
    pub cpus: Option<Vec<u32>>,
    /// `-a`: all CPUs, also with a workload.
    pub all_cpus: bool,
    /// `-p`: processes, with all their threads.
    pub pids: Vec<u32>,
    /// `-t`: threads.
    pub tids: Vec<u32>,
    /// `--cgroup`: path or glob of the control groups whose tasks are watched.
    pub cgroup: Option<String>,
    /// `-i` in nanoseconds, at least a millisecond; see [`RunRequest::interval_ns`].
    pub interval_ns: Option<u64>,
    /// `-N`: the run ends after this many events; at least 1.
    pub exit_after: Option<u64>,
    /// `--duration` in nanoseconds: the run ends then; not 0.
    pub duration_ns: Option<u64>,
    /// `--start-at`: when the run begins.
    pub start_at: Option<StartAt>,
    /// `-m`: data pages per ring, a power of two; `None` for the default of the monitor, then of
    /// the host.
    pub mmap_pages: Option<u32>,
    /// `--watermark`: the fill level of a ring, 0 to 100 percent, that wakes the run; 0 wakes at
    /// every event.
    pub watermark: u8,
    /// `--budget`: limit of the cost, as a share of the CPU time of the watched CPUs.
    pub budget: Option<f64>,
    /// `--strict`: end a run that exceeds its budget.
    pub strict: bool,
    /// `--order` and `--no-order`; `None` for the monitor's default.
    pub order: Option<bool>,
    /// `--user-callchain` and `--kernel-callchain`: the part of stacks that is taken.
    pub callchain: ChainPart,
    /// The format of results.
    pub format: OutputFormat,
    /// `--parquet`: where files go.
    pub parquet: Option<ParquetSettings>,
    /// `--prometheus`: the address at which metrics are served.
    pub prometheus: Option<SocketAddr>,
    /// `--otlp`: the receiver that metrics and log records are sent to.
    pub otlp: Option<OtlpUrl>,
    /// `--series`: limit of the series of each family of metrics.
    pub series: usize,
    /// `-b`: scrolling text, even where a full screen is possible.
    pub batch: bool,
    /// `-o`: where results go instead of stdout.
    pub output: Option<PathBuf>,
    /// `--plugin`: files with printers.
    pub plugins: Vec<PathBuf>,
    /// `-v`, counted.
    pub verbose: u8,
    /// `-q`: results and errors only.
    pub quiet: bool,
    /// `--stats`.
    pub stats: bool,
    /// `--realtime`: run before all tasks without real-time priority.
    pub realtime: bool,
    /// `--self`: include the run's own events.
    pub watch_self: bool,
    /// `--total`: report the whole run again at the end.
    pub total: bool,
    /// `--lua-mem`: memory limit of the script, in bytes.
    pub lua_mem: u64,
    /// `--aggregate-mem`: memory limit of all aggregates together, in bytes.
    pub aggregate_mem: u64,
    /// `--where`: where events are counted that need no record.
    pub counting: CountingPlace,
    /// `--unsafe`: do not restrict the script.
    pub allow_unsafe: bool,
    /// `--replay`: a file of recorded events instead of the kernel.
    pub replay: Option<PathBuf>,
    /// `--lines`: show source lines and inlined functions in stacks.
    pub lines: bool,
    /// `--stack-style`: how stacks of events are printed.
    pub stack_style: StackStyle,
    /// `--color`.
    pub color: ColourChoice,
    /// The workload to start and watch: a program and its arguments; empty without one. With
    /// `cpus`, `all_cpus`, `pids` or `tids`, these are watched, and the workload only limits the
    /// run's time.
    pub workload: Vec<OsString>,
}

/// Where events are counted that need no record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountingPlace {
    /// In the kernel; the run is refused if that is not possible.
    Kernel,
    /// In user space.
    User,
    /// In the kernel if that is possible with the same results.
    #[default]
    Auto,
}

impl RunOptions {
    /// Returns whether the reports become metrics.
    pub fn exports(&self) -> bool {
        self.prometheus.is_some() || self.otlp.is_some()
    }

    /// Returns whether the measurements of each report are used: the rows beyond those printed, and
    /// distributions.
    pub fn wants_measurements(&self) -> bool {
        self.exports() || self.parquet.is_some()
    }

    /// Returns whether `-p` or `-t` selects tasks.
    pub fn selects_tasks(&self) -> bool {
        !self.pids.is_empty() || !self.tids.is_empty()
    }

    /// Returns the processes of `-p`.
    pub fn processes(&self) -> Vec<i32> {
        self.pids.iter().map(|pid| pid.cast_signed()).collect()
    }
}
