//! Output of the kernel's printing functions for formats: names of values, names of bits, bytes,
//! arrays.
//!
//! As in kernel/trace/trace_output.c: a value without a name is hexadecimal; bits without a name
//! follow the named ones in hexadecimal; a name of several bits matches if all of them are set, and
//! names are matched in table order until no bit is left.

use super::arithmetic::read;
use super::evaluate::Evaluator;
use super::number::{self, NumberLayout};
use super::pointer;
use super::value::{Call, Dump, FlagNames};
use crate::decode::c::Int;

impl Call {
    /// Appends the output of the call.
    pub(super) fn push<'a>(&'a self, out: &mut Vec<u8>, machine: &Evaluator<'a>) {
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

impl FlagNames {
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
    fn push<'a>(&'a self, out: &mut Vec<u8>, machine: &Evaluator<'a>) {
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
        // A row that is not a multiple of the group size is printed byte by byte.
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
            number::widen(out, NumberLayout::left(width.saturating_sub(out.len() - start)), |_| {});
            let shown = |byte: &u8| if (0x20..0x7f).contains(byte) { *byte } else { b'.' };
            out.extend(row.iter().map(shown));
        }
    }
}

/// Converts a length from an event; a negative length is 0.
pub(super) fn length(value: u64) -> usize {
    usize::try_from(value.cast_signed()).unwrap_or(0)
}
