//! The endpoint over a real socket: requests, limits, slow clients.

use super::*;
use std::io::Write as _;
use std::net::TcpStream;
use std::thread::JoinHandle;

struct Pages {
    woken: usize,
    large: Arc<Vec<u8>>,
}

impl Scraped for Pages {
    fn woken(&mut self) {
        self.woken += 1;
    }

    fn answer(&mut self, request: &ScrapeRequest) -> ScrapeAnswer {
        match request.path.as_str() {
            "/large" => ScrapeAnswer { body: self.large.clone(), ..ScrapeAnswer::line(200, "") },
            "/accept" => ScrapeAnswer::line(200, &request.accept),
            _ => ScrapeAnswer::line(404, "no such page"),
        }
    }
}

struct Served {
    address: SocketAddr,
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<usize>>,
}

impl Served {
    fn begin() -> Served {
        let endpoint = Endpoint::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = endpoint.address().unwrap();
        let (wake, end) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            let mut pages = Pages { woken: 0, large: Arc::new(vec![b'x'; 8 << 20]) };
            endpoint.serve(end, &mut pages).unwrap();
            pages.woken
        });
        Served { address, wake: Some(wake), thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        answer(&mut stream)
    }

    fn end(mut self) -> usize {
        drop(self.wake.take());
        self.thread.take().unwrap().join().unwrap()
    }
}

fn answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

#[test]
fn a_request_is_answered_and_others_are_refused() {
    let served = Served::begin();
    let accepted = served.ask("GET /accept?x=1 HTTP/1.1\r\nAccept: a/b\r\naccept: c/d\r\n\r\n");
    assert!(accepted.starts_with("HTTP/1.1 200 OK\r\n"), "{accepted}");
    assert!(accepted.ends_with("\r\n\r\na/b,c/d\n"), "{accepted}");
    assert!(served.ask("GET /../etc HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(served.ask("POST /accept HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(served.ask("\u{1}\u{2}\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000));
    assert!(served.ask(&long).starts_with("HTTP/1.1 431 "));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
    assert!(served.ask(&many).starts_with("HTTP/1.1 431 "));
    served.end();
}

#[test]
fn slow_clients_do_not_delay_others() {
    let served = Served::begin();
    // Requests that never end, and an answer that is not read.
    let mut slow: Vec<TcpStream> = (0..CONNECTIONS - 2).map(|_| served.connect()).collect();
    slow.iter_mut().for_each(|stream| stream.write_all(b"GET /acc").unwrap());
    let mut unread = served.connect();
    unread.write_all(b"GET /large HTTP/1.1\r\n\r\n").unwrap();
    let begin = Instant::now();
    for _ in 0..20 {
        assert!(served.ask("GET /accept HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let mut parts = served.connect();
    parts.write_all(b"GET /acc").unwrap();
    parts.write_all(b"ept HTTP/1.1\r\n\r\n").unwrap();
    assert!(answer(&mut parts).starts_with("HTTP/1.1 200 "));
    let large = answer(&mut unread);
    assert_eq!(large.len() - large.find("\r\n\r\n").unwrap() - 4, 8 << 20);
    served.end();
}

#[test]
fn unfinished_requests_make_room_for_others() {
    let served = Served::begin();
    let begin = Instant::now();
    let mut unfinished: Vec<TcpStream> = (0..CONNECTIONS + 8).map(|_| served.connect()).collect();
    unfinished.iter_mut().for_each(|stream| stream.write_all(b"GET /acc").unwrap());
    assert!(served.ask("GET /accept HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
    assert!((REQUEST_DEADLINE..DEADLINE).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    served.end();
}

#[test]
fn a_byte_wakes_it_and_the_end_of_the_stream_ends_it() {
    let served = Served::begin();
    let mut wake = served.wake.as_ref().unwrap();
    wake.write_all(b"x").unwrap();
    served.ask("GET /accept HTTP/1.1\r\n\r\n");
    assert!(served.end() > 0);
}
