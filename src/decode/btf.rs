//! Values of the running kernel's enumerators, from the description of its types (BTF).
//!
//! A print format may contain an enumerator such as `TCP_ESTABLISHED` that the kernel's source does
//! not export with its value. `/sys/kernel/btf/vmlinux` has the value, if the kernel was built with
//! BTF. Layout: Documentation/bpf/btf.rst. This file reads only enumerations and skips all other
//! types; [`prototypes`] reads functions.

pub mod prototypes;

use std::collections::HashMap;
use std::ops::Range;

use crate::base::text::unescape::until_nul;

/// Names and values of enumerators.
#[derive(Clone, Debug, Default)]
pub struct Enumerators(HashMap<Box<str>, Option<i64>>);

impl Enumerators {
    /// Parses BTF in this machine's byte order, up to the first malformed part.
    pub fn parse(btf: &[u8]) -> Enumerators {
        let mut found = Enumerators::default();
        // Keep the enumerators in front of a malformed part.
        let _ = found.read(btf);
        found
    }

    /// Returns the value of a name; None if it is unknown or has two values.
    pub fn get(&self, name: &str) -> Option<i64> {
        *self.0.get(name)?
    }

    fn read(&mut self, btf: &[u8]) -> Option<()> {
        let (types, strings) = parts(btf)?;
        let (mut types, strings) = (&btf[types], &btf[strings]);
        while let Some(kind) = BtfType::read(types) {
            let members = types.get(12..kind.size)?;
            if kind.is_enum {
                for member in members.chunks_exact(kind.step) {
                    let low = u32_at(member, 4)?;
                    let value = match u32_at(member, 8) {
                        Some(high) => (u64::from(high) << 32 | u64::from(low)).cast_signed(),
                        None if kind.signed => low.cast_signed().into(),
                        None => low.into(),
                    };
                    self.add(strings, u32_at(member, 0)?, value);
                }
            }
            types = types.get(kind.size..)?;
        }
        Some(())
    }

    fn add(&mut self, strings: &[u8], at: u32, value: i64) {
        let Ok(name) = std::str::from_utf8(text_at(strings, at)) else { return };
        match self.0.get_mut(name) {
            Some(known) if *known != Some(value) => *known = None,
            Some(_) => {}
            None => _ = self.0.insert(name.into(), Some(value)),
        }
    }
}

/// Returns where the types and the strings are; None if these bytes are not BTF in this machine's
/// byte order.
fn parts(btf: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    const MAGIC: u16 = 0xeb9f;
    if u16::from_ne_bytes(*btf.first_chunk()?) != MAGIC {
        return None;
    }
    let part = |at: usize| {
        let (start, len) = (u32_at(btf, at)? as usize, u32_at(btf, at + 4)? as usize);
        let start = start.checked_add(u32_at(btf, 4)? as usize)?;
        let part = start..start.checked_add(len)?;
        (part.end <= btf.len()).then_some(part)
    };
    Some((part(8)?, part(16)?))
}

/// Returns the string at an offset, without its NUL.
fn text_at(strings: &[u8], at: u32) -> &[u8] {
    until_nul(strings.get(at as usize..).unwrap_or_default())
}

/// One `struct btf_type`.
struct BtfType {
    is_enum: bool,
    signed: bool,
    /// Bytes per member.
    step: usize,
    /// Bytes including the members.
    size: usize,
}

impl BtfType {
    fn read(types: &[u8]) -> Option<BtfType> {
        let info = u32_at(types, 4)?;
        let (kind, members) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        const ENUM: u32 = 6;
        const ENUM64: u32 = 19;
        let (step, count) = match kind {
            // INT, VAR, DECL_TAG
            1 | 14 | 17 => (4, 1),
            // ARRAY
            3 => (12, 1),
            // STRUCT, UNION, DATASEC
            4 | 5 | 15 | ENUM64 => (12, members),
            // FUNC_PROTO
            ENUM | 13 => (8, members),
            // PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG
            2 | 7..=12 | 16 | 18 => (4, 0),
            _ => return None,
        };
        Some(BtfType {
            is_enum: kind == ENUM || kind == ENUM64,
            signed: info >> 31 != 0,
            step,
            size: 12 + step * count,
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns BTF with these types and this string table.
    pub(super) fn btf(types: &[u32], strings: &str) -> Vec<u8> {
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let (types_len, strings_len) = (types.len() as u32, strings.len() as u32);
        let mut all = 0xeb9f_u16.to_ne_bytes().to_vec();
        all.extend([1, 0]);
        all.extend(
            [24, 0, types_len, types_len, strings_len].iter().flat_map(|w: &u32| w.to_ne_bytes()),
        );
        all.extend(types);
        all.extend(strings.as_bytes());
        all
    }

    #[test]
    fn enumerators_are_found_between_other_types() {
        let strings = "\0A\0B\0C\0D\0";
        let (integer, pointer) = ([0, 1 << 24, 4, 32], [0, 2 << 24, 1]);
        let plain = [0, 6 << 24 | 2, 4, 1, 7, 3, u32::MAX];
        let signed = [0, 1 << 31 | 6 << 24 | 1, 4, 5, -2_i32 as u32];
        let wide = [0, 19 << 24 | 1, 8, 7, 0, 1];
        let twice = [0, 6 << 24 | 1, 4, 1, 8];
        let types = [&integer[..], &plain, &pointer, &signed, &wide].concat();
        let found = Enumerators::parse(&btf(&types, strings));
        assert_eq!(found.get("A"), Some(7));
        assert_eq!(found.get("B"), Some(i64::from(u32::MAX)));
        assert_eq!(found.get("C"), Some(-2));
        assert_eq!(found.get("D"), Some(1 << 32));
        assert_eq!(found.get("E"), None);
        let found = Enumerators::parse(&btf(&[&types[..], &twice].concat(), strings));
        assert_eq!(found.get("A"), None, "two enumerations disagree");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(words: Vec<u32>, cut in 0usize..200) {
            let all = btf(&words, "\0A\0");
            Enumerators::parse(&all[..cut.min(all.len())]);
            Enumerators::parse(&all);
        }
    }
}
