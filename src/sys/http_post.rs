//! Requests of HTTP with a body, each with a timeout: what an exporter sends.
//!
//! Redirects are not followed and no proxy of the environment is used: the body goes to the host
//! that the user has named.

use std::io;
use std::net::ToSocketAddrs as _;
use std::time::Duration;

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

/// Maximum size of an answer that is read.
const ANSWER_BYTES: u64 = 64 << 10;

/// Maximum number of addresses of a host that are tried.
const ADDRESSES: usize = 4;

/// Sends requests, and keeps a connection open between them.
pub struct HttpClient {
    agent: ureq::Agent,
}

/// Looks up names in the calling thread. The resolver of ureq starts a thread for each lookup, and
/// a run that traces system calls would see that thread.
#[derive(Debug)]
struct SameThreadResolver;

impl Resolver for SameThreadResolver {
    fn resolve(
        &self,
        uri: &Uri,
        _config: &Config,
        _timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(80));
        // An IPv6 address has brackets in a URL.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let mut found = self.empty();
        (host, port).to_socket_addrs()?.take(ADDRESSES).for_each(|address| found.push(address));
        if found.is_empty() { Err(ureq::Error::HostNotFound) } else { Ok(found) }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// Status: 200, 503, ….
    pub status: u16,
    /// The header `Retry-After`, if it is a number of seconds.
    pub retry_after: Option<Duration>,
    /// The beginning of the body.
    pub body: Vec<u8>,
}

impl HttpClient {
    /// Returns a client whose requests end after this time.
    pub fn new(timeout: Duration) -> HttpClient {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .max_idle_connections(1)
            .user_agent(concat!("perilune/", env!("CARGO_PKG_VERSION")))
            .build();
        let connector = DefaultConnector::default();
        HttpClient { agent: ureq::Agent::with_parts(config, connector, SameThreadResolver) }
    }

    /// Sends a body, and returns the answer, whatever its status. `timeout` shortens that of the
    /// client.
    ///
    /// # Errors
    /// The host does not exist, refuses the connection, or does not answer in time.
    pub fn post(
        &self,
        url: &str,
        content_type: &str,
        body: &[u8],
        timeout: Duration,
    ) -> io::Result<HttpAnswer> {
        let request = self.agent.post(url).config().timeout_global(Some(timeout)).build();
        let sent = request.header("Content-Type", content_type).send(body);
        let mut answer = sent.map_err(ureq::Error::into_io)?;
        let header = answer.headers().get("retry-after");
        let seconds = header.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let (status, retry_after) = (answer.status().as_u16(), seconds.map(Duration::from_secs));
        let reader = answer.body_mut().with_config().limit(ANSWER_BYTES);
        // The status is the answer; a body that breaks off has no further meaning.
        let body = reader.read_to_vec().unwrap_or_default();
        Ok(HttpAnswer { status, retry_after, body })
    }
}
