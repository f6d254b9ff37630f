//! The resource of all requests: this process on this host.

use super::{Any, attribute, text_attribute};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// The source of the measurements, by the semantic conventions of OpenTelemetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpResource {
    /// `host.name`.
    pub host: String,
    /// `process.pid`.
    pub pid: u32,
}

impl OtlpResource {
    pub(super) fn message(&self) -> Resource {
        let attributes = vec![
            text_attribute("service.name", "perilune"),
            text_attribute("service.version", env!("CARGO_PKG_VERSION")),
            text_attribute("host.name", &self.host),
            attribute("process.pid", Any::IntValue(self.pid.into())),
        ];
        Resource { attributes, ..Resource::default() }
    }
}
