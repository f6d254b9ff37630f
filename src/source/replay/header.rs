//! Parses the lines of a recording's header that are about the whole run.

use jiff::Timestamp;

use super::line;
use crate::base::event::slot::CPUS_MAX;
use crate::base::text::cpulist;
use crate::base::text::fault::Fault;

/// A line about the whole run.
#[derive(Debug)]
pub(super) enum HeaderLine {
    /// `# wall TIME`: the wall-clock time of 0, in nanoseconds since the Unix epoch.
    Wall(i64),
    /// `# cpus LIST`: the watched CPUs, ascending.
    Cpus(Vec<u32>),
    /// `# end SECONDS`: the end of the run, in nanoseconds.
    End(u64),
}

/// Parses a line of the header; None for any other line, which may be a comment that begins like
/// one.
///
/// # Errors
/// The time of `# wall` is not in RFC 3339 format.
pub(super) fn parse(source: &str) -> Option<Result<HeaderLine, Fault>> {
    if let Some(text) = source.strip_prefix("# wall ") {
        return text.starts_with(|c: char| c.is_ascii_digit()).then(|| {
            let what = "the time is not as in RFC 3339, for example 2026-11-21T09:00:00Z";
            let fault = || Fault::new("# wall ".len(), what);
            wall_ns(text.trim()).map(HeaderLine::Wall).ok_or_else(fault)
        });
    }
    if let Some(text) = source.strip_prefix("# end ") {
        return line::nanoseconds(text.trim()).map(|end| Ok(HeaderLine::End(end)));
    }
    let cpus = cpulist::parse(source.strip_prefix("# cpus ")?.trim()).ok()?;
    cpus.iter().all(|cpu| *cpu < CPUS_MAX).then_some(Ok(HeaderLine::Cpus(cpus)))
}

fn wall_ns(text: &str) -> Option<i64> {
    let time: Timestamp = text.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok()
}
