//! A Prometheus server that scrapes one port, and requests over HTTP.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Returns a free port of the loopback interface.
pub(super) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}

/// Returns the body of a page.
pub(super) fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer is UTF-8");
    let (head, body) = answer.split_once("\r\n\r\n").expect("the answer has a head");
    assert!(head.contains(" 200 "), "{path}: {head}");
    body.to_owned()
}

/// A running server.
pub(super) struct Prometheus {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts a server that scrapes `target` each second. Returns None if it is not installed.
    pub(super) fn start(target: u16, features: &[&str]) -> Option<Prometheus> {
        let folder = TempDir::new().expect("a folder can be created");
        let config = folder.path().join("prometheus.yml");
        let text = format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: perilune\n    \
             static_configs:\n      - targets: ['127.0.0.1:{target}']\n"
        );
        std::fs::write(&config, text).expect("the file can be written");
        let port = super::free_port();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(features)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let server = Prometheus { child, port, _folder: folder };
        server.wait_until_ready();
        Some(server)
    }

    fn wait_until_ready(&self) {
        let since = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(since.elapsed() < super::PATIENCE, "prometheus does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the result of a query that has one.
    pub(super) fn query(&self, query: &str) -> Option<f64> {
        let plain = |b: &u8| b.is_ascii_alphanumeric() || b"_.".contains(b);
        let escaped: String = (query.as_bytes().iter())
            .map(|b| if plain(b) { char::from(*b).to_string() } else { format!("%{b:02X}") })
            .collect();
        let answer = get(self.port, &format!("/api/v1/query?query={escaped}"));
        let answer: Value = serde_json::from_str(&answer).expect("the API answers with JSON");
        let result = answer["data"]["result"].as_array().expect("a query has results");
        assert!(result.len() < 2, "{query}: {answer}");
        result.first()?["value"][1].as_str()?.parse().ok()
    }

    /// Returns the state of the scraped target.
    pub(super) fn target(&self) -> Option<Value> {
        let answer = get(self.port, "/api/v1/targets");
        let answer: Value = serde_json::from_str(&answer).ok()?;
        answer["data"]["activeTargets"].get(0).cloned()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
