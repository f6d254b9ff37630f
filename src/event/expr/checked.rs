//! The result of checking an expression, and the check of operands by their type.

use super::text::TextExpr;
use super::value::IntExpr;
use crate::base::text::fault::Fault;
use crate::decode::c::ExprNode;

/// A checked expression.
pub(super) enum CheckedExpr {
    Number(IntExpr),
    Text(TextExpr),
}

/// Checks operands, which are expressions themselves.
pub(super) trait OperandChecker {
    /// Checks an operand of either type.
    fn check(&mut self, node: &ExprNode) -> Result<CheckedExpr, Fault>;

    /// Checks an operand that must be a number; text is an error.
    fn number(&mut self, node: &ExprNode) -> Result<IntExpr, Fault> {
        match self.check(node)? {
            CheckedExpr::Number(value) => Ok(value),
            CheckedExpr::Text(_) => {
                Err(Fault::new(node.at, "this is text; a number is needed here"))
            }
        }
    }

    /// Checks an operand that must be text; a number is an error.
    fn text(&mut self, node: &ExprNode) -> Result<TextExpr, Fault> {
        match self.check(node)? {
            CheckedExpr::Text(text) => Ok(text),
            CheckedExpr::Number(_) => {
                Err(Fault::new(node.at, "this is a number; text is needed here"))
            }
        }
    }
}
