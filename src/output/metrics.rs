//! Metrics for Prometheus: the measurements of all intervals, accumulated and exposed.
//!
//! A report is about one interval; a counter of Prometheus never decreases. [`MetricStore`] adds
//! the intervals up for each series. A series is a family (`perilune_syscalls_duration_seconds`)
//! with the values of its labels. Families have a limit of series: rows above it are counted, and
//! added to the series whose labels are all `(other)`.

mod exponential;
pub(in crate::output) mod export;
mod exposition;
mod labels;
mod names;
mod number_family;
mod script_tables;
mod store;
mod text_family;

pub use exposition::{ExpositionFormat, expose};
pub use names::identifier;
pub use script_tables::tables_of_reports;
pub use store::{MetricInterval, MetricStore, SERIES};

#[cfg(test)]
mod tests;
