//! What a run is asked to do: a monitor, the values of its options, and the host's options with their meaning.

use std::{ffi::OsString, path::PathBuf};

use anyhow::{Context as _, Result};

use crate::base::stack_style::StackStyle;
use crate::event::rate::Rate;
use crate::event::sampling::{Part, Stack, Walk};
use crate::script::{
    monitor::Monitor,
    option::value::{OptionValue, Values},
};

/// Everything that a run needs to know.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The name or path that it was called by.
    pub called: String,
    /// What to run; loaded, not started.
    pub monitor: Monitor,
    /// The values of the monitor's own options.
    pub values: Values,
    /// The host's options.
    pub host: HostOptions,
    /// What the command line was taken to mean beyond what it says; to be said once, when the run begins.
    pub notes: Vec<String>,
    /// What was understood of values that leave something open; likewise, but nothing to warn of.
    pub understood: Vec<String>,
}

impl RunRequest {
    /// How often the run reports, in nanoseconds: as `-i` says, else as the monitor does. Of a command it then tells the whole,
    /// once, as `perf stat` and `strace -c` do.
    pub fn interval_ns(&self) -> Option<u64> {
        let usual = self.monitor.every_ns.filter(|_| self.host.workload.is_empty());
        self.host.interval_ns.or(usual)
    }

    /// How stacks are taken where an event does not say it: `stack = true`, the attribute `stack`.
    pub fn stack(&self) -> Result<Stack> {
        let walk = match self.values.get("call-graph") {
            Some(OptionValue::Choice(text)) => Walk::parse(text).context("--call-graph")?,
            _ => Walk::default(),
        };
        Ok(Stack { walk, part: self.host.callchain, depth: None })
    }
    /// How often clocks and hardware events are sampled where neither the script nor a selector
    /// says it: `-F` and `-c`, if the monitor has them.
    pub fn rate(&self) -> Option<Rate> {
        let number = |name: &str| match self.values.get(name) {
            Some(OptionValue::Number(n)) if self.monitor.has_shared(name) => Some(*n as u64),
            _ => None,
        };
        let period = number("period").map(Rate::Period);
        period.or(number("freq").filter(|hz| *hz > 0).map(Rate::Frequency))
    }
}

/// The host's options, parsed and checked. Whether CPUs and tasks exist is seen when they are opened.
#[derive(Clone, Debug, PartialEq)]
pub struct HostOptions {
    /// `-C`: these CPUs, sorted, each once; none was not given.
    pub cpus: Option<Vec<u32>>,
    /// `-a`: all CPUs, also with a workload.
    pub all_cpus: bool,
    /// `-p`: processes, with all their threads.
    pub pids: Vec<u32>,
    /// `-t`: threads.
    pub tids: Vec<u32>,
    /// `-i` in nanoseconds, at least a millisecond; see [`RunRequest::interval_ns`].
    pub interval_ns: Option<u64>,
    /// `-N`: the run ends after this many events; at least 1.
    pub exit_after: Option<u64>,
    /// `--duration` in nanoseconds: the run ends then; not 0.
    pub duration_ns: Option<u64>,
    /// `-m`: data pages per ring, a power of two; none leaves it to the monitor, then to the host.
    pub mmap_pages: Option<u32>,
    /// `--watermark`: the percent of a ring, 0 to 100, that wakes the run; 0 wakes at every event.
    pub watermark: u8,
    /// `--order` and `--no-order`; none leaves it to the monitor.
    pub order: Option<bool>,
    /// `--order-mem`: bytes that ordering may use; none leaves it to the host.
    pub order_mem: Option<u64>,
    /// `--user-callchain` and `--kernel-callchain`: what is wanted of stacks.
    pub callchain: Part,
    /// `--json`.
    pub json: bool,
    /// `--events`: results as a recording that `--replay` reads.
    pub events: bool,
    /// `-b`: text that scrolls, also where a full screen could be.
    pub batch: bool,
    /// `-o`: where results go instead of stdout.
    pub output: Option<PathBuf>,
    /// `--plugin`: files of printers.
    pub plugins: Vec<PathBuf>,
    /// `-v`, counted.
    pub verbose: u8,
    /// `-q`: results and errors only.
    pub quiet: bool,
    /// `--stats`.
    pub stats: bool,
    /// `--realtime`: go in front of all that have no real-time priority.
    pub realtime: bool,
    /// `--self`: the run's own events count, too.
    pub watch_self: bool,
    /// `--total`: the whole run again at the end.
    pub total: bool,
    /// `--lua-mem`: bytes that the script may use.
    pub lua_mem: u64,
    /// `--aggregate-mem`: bytes that all aggregates together may use.
    pub aggregate_mem: u64,
    /// `--unsafe`: the script may do anything.
    pub allow_unsafe: bool,
    /// `--replay`: a file of recorded events instead of the kernel.
    pub replay: Option<PathBuf>,
    /// `--lines`: lines of the source and inlined functions in stacks.
    pub lines: bool,
    /// `--stack-style`: how stacks of events are printed.
    pub stack_style: StackStyle,
    /// `--color`.
    pub color: Color,
    /// What to start and watch: a program and its arguments; empty without one. With `cpus`, `all_cpus`,
    /// `pids` or `tids` it is only the clock, and those are watched while it runs.
    pub workload: Vec<OsString>,
}

/// When text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}
