//! A family of numbers as protobuf, written directly: with a message object for each series and
//! each label, allocations would take most of a scrape.
//!
//! The messages are those of `io.prometheus.client` (metrics.proto of the Prometheus client model),
//! as prometheus-client encodes them; a test compares the two.

use super::labels::Labels;
use prost::encoding::{WireType, encode_key, encode_varint};

/// The type of a family of numbers: a number of `MetricType`, and the field of `Metric` with the
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumberType {
    kind: u64,
    field: u32,
}

impl NumberType {
    /// A number that never decreases.
    pub(super) const COUNTER: NumberType = NumberType { kind: 0, field: 3 };
    /// A number that can decrease.
    pub(super) const GAUGE: NumberType = NumberType { kind: 1, field: 2 };
}

// Fields of `MetricFamily`.
const NAME: u32 = 1;
const HELP: u32 = 2;
const TYPE: u32 = 3;
const METRIC: u32 = 4;
const UNIT: u32 = 5;
/// Field of `Metric`.
const LABEL: u32 = 1;
// Fields of `LabelPair`.
const LABEL_NAME: u32 = 1;
const LABEL_VALUE: u32 = 2;
/// Field of `Counter` and of `Gauge`.
const VALUE: u32 = 1;

/// Writes a family as a message with its length before it.
pub(super) struct FamilyWriter {
    of: NumberType,
    /// The message, without its length.
    family: Vec<u8>,
    /// A `Metric`, and a message in it.
    metric: Vec<u8>,
    inner: Vec<u8>,
    unit: String,
}

impl FamilyWriter {
    /// Begins a family. `name` has its unit, and no suffix for its type.
    pub(super) fn new(of: NumberType, name: &str, help: &str, unit: &str) -> FamilyWriter {
        let mut family = Vec::new();
        let suffix = if of == NumberType::COUNTER { "_total" } else { "" };
        push_text(&mut family, NAME, &format!("{name}{suffix}"));
        push_text(&mut family, HELP, help);
        if of.kind != 0 {
            encode_key(TYPE, WireType::Varint, &mut family);
            encode_varint(of.kind, &mut family);
        }
        let (metric, inner, unit) = (Vec::new(), Vec::new(), unit.to_owned());
        FamilyWriter { of, family, metric, inner, unit }
    }

    /// Adds a series.
    pub(super) fn push(&mut self, labels: &Labels, value: f64) {
        self.metric.clear();
        for (name, text) in labels {
            self.inner.clear();
            push_text(&mut self.inner, LABEL_NAME, name);
            push_text(&mut self.inner, LABEL_VALUE, text);
            push_bytes(&mut self.metric, LABEL, &self.inner);
        }
        self.inner.clear();
        // The default of a field is not encoded.
        if value != 0.0 {
            encode_key(VALUE, WireType::SixtyFourBit, &mut self.inner);
            self.inner.extend_from_slice(&value.to_le_bytes());
        }
        push_bytes(&mut self.metric, self.of.field, &self.inner);
        push_bytes(&mut self.family, METRIC, &self.metric);
    }

    /// Appends the family to a page.
    pub(super) fn finish(mut self, page: &mut Vec<u8>) {
        push_text(&mut self.family, UNIT, &self.unit);
        encode_varint(self.family.len() as u64, page);
        page.extend_from_slice(&self.family);
    }
}

/// Appends a field of text, unless it is empty.
fn push_text(message: &mut Vec<u8>, field: u32, text: &str) {
    if !text.is_empty() {
        push_bytes(message, field, text.as_bytes());
    }
}

/// Appends a field of bytes or of a message.
fn push_bytes(message: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    encode_key(field, WireType::LengthDelimited, message);
    encode_varint(bytes.len() as u64, message);
    message.extend_from_slice(bytes);
}
