//! The boolean structure of a filter: its `&&`, `||`, `!` and parentheses, without regard to the
//! conditions between them.
//!
//! A quoted text has no escapes, as in the kernel's filters. A text with a `?:` is one condition,
//! because `?:` has the lowest precedence.

use std::ops::Range;

use crate::event::filter::NESTING_MAX;
use crate::event::syntax::SyntaxError;

/// How a span is joined. The inner spans are trimmed; only a span in parentheses may be empty.
pub(super) enum BooleanNode {
    Not(Range<usize>),
    All(Vec<Range<usize>>),
    Any(Vec<Range<usize>>),
    /// A span in parentheses.
    Inner(Range<usize>),
}

/// The boolean structure of a filter's text.
pub(super) struct BooleanStructure<'a> {
    pub(super) text: &'a str,
}

impl BooleanStructure<'_> {
    /// Checks a span and everything in it.
    ///
    /// # Errors
    /// As [`BooleanStructure::of`]; also an empty span, or too many nested parentheses.
    pub(super) fn check(&self, span: Range<usize>, depth: usize) -> Result<(), SyntaxError> {
        self.check_depth(&span, depth)?;
        match self.of(&span)? {
            Some(BooleanNode::All(spans) | BooleanNode::Any(spans)) => {
                spans.into_iter().try_for_each(|span| self.check(span, depth + 1))
            }
            Some(BooleanNode::Inner(inner) | BooleanNode::Not(inner)) => {
                self.check(inner, depth + 1)
            }
            _ if span.is_empty() => Err(self.missing(&span, depth)),
            _ => Ok(()),
        }
    }

    pub(super) fn check_depth(&self, span: &Range<usize>, depth: usize) -> Result<(), SyntaxError> {
        let message = || format!("more than {NESTING_MAX} nested parentheses");
        (depth <= NESTING_MAX).then_some(()).ok_or_else(|| self.fault(span.start, message()))
    }

    /// Returns the error for an empty span.
    pub(super) fn missing(&self, span: &Range<usize>, depth: usize) -> SyntaxError {
        let message = match depth {
            0 => "the filter is empty",
            _ => "a condition is missing here: FIELD OP VALUE",
        };
        self.fault(span.start, message)
    }

    /// Returns how a span is joined; None if it is one condition.
    ///
    /// # Errors
    /// Unbalanced quotes or parentheses, or a missing condition.
    pub(super) fn of(&self, span: &Range<usize>) -> Result<Option<BooleanNode>, SyntaxError> {
        let marks = self.marks(span)?;
        if marks.iter().any(|(_, mark)| *mark == Mark::Choice) {
            return Ok(None);
        }
        for (operator, part) in [
            (Mark::Or, BooleanNode::Any as fn(_) -> _),
            (Mark::And, BooleanNode::All as fn(_) -> _),
        ] {
            let at: Vec<usize> =
                marks.iter().filter(|(_, mark)| *mark == operator).map(|(at, _)| *at).collect();
            if !at.is_empty() {
                return Ok(Some(part(self.between(span, &at)?)));
            }
        }
        let text = self.span(span);
        let bare = text.trim_start_matches(|c: char| c == '!' || c.is_whitespace());
        let open = span.end - bare.len();
        let closed = marks.last().is_some_and(|(at, mark)| {
            *mark == Mark::Close && at + 1 == span.end && marks.len() == 1
        });
        if !(bare.starts_with('(') && closed) {
            return Ok(None);
        }
        let inner = trimmed(self.text, open + 1..span.end - 1);
        let nots = text[..open - span.start].matches('!').count();
        Ok(Some(if nots % 2 == 1 { BooleanNode::Not(inner) } else { BooleanNode::Inner(inner) }))
    }

    /// Returns the spans between the operators at `at`, which have two characters each.
    fn between(&self, span: &Range<usize>, at: &[usize]) -> Result<Vec<Range<usize>>, SyntaxError> {
        let starts = std::iter::once(span.start).chain(at.iter().map(|at| at + 2));
        let ends = at.iter().copied().chain([span.end]);
        let spans: Vec<_> =
            starts.zip(ends).map(|(from, to)| trimmed(self.text, from..to)).collect();
        match spans.iter().position(Range::is_empty) {
            None => Ok(spans),
            Some(index) if index + 1 == spans.len() => {
                let message = "a condition is missing after this: FIELD OP VALUE";
                Err(self.fault(span.end, message))
            }
            Some(index) => {
                let message = "a condition is missing before this: FIELD OP VALUE";
                Err(self.fault(at[index], message))
            }
        }
    }

    /// Returns the operators of a span outside quotes and parentheses, and the ends of its outer
    /// parentheses.
    fn marks(&self, span: &Range<usize>) -> Result<Vec<(usize, Mark)>, SyntaxError> {
        let (mut marks, mut open) = (Vec::new(), Vec::new());
        let text = self.span(span);
        let mut chars = text.char_indices().peekable();
        while let Some((offset, c)) = chars.next() {
            let at = span.start + offset;
            match c {
                '"' | '\'' => {
                    let closed = chars.by_ref().any(|(_, other)| other == c);
                    let message = || format!("this quote is not closed by another {c}");
                    closed.then_some(()).ok_or_else(|| self.fault(at, message()))?;
                }
                '(' | '[' | '{' => open.push((at, c)),
                ')' | ']' | '}' => {
                    let opening = match c {
                        ')' => '(',
                        ']' => '[',
                        _ => '{',
                    };
                    if open.pop().is_none_or(|(_, o)| o != opening) {
                        let message = format!("this `{c}` has no matching `{opening}`");
                        return Err(self.fault(at, message));
                    }
                    if open.is_empty() && c == ')' {
                        marks.push((at, Mark::Close));
                    }
                }
                '&' | '|' if chars.peek().is_some_and(|(_, next)| *next == c) => {
                    chars.next();
                    if open.is_empty() {
                        marks.push((at, if c == '&' { Mark::And } else { Mark::Or }));
                    }
                }
                '?' if open.is_empty() => marks.push((at, Mark::Choice)),
                _ => {}
            }
        }
        match open.first() {
            Some((at, c)) => Err(self.fault(*at, format!("this `{c}` is not closed"))),
            None => Ok(marks),
        }
    }

    fn span(&self, span: &Range<usize>) -> &str {
        self.text.get(span.clone()).unwrap_or_default()
    }

    fn fault(&self, at: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.text, at, message)
    }
}

/// Returns a span without the spaces around it.
pub(super) fn trimmed(text: &str, span: Range<usize>) -> Range<usize> {
    let inner = text.get(span.clone()).unwrap_or_default();
    let start = span.start + inner.len() - inner.trim_start().len();
    start..start + inner.trim().len()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mark {
    And,
    Or,
    /// `?`, which has a lower precedence than both.
    Choice,
    /// The `)` of an outer parenthesis.
    Close,
}
