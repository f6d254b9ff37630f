//! The tree of an expression.

use super::types::{Int, Type};

/// An expression and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprNode {
    /// Byte offset in the text at which an error is reported: of the operator or the name.
    pub at: usize,
    /// Kind of expression.
    pub kind: ExprKind,
}

impl ExprNode {
    /// Visits this node and its descendants, in text order, each operation before its operands.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a ExprNode)) {
        visit(self);
        match &self.kind {
            ExprKind::Number(..)
            | ExprKind::Text(_)
            | ExprKind::Name(_)
            | ExprKind::SizeOfType(_)
            | ExprKind::Statements(_) => {}
            ExprKind::Unary(_, a)
            | ExprKind::Cast(_, a)
            | ExprKind::SizeOf(a)
            | ExprKind::Member(a, _) => {
                a.walk(visit);
            }
            ExprKind::Binary(_, a, b) | ExprKind::Index(a, b) => {
                a.walk(visit);
                b.walk(visit);
            }
            ExprKind::Choice(condition, then, other) => {
                condition.walk(visit);
                then.iter().for_each(|then| then.walk(visit));
                other.walk(visit);
            }
            ExprKind::Call(_, all) | ExprKind::Braces(all) => {
                all.iter().for_each(|node| node.walk(visit));
            }
            ExprKind::Block(locals, value) => {
                locals.iter().for_each(|local| local.value.walk(visit));
                value.walk(visit);
            }
        }
    }
}

/// Kinds of expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprKind {
    /// An integer or character constant, and its type by C's rules.
    Number(u64, Int),
    /// A string literal without quotes, escapes resolved, adjacent literals joined.
    Text(Vec<u8>),
    /// A name.
    Name(String),
    /// `op a`
    Unary(Unary, Box<ExprNode>),
    /// `a op b`
    Binary(Binary, Box<ExprNode>, Box<ExprNode>),
    /// `a ? b : c`; without `b` it is GNU's `a ?: c`.
    Choice(Box<ExprNode>, Option<Box<ExprNode>>, Box<ExprNode>),
    /// `(type)a`
    Cast(Type, Box<ExprNode>),
    /// `sizeof(type)`
    SizeOfType(Type),
    /// `sizeof a`
    SizeOf(Box<ExprNode>),
    /// `name(a, b)`
    Call(String, Vec<ExprNode>),
    /// `a[b]`
    Index(Box<ExprNode>, Box<ExprNode>),
    /// `a->name` or `a.name`
    Member(Box<ExprNode>, String),
    /// `{ a, b }`, as in the arguments of `__print_flags`.
    Braces(Vec<ExprNode>),
    /// `({ type name = a; …; b; })`
    Block(Vec<Local>, Box<ExprNode>),
    /// The text of a statement expression with more than declarations. It cannot be evaluated.
    Statements(String),
}

/// A variable of a statement expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// Its type; `None` after `typeof` and `__auto_type`, which mean the type of the value.
    pub ty: Option<Type>,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: ExprNode,
}

/// Unary operators.
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

/// Binary operators, in the order of C's precedence, tightest first.
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
    /// `a ~ "glob"`: in filters, not in C; same precedence as `==`.
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
