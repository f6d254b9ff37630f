//! Integer expressions over the record of a tracepoint, as a typed tree.
//!
//! A value is 64 bits wide and normalized: it has the zeros or the sign of its C type above the
//! width of the type. [`super::expression`] translates the tree.

use super::assembler::{AccessSize, JumpIf};

/// An integer type of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerWidth {
    /// Width: 8, 16, 32 or 64; 1 for `bool`.
    pub bits: u8,
    /// Whether it has negative values.
    pub signed: bool,
}

/// An operator that computes in the type of its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegerOperator {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`, which truncates; 0 and counted if C does not define it.
    Div,
    /// `%`, with the sign of the dividend; 0 and counted if C does not define it.
    Rem,
    /// `<<`; 0 and counted if the count is negative or too large.
    ShiftLeft,
    /// `>>`; 0 and counted if the count is negative or too large.
    ShiftRight,
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`
    Xor,
}

/// An integer expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntegerNode {
    /// A number, normalized.
    Constant(u64),
    /// An integer of the record.
    Field {
        /// Offset in bytes, a multiple of the size.
        offset: i16,
        /// Its size.
        size: AccessSize,
        /// Whether it has negative values.
        signed: bool,
    },
    /// The thread in which the event happens, in the numbers of the initial pid namespace.
    Thread,
    /// The process of the thread.
    Process,
    /// The CPU.
    Cpu,
    /// The ID of the task's cgroup in the hierarchy of cgroup v2.
    Cgroup,
    /// Converts a value to another type.
    Convert(IntegerWidth, Box<IntegerNode>),
    /// `a op b`. Both have the type, but for the count of a shift, which has any.
    Binary {
        /// The operator.
        op: IntegerOperator,
        /// The type in which it computes.
        of: IntegerWidth,
        /// The operands.
        sides: Box<[IntegerNode; 2]>,
    },
    /// 1 if the comparison of two values of one type holds, else 0.
    Compare {
        /// The comparison.
        condition: JumpIf,
        /// The operands.
        sides: Box<[IntegerNode; 2]>,
    },
    /// 1 if the value is 0, else 0.
    Not(Box<IntegerNode>),
    /// 1 if no value is 0, else 0. Evaluates from the left, as far as needed.
    All(Vec<IntegerNode>),
    /// 0 if all values are 0, else 1. Evaluates from the left, as far as needed.
    Any(Vec<IntegerNode>),
    /// The second value unless the first is 0, else the third. Evaluates one of them.
    Choose(Box<[IntegerNode; 3]>),
    /// The lowest bits of the value in network byte order.
    NetworkOrder {
        /// Their number, 16 or 32.
        bits: u8,
        /// The value.
        of: Box<IntegerNode>,
    },
    /// 1 if the bytes of the record from `offset` on are these, else 0.
    BytesEqual {
        /// Offset in bytes.
        offset: i16,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

impl IntegerWidth {
    /// `unsigned long`
    pub const ULONG: IntegerWidth = IntegerWidth { bits: 64, signed: false };

    /// Returns whether each value of this type has the same 64 bits in another type.
    pub fn fits(self, other: IntegerWidth) -> bool {
        match (self.signed, other.signed) {
            _ if other.bits == 64 => true,
            (false, true) => self.bits < other.bits,
            (true, false) => false,
            _ => self.bits <= other.bits,
        }
    }
}

impl IntegerNode {
    /// Returns `a op b`.
    pub fn binary(
        op: IntegerOperator,
        of: IntegerWidth,
        a: IntegerNode,
        b: IntegerNode,
    ) -> IntegerNode {
        IntegerNode::Binary { op, of, sides: Box::new([a, b]) }
    }

    /// Returns the value of type `from` in type `to`.
    pub fn converted(self, from: IntegerWidth, to: IntegerWidth) -> IntegerNode {
        match from.fits(to) {
            true => self,
            false => IntegerNode::Convert(to, Box::new(self)),
        }
    }

    /// Returns its value in a type, if that is the same for all events.
    pub fn constant(&self, of: IntegerWidth) -> Option<i128> {
        match self {
            IntegerNode::Constant(bits) if of.signed => Some(bits.cast_signed().into()),
            IntegerNode::Constant(bits) => Some((*bits).into()),
            _ => None,
        }
    }

    /// Visits this node and its descendants.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a IntegerNode)) {
        use IntegerNode as N;
        visit(self);
        match self {
            N::Constant(_) | N::Field { .. } | N::Thread | N::Process | N::Cpu | N::Cgroup => {}
            N::BytesEqual { .. } => {}
            N::Convert(_, of) | N::Not(of) | N::NetworkOrder { of, .. } => of.walk(visit),
            N::Binary { sides, .. } | N::Compare { sides, .. } => {
                sides.iter().for_each(|side| side.walk(visit));
            }
            N::All(all) | N::Any(all) => all.iter().for_each(|one| one.walk(visit)),
            N::Choose(all) => all.iter().for_each(|one| one.walk(visit)),
        }
    }

    /// Returns whether it or a descendant meets a condition.
    pub fn has(&self, is: impl Fn(&IntegerNode) -> bool) -> bool {
        let mut found = false;
        self.walk(&mut |node| found |= is(node));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversion_that_keeps_all_bits_needs_no_instruction() {
        let width = |bits, signed| IntegerWidth { bits, signed };
        for (from, to) in [
            (width(32, true), width(64, false)),
            (width(16, false), width(32, true)),
            (width(8, true), width(32, true)),
            (width(1, false), width(8, false)),
        ] {
            assert_eq!(IntegerNode::Thread.converted(from, to), IntegerNode::Thread);
        }
        for (from, to) in [
            (width(64, true), width(32, true)),
            (width(32, true), width(32, false)),
            (width(32, false), width(32, true)),
            (width(8, true), width(16, false)),
            (width(8, false), width(1, false)),
        ] {
            let converted = IntegerNode::Thread.converted(from, to);
            assert_eq!(converted, IntegerNode::Convert(to, Box::new(IntegerNode::Thread)));
        }
    }
}
