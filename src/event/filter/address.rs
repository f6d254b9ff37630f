//! Rewrites conditions on the function of an address as comparisons of numbers, for kernels before
//! Linux 6.3, which do not support `.function`.

use std::ops::Range;

use super::{FieldReading, Filter, FilterNode, FilterOperand, Op, Predicate};

impl Filter {
    /// Returns the filter with each `field.function == NAME` replaced by a comparison with the
    /// addresses of that function, which `range` returns. A name without a range is unchanged.
    pub fn by_address(&self, range: &dyn Fn(&str) -> Option<Range<u64>>) -> Filter {
        Filter { root: self.root.by_address(range) }
    }
}

impl FilterNode {
    fn by_address(&self, range: &dyn Fn(&str) -> Option<Range<u64>>) -> FilterNode {
        let all = |nodes: &[FilterNode]| nodes.iter().map(|node| node.by_address(range)).collect();
        match self {
            FilterNode::Is(predicate) => {
                predicate.by_address(range).unwrap_or_else(|| self.clone())
            }
            FilterNode::Not(inner) => FilterNode::Not(Box::new(inner.by_address(range))),
            FilterNode::And(nodes) => FilterNode::And(all(nodes)),
            FilterNode::Or(nodes) => FilterNode::Or(all(nodes)),
        }
    }
}

impl Predicate {
    fn by_address(&self, range: &dyn Fn(&str) -> Option<Range<u64>>) -> Option<FilterNode> {
        let FilterOperand::Function(name) = &self.value else { return None };
        let Range { start, end } = range(name)?;
        let compared = |op: Op, address: u64| {
            let value =
                FilterOperand::Number { text: format!("{address:#x}"), value: address.into() };
            FilterNode::Is(Predicate { reading: FieldReading::Plain, op, value, ..self.clone() })
        };
        Some(match self.op {
            Op::Unequal => {
                FilterNode::Or(vec![compared(Op::Less, start), compared(Op::GreaterEqual, end)])
            }
            _ => FilterNode::And(vec![compared(Op::GreaterEqual, start), compared(Op::Less, end)]),
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
