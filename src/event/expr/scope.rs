//! The names and functions that an expression may use.

use crate::decode::format::Format;

/// The names that an expression may use.
#[derive(Clone, Copy, Debug)]
pub enum ExprNames<'a> {
    /// The fields of an event, and the values of every sample.
    Event {
        /// Name of the event, for messages.
        event: &'a str,
        /// Fields of the event.
        format: &'a Format,
    },
    /// The variable `key`.
    Key,
}

/// The names and functions that an expression may use.
#[derive(Clone, Copy, Debug)]
pub struct ExprScope<'a> {
    /// The names.
    pub names: ExprNames<'a>,
    /// Whether it may start programs with `system`.
    pub system: bool,
}
