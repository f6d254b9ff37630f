//! An integer value as Lua source: its C type, its representation in Lua, and its bounds.
//!
//! A value whose bounds lie within ±2^53 is held as a Lua number, regardless of its C type, so most
//! expressions are plain arithmetic. Other values are 64-bit boxes (`int64_t`, `uint64_t`), which
//! LuaJIT keeps in registers. The bounds are tracked exactly, in 128 bits, through every operation;
//! if they show that a result fits its type, no code is generated to wrap it. Generated code never
//! yields `-0`, which would be a different key than `0`.

use crate::base::text::number::IntegerType;
use crate::decode::c::Int;

/// A double holds every integer within ± this.
pub(super) const EXACT: i128 = 1 << 53;
/// LuaJIT's bit operations take a double within ± this modulo 2^32.
const TO_BIT: i128 = 1 << 51;

/// Representation of a value in Lua.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LuaRepr {
    /// `true` or `false`, the result of a comparison; 1 or 0 in C.
    Truth,
    /// A number, within ±2^53.
    Number,
    /// A 64-bit box with the signedness of its C type.
    Box,
}

/// An integer expression.
#[derive(Clone, Debug)]
pub(super) struct IntExpr {
    /// Lua source that can be used as an operand without parentheses.
    pub(super) code: String,
    pub(super) repr: LuaRepr,
    /// C type.
    pub(super) ty: Int,
    /// Lower bound.
    pub(super) low: i128,
    /// Upper bound.
    pub(super) high: i128,
    /// Number of low bits that are always 0.
    pub(super) zeros: u32,
    /// Whether it is a sum or difference of doubles; see [`IntExpr::in_box`].
    pub(super) summed: bool,
    /// Whether it is a constant; then `low` is its value.
    pub(super) constant: bool,
    /// Whether it is an address: the value of a pointer, or a cast to `void *`.
    pub(super) address: bool,
}

/// Returns the minimum and maximum of a type.
pub(super) fn bounds(ty: Int) -> (i128, i128) {
    match (ty.bits, ty.signed) {
        (bits, false) => (0, (1 << bits) - 1),
        (bits, true) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

/// Returns the value of type `ty` that equals `value` modulo the width of the type.
fn wrapped(value: i128, ty: Int) -> i128 {
    let bits = ty.wrap(value as u64);
    if ty.signed { i128::from(bits as i64) } else { i128::from(bits) }
}

impl IntExpr {
    /// Returns a constant of a type.
    pub(super) fn constant(value: i128, ty: Int) -> IntExpr {
        let value = wrapped(value, ty);
        let code = match value {
            _ if value.abs() > EXACT && ty.signed => format!("0x{:x}LL", value as u64),
            _ if value.abs() > EXACT => format!("0x{value:x}ULL"),
            _ if value < 0 => format!("({value})"),
            _ => value.to_string(),
        };
        let repr = if value.abs() > EXACT { LuaRepr::Box } else { LuaRepr::Number };
        let zeros = if value == 0 { 63 } else { value.trailing_zeros().min(63) };
        let (low, high) = (value, value);
        IntExpr { code, repr, ty, low, high, zeros, summed: false, constant: true, address: false }
    }

    /// Returns a value that `code` reads or computes, within bounds.
    pub(super) fn read(code: String, ty: Int, (low, high): (i128, i128)) -> IntExpr {
        let repr = if low < -EXACT || high > EXACT { LuaRepr::Box } else { LuaRepr::Number };
        let (summed, constant, address) = (false, false, false);
        IntExpr { code, repr, ty, low, high, zeros: 0, summed, constant, address }
    }

    /// Returns the result of a comparison.
    pub(super) fn truth(code: String) -> IntExpr {
        let repr = LuaRepr::Truth;
        IntExpr {
            code,
            repr,
            ty: Int::INT,
            low: 0,
            high: 1,
            zeros: 0,
            summed: false,
            constant: false,
            address: false,
        }
    }

    /// Returns a value that `code` yields in a box; converts it to a number if its bounds allow.
    pub(super) fn boxed(code: String, ty: Int, (low, high): (i128, i128)) -> IntExpr {
        let fits = low >= -EXACT && high <= EXACT;
        let code = if fits { format!("tonumber({code})") } else { code };
        IntExpr::read(code, ty, (low, high))
    }

    pub(super) fn with_zeros(mut self, zeros: u32) -> IntExpr {
        self.zeros = zeros.min(63);
        self
    }

    /// Marks a number that is the result of `+`, `-` or `%` on doubles.
    pub(super) fn summed(mut self) -> IntExpr {
        self.summed = self.repr == LuaRepr::Number;
        self
    }

    pub(super) fn is_within(&self, (low, high): (i128, i128)) -> bool {
        low <= self.low && self.high <= high
    }

    /// Returns the value of a constant.
    pub(super) fn known(&self) -> Option<i128> {
        self.constant.then_some(self.low)
    }

    /// Marks the value as an address.
    pub(super) fn addressed(mut self) -> IntExpr {
        self.address = true;
        self
    }

    /// Returns how its 64 bits are interpreted.
    pub(super) fn integer_type(&self) -> IntegerType {
        match self.address {
            true => IntegerType::Pointer,
            false if self.high > i128::from(i64::MAX) => IntegerType::Unsigned,
            false => IntegerType::Signed,
        }
    }

    /// Returns the code of a Lua condition.
    pub(super) fn condition(&self) -> String {
        match (self.repr, self.known()) {
            (_, Some(value)) => (value != 0).to_string(),
            (LuaRepr::Truth, _) => self.code.clone(),
            (LuaRepr::Number, _) => format!("({} ~= 0)", self.code),
            (LuaRepr::Box, _) if self.ty.signed => format!("({} ~= 0LL)", self.code),
            (LuaRepr::Box, _) => format!("({} ~= 0ULL)", self.code),
        }
    }

    /// Returns the same value, held as a number or a box.
    pub(super) fn plain(mut self) -> IntExpr {
        if self.repr == LuaRepr::Truth {
            self.code = format!("({} and 1 or 0)", self.code);
            self.repr = LuaRepr::Number;
        }
        self
    }

    /// Returns the code of a Lua number, for a value held as a number or if only the magnitude
    /// matters.
    pub(super) fn number(&self) -> String {
        match self.repr {
            LuaRepr::Truth => format!("({} and 1 or 0)", self.code),
            LuaRepr::Number => self.code.clone(),
            LuaRepr::Box => format!("tonumber({})", self.code),
        }
    }

    /// Returns the code of its 64 bits in a box of this signedness.
    ///
    /// LuaJIT converts a sum of doubles by adding the converted operands. If one of these is itself
    /// a sum of 32-bit integers, LuaJIT ignores that it may overflow. `floor` prevents this without
    /// changing the value.
    pub(super) fn in_box(&self, signed: bool) -> String {
        let (box_of, suffix) = if signed { ("i64", "LL") } else { ("u64", "ULL") };
        let number = || match self.summed {
            true => format!("floor({})", self.number()),
            false => self.number(),
        };
        match (self.known(), self.repr) {
            (Some(value), _) if (0..=EXACT).contains(&value) => format!("{value}{suffix}"),
            (Some(value), _) => format!("0x{:x}{suffix}", value as u64),
            (_, LuaRepr::Box) if self.ty.signed == signed => self.code.clone(),
            (_, LuaRepr::Box) => format!("{box_of}({})", self.code),
            _ if signed => format!("i64({})", number()),
            // Converts to int64_t first: the CPU cannot convert a double to uint64_t.
            _ => format!("u64(i64({}))", number()),
        }
    }

    /// Returns the code of the value in the form that scripts get.
    pub(super) fn lua(&self) -> String {
        match self.repr {
            LuaRepr::Box => format!("exact({})", self.in_box(true)),
            _ => self.number(),
        }
    }

    /// Returns the code of a number with the same low 32 bits, for LuaJIT's bit operations.
    pub(super) fn bits(&self) -> String {
        match self.repr {
            LuaRepr::Box => format!("tobit({})", self.code),
            _ if self.low < -TO_BIT || self.high > TO_BIT => {
                format!("({} % 4294967296)", self.number())
            }
            _ => self.number(),
        }
    }

    /// Converts the value to another integer type as in C, and wraps the result of a computation.
    pub(super) fn convert(self, ty: Int) -> IntExpr {
        if let Some(value) = self.known() {
            return IntExpr::constant(value, ty);
        }
        if self.repr == LuaRepr::Truth || ty.bits == 1 {
            let code = self.condition();
            return IntExpr { ty, ..IntExpr::truth(code) };
        }
        if self.is_within(bounds(ty)) {
            // A box has the signedness of its type; within the bounds both have the same bits.
            let code = match self.repr {
                LuaRepr::Box if self.ty.signed != ty.signed => self.in_box(ty.signed),
                _ => self.code,
            };
            return IntExpr { code, ty, address: false, ..self };
        }
        let (zeros, summed) = (self.zeros, ty.bits == 32 && !ty.signed);
        let code = match (ty.bits, ty.signed) {
            (64, signed) => self.in_box(signed),
            (32, true) => format!("tobit({})", self.bits()),
            (32, false) if self.repr == LuaRepr::Box => {
                format!("(tobit({}) % 4294967296)", self.code)
            }
            (32, false) => format!("({} % 4294967296)", self.code),
            (bits, true) => {
                let shift = 32 - bits;
                format!("arshift(lshift({}, {shift}), {shift})", self.bits())
            }
            (bits, false) => format!("band({}, {})", self.bits(), (1u32 << bits) - 1),
        };
        let value =
            IntExpr::read(code, ty, bounds(ty)).with_zeros(zeros.min(u32::from(ty.bits) - 1));
        if summed { value.summed() } else { value }
    }

    /// Applies C's integer promotion of operands.
    pub(super) fn promote(self) -> IntExpr {
        let ty = self.ty.promoted();
        IntExpr { ty, ..self }
    }
}
