//! Messages without results: notes, warnings, alerts and errors of a run that only exports its
//! reports.

use super::text::{TextOptions, TextOutput};
use crate::base::report::draw::{Draw, Level, Stamp};
use std::io::{self, Write};

/// Draws messages, and discards events and reports.
pub struct MessagesOutput(TextOutput);

impl MessagesOutput {
    /// Returns an output that writes to `messages` at once.
    pub fn new(messages: Box<dyn Write>, look: TextOptions) -> MessagesOutput {
        MessagesOutput(TextOutput::new(Box::new(io::sink()), messages, look))
    }
}

impl Draw for MessagesOutput {
    fn note(&mut self, stamp: Stamp, level: Level, text: &str) {
        match level {
            // An alert is a result in text; here it is a message.
            Level::Alert => self.0.note(stamp, Level::Error, &format!("alert: {text}")),
            level => self.0.note(stamp, level, text),
        }
    }

    fn script_note(&mut self, stamp: Stamp, text: &str) {
        self.0.script_note(stamp, text);
    }
}
