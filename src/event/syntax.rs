//! Syntax errors: a message, the typed text, and a caret below the position.

use std::fmt;

use crate::base::text::fault::Fault;

/// A syntax error. Prints the message, the text and a caret line:
///
/// ```text
/// `=` is not a comparison; write `==`
///     prev_pid = 1
///              ^
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The problem and its position in `text`.
    pub fault: Fault,
    /// The whole typed text.
    pub text: String,
}

/// Characters of the text that are shown on each side of the caret.
const AROUND: usize = 60;

impl SyntaxError {
    pub(crate) fn new(text: &str, at: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError { fault: Fault::new(at.min(text.len()), message), text: text.to_owned() }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, behind) = self.text.split_at(floor_char(&self.text, self.fault.at));
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        let skipped = before.chars().count().saturating_sub(AROUND);
        let left: String = before.chars().skip(skipped).map(shown).collect();
        let right: String = behind.chars().take(AROUND).map(shown).collect();
        let (head, tail) = (cut(skipped > 0), cut(behind.chars().nth(AROUND).is_some()));
        let column = head.len() + left.chars().count();
        write!(f, "{}\n    {head}{left}{right}{tail}\n    {:column$}^", self.fault.message, "")
    }
}

impl std::error::Error for SyntaxError {}

fn cut(is_cut: bool) -> &'static str {
    if is_cut { "..." } else { "" }
}

fn floor_char(text: &str, place: usize) -> usize {
    (0..=place.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_is_below_the_position() {
        let error = SyntaxError::new("pid = 1", 4, "what");
        assert_eq!(error.to_string(), "what\n    pid = 1\n        ^");
        let error = SyntaxError::new("pid ==", 99, "what");
        assert_eq!(error.to_string(), "what\n    pid ==\n          ^");
    }

    #[test]
    fn the_caret_column_counts_characters_not_bytes() {
        let error = SyntaxError::new("é\tx", 3, "what");
        assert_eq!(error.to_string(), "what\n    é x\n      ^");
        assert!(SyntaxError::new("é", 1, "").to_string().contains("é"));
    }

    #[test]
    fn a_long_text_is_shortened_around_the_position() {
        let text = "a".repeat(500);
        let lines: Vec<String> =
            SyntaxError::new(&text, 250, "x").to_string().lines().map(Into::into).collect();
        assert_eq!(lines[1].len(), 4 + 3 + 60 + 60 + 3);
        assert_eq!(lines[2].find('^'), Some(4 + 3 + 60));
    }
}
