//! The leaf of [`Kv`]: how doubles and flags become a row, a count and sums.

use super::Kv;
use crate::stat::leaf::Leaf;
use crate::stat::word::{Word, words};

/// Flag of [`Leaf::take`]: the first double is the id of the key's name; nothing is added.
pub const NAME: u32 = 1 << 31;
/// Flag of [`Leaf::take`]: the values belong to the previous addition to that key; nothing is
/// counted.
pub const MORE: u32 = 1 << 30;
/// Position in the flags of [`Leaf::take`] of the index of the first sum that is passed.
pub const FIRST_SHIFT: u32 = 8;

impl Kv {
    #[inline(never)]
    fn take_any(&mut self, doubles: &[f64], flags: u32) -> u32 {
        let split = doubles.len().saturating_sub(self.shape.keys);
        let (values, key) = doubles.split_at(split);
        let mut buffer = Word::BUFFER;
        let key = words(&mut buffer, key, flags);
        if flags & NAME != 0 {
            if let Some(&id) = values.first() {
                self.name(key, id as u32);
            }
            return 0;
        }
        if flags & MORE != 0 {
            let row = self.row(key);
            match self.estimate {
                Some(_) => self.estimate_at(row, first_of(flags), values, false),
                None => self.sum_up(row, first_of(flags), values),
            }
            return 0;
        }
        u32::from(self.add(key, first_of(flags), values))
    }
}

impl Leaf for Kv {
    /// Doubles: the values, then the key. Flags: bit i is set if word i of the key is a string; the
    /// index of the first sum starts at bit 8; [`NAME`], [`MORE`]. Returns 1 if the row lacks a
    /// name.
    #[inline(always)]
    fn take(&mut self, doubles: &[f64], flags: u32) -> u32 {
        // Most tables have few keys: without loops and buffers, adding to them takes half the time.
        if flags & (NAME | MORE) == 0 {
            let word = |value: f64, i: u32| Word::passed(value, flags >> i & 1 != 0);
            let (row, values) = match (self.shape.keys, doubles) {
                (1, [values @ .., a]) => (self.row(&[word(*a, 0)]), values),
                (2, [values @ .., a, b]) => (self.row(&[word(*a, 0), word(*b, 1)]), values),
                (3, [values @ .., a, b, c]) => {
                    (self.row(&[word(*a, 0), word(*b, 1), word(*c, 2)]), values)
                }
                _ => return self.take_any(doubles, flags),
            };
            return u32::from(self.add_at(row, first_of(flags), values));
        }
        self.take_any(doubles, flags)
    }
}

#[inline(always)]
fn first_of(flags: u32) -> usize {
    (flags >> FIRST_SHIFT & 0xff) as usize
}
