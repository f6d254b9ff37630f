//! An HTTP endpoint for scrapes: one thread, a few connections, requests without a body.
//!
//! No connection waits for another one, and none can hold the thread: reads and writes do not
//! block, each connection has a deadline, and their number and the size of a request are limited. A
//! connection serves one request. Certificates and passwords are the task of a proxy.

mod connection;

use connection::Connection;
use std::io::{self, ErrorKind, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of open connections. Further ones wait in the queue of the listener.
pub const CONNECTIONS: usize = 32;

/// Time from the acceptance of a connection until it is closed.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Time from the acceptance of a connection until it is closed if its request has not arrived:
/// unfinished requests occupy places of other clients.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(2);

/// Pause after a connection could not be accepted: without free descriptors it stays ready, and
/// polling would not wait.
const PAUSE: Duration = Duration::from_secs(1);

/// A request: its path, and the header `Accept`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeRequest {
    /// The path, without the query.
    pub path: String,
    /// The header `Accept`; empty without one.
    pub accept: String,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct ScrapeAnswer {
    /// Status: 200, 404, ….
    pub status: u16,
    /// Value of the header `Content-Type`.
    pub content_type: &'static str,
    /// The body, shared by the connections that it is sent to.
    pub body: Arc<Vec<u8>>,
}

impl ScrapeAnswer {
    /// Returns an answer of one line of text.
    pub fn line(status: u16, text: &str) -> ScrapeAnswer {
        let body = Arc::new(format!("{text}\n").into_bytes());
        ScrapeAnswer { status, content_type: "text/plain; charset=utf-8", body }
    }
}

/// Answers requests.
pub trait Scraped {
    /// Takes what has been handed over since the last call: the endpoint was woken.
    fn woken(&mut self);

    /// Returns the answer to a request.
    fn answer(&mut self, request: &ScrapeRequest) -> ScrapeAnswer;

    /// Does what can wait until the requests that have arrived are answered.
    fn answered(&mut self) {}
}

/// A bound address, before its thread serves it.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
}

impl Endpoint {
    /// Binds an address; port 0 takes a free port.
    ///
    /// # Errors
    /// The address is in use, or not one of this machine.
    pub fn bind(address: SocketAddr) -> io::Result<Endpoint> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Endpoint { listener })
    }

    /// Returns the bound address.
    ///
    /// # Errors
    /// The kernel does not know it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves requests until the other end of `wake` is closed. A byte there is a reason to call
    /// [`Scraped::woken`].
    ///
    /// # Errors
    /// poll(2) fails.
    pub fn serve(self, wake: UnixStream, scraped: &mut dyn Scraped) -> io::Result<()> {
        wake.set_nonblocking(true)?;
        let mut wake = wake;
        let mut connections: Vec<Connection> = Vec::with_capacity(CONNECTIONS);
        let mut paused_until = None;
        loop {
            self.wait(&wake, &connections, paused_until)?;
            if is_closed(&mut wake) {
                return Ok(());
            }
            scraped.woken();
            let now = Instant::now();
            if paused_until.is_none_or(|until| until <= now) {
                paused_until = self.accept(&mut connections).err().map(|_| now + PAUSE);
            }
            connections.retain_mut(|one| one.advance(scraped) && now < one.deadline());
            scraped.answered();
        }
    }

    /// Waits until there is something to do. Accepts no connection before `paused_until`.
    fn wait(
        &self,
        wake: &UnixStream,
        connections: &[Connection],
        paused_until: Option<Instant>,
    ) -> io::Result<()> {
        let now = Instant::now();
        let ends = connections.iter().map(Connection::deadline).chain(paused_until);
        let left = ends.map(|end| end.saturating_duration_since(now)).min();
        // Rounded up, so that the deadline has passed afterwards.
        let timeout = left.map_or(-1, |left| left.as_millis() as i32 + 1);
        let mut fds = vec![super::poll::waiting(wake.as_fd(), false)];
        if connections.len() < CONNECTIONS && paused_until.is_none_or(|until| until <= now) {
            fds.push(super::poll::waiting(self.listener.as_fd(), false));
        }
        fds.extend(connections.iter().map(|one| super::poll::waiting(one.fd(), one.writes())));
        super::poll::wait_once(&mut fds, timeout)
    }

    /// Accepts connections up to the limit. One that ends before it is accepted is skipped.
    ///
    /// # Errors
    /// A connection cannot be accepted now, for example because all descriptors are in use.
    fn accept(&self, connections: &mut Vec<Connection>) -> io::Result<()> {
        while connections.len() < CONNECTIONS {
            match self.listener.accept() {
                Ok((stream, _)) => connections.extend(Connection::new(stream).ok()),
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) if why.kind() == ErrorKind::ConnectionAborted => {}
                Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }
}

/// Reads the bytes that woke the endpoint, and returns whether the other end is closed.
fn is_closed(wake: &mut UnixStream) -> bool {
    let mut bytes = [0; 64];
    loop {
        match wake.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => return why.kind() != ErrorKind::WouldBlock,
        }
    }
}

#[cfg(test)]
mod tests;
