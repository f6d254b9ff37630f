//! A filter as the kernel wants it, and texts in the quotes that fit them.

use std::{borrow::Cow, fmt};

use super::{Filter, Node, Op, Operand, Predicate, Reading};
use crate::event::syntax::SyntaxError;

/// The operators as the kernel spells them; one that begins another stands behind it.
pub(super) const OPERATORS: [(&str, Op); 8] = [
    ("==", Op::Equal),
    ("!=", Op::Unequal),
    ("<=", Op::LessEqual),
    (">=", Op::GreaterEqual),
    ("<", Op::Less),
    (">", Op::Greater),
    ("&", Op::Mask),
    ("~", Op::Glob),
];

impl Filter {
    /// The text for PERF_EVENT_IOC_SET_FILTER. May be longer than [`super::LONGEST`] when filters were joined.
    pub fn to_kernel(&self) -> String {
        self.root.to_string()
    }

    /// The same for this filter and more conditions, which are in the kernel's language already.
    pub fn to_kernel_and(&self, more: &str) -> String {
        format!("{} && {more}", Parenthesized(&self.root))
    }
}

/// Quotes a text for a filter. The kernel knows no escape, so the quote has to be one that the text lacks.
///
/// Errors: a text with both kinds of quotes, or a NUL.
pub fn quote(text: &str) -> Result<String, SyntaxError> {
    if let Some(nul) = text.find('\0') {
        return Err(SyntaxError::new(text, nul, "a filter cannot hold a NUL"));
    }
    let quote = match (text.contains('"'), text.find('\'')) {
        (false, _) => '"',
        (true, None) => '\'',
        (true, Some(at)) => {
            let message = "a text with both kinds of quotes cannot be filtered for; \
                           write ? for one kind, in a glob";
            return Err(SyntaxError::new(text, at, message));
        }
    };
    Ok(format!("{quote}{text}{quote}"))
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Is(predicate) => write!(f, "{predicate}"),
            Node::Not(inner) => write!(f, "!{}", Parenthesized(inner)),
            Node::And(nodes) => joined(f, nodes, " && "),
            Node::Or(nodes) => joined(f, nodes, " || "),
        }
    }
}

fn joined(f: &mut fmt::Formatter<'_>, nodes: &[Node], by: &str) -> fmt::Result {
    for (index, node) in nodes.iter().enumerate() {
        if index > 0 {
            f.write_str(by)?;
        }
        match node {
            Node::Is(_) | Node::Not(_) => write!(f, "{node}")?,
            Node::And(_) | Node::Or(_) => write!(f, "{}", Parenthesized(node))?,
        }
    }
    Ok(())
}

/// A node in parentheses. The kernel reads the name of a function up to the next space, so a space
/// follows a name that stands before the closing parenthesis.
struct Parenthesized<'a>(&'a Node);

impl fmt::Display for Parenthesized<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gap = if self.0.ends_in_function() { " " } else { "" };
        write!(f, "({}{gap})", self.0)
    }
}

impl Node {
    fn ends_in_function(&self) -> bool {
        match self {
            Node::Is(predicate) => matches!(predicate.value, Operand::Function(_)),
            Node::Not(_) => false,
            Node::And(nodes) | Node::Or(nodes) => nodes.last().is_some_and(|last| match last {
                Node::Is(_) => last.ends_in_function(),
                _ => false,
            }),
        }
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reading = match self.reading {
            Reading::Plain => "",
            Reading::UserText => ".ustring",
            Reading::Function => ".function",
        };
        let op = OPERATORS.iter().find(|(_, op)| *op == self.op).map_or("==", |(text, _)| text);
        write!(f, "{}{reading} {op} ", self.field)?;
        match &self.value {
            Operand::Number { text, .. } => f.write_str(text),
            Operand::Text { text, quote } if self.op == Op::Glob => {
                write!(f, "{quote}{}{quote}", kernel_glob(text))
            }
            Operand::Text { text, quote } => write!(f, "{quote}{text}{quote}"),
            Operand::Cpus { text, .. } => write!(f, "CPUS{{{text}}}"),
            Operand::Function(name) => f.write_str(name),
        }
    }
}

/// A glob, written so that the kernel uses its whole matcher.
///
/// Its short cuts are wrong: `*text` is compared with the end of the *field*, so that it never matches
/// a name shorter than `char[16]` has room for; `*text*` is also found behind the terminator; and what
/// begins with a digit is no glob at all. A second star, or brackets around the digit, avoid them.
pub(super) fn kernel_glob(text: &str) -> Cow<'_, str> {
    let (not, glob) = match text.strip_prefix('!') {
        Some(glob) => ("!", glob),
        None => ("", text),
    };
    let mut chars = glob.chars();
    match (chars.next(), chars.as_str()) {
        (Some('*'), rest) if !rest.is_empty() && !rest.starts_with('*') => {
            Cow::Owned(format!("{not}*{glob}"))
        }
        (Some(digit @ '0'..='9'), rest) if rest.contains(['*', '?', '[', '\\']) => {
            Cow::Owned(format!("{not}[{digit}]{rest}"))
        }
        _ => Cow::Borrowed(text),
    }
}
