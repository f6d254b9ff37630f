//! Lines from a pipe or a file: run in turn, without a word from us.

use std::io::{self, BufRead as _};

use super::Line;
use crate::run::session::Typed;
use crate::script::syntax::Syntax;

/// Reads up to the end. A line that is no whole statement goes on with the next one.
pub(super) fn read(line: &Line) {
    let syntax = Syntax::new();
    let mut lines = io::stdin().lock().lines();
    while line.is_wanted() {
        let Some(Ok(mut text)) = lines.next() else { break };
        while !syntax.is_complete(&text) {
            let Some(Ok(more)) = lines.next() else { break };
            text.push('\n');
            text.push_str(&more);
        }
        line.send(Typed::Line(text));
    }
    line.send(Typed::End);
}
