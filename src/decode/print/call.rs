//! What the kernel's printing functions for formats write: names of values, names of bits, bytes, arrays.
//!
//! As kernel/trace/trace_output.c does: a value without a name is hexadecimal; bits without a name follow the named
//! ones in hexadecimal; names of several bits count when all of them are set, and are taken in the table's order
//! until no bit is left.

use super::number::{self, Layout};
use super::pointer;
use super::value::{Machine, Place, Value, read};
use crate::decode::c::Int;

/// A call of one of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Call {
    /// `__print_symbolic`
    Symbolic(Value, Symbols),
    /// `__print_flags`
    Flags(Value, Flags),
    /// `__print_hex`, and `__print_hex_str`, which joins the bytes.
    Hex { at: Place, len: Value, joined: bool },
    /// `__print_hex_dump`
    Dump(Dump),
    /// `__print_array`, of elements of this type.
    Array { at: Place, count: Value, int: Int },
    /// `__get_bitmask`
    Bitmask(Place),
}

/// A value or some bits, and their name.
pub(super) type Named = (u64, Box<[u8]>);

/// Names of values, sorted by value; of two for one value the first counts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Symbols(Box<[Named]>);

impl Symbols {
    pub(super) fn new(mut names: Vec<Named>) -> Symbols {
        names.sort_by_key(|(value, _)| *value);
        names.dedup_by_key(|(value, _)| *value);
        Symbols(names.into())
    }

    fn of(&self, value: u64) -> Option<&[u8]> {
        let at = self.0.binary_search_by_key(&value, |(value, _)| *value).ok()?;
        Some(&self.0.get(at)?.1)
    }
}

/// Names of bits in the format's order, and what stands between two.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flags {
    pub(super) delimiter: Box<[u8]>,
    pub(super) names: Box<[Named]>,
}

/// `__print_hex_dump(prefix, kind, row, group, buffer, length, text)`
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dump {
    pub(super) prefix: Box<[u8]>,
    /// Whether each row begins with its offset.
    pub(super) offsets: bool,
    /// Bytes of a row: 16 or 32.
    pub(super) row: usize,
    /// Bytes written as one number: 1, 2, 4 or 8.
    pub(super) group: usize,
    pub(super) at: Place,
    pub(super) len: Value,
    /// Whether each row ends with its bytes as text.
    pub(super) text: bool,
}

impl Call {
    /// Writes what the call writes.
    pub(super) fn push<'a>(&'a self, out: &mut Vec<u8>, machine: &Machine<'a>) {
        match self {
            Call::Symbolic(value, symbols) => {
                let value = machine.value(value);
                match symbols.of(value) {
                    Some(name) => out.extend_from_slice(name),
                    None => number::push_hex(out, value),
                }
            }
            Call::Flags(value, flags) => flags.push(out, machine.value(value)),
            Call::Hex { at, len, joined } => {
                let bytes = machine.first(at, length(machine.value(len)));
                pointer::push_separated(out, bytes, (!joined).then_some(b' '));
            }
            Call::Dump(dump) => dump.push(out, machine),
            Call::Array { at, count, int } => {
                let size = int.size() as usize;
                let len = length(machine.value(count)).saturating_mul(size);
                out.push(b'{');
                for (i, element) in machine.first(at, len).chunks_exact(size).enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    number::push_hex(out, read(element, *int).unwrap_or_default());
                    if machine.is_full(out) {
                        break;
                    }
                }
                out.push(b'}');
            }
            Call::Bitmask(at) => {
                let bytes = machine.bytes(at).unwrap_or_default();
                pointer::push_bitmap(out, bytes, bytes.len() * 8);
            }
        }
    }
}

impl Flags {
    fn push(&self, out: &mut Vec<u8>, mut value: u64) {
        let start = out.len();
        for (bits, name) in &self.names {
            if value == 0 {
                break;
            }
            if value & bits == *bits {
                value &= !bits;
                self.separate(out, start);
                out.extend_from_slice(name);
            }
        }
        if value != 0 {
            self.separate(out, start);
            number::push_hex(out, value);
        }
    }

    fn separate(&self, out: &mut Vec<u8>, start: usize) {
        if out.len() > start {
            out.extend_from_slice(&self.delimiter);
        }
    }
}

impl Dump {
    fn push<'a>(&'a self, out: &mut Vec<u8>, machine: &Machine<'a>) {
        let bytes = machine.first(&self.at, length(machine.value(&self.len)));
        out.push(b'\n');
        for (i, row) in bytes.chunks(self.row).enumerate() {
            out.extend_from_slice(&self.prefix);
            if self.offsets {
                number::push_hex_digits(out, (i * self.row) as u64, 8);
                out.extend_from_slice(b": ");
            }
            self.push_row(out, row);
            out.push(b'\n');
            if machine.is_full(out) {
                break;
            }
        }
    }

    fn push_row(&self, out: &mut Vec<u8>, row: &[u8]) {
        let start = out.len();
        // A row that is no whole number of groups is written byte by byte.
        let group = if row.len().is_multiple_of(self.group) { self.group } else { 1 };
        for (i, bytes) in row.chunks(group).enumerate() {
            if i > 0 {
                out.push(b' ');
            }
            let int = Int { bits: 8 * group as u8, signed: false };
            number::push_hex_digits(out, read(bytes, int).unwrap_or_default(), 2 * group);
        }
        if self.text {
            let width = self.row * 2 + self.row / group + 1;
            number::widen(out, Layout::left(width.saturating_sub(out.len() - start)), |_| {});
            let shown = |byte: &u8| if (0x20..0x7f).contains(byte) { *byte } else { b'.' };
            out.extend(row.iter().map(shown));
        }
    }
}

/// A length that an event gives; negative ones are none.
pub(super) fn length(value: u64) -> usize {
    usize::try_from(value.cast_signed()).unwrap_or(0)
}
