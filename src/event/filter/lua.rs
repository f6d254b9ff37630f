//! A filter's evaluation as Lua source, so that what is checked for each event is compiled with the handler behind it.
//!
//! Comparisons of numbers become loads and comparisons, with the kernel's widths and signs; for texts and sets of CPUs
//! whoever asks has a function that answers with [`Bound::passes`].

use super::{
    Op,
    eval::{Bound, Number, Test},
};
use crate::event::load;

impl Bound {
    /// Lua source that is true or false, over the slot `s` and the locals of `prelude/expression.lua`. `ask` gives the
    /// source for a part that is no comparison of numbers. A record has to hold the fixed part of its format.
    pub fn lua(&self, ask: &mut dyn FnMut(Bound) -> String) -> String {
        lua(&self.root, ask)
    }
}

fn lua(test: &Test, ask: &mut dyn FnMut(Bound) -> String) -> String {
    let joined = |tests: &[Test], by: &str, ask: &mut dyn FnMut(Bound) -> String| {
        let all: Vec<String> = tests.iter().map(|test| lua(test, ask)).collect();
        format!("({})", all.join(by))
    };
    match test {
        Test::Not(inner) => format!("(not {})", lua(inner, ask)),
        Test::All(tests) => joined(tests, " and ", ask),
        Test::Any(tests) => joined(tests, " or ", ask),
        Test::Number { from, op, value } => match compared(from, *op, *value) {
            Some(code) => code,
            None => ask(Bound { root: test.clone() }),
        },
        Test::Text { .. } | Test::Cpu { .. } | Test::CpuMask { .. } => {
            ask(Bound { root: test.clone() })
        }
    }
}

/// A comparison of what is read with a number that was cut to its width.
fn compared(from: &Number, op: Op, value: i128) -> Option<String> {
    let (read, is_box) = match *from {
        Number::Cpu => ("s.cpu".to_owned(), false),
        Number::Field { offset, size, signed } => {
            let (pointer, _) = load::pointer(size, signed)?;
            (format!("cast({pointer}, s.raw + {offset})[0]"), size == 8)
        }
    };
    let signed = matches!(from, Number::Field { signed: true, .. });
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
        // The bits of 32 are enough: both are cut to the field's width, and extended by the same sign.
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
    fn numbers_are_compared_in_place_and_the_rest_is_asked_for() {
        let format = Format::parse(
            "name: x\nID: 1\nfield:int pid; offset:8; size:4; signed:1;\n\
             field:u64 size; offset:16; size:8; signed:0;\nfield:char comm[16]; offset:24; size:16; signed:0;\n",
        )
        .unwrap();
        let lua = |filter: &str| {
            let mut asked = 0;
            let bound = Filter::parse(filter).unwrap().bind("a:x", &format).unwrap();
            bound.lua(&mut |_| {
                asked += 1;
                format!("ask({asked})")
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
            "((not ((cast(I32, s.raw + 8)[0] == 1) and ask(1))) and ask(2))"
        );
    }
}
