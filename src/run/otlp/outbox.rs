//! Requests that wait for the receiver, and their retries.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::output::otlp::{OtlpSignal, OtlpUrl};
use crate::sys::http_post::{HttpAnswer, HttpClient};

/// Maximum number of requests that wait, and of their bytes.
const REQUESTS: usize = 256;
const BYTES: usize = 32 << 20;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// End of the reason of a failure after which the data are sent again.
pub(super) const RETRYING: &str = "; retrying";
/// Pause after the first failure; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

const PROTOBUF: &str = "application/x-protobuf";

/// The queue of requests.
pub(super) struct Outbox {
    client: HttpClient,
    url: OtlpUrl,
    requests: VecDeque<OtlpRequest>,
    bytes: usize,
    /// The next attempt after a failure, and the pause before it.
    retry: Option<(Instant, Duration)>,
}

struct OtlpRequest {
    signal: OtlpSignal,
    body: Vec<u8>,
    /// Number of log records, of profiles, or of reports.
    items: u64,
}

impl OtlpRequest {
    /// Returns an upper bound of the items that a receiver can reject: log records, profiles, or
    /// data points, each of which takes a byte or more.
    fn most_items(&self) -> u64 {
        match self.signal {
            OtlpSignal::Metrics => self.body.len() as u64,
            OtlpSignal::Logs | OtlpSignal::Profiles => self.items,
        }
    }
}

/// The result of an attempt to send.
#[derive(Debug, Default)]
pub(super) struct SentRequests {
    /// Items that the receiver does not have and does not get.
    pub(super) unsent: u64,
    /// Why the last request was not delivered, or None if it was; absent without a request.
    pub(super) state: Option<Option<String>>,
}

/// The result of one request.
enum RequestResult {
    Delivered { rejected: u64, why: Option<String> },
    Retry { why: String, after: Option<Duration> },
    Refused { why: String },
}

impl Outbox {
    pub(super) fn new(url: OtlpUrl) -> Outbox {
        let client = HttpClient::new(TIMEOUT);
        Outbox { client, url, requests: VecDeque::new(), bytes: 0, retry: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the number of items that wait or are being sent.
    pub(super) fn items(&self) -> u64 {
        self.requests.iter().map(|request| request.items).sum()
    }

    /// Adds a request. Returns the number of items of older ones that had to be dropped for it:
    /// metrics first, because later ones include their counts.
    pub(super) fn add(&mut self, signal: OtlpSignal, body: Vec<u8>, items: u64) -> u64 {
        self.bytes += body.len();
        self.requests.push_back(OtlpRequest { signal, body, items });
        let mut dropped = 0;
        while self.requests.len() > 1 && (self.requests.len() > REQUESTS || self.bytes > BYTES) {
            let older = self.requests.iter().take(self.requests.len() - 1);
            let metrics = older.clone().position(|one| one.signal == OtlpSignal::Metrics);
            if let Some(old) = self.requests.remove(metrics.unwrap_or(0)) {
                self.bytes -= old.body.len();
                dropped += old.items;
            }
        }
        dropped
    }

    /// Returns when the next request is due; None if nothing waits.
    pub(super) fn due(&self) -> Option<Instant> {
        self.requests.front()?;
        Some(self.retry.map_or_else(Instant::now, |(at, _)| at))
    }

    /// Makes the next attempt due now.
    pub(super) fn retry_now(&mut self) {
        self.retry = None;
    }

    /// Sends the requests in order until one fails; none if a pause is not over. Ends at `end`.
    pub(super) fn send_due(&mut self, end: Option<Instant>) -> SentRequests {
        let mut sent = SentRequests::default();
        while let Some(request) = self.requests.front() {
            let now = Instant::now();
            if self.retry.is_some_and(|(at, _)| now < at) {
                break;
            }
            let left = end.map_or(TIMEOUT, |end| end.saturating_duration_since(now));
            if left.is_zero() {
                break;
            }
            let url = self.url.with(request.signal.path());
            let answer = self.client.post(&url, PROTOBUF, &request.body, left.min(TIMEOUT));
            let why = match result_of(request.signal, answer) {
                RequestResult::Retry { why, after } => {
                    self.pause(after);
                    sent.state = Some(Some(why));
                    break;
                }
                RequestResult::Delivered { rejected, why } => {
                    sent.unsent += rejected.min(request.most_items());
                    why
                }
                RequestResult::Refused { why } => {
                    sent.unsent += request.items;
                    Some(why)
                }
            };
            sent.state = Some(why);
            self.retry = None;
            self.drop_first();
        }
        sent
    }

    /// Makes the next attempt due after a pause: that of the receiver, if it names one. It gets the
    /// request again after at least [`FIRST_PAUSE`], even if it names a pause of zero seconds.
    fn pause(&mut self, after: Option<Duration>) {
        let before = self.retry.map(|(_, pause)| pause * 2);
        let pause = before.unwrap_or(FIRST_PAUSE).min(LONGEST_PAUSE);
        let wait = after.map_or(pause, |after| after.clamp(FIRST_PAUSE, LONGEST_PAUSE));
        self.retry = Some((Instant::now() + wait, pause));
    }

    fn drop_first(&mut self) {
        if let Some(done) = self.requests.pop_front() {
            self.bytes -= done.body.len();
        }
    }

    /// Drops all requests. Returns the number of their items.
    pub(super) fn drop_all(&mut self) -> u64 {
        self.bytes = 0;
        self.requests.drain(..).map(|request| request.items).sum()
    }
}

/// Returns what an answer means for its request.
fn result_of(signal: OtlpSignal, answer: std::io::Result<HttpAnswer>) -> RequestResult {
    let answer = match answer {
        Ok(answer) => answer,
        Err(why) => return RequestResult::Retry { why: format!("{why}{RETRYING}"), after: None },
    };
    match answer.status {
        200..=299 => match signal.rejected(&answer.body) {
            Some((rejected, why)) => {
                let why = Some(format!("the receiver rejected {rejected} of a request: {why}"));
                RequestResult::Delivered { rejected, why }
            }
            None => RequestResult::Delivered { rejected: 0, why: None },
        },
        status @ (429 | 502 | 503 | 504) => {
            let why = format!("the receiver answered {status}{RETRYING}");
            RequestResult::Retry { why, after: answer.retry_after }
        }
        status => {
            let path = signal.path();
            RequestResult::Refused {
                why: format!("the receiver answered {status} to {path}; check the URL"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox() -> Outbox {
        Outbox::new(OtlpUrl::parse("http://127.0.0.1:1").unwrap())
    }

    #[test]
    fn a_full_queue_drops_metrics_before_log_records() {
        let mut outbox = outbox();
        assert_eq!(outbox.add(OtlpSignal::Logs, vec![0; 10], 7), 0);
        assert_eq!(outbox.add(OtlpSignal::Metrics, vec![0; 10], 1), 0);
        for _ in 2..REQUESTS {
            assert_eq!(outbox.add(OtlpSignal::Logs, vec![0; 10], 1), 0);
        }
        assert_eq!(outbox.add(OtlpSignal::Logs, vec![0; 10], 1), 1);
        assert_eq!(outbox.requests.front().unwrap().items, 7);
        // Without metrics, the oldest records go.
        assert_eq!(outbox.add(OtlpSignal::Logs, vec![0; 10], 1), 7);
        assert_eq!(outbox.bytes, 10 * REQUESTS);
        assert_eq!(outbox.drop_all(), REQUESTS as u64);
        assert!(outbox.is_empty() && outbox.due().is_none());
    }

    #[test]
    fn a_large_request_is_kept_and_the_older_ones_go() {
        let mut outbox = outbox();
        outbox.add(OtlpSignal::Logs, vec![0; 10], 3);
        assert_eq!(outbox.add(OtlpSignal::Metrics, vec![0; BYTES + 1], 1), 3);
        assert_eq!(outbox.requests.len(), 1);
    }

    #[test]
    fn pauses_between_attempts_grow() {
        let mut outbox = outbox();
        outbox.add(OtlpSignal::Metrics, vec![0; 10], 1);
        let first = outbox.send_due(None);
        assert!(first.state.unwrap().unwrap().contains("refused"));
        assert_eq!((first.unsent, outbox.requests.len()), (0, 1));
        assert_eq!(outbox.retry.unwrap().1, FIRST_PAUSE);
        // The pause is not over.
        assert!(outbox.send_due(None).state.is_none());
        let (_, pause) = outbox.retry.unwrap();
        outbox.retry = Some((Instant::now(), pause));
        outbox.send_due(None);
        assert_eq!(outbox.retry.unwrap().1, FIRST_PAUSE * 2);
    }

    #[test]
    fn a_receiver_cannot_reject_more_than_it_got() {
        let most = |signal| OtlpRequest { signal, body: vec![0; 100], items: 7 }.most_items();
        assert_eq!([OtlpSignal::Logs, OtlpSignal::Metrics].map(most), [7, 100]);
    }

    #[test]
    fn the_receiver_sets_the_pause_within_limits() {
        for (seconds, pause) in [
            (None, FIRST_PAUSE),
            (Some(0), FIRST_PAUSE),
            (Some(7), Duration::from_secs(7)),
            (Some(u64::MAX), LONGEST_PAUSE),
        ] {
            let mut outbox = outbox();
            let before = Instant::now();
            outbox.pause(seconds.map(Duration::from_secs));
            let (due, after) = (outbox.retry.unwrap().0, Instant::now());
            assert!((before + pause..=after + pause).contains(&due), "{seconds:?}");
        }
    }

    #[test]
    fn the_status_of_an_answer_decides_about_a_retry() {
        use RequestResult::{Delivered, Refused, Retry};
        let answer = |status| HttpAnswer { status, retry_after: None, body: Vec::new() };
        let result = |status| result_of(OtlpSignal::Logs, Ok(answer(status)));
        assert!(matches!(result(200), Delivered { rejected: 0, .. }));
        assert!([429, 502, 503, 504].iter().all(|s| matches!(result(*s), Retry { .. })));
        assert!([400, 404, 500].iter().all(|s| matches!(result(*s), Refused { .. })));
    }
}
