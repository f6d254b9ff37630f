//! Translates a filter into BPF instructions, for events whose records a program writes: a filter
//! of perf applies after the program.
//!
//! Only comparisons of numbers and of whole texts in the record are translated; other conditions
//! are left to user space. The semantics are those of [`BoundFilter::passes`].

use super::Op;
use super::eval::{BoundFilter, FilterMatcher, NumberTest, Test, TextTest};
use crate::bpf::assembler::BpfRegister::{R1, R2, R6, R7};
use crate::bpf::assembler::{AccessSize, Assembler, JumpIf, Label};
use crate::bpf::expression::ExpressionWriter;
use crate::bpf::integer::IntegerNode;

/// Size of the common fields in bytes, which a program does not see.
const COMMON: usize = 8;
/// Offset and size of `common_pid`, the thread.
const THREAD: (usize, usize) = (4, 4);

impl BoundFilter {
    /// Returns whether [`BoundFilter::assemble`] can translate it.
    pub fn is_assemblable(&self) -> bool {
        self.root.is_assemblable()
    }

    /// Appends instructions that jump to `fail` unless the event passes. R6 must be the context
    /// and R7 the thread; R0 to R5 are overwritten. A filter that is not assemblable passes
    /// everything.
    pub fn assemble(&self, code: &mut Assembler, fail: Label) {
        if self.is_assemblable() {
            let pass = code.label();
            self.root.assemble(code, pass, fail);
            code.place(pass);
        }
    }
}

impl Test {
    fn is_assemblable(&self) -> bool {
        match self {
            Test::Not(inner) => inner.is_assemblable(),
            Test::All(tests) | Test::Any(tests) => tests.iter().all(Test::is_assemblable),
            Test::Number { from: NumberTest::Field { offset, size, .. }, op, .. } => {
                let is_in_context = *offset >= COMMON && i16::try_from(*offset).is_ok();
                (is_in_context || (*offset, *size) == THREAD)
                    && AccessSize::of(*size).is_some()
                    && *op != Op::Glob
            }
            Test::Text { from: TextTest::Fixed { offset, .. }, matcher, .. } => {
                matches!(matcher, FilterMatcher::Whole(_))
                    && *offset >= COMMON
                    && i16::try_from(*offset).is_ok()
            }
            _ => false,
        }
    }

    /// Appends instructions that jump to `pass` or `fail`.
    fn assemble(&self, code: &mut Assembler, pass: Label, fail: Label) {
        match self {
            Test::Not(inner) => inner.assemble(code, fail, pass),
            Test::All(tests) => {
                for test in tests {
                    let next = code.label();
                    test.assemble(code, next, fail);
                    code.place(next);
                }
                code.jump(pass);
            }
            Test::Any(tests) => {
                for test in tests {
                    let next = code.label();
                    test.assemble(code, pass, next);
                    code.place(next);
                }
                code.jump(fail);
            }
            Test::Number { from: NumberTest::Field { offset, size, signed }, op, value } => {
                let Some(access) = AccessSize::of(*size) else { return code.jump(fail) };
                match (*offset, *size) {
                    THREAD => code.copy(R1, R7),
                    _ => code.load(access, R1, R6, *offset as i16),
                }
                if *signed {
                    code.sign_extend(R1, *size);
                }
                code.set_long(R2, *value as u64);
                code.jump_if_register(condition(*op, *signed), R1, R2, pass);
                code.jump(fail);
            }
            Test::Text {
                from: TextTest::Fixed { offset, size },
                matcher: FilterMatcher::Whole(wanted),
                inverted,
            } => {
                let mut bytes = wanted.get(..*size).unwrap_or(wanted).to_vec();
                // Text that does not fill its field ends with a NUL.
                bytes.resize((*size).min(bytes.len() + 1), 0);
                let equal = IntegerNode::BytesEqual { offset: *offset as i16, bytes };
                let (same, other) = if *inverted { (fail, pass) } else { (pass, fail) };
                // A comparison of a field is never too large.
                let _ = ExpressionWriter::new(code).condition(&equal, other);
                code.jump(same);
            }
            _ => code.jump(pass),
        }
    }
}

fn condition(op: Op, signed: bool) -> JumpIf {
    match (op, signed) {
        (Op::Equal | Op::Glob, _) => JumpIf::Equal,
        (Op::Unequal, _) => JumpIf::Unequal,
        (Op::Mask, _) => JumpIf::AnyBit,
        (Op::Less, false) => JumpIf::Less,
        (Op::LessEqual, false) => JumpIf::LessEqual,
        (Op::Greater, false) => JumpIf::Greater,
        (Op::GreaterEqual, false) => JumpIf::GreaterEqual,
        (Op::Less, true) => JumpIf::SignedLess,
        (Op::LessEqual, true) => JumpIf::SignedLessEqual,
        (Op::Greater, true) => JumpIf::SignedGreater,
        (Op::GreaterEqual, true) => JumpIf::SignedGreaterEqual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::format::Format;
    use crate::event::filter::Filter;

    fn bound(filter: &str) -> BoundFilter {
        let format = Format::parse(
            "name: sys_enter_openat\nID: 1\n\
             field:unsigned char common_flags; offset:2; size:1; signed:0;\n\
             field:int common_pid; offset:4; size:4; signed:1;\n\
             field:int __syscall_nr; offset:8; size:4; signed:1;\n\
             field:int dfd; offset:16; size:8; signed:0;\n\
             field:char name[16]; offset:24; size:16; signed:0;\n",
        );
        Filter::parse(filter).unwrap().bind("x", &format.unwrap()).unwrap()
    }

    #[test]
    fn numbers_and_whole_texts_of_the_arguments_are_translated() {
        assert!(bound("dfd == 3 && !(__syscall_nr < -1 || dfd & 4)").is_assemblable());
        assert!(bound("common_pid == 3").is_assemblable());
        assert!(!bound("common_flags == 3").is_assemblable());
        assert!(bound("dfd == 3 || name != \"x\"").is_assemblable());
        assert!(!bound("dfd == 3 || name ~ \"x*\"").is_assemblable());
        assert!(!bound("CPU == 0").is_assemblable());
    }

    #[test]
    fn a_comparison_is_a_load_a_constant_and_a_jump() {
        let mut code = Assembler::default();
        let fail = code.label();
        bound("dfd >= 3").assemble(&mut code, fail);
        code.place(fail);
        let code = code.finish().unwrap();
        // r1 = *(u64 *)(r6 + 16); r2 = 3; if r1 >= r2 goto +1; goto +0
        assert_eq!(code, [0x0010_6179, 0x3_0000_0218, 0, 0x0001_213d, 0x0000_0005], "{code:x?}");
    }

    #[test]
    fn a_text_is_compared_with_its_nul_and_a_longer_one_up_to_the_size_of_the_field() {
        let code = |filter: &str| {
            let mut code = Assembler::default();
            let fail = code.label();
            bound(filter).assemble(&mut code, fail);
            code.place(fail);
            code.finish().unwrap()
        };
        // r1 = *(u16 *)(r6 + 24); if r1 != "x\0" goto fail
        assert_eq!(code("name == \"x\"")[..2], [0x0018_6169, 0x78_0002_0155]);
        let cut = code("name == \"exactly sixteen!\"");
        assert_eq!(cut, code("name == \"exactly sixteen! and more\""));
    }

    #[test]
    fn a_signed_field_is_extended_to_64_bits() {
        let mut code = Assembler::default();
        let fail = code.label();
        bound("__syscall_nr < -1").assemble(&mut code, fail);
        code.place(fail);
        let code = code.finish().unwrap();
        assert_eq!(code[1..3], [0x20_0000_0167, 0x20_0000_01c7]);
        assert_eq!(code[3..5], [0xffff_ffff_0000_0218, 0xffff_ffff_0000_0000]);
    }
}
