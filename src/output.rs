//! Output formats: reports and events in; text, JSON, CSV, Parquet or `.events` out. Independent of
//! records and of Lua.
//!
//! Each format implements [`Draw`](crate::base::report::draw::Draw) over a buffer in memory, which
//! `flush` writes to the operating system: at each interval, and whenever 64 KiB are pending.
//! Drawing an event without a stack neither allocates nor formats through `std::fmt`, because
//! `trace` draws every record.

mod counts;
pub mod csv;
pub mod events;
pub mod file;
pub mod firefox;
pub mod folded;
pub mod format;
pub mod heat_page;
mod heat_svg;
pub mod heatmap;
pub mod json;
pub mod lat_file;
pub mod latency_heatmap;
mod layout;
pub mod messages;
pub mod metrics;
mod omitted_rows;
pub mod otlp;
pub mod parquet;
pub mod perfetto;
pub mod pprof;
mod profile;
pub mod screen;
mod shrink;
pub mod svg;
mod table;
#[cfg(test)]
mod test_support;
pub mod text;
mod wall;

use std::ffi::OsStr;
use std::io;

/// When text is coloured: the value of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always coloured.
    Always,
    /// Never coloured.
    Never,
}

/// Whether text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// With escape sequences.
    Always,
    /// Plain.
    #[default]
    Never,
}

/// Returns whether to use colour. An explicit choice has priority; otherwise colour is used on a
/// terminal, unless `NO_COLOR` is set and not empty (<https://no-color.org>).
pub fn colour(choice: ColourChoice, is_terminal: bool, no_color: Option<&OsStr>) -> Colour {
    let unwanted = no_color.is_some_and(|value| !value.is_empty());
    match choice {
        ColourChoice::Always => Colour::Always,
        ColourChoice::Auto if is_terminal && !unwanted => Colour::Always,
        ColourChoice::Auto | ColourChoice::Never => Colour::Never,
    }
}

/// Pending bytes above which output is written before the end of the interval.
const LARGE: usize = 64 * 1024;

/// Drawn bytes, and the writer that they go to.
struct ByteSink {
    buffer: Vec<u8>,
    writer: Box<dyn io::Write>,
    /// The result of writing a part of a report before the rest is drawn.
    early: io::Result<()>,
}

impl ByteSink {
    fn new(writer: Box<dyn io::Write>) -> ByteSink {
        // A line may exceed the limit before it is checked.
        ByteSink { buffer: Vec::with_capacity(LARGE + 4096), writer, early: Ok(()) }
    }

    /// Writes the pending bytes. Bytes that could not be written are dropped, because a reader that
    /// has gone does not return.
    fn flush(&mut self) -> io::Result<()> {
        let result = self.writer.write_all(&self.buffer).and_then(|()| self.writer.flush());
        self.buffer.clear();
        std::mem::replace(&mut self.early, Ok(())).and(result)
    }

    /// Writes the pending bytes of a report if they are many, so that a report of many rows does
    /// not need their memory. The next flush returns the error.
    fn write_early(&mut self) {
        if self.buffer.len() >= LARGE {
            self.early = self.flush();
        }
    }

    fn flush_if_large(&mut self) -> io::Result<()> {
        if self.buffer.len() < LARGE { Ok(()) } else { self.flush() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_needs_a_terminal_and_no_objection() {
        use ColourChoice::*;
        let unset = None;
        let (set, empty) = (Some(OsStr::new("1")), Some(OsStr::new("")));
        assert_eq!(colour(Auto, true, unset), Colour::Always);
        assert_eq!(colour(Auto, true, empty), Colour::Always);
        assert_eq!(colour(Auto, true, set), Colour::Never);
        assert_eq!(colour(Auto, false, unset), Colour::Never);
        assert_eq!(colour(Never, true, unset), Colour::Never);
        assert_eq!(colour(Always, false, set), Colour::Always);
    }
}
