//! A receiver of OTLP that decodes with the official definitions.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::Value;

use crate::live::skip;

/// A running receiver.
pub(super) struct OtlpReceiver {
    child: Child,
    lines: Receiver<Value>,
    pub(super) url: String,
}

impl OtlpReceiver {
    /// Starts a receiver that answers the first `failures` requests with a status.
    pub(super) fn start(status: u16, failures: Option<u32>) -> OtlpReceiver {
        let python = std::env::var("PERILUNE_OTLP_PYTHON").unwrap_or_else(|_| "python3".into());
        let port = super::free_port();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel/metrics/receiver.py");
        let mut child = Command::new(python)
            .args([script, &port.to_string(), &status.to_string()])
            .args(failures.map(|failures| failures.to_string()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|why| skip(&format!("no python3: {why}")));
        let out = child.stdout.take().expect("stdout is piped");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let decoded = serde_json::from_str(&line).expect("it prints JSON");
                if sender.send(decoded).is_err() {
                    return;
                }
            }
        });
        let receiver = OtlpReceiver { child, lines, url: format!("http://127.0.0.1:{port}") };
        if receiver.next().is_none() {
            skip("no opentelemetry-proto; set PERILUNE_OTLP_PYTHON to a python that has it");
        }
        receiver
    }

    /// Returns the next request, or None if it does not come.
    pub(super) fn next(&self) -> Option<Value> {
        self.lines.recv_timeout(super::PATIENCE).ok()
    }

    /// Returns all requests so far, after the run has ended.
    pub(super) fn rest(&self) -> Vec<Value> {
        std::iter::from_fn(|| self.lines.recv_timeout(Duration::from_millis(300)).ok()).collect()
    }
}

impl Drop for OtlpReceiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the points of a metric in a request, whatever its kind.
pub(super) fn points<'a>(request: &'a Value, name: &str) -> Vec<&'a Value> {
    let all = &request["request"]["resourceMetrics"][0]["scopeMetrics"];
    let scopes = all.as_array().into_iter().flatten();
    let metrics = scopes.flat_map(|scope| scope["metrics"].as_array().into_iter().flatten());
    let named = metrics.filter(|metric| metric["name"] == name);
    named
        .flat_map(|metric| data_of(metric)["dataPoints"].as_array().into_iter().flatten())
        .collect()
}

/// Returns the data of a metric: its sum, gauge or histogram.
pub(super) fn data_of(metric: &Value) -> &Value {
    let kinds = ["sum", "gauge", "histogram", "exponentialHistogram"];
    kinds.iter().map(|kind| &metric[kind]).find(|data| !data.is_null()).unwrap_or(&Value::Null)
}

/// Returns an attribute of a point, a record or a resource.
pub(super) fn attribute<'a>(of: &'a Value, key: &str) -> Option<&'a Value> {
    let all = of["attributes"].as_array()?.iter();
    let value = all.clone().find(|one| one["key"] == key)?;
    value["value"].as_object()?.values().next()
}

/// Returns a number that JSON has as a number or, with 64 bits, as text.
pub(super) fn number(value: &Value) -> f64 {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(f64::NAN)
}
