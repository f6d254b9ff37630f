//! `%p` and its extensions: symbols, hardware addresses, identifiers, bytes, bitmaps.
//!
//! Follows Documentation/core-api/printk-formats.rst. Conversions that dereference a pointer into
//! kernel memory (`%pd`, `%pV`, `%pR` …) are unknown here: that memory cannot be read later.

use super::arithmetic::read;
use super::evaluate::{At, Evaluator};
use super::network::{Ip, copy, push_ip4, push_ip6, push_socket};
use super::number::{self, Base, NumberLayout};
use super::value::PointerTarget;
use crate::base::text::digits;
use crate::decode::c::Int;

/// A conversion of a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extension {
    /// `%p %px %pK`: the address.
    Address,
    /// `%pe`: the name of an errno value.
    Error,
    /// `%pS %ps %pB`
    Symbol { offset: bool, caller: bool },
    /// `%pI4 %pi4`
    Ip4(Ip),
    /// `%pI6 %pi6`
    Ip6(Ip),
    /// `%pIS %piS`
    Socket(Ip),
    /// `%pM %pm`
    Mac { separator: Option<u8>, reversed: bool },
    /// `%pU`
    Uuid { little: bool, upper: bool },
    /// `%*ph`
    Hex(Option<u8>),
    /// `%*pb`, `%*pbl`
    Bitmap { list: bool },
    /// `%pa`, `%pNF`: a 64-bit number at the pointer.
    Number,
}

impl Extension {
    /// Parses the text after `%p`; None if it is unknown.
    pub(super) fn parse(text: &[u8]) -> Option<Extension> {
        let has = |byte| text.get(1..).is_some_and(|rest| rest.contains(&byte));
        Some(match *text {
            [] | [b'x' | b'K', ..] => Extension::Address,
            [b'e', ..] => Extension::Error,
            [b'S' | b'F', ..] => Extension::Symbol { offset: true, caller: false },
            // `%pfw` prints a firmware node.
            [b'f', b'w', ..] => return None,
            [b's' | b'f', ..] => Extension::Symbol { offset: false, caller: false },
            [b'B', ..] => Extension::Symbol { offset: true, caller: true },
            [b'I' | b'i', kind, ref flags @ ..] => {
                let ip = Ip::parse(text.first() == Some(&b'i'), flags);
                match kind {
                    b'4' => Extension::Ip4(ip),
                    b'6' => Extension::Ip6(ip),
                    b'S' => Extension::Socket(ip),
                    _ => return None,
                }
            }
            [b'M', ..] => {
                let separator = if has(b'F') { b'-' } else { b':' };
                Extension::Mac { separator: Some(separator), reversed: has(b'R') }
            }
            [b'm', ..] => Extension::Mac { separator: None, reversed: has(b'R') },
            [b'U', ..] => {
                let kind = text.get(1);
                Extension::Uuid {
                    little: matches!(kind, Some(b'l' | b'L')),
                    upper: matches!(kind, Some(b'L' | b'B')),
                }
            }
            [b'h', ref kind @ ..] => Extension::Hex(match kind.first() {
                Some(b'C') => Some(b':'),
                Some(b'D') => Some(b'-'),
                Some(b'N') => None,
                _ => Some(b' '),
            }),
            [b'b', ..] => Extension::Bitmap { list: has(b'l') },
            [b'a', ..] | [b'N', b'F', ..] => Extension::Number,
            _ => return None,
        })
    }

    /// Returns whether the conversion prints the address itself instead of the data there.
    pub(super) fn is_of_address(self) -> bool {
        matches!(self, Extension::Address | Extension::Error | Extension::Symbol { .. })
    }

    /// Appends the pointer or its data. `given` states whether the format has a width.
    pub(super) fn push<'a>(
        self,
        out: &mut Vec<u8>,
        machine: &Evaluator<'a>,
        place: &'a PointerTarget,
        layout: NumberLayout,
        given: bool,
    ) {
        if self.is_of_address() {
            if let At::Address(address) = machine.at(place) {
                self.push_address(out, machine, address, layout, given);
            }
            return;
        }
        match self {
            Extension::Hex(separator) => {
                let len = if given { layout.width.min(64) } else { 1 };
                push_separated(out, machine.first(place, len), separator);
            }
            Extension::Bitmap { list } => {
                // The width may come from the record: print at most the bits that are present.
                let bytes = machine.first(place, layout.width.div_ceil(8));
                let bits = layout.width.min(8 * bytes.len());
                if list {
                    push_bitmap_list(out, bytes, bits);
                } else {
                    push_bitmap(out, bytes, bits);
                }
            }
            _ => number::widen(out, layout, |out| self.push_bytes(out, machine, place)),
        }
    }

    fn push_address(
        self,
        out: &mut Vec<u8>,
        machine: &Evaluator<'_>,
        address: u64,
        mut layout: NumberLayout,
        given: bool,
    ) {
        match self {
            Extension::Symbol { offset, caller } => {
                number::widen(out, layout, |out| {
                    push_symbol(out, machine, address, offset, caller);
                });
            }
            Extension::Error if address >= (-4095_i64).cast_unsigned() => {
                number::widen(out, layout, |out| {
                    match syscalls::Errno::new(address.wrapping_neg() as i32).name() {
                        Some(name) => {
                            out.push(b'-');
                            out.extend_from_slice(name.as_bytes());
                        }
                        None => digits::push_i64(out, address.cast_signed()),
                    }
                });
            }
            _ => {
                if !given {
                    layout.width = 16 + 2 * usize::from(layout.flags.special);
                    layout.flags.zero = true;
                }
                number::push(out, address, Base::Hex, layout);
            }
        }
    }

    /// Appends a conversion that reads a fixed number of bytes at the pointer.
    fn push_bytes<'a>(self, out: &mut Vec<u8>, machine: &Evaluator<'a>, place: &'a PointerTarget) {
        match self {
            Extension::Ip4(ip) => push_ip4(out, machine.first(place, 4), ip),
            Extension::Ip6(ip) => push_ip6(out, machine.first(place, 16), ip),
            Extension::Socket(ip) => push_socket(out, machine.bytes(place).unwrap_or_default(), ip),
            Extension::Mac { separator, reversed } => {
                let mut bytes = [0u8; 6];
                copy(&mut bytes, machine.first(place, 6));
                if reversed {
                    bytes.reverse();
                }
                push_separated(out, &bytes, separator);
            }
            Extension::Uuid { little, upper } => {
                push_uuid(out, machine.first(place, 16), little, upper);
            }
            Extension::Number => {
                let value = read(machine.first(place, 8), Int::ULONG).unwrap_or_default();
                out.extend_from_slice(b"0x");
                number::push_hex_digits(out, value, 16);
            }
            _ => {}
        }
    }
}

/// Appends `name+0xoffset/0xsize [module]`, or the address if it has no symbol.
fn push_symbol(
    out: &mut Vec<u8>,
    machine: &Evaluator<'_>,
    address: u64,
    offset: bool,
    caller: bool,
) {
    // A return address may be the first byte of the next function.
    let back = u64::from(caller);
    let Some(symbol) = machine.kernel.symbol(address.wrapping_sub(back)) else {
        return number::push_hex(out, address);
    };
    out.extend_from_slice(symbol.name.as_bytes());
    if offset {
        out.push(b'+');
        number::push_hex(out, symbol.offset + back);
        out.push(b'/');
        number::push_hex(out, symbol.size);
    }
    if let Some(module) = symbol.module {
        out.extend_from_slice(b" [");
        out.extend_from_slice(module.as_bytes());
        out.push(b']');
    }
}

/// Appends two hexadecimal digits per byte, with an optional separator.
pub(super) fn push_separated(out: &mut Vec<u8>, bytes: &[u8], separator: Option<u8>) {
    for (i, byte) in bytes.iter().enumerate() {
        if i > 0 {
            out.extend(separator);
        }
        digits::push_hex_bytes(out, &[*byte]);
    }
}

fn push_uuid(out: &mut Vec<u8>, bytes: &[u8], little: bool, upper: bool) {
    let mut id = [0u8; 16];
    copy(&mut id, bytes);
    if little {
        // The first three parts of a GUID are little-endian numbers.
        id[..4].reverse();
        id[4..6].reverse();
        id[6..8].reverse();
    }
    let start = out.len();
    for (i, byte) in id.into_iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        digits::push_hex_bytes(out, &[byte]);
    }
    if upper && let Some(text) = out.get_mut(start..) {
        text.make_ascii_uppercase();
    }
}

/// Appends hexadecimal groups of 32 bits, highest first.
pub(super) fn push_bitmap(out: &mut Vec<u8>, bytes: &[u8], bits: usize) {
    for group in (0..bits.div_ceil(32)).rev() {
        let all = bytes.get(4 * group..).unwrap_or_default();
        let mut number = [0u8; 4];
        copy(&mut number, &all[..all.len().min(4)]);
        let here = (bits - 32 * group).min(32);
        let value = u64::from(u32::from_le_bytes(number)) & ((1 << here) - 1);
        number::push_hex_digits(out, value, here.div_ceil(4));
        if group > 0 {
            out.push(b',');
        }
    }
}

/// Appends ranges of bits: `0-3,5`.
fn push_bitmap_list(out: &mut Vec<u8>, bytes: &[u8], bits: usize) {
    let is_set = |bit: usize| {
        bit < bits && bytes.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 != 0)
    };
    let (start, mut bit) = (out.len(), 0);
    while bit < bits {
        let len = (bit..bits).take_while(|bit| is_set(*bit)).count();
        if len > 0 {
            if out.len() > start {
                out.push(b',');
            }
            digits::push_u64(out, bit as u64);
            if len > 1 {
                out.push(b'-');
                digits::push_u64(out, (bit + len - 1) as u64);
            }
        }
        bit += len + 1;
    }
}
