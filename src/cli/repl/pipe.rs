//! Reads lines from a pipe or a file, without a prompt.

use std::io::{self, BufRead as _};

use super::LineReader;
use crate::run::session::ConsoleMessage;
use crate::script::vm::syntax::Syntax;

/// Reads to the end. An incomplete statement continues with the next line.
pub(super) fn read(line: &LineReader) {
    let syntax = Syntax::new();
    let mut lines = io::stdin().lock().lines();
    while line.is_wanted() {
        let Some(Ok(mut text)) = lines.next() else { break };
        while !syntax.is_complete(&text) {
            let Some(Ok(more)) = lines.next() else { break };
            text.push('\n');
            text.push_str(&more);
        }
        line.send(ConsoleMessage::Line(text));
    }
    line.send(ConsoleMessage::End);
}
