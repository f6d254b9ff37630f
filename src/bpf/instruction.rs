//! The parts of BPF instructions: registers, sizes, conditions, operations and functions.
//!
//! Source: Documentation/bpf/standardization/instruction-set.rst and include/uapi/linux/bpf.h.

/// A register of the BPF machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BpfRegister {
    /// Result of a call, and of the program.
    R0 = 0,
    /// First argument of a call, or the context when the program begins.
    R1 = 1,
    /// Second argument.
    R2 = 2,
    /// Third argument.
    R3 = 3,
    /// Fourth argument.
    R4 = 4,
    /// Fifth argument.
    R5 = 5,
    /// Kept by calls, as the next three.
    R6 = 6,
    /// Kept by calls.
    R7 = 7,
    /// Kept by calls.
    R8 = 8,
    /// Kept by calls.
    R9 = 9,
    /// End of the stack of 512 bytes; read only.
    R10 = 10,
}

/// Size of a load or a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessSize {
    /// 1 byte.
    B1,
    /// 2 bytes.
    B2,
    /// 4 bytes.
    B4,
    /// 8 bytes.
    B8,
}

impl AccessSize {
    /// Returns the size of this many bytes; None if no access has it.
    pub fn of(bytes: usize) -> Option<AccessSize> {
        Some(match bytes {
            1 => AccessSize::B1,
            2 => AccessSize::B2,
            4 => AccessSize::B4,
            8 => AccessSize::B8,
            _ => return None,
        })
    }

    /// Returns the largest size of at most `left` bytes, at least 1, that both offsets are a
    /// multiple of.
    pub(super) fn largest(to: i16, from: i16, left: i16) -> AccessSize {
        let sizes = [AccessSize::B8, AccessSize::B4, AccessSize::B2];
        let fits = |size: &AccessSize| {
            let bytes = size.bytes() as i16;
            bytes <= left && to % bytes == 0 && from % bytes == 0
        };
        sizes.into_iter().find(fits).unwrap_or(AccessSize::B1)
    }

    /// Returns the number of bytes.
    pub fn bytes(self) -> usize {
        match self {
            AccessSize::B1 => 1,
            AccessSize::B2 => 2,
            AccessSize::B4 => 4,
            AccessSize::B8 => 8,
        }
    }

    /// Returns the size bits of the opcode.
    pub(super) fn bits(self) -> u8 {
        match self {
            AccessSize::B1 => 0x10,
            AccessSize::B2 => 0x08,
            AccessSize::B4 => 0x00,
            AccessSize::B8 => 0x18,
        }
    }
}

/// Condition of a jump: a register compared with a constant or another register. The value of each
/// is its opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum JumpIf {
    /// Equal.
    Equal = 0x15,
    /// Not equal.
    Unequal = 0x55,
    /// A bit is set in both.
    AnyBit = 0x45,
    /// Less, unsigned.
    Less = 0xa5,
    /// Less or equal, unsigned.
    LessEqual = 0xb5,
    /// Greater, unsigned.
    Greater = 0x25,
    /// Greater or equal, unsigned.
    GreaterEqual = 0x35,
    /// Less, signed.
    SignedLess = 0xc5,
    /// Less or equal, signed.
    SignedLessEqual = 0xd5,
    /// Greater, signed.
    SignedGreater = 0x65,
    /// Greater or equal, signed.
    SignedGreaterEqual = 0x75,
}

/// An operation on 64 bits. The value of each is its opcode with a constant as second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BpfAlu {
    /// `+`
    Add = 0x07,
    /// `-`
    Sub = 0x17,
    /// `*`
    Mul = 0x27,
    /// `/`, unsigned.
    Div = 0x37,
    /// `|`
    Or = 0x47,
    /// `&`
    And = 0x57,
    /// `<<`
    ShiftLeft = 0x67,
    /// `>>`, unsigned.
    ShiftRight = 0x77,
    /// `%`, unsigned.
    Rem = 0x97,
    /// `^`
    Xor = 0xa7,
    /// `>>`, signed.
    ArithmeticShift = 0xc7,
}

/// Functions of the kernel that programs call: `BPF_FUNC_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum BpfHelper {
    /// `bpf_map_lookup_elem(map, key)`.
    MapLookup = 1,
    /// `bpf_map_update_elem(map, key, value, flags)`.
    MapUpdate = 2,
    /// `bpf_map_delete_elem(map, key)`.
    MapDelete = 3,
    /// `bpf_ktime_get_ns()`: `CLOCK_MONOTONIC`.
    TimeNs = 5,
    /// `bpf_get_smp_processor_id()`.
    ProcessorId = 8,
    /// `bpf_get_current_pid_tgid()`: the process in the upper half, the thread in the lower one.
    CurrentTask = 14,
    /// `bpf_get_current_comm(dst, size)`.
    CurrentComm = 16,
    /// `bpf_perf_event_output(ctx, map, flags, data, size)`.
    PerfOutput = 25,
    /// `bpf_get_current_task()`: the address of its `task_struct`.
    CurrentTaskAddress = 35,
    /// `bpf_current_task_under_cgroup(map, index)`: 1 if it is.
    CurrentUnderCgroup = 37,
    /// `bpf_get_stack(ctx, dst, size, flags)`: the bytes written, or an error.
    GetStack = 67,
    /// `bpf_get_current_cgroup_id()`, in the hierarchy of cgroup v2.
    CurrentCgroup = 80,
    /// `bpf_probe_read_kernel(dst, size, address)`.
    ReadKernel = 113,
    /// `bpf_probe_read_user_str(dst, size, address)`.
    ReadUserText = 114,
    /// `bpf_probe_read_kernel_str(dst, size, address)`.
    ReadKernelText = 115,
    /// `bpf_get_attach_cookie(ctx)`: the number that the attachment has.
    AttachCookie = 174,
}
