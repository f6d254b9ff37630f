//! The data file of a latency heat map, for other programs: one line per delay, with its end and
//! its length.
//!
//! Both are in microseconds, with the nanoseconds as decimals. The first line, a `#` comment, has
//! the start time. `trace2heatmap.pl` and `numpy.loadtxt` read this format.

use super::folded::time_frames;
use crate::base::report::draw::Stamp;
use jiff::tz::TimeZone;
use std::io::{self, Write};

/// Maximum number of lines, half a gigabyte, so that a forgotten run does not fill the disk.
const LINES: u64 = 1 << 24;

/// A latency file that is being written.
pub struct Latencies<W> {
    out: W,
    lines: u64,
}

impl<W: Write> Latencies<W> {
    /// Begins the file of a run that began at `begin`.
    ///
    /// # Errors
    /// `out` cannot be written to.
    pub fn begin(mut out: W, begin: Stamp, zone: &TimeZone) -> io::Result<Latencies<W>> {
        let (date, time) = time_frames(zone, begin.wall_ns);
        writeln!(out, "# microseconds since {date} {time}; delay in microseconds")?;
        Ok(Latencies { out, lines: 0 })
    }

    /// Adds a delay that ended at `time`; both in nanoseconds.
    ///
    /// # Errors
    /// The writer fails.
    pub fn write(&mut self, time: f64, delay: f64) -> io::Result<()> {
        if self.lines == LINES {
            return Ok(());
        }
        self.lines += 1;
        let (time, delay) = (time as u64, delay as u64);
        let (us, ns) = (time / 1000, time % 1000);
        writeln!(self.out, "{us}.{ns:03} {}.{:03}", delay / 1000, delay % 1000)
    }

    /// Flushes the file and returns the number of its delays.
    ///
    /// # Errors
    /// The writer fails.
    pub fn end(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_time_and_a_delay_in_microseconds() {
        let mut out = Vec::new();
        let stamp = Stamp { wall_ns: 1_763_715_600_000_000_000, ..Stamp::default() };
        let mut file = Latencies::begin(&mut out, stamp, &TimeZone::UTC).unwrap();
        file.write(1_234_567.0, 89.0).unwrap();
        file.write(2e9, 1e6).unwrap();
        assert_eq!(file.end().unwrap(), 2);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "# microseconds since 2025-11-21 09:00:00; delay in microseconds\n\
             1234.567 0.089\n2000000.000 1000.000\n"
        );
    }
}
