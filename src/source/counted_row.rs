//! Rows of a table that programs in the kernel have filled: the sum of the values of all CPUs.

pub(super) use super::counted_chain::word;
use super::counted_chain::{CountedChain, CountedChains};
use crate::base::text::unescape::until_nul;
use crate::bpf::count::CountLayout;
use crate::bpf::key::{CgroupText, KeyKind, KeyShape, PartShape};

/// A row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedRow<'a> {
    /// The parts of its key; None for the events whose key had no room.
    pub key: Option<&'a [KeyValue<'a>]>,
    /// Number of events.
    pub count: u64,
    /// The name at its first event, without the NULs behind it.
    pub name: Option<&'a [u8]>,
    /// The sum of each column.
    pub sums: &'a [i128],
}

impl CountedRow<'_> {
    /// Returns whether its call chain contains only the inner part of its stack.
    pub fn has_truncated_chain(&self) -> bool {
        self.key.into_iter().flatten().any(|part| match part {
            KeyValue::Chain(Some(chain)) => chain.is_truncated(),
            _ => false,
        })
    }
}

/// A part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyValue<'a> {
    /// 64 bits.
    Integer(u64),
    /// Text without the NULs behind it.
    Text(&'a [u8]),
    /// The ID of a cgroup, and the text to show for it.
    Cgroup(u64, CgroupText),
    /// A call chain; None for one that was not stored.
    Chain(Option<&'a CountedChain>),
}

impl<'a> KeyValue<'a> {
    /// Reads the parts of a key.
    pub(super) fn read_all(key: &'a [u8], shape: &KeyShape) -> Vec<KeyValue<'a>> {
        let mut rest = key;
        let part = |shape: &PartShape| {
            let (part, behind) = rest.split_at_checked(8 * shape.words)?;
            rest = behind;
            Some(match shape.kind {
                KeyKind::Text => KeyValue::Text(until_nul(part)),
                KeyKind::Integer => KeyValue::Integer(word(part, 0)),
                KeyKind::Cgroup(text) => KeyValue::Cgroup(word(part, 0), text),
                // Found by `RowReader`.
                KeyKind::Chain(_) => KeyValue::Chain(None),
            })
        };
        shape.parts.iter().map_while(part).collect()
    }
}

/// Reads the rows of a table.
pub(super) struct RowReader {
    layout: CountLayout,
    sums: Vec<i128>,
    /// The call chains of the rows, and the offset of theirs in a key, if they have one.
    pub(super) chains: CountedChains,
    chain_at: Option<usize>,
}

impl RowReader {
    pub(super) fn new(layout: CountLayout) -> RowReader {
        let sums = vec![0; layout.sums];
        let chain_at = layout.key.chain().map(|(_, offset)| offset);
        RowReader { layout, sums, chains: CountedChains::default(), chain_at }
    }

    /// Returns the call chain of a key.
    pub(super) fn chain_of(&self, key: &[u8]) -> Option<&CountedChain> {
        self.chains.of(key, self.chain_at?)
    }

    /// Returns whether keys have call chains with addresses of processes.
    pub(super) fn has_user_chains(&self) -> bool {
        self.layout.key.chain().is_some_and(|(part, _)| part.user)
    }

    /// Returns whether a key has addresses of a process that were counted first after a time.
    pub(super) fn is_unknown(&self, key: &[u8], known_ns: u64) -> bool {
        self.chain_of(key).is_some_and(|chain| chain.process != 0 && chain.first_ns > known_ns)
    }

    /// Passes the row of a key to `each`; `values` has the values of all CPUs. A key without events
    /// was created by a program that has not counted yet; it has no row.
    pub(super) fn row(
        &mut self,
        key: Option<&[u8]>,
        values: &[u8],
        each: &mut dyn FnMut(&CountedRow<'_>),
    ) {
        let (mut count, mut first, mut name) = (0u64, u64::MAX, None);
        self.sums.fill(0);
        for value in values.chunks_exact(self.layout.value_bytes()) {
            let here = word(value, 0);
            if here == 0 {
                continue;
            }
            count += here;
            let named_at = if self.layout.named { word(value, 1) } else { 0 };
            if named_at != 0 && named_at < first {
                first = named_at;
                name = value.get(16..32).map(until_nul);
            }
            add_sums(&self.layout, value, &mut self.sums);
        }
        if count == 0 {
            return;
        }
        let key = key.map(|key| {
            let mut parts = KeyValue::read_all(key, &self.layout.key);
            for part in &mut parts {
                if let KeyValue::Chain(chain) = part {
                    *chain = self.chain_of(key);
                }
            }
            parts
        });
        each(&CountedRow { key: key.as_deref(), count, name, sums: &self.sums });
    }
}

/// Adds the sums of the value of a CPU to those of all columns.
pub(super) fn add_sums(layout: &CountLayout, value: &[u8], sums: &mut [i128]) {
    for (column, sum) in sums.iter_mut().enumerate() {
        if let Some(constant) = layout.constant(column) {
            *sum = sum.wrapping_add(constant.wrapping_mul(word(value, 0).into()));
            continue;
        }
        let at = layout.sum_at(column);
        let (low, high) = (word(value, at), word(value, at + 1));
        *sum = sum.wrapping_add(i128::from(high.cast_signed()) << 64 | i128::from(low));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// A key of a number and of text, a name, and two sums.
    fn reader() -> RowReader {
        let text = PartShape { words: 2, kind: KeyKind::Text };
        let key = KeyShape { parts: vec![PartShape::INTEGER, text] };
        RowReader::new(CountLayout { key, named: true, sums: 2, constants: Vec::new() })
    }

    #[test]
    fn a_row_is_the_sum_of_the_cpus_and_has_the_name_of_its_first_event() {
        let name = |text: &[u8; 8]| u64::from_ne_bytes(*text);
        let values = bytes(
            &[
                [2, 900, name(b"later\0\0\0"), 0, u64::MAX - 1, u64::MAX, 1, 1],
                [1, 0, 0, 0, 0, 0, 0, 0],
                [3, 800, name(b"sixteen_"), name(b"bytes..."), 5, 0, u64::MAX, 0],
            ]
            .concat(),
        );
        let key = bytes(&[7, name(b"ab\0\0\0\0\0\0"), 0]);
        let mut found = 0;
        reader().row(Some(&key), &values, &mut |row| {
            assert_eq!(row.key, Some(&[KeyValue::Integer(7), KeyValue::Text(b"ab")][..]));
            assert_eq!((row.count, row.name), (6, Some(&b"sixteen_bytes..."[..])));
            assert_eq!(row.sums, [3, 1 << 65]);
            found += 1;
        });
        assert_eq!(found, 1);
    }

    #[test]
    fn the_sum_of_a_constant_is_that_of_the_count() {
        let key = KeyShape { parts: vec![PartShape::INTEGER] };
        let layout = CountLayout { key, named: false, sums: 2, constants: vec![(0, -3)] };
        assert_eq!(layout.value_bytes(), 24);
        let values = bytes(&[2, 70, 0, 5, 1, 0]);
        let mut found = 0;
        RowReader::new(layout).row(Some(&bytes(&[7])), &values, &mut |row| {
            assert_eq!((row.count, row.sums), (7, &[-21, 71][..]));
            found += 1;
        });
        assert_eq!(found, 1);
    }

    #[test]
    fn a_key_without_events_has_no_row() {
        let values = bytes(&[0; 16]);
        reader().row(Some(&bytes(&[7, 0, 0])), &values, &mut |row| panic!("{row:?}"));
    }
}
