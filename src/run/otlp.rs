//! The sender of OTLP: a thread that owns all series and sends them, the log records and the
//! profiles to a receiver. The run only hands over the measurements of each interval, and never
//! waits.
//!
//! Requests wait in a queue with a limit of their number and size. A receiver that cannot be
//! reached, or that answers 429, 502, 503 or 504, gets the request again, with growing pauses.
//! Items that the queue has no room for, or that the receiver refuses, are counted.

mod outbox;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::request::RunOptions;
use crate::base::report::draw::{Level, Stamp};
use crate::base::text::units::counted;
use crate::output::metrics::{MetricInterval, MetricStore};
use crate::output::otlp::{
    LogQueue, OtlpProfile, OtlpResource, OtlpSignal, OtlpUrl, logs_request, metrics_request,
    profiles_request,
};
use crate::script::context::shared::SharedContext;
use crate::sys::own_tid::tid_in_records;
use crate::sys::{machine, sched, signal, threads};
use outbox::{Outbox, RETRYING};

/// Maximum number of intervals that wait for the thread.
const WAITING: usize = 1024;

/// Maximum number of bytes of profiles that wait for the thread.
const PROFILE_BYTES: usize = 16 << 20;

/// Time to send what is left at the end of the run.
const END: Duration = Duration::from_secs(3);

/// Time that the run waits for the thread at its end, beyond [`END`].
const END_SLACK: Duration = Duration::from_millis(500);

/// Intervals that the run hands over.
#[derive(Default)]
struct IntervalInbox {
    intervals: Vec<Arc<MetricInterval>>,
    profiles: Vec<ProfileRequest>,
    /// Whether all intervals of a report are here.
    is_complete: bool,
    is_over: bool,
}

/// An encoded request, and the number of its profiles.
struct ProfileRequest {
    body: Vec<u8>,
    profiles: u64,
}

/// State that run and thread share.
#[derive(Default)]
struct SenderState {
    inbox: Mutex<IntervalInbox>,
    wake: Condvar,
    /// The beginning of the run, in nanoseconds since the Unix epoch.
    start_ns: AtomicU64,
    /// Items of requests that were dropped or refused.
    unsent: AtomicU64,
    /// Items of requests that wait or are being sent.
    waiting: AtomicU64,
    /// Why the last request was not delivered; None if it was.
    failure: Mutex<Option<String>>,
}

/// The run's end of the sender.
pub(super) struct OtlpSender {
    url: OtlpUrl,
    shared: Arc<SenderState>,
    logs: LogQueue,
    resource: OtlpResource,
    tid: i32,
    ended: mpsc::Receiver<()>,
    /// The failure that was reported last.
    reported: Option<String>,
}

impl OtlpSender {
    /// Starts the thread if the options name a receiver.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn begin(
        options: &RunOptions,
        context: &SharedContext,
    ) -> anyhow::Result<Option<OtlpSender>> {
        let Some(url) = options.otlp.clone() else { return Ok(None) };
        let (shared, logs) = (Arc::<SenderState>::default(), LogQueue::default());
        let (started, tid) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let resource = OtlpResource { host: machine::host_name(), pid: std::process::id() };
        let thread = SenderThread {
            shared: shared.clone(),
            logs: logs.clone(),
            store: MetricStore::new(options.series),
            outbox: Outbox::new(url.clone()),
            resource: resource.clone(),
        };
        threads::start("perilune:otlp", move || {
            signal::keep_off_this_thread();
            sched::yield_to_the_run();
            // The receiver exists until the number arrives.
            let _ = started.send(tid_in_records());
            thread.run();
            // The run may have stopped waiting.
            let _ = end.send(());
        })
        .context("--otlp")?;
        context.note(Level::Info, &format!("sending metrics and logs to {url}"));
        let tid = tid.recv().context("--otlp: the thread has ended")?;
        Ok(Some(OtlpSender { url, shared, logs, resource, tid, ended, reported: None }))
    }

    /// Returns the id of the thread, as records contain it.
    pub(super) fn tid(&self) -> i32 {
        self.tid
    }

    /// Sets the beginning of the run, from which its values add up.
    pub(super) fn start(&self, now: Stamp) {
        let ns = u64::try_from(now.wall_ns).unwrap_or(0);
        self.shared.start_ns.store(ns, Ordering::Relaxed);
    }

    /// Returns the queue for log records.
    pub(super) fn logs(&self) -> LogQueue {
        self.logs.clone()
    }

    /// Hands over an interval of a monitor.
    pub(super) fn publish(&mut self, interval: &Arc<MetricInterval>) {
        let mut inbox = self.shared.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        if inbox.intervals.len() >= WAITING {
            self.shared.unsent.fetch_add(1, Ordering::Relaxed);
            return;
        }
        inbox.intervals.push(interval.clone());
    }

    /// Lets the thread send the stacks of an interval of a monitor.
    pub(super) fn publish_profiles(&mut self, monitor: &str, profiles: &[OtlpProfile<'_>]) {
        let count = profiles.len() as u64;
        if count == 0 {
            return;
        }
        let body = profiles_request(&self.resource, monitor, profiles);
        let mut inbox = self.shared.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting: usize = inbox.profiles.iter().map(|waiting| waiting.body.len()).sum();
        if waiting + body.len() > PROFILE_BYTES {
            self.shared.unsent.fetch_add(count, Ordering::Relaxed);
            return;
        }
        inbox.profiles.push(ProfileRequest { body, profiles: count });
        inbox.is_complete = true;
        self.shared.wake.notify_one();
    }

    /// Lets the thread send the intervals that were handed over, and reports if the receiver's
    /// state has changed.
    pub(super) fn complete(&mut self, context: &SharedContext) {
        self.shared.inbox.lock().unwrap_or_else(PoisonError::into_inner).is_complete = true;
        self.shared.wake.notify_one();
        let failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if failure == self.reported {
            return;
        }
        match &failure {
            Some(why) => context.note(Level::Warning, &format!("--otlp {}: {why}", self.url)),
            None => context.note(Level::Info, &format!("--otlp {}: delivered again", self.url)),
        }
        self.reported = failure;
    }

    /// Returns how many log records, profiles, intervals and points the receiver does not have.
    pub(super) fn unsent(&self) -> u64 {
        self.shared.unsent.load(Ordering::Relaxed) + self.logs.dropped()
    }

    /// Lets the thread send what is left, for a limited time, and reports what was not delivered.
    pub(super) fn end(self, context: &SharedContext) {
        {
            let mut inbox = self.shared.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            inbox.is_complete = true;
            inbox.is_over = true;
        }
        self.shared.wake.notify_one();
        let is_ended = self.ended.recv_timeout(END + END_SLACK).is_ok();
        let mut unsent = self.unsent();
        if !is_ended {
            let inbox = self.shared.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            unsent += self.shared.waiting.load(Ordering::Relaxed);
            unsent += inbox.intervals.len() as u64 + self.logs.waiting();
            unsent += inbox.profiles.iter().map(|waiting| waiting.profiles).sum::<u64>();
        }
        let failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(missing) = missing_at_end(is_ended, unsent, failure.as_deref()) {
            // Also with --quiet: the receiver's data are incomplete.
            context.note(Level::Error, &format!("--otlp {}: {missing}", self.url));
        }
    }
}

/// Returns what the receiver does not have at the end of the run, for a message; None if nothing is
/// missing. `is_ended` is false if the thread still waits for an answer, so that some of the
/// `unsent` items may be there.
fn missing_at_end(is_ended: bool, unsent: u64, failure: Option<&str>) -> Option<String> {
    let why = failure.map(|why| why.strip_suffix(RETRYING).unwrap_or(why));
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let items =
        format!("{} (log records, profiles, intervals of metrics)", counted(unsent, "item"));
    match (is_ended, unsent) {
        (true, 0) => None,
        (true, _) => Some(format!("{items} not delivered{why}")),
        (false, _) => {
            Some(format!("the receiver did not answer in time; up to {items} not delivered{why}"))
        }
    }
}

/// The thread's state.
struct SenderThread {
    shared: Arc<SenderState>,
    logs: LogQueue,
    store: MetricStore,
    outbox: Outbox,
    resource: OtlpResource,
}

impl SenderThread {
    /// Sends until the run is over and everything is sent, or the time for that is.
    fn run(mut self) {
        let mut end: Option<Instant> = None;
        loop {
            let (intervals, profiles, is_over) = self.wait(end);
            if is_over && end.is_none() {
                end = Some(Instant::now() + END);
                self.outbox.retry_now();
            }
            self.enqueue(&intervals, profiles);
            self.shared.waiting.store(self.outbox.items(), Ordering::Relaxed);
            let sent = self.outbox.send_due(end);
            self.shared.waiting.store(self.outbox.items(), Ordering::Relaxed);
            self.shared.unsent.fetch_add(sent.unsent, Ordering::Relaxed);
            if let Some(state) = sent.state {
                *self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = state;
            }
            if let Some(end) = end
                && (self.outbox.is_empty() || Instant::now() >= end)
            {
                self.shared.unsent.fetch_add(self.outbox.drop_all(), Ordering::Relaxed);
                return;
            }
        }
    }

    /// Waits for complete intervals, until a request is due again, or until `end`. Returns the
    /// intervals and profiles, and whether the run is over.
    fn wait(&self, end: Option<Instant>) -> (Vec<Arc<MetricInterval>>, Vec<ProfileRequest>, bool) {
        let due = [self.outbox.due(), end].into_iter().flatten().min();
        let mut inbox = self.shared.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = end.is_some() && self.outbox.is_empty();
        while !(inbox.is_complete || is_idle) {
            let now = Instant::now();
            match due {
                Some(due) if due <= now => break,
                Some(due) => {
                    let waited = self.shared.wake.wait_timeout(inbox, due - now);
                    inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => {
                    let waited = self.shared.wake.wait(inbox);
                    inbox = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        let is_complete = std::mem::take(&mut inbox.is_complete);
        let intervals = if is_complete { std::mem::take(&mut inbox.intervals) } else { Vec::new() };
        (intervals, std::mem::take(&mut inbox.profiles), inbox.is_over)
    }

    /// Makes requests of the intervals, of the log records and of the profiles that have come.
    fn enqueue(&mut self, intervals: &[Arc<MetricInterval>], profiles: Vec<ProfileRequest>) {
        if let Some(last) = intervals.last() {
            let end_ns = u64::try_from(last.wall_ns).unwrap_or(0);
            intervals.iter().for_each(|interval| self.store.add(interval));
            let start_ns = self.shared.start_ns.load(Ordering::Relaxed);
            let body = metrics_request(&self.store, &self.resource, start_ns, end_ns);
            let dropped = self.outbox.add(OtlpSignal::Metrics, body, 1);
            self.shared.unsent.fetch_add(dropped, Ordering::Relaxed);
        }
        let records = self.logs.take();
        let items = records.len() as u64;
        if items > 0 {
            let body = logs_request(&self.resource, records);
            let dropped = self.outbox.add(OtlpSignal::Logs, body, items);
            self.shared.unsent.fetch_add(dropped, Ordering::Relaxed);
        }
        for ProfileRequest { body, profiles } in profiles {
            let dropped = self.outbox.add(OtlpSignal::Profiles, body, profiles);
            self.shared.unsent.fetch_add(dropped, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_without_an_answer_states_an_upper_bound() {
        let why = Some("the receiver answered 503; retrying");
        assert_eq!(missing_at_end(true, 0, None), None);
        assert_eq!(
            missing_at_end(true, 1, why).unwrap(),
            "1 item (log records, profiles, intervals of metrics) not delivered: the receiver \
             answered 503"
        );
        assert_eq!(
            missing_at_end(false, 10, None).unwrap(),
            "the receiver did not answer in time; up to 10 items (log records, profiles, \
             intervals of metrics) not delivered"
        );
    }
}
