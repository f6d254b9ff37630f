//! C types: names of integer types in a 64-bit kernel, integer promotion and usual arithmetic
//! conversions.

/// The type in a cast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// An integer.
    Int(Int),
    /// `T *`
    Pointer(Pointee),
    /// `struct x`, `void`, or an unknown typedef.
    Other(String),
}

/// The target type of a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pointee {
    /// An integer; `char` for text.
    Int(Int),
    /// `void`, a struct, another pointer, an unknown typedef.
    Other(String),
}

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Int {
    /// Width in bits: 8, 16, 32 or 64; 1 for `bool`, to which all values except zero convert as 1.
    pub bits: u8,
    /// Whether the type has negative values.
    pub signed: bool,
}

impl Int {
    /// `bool`
    pub const BOOL: Int = Int { bits: 1, signed: false };
    /// `char`, signed as on x86; the kernel is built with `-funsigned-char`, but formats state the
    /// sign of each field.
    pub const CHAR: Int = Int { bits: 8, signed: true };
    /// `int`
    pub const INT: Int = Int { bits: 32, signed: true };
    /// `unsigned int`
    pub const UINT: Int = Int { bits: 32, signed: false };
    /// `long`, `long long`
    pub const LONG: Int = Int { bits: 64, signed: true };
    /// `unsigned long`
    pub const ULONG: Int = Int { bits: 64, signed: false };

    /// Returns its size in bytes.
    pub fn size(self) -> u64 {
        u64::from(self.bits.div_ceil(8))
    }

    /// Returns the type after integer promotion.
    pub fn promoted(self) -> Int {
        if self.bits < 32 { Int::INT } else { self }
    }

    /// Returns the type in which `a op b` is computed.
    pub fn usual(a: Int, b: Int) -> Int {
        let (a, b) = (a.promoted(), b.promoted());
        match a.bits.cmp(&b.bits) {
            std::cmp::Ordering::Greater => a,
            std::cmp::Ordering::Less => b,
            std::cmp::Ordering::Equal => Int { bits: a.bits, signed: a.signed && b.signed },
        }
    }

    /// Truncates a 64-bit value to this type and extends it again according to its sign.
    pub fn wrap(self, value: u64) -> u64 {
        match (self.bits, self.signed) {
            (1, _) => u64::from(value != 0),
            (8, true) => value as i8 as u64,
            (8, false) => u64::from(value as u8),
            (16, true) => value as i16 as u64,
            (16, false) => u64::from(value as u16),
            (32, true) => value as i32 as u64,
            (32, false) => u64::from(value as u32),
            _ => value,
        }
    }

    /// Returns the integer type of a typedef of the kernel or of stdint.h on a 64-bit machine.
    pub fn of_typedef(name: &str) -> Option<Int> {
        let stem = name.trim_start_matches("__");
        // Require `_t`: without it each of these is a field of some event, and `(pid) - 1`
        // subtracts.
        match stem.strip_suffix("_t") {
            Some(
                "size" | "uintptr" | "pgoff" | "dma_addr" | "phys_addr" | "blkcnt" | "sector"
                | "kernel_ulong" | "kernel_size" | "resource_size",
            ) => return Some(Int::ULONG),
            Some(
                "ssize" | "loff" | "off" | "ktime" | "intptr" | "time64" | "ptrdiff"
                | "kernel_long" | "kernel_loff",
            ) => return Some(Int::LONG),
            Some("gfp" | "dev" | "uid" | "gid" | "fmode" | "blk_opf" | "slab_flags" | "poll") => {
                return Some(Int::UINT);
            }
            Some("pid" | "kernel_rwf" | "key_serial") => return Some(Int::INT),
            Some("umode" | "mode") => return Some(Int { bits: 16, signed: false }),
            _ => {}
        }
        let fixed = stem.trim_end_matches("_t");
        let (signed, digits) = match fixed {
            "bool" | "_Bool" => return Some(Int::BOOL),
            "uint" => return Some(Int::UINT),
            _ if fixed.starts_with("uint") => (false, &fixed[4..]),
            _ if fixed.starts_with("int") => (true, &fixed[3..]),
            _ if fixed.starts_with("le") || fixed.starts_with("be") => (false, &fixed[2..]),
            _ if fixed.starts_with('u') => (false, &fixed[1..]),
            _ if fixed.starts_with('s') => (true, &fixed[1..]),
            _ => return None,
        };
        let bits = digits.parse().ok().filter(|bits| matches!(bits, 8 | 16 | 32 | 64))?;
        Some(Int { bits, signed })
    }
}
