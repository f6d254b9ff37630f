//! The kernel's tracepoint filter language: `prev_state == 0 && (prev_comm ~ "nginx*" || CPU & CPUS{0-3})`.
//!
//! The kernel evaluates filters before it writes a record, at a fifth of the cost of the record. But it
//! says only EINVAL, EPERM, ENOENT or ESRCH when it refuses one, each for many reasons, so we parse the
//! same language first and say what is wrong and where. And where one tracepoint serves several roles,
//! each role's own filter is evaluated here ([`Bound`]) as the kernel does it: widths, signs, cut numbers,
//! unterminated text.
//!
//! We agree with the kernel on what is a filter, but for these, which it accepts and which never do what
//! they say: an operator at the very end (`pid == 1 &&`), a number against an array or a bitmask, and
//! `STACKTRACE`. Two are written differently for the kernel ([`Filter::to_kernel`]), which misreads them:
//! in `(f.function == name)` it takes the parenthesis for a part of the name, and some globs match by
//! short cuts that are wrong. A third is meant otherwise than it reads it ([`Filter::for_event`]).
//!
//! Words of the seeds' user-space filters are translated: `__cpu` is `CPU`, `__pid` `common_pid`, and
//! `comm_get(__pid)` `COMM`.
//!
//! Source: kernel/trace/trace_events_filter.c, Documentation/trace/events.rst, and probing 6.18.

mod address;
mod check;
mod eval;
mod lua;
pub mod names;
mod parse;
mod print;
pub mod split;
#[cfg(test)]
mod tests;

use std::rc::Rc;

pub use eval::{Bound, Context, KernelOnly};
pub use print::quote;

use crate::{decode::format::Format, event::syntax::SyntaxError};

/// Bytes that a filter may have: the kernel copies one page, terminator included.
pub const LONGEST: usize = 4095;

/// A parsed filter. Two filters are equal when the kernel would be told the same.
#[derive(Clone, Debug)]
pub struct Filter {
    root: Node,
}

impl Filter {
    /// Parses a filter. Which fields there are and what they can be compared with is for [`Filter::check`].
    pub fn parse(text: &str) -> Result<Filter, SyntaxError> {
        parse::parse(text).map(|root| Filter { root })
    }

    /// The filter as it is meant for an event: text is compared with what a pointer of a system
    /// call leads to in the task's memory (`.ustring`), since the kernel would look for it in its
    /// own and find nothing.
    pub fn for_event(mut self, event: &str, format: &Format) -> Filter {
        self.root.for_event(event, format);
        self
    }

    /// The conditions that all have to be met, one by one.
    pub fn conjuncts(&self) -> Vec<Filter> {
        match &self.root {
            Node::And(nodes) => nodes.iter().map(|node| Filter { root: node.clone() }).collect(),
            _ => vec![self.clone()],
        }
    }

    /// Whether it compares text in a task's memory, which the kernel reads only while its page is
    /// resident.
    pub fn reads_user_memory(&self) -> bool {
        fn reads(node: &Node) -> bool {
            match node {
                Node::Is(predicate) => predicate.reading == Reading::UserText,
                Node::Not(inner) => reads(inner),
                Node::And(nodes) | Node::Or(nodes) => nodes.iter().any(reads),
            }
        }
        reads(&self.root)
    }

    /// It without the conditions that [`Filter::to_kernel`] writes so; None when that leaves nothing to check.
    pub fn without(&self, text: &str) -> Option<Filter> {
        let conjuncts = self.conjuncts().into_iter();
        conjuncts.filter(|filter| filter.to_kernel() != text).reduce(Filter::and)
    }

    /// What passes both.
    pub fn and(self, other: Filter) -> Filter {
        let mut all = Vec::new();
        for root in [self.root, other.root] {
            match root {
                Node::And(nodes) => all.extend(nodes),
                node => all.push(node),
            }
        }
        Filter { root: Node::And(all) }
    }

    /// What passes either.
    pub fn or(self, other: Filter) -> Filter {
        let mut all = Vec::new();
        for root in [self.root, other.root] {
            match root {
                Node::Or(nodes) => all.extend(nodes),
                node => all.push(node),
            }
        }
        Filter { root: Node::Or(all) }
    }
}

impl PartialEq for Filter {
    fn eq(&self, other: &Filter) -> bool {
        self.to_kernel() == other.to_kernel()
    }
}

impl Eq for Filter {}

#[derive(Clone, Debug)]
enum Node {
    Is(Predicate),
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
}

/// One comparison, with the places of its parts in the text that it came from.
#[derive(Clone, Debug)]
struct Predicate {
    source: Rc<str>,
    field_at: usize,
    value_at: usize,
    field: String,
    reading: Reading,
    op: Op,
    value: Operand,
}

/// What stands behind the field's dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Plain,
    /// `.ustring`: a pointer to text in user space.
    UserText,
    /// `.function`: an address within the function that is named.
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
enum Operand {
    /// As typed, for the kernel; and its value, which fits an i64 or a u64.
    Number { text: String, value: i128 },
    /// Without its quotes, which were of this kind.
    Text { text: String, quote: char },
    /// `CPUS{list}`: as typed, and as ranges, both ends inclusive.
    Cpus { text: String, ranges: Vec<(u32, u32)> },
    /// The name, or the address, behind `.function ==`.
    Function(String),
}

impl Node {
    fn for_event(&mut self, event: &str, format: &Format) {
        match self {
            Node::Is(predicate) if predicate.is_of_task(event, format) => {
                predicate.reading = Reading::UserText;
            }
            Node::Is(_) => {}
            Node::Not(inner) => inner.for_event(event, format),
            Node::And(nodes) | Node::Or(nodes) => {
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
