//! Expressions of C, as `print fmt` and selectors write them: text to a tree, and the rules of C's integers.
//!
//! All operators but assignment, with C's precedence; casts, `sizeof`, calls, `a[i]`, `a->b`, `a.b`, `{ a, b }` as an
//! argument, and the statement expression `({ int x = a; …; x; })` that the kernel's `min()` leaves in a format.
//! A tree says nothing of what names mean: whoever evaluates it knows the event's fields and the functions. Both
//! the nesting of a text and the height of its tree are bounded, so no text can exhaust the stack, neither here nor
//! where a tree is walked or dropped.

mod lex;
mod parse;
mod types;

pub use parse::{parse, parse_list};
pub use types::{Int, Pointee, Type};

/// An expression and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Bytes from the start of the text to the place that a fault should point at: the operator, the name.
    pub at: usize,
    /// What it is.
    pub kind: Kind,
}

impl Node {
    /// Visits this and everything in it, in the text's order but an operation before its operands.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Node)) {
        visit(self);
        match &self.kind {
            Kind::Number(..)
            | Kind::Text(_)
            | Kind::Name(_)
            | Kind::SizeOfType(_)
            | Kind::Statements(_) => {}
            Kind::Unary(_, a) | Kind::Cast(_, a) | Kind::SizeOf(a) | Kind::Member(a, _) => {
                a.walk(visit);
            }
            Kind::Binary(_, a, b) | Kind::Index(a, b) => {
                a.walk(visit);
                b.walk(visit);
            }
            Kind::Choice(condition, then, other) => {
                condition.walk(visit);
                then.iter().for_each(|then| then.walk(visit));
                other.walk(visit);
            }
            Kind::Call(_, all) | Kind::Braces(all) => all.iter().for_each(|node| node.walk(visit)),
            Kind::Block(locals, value) => {
                locals.iter().for_each(|local| local.value.walk(visit));
                value.walk(visit);
            }
        }
    }
}

/// What an expression is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer or character constant, and its type by C's rules.
    Number(u64, Int),
    /// A string literal without its quotes, escapes resolved, neighbours joined.
    Text(Vec<u8>),
    /// A name.
    Name(String),
    /// `op a`
    Unary(Unary, Box<Node>),
    /// `a op b`
    Binary(Binary, Box<Node>, Box<Node>),
    /// `a ? b : c`; without `b` it is GNU's `a ?: c`.
    Choice(Box<Node>, Option<Box<Node>>, Box<Node>),
    /// `(type)a`
    Cast(Type, Box<Node>),
    /// `sizeof(type)`
    SizeOfType(Type),
    /// `sizeof a`
    SizeOf(Box<Node>),
    /// `name(a, b)`
    Call(String, Vec<Node>),
    /// `a[b]`
    Index(Box<Node>, Box<Node>),
    /// `a->name` or `a.name`
    Member(Box<Node>, String),
    /// `{ a, b }`, as the arguments of `__print_flags` have it.
    Braces(Vec<Node>),
    /// `({ type name = a; …; b; })`
    Block(Vec<Local>, Box<Node>),
    /// A statement expression that does more than declare: its text. It cannot be evaluated.
    Statements(String),
}

/// A variable of a statement expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// Its type; `None` after `typeof` and `__auto_type`: its value's own.
    pub ty: Option<Type>,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Node,
}

/// Operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `-`
    Minus,
    /// `+`
    Plus,
    /// `!`
    Not,
    /// `~`
    Complement,
    /// `*`
    Deref,
    /// `&`
    Address,
}

/// Operators of two operands, in the order of C's precedence, tightest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Binary {
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `<<`
    Shl,
    /// `>>`
    Shr,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `a ~ "glob"`: of filters, not of C; as tight as `==`.
    Glob,
    /// `&`
    And,
    /// `^`
    Xor,
    /// `|`
    Or,
    /// `&&`
    AndAnd,
    /// `||`
    OrOr,
}

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Bytes from the start of the text; its length when something is missing at the end.
    pub at: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl Fault {
    /// A fault at a place.
    pub fn new(at: usize, message: impl Into<String>) -> Fault {
        Fault { at, message: message.into() }
    }
}

#[cfg(test)]
mod tests;
