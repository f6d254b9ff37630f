//! Splits an event's filter into conjuncts for the kernel and conjuncts for user space.
//!
//! A record that the kernel rejects costs a fifth of one that is delivered. Each conjunct of
//! `a && b && c` that the kernel's filter language can express therefore goes to the kernel; only
//! the rest is checked in user space. A conjunct is never split:
//! `prev_pid > 100 || comm_get(prev_pid) == "x"` is checked in user space as a whole.
//!
//! In user space, a part in the kernel's language keeps the kernel's meaning ([`BoundFilter`]:
//! unterminated text, globs with a `!`), so a condition means the same in both places. Any other
//! part is a C expression, and so is one with a number beyond the range of its field, which the
//! kernel would truncate: `len > 300` is never true of 8 bits. A quoted text has no escapes, as in
//! the kernel.

mod boolean_structure;
#[cfg(test)]
mod tests;

use std::ops::Range;

use boolean_structure::{BooleanNode, BooleanStructure, trimmed};

use super::{BoundFilter, Filter, KernelOnly, LONGEST, RESERVED_BYTES};
use crate::{
    base::matching::nearest::nearest,
    decode::format::Format,
    event::{expr::Expr, kind::Event, sample_field::SampleFields, syntax::SyntaxError},
};

/// A split filter. The default passes everything.
#[derive(Clone, Debug, Default)]
pub struct Split {
    /// For the kernel; None passes everything.
    pub kernel: Option<Filter>,
    /// Further conditions, for user space.
    pub rest: Vec<UserCondition>,
}

/// One conjunct that is checked in user space.
#[derive(Clone, Debug)]
pub struct UserCondition {
    /// The conjunct as typed.
    pub text: String,
    /// Its condition.
    pub condition: Condition,
}

/// A condition that is checked in user space.
#[derive(Clone, Debug)]
pub enum Condition {
    /// In the kernel's language, with the kernel's meaning.
    Kernel(BoundFilter),
    /// A C expression, met unless it is 0.
    Value(Expr),
    /// Met if the inner condition is not.
    Not(Box<Condition>),
    /// Met if all are met.
    All(Vec<Condition>),
    /// Met if one is met.
    Any(Vec<Condition>),
}

impl Condition {
    /// Returns the fields that it reads and that are recorded only on request.
    pub fn extra(&self) -> SampleFields {
        match self {
            Condition::Kernel(_) => SampleFields::default(),
            Condition::Value(expr) => expr.extra(),
            Condition::Not(inner) => inner.extra(),
            Condition::All(all) | Condition::Any(all) => {
                all.iter().fold(SampleFields::default(), |extra, one| extra.or(one.extra()))
            }
        }
    }
}

/// Maximum number of conditions joined by `&&` and `||`: splitting takes quadratic time, and a Lua
/// function has limits, too.
const CONDITIONS_MAX: usize = 1000;

impl Split {
    /// Splits an event's filter.
    ///
    /// # Errors
    /// A part is valid neither for the kernel nor as an expression; the error is that of the parser
    /// that came further, with its position. Also too many conditions or parentheses, and a
    /// condition that only the kernel can evaluate, joined with one that it does not accept.
    pub fn parse(text: &str, event: &Event) -> Result<Split, SyntaxError> {
        let empty = Format::default();
        let format = event.format().unwrap_or(&empty);
        let reader = Reader { text, event: &event.name, format };
        let mut split = Split::default();
        let conditions = 1 + text.matches("&&").count() + text.matches("||").count();
        if conditions > CONDITIONS_MAX {
            let many = format!("{conditions} conditions; a filter has at most {CONDITIONS_MAX}");
            return Err(reader.fault(0, many));
        }
        let whole = trimmed(text, 0..text.len());
        let kernel_takes = event.kind().raw_format().is_some();
        reader.conjuncts(whole, 0, &mut |span, part| {
            let found = match part {
                SpanKind::Kernel(filter) if kernel_takes && !filter.reads_unset(format) => {
                    Split { kernel: Some(filter), rest: Vec::new() }
                }
                part => {
                    let condition = reader.condition(part, &span, 0)?;
                    let rest = UserCondition { text: reader.of(&span).to_owned(), condition };
                    Split { kernel: None, rest: vec![rest] }
                }
            };
            split.add(found, &event.name, format);
            Ok(())
        })?;
        Ok(split)
    }

    /// Checks what can be checked without the event.
    ///
    /// # Errors
    /// Unclosed quotes or parentheses, too many nested parentheses, or a missing condition.
    pub fn check_structure(text: &str) -> Result<(), SyntaxError> {
        BooleanStructure { text }.check(trimmed(text, 0..text.len()), 0)
    }

    /// Narrows it by another filter of the same event.
    pub fn and(mut self, other: Split, event: &Event) -> Split {
        let empty = Format::default();
        self.add(other, &event.name, event.format().unwrap_or(&empty));
        self
    }

    fn add(&mut self, other: Split, event: &str, format: &Format) {
        self.rest.extend(other.rest);
        self.kernel = match (self.kernel.take(), other.kernel) {
            (Some(before), Some(more)) => {
                let both = before.clone().and(more.clone());
                if both.to_kernel().len() + RESERVED_BYTES <= LONGEST {
                    Some(both)
                } else {
                    match more.bind(event, format) {
                        Ok(bound) => {
                            self.rest.push(UserCondition::of_kernel(&more, bound));
                            Some(before)
                        }
                        // Only the kernel can evaluate it: sends both, whatever their length.
                        Err(_) => Some(both),
                    }
                }
            }
            (before, more) => before.or(more),
        };
    }
}

impl UserCondition {
    /// Returns a condition in the kernel's language that is checked in user space.
    pub fn of_kernel(filter: &Filter, bound: BoundFilter) -> UserCondition {
        UserCondition { text: filter.to_kernel(), condition: Condition::Kernel(bound) }
    }
}

/// Classification of a span of the text.
enum SpanKind {
    /// Valid for the kernel.
    Kernel(Filter),
    Value(Expr),
    Joined(BooleanNode),
}

struct Reader<'a> {
    text: &'a str,
    event: &'a str,
    format: &'a Format,
}

impl<'a> Reader<'a> {
    fn of(&self, span: &Range<usize>) -> &'a str {
        self.text.get(span.clone()).unwrap_or_default()
    }

    fn fault(&self, at: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.text, at, message)
    }

    /// Calls `take` with each top-level conjunct of a span, in order.
    fn conjuncts(
        &self,
        span: Range<usize>,
        depth: usize,
        take: &mut dyn FnMut(Range<usize>, SpanKind) -> Result<(), SyntaxError>,
    ) -> Result<(), SyntaxError> {
        let part = match self.part(&span, depth)? {
            // Only the conjuncts that read such a value are for user space.
            SpanKind::Kernel(filter) if filter.reads_unset(self.format) => {
                match (BooleanStructure { text: self.text }).of(&span)? {
                    Some(joint @ (BooleanNode::All(_) | BooleanNode::Inner(_))) => {
                        SpanKind::Joined(joint)
                    }
                    _ => SpanKind::Kernel(filter),
                }
            }
            part => part,
        };
        match part {
            SpanKind::Joined(BooleanNode::All(spans)) => {
                spans.into_iter().try_for_each(|span| self.conjuncts(span, depth + 1, take))
            }
            SpanKind::Joined(BooleanNode::Inner(inner)) => self.conjuncts(inner, depth + 1, take),
            part => take(span, part),
        }
    }

    /// Returns the user-space condition of a part.
    fn condition(
        &self,
        part: SpanKind,
        span: &Range<usize>,
        depth: usize,
    ) -> Result<Condition, SyntaxError> {
        let depth = depth + 1;
        Ok(match part {
            SpanKind::Kernel(filter) => Condition::Kernel(self.bind(&filter, span)?),
            SpanKind::Value(expr) => Condition::Value(expr),
            SpanKind::Joined(BooleanNode::Inner(inner)) => {
                self.condition(self.part(&inner, depth)?, &inner, depth)?
            }
            SpanKind::Joined(BooleanNode::Not(inner)) => {
                let inner = self.condition(self.part(&inner, depth)?, &inner, depth)?;
                Condition::Not(Box::new(inner))
            }
            SpanKind::Joined(BooleanNode::All(spans)) => {
                Condition::All(self.conditions(spans, depth, Filter::and)?)
            }
            SpanKind::Joined(BooleanNode::Any(spans)) => {
                Condition::Any(self.conditions(spans, depth, Filter::or)?)
            }
        })
    }

    /// Returns the conditions of several parts. Those in the kernel's language are joined into one,
    /// which comes first because it costs least.
    fn conditions(
        &self,
        spans: Vec<Range<usize>>,
        depth: usize,
        join: fn(Filter, Filter) -> Filter,
    ) -> Result<Vec<Condition>, SyntaxError> {
        let (mut of_kernel, mut rest): (Option<(Filter, Range<usize>)>, _) = (None, Vec::new());
        for span in spans {
            match (self.part(&span, depth)?, of_kernel.take()) {
                (SpanKind::Kernel(filter), Some((before, first))) => {
                    of_kernel = Some((join(before, filter), first));
                }
                (SpanKind::Kernel(filter), None) => of_kernel = Some((filter, span)),
                (part, before) => {
                    of_kernel = before;
                    rest.push(self.condition(part, &span, depth)?);
                }
            }
        }
        let first =
            of_kernel.map(|(filter, span)| self.bind(&filter, &span).map(Condition::Kernel));
        Ok(first.transpose()?.into_iter().chain(rest).collect())
    }

    fn bind(&self, filter: &Filter, span: &Range<usize>) -> Result<BoundFilter, SyntaxError> {
        filter.bind(self.event, self.format).map_err(|why| match why {
            KernelOnly::Unfit(fault) => self.moved(fault, span.start),
            KernelOnly::Condition(only) | KernelOnly::UserText(only) => self.fault(
                span.start,
                format!(
                    "only the kernel can evaluate `{only}`, and it does not support the condition \
                     that this is joined with; join it to all other conditions with &&"
                ),
            ),
        })
    }

    /// Moves an error in a span's text to its position in the whole text.
    fn moved(&self, error: SyntaxError, start: usize) -> SyntaxError {
        self.fault(start + error.fault.at, error.fault.message)
    }

    /// Classifies a span: the kernel's if it is valid for the kernel; else joined parts; else an
    /// expression.
    fn part(&self, span: &Range<usize>, depth: usize) -> Result<SpanKind, SyntaxError> {
        let joints = BooleanStructure { text: self.text };
        joints.check_depth(span, depth)?;
        let text = self.of(span);
        let refusal = match self.for_kernel(text) {
            Ok(filter) => return Ok(SpanKind::Kernel(filter)),
            Err(why) => self.moved(why, span.start),
        };
        if let Some(joint) = joints.of(span)? {
            return Ok(SpanKind::Joined(joint));
        }
        if text.is_empty() {
            return Err(joints.missing(span, depth));
        }
        match Expr::parse(text, self.event, self.format) {
            Ok(expr) if expr.condition().is_some() => Ok(SpanKind::Value(expr)),
            Ok(_) => {
                let message = "text is neither true nor false; compare it with == != or ~";
                Err(self.fault(span.start, message))
            }
            Err(why) => Err(self.better(refusal, self.moved(why, span.start), span)),
        }
    }

    fn for_kernel(&self, text: &str) -> Result<Filter, SyntaxError> {
        let filter = Filter::parse(text)?.for_event(self.event, self.format);
        filter.check(self.event, self.format)?;
        if filter.truncates_number(self.format) {
            return Err(self.fault(0, "a number is beyond the range of the field"));
        }
        Ok(filter)
    }

    /// Selects the error of a span to report: the expression's for syntax that only C has (a bare
    /// value, calls, elements, arithmetic) and for misspelled fields; the kernel's for a pattern
    /// without quotes; otherwise the error at the later position, and the kernel's if both are at
    /// the same position.
    fn better(
        &self,
        kernel: SyntaxError,
        expression: SyntaxError,
        span: &Range<usize>,
    ) -> SyntaxError {
        let behind = self.of(&(kernel.fault.at..span.end));
        let end = behind.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let (word, next) = behind.split_at(end.unwrap_or(behind.len()));
        let is_pattern = self.of(&(span.start..kernel.fault.at)).trim_end().ends_with('~');
        if is_pattern && kernel.fault.at > span.start && !next.trim_start().starts_with('(') {
            return kernel;
        }
        let is_c = match behind.chars().next() {
            None => expression.fault.at < kernel.fault.at,
            Some(c) if "([+-*/%^?<>".contains(c) => true,
            Some(c) if kernel.fault.at == span.start && !c.is_alphabetic() => true,
            Some(c) if c.is_alphabetic() || c == '_' => {
                let fields = self.format.fields.iter().map(|field| field.name.as_str());
                next.trim_start().starts_with('(') || !nearest(word, fields).is_empty()
            }
            Some(_) => false,
        };
        if is_c || expression.fault.at > kernel.fault.at { expression } else { kernel }
    }
}
