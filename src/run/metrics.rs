//! The server of metrics: a thread that owns all series and answers scrapes. The run only hands
//! over the measurements of each report, and never waits for a scrape: the queue between them has
//! no lock, which the thread could hold while other tasks keep it from a CPU.

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;

use super::request::RunOptions;
use crate::base::report::draw::Level;
use crate::output::metrics::{ExpositionFormat, MetricInterval, MetricStore, expose};
use crate::script::context::shared::SharedContext;
use crate::sys::endpoint::{Endpoint, ScrapeAnswer, ScrapeRequest, Scraped};
use crate::sys::own_tid::tid_in_records;
use crate::sys::sched;
use crate::sys::signal;
use crate::sys::threads;

/// Maximum number of intervals that wait for the thread; further ones are dropped and counted.
const WAITING: usize = 256;

/// Maximum number of added intervals that are freed only after requests are answered.
const ADDED: usize = 16;

/// The run's end of the server.
pub(super) struct MetricsServer {
    intervals: SyncSender<Arc<MetricInterval>>,
    /// Intervals so far that the queue had no room for.
    dropped: Arc<AtomicU64>,
    /// Wakes the thread, and ends it when dropped.
    wake: UnixStream,
    tid: i32,
}

impl MetricsServer {
    /// Binds the address that the options name, if any, and starts the thread.
    ///
    /// # Errors
    /// The address cannot be bound, or the thread cannot be started.
    pub(super) fn begin(
        options: &RunOptions,
        context: &SharedContext,
    ) -> anyhow::Result<Option<MetricsServer>> {
        let Some(asked) = options.prometheus else { return Ok(None) };
        let endpoint = Endpoint::bind(asked).with_context(|| {
            format!("--prometheus {asked}: failed to listen; name a free port of this machine")
        })?;
        let address = endpoint.address().context("--prometheus")?;
        let (wake, end) = UnixStream::pair().context("--prometheus")?;
        wake.set_nonblocking(true).context("--prometheus")?;
        let (intervals, waiting) = mpsc::sync_channel(WAITING);
        let dropped = Arc::<AtomicU64>::default();
        let mut pages = Pages::new(options.series, waiting, dropped.clone());
        let (sender, tid) = mpsc::channel();
        threads::start("perilune:scrape", move || {
            signal::keep_off_this_thread();
            sched::yield_to_the_run();
            // Soon after a request, the thread needs a CPU, for less than a slice.
            sched::request_short_slices();
            // The receiver exists until the number arrives.
            let _ = sender.send(tid_in_records());
            // Without poll(2) there is nothing to serve; scrapes then fail, and the run goes on.
            let _ = endpoint.serve(end, &mut pages);
        })?;
        announce(address, context);
        Ok(Some(MetricsServer { intervals, dropped, wake, tid: tid.recv()? }))
    }

    /// Returns the thread's number as records have it.
    pub(super) fn tid(&self) -> i32 {
        self.tid
    }

    /// Hands over an interval, or drops it if too many wait. Never blocks.
    pub(super) fn publish(&mut self, interval: &Arc<MetricInterval>) {
        if self.intervals.try_send(interval.clone()).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        // If the pipe is full, the thread will wake anyway.
        let _ = self.wake.write(&[0]);
    }
}

/// Notes the address, and warns if other machines can reach it.
fn announce(address: SocketAddr, context: &SharedContext) {
    context.note(Level::Info, &format!("metrics: http://{address}/metrics"));
    if !address.ip().is_loopback() {
        let text = format!(
            "--prometheus: every host that reaches {address} can read the metrics; restrict it with \
             a firewall or a proxy"
        );
        context.note(Level::Warning, &text);
    }
}

/// The pages of the server.
struct Pages {
    store: Arc<Mutex<MetricStore>>,
    waiting: Receiver<Arc<MetricInterval>>,
    /// Intervals that were dropped.
    dropped: Arc<AtomicU64>,
    /// Intervals that are in the store: to free their rows takes as long as to add them.
    added: Vec<Arc<MetricInterval>>,
    /// The page of the last interval in each format.
    rendered: Vec<(ExpositionFormat, Arc<Vec<u8>>)>,
}

impl Pages {
    fn new(limit: usize, waiting: Receiver<Arc<MetricInterval>>, dropped: Arc<AtomicU64>) -> Pages {
        let store = Arc::new(Mutex::new(MetricStore::new(limit)));
        Pages { store, waiting, dropped, added: Vec::new(), rendered: Vec::new() }
    }

    fn page(&mut self, format: ExpositionFormat) -> Arc<Vec<u8>> {
        if let Some((_, page)) = self.rendered.iter().find(|(other, _)| *other == format) {
            return page.clone();
        }
        let page = Arc::new(expose(&self.store, format));
        self.rendered.push((format, page.clone()));
        page
    }
}

impl Scraped for Pages {
    fn woken(&mut self) {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        store.set_dropped(self.dropped.load(Ordering::Relaxed));
        for interval in self.waiting.try_iter() {
            store.add(&interval);
            self.rendered.clear();
            if self.added.len() < ADDED {
                self.added.push(interval);
            }
        }
    }

    fn answered(&mut self) {
        self.added.clear();
    }

    fn answer(&mut self, request: &ScrapeRequest) -> ScrapeAnswer {
        match request.path.as_str() {
            "/metrics" => {
                let format = ExpositionFormat::accepted(&request.accept);
                let body = self.page(format);
                ScrapeAnswer { status: 200, content_type: format.content_type(), body }
            }
            "/healthz" => ScrapeAnswer::line(200, "ok"),
            _ => ScrapeAnswer::line(404, "this endpoint has /metrics and /healthz"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::report::coverage::Coverage;

    #[test]
    fn the_run_does_not_wait_for_a_thread_that_takes_nothing() {
        let (intervals, waiting) = mpsc::sync_channel(WAITING);
        // Nothing reads the other end: the pipe fills up, too.
        let (wake, _end) = UnixStream::pair().unwrap();
        wake.set_nonblocking(true).unwrap();
        let dropped = Arc::<AtomicU64>::default();
        let mut server = MetricsServer { intervals, dropped: dropped.clone(), wake, tid: 0 };
        let interval = |wall_ns| {
            let (monitor, coverage) = ("m".into(), Coverage::default());
            MetricInterval { monitor, tables: Vec::new(), coverage, is_up: true, wall_ns }
        };
        const PUBLISHED: i64 = 5000;
        (0..PUBLISHED).for_each(|i| server.publish(&Arc::new(interval(i))));
        assert_eq!(dropped.load(Ordering::Relaxed), PUBLISHED as u64 - WAITING as u64);
        let taken: Vec<i64> = waiting.try_iter().map(|interval| interval.wall_ns).collect();
        assert!(taken.into_iter().eq(0..WAITING as i64), "the oldest intervals are kept");
    }
}
