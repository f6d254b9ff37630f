//! Parser for C expressions in `print fmt` and selectors: text to a tree, with C's integer types.
//!
//! Supports all operators except assignment, with C's precedence; casts, `sizeof`, calls, `a[i]`,
//! `a->b`, `a.b`, `{ a, b }` as an argument, and the statement expression `({ int x = a; …; x; })`
//! that the kernel's `min()` expands to. The tree does not resolve names: the evaluator knows the
//! event's fields and the functions. Both the nesting of the text and the height of the tree are
//! bounded, so no text can exhaust the stack, neither in the parser nor where a tree is walked or
//! dropped.

mod ast;
mod lex;
mod parse;
#[cfg(test)]
mod tests;
mod types;

pub use ast::{Binary, ExprKind, ExprNode, Local, Unary};
pub use parse::{parse, parse_list};
pub use types::{Int, Pointee, Type};
