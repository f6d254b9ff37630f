//! Delta encoding of integers that grow by small steps: `DELTA_BINARY_PACKED` of
//! <https://parquet.apache.org/docs/file-format/data-pages/encodings/>.
//!
//! The writers of `parquet` encode a chunk at once, in a call per value; pages are encoded one by
//! one here, and deltas a block at a time.

use super::bits::{BitPacker, push_varint};

/// Deltas of a block.
const BLOCK: usize = 128;
/// Deltas of a part of a block that has a width of its own.
const MINIBLOCK: usize = 32;

/// Appends integers; differences wrap around.
pub(super) fn push_deltas(out: &mut Vec<u8>, values: &[i64]) {
    push_varint(out, BLOCK as u64);
    push_varint(out, (BLOCK / MINIBLOCK) as u64);
    push_varint(out, values.len() as u64);
    push_signed(out, values.first().copied().unwrap_or_default());
    let mut deltas = [0; BLOCK];
    let mut before = values.first().copied().unwrap_or_default();
    for block in values.get(1..).unwrap_or_default().chunks(BLOCK) {
        for (delta, value) in deltas.iter_mut().zip(block) {
            *delta = value.wrapping_sub(before);
            before = *value;
        }
        push_block(out, deltas.get_mut(..block.len()).unwrap_or_default());
    }
}

/// Appends a block: its least delta, the width of each part, and the parts. Replaces the deltas by
/// their distance from the least one.
fn push_block(out: &mut Vec<u8>, deltas: &mut [i64]) {
    let least = deltas.iter().copied().min().unwrap_or_default();
    deltas.iter_mut().for_each(|delta| *delta = delta.wrapping_sub(least));
    push_signed(out, least);
    let widths = out.len();
    out.extend_from_slice(&[0; BLOCK / MINIBLOCK]);
    for (at, part) in deltas.chunks(MINIBLOCK).enumerate() {
        let all = part.iter().fold(0, |all, delta| all | delta.cast_unsigned());
        let width = u64::BITS - all.leading_zeros();
        if let Some(place) = out.get_mut(widths + at) {
            *place = width as u8;
        }
        let end = out.len() + MINIBLOCK * width as usize / 8;
        push_part(out, part, width);
        out.resize(end, 0);
    }
}

/// Appends deltas of `width` bits each.
fn push_part(out: &mut Vec<u8>, part: &[i64], width: u32) {
    let mut packer = BitPacker::default();
    if width <= u32::BITS {
        part.iter().for_each(|delta| packer.put(out, *delta as u32, width));
    } else {
        for delta in part {
            packer.put(out, *delta as u32, u32::BITS);
            packer.put(out, (delta >> u32::BITS) as u32, width - u32::BITS);
        }
    }
    packer.end(out);
}

/// Appends a signed integer in zigzag form.
fn push_signed(out: &mut Vec<u8>, value: i64) {
    push_varint(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_are_packed_as_in_the_specification() {
        let mut out = Vec::new();
        push_deltas(&mut out, &[7, 5, 3, 1, 2, 3, 4, 5]);
        // The second example of the format's documentation: the least delta is -2, and the others
        // are 0 or 3 above it.
        let mut expected = vec![0x80, 1, 4, 8, 14, 3, 2, 0, 0, 0];
        expected.extend([0b1100_0000, 0b0011_1111, 0, 0, 0, 0, 0, 0]);
        assert_eq!(out, expected);
        out.clear();
        push_deltas(&mut out, &[]);
        assert_eq!(out, [0x80, 1, 4, 0, 0]);
    }
}
