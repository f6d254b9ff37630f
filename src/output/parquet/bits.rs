//! Numbers of a few bits: runs, packed values and LEB128, as Parquet's encodings have them
//! (<https://parquet.apache.org/docs/file-format/data-pages/encodings/>).

/// Returns the number of bits of the largest value.
pub(super) fn bits_of(largest: u32) -> u32 {
    u32::BITS - largest.leading_zeros()
}

/// Appends a run of equal values, in as many whole bytes as `width` bits need.
pub(super) fn push_run(out: &mut Vec<u8>, count: usize, value: u32, width: u32) {
    push_varint(out, (count as u64) << 1);
    let bytes = width.div_ceil(8) as usize;
    out.extend_from_slice(value.to_le_bytes().get(..bytes).unwrap_or_default());
}

/// Appends one run of values of `width` bits each, packed from the lowest bit on. The last group of
/// eight is filled with zeros.
pub(super) fn push_packed<T: Copy>(
    out: &mut Vec<u8>,
    values: &[T],
    number: impl Fn(T) -> u32,
    width: u32,
) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(8);
    push_varint(out, (groups as u64) << 1 | 1);
    let end = out.len() + groups * width as usize;
    if width <= 16 {
        push_groups(out, values, number, width);
    } else {
        let mut packer = BitPacker::default();
        values.iter().for_each(|value| packer.put(out, number(*value), width));
        packer.end(out);
    }
    out.resize(end, 0);
}

/// Appends groups of eight values of at most 16 bits each, and zeros; the caller cuts those that
/// are too many.
fn push_groups<T: Copy>(out: &mut Vec<u8>, values: &[T], number: impl Fn(T) -> u32, width: u32) {
    let (groups, rest) = values.as_chunks::<8>();
    let mut place = out.len();
    // Each group is written with zeros behind it, over which the next one is written.
    out.resize(place + values.len().div_ceil(8) * width as usize + size_of::<u128>(), 0);
    let mut put = |group: [u64; 8]| {
        let half = |from: usize| {
            group[from]
                | group[from + 1] << width
                | group[from + 2] << (2 * width)
                | group[from + 3] << (3 * width)
        };
        let packed = u128::from(half(0)) | u128::from(half(4)) << (4 * width);
        if let Some(bytes) = out.get_mut(place..place + size_of::<u128>()) {
            bytes.copy_from_slice(&packed.to_le_bytes());
        }
        place += width as usize;
    };
    groups.iter().for_each(|group| put(group.map(|value| number(value).into())));
    if !rest.is_empty() {
        put(std::array::from_fn(|at| rest.get(at).map_or(0, |value| number(*value).into())));
    }
}

/// Packs values of some bits each, from the lowest bit on.
#[derive(Default)]
pub(super) struct BitPacker {
    pending: u64,
    bits: u32,
}

impl BitPacker {
    /// Appends a value of `width` bits, at most 32.
    #[inline]
    pub(super) fn put(&mut self, out: &mut Vec<u8>, value: u32, width: u32) {
        self.pending |= u64::from(value) << self.bits;
        self.bits += width;
        if self.bits >= u32::BITS {
            out.extend_from_slice(&(self.pending as u32).to_le_bytes());
            self.pending >>= u32::BITS;
            self.bits -= u32::BITS;
        }
    }

    /// Appends what is left, and zeros; the caller cuts those that are too many.
    pub(super) fn end(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.pending.to_le_bytes());
    }
}

/// Appends an unsigned integer in LEB128.
pub(super) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_packed_as_in_the_specification() {
        let packed = |values: &[u32], width| {
            let mut out = Vec::new();
            push_packed(&mut out, values, |value| value, width);
            out
        };
        // The example of the format's documentation: 0 to 7 in three bits each.
        assert_eq!(packed(&[0, 1, 2, 3, 4, 5, 6, 7], 3), [3, 0x88, 0xc6, 0xfa]);
        assert_eq!(packed(&[1, 1, 1], 1), [3, 0b111]);
        assert_eq!(packed(&[], 0), [0; 0]);
        assert_eq!(packed(&[0xabcde, 1], 20).len(), 1 + 20);
        assert_eq!(packed(&[0; 17], 32).len(), 1 + 3 * 32);
        for width in 1..=32 {
            let most = u32::MAX >> (32 - width);
            let values: Vec<u32> = (0..21u32).map(|i| i.wrapping_mul(0x9e37_79b9) & most).collect();
            let bytes = packed(&values, width);
            let bit = |at: usize| u32::from(bytes[1 + at / 8] >> (at % 8) & 1);
            let read = |i: usize| {
                (0..width as usize).map(|b| bit(i * width as usize + b) << b).sum::<u32>()
            };
            assert_eq!((0..21).map(read).collect::<Vec<_>>(), values, "width {width}");
        }
    }
}
