//! The types of columns.

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnKind {
    /// No value was seen yet; the column is not part of a file.
    Unknown,
    Bool,
    Int,
    Uint,
    Double,
    /// Microseconds since the Unix epoch, UTC.
    Time,
    /// Nanoseconds of a clock, which grow by small steps.
    Clock,
    /// Text in UTF-8.
    Text,
    Bytes,
    /// A list of signed integers.
    Ints,
    /// A list of unsigned integers.
    Uints,
    /// A list of texts.
    Texts,
    /// A list of `(low, high, count)`.
    Buckets,
}

impl ColumnKind {
    /// Returns the kind that has the values of both: text if no other does.
    pub(super) fn join(self, other: ColumnKind) -> ColumnKind {
        use ColumnKind::{Double, Int, Text, Uint, Unknown};
        match (self, other) {
            (one, other) if one == other => one,
            (Unknown, one) | (one, Unknown) => one,
            (Double, Int | Uint) | (Int | Uint, Double) => Double,
            _ => Text,
        }
    }

    pub(super) fn is_list(self) -> bool {
        use ColumnKind::{Buckets, Ints, Texts, Uints};
        matches!(self, Ints | Uints | Texts | Buckets)
    }
}
