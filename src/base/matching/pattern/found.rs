//! Results and errors of a search.

/// A part of the subject, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// Start of the capture.
    pub start: u32,
    /// Length of the capture.
    pub length: CaptureLength,
}

/// The length of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaptureLength {
    /// Its closing parenthesis is missing.
    #[default]
    Unfinished,
    /// `()`: a position capture.
    Position,
    /// Bytes.
    Bytes(u32),
}

/// A match: from `start` up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// The first byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

/// Why a match ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum PatternError {
    /// `%1` before the first capture is closed.
    CaptureIndex = -2,
    /// More than [`CAPTURES_MAX`](super::CAPTURES_MAX).
    TooManyCaptures = -3,
    /// A capture without `)`.
    UnfinishedCapture = -4,
    /// `%f` without `[`.
    Frontier = -5,
    /// `)` without `(`.
    CaptureEnd = -6,
    /// A `%` at the end.
    EscapeEnd = -7,
    /// `[` without `]`.
    Bracket = -8,
    /// `%b` without two characters.
    Balance = -9,
    /// Nested too deep.
    TooComplex = -10,
    /// `stop` returned true.
    Stopped = -11,
}
