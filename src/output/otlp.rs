//! OTLP, the protocol of OpenTelemetry: metrics, log records and profiles as requests over HTTP.
//!
//! Metrics are those of [`super::metrics`] with the same names, so that a dashboard shows both.
//! Values are cumulative since the start of the run. The messages follow opentelemetry-proto
//! (<https://github.com/open-telemetry/opentelemetry-proto>).

mod logs;
mod metrics;
mod profiles;
mod resource;
#[cfg(test)]
mod tests;
mod url;

pub use logs::{LogQueue, LoggedOutput, OtlpLog};
pub use metrics::metrics_request;
pub use profiles::{OtlpProfile, profiles_request};
pub use resource::OtlpResource;
pub use url::OtlpUrl;

use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceResponse;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{ResourceLogs, ScopeLogs};
use prost::Message as _;

/// A kind of request, with a path of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpSignal {
    /// Metrics.
    Metrics,
    /// Log records.
    Logs,
    /// Profiles.
    Profiles,
}

impl OtlpSignal {
    /// Returns the path below the URL of the receiver.
    pub fn path(self) -> &'static str {
        match self {
            OtlpSignal::Metrics => "/v1/metrics",
            OtlpSignal::Logs => "/v1/logs",
            OtlpSignal::Profiles => "/v1development/profiles",
        }
    }

    /// Returns how many items of a request the receiver has rejected, by its answer, and why. A
    /// request has fewer than 2^32 items.
    pub fn rejected(self, answer: &[u8]) -> Option<(u64, String)> {
        let (count, why) = match self {
            OtlpSignal::Metrics => {
                let partial = ExportMetricsServiceResponse::decode(answer).ok()?.partial_success?;
                (partial.rejected_data_points, partial.error_message)
            }
            OtlpSignal::Logs => {
                let partial = ExportLogsServiceResponse::decode(answer).ok()?.partial_success?;
                (partial.rejected_log_records, partial.error_message)
            }
            OtlpSignal::Profiles => {
                let partial = ExportProfilesServiceResponse::decode(answer).ok()?.partial_success?;
                (partial.rejected_profiles, partial.error_message)
            }
        };
        let count = u64::try_from(count).ok()?.min(u32::MAX.into());
        (count > 0).then_some((count, why))
    }
}

/// Returns the request that has these log records.
pub fn logs_request(resource: &OtlpResource, records: Vec<OtlpLog>) -> Vec<u8> {
    let log_records = records.into_iter().map(OtlpLog::into_record).collect();
    let scope_logs =
        vec![ScopeLogs { scope: Some(scope("perilune")), log_records, ..ScopeLogs::default() }];
    let resource = Some(resource.message());
    let resource_logs = vec![ResourceLogs { resource, scope_logs, ..ResourceLogs::default() }];
    ExportLogsServiceRequest { resource_logs }.encode_to_vec()
}

fn scope(name: &str) -> InstrumentationScope {
    InstrumentationScope {
        name: name.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

fn attribute(key: &str, value: Any) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

fn text_attribute(key: &str, text: &str) -> KeyValue {
    attribute(key, Any::StringValue(text.to_owned()))
}
