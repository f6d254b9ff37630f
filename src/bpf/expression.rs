//! Translates integer expressions to instructions, with the values of C in 64 bits.
//!
//! A binary operation computes its left side in one register and the right side in the next. If no
//! register is left, the left side waits on the stack. An operation that C does not define yields 0
//! and is counted in R9, as the compiled expressions of user space do.

use super::assembler::BpfRegister::{self, *};
use super::assembler::{AccessSize, Assembler, BpfAlu, JumpIf, Label};
use super::integer::{IntegerNode, IntegerOperator, IntegerWidth};

/// Registers that hold operands. R0 is free between operations.
const OPERANDS: [BpfRegister; 5] = [R1, R2, R3, R4, R5];

/// Register of the context: the record.
pub const CONTEXT: BpfRegister = R6;
/// Register of the thread.
pub const THREAD: BpfRegister = R7;
/// Register that counts operations that C does not define.
pub const UNDEFINED: BpfRegister = R9;

/// Bytes of the stack above the slots for operands: the CPU, the process and the cgroup, which
/// are stored before, and the values of the program.
pub const PROGRAM_STACK: i16 = 376;
/// Size of the stack in bytes.
pub(super) const STACK: i16 = 512;
/// Offset of the CPU from R10.
pub const CPU_AT: i16 = -8;
/// Offset of the process from R10.
pub const PROCESS_AT: i16 = -16;
/// Offset of the cgroup from R10.
pub const CGROUP_AT: i16 = -24;

/// Maximum number of instructions for one expression; jumps reach 32,767.
const INSTRUCTIONS_MAX: usize = 4000;

/// Writes the instructions of expressions. They find the record in [`CONTEXT`], the thread in
/// [`THREAD`], and CPU, process and cgroup on the stack; R0 to R5 are overwritten.
pub struct ExpressionWriter<'a> {
    code: &'a mut Assembler,
    /// Operands that wait on the stack.
    waiting: i16,
    too_large: bool,
}

impl ExpressionWriter<'_> {
    /// Returns a writer that appends to `code`.
    pub fn new(code: &mut Assembler) -> ExpressionWriter<'_> {
        ExpressionWriter { code, waiting: 0, too_large: false }
    }

    /// Appends instructions that set R1 to the value. Returns None if it is too large.
    pub fn value(mut self, node: &IntegerNode) -> Option<()> {
        let before = self.code.len();
        self.evaluate(node, 0);
        self.fits(before)
    }

    /// Appends instructions that jump to `fail` if the value is 0. Returns None if it is too large.
    pub fn condition(mut self, node: &IntegerNode, fail: Label) -> Option<()> {
        let before = self.code.len();
        let pass = self.code.label();
        self.branch(node, 0, pass, fail);
        self.code.place(pass);
        self.fits(before)
    }

    fn fits(&self, before: usize) -> Option<()> {
        (!self.too_large && self.code.len() - before <= INSTRUCTIONS_MAX).then_some(())
    }

    /// Computes the value in operand register `at`; keeps those before it.
    fn evaluate(&mut self, node: &IntegerNode, at: usize) {
        let dst = OPERANDS[at];
        match node {
            IntegerNode::Constant(value) => self.constant(dst, *value),
            IntegerNode::Field { offset, size, signed } => {
                self.code.load(*size, dst, CONTEXT, *offset);
                if *signed {
                    self.code.sign_extend(dst, size.bytes());
                }
            }
            IntegerNode::Thread => self.code.copy(dst, THREAD),
            IntegerNode::Process => self.code.load(AccessSize::B8, dst, R10, PROCESS_AT),
            IntegerNode::Cpu => self.code.load(AccessSize::B8, dst, R10, CPU_AT),
            IntegerNode::Cgroup => self.code.load(AccessSize::B8, dst, R10, CGROUP_AT),
            IntegerNode::Convert(to, of) => {
                self.evaluate(of, at);
                self.wrap(*to, dst);
            }
            IntegerNode::NetworkOrder { bits, of } => {
                self.evaluate(of, at);
                self.code.to_network_order(dst, *bits);
            }
            IntegerNode::Binary { op, of, sides } => {
                let src = self.both(sides, at);
                self.operate(*op, *of, dst, src);
            }
            IntegerNode::Choose(all) => {
                let [condition, then, other] = &**all;
                let [pass, fail, end] = [(); 3].map(|()| self.code.label());
                self.branch(condition, at, pass, fail);
                self.code.place(pass);
                self.evaluate(then, at);
                self.code.jump(end);
                self.code.place(fail);
                self.evaluate(other, at);
                self.code.place(end);
            }
            IntegerNode::Compare { .. }
            | IntegerNode::Not(_)
            | IntegerNode::All(_)
            | IntegerNode::Any(_)
            | IntegerNode::BytesEqual { .. } => {
                let [pass, fail, end] = [(); 3].map(|()| self.code.label());
                self.branch(node, at, pass, fail);
                self.code.place(pass);
                self.code.set(dst, 1);
                self.code.jump(end);
                self.code.place(fail);
                self.code.set(dst, 0);
                self.code.place(end);
            }
        }
    }

    /// Jumps to `pass` or to `fail`; uses the operand registers from `at` on.
    fn branch(&mut self, node: &IntegerNode, at: usize, pass: Label, fail: Label) {
        let dst = OPERANDS[at];
        match node {
            IntegerNode::Not(of) => self.branch(of, at, fail, pass),
            IntegerNode::All(all) => {
                for one in all {
                    let next = self.code.label();
                    self.branch(one, at, next, fail);
                    self.code.place(next);
                }
                self.code.jump(pass);
            }
            IntegerNode::Any(all) => {
                for one in all {
                    let next = self.code.label();
                    self.branch(one, at, pass, next);
                    self.code.place(next);
                }
                self.code.jump(fail);
            }
            IntegerNode::Compare { condition, sides } => {
                let src = self.both(sides, at);
                self.code.jump_if_register(*condition, dst, src, pass);
                self.code.jump(fail);
            }
            IntegerNode::BytesEqual { offset, bytes } => {
                self.compare_bytes(dst, *offset, bytes, fail);
                self.code.jump(pass);
            }
            _ => {
                self.evaluate(node, at);
                self.code.jump_if(JumpIf::Unequal, dst, 0, pass);
                self.code.jump(fail);
            }
        }
    }

    /// Computes two operands, the left one in register `at`. Returns the register of the right one.
    fn both(&mut self, sides: &[IntegerNode; 2], at: usize) -> BpfRegister {
        let [a, b] = sides;
        let dst = OPERANDS[at];
        self.evaluate(a, at);
        if let Some(src) = OPERANDS.get(at + 1) {
            self.evaluate(b, at + 1);
            return *src;
        }
        let slot = -(PROGRAM_STACK + 8 * (self.waiting + 1));
        if slot < -STACK {
            self.too_large = true;
            return R0;
        }
        self.code.store(AccessSize::B8, R10, slot, dst);
        self.waiting += 1;
        self.evaluate(b, at);
        self.waiting -= 1;
        self.code.copy(R0, dst);
        self.code.load(AccessSize::B8, dst, R10, slot);
        R0
    }

    /// `dst = dst op src`, in a type; may change `src`.
    fn operate(
        &mut self,
        op: IntegerOperator,
        of: IntegerWidth,
        dst: BpfRegister,
        src: BpfRegister,
    ) {
        use IntegerOperator as O;
        match op {
            O::Add => self.code.alu(BpfAlu::Add, dst, src),
            O::Sub => self.code.alu(BpfAlu::Sub, dst, src),
            O::Mul => self.code.alu(BpfAlu::Mul, dst, src),
            O::And => return self.code.alu(BpfAlu::And, dst, src),
            O::Or => return self.code.alu(BpfAlu::Or, dst, src),
            O::Xor => return self.code.alu(BpfAlu::Xor, dst, src),
            O::Div => return self.divide(BpfAlu::Div, of, dst, src),
            O::Rem => return self.divide(BpfAlu::Rem, of, dst, src),
            O::ShiftLeft => self.shift(BpfAlu::ShiftLeft, of, dst, src),
            O::ShiftRight if of.signed => {
                return self.shift(BpfAlu::ArithmeticShift, of, dst, src);
            }
            O::ShiftRight => return self.shift(BpfAlu::ShiftRight, of, dst, src),
        }
        self.wrap(of, dst);
    }

    fn shift(&mut self, op: BpfAlu, of: IntegerWidth, dst: BpfRegister, src: BpfRegister) {
        let [undefined, end] = [(); 2].map(|()| self.code.label());
        // A negative count is a large unsigned one.
        self.code.jump_if(JumpIf::Greater, src, i32::from(of.bits) - 1, undefined);
        self.code.alu(op, dst, src);
        self.code.jump(end);
        self.undefined(undefined, dst);
        self.code.place(end);
    }

    /// Places `label`, counts an operation that C does not define, and sets its result.
    fn undefined(&mut self, label: Label, dst: BpfRegister) {
        self.code.place(label);
        self.code.add_constant(UNDEFINED, 1);
        self.code.set(dst, 0);
    }

    /// Divides with a sign by unsigned division of the magnitudes: instructions for signed division
    /// exist since 6.6 only.
    fn divide(&mut self, op: BpfAlu, of: IntegerWidth, dst: BpfRegister, src: BpfRegister) {
        let [undefined, end] = [(); 2].map(|()| self.code.label());
        self.code.jump_if(JumpIf::Equal, src, 0, undefined);
        if !of.signed {
            self.code.alu(op, dst, src);
            self.code.jump(end);
            self.undefined(undefined, dst);
            return self.code.place(end);
        }
        let [divide, negative, natural, reversed] = [(); 4].map(|()| self.code.label());
        // The minimum divided by -1 is not defined.
        self.code.jump_if(JumpIf::SignedLess, src, -1, divide);
        self.code.jump_if(JumpIf::SignedGreaterEqual, src, 0, divide);
        self.code.set_long(src, u64::MAX << (of.bits - 1));
        self.code.jump_if_register(JumpIf::Equal, dst, src, undefined);
        self.code.set(src, -1);
        self.code.place(divide);
        self.code.jump_if(JumpIf::SignedLess, dst, 0, negative);
        self.code.jump_if(JumpIf::SignedGreater, src, 0, natural);
        self.code.negate(src);
        self.code.alu(op, dst, src);
        if op == BpfAlu::Div {
            self.code.negate(dst);
        }
        self.code.jump(end);
        self.code.place(natural);
        self.code.alu(op, dst, src);
        self.code.jump(end);
        self.code.place(negative);
        self.code.negate(dst);
        self.code.jump_if(JumpIf::SignedGreater, src, 0, reversed);
        self.code.negate(src);
        self.code.alu(op, dst, src);
        if op == BpfAlu::Rem {
            self.code.negate(dst);
        }
        self.code.jump(end);
        self.code.place(reversed);
        self.code.alu(op, dst, src);
        self.code.negate(dst);
        self.code.jump(end);
        self.undefined(undefined, dst);
        self.code.place(end);
    }

    /// Normalizes a register to a type.
    fn wrap(&mut self, to: IntegerWidth, dst: BpfRegister) {
        match (to.bits, to.signed) {
            (1, _) => {
                let end = self.code.label();
                self.code.jump_if(JumpIf::Equal, dst, 0, end);
                self.code.set(dst, 1);
                self.code.place(end);
            }
            (64, _) => {}
            (32, false) => self.code.copy_low(dst, dst),
            (bits, false) => self.code.alu_constant(BpfAlu::And, dst, (1 << bits) - 1),
            (bits, true) => self.code.sign_extend(dst, usize::from(bits) / 8),
        }
    }

    fn constant(&mut self, dst: BpfRegister, value: u64) {
        match i32::try_from(value.cast_signed()) {
            Ok(value) => self.code.set(dst, value),
            Err(_) => self.code.set_long(dst, value),
        }
    }

    /// Jumps to `fail` unless the bytes of the record are these.
    fn compare_bytes(&mut self, dst: BpfRegister, offset: i16, bytes: &[u8], fail: Label) {
        let mut done = 0usize;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            // The kernel refuses to load at an offset that is not a multiple of the size.
            let at = offset + done as i16;
            let size = [AccessSize::B4, AccessSize::B2, AccessSize::B1].into_iter().find(|size| {
                size.bytes() <= rest.len() && usize::from(at.unsigned_abs()) % size.bytes() == 0
            });
            let size = size.unwrap_or(AccessSize::B1);
            let mut word = [0; 8];
            word[..size.bytes()].copy_from_slice(&rest[..size.bytes()]);
            self.code.load(size, dst, CONTEXT, at);
            match (u64::from_le_bytes(word), cfg!(target_endian = "big")) {
                (word, false) if word <= i32::MAX as u64 => {
                    self.code.jump_if(JumpIf::Unequal, dst, word as i32, fail);
                }
                (_, is_big) => {
                    let shift = if is_big { 64 - 8 * size.bytes() } else { 0 };
                    self.code.set_long(R0, u64::from_ne_bytes(word) >> shift);
                    self.code.jump_if_register(JumpIf::Unequal, dst, R0, fail);
                }
            }
            done += size.bytes();
        }
    }
}
