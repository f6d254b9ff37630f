//! One connection: reads a request, writes the answer, ends.

use super::{DEADLINE, REQUEST_DEADLINE, ScrapeAnswer, ScrapeRequest, Scraped};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// Maximum size of a request: its line and its headers.
const HEAD: usize = 8 << 10;

/// Maximum number of headers.
const HEADERS: usize = 64;

/// A connection.
pub(super) struct Connection {
    stream: TcpStream,
    accepted: Instant,
    state: ConnectionState,
}

enum ConnectionState {
    /// The request so far.
    Reading(Vec<u8>),
    /// The head and the answer; the number of bytes that are written.
    Writing(Vec<u8>, ScrapeAnswer, usize),
}

/// The result of parsing a request's head.
enum ParsedHead {
    Incomplete,
    Request(ScrapeRequest),
    /// It is answered with this status.
    Refused(u16),
}

impl Connection {
    /// Takes an accepted connection.
    pub(super) fn new(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        let state = ConnectionState::Reading(Vec::new());
        Ok(Connection { stream, accepted: Instant::now(), state })
    }

    pub(super) fn deadline(&self) -> Instant {
        self.accepted + if self.writes() { DEADLINE } else { REQUEST_DEADLINE }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Returns whether it waits for room to write, not for data.
    pub(super) fn writes(&self) -> bool {
        matches!(self.state, ConnectionState::Writing(..))
    }

    /// Reads or writes what is possible. Returns whether the connection goes on.
    pub(super) fn advance(&mut self, scraped: &mut dyn Scraped) -> bool {
        if let ConnectionState::Reading(request) = &mut self.state {
            match read(&mut self.stream, request) {
                Ok(true) => {}
                Ok(false) | Err(_) => return false,
            }
            let answer = match parsed(request) {
                ParsedHead::Incomplete => return true,
                ParsedHead::Request(request) => scraped.answer(&request),
                ParsedHead::Refused(status) => ScrapeAnswer::line(status, reason(status)),
            };
            self.state = ConnectionState::Writing(head(&answer), answer, 0);
        }
        let ConnectionState::Writing(head, answer, written) = &mut self.state else { return true };
        match write(&mut self.stream, &[head, &answer.body], written) {
            Ok(false) => true,
            Ok(true) => {
                let _ = self.stream.shutdown(Shutdown::Write);
                false
            }
            Err(_) => false,
        }
    }
}

/// Appends what has arrived. Returns false at the end of the connection.
fn read(stream: &mut TcpStream, request: &mut Vec<u8>) -> io::Result<bool> {
    let mut bytes = [0; 1024];
    while request.len() <= HEAD {
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(false),
            Ok(n) => request.extend_from_slice(bytes.get(..n).unwrap_or_default()),
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(why) => return Err(why),
        }
    }
    Ok(true)
}

/// Writes the rest of `parts`. Returns whether all is written.
fn write(stream: &mut TcpStream, parts: &[&[u8]], written: &mut usize) -> io::Result<bool> {
    loop {
        let mut before = 0;
        let rest = parts.iter().find_map(|part| {
            let rest = part.get(written.saturating_sub(before)..).filter(|rest| !rest.is_empty());
            before += part.len();
            rest
        });
        let Some(rest) = rest else { return Ok(true) };
        match stream.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => *written += n,
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(why) => return Err(why),
        }
    }
}

fn parsed(bytes: &[u8]) -> ParsedHead {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) if bytes.len() <= HEAD => return ParsedHead::Incomplete,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return ParsedHead::Refused(431);
        }
        Ok(httparse::Status::Complete(length)) if length > HEAD => return ParsedHead::Refused(431),
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return ParsedHead::Refused(400),
    }
    if request.method != Some("GET") {
        return ParsedHead::Refused(405);
    }
    let path = request.path.unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default().to_owned();
    // A header may be repeated; its values are then one list.
    let accept = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    let accept: Vec<_> = accept.map(|header| String::from_utf8_lossy(header.value)).collect();
    ParsedHead::Request(ScrapeRequest { path, accept: accept.join(",") })
}

fn head(answer: &ScrapeAnswer) -> Vec<u8> {
    let ScrapeAnswer { status, content_type, body } = answer;
    let (reason, length) = (reason(*status), body.len());
    let allow = if *status == 405 { "Allow: GET\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n{allow}\
         Connection: close\r\n\r\n"
    )
    .into_bytes()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    }
}
