//! Where the measurements of a run go beside its results: a server of metrics, an OTLP receiver.

use std::sync::Arc;

use super::metrics::MetricsServer;
use super::otlp::OtlpSender;
use super::request::RunOptions;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{Draw, Report, Stamp};
use crate::base::report::metric::MetricTable;
use crate::base::text::stack_style::StackStyle;
use crate::output::metrics::{MetricInterval, tables_of_reports};
use crate::output::otlp::{LoggedOutput, OtlpProfile};
use crate::script::aggregate::flame::DrawnGraph;
use crate::script::context::shared::SharedContext;

/// The destinations of a run's measurements; none without an option.
#[derive(Default)]
pub(super) struct Exports {
    server: Option<MetricsServer>,
    otlp: Option<OtlpSender>,
    /// With `--otlp-profiles`: the end of the last interval.
    profiles_since: Option<Stamp>,
}

/// One interval of one monitor.
pub(super) struct ExportedInterval<'a> {
    /// The monitor's name.
    pub(super) monitor: &'a Arc<str>,
    /// The measurements of its tables.
    pub(super) measured: Vec<MetricTable>,
    /// Its printed parts, whose tables are measured if they are not in `measured`.
    pub(super) parts: &'a [Report],
    /// Its coverage of the run so far.
    pub(super) coverage: Coverage,
    /// Whether all its handlers and callbacks are on.
    pub(super) is_up: bool,
    /// When the interval ended.
    pub(super) end: Stamp,
}

impl Exports {
    /// Opens what the options name, and starts its threads.
    ///
    /// # Errors
    /// An address cannot be bound, or a thread cannot be started.
    pub(super) fn begin(options: &RunOptions, context: &SharedContext) -> anyhow::Result<Exports> {
        let server = MetricsServer::begin(options, context)?;
        Ok(Exports { server, otlp: OtlpSender::begin(options, context)?, profiles_since: None })
    }

    /// Returns the numbers of the threads as records have them.
    pub(super) fn tids(&self) -> Vec<i32> {
        let server = self.server.iter().map(MetricsServer::tid);
        server.chain(self.otlp.iter().map(OtlpSender::tid)).collect()
    }

    /// Returns an output in front of `out` that also sends what it draws as log records, if there
    /// is a receiver.
    pub(super) fn logged(
        &self,
        out: Box<dyn Draw>,
        monitor: &str,
        stacks: StackStyle,
    ) -> Box<dyn Draw> {
        match &self.otlp {
            Some(otlp) => Box::new(LoggedOutput::new(out, otlp.logs(), monitor, stacks)),
            None => out,
        }
    }

    /// Returns how much a receiver does not get.
    pub(super) fn unsent(&self) -> u64 {
        self.otlp.as_ref().map_or(0, OtlpSender::unsent)
    }

    /// Sets the beginning of the run. With `is_profiled`, the stacks of each interval are sent.
    pub(super) fn start(&mut self, now: Stamp, is_profiled: bool) {
        self.profiles_since = is_profiled.then_some(now);
        self.otlp.iter().for_each(|otlp| otlp.start(now));
    }

    /// Hands over the stacks of an interval, if profiles are sent.
    pub(super) fn profiles(&mut self, monitor: &str, drawn: &[DrawnGraph], now: Stamp) {
        let (Some(since), Some(otlp)) = (&mut self.profiles_since, &mut self.otlp) else { return };
        let begin = std::mem::replace(since, now);
        let ns = |stamp: Stamp| u64::try_from(stamp.wall_ns).unwrap_or(0);
        let with_stacks = drawn.iter().filter(|graph| !graph.flame.is_empty());
        let profiles = with_stacks.map(|graph| OtlpProfile {
            table: &graph.table,
            flame: &graph.flame,
            begin_ns: ns(if graph.snapshot { now } else { begin }),
            end_ns: ns(now),
        });
        otlp.publish_profiles(monitor, &profiles.collect::<Vec<_>>());
    }

    /// Ends a report: the intervals of all monitors were handed over.
    pub(super) fn complete(&mut self, context: &SharedContext) {
        self.otlp.iter_mut().for_each(|otlp| otlp.complete(context));
    }

    /// Sends what is left, for a limited time.
    pub(super) fn end(&mut self, context: &SharedContext) {
        self.otlp.take().into_iter().for_each(|otlp| otlp.end(context));
    }

    /// Hands over an interval. Never waits for a reader or a receiver.
    pub(super) fn publish(&mut self, interval: ExportedInterval<'_>) {
        if self.server.is_none() && self.otlp.is_none() {
            return;
        }
        let ExportedInterval { monitor, measured, parts, coverage, is_up, end } = interval;
        let own = tables_of_reports(parts, &measured);
        let mut tables = measured;
        tables.extend(own);
        let (monitor, wall_ns) = (monitor.clone(), end.wall_ns);
        let interval = Arc::new(MetricInterval { monitor, tables, coverage, is_up, wall_ns });
        if let Some(server) = &mut self.server {
            server.publish(&interval);
        }
        if let Some(otlp) = &mut self.otlp {
            otlp.publish(&interval);
        }
    }
}
