//! Parses the header with the wall-clock time of a recording.

use jiff::Timestamp;

use crate::base::text::fault::Fault;

/// Parses the time of a `# wall TIME` line, in nanoseconds since the Unix epoch; None for any other
/// line.
///
/// # Errors
/// The time is not in RFC 3339 format.
pub(super) fn header(source: &str) -> Option<Result<i64, Fault>> {
    let text = source.strip_prefix("# wall ")?;
    text.starts_with(|c: char| c.is_ascii_digit()).then(|| {
        let what = "the time is not as in RFC 3339, for example 2026-11-21T09:00:00Z";
        nanoseconds(text.trim()).ok_or_else(|| Fault::new("# wall ".len(), what))
    })
}

fn nanoseconds(text: &str) -> Option<i64> {
    let time: Timestamp = text.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok()
}
