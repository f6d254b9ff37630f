//! Values in the record of a probe that the kernel did not set, because it could not follow a
//! pointer.
//!
//! Linux reads the fetch arguments of a probe in order, and writes nothing into the record for one
//! that fails (`store_trace_args()` in kernel/trace/trace_probe_tmpl.h). A number then has the
//! bytes of an earlier record, and a text the offset of the next text. Here the number becomes 0,
//! and the text one that could not be read.
//!
//! A probe in the kernel also leaves a number unset whose last pointer is a possible address where
//! nothing is mapped, such as that of user memory which is not resident. Nothing in the record
//! shows that.

use crate::base::event::value::read_bits;

/// The values of a record that may be unset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnsetValues {
    /// Numbers, in the order of the record.
    pub numbers: Vec<NumberBehindPointers>,
    /// Offsets of the location words of texts, in the order of the record. A single text needs no
    /// check: if it is unset, its length is 0.
    pub texts: Vec<usize>,
}

/// A number that the kernel reads by following pointers.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberBehindPointers {
    /// Its offset in the record.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
    /// Offsets of the pointers, which are in the record as well. If one cannot be followed, it is
    /// bad itself, or, in a probe of a program, the next one, which was read through it, is 0.
    pub pointers: Vec<usize>,
}

/// Size of the word with the place and the length of a text.
const WORD: usize = 4;

/// The largest error number in place of a pointer (`MAX_ERRNO` in include/linux/err.h).
const ERRNO_MAX: u64 = 4095;

/// Bytes at the beginning of the address space in which nothing is mapped.
const FIRST_PAGE: u64 = 4096;

impl UnsetValues {
    /// Returns whether the field at this offset is one of them.
    pub fn has(&self, offset: usize) -> bool {
        self.numbers.iter().any(|number| number.offset == offset) || self.texts.contains(&offset)
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.texts.is_empty()
    }

    /// Returns whether all values of a record are set.
    #[inline]
    pub fn all_set(&self, raw: &[u8]) -> bool {
        let texts = || (0..self.texts.len()).all(|at| !self.is_unset_text(at, raw));
        self.numbers.iter().all(|number| !number.is_unset(raw)) && texts()
    }

    /// Clears the values of a record that are not set.
    pub fn clear(&self, raw: &mut [u8]) {
        // A pointer is cleared before the numbers behind it are checked.
        for number in &self.numbers {
            if number.is_unset(raw)
                && let Some(bytes) = raw.get_mut(number.offset..number.offset + number.size)
            {
                bytes.fill(0);
            }
        }
        // The texts are compared with those behind them as the kernel wrote them.
        for (at, &offset) in self.texts.iter().enumerate() {
            if self.is_unset_text(at, raw)
                && let Some((start, _)) = located(raw, offset)
                && let Some(word) = raw.get_mut(offset..offset + WORD)
            {
                word.copy_from_slice(&(start as u32).to_ne_bytes());
            }
        }
    }

    /// Returns whether the text at this index has the place of a later one.
    fn is_unset_text(&self, index: usize, raw: &[u8]) -> bool {
        let Some((at, behind)) = self.texts.get(index..).and_then(<[usize]>::split_first) else {
            return false;
        };
        let Some((start, len)) = located(raw, *at) else { return false };
        let overlaps = |later: &usize| located(raw, *later).is_some_and(|(at, _)| at < start + len);
        behind.iter().any(overlaps)
    }
}

impl NumberBehindPointers {
    #[inline]
    fn is_unset(&self, raw: &[u8]) -> bool {
        self.pointers.iter().any(|at| {
            let pointer = raw.get(*at..*at + 8).map_or(0, |bytes| read_bits(bytes, false));
            !is_address(pointer)
        })
    }
}

/// Returns whether memory may be mapped at an address. The kernel marks the pointers of a list
/// element that was removed with bits in the middle (`POISON_POINTER_DELTA`).
fn is_address(pointer: u64) -> bool {
    let half = if cfg!(target_arch = "x86_64") { matches!(pointer >> 56, 0 | 0xff) } else { true };
    half && (FIRST_PAGE..ERRNO_MAX.wrapping_neg()).contains(&pointer)
}

/// Returns the place and the length of the text whose location word is at this offset.
fn located(raw: &[u8], offset: usize) -> Option<(usize, usize)> {
    let word = read_bits(raw.get(offset..offset.checked_add(WORD)?)?, false);
    Some(((word & 0xffff) as usize, (word >> 16) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_behind_a_bad_pointer_is_cleared() {
        // Two pointers, then a number behind both of them.
        let unset = |at| NumberBehindPointers { offset: 16, size: 4, pointers: at };
        let values = UnsetValues { numbers: vec![unset(vec![0, 8])], texts: Vec::new() };
        let record = |first: u64, second: u64| {
            let mut raw = [first.to_ne_bytes(), second.to_ne_bytes()].concat();
            raw.extend(77u32.to_ne_bytes());
            let whole = values.all_set(&raw);
            values.clear(&mut raw);
            (whole, u32::from_ne_bytes(raw[16..].try_into().unwrap()))
        };
        assert_eq!(record(0x1000, 0x2000), (true, 77));
        for bad in [0, 8, 0xfff, u64::MAX - 1, -4095i64 as u64] {
            assert_eq!(record(bad, 0x2000), (false, 0), "{bad:#x}");
            assert_eq!(record(0x1000, bad), (false, 0), "{bad:#x}");
        }
        assert_eq!(record(0x1000, -4096i64 as u64), (true, 77));
        assert_eq!(record(0xffff_8880_0000_1000, 0x7fff_0000_0000), (true, 77));
        let removed = record(0xdead_0000_0000_0100, 0x2000);
        assert_eq!(removed, if cfg!(target_arch = "x86_64") { (false, 0) } else { (true, 77) });
        // A record that ends early has nothing to clear.
        assert!(!values.all_set(&[]));
        values.clear(&mut [1; 10]);
    }

    #[test]
    fn a_pointer_is_cleared_before_the_numbers_behind_it() {
        let behind = |offset, pointers| NumberBehindPointers { offset, size: 8, pointers };
        let numbers = vec![behind(8, vec![0]), behind(16, vec![8])];
        let values = UnsetValues { numbers, texts: Vec::new() };
        let mut raw = [0u64, 0x5000, 7].map(u64::to_ne_bytes).concat();
        values.clear(&mut raw);
        assert_eq!(raw, [0; 24]);
    }

    #[test]
    fn a_text_with_the_place_of_the_next_one_is_cleared() {
        let values = UnsetValues { numbers: Vec::new(), texts: vec![0, 4, 8] };
        let texts = |words: [(u32, u32); 3]| {
            let mut raw = words.map(|(at, len)| (len << 16 | at).to_ne_bytes()).concat();
            let whole = values.all_set(&raw);
            values.clear(&mut raw);
            let len = |at: usize| located(&raw, at).unwrap().1;
            (whole, [len(0), len(4), len(8)])
        };
        assert_eq!(texts([(12, 6), (18, 3), (21, 1)]), (true, [6, 3, 1]));
        // The first one was not read; the length is that of all that follow.
        assert_eq!(texts([(12, 4), (12, 3), (15, 1)]), (false, [0, 3, 1]));
        // Only the last one was read.
        assert_eq!(texts([(12, 6), (12, 6), (12, 6)]), (false, [0, 0, 6]));
        assert_eq!(texts([(12, 6), (18, 1), (18, 1)]), (false, [6, 0, 1]));
        // A text that the kernel itself marked: nothing is behind it.
        assert_eq!(texts([(12, 6), (18, 0), (18, 0)]), (true, [6, 0, 0]));
        assert!(values.all_set(&[0; 3]));
    }
}
