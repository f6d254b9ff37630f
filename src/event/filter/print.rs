//! Prints filters for the kernel, and quotes texts.

use std::{borrow::Cow, fmt};

use super::{FieldReading, Filter, FilterNode, FilterOperand, Op, Predicate};
use crate::event::syntax::SyntaxError;

/// The operators as the kernel spells them; one that is a prefix of another follows it.
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
    /// Returns the text for PERF_EVENT_IOC_SET_FILTER. It may be longer than [`super::LONGEST`] if
    /// filters were joined.
    pub fn to_kernel(&self) -> String {
        self.root.to_string()
    }

    /// Returns the text of this filter joined with `more`, which is in the kernel's language.
    pub fn to_kernel_and(&self, more: &str) -> String {
        format!("{} && {more}", Parenthesized(&self.root))
    }
}

/// Quotes a text for a filter. The kernel has no escapes, so uses a quote that the text does not
/// contain.
///
/// # Errors
/// The text contains both kinds of quotes, or a NUL.
pub fn quote(text: &str) -> Result<String, SyntaxError> {
    if let Some(nul) = text.find('\0') {
        return Err(SyntaxError::new(text, nul, "a filter cannot contain a NUL"));
    }
    let quote = match (text.contains('"'), text.find('\'')) {
        (false, _) => '"',
        (true, None) => '\'',
        (true, Some(at)) => {
            let message = "text with both kinds of quotes is not supported in a filter; use a glob \
                           with ? for one kind";
            return Err(SyntaxError::new(text, at, message));
        }
    };
    Ok(format!("{quote}{text}{quote}"))
}

impl fmt::Display for FilterNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterNode::Is(predicate) => write!(f, "{predicate}"),
            FilterNode::Not(inner) => write!(f, "!{}", Parenthesized(inner)),
            FilterNode::And(nodes) => joined(f, nodes, " && "),
            FilterNode::Or(nodes) => joined(f, nodes, " || "),
        }
    }
}

fn joined(f: &mut fmt::Formatter<'_>, nodes: &[FilterNode], by: &str) -> fmt::Result {
    for (index, node) in nodes.iter().enumerate() {
        if index > 0 {
            f.write_str(by)?;
        }
        match node {
            FilterNode::Is(_) | FilterNode::Not(_) => write!(f, "{node}")?,
            FilterNode::And(_) | FilterNode::Or(_) => write!(f, "{}", Parenthesized(node))?,
        }
    }
    Ok(())
}

/// A node in parentheses. The kernel reads the name of a function up to the next space, so prints a
/// space between a name and the closing parenthesis.
struct Parenthesized<'a>(&'a FilterNode);

impl fmt::Display for Parenthesized<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gap = if self.0.ends_in_function() { " " } else { "" };
        write!(f, "({}{gap})", self.0)
    }
}

impl FilterNode {
    fn ends_in_function(&self) -> bool {
        match self {
            FilterNode::Is(predicate) => matches!(predicate.value, FilterOperand::Function(_)),
            FilterNode::Not(_) => false,
            FilterNode::And(nodes) | FilterNode::Or(nodes) => {
                nodes.last().is_some_and(|last| match last {
                    FilterNode::Is(_) => last.ends_in_function(),
                    _ => false,
                })
            }
        }
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reading = match self.reading {
            FieldReading::Plain => "",
            FieldReading::UserText => ".ustring",
            FieldReading::Function => ".function",
        };
        let op = OPERATORS.iter().find(|(_, op)| *op == self.op).map_or("==", |(text, _)| text);
        write!(f, "{}{reading} {op} ", self.field)?;
        match &self.value {
            FilterOperand::Number { text, .. } => f.write_str(text),
            FilterOperand::Text { text, quote } if self.op == Op::Glob => {
                write!(f, "{quote}{}{quote}", kernel_glob(text))
            }
            FilterOperand::Text { text, quote } => write!(f, "{quote}{text}{quote}"),
            FilterOperand::Cpus { text, .. } => write!(f, "CPUS{{{text}}}"),
            FilterOperand::Function(name) => f.write_str(name),
        }
    }
}

/// Returns a glob in a form for which the kernel uses its full matcher.
///
/// The kernel's shortcuts are wrong: `*text` is compared with the end of the *field*, so it never
/// matches a name that does not fill its `char[16]`; `*text*` is also found behind the terminator;
/// and a text that begins with a digit is not treated as a glob. A second star, or brackets around
/// the digit, avoid them.
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
