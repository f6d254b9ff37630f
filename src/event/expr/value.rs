//! An integer value as Lua source: its C type, how Lua holds it, and between which bounds it lies.
//!
//! A value whose bounds lie within ±2^53 is held as a Lua number, whatever its C type, so most expressions are
//! plain arithmetic; the others are boxes of 64 bits (`int64_t`, `uint64_t`), which LuaJIT keeps in registers.
//! The bounds are kept exactly, in 128 bits, through every operation: where they show that a result
//! fits its type, no code is made to wrap it. No code ever makes `-0`: it would be another key than `0`.

use crate::base::number::IntegerType;
use crate::decode::c::Int;

/// Up to here, both ways, a double holds every whole number.
pub(super) const EXACT: i128 = 1 << 53;
/// Up to here, both ways, LuaJIT's operations on bits take a double modulo 2^32.
const TO_BIT: i128 = 1 << 51;

/// How the code of a value holds it in Lua.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// `true` or `false`: what comparisons give; 1 or 0 to C.
    Truth,
    /// A number, within ±2^53.
    Number,
    /// A 64-bit box, signed as its C type.
    Box,
}

/// An integer expression.
#[derive(Clone, Debug)]
pub(super) struct Value {
    /// Lua source of one operand: needs no parentheses around it.
    pub(super) code: String,
    pub(super) held: Held,
    /// Its type in C.
    pub(super) ty: Int,
    /// No value is less.
    pub(super) low: i128,
    /// No value is more.
    pub(super) high: i128,
    /// Bits at the low end that are always 0.
    pub(super) zeros: u32,
    /// Whether a sum or a difference of doubles makes it; see [`Value::in_box`].
    pub(super) summed: bool,
    /// Whether it reads nothing: then `low` is its value.
    pub(super) constant: bool,
    /// Whether it is an address: a pointer's value, or what was cast to `void *`.
    pub(super) address: bool,
}

/// The least and the greatest value of a type.
pub(super) fn bounds(ty: Int) -> (i128, i128) {
    match (ty.bits, ty.signed) {
        (bits, false) => (0, (1 << bits) - 1),
        (bits, true) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

/// The value of a type that is equal to `value` modulo its width.
fn wrapped(value: i128, ty: Int) -> i128 {
    let bits = ty.wrap(value as u64);
    if ty.signed { i128::from(bits as i64) } else { i128::from(bits) }
}

impl Value {
    /// A constant of a type.
    pub(super) fn constant(value: i128, ty: Int) -> Value {
        let value = wrapped(value, ty);
        let code = match value {
            _ if value.abs() > EXACT && ty.signed => format!("0x{:x}LL", value as u64),
            _ if value.abs() > EXACT => format!("0x{value:x}ULL"),
            _ if value < 0 => format!("({value})"),
            _ => value.to_string(),
        };
        let held = if value.abs() > EXACT { Held::Box } else { Held::Number };
        let zeros = if value == 0 { 63 } else { value.trailing_zeros().min(63) };
        let (low, high) = (value, value);
        Value { code, held, ty, low, high, zeros, summed: false, constant: true, address: false }
    }

    /// What is read from a record.
    pub(super) fn read(code: String, ty: Int, (low, high): (i128, i128)) -> Value {
        let held = if low < -EXACT || high > EXACT { Held::Box } else { Held::Number };
        let (summed, constant, address) = (false, false, false);
        Value { code, held, ty, low, high, zeros: 0, summed, constant, address }
    }

    /// A comparison's result.
    pub(super) fn truth(code: String) -> Value {
        let held = Held::Truth;
        Value {
            code,
            held,
            ty: Int::INT,
            low: 0,
            high: 1,
            zeros: 0,
            summed: false,
            constant: false,
            address: false,
        }
    }

    /// A result held in a box as `code` yields it; it becomes a number when its bounds allow.
    pub(super) fn boxed(code: String, ty: Int, (low, high): (i128, i128)) -> Value {
        let fits = low >= -EXACT && high <= EXACT;
        let code = if fits { format!("tonumber({code})") } else { code };
        Value::read(code, ty, (low, high))
    }

    pub(super) fn with_zeros(mut self, zeros: u32) -> Value {
        self.zeros = zeros.min(63);
        self
    }

    /// Marks a number that `+`, `-` or `%` of doubles makes.
    pub(super) fn summed(mut self) -> Value {
        self.summed = self.held == Held::Number;
        self
    }

    pub(super) fn is_within(&self, (low, high): (i128, i128)) -> bool {
        low <= self.low && self.high <= high
    }

    /// The value of a constant.
    pub(super) fn known(&self) -> Option<i128> {
        self.constant.then_some(self.low)
    }

    /// Marks an address.
    pub(super) fn addressed(mut self) -> Value {
        self.address = true;
        self
    }

    /// How its 64 bits read.
    pub(super) fn integer_type(&self) -> IntegerType {
        match self.address {
            true => IntegerType::Pointer,
            false if self.high > i128::from(i64::MAX) => IntegerType::Unsigned,
            false => IntegerType::Signed,
        }
    }

    /// The code of what Lua takes as a condition.
    pub(super) fn condition(&self) -> String {
        match (self.held, self.known()) {
            (_, Some(value)) => (value != 0).to_string(),
            (Held::Truth, _) => self.code.clone(),
            (Held::Number, _) => format!("({} ~= 0)", self.code),
            (Held::Box, _) if self.ty.signed => format!("({} ~= 0LL)", self.code),
            (Held::Box, _) => format!("({} ~= 0ULL)", self.code),
        }
    }

    /// The same value, held as a number or a box.
    pub(super) fn plain(mut self) -> Value {
        if self.held == Held::Truth {
            self.code = format!("({} and 1 or 0)", self.code);
            self.held = Held::Number;
        }
        self
    }

    /// The code of a Lua number: for values that are held as one, or where only the magnitude counts.
    pub(super) fn number(&self) -> String {
        match self.held {
            Held::Truth => format!("({} and 1 or 0)", self.code),
            Held::Number => self.code.clone(),
            Held::Box => format!("tonumber({})", self.code),
        }
    }

    /// The code of its 64 bits in a box with this sign.
    ///
    /// LuaJIT converts a sum of doubles by adding converted operands, and where one of these is itself a sum
    /// of 32-bit integers it forgets that this may overflow. `floor` changes nothing and stands in between.
    pub(super) fn in_box(&self, signed: bool) -> String {
        let (box_of, suffix) = if signed { ("i64", "LL") } else { ("u64", "ULL") };
        let number = || match self.summed {
            true => format!("floor({})", self.number()),
            false => self.number(),
        };
        match (self.known(), self.held) {
            (Some(value), _) if (0..=EXACT).contains(&value) => format!("{value}{suffix}"),
            (Some(value), _) => format!("0x{:x}{suffix}", value as u64),
            (_, Held::Box) if self.ty.signed == signed => self.code.clone(),
            (_, Held::Box) => format!("{box_of}({})", self.code),
            _ if signed => format!("i64({})", number()),
            // By way of int64_t: the machine has no conversion from a double to uint64_t.
            _ => format!("u64(i64({}))", number()),
        }
    }

    /// The code of a number with the same low 32 bits, fit for LuaJIT's operations on bits.
    pub(super) fn bits(&self) -> String {
        match self.held {
            Held::Box => format!("tobit({})", self.code),
            _ if self.low < -TO_BIT || self.high > TO_BIT => {
                format!("({} % 4294967296)", self.number())
            }
            _ => self.number(),
        }
    }

    /// The value as C converts it to another integer type, and what a computation gives that wraps around.
    pub(super) fn convert(self, ty: Int) -> Value {
        if let Some(value) = self.known() {
            return Value::constant(value, ty);
        }
        if self.held == Held::Truth || ty.bits == 1 {
            let code = self.condition();
            return Value { ty, ..Value::truth(code) };
        }
        if self.is_within(bounds(ty)) {
            // A box is signed as its type; the bounds say that both mean the same bits.
            let code = match self.held {
                Held::Box if self.ty.signed != ty.signed => self.in_box(ty.signed),
                _ => self.code,
            };
            return Value { code, ty, address: false, ..self };
        }
        let (zeros, summed) = (self.zeros, ty.bits == 32 && !ty.signed);
        let code = match (ty.bits, ty.signed) {
            (64, signed) => self.in_box(signed),
            (32, true) => format!("tobit({})", self.bits()),
            (32, false) if self.held == Held::Box => format!("(tobit({}) % 4294967296)", self.code),
            (32, false) => format!("({} % 4294967296)", self.code),
            (bits, true) => {
                let shift = 32 - bits;
                format!("arshift(lshift({}, {shift}), {shift})", self.bits())
            }
            (bits, false) => format!("band({}, {})", self.bits(), (1u32 << bits) - 1),
        };
        let value = Value::read(code, ty, bounds(ty)).with_zeros(zeros.min(u32::from(ty.bits) - 1));
        if summed { value.summed() } else { value }
    }

    /// The value after the promotion that C makes of every operand.
    pub(super) fn promote(self) -> Value {
        let ty = self.ty.promoted();
        Value { ty, ..self }
    }
}
