//! Encodes BPF instructions: one method for each, and labels for jumps.
//!
//! Source: Documentation/bpf/standardization/instruction-set.rst and include/uapi/linux/bpf.h.

pub use super::instruction::{AccessSize, BpfAlu, BpfHelper, BpfRegister, JumpIf};

/// Bit of an opcode: the second operand is a register.
const BY_REGISTER: u8 = 0x08;

/// A position in a program, to which jumps lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// `BPF_PSEUDO_MAP_FD`: the constant is the file descriptor of a map.
const MAP_FD: u8 = 1;

/// A program in the making.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    code: Vec<u64>,
    /// Index of the instruction at each label.
    labels: Vec<Option<usize>>,
    /// Instructions whose offset is that of a label.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// Appends an instruction.
    fn push(&mut self, opcode: u8, dst: BpfRegister, src: u8, offset: i16, imm: i32) {
        let registers = src << 4 | dst as u8;
        let low = u64::from(opcode) | u64::from(registers) << 8;
        let high = u64::from(offset.cast_unsigned()) << 16 | u64::from(imm.cast_unsigned()) << 32;
        self.code.push(low | high);
    }

    /// `dst = src`.
    pub fn copy(&mut self, dst: BpfRegister, src: BpfRegister) {
        self.push(0xbf, dst, src as u8, 0, 0);
    }

    /// `dst = (u32)src`.
    pub fn copy_low(&mut self, dst: BpfRegister, src: BpfRegister) {
        self.push(0xbc, dst, src as u8, 0, 0);
    }

    /// `dst = value`, sign-extended.
    pub fn set(&mut self, dst: BpfRegister, value: i32) {
        self.push(0xb7, dst, 0, 0, value);
    }

    /// `dst = value`, zero-extended.
    pub fn set_low(&mut self, dst: BpfRegister, value: i32) {
        self.push(0xb4, dst, 0, 0, value);
    }

    /// `dst = value`, of 64 bits.
    pub fn set_long(&mut self, dst: BpfRegister, value: u64) {
        self.wide(dst, 0, value);
    }

    /// `dst` = the map with this file descriptor.
    pub fn set_map(&mut self, dst: BpfRegister, fd: i32) {
        self.wide(dst, MAP_FD, u64::from(fd.cast_unsigned()));
    }

    /// Appends `BPF_LD | BPF_IMM | BPF_DW`, which takes two instructions.
    fn wide(&mut self, dst: BpfRegister, src: u8, value: u64) {
        self.push(0x18, dst, src, 0, (value as u32).cast_signed());
        self.code.push((value >> 32) << 32);
    }

    /// `dst = dst op src`.
    pub fn alu(&mut self, op: BpfAlu, dst: BpfRegister, src: BpfRegister) {
        self.push(op as u8 | BY_REGISTER, dst, src as u8, 0, 0);
    }

    /// `dst = dst op value`, with the sign of the value extended.
    pub fn alu_constant(&mut self, op: BpfAlu, dst: BpfRegister, value: i32) {
        self.push(op as u8, dst, 0, 0, value);
    }

    /// `dst = -dst`.
    pub fn negate(&mut self, dst: BpfRegister) {
        self.push(0x87, dst, 0, 0, 0);
    }

    /// Converts the lowest `bits`, 16, 32 or 64, to network byte order; the others become 0.
    pub fn to_network_order(&mut self, dst: BpfRegister, bits: u8) {
        self.push(0xdc, dst, 0, 0, bits.into());
    }

    /// `dst += src`.
    pub fn add(&mut self, dst: BpfRegister, src: BpfRegister) {
        self.alu(BpfAlu::Add, dst, src);
    }

    /// `dst += value`.
    pub fn add_constant(&mut self, dst: BpfRegister, value: i32) {
        self.alu_constant(BpfAlu::Add, dst, value);
    }

    /// `dst |= src`.
    pub fn or(&mut self, dst: BpfRegister, src: BpfRegister) {
        self.alu(BpfAlu::Or, dst, src);
    }

    /// `dst <<= bits`.
    pub fn shift_left(&mut self, dst: BpfRegister, bits: i32) {
        self.alu_constant(BpfAlu::ShiftLeft, dst, bits);
    }

    /// Extends the sign of the lowest `bytes` bytes, 1 to 8, to 64 bits.
    pub fn sign_extend(&mut self, dst: BpfRegister, bytes: usize) {
        let unused = 64 - 8 * bytes.clamp(1, 8) as i32;
        if unused > 0 {
            self.shift_left(dst, unused);
            self.alu_constant(BpfAlu::ArithmeticShift, dst, unused);
        }
    }

    /// `dst = *(src + offset)`.
    pub fn load(&mut self, size: AccessSize, dst: BpfRegister, src: BpfRegister, offset: i16) {
        self.push(0x61 | size.bits(), dst, src as u8, offset, 0);
    }

    /// `*(dst + offset) = src`.
    pub fn store(&mut self, size: AccessSize, dst: BpfRegister, offset: i16, src: BpfRegister) {
        self.push(0x63 | size.bits(), dst, src as u8, offset, 0);
    }

    /// `*(dst + offset) = value`.
    pub fn store_constant(&mut self, size: AccessSize, dst: BpfRegister, offset: i16, value: i32) {
        self.push(0x62 | size.bits(), dst, 0, offset, value);
    }

    /// Calls a function of the kernel with R1 to R5; sets R0.
    pub fn call(&mut self, helper: BpfHelper) {
        self.push(0x85, BpfRegister::R0, 0, 0, helper as i32);
    }

    /// Ends the program with R0.
    pub fn exit(&mut self) {
        self.push(0x95, BpfRegister::R0, 0, 0, 0);
    }

    /// Returns the number of instructions so far; a wide constant counts as two.
    pub fn len(&self) -> usize {
        self.code.len()
    }

    /// Returns whether there is no instruction yet.
    pub fn is_empty(&self) -> bool {
        self.code.is_empty()
    }

    /// Returns a new label, to be placed with [`Assembler::place`].
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label before the next instruction.
    pub fn place(&mut self, label: Label) {
        let next = self.code.len();
        if let Some(place) = self.labels.get_mut(label.0) {
            *place = Some(next);
        }
    }

    /// Jumps to a label if the condition holds for `dst` and `value`.
    pub fn jump_if(&mut self, condition: JumpIf, dst: BpfRegister, value: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(condition as u8, dst, 0, 0, value);
    }

    /// Jumps to a label if the condition holds for `dst` and `src`.
    pub fn jump_if_register(
        &mut self,
        condition: JumpIf,
        dst: BpfRegister,
        src: BpfRegister,
        to: Label,
    ) {
        self.jumps.push((self.code.len(), to));
        self.push(condition as u8 | BY_REGISTER, dst, src as u8, 0, 0);
    }

    /// Jumps to a label.
    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x05, BpfRegister::R0, 0, 0, 0);
    }

    /// Returns the instructions; None if a label is not placed, or too far from a jump to it.
    pub fn finish(mut self) -> Option<Vec<u64>> {
        for (at, label) in self.jumps {
            let place = (*self.labels.get(label.0)?)?;
            let offset = i16::try_from(place as i64 - at as i64 - 1).ok()?;
            *self.code.get_mut(at)? |= u64::from(offset.cast_unsigned()) << 16;
        }
        Some(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::BpfRegister::*;
    use super::*;

    fn encoded(write: impl FnOnce(&mut Assembler)) -> Vec<u64> {
        let mut code = Assembler::default();
        write(&mut code);
        code.finish().unwrap()
    }

    /// The bytes of an instruction are its opcode, the registers, the offset and the constant.
    #[test]
    fn instructions_are_encoded_as_in_the_kernels_documentation() {
        let one = |write: fn(&mut Assembler)| encoded(write)[0];
        assert_eq!(one(|c| c.copy(R6, R1)), 0x16bf);
        assert_eq!(one(|c| c.set(R0, 1)), 0x1_0000_00b7);
        assert_eq!(one(|c| c.set(R0, -1)), 0xffff_ffff_0000_00b7);
        assert_eq!(one(|c| c.load(AccessSize::B8, R3, R6, 24)), 0x0018_6379);
        assert_eq!(one(|c| c.load(AccessSize::B4, R3, R6, 8)), 0x0008_6361);
        assert_eq!(one(|c| c.store(AccessSize::B8, R10, -8, R1)), 0xfff8_1a7b);
        assert_eq!(one(|c| c.store(AccessSize::B2, R8, 2, R1)), 0x0002_186b);
        assert_eq!(one(|c| c.store_constant(AccessSize::B4, R10, -4, 0)), 0xfffc_0a62);
        assert_eq!(one(|c| c.call(BpfHelper::PerfOutput)), 0x19_0000_0085);
        assert_eq!(one(|c| c.alu(BpfAlu::Xor, R2, R3)), 0x32af);
        assert_eq!(one(|c| c.alu_constant(BpfAlu::Rem, R2, 7)), 0x7_0000_0297);
        assert_eq!(one(|c| c.negate(R2)), 0x287);
        assert_eq!(one(|c| c.to_network_order(R2, 16)), 0x10_0000_02dc);
        assert_eq!(one(Assembler::exit), 0x95);
    }

    #[test]
    fn a_wide_constant_takes_two_instructions() {
        let long = encoded(|c| c.set_long(R2, 0x1122_3344_5566_7788));
        assert_eq!(long, [0x5566_7788_0000_0218, 0x1122_3344_0000_0000]);
        assert_eq!(encoded(|c| c.set_map(R1, 7)), [0x7_0000_1118, 0]);
    }

    #[test]
    fn a_jump_leads_behind_the_instructions_in_between() {
        let code = encoded(|c| {
            let out = c.label();
            c.jump_if(JumpIf::Equal, R0, 0, out);
            c.set_map(R1, 7);
            c.jump(out);
            c.place(out);
            c.exit();
        });
        assert_eq!(code[0], 0x0003_0015, "over a wide constant and a jump");
        assert_eq!(code[3], 0x0000_0005);
    }

    #[test]
    fn a_label_that_is_not_placed_gives_no_program() {
        let mut code = Assembler::default();
        let label = code.label();
        code.jump(label);
        assert_eq!(code.finish(), None);
    }
}
