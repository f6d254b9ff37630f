//! Translates a filter to Lua source, so that it is compiled together with the event's handler.
//!
//! Comparisons of numbers become loads and comparisons with the kernel's widths and signs. For
//! texts and sets of CPUs, the caller supplies a function that returns [`BoundFilter::passes`].

use super::{
    Op,
    eval::{BoundFilter, NumberTest, Test},
};
use crate::event::ffi_types;

impl BoundFilter {
    /// Returns the source of a Lua boolean over the slot `s` and the locals of
    /// `prelude/expression.lua`. `call` returns the source for a part that is not a comparison of
    /// numbers. The record must contain the fixed part of its format.
    pub fn lua(&self, call: &mut dyn FnMut(BoundFilter) -> String) -> String {
        lua(&self.root, call)
    }
}

fn lua(test: &Test, call: &mut dyn FnMut(BoundFilter) -> String) -> String {
    let joined = |tests: &[Test], by: &str, call: &mut dyn FnMut(BoundFilter) -> String| {
        let all: Vec<String> = tests.iter().map(|test| lua(test, call)).collect();
        format!("({})", all.join(by))
    };
    match test {
        Test::Not(inner) => format!("(not {})", lua(inner, call)),
        Test::All(tests) => joined(tests, " and ", call),
        Test::Any(tests) => joined(tests, " or ", call),
        Test::Number { from, op, value } => match compared(from, *op, *value) {
            Some(code) => code,
            None => call(BoundFilter { root: test.clone() }),
        },
        Test::Text { .. } | Test::Cpu { .. } | Test::CpuMask { .. } => {
            call(BoundFilter { root: test.clone() })
        }
    }
}

/// Returns a comparison of the number read with a value that was truncated to its width.
fn compared(from: &NumberTest, op: Op, value: i128) -> Option<String> {
    let (read, is_box) = match *from {
        NumberTest::Cpu => ("s.cpu".to_owned(), false),
        NumberTest::Field { offset, size, signed } => {
            let (pointer, _) = ffi_types::pointer(size, signed)?;
            (format!("cast({pointer}, s.raw + {offset})[0]"), size == 8)
        }
    };
    let signed = matches!(from, NumberTest::Field { signed: true, .. });
    let constant = match (is_box, signed) {
        (false, _) => value.to_string(),
        (true, true) => format!("0x{:x}LL", value as u64),
        (true, false) => format!("0x{:x}ULL", value as u64),
    };
    let sign = match op {
        Op::Equal => "==",
        Op::Unequal => "~=",
        Op::Less => "<",
        Op::LessEqual => "<=",
        Op::Greater => ">",
        Op::GreaterEqual => ">=",
        Op::Mask if is_box => return Some(format!("(band({read}, {constant}) ~= 0LL)")),
        // 32 bits are enough: both are truncated to the field's width and extended alike.
        Op::Mask => return Some(format!("(band({read}, {constant}) ~= 0)")),
        Op::Glob => return None,
    };
    Some(format!("({read} {sign} {constant})"))
}

#[cfg(test)]
mod tests {
    use crate::decode::format::Format;
    use crate::event::filter::Filter;

    #[test]
    fn numbers_are_compared_inline_and_other_conditions_by_a_call() {
        let format = Format::parse(
            "name: x\nID: 1\nfield:int pid; offset:8; size:4; signed:1;\n\
             field:u64 size; offset:16; size:8; signed:0;\n\
             field:char comm[16]; offset:24; size:16; signed:0;\n",
        )
        .unwrap();
        let lua = |filter: &str| {
            let mut calls = 0;
            let bound = Filter::parse(filter).unwrap().bind("a:x", &format).unwrap();
            bound.lua(&mut |_| {
                calls += 1;
                format!("call({calls})")
            })
        };
        assert_eq!(lua("pid == -3"), "(cast(I32, s.raw + 8)[0] == -3)");
        assert_eq!(lua("pid == 4294967295"), "(cast(I32, s.raw + 8)[0] == -1)");
        assert_eq!(lua("size > 10"), "(cast(U64, s.raw + 16)[0] > 0xaULL)");
        assert_eq!(
            lua("pid & 0x8 || CPU != 1"),
            "((band(cast(I32, s.raw + 8)[0], 8) ~= 0) or (s.cpu ~= 1))"
        );
        assert_eq!(
            lua("!(pid == 1 && comm ~ \"a*\") && CPU & CPUS{0-3}"),
            "((not ((cast(I32, s.raw + 8)[0] == 1) and call(1))) and call(2))"
        );
    }
}
