//! A family of numbers as protobuf, written directly: with a message object for each series and
//! each label, allocations would take most of a scrape.
//!
//! The messages are those of `io.prometheus.client` (metrics.proto of the Prometheus client model),
//! as prometheus-client encodes them; a test compares the two.

use super::labels::Labels;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

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
    /// A `Metric`.
    metric: Vec<u8>,
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
        FamilyWriter { of, family, metric: Vec::new(), unit: unit.to_owned() }
    }

    /// Adds a series.
    pub(super) fn push(&mut self, labels: &Labels, value: f64) {
        let metric = &mut self.metric;
        metric.clear();
        for (name, text) in labels.pairs() {
            push_length(metric, LABEL, text_length(name) + text_length(&text));
            push_text(metric, LABEL_NAME, name);
            push_text(metric, LABEL_VALUE, &text);
        }
        // The default of a field is not encoded.
        if value == 0.0 {
            push_length(metric, self.of.field, 0);
        } else {
            push_length(metric, self.of.field, key_len(VALUE) + size_of::<f64>());
            encode_key(VALUE, WireType::SixtyFourBit, metric);
            metric.extend_from_slice(&value.to_le_bytes());
        }
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

/// Returns the length of a field of text in a `LabelPair`.
fn text_length(text: &str) -> usize {
    match text.len() {
        0 => 0,
        length => key_len(LABEL_VALUE) + encoded_len_varint(length as u64) + length,
    }
}

/// Appends a field of bytes or of a message.
fn push_bytes(message: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    push_length(message, field, bytes.len());
    message.extend_from_slice(bytes);
}

/// Appends the beginning of a field of bytes or of a message.
fn push_length(message: &mut Vec<u8>, field: u32, length: usize) {
    let key = field << 3 | WireType::LengthDelimited as u32;
    match (u8::try_from(key), u8::try_from(length)) {
        // Most are a byte each, for which the loop of the library takes long.
        (Ok(key @ 0..0x80), Ok(length @ 0..0x80)) => message.extend_from_slice(&[key, length]),
        _ => {
            encode_key(field, WireType::LengthDelimited, message);
            encode_varint(length as u64, message);
        }
    }
}
