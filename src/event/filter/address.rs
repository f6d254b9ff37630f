//! Conditions on the function of an address, as comparisons of numbers: kernels before Linux 6.3
//! know no others.

use std::ops::Range;

use super::{Filter, Node, Op, Operand, Predicate, Reading};

impl Filter {
    /// Returns the filter with each `field.function == NAME` replaced by a comparison with the
    /// addresses of that function, which `range` finds. A name without a range stays.
    pub fn by_address(&self, range: &dyn Fn(&str) -> Option<Range<u64>>) -> Filter {
        Filter { root: self.root.by_address(range) }
    }
}

impl Node {
    fn by_address(&self, range: &dyn Fn(&str) -> Option<Range<u64>>) -> Node {
        let all = |nodes: &[Node]| nodes.iter().map(|node| node.by_address(range)).collect();
        match self {
            Node::Is(predicate) => predicate.by_address(range).unwrap_or_else(|| self.clone()),
            Node::Not(inner) => Node::Not(Box::new(inner.by_address(range))),
            Node::And(nodes) => Node::And(all(nodes)),
            Node::Or(nodes) => Node::Or(all(nodes)),
        }
    }
}

impl Predicate {
    fn by_address(&self, range: &dyn Fn(&str) -> Option<Range<u64>>) -> Option<Node> {
        let Operand::Function(name) = &self.value else { return None };
        let Range { start, end } = range(name)?;
        let compared = |op: Op, address: u64| {
            let value = Operand::Number { text: format!("{address:#x}"), value: address.into() };
            Node::Is(Predicate { reading: Reading::Plain, op, value, ..self.clone() })
        };
        Some(match self.op {
            Op::Unequal => {
                Node::Or(vec![compared(Op::Less, start), compared(Op::GreaterEqual, end)])
            }
            _ => Node::And(vec![compared(Op::GreaterEqual, start), compared(Op::Less, end)]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_becomes_the_range_of_its_addresses() {
        let range = |name: &str| (name == "schedule").then_some(0x1000..0x1080);
        let of = |text: &str| Filter::parse(text).unwrap().by_address(&range).to_kernel();
        assert_eq!(of("f.function == schedule"), "f >= 0x1000 && f < 0x1080");
        assert_eq!(of("a == 1 || f.function != schedule"), "a == 1 || (f < 0x1000 || f >= 0x1080)");
        assert_eq!(of("f.function == other"), "f.function == other");
    }
}
