//! C's integer operators as Lua source.
//!
//! Signed overflow wraps, as in the kernel. Other operations that C leaves undefined (a division by
//! zero or one that overflows, a shift by a negative count or by the width) yield 0 and are counted
//! by the Lua functions called here; see `prelude/expression.lua`. If the bounds exclude such a
//! case, the generated code does not check for it.

use super::value::{EXACT, IntExpr, LuaRepr, bounds};
use crate::decode::c::{Binary, Int, Unary};

/// Returns `op a` for the integer operators.
pub(super) fn unary(op: Unary, a: IntExpr) -> Option<IntExpr> {
    Some(match op {
        Unary::Plus => a.plain().promote(),
        Unary::Minus => add_sub_mul(Binary::Sub, IntExpr::constant(0, a.ty.promoted()), a.plain()),
        Unary::Complement => complement(&a.plain().promote()),
        Unary::Not => match a.known() {
            Some(value) => IntExpr::constant(i128::from(value == 0), Int::INT),
            None if a.repr == LuaRepr::Truth => IntExpr::truth(format!("(not {})", a.code)),
            None if a.repr == LuaRepr::Number => IntExpr::truth(format!("({} == 0)", a.code)),
            None => IntExpr::truth(format!("(not {})", a.condition())),
        },
        Unary::Deref | Unary::Address => return None,
    })
}

/// Returns `a op b` for the integer operators that evaluate both operands.
pub(super) fn binary(op: Binary, a: IntExpr, b: IntExpr) -> Option<IntExpr> {
    use Binary::*;
    let (a, b) = (a.plain(), b.plain());
    Some(match op {
        Add | Sub | Mul => add_sub_mul(op, a, b),
        Div | Rem => divide(op, a, b),
        Shl => shift_left(&a.promote(), &b.promote()),
        Shr => shift_right(&a.promote(), &b.promote()),
        Lt | Le | Gt | Ge | Eq | Ne => compare(op, a, b),
        And | Xor | Or => bits(op, a, b),
        Glob | AndAnd | OrOr => return None,
    })
}

/// Returns `condition ? a : b`.
pub(super) fn choose(condition: &IntExpr, a: IntExpr, b: IntExpr) -> IntExpr {
    let ty = Int::usual(a.ty, b.ty);
    let (a, b) = (a.plain().convert(ty).plain(), b.plain().convert(ty).plain());
    if let Some(value) = condition.known() {
        return if value != 0 { a } else { b };
    }
    let range = (a.low.min(b.low), a.high.max(b.high));
    let is_number = a.repr == LuaRepr::Number && b.repr == LuaRepr::Number;
    let code = |v: &IntExpr| if is_number { v.code.clone() } else { v.in_box(ty.signed) };
    let code = format!("({} and {} or {})", condition.condition(), code(&a), code(&b));
    let value = IntExpr::read(code, ty, range).with_zeros(a.zeros.min(b.zeros));
    if a.summed || b.summed { value.summed() } else { value }
}

fn complement(a: &IntExpr) -> IntExpr {
    let ty = a.ty;
    let (low, high) = bounds(ty);
    match a.known() {
        Some(value) => IntExpr::constant(!value, ty),
        // Subtracts from all ones (`high` if unsigned, -1 if signed), which never borrows.
        None if a.repr == LuaRepr::Number && ty.signed => {
            IntExpr::read(format!("(-1 - {})", a.code), ty, (-1 - a.high, -1 - a.low)).summed()
        }
        None if a.repr == LuaRepr::Number && high <= EXACT => {
            IntExpr::read(format!("({high} - {})", a.code), ty, (high - a.high, high - a.low))
                .summed()
        }
        None => {
            let range = if ty.signed { (-1 - a.high, -1 - a.low) } else { (low, high) };
            IntExpr::boxed(format!("bnot({})", a.in_box(ty.signed)), ty, range)
        }
    }
}

/// `+ - *`: computed without regard to the width, then wrapped. Uses Lua numbers if the result
/// stays exact.
fn add_sub_mul(op: Binary, a: IntExpr, b: IntExpr) -> IntExpr {
    let ty = Int::usual(a.ty, b.ty);
    let (sign, zeros) = match op {
        Binary::Add => ("+", a.zeros.min(b.zeros)),
        Binary::Sub => ("-", a.zeros.min(b.zeros)),
        _ => ("*", a.zeros + b.zeros),
    };
    if let (Some(a), Some(b)) = (a.known(), b.known()) {
        let value = match op {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            _ => (a as u64).wrapping_mul(b as u64).into(),
        };
        return IntExpr::constant(value, ty);
    }
    let range = unwrapped_range(op, &a, &b);
    let numbers = a.repr == LuaRepr::Number && b.repr == LuaRepr::Number;
    if numbers && -EXACT <= range.0 && range.1 <= EXACT {
        // 0 times a negative number is -0.
        let may_be_minus_0 = op == Binary::Mul && (a.low < 0 || b.low < 0);
        let code = match may_be_minus_0 {
            true => format!("({} * {} + 0)", a.code, b.code),
            false => format!("({} {sign} {})", a.code, b.code),
        };
        return IntExpr::read(code, ty, range).with_zeros(zeros).summed().convert(ty);
    }
    if ty.bits < 64 {
        // The low bits do not depend on signedness.
        let code = format!("({} {sign} {})", a.in_box(true), b.in_box(true));
        let wide =
            IntExpr { repr: LuaRepr::Box, ..IntExpr::read(code, Int::LONG, bounds(Int::LONG)) };
        return wide.with_zeros(zeros).convert(ty);
    }
    let (a, b) = (a.convert(ty).plain(), b.convert(ty).plain());
    let code = format!("({} {sign} {})", a.in_box(ty.signed), b.in_box(ty.signed));
    let (least, most) = bounds(ty);
    let (low, high) = unwrapped_range(op, &a, &b);
    let range = if least <= low && high <= most { (low, high) } else { (least, most) };
    IntExpr::boxed(code, ty, range).with_zeros(zeros)
}

/// Returns the bounds of the result before it is wrapped.
fn unwrapped_range(op: Binary, a: &IntExpr, b: &IntExpr) -> (i128, i128) {
    match op {
        Binary::Add => (a.low + b.low, a.high + b.high),
        Binary::Sub => (a.low - b.high, a.high - b.low),
        _ => {
            let ends = [(a.low, b.low), (a.low, b.high), (a.high, b.low), (a.high, b.high)];
            let products = ends.map(|(a, b)| a.saturating_mul(b));
            let low = products.into_iter().min().unwrap_or(0);
            (low, products.into_iter().max().unwrap_or(0))
        }
    }
}

/// `/ %`, which truncate towards zero.
fn divide(op: Binary, a: IntExpr, b: IntExpr) -> IntExpr {
    let ty = Int::usual(a.ty, b.ty);
    let (a, b) = (a.convert(ty).plain(), b.convert(ty).plain());
    let is_quotient = op == Binary::Div;
    let by_zero = b.low <= 0 && b.high >= 0;
    let overflows = ty.signed && a.low == bounds(ty).0 && b.low <= -1 && b.high >= -1;
    if let (Some(a), Some(b), false) = (a.known(), b.known(), by_zero || overflows) {
        return IntExpr::constant(if is_quotient { a / b } else { a % b }, ty);
    }
    let range = if is_quotient { quotient_range(&a, &b) } else { remainder_range(&a, &b) };
    if a.repr == LuaRepr::Number && b.repr == LuaRepr::Number {
        let natural = a.low >= 0 && b.low >= 0;
        let (a, b) = (&a.code, &b.code);
        let code = match (is_quotient, natural, by_zero, overflows) {
            (true, true, false, _) => format!("floor({a} / {b})"),
            (false, true, false, _) => format!("({a} % {b})"),
            (true, true, true, _) => format!("divide_natural({a}, {b})"),
            (false, true, true, _) => format!("remainder_natural({a}, {b})"),
            (true, false, false, false) => format!("quotient({a}, {b})"),
            (false, false, false, false) => format!("remainder({a}, {b})"),
            (true, false, true, false) => format!("divide_number({a}, {b})"),
            (false, false, true, false) => format!("remainder_number({a}, {b})"),
            // Only `int` overflows here: smaller types are promoted, larger ones are boxes.
            (true, ..) => format!("divide_int({a}, {b})"),
            (false, ..) => format!("remainder_int({a}, {b})"),
        };
        return IntExpr::read(code, ty, range).summed();
    }
    let (sign, name) = if is_quotient { ("/", "divide") } else { ("%", "remainder") };
    let (a, b) = (a.in_box(ty.signed), b.in_box(ty.signed));
    let code = match (by_zero || overflows, ty.signed) {
        (false, _) => format!("({a} {sign} {b})"),
        (true, true) => format!("{name}_long({a}, {b})"),
        (true, false) => format!("{name}_ulong({a}, {b})"),
    };
    IntExpr::boxed(code, ty, range)
}

fn quotient_range(a: &IntExpr, b: &IntExpr) -> (i128, i128) {
    let least = if b.low > 0 { b.low } else { 1 };
    let most = a.low.abs().max(a.high.abs()) / least;
    let low = if a.low >= 0 && b.low >= 0 { 0 } else { -most };
    (low, if a.high <= 0 && b.low >= 0 { 0 } else { most.min(bounds(a.ty).1) })
}

fn remainder_range(a: &IntExpr, b: &IntExpr) -> (i128, i128) {
    let most = b.low.abs().max(b.high.abs()) - 1;
    let low = if a.low < 0 { -most.min(-a.low) } else { 0 };
    (low.min(0), if a.high > 0 { most.min(a.high).max(0) } else { 0 })
}

/// The count of a shift: a constant in range, or code whose value must be checked unless `safe`.
struct ShiftCount {
    known: Option<u32>,
    code: String,
    safe: bool,
}

fn count(b: &IntExpr, ty: Int) -> ShiftCount {
    let safe = b.low >= 0 && b.high < i128::from(ty.bits);
    let known = b.known().filter(|_| safe).map(|n| n as u32);
    ShiftCount { known, code: b.number(), safe }
}

fn shift_left(a: &IntExpr, b: &IntExpr) -> IntExpr {
    let (ty, n) = (a.ty, count(b, a.ty));
    if let Some(n) = n.known {
        let range = (a.low << n, a.high << n);
        if let Some(value) = a.known() {
            return IntExpr::constant(value << n, ty);
        }
        let shifted = IntExpr::read(String::new(), ty, range);
        let exact = shifted.repr == LuaRepr::Number;
        if exact && a.repr == LuaRepr::Number && shifted.is_within(bounds(ty)) {
            let code = format!("({} * {})", a.code, 1u64 << n);
            return IntExpr::read(code, ty, range).with_zeros(a.zeros + n);
        }
    }
    let zeros = n.known.map_or(a.zeros, |known| a.zeros + known);
    let range = match n.known {
        Some(n) if a.low << n >= bounds(ty).0 && a.high << n <= bounds(ty).1 => {
            (a.low << n, a.high << n)
        }
        _ => bounds(ty),
    };
    if ty.bits < 64 {
        let name = if n.safe { "lshift" } else { "shift_left" };
        let code = format!("{name}({}, {})", a.bits(), n.code);
        let code = if ty.signed { code } else { format!("({code} % 4294967296)") };
        return IntExpr::read(code, ty, range).with_zeros(zeros.min(31)).summed();
    }
    let name = match (n.safe, ty.signed) {
        (true, _) => "lshift",
        (false, true) => "shift_left_long",
        (false, false) => "shift_left_ulong",
    };
    IntExpr::boxed(format!("{name}({}, {})", a.in_box(ty.signed), n.code), ty, range)
        .with_zeros(zeros)
}

fn shift_right(a: &IntExpr, b: &IntExpr) -> IntExpr {
    let (ty, n) = (a.ty, count(b, a.ty));
    let zeros = n.known.map_or(0, |n| a.zeros.saturating_sub(n));
    let range = match n.known {
        Some(n) => (a.low >> n, a.high >> n),
        None => (a.low.min(0), a.high.max(0)),
    };
    if let (Some(value), Some(n)) = (a.known(), n.known) {
        return IntExpr::constant(value >> n, ty);
    }
    if let (Some(n), LuaRepr::Number, 64) = (n.known, a.repr, ty.bits) {
        let code = format!("floor({} / {})", a.code, 1u128 << n);
        return IntExpr::read(code, ty, range).with_zeros(zeros);
    }
    if ty.bits < 64 {
        let code = match (n.safe, ty.signed) {
            (true, true) => format!("arshift({}, {})", a.code, n.code),
            (true, false) => format!("rshift({}, {})", a.code, n.code),
            (false, true) => format!("shift_right_int({}, {})", a.code, n.code),
            (false, false) => format!("shift_right_uint({}, {})", a.code, n.code),
        };
        // A shift by 0 keeps the sign of LuaJIT's 32-bit integers.
        let may_be_negative = !ty.signed && range.1 > bounds(Int::INT).1;
        let code = if may_be_negative { format!("({code} % 4294967296)") } else { code };
        return IntExpr::read(code, ty, range).with_zeros(zeros).summed();
    }
    let name = match (n.safe, ty.signed) {
        (true, true) => "arshift",
        (true, false) => "rshift",
        (false, true) => "shift_right_long",
        (false, false) => "shift_right_ulong",
    };
    IntExpr::boxed(format!("{name}({}, {})", a.in_box(ty.signed), n.code), ty, range)
        .with_zeros(zeros)
}

fn compare(op: Binary, a: IntExpr, b: IntExpr) -> IntExpr {
    let ty = Int::usual(a.ty, b.ty);
    let (a, b) = (a.convert(ty).plain(), b.convert(ty).plain());
    let (sign, holds): (_, fn(&i128, &i128) -> bool) = match op {
        Binary::Lt => ("<", i128::lt),
        Binary::Le => ("<=", i128::le),
        Binary::Gt => (">", i128::gt),
        Binary::Ge => (">=", i128::ge),
        Binary::Eq => ("==", i128::eq),
        _ => ("~=", i128::ne),
    };
    if let (Some(a), Some(b)) = (a.known(), b.known()) {
        return IntExpr::constant(holds(&a, &b).into(), Int::INT);
    }
    let as_numbers = a.repr == LuaRepr::Number && b.repr == LuaRepr::Number;
    let code = |v: &IntExpr| if as_numbers { v.code.clone() } else { v.in_box(ty.signed) };
    IntExpr::truth(format!("({} {sign} {})", code(&a), code(&b)))
}

/// `& | ^`
fn bits(op: Binary, a: IntExpr, b: IntExpr) -> IntExpr {
    let ty = Int::usual(a.ty, b.ty);
    let (a, b) = (a.convert(ty).plain(), b.convert(ty).plain());
    let (name, of): (_, fn(i128, i128) -> i128) = match op {
        Binary::And => ("band", |a, b| a & b),
        Binary::Or => ("bor", |a, b| a | b),
        _ => ("bxor", |a, b| a ^ b),
    };
    if let (Some(a), Some(b)) = (a.known(), b.known()) {
        return IntExpr::constant(of(a, b), ty);
    }
    let range = bits_range(op, &a, &b);
    let zeros = match op {
        Binary::And => a.zeros.max(b.zeros),
        _ => a.zeros.min(b.zeros),
    };
    let numbers = a.repr == LuaRepr::Number && b.repr == LuaRepr::Number;
    if numbers && op != Binary::And {
        // Operands without common bits are added: `(__cpu << 32) | vec`.
        let disjoint = |a: &IntExpr, b: &IntExpr| b.low >= 0 && b.high < 1 << a.zeros;
        let sum = (a.low + b.low, a.high + b.high);
        if (disjoint(&a, &b) || disjoint(&b, &a)) && -EXACT <= sum.0 && sum.1 <= EXACT {
            let code = format!("({} + {})", a.code, b.code);
            return IntExpr::read(code, ty, sum).with_zeros(zeros).summed();
        }
    }
    let (int, uint) = (bounds(Int::INT), bounds(Int::UINT));
    let narrow = numbers
        && (a.is_within(int) && b.is_within(int)
            || a.is_within(uint) && b.is_within(uint)
            || op == Binary::And && (a.is_within((0, int.1)) || b.is_within((0, int.1))));
    if narrow {
        let code = format!("{name}({}, {})", a.bits(), b.bits());
        let signed = range.1 > int.1;
        let code = if signed { format!("({code} % 4294967296)") } else { code };
        return IntExpr::read(code, ty, range).with_zeros(zeros).summed();
    }
    let code = format!("{name}({}, {})", a.in_box(ty.signed), b.in_box(ty.signed));
    IntExpr::boxed(code, ty, range).with_zeros(zeros)
}

/// Returns the bounds of a bitwise operation's result.
fn bits_range(op: Binary, a: &IntExpr, b: &IntExpr) -> (i128, i128) {
    if op == Binary::And {
        match (a.low >= 0, b.low >= 0) {
            (true, true) => return (0, a.high.min(b.high)),
            (true, false) => return (0, a.high),
            (false, true) => return (0, b.high),
            (false, false) => {}
        }
    }
    // All ones, as wide as the widest of the four bounds.
    let reach = |v: i128| if v < 0 { !v } else { v };
    let longest = [a.low, a.high, b.low, b.high].map(reach).into_iter().max().unwrap_or(0);
    let ones = (1i128 << (128 - longest.leading_zeros())) - 1;
    (if a.low >= 0 && b.low >= 0 { 0 } else { !ones }, ones)
}
