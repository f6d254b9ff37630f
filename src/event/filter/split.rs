//! An event's filter, told apart: the conjuncts that the kernel takes, and those that are left for user space.
//!
//! A record that the kernel rejects costs a fifth of one that comes to us, so whatever of `a && b && c` the
//! kernel's filter language can say goes to the kernel, and only the rest comes with the records. A conjunct is never
//! taken apart: `prev_pid > 100 || comm_get(prev_pid) == "x"` is for user space whole.
//!
//! In user space a part in the kernel's language keeps the kernel's meaning ([`Bound`]: cut numbers, unterminated text,
//! globs with a `!`), so that a condition means the same wherever it ends up; anything else is a C expression. A quoted
//! text has no escapes, as in the kernel.

mod joints;
#[cfg(test)]
mod tests;

use std::ops::Range;

use joints::{Joint, Joints, trimmed};

use super::{Bound, Filter, KernelOnly, LONGEST};
use crate::{
    base::nearest::nearest,
    decode::format::Format,
    event::{
        catalog::{Event, What},
        expr::Expr,
        syntax::SyntaxError,
    },
};

/// A filter told apart. Everything passes the default.
#[derive(Clone, Debug, Default)]
pub struct Split {
    /// For the kernel; None lets everything through.
    pub kernel: Option<Filter>,
    /// For user space, to be met as well.
    pub rest: Vec<Rest>,
}

/// One conjunct that is left for user space.
#[derive(Clone, Debug)]
pub struct Rest {
    /// As typed.
    pub text: String,
    /// What it asks of an event.
    pub condition: Condition,
}

/// What user space asks of an event.
#[derive(Clone, Debug)]
pub enum Condition {
    /// In the kernel's language, with the kernel's meaning.
    Kernel(Bound),
    /// A C expression, met unless it is 0.
    Value(Expr),
    /// Met when the other is not.
    Not(Box<Condition>),
    /// Met when all are.
    All(Vec<Condition>),
    /// Met when one is.
    Any(Vec<Condition>),
}

/// Conditions of a filter at most, joined by `&&` and `||`: splitting takes quadratic time, and a
/// Lua function has limits, too.
const CONDITIONS_MAX: usize = 1000;

/// Bytes of the kernel's longest filter that are left for what a run adds, such as its own thread.
const SPARE: usize = 256;

impl Split {
    /// Tells an event's filter apart.
    ///
    /// # Errors
    /// What neither the kernel nor an expression takes, at its place: the fault of whichever of the two came further.
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
        let kernel_takes = matches!(event.what, What::Tracepoint { .. });
        reader.conjuncts(whole, 0, &mut |span, part| {
            let found = match part {
                Part::Kernel(filter) if kernel_takes => {
                    Split { kernel: Some(filter), rest: Vec::new() }
                }
                part => {
                    let condition = reader.condition(part, &span, 0)?;
                    let rest = Rest { text: reader.of(&span).to_owned(), condition };
                    Split { kernel: None, rest: vec![rest] }
                }
            };
            split.add(found, &event.name, format);
            Ok(())
        })?;
        Ok(split)
    }

    /// Checks what can be checked without the event: that quotes and parentheses are closed, and no condition is missing.
    pub fn check_joints(text: &str) -> Result<(), SyntaxError> {
        Joints { text }.check(trimmed(text, 0..text.len()), 0)
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
                if both.to_kernel().len() + SPARE <= LONGEST {
                    Some(both)
                } else {
                    match more.bind(event, format) {
                        Ok(bound) => {
                            self.rest.push(Rest::of_kernel(&more, bound));
                            Some(before)
                        }
                        // Only the kernel can tell: it is asked, and says what it thinks of the length.
                        Err(_) => Some(both),
                    }
                }
            }
            (before, more) => before.or(more),
        };
    }
}

impl Rest {
    /// A condition in the kernel's language that the kernel does not get.
    pub fn of_kernel(filter: &Filter, bound: Bound) -> Rest {
        Rest { text: filter.to_kernel(), condition: Condition::Kernel(bound) }
    }
}

/// What a span of the text turned out to be.
enum Part {
    /// The kernel takes it.
    Kernel(Filter),
    Value(Expr),
    Joined(Joint),
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
        take: &mut dyn FnMut(Range<usize>, Part) -> Result<(), SyntaxError>,
    ) -> Result<(), SyntaxError> {
        match self.part(&span, depth)? {
            Part::Joined(Joint::All(spans)) => {
                spans.into_iter().try_for_each(|span| self.conjuncts(span, depth + 1, take))
            }
            Part::Joined(Joint::Inner(inner)) => self.conjuncts(inner, depth + 1, take),
            part => take(span, part),
        }
    }

    /// The condition of a part, for user space.
    fn condition(
        &self,
        part: Part,
        span: &Range<usize>,
        depth: usize,
    ) -> Result<Condition, SyntaxError> {
        let depth = depth + 1;
        Ok(match part {
            Part::Kernel(filter) => Condition::Kernel(self.bind(&filter, span)?),
            Part::Value(expr) => Condition::Value(expr),
            Part::Joined(Joint::Inner(inner)) => {
                self.condition(self.part(&inner, depth)?, &inner, depth)?
            }
            Part::Joined(Joint::Not(inner)) => {
                let inner = self.condition(self.part(&inner, depth)?, &inner, depth)?;
                Condition::Not(Box::new(inner))
            }
            Part::Joined(Joint::All(spans)) => {
                Condition::All(self.conditions(spans, depth, Filter::and)?)
            }
            Part::Joined(Joint::Any(spans)) => {
                Condition::Any(self.conditions(spans, depth, Filter::or)?)
            }
        })
    }

    /// The conditions of several parts. Those in the kernel's language become one, and come first: they cost least.
    fn conditions(
        &self,
        spans: Vec<Range<usize>>,
        depth: usize,
        join: fn(Filter, Filter) -> Filter,
    ) -> Result<Vec<Condition>, SyntaxError> {
        let (mut of_kernel, mut rest): (Option<(Filter, Range<usize>)>, _) = (None, Vec::new());
        for span in spans {
            match (self.part(&span, depth)?, of_kernel.take()) {
                (Part::Kernel(filter), Some((before, first))) => {
                    of_kernel = Some((join(before, filter), first));
                }
                (Part::Kernel(filter), None) => of_kernel = Some((filter, span)),
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

    fn bind(&self, filter: &Filter, span: &Range<usize>) -> Result<Bound, SyntaxError> {
        filter.bind(self.event, self.format).map_err(|why| match why {
            KernelOnly::Unfit(fault) => self.moved(fault, span.start),
            KernelOnly::Condition(only) | KernelOnly::UserText(only) => self.fault(
                span.start,
                format!(
                    "only the kernel can tell `{only}`, and it does not take what this is joined with; \
                     let it stand alone, joined to the rest with &&"
                ),
            ),
        })
    }

    /// A fault of a span's text, in the whole text.
    fn moved(&self, fault: SyntaxError, start: usize) -> SyntaxError {
        self.fault(start + fault.place, fault.message)
    }

    /// What a span is: the kernel's, if the kernel takes all of it; else its parts; else an expression.
    fn part(&self, span: &Range<usize>, depth: usize) -> Result<Part, SyntaxError> {
        let joints = Joints { text: self.text };
        joints.check_depth(span, depth)?;
        let text = self.of(span);
        let refusal = match self.for_kernel(text) {
            Ok(filter) => return Ok(Part::Kernel(filter)),
            Err(why) => self.moved(why, span.start),
        };
        if let Some(joint) = joints.of(span)? {
            return Ok(Part::Joined(joint));
        }
        if text.is_empty() {
            return Err(joints.missing(span, depth));
        }
        match Expr::parse(text, self.event, self.format) {
            Ok(expr) if expr.condition().is_some() => Ok(Part::Value(expr)),
            Ok(_) => {
                let message = "a text is neither true nor false; compare it with == != or ~";
                Err(self.fault(span.start, message))
            }
            Err(why) => Err(self.better(refusal, self.moved(why, span.start), span)),
        }
    }

    fn for_kernel(&self, text: &str) -> Result<Filter, SyntaxError> {
        let filter = Filter::parse(text)?.for_event(self.event, self.format);
        filter.check(self.event, self.format)?;
        Ok(filter)
    }

    /// Which fault of a span to show. Whoever writes what only C has (a bare value, calls, elements, arithmetic) wants to
    /// hear of C, whoever misspelt a field of it, too; else the kernel's is shown, if it came as far.
    fn better(
        &self,
        kernel: SyntaxError,
        expression: SyntaxError,
        span: &Range<usize>,
    ) -> SyntaxError {
        let behind = self.of(&(kernel.place..span.end));
        let end = behind.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let (word, next) = behind.split_at(end.unwrap_or(behind.len()));
        let is_c = match behind.chars().next() {
            None => expression.place < kernel.place,
            Some(c) if "([+-*/%^?<>".contains(c) => true,
            Some(c) if kernel.place == span.start && !c.is_alphabetic() => true,
            Some(c) if c.is_alphabetic() || c == '_' => {
                let fields = self.format.fields.iter().map(|field| field.name.as_str());
                next.trim_start().starts_with('(') || !nearest(word, fields).is_empty()
            }
            Some(_) => false,
        };
        if is_c || expression.place > kernel.place { expression } else { kernel }
    }
}
