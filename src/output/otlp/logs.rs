//! Log records of what a run prints: emitted events and rows, alerts, warnings and errors.
//!
//! [`LoggedOutput`] is in front of another output. It makes a record of each and puts it into a
//! queue with a limit of their number and size; a record that does not fit is counted and dropped.
//! It never waits.

use super::{Any, attribute, text_attribute};
use crate::base::event::value::Value;
use crate::base::report::cell::Cell;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{Draw, EventLine, EventText, Level, OpenedEvent, Report, Stamp};
use crate::base::report::metric::MetricTable;
use crate::base::report::run_record::RunRecord;
use crate::base::report::run_stats::Stats;
use crate::base::text::message::utf8;
use crate::base::text::stack_style::StackStyle;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};
use prost::Message as _;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of records that wait, and of their bytes: one text may have many kilobytes.
const WAITING: usize = 4096;
const WAITING_BYTES: usize = 16 << 20;

/// A log record.
#[derive(Clone, Debug, PartialEq)]
pub struct OtlpLog(LogRecord);

impl OtlpLog {
    pub(super) fn into_record(self) -> LogRecord {
        self.0
    }
}

/// The records that wait to be sent.
#[derive(Clone, Debug, Default)]
pub struct LogQueue(Arc<Mutex<WaitingLogs>>);

#[derive(Debug, Default)]
struct WaitingLogs {
    records: Vec<OtlpLog>,
    /// Bytes of the records in a request.
    bytes: usize,
    dropped: u64,
}

impl LogQueue {
    /// Takes the records.
    pub fn take(&self) -> Vec<OtlpLog> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.bytes = 0;
        std::mem::take(&mut queue.records)
    }

    /// Returns the number of records that wait.
    pub fn waiting(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).records.len() as u64
    }

    /// Returns the number of records so far for which there was no room.
    pub fn dropped(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).dropped
    }

    /// Adds the record that `make` returns, if there is room for it.
    fn add(&self, make: impl FnOnce() -> LogRecord) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.records.len() >= WAITING || queue.bytes >= WAITING_BYTES {
            queue.dropped += 1;
        } else {
            let record = make();
            queue.bytes += record.encoded_len();
            queue.records.push(OtlpLog(record));
        }
    }
}

/// An output whose events, rows and messages are also log records.
pub struct LoggedOutput {
    inner: Box<dyn Draw>,
    queue: LogQueue,
    monitor: String,
    stacks: StackStyle,
}

impl LoggedOutput {
    /// Returns an output in front of `inner`.
    pub fn new(
        inner: Box<dyn Draw>,
        queue: LogQueue,
        monitor: &str,
        stacks: StackStyle,
    ) -> LoggedOutput {
        LoggedOutput { inner, queue, monitor: monitor.to_owned(), stacks }
    }

    fn record(&self, stamp: Stamp, name: &str, severity: SeverityNumber) -> LogRecord {
        let time = u64::try_from(stamp.wall_ns).unwrap_or(0);
        LogRecord {
            time_unix_nano: time,
            observed_time_unix_nano: time,
            severity_number: severity as i32,
            event_name: name.to_owned(),
            attributes: vec![text_attribute("perilune.monitor", &self.monitor)],
            ..LogRecord::default()
        }
    }

    fn log_event(&self, event: &EventLine<'_>) {
        self.queue.add(|| {
            let mut record = self.record(event.stamp, event.name, SeverityNumber::Info);
            let plain = |text: &[u8]| Any::StringValue(utf8(text).into_owned());
            // Signed, as in the kernel: -1 is a task that is being released.
            let number = |id: u32| Any::IntValue(id.cast_signed().into());
            record.attributes.extend([
                attribute("process.pid", number(event.pid)),
                attribute("thread.id", number(event.tid)),
                attribute("thread.name", plain(event.comm)),
                attribute("cpu", Any::IntValue(event.cpu.into())),
            ]);
            let fields = event.fields.iter().map(|(key, value)| of_value(key, value));
            fields.for_each(|field| add_own(&mut record.attributes, field));
            let extra = event.extra.iter().map(|(key, cell)| of_cell(key, cell));
            extra.for_each(|cell| add_own(&mut record.attributes, cell));
            if let Some(detail) = event.detail {
                record.attributes.extend([
                    attribute("detail", integer(detail.number.into())),
                    attribute("offset_ns", Any::IntValue(detail.offset_ns)),
                ]);
            }
            if !event.stack.is_empty() {
                let frames = self.stacks.chosen(event.stack);
                let frames = frames.iter().map(|frame| Any::StringValue(self.stacks.text(frame)));
                record.attributes.push(attribute("stack", array(frames)));
            }
            let mut text = Vec::new();
            match event.text {
                EventText::Printer(printed) => text.extend_from_slice(printed),
                // Without a text, the fields suffice.
                EventText::Format(print) => drop(print(&mut text)),
                EventText::Fields => {}
            }
            if !text.is_empty() {
                record.body = Some(AnyValue { value: Some(plain(&text)) });
            }
            record
        });
    }

    fn log_text(&self, stamp: Stamp, level: Level, text: &str) {
        let (name, severity) = match level {
            Level::Info => return,
            Level::Warning => ("warning", SeverityNumber::Warn),
            Level::Alert => ("alert", SeverityNumber::Warn2),
            Level::Error => ("error", SeverityNumber::Error),
        };
        // The sender's own messages: sending them would make a receiver's failure its next request.
        if text.starts_with("--otlp ") {
            return;
        }
        self.queue.add(|| {
            let body = Some(AnyValue { value: Some(Any::StringValue(text.to_owned())) });
            LogRecord { body, ..self.record(stamp, name, severity) }
        });
    }

    fn log_row(&self, stamp: Stamp, row: &[(String, Cell)]) {
        self.queue.add(|| {
            let mut record = self.record(stamp, "row", SeverityNumber::Info);
            record.attributes.extend(row.iter().map(|(key, cell)| of_cell(key, cell)));
            record
        });
    }
}

/// Attributes of an event besides its fields.
const RESERVED: [&str; 4] = ["cpu", "detail", "offset_ns", "stack"];

/// Adds a field of an event, or what the script added to it. Each key occurs once in a record: a
/// repeated one gets `_`.
fn add_own(attributes: &mut Vec<KeyValue>, mut own: KeyValue) {
    if RESERVED.contains(&own.key.trim_end_matches('_')) {
        own.key.push('_');
    }
    while attributes.iter().any(|other| other.key == own.key) {
        own.key.push('_');
    }
    attributes.push(own);
}

/// Returns an integer. OTLP has those of 64 bits with a sign: what does not fit is text.
fn integer(number: i128) -> Any {
    match i64::try_from(number) {
        Ok(number) => Any::IntValue(number),
        Err(_) => Any::StringValue(number.to_string()),
    }
}

fn array(values: impl Iterator<Item = Any>) -> Any {
    let values = values.map(|value| AnyValue { value: Some(value) }).collect();
    Any::ArrayValue(ArrayValue { values })
}

fn of_value(key: &str, value: &Value<'_>) -> KeyValue {
    let any = match value {
        Value::Int(number) => Any::IntValue(*number),
        Value::Uint(number) => integer((*number).into()),
        Value::Pointer(address) => Any::StringValue(format!("{address:#x}")),
        Value::Float(number) => Any::DoubleValue(*number),
        Value::Text(text) => Any::StringValue(utf8(text).into_owned()),
        Value::Bytes(bytes) => Any::BytesValue(bytes.to_vec()),
        Value::Array { .. } => array(value.elements().map(integer)),
    };
    attribute(key, any)
}

fn of_cell(key: &str, cell: &Cell) -> KeyValue {
    let any = match cell {
        Cell::Empty => return KeyValue { key: key.to_owned(), ..KeyValue::default() },
        Cell::Int(number) => integer(number.get()),
        Cell::Num(number) => Any::DoubleValue(*number),
        Cell::Bool(value) => Any::BoolValue(*value),
        Cell::Text(text) => Any::StringValue(text.clone()),
        Cell::Stack(stack) => Any::StringValue(stack.frames.join(";")),
    };
    attribute(key, any)
}

impl Draw for LoggedOutput {
    fn opened(&mut self, events: &[OpenedEvent]) {
        self.inner.opened(events);
    }

    fn run_record(&mut self, stamp: Stamp, record: &RunRecord<'_>) {
        self.inner.run_record(stamp, record);
    }

    fn event(&mut self, event: &mut EventLine<'_>) {
        self.log_event(event);
        self.inner.event(event);
    }

    fn keeps_events(&self) -> bool {
        true
    }

    fn drawn_event(&mut self, event: &mut EventLine<'_>) {
        self.log_event(event);
        self.inner.drawn_event(event);
    }

    fn report(&mut self, stamp: Stamp, parts: &[Report]) {
        for part in parts {
            if let Report::Row(row) = part {
                self.log_row(stamp, row);
            }
        }
        self.inner.report(stamp, parts);
    }

    fn measured(&mut self, stamp: Stamp, tables: &[MetricTable]) {
        self.inner.measured(stamp, tables);
    }

    fn answer(&mut self, parts: &[Report]) {
        self.inner.answer(parts);
    }

    fn line(&mut self, text: &str) {
        self.inner.line(text);
    }

    fn note(&mut self, stamp: Stamp, level: Level, text: &str) {
        self.log_text(stamp, level, text);
        self.inner.note(stamp, level, text);
    }

    fn script_note(&mut self, stamp: Stamp, text: &str) {
        self.inner.script_note(stamp, text);
    }

    fn coverage(&mut self, stamp: Stamp, coverage: &Coverage, last: bool) {
        self.inner.coverage(stamp, coverage, last);
    }

    fn stats(&mut self, stamp: Stamp, stats: &Stats) {
        self.inner.stats(stamp, stats);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    fn flush_if_large(&mut self) -> io::Result<()> {
        self.inner.flush_if_large()
    }

    fn end(&mut self) -> io::Result<()> {
        self.inner.end()
    }
}
