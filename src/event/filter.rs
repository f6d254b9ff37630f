//! The kernel's tracepoint filter language, such as
//! `prev_state == 0 && (prev_comm ~ "nginx*" || CPU & CPUS{0-3})`.
//!
//! The kernel evaluates filters before it writes a record, at a fifth of the cost of the record. It
//! reports only EINVAL, EPERM, ENOENT or ESRCH for a filter that it refuses, each for many reasons.
//! Filters are therefore parsed here first, to report the problem and its position. If one
//! tracepoint serves several roles, each role's own filter is evaluated here ([`BoundFilter`]) with
//! the kernel's semantics: widths, signs, truncated numbers, unterminated text.
//!
//! The parser accepts what the kernel accepts, except for filters that never work as written: an
//! operator at the very end (`pid == 1 &&`), a number compared with an array or a bitmask, and
//! `STACKTRACE`. [`Filter::to_kernel`] rewrites two forms that the kernel misreads: in
//! `(f.function == name)` it takes the parenthesis for a part of the name, and for some globs it
//! uses shortcuts that match incorrectly. [`Filter::for_event`] changes a third form.
//!
//! Names from the user-space filters of an older tool are translated: `__cpu` to `CPU`, `__pid` to
//! `common_pid`, and `comm_get(__pid)` to `COMM`.
//!
//! Source: kernel/trace/trace_events_filter.c, Documentation/trace/events.rst, and experiments with
//! Linux 6.18.

mod address;
mod assemble;
mod check;
mod eval;
mod lua;
pub mod names;
mod parse;
mod print;
mod range;
pub mod split;
#[cfg(test)]
mod tests;

use std::rc::Rc;

pub use eval::{BoundFilter, COMM_ROOM, FilterInput, KernelOnly};
pub use print::quote;

use crate::decode::format::{Element, Field, FieldKind, Format};
use crate::event::syntax::SyntaxError;

/// Maximum length of a filter in bytes: the kernel copies one page, terminator included.
pub const LONGEST: usize = 4095;
/// Bytes of [`LONGEST`] reserved for conditions that a run adds, such as the exclusion of its own
/// threads.
pub const RESERVED_BYTES: usize = 256;
/// Maximum nesting of parentheses; the kernel limits only the length.
const NESTING_MAX: usize = 64;

/// A parsed filter. Two filters are equal if the kernel would get the same text.
#[derive(Clone, Debug)]
pub struct Filter {
    root: FilterNode,
}

impl Filter {
    /// Parses a filter. [`Filter::check`] checks its fields and what they are compared with.
    ///
    /// # Errors
    /// A syntax error, with its position, or a filter that is too long for the kernel.
    pub fn parse(text: &str) -> Result<Filter, SyntaxError> {
        parse::parse(text).map(|root| Filter { root })
    }

    /// Returns the filter as meant for an event: compares text with the memory of the task that a
    /// system call's pointer argument points to (`.ustring`). Without it, the kernel would look for
    /// the text in its own memory and find nothing.
    pub fn for_event(mut self, event: &str, format: &Format) -> Filter {
        self.root.for_event(event, format);
        self
    }

    /// Returns the conditions that all have to be met, one by one.
    pub fn conjuncts(&self) -> Vec<Filter> {
        match &self.root {
            FilterNode::And(nodes) => {
                nodes.iter().map(|node| Filter { root: node.clone() }).collect()
            }
            _ => vec![self.clone()],
        }
    }

    /// Returns the number of its comparisons.
    pub fn comparisons(&self) -> usize {
        self.root.comparisons()
    }

    /// Returns whether it compares text in a task's memory, which the kernel reads only while the
    /// page is resident.
    pub fn reads_user_memory(&self) -> bool {
        self.root.has(&|predicate| predicate.reading == FieldReading::UserText)
    }

    /// Returns whether it reads a value that the kernel may leave unset in a record: the kernel
    /// would compare whatever bytes are there.
    pub fn reads_unset(&self, format: &Format) -> bool {
        let may_be_unset = |field: &Field| {
            let is_text = field.kind == FieldKind::DataLoc(Element::Fetched);
            is_text || format.unset.has(field.offset)
        };
        format.fields.iter().any(may_be_unset)
            && self.root.has(&|one| format.field(&one.field).is_some_and(may_be_unset))
    }

    /// Returns the filter without the conditions that [`Filter::to_kernel`] prints as `text`; None
    /// if no condition is left.
    pub fn without(&self, text: &str) -> Option<Filter> {
        let conjuncts = self.conjuncts().into_iter();
        conjuncts.filter(|filter| filter.to_kernel() != text).reduce(Filter::and)
    }

    /// Returns a filter that passes what passes both.
    pub fn and(self, other: Filter) -> Filter {
        let mut all = Vec::new();
        for root in [self.root, other.root] {
            match root {
                FilterNode::And(nodes) => all.extend(nodes),
                node => all.push(node),
            }
        }
        Filter { root: FilterNode::And(all) }
    }

    /// Returns a filter that passes what passes either.
    pub fn or(self, other: Filter) -> Filter {
        let mut all = Vec::new();
        for root in [self.root, other.root] {
            match root {
                FilterNode::Or(nodes) => all.extend(nodes),
                node => all.push(node),
            }
        }
        Filter { root: FilterNode::Or(all) }
    }
}

impl PartialEq for Filter {
    fn eq(&self, other: &Filter) -> bool {
        self.to_kernel() == other.to_kernel()
    }
}

impl Eq for Filter {}

#[derive(Clone, Debug)]
enum FilterNode {
    Is(Predicate),
    Not(Box<FilterNode>),
    And(Vec<FilterNode>),
    Or(Vec<FilterNode>),
}

/// One comparison, with the offsets of its parts in the source text.
#[derive(Clone, Debug)]
struct Predicate {
    source: Rc<str>,
    field_at: usize,
    value_at: usize,
    field: String,
    reading: FieldReading,
    op: Op,
    value: FilterOperand,
}

/// How a field is read: the suffix behind its dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldReading {
    Plain,
    /// `.ustring`: a pointer to text in user space.
    UserText,
    /// `.function`: an address within the named function.
    Function,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Mask,
    Glob,
}

#[derive(Clone, Debug)]
enum FilterOperand {
    /// The number as typed, for the kernel; and its value, which fits an i64 or a u64.
    Number { text: String, value: i128 },
    /// The text without its quotes, and the kind of the quotes.
    Text { text: String, quote: char },
    /// `CPUS{list}`: the list as typed, and as ranges with inclusive ends.
    Cpus { text: String, ranges: Vec<(u32, u32)> },
    /// The name or address behind `.function ==`.
    Function(String),
}

impl FilterNode {
    /// Returns whether any of its conditions is a wanted one.
    fn has(&self, is_wanted: &dyn Fn(&Predicate) -> bool) -> bool {
        match self {
            FilterNode::Is(predicate) => is_wanted(predicate),
            FilterNode::Not(inner) => inner.has(is_wanted),
            FilterNode::And(nodes) | FilterNode::Or(nodes) => {
                nodes.iter().any(|node| node.has(is_wanted))
            }
        }
    }

    fn comparisons(&self) -> usize {
        match self {
            FilterNode::Is(_) => 1,
            FilterNode::Not(inner) => inner.comparisons(),
            FilterNode::And(nodes) | FilterNode::Or(nodes) => {
                nodes.iter().map(FilterNode::comparisons).sum()
            }
        }
    }

    fn for_event(&mut self, event: &str, format: &Format) {
        match self {
            FilterNode::Is(predicate) if predicate.is_of_task(event, format) => {
                predicate.reading = FieldReading::UserText;
            }
            FilterNode::Is(_) => {}
            FilterNode::Not(inner) => inner.for_event(event, format),
            FilterNode::And(nodes) | FilterNode::Or(nodes) => {
                nodes.iter_mut().for_each(|node| node.for_event(event, format));
            }
        }
    }
}

impl Predicate {
    fn fault(&self, at: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(&self.source, at, message)
    }
}
