//! The overhead of a run, as data.

/// The run's own overhead: `--stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Events dispatched.
    pub events: u64,
    /// CPU time of the whole process, user and system.
    pub own_cpu_ns: u64,
    /// CPU time since the events were enabled, without that of reports, per received event
    /// (dispatched, or rejected by a user-space filter). None if there were too few events for a
    /// meaningful figure.
    pub ns_per_event: Option<f64>,
    /// CPU time of the reports, most of which is that of finding names of functions.
    pub report_cpu_ns: u64,
    /// Events lost.
    pub lost: u64,
    /// Peak resident memory.
    pub max_rss_kb: u64,
    /// Time from the start of the process to the first drain.
    pub start_ms: f64,
    /// LuaJIT statistics.
    pub compiler: JitStats,
    /// The cost of a run with a budget.
    pub budget: Option<BudgetStats>,
    /// Mean nanoseconds that a program in the kernel takes for an event that it counts or rejects.
    pub program_ns: Option<f64>,
}

/// Cost of a run with a budget, in percent of the CPU time of the watched CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BudgetStats {
    /// The budget.
    pub budget_percent: f64,
    /// CPU time of this process.
    pub own_percent: f64,
    /// Overhead of the events for the traced tasks.
    pub kernel_percent: f64,
    /// The most events that a record of the run stood for.
    pub one_in_max: u64,
    /// Number of parts of the time of which events were on in one, at most; 1 if always.
    pub one_in_time_max: u64,
}

impl BudgetStats {
    /// Returns the whole cost.
    pub fn cost_percent(&self) -> f64 {
        self.own_percent + self.kernel_percent
    }
}

/// Statistics of LuaJIT for a script.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JitStats {
    /// Traces compiled.
    pub traces: u64,
    /// Aborted traces. A few are normal.
    pub aborted: u64,
    /// Number of times that all traces were flushed for lack of space.
    pub flushed: u64,
    /// The share of the script's CPU time that was interpreted, from 0 to 1; None with too few
    /// samples.
    pub interpreted: Option<f64>,
}
