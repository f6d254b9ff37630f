//! A fault in a text: where it is, and the problem. Parsers return it; their callers add the text.

/// The first fault of a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Byte offset in the text; its length if something is missing at the end.
    pub at: usize,
    /// The problem and its fix.
    pub message: String,
}

impl Fault {
    /// Creates a fault at a byte offset.
    pub fn new(at: usize, message: impl Into<String>) -> Fault {
        Fault { at, message: message.into() }
    }
}
