//! The call chain of an event as a part of a key: a program reads it into memory of its CPU, and
//! the key has a hash of 128 bits and the process whose addresses the chain has.
//!
//! `BPF_MAP_TYPE_STACK_TRACE` is not used: it has one place for each hash of few bits, so that of
//! 1,000 chains in 16,384 places every thirtieth finds its place taken and is lost. Here each chain
//! is stored once in a hash table. Two chains would share a row only if their 128 bits were equal;
//! the seed and the factor of the hash are random, so that no process can choose such chains.
//!
//! The chain of kernel and user frames has the length of those in records: `bpf_get_stack()` and
//! perf use the same walk, and what is longer than the limit is cut.

use super::assembler::BpfRegister::*;
use super::assembler::{AccessSize, Assembler, BpfAlu, BpfHelper, JumpIf, Label};
use super::expression::{CONTEXT, PROCESS_AT};
use super::map_access::{NO_EXIST, TABLE_AT, WORD, look_up, look_up_at};

/// Words of a key: the hash, and the process of user frames, or 0.
pub const CHAIN_WORDS: usize = 3;
/// Words before the frames of a stored chain: the number of kernel frames, that of all frames, and
/// the time at which the chain was stored.
pub const CHAIN_HEADER: usize = 3;
/// Maximum number of frames: the usual limit of the kernel (`PERF_MAX_STACK_DEPTH`).
pub const CHAIN_DEPTH_MAX: usize = 127;

/// `BPF_F_USER_STACK`
const USER_STACK: i32 = 1 << 8;
/// Result of an update: the key is there.
const EEXIST: i32 = -17;

/// A call chain in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainShape {
    /// Whether it has kernel frames.
    pub kernel: bool,
    /// Whether it has user frames.
    pub user: bool,
    /// Maximum number of frames, at most [`CHAIN_DEPTH_MAX`].
    pub depth: usize,
}

/// The maps of a program that counts by call chain, and the constants of its hash. They are the
/// same for all programs of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainMaps {
    /// An array of maps: the chains of each of the two tables.
    pub tables: i32,
    /// An array per CPU with one element of [`ChainShape::memory_bytes`].
    pub memory: i32,
    /// The first value of the hash.
    pub seed: u64,
    /// The odd factor of the hash.
    pub factor: u64,
}

impl ChainShape {
    /// Returns the size of a stored chain in bytes.
    pub fn stored_bytes(&self) -> usize {
        (CHAIN_HEADER + self.depth) * WORD
    }

    /// Returns the size of the memory in which a chain is read: the kernel writes up to the maximum
    /// number of user frames behind the kernel frames.
    pub fn memory_bytes(&self) -> usize {
        self.stored_bytes() + self.depth * WORD
    }

    /// Reads the chain and stores its key at an offset from R10; jumps to `out` without memory.
    /// Changes R0 to R5 and R8.
    pub(super) fn store(&self, code: &mut Assembler, maps: ChainMaps, at: i16, out: Label) {
        look_up(code, maps.memory, 0);
        code.jump_if(JumpIf::Equal, R0, 0, out);
        code.copy(R8, R0);
        code.set(R0, 0);
        if self.kernel {
            self.read(code, 0);
        }
        code.copy(R1, R0);
        code.alu_constant(BpfAlu::ShiftRight, R1, 3);
        code.store(AccessSize::B8, R8, 0, R1);
        if self.user {
            self.read(code, USER_STACK);
        } else {
            code.set(R0, 0);
        }
        self.count_frames(code);
        self.hash(code, maps);
        code.store(AccessSize::B8, R10, at, R3);
        code.store(AccessSize::B8, R10, at + WORD as i16, R4);
        let no_user = code.label();
        code.set(R1, 0);
        if self.user {
            code.load(AccessSize::B8, R2, R8, WORD as i16);
            code.load(AccessSize::B8, R3, R8, 0);
            code.jump_if_register(JumpIf::Equal, R2, R3, no_user);
            code.load(AccessSize::B8, R1, R10, PROCESS_AT);
        }
        code.place(no_user);
        code.store(AccessSize::B8, R10, at + 2 * WORD as i16, R1);
    }

    /// Appends frames to the memory in R8, behind the R0 bytes of frames that it has. Sets R0 to
    /// the bytes that were appended.
    fn read(&self, code: &mut Assembler, flags: i32) {
        code.copy(R1, CONTEXT);
        code.copy(R2, R8);
        code.add_constant(R2, (CHAIN_HEADER * WORD) as i32);
        if flags != 0 {
            code.add(R2, R0);
        }
        code.set(R3, (self.depth * WORD) as i32);
        code.set(R4, flags);
        code.call(BpfHelper::GetStack);
        // An error: there is no such stack.
        let read = code.label();
        code.jump_if(JumpIf::SignedGreaterEqual, R0, 0, read);
        code.set(R0, 0);
        code.place(read);
    }

    /// Stores the number of all frames; R0 has the bytes of the user frames.
    fn count_frames(&self, code: &mut Assembler) {
        let fits = code.label();
        code.alu_constant(BpfAlu::ShiftRight, R0, 3);
        code.load(AccessSize::B8, R2, R8, 0);
        code.add(R2, R0);
        code.jump_if(JumpIf::LessEqual, R2, self.depth as i32, fits);
        code.set(R2, self.depth as i32);
        code.place(fits);
        code.store(AccessSize::B8, R8, WORD as i16, R2);
    }

    /// Sets R3 and R4 to the hash of the R2 frames in the memory in R8, and of how many of them are
    /// those of the kernel. Each frame permutes R3; R4 adds up all states of R3.
    fn hash(&self, code: &mut Assembler, maps: ChainMaps) {
        let end = code.label();
        code.set_long(R1, maps.factor | 1);
        code.set_long(R3, maps.seed);
        code.set_long(R4, maps.seed.rotate_left(32));
        code.load(AccessSize::B8, R5, R8, 0);
        let mix = |code: &mut Assembler| {
            code.alu(BpfAlu::Xor, R3, R5);
            code.alu(BpfAlu::Mul, R3, R1);
            code.copy(R0, R3);
            code.alu_constant(BpfAlu::ShiftRight, R0, 32);
            code.alu(BpfAlu::Xor, R3, R0);
            code.add(R4, R3);
            code.alu(BpfAlu::Mul, R4, R1);
        };
        mix(code);
        // A loop without a backward jump: the kernel checks it in one pass.
        for frame in 0..self.depth {
            code.jump_if(JumpIf::Equal, R2, frame as i32, end);
            code.load(AccessSize::B8, R5, R8, ((CHAIN_HEADER + frame) * WORD) as i16);
            mix(code);
        }
        code.place(end);
    }
}

impl ChainMaps {
    /// Adds the chain in the memory to the chains of the table in use, whose index is stored; its
    /// key is at an offset from R10. Jumps to `no_room` if it cannot be added. Changes R0 to R5,
    /// and the word of the stack at `spare_at`.
    pub(super) fn add(self, code: &mut Assembler, at: i16, spare_at: i16, no_room: Label) {
        let added = code.label();
        look_up(code, self.memory, 0);
        code.jump_if(JumpIf::Equal, R0, 0, no_room);
        code.store(AccessSize::B8, R10, spare_at, R0);
        code.call(BpfHelper::TimeNs);
        code.load(AccessSize::B8, R1, R10, spare_at);
        code.store(AccessSize::B8, R1, 2 * WORD as i16, R0);
        look_up_at(code, self.tables, TABLE_AT);
        code.jump_if(JumpIf::Equal, R0, 0, no_room);
        code.copy(R1, R0);
        code.copy(R2, R10);
        code.add_constant(R2, at.into());
        code.load(AccessSize::B8, R3, R10, spare_at);
        code.set(R4, NO_EXIST);
        code.call(BpfHelper::MapUpdate);
        code.jump_if(JumpIf::Equal, R0, 0, added);
        code.jump_if(JumpIf::Unequal, R0, EEXIST, no_room);
        code.place(added);
    }
}
