//! Integer arithmetic as in C, with every case defined.
//!
//! Cases that are undefined in C are defined: division by zero returns 0, a shift count is modulo
//! the width, as in hardware.

use crate::decode::c::{Binary, Int, Unary};

/// Reads the integer at the start of `bytes`.
pub(super) fn read(bytes: &[u8], int: Int) -> Option<u64> {
    let value = match int.bits {
        64 => u64::from_ne_bytes(*bytes.first_chunk()?),
        32 => u32::from_ne_bytes(*bytes.first_chunk()?).into(),
        16 => u16::from_ne_bytes(*bytes.first_chunk()?).into(),
        _ => (*bytes.first()?).into(),
    };
    Some(int.wrap(value))
}

pub(super) fn unary(op: Unary, int: Int, a: u64) -> u64 {
    match op {
        Unary::Minus => int.wrap(a.wrapping_neg()),
        Unary::Complement => int.wrap(!a),
        Unary::Not => u64::from(a == 0),
        Unary::Plus | Unary::Deref | Unary::Address => a,
    }
}

pub(super) fn binary(op: Binary, int: Int, a: u64, b: u64) -> u64 {
    let (sa, sb) = (a as i64, b as i64);
    let compared = if int.signed { sa.cmp(&sb) } else { a.cmp(&b) };
    let by = (b as u32) & (u32::from(int.bits.max(32)) - 1);
    let value = match op {
        Binary::Mul => a.wrapping_mul(b),
        Binary::Div | Binary::Rem if b == 0 => 0,
        Binary::Div if int.signed => sa.wrapping_div(sb) as u64,
        Binary::Div => a / b,
        Binary::Rem if int.signed => sa.wrapping_rem(sb) as u64,
        Binary::Rem => a % b,
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Shl => a << by,
        Binary::Shr if int.signed => (sa >> by) as u64,
        Binary::Shr => a >> by,
        Binary::And => a & b,
        Binary::Xor => a ^ b,
        Binary::Or => a | b,
        Binary::AndAnd => return u64::from(a != 0 && b != 0),
        Binary::OrOr => return u64::from(a != 0 || b != 0),
        Binary::Lt => return compared.is_lt().into(),
        Binary::Le => return compared.is_le().into(),
        Binary::Gt => return compared.is_gt().into(),
        Binary::Ge => return compared.is_ge().into(),
        Binary::Eq | Binary::Glob => return u64::from(a == b),
        Binary::Ne => return u64::from(a != b),
    };
    int.wrap(value)
}

/// Swaps the bytes of a value.
pub(super) fn swap(value: u64, int: Int) -> u64 {
    match int.bits {
        16 => u64::from((value as u16).swap_bytes()),
        32 => u64::from((value as u32).swap_bytes()),
        _ => value.swap_bytes(),
    }
}
