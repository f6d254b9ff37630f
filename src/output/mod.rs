//! What a run has to say, as bytes: rows in, text or JSON or `.events` out. Knows no records and no Lua.
//!
//! Each format implements [`Draw`](crate::base::draw::Draw) over a buffer in memory that `flush` hands to
//! the operating system: at each interval, and in between when 64 KiB are pending. Drawing an event
//! neither allocates nor formats through `std::fmt`, since `trace` does it for every record.

pub mod delays;
pub mod events;
pub mod file;
mod fit;
pub mod folded;
pub mod heatmap;
pub mod json;
mod laid;
pub mod latencies;
#[cfg(test)]
mod probe;
pub mod screen;
pub mod svg;
mod table;
pub mod text;
mod wall;

use std::ffi::OsStr;
use std::io;

/// What was asked for: `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourChoice {
    /// As the place of output and the environment suggest.
    #[default]
    Auto,
    /// Asked for by name.
    Always,
    /// Refused by name.
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

/// Decides about colour: on a terminal and without `NO_COLOR` (set and not empty), unless the choice was
/// made by name, which outweighs both (<https://no-color.org>).
pub fn colour(choice: ColourChoice, is_terminal: bool, no_color: Option<&OsStr>) -> Colour {
    let unwanted = no_color.is_some_and(|value| !value.is_empty());
    match choice {
        ColourChoice::Always => Colour::Always,
        ColourChoice::Auto if is_terminal && !unwanted => Colour::Always,
        ColourChoice::Auto | ColourChoice::Never => Colour::Never,
    }
}

/// So much pending output does not wait for the interval.
const LARGE: usize = 64 * 1024;

/// Bytes that were drawn, and where they go.
struct Sink {
    buffer: Vec<u8>,
    writer: Box<dyn io::Write>,
}

impl Sink {
    fn new(writer: Box<dyn io::Write>) -> Sink {
        // A line may pass the mark before it is noticed.
        Sink { buffer: Vec::with_capacity(LARGE + 4096), writer }
    }

    /// Writes what is pending. What could not be written is dropped: a reader that has gone does not come back.
    fn flush(&mut self) -> io::Result<()> {
        let result = self.writer.write_all(&self.buffer).and_then(|()| self.writer.flush());
        self.buffer.clear();
        result
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
