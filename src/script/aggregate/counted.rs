//! Adds rows that the kernel has counted to the tables of scripts.

use super::Aggregates;
use super::body::KernelTarget;
use crate::bpf::key::CgroupText;
use crate::bpf::record_text::without_partial_character;
use crate::source::counted_chain::CountedChain;
use crate::source::counted_row::{CountedRow, KeyValue};
use crate::stack::OTHER;
use crate::stat::strings::Strings;
use crate::stat::sum::{I64_RANGE, Sum};
use crate::stat::word::Word;

/// Returns the id of a call chain; None is one that was not stored.
pub(in crate::script) type StackOf<'a> = &'a dyn Fn(Option<&CountedChain>) -> u64;

/// For keys without call chains.
pub(super) const WITHOUT_STACKS: StackOf<'static> = &|_| OTHER;

impl Aggregates {
    /// Returns the number of sums of a table to which rows can be added, and whether its rows have
    /// names.
    pub(in crate::script) fn shape_of_counts(&self, table: usize) -> Option<(usize, bool)> {
        let declared = self.one(table)?;
        let KernelTarget::Rows(kv) = declared.body.kernel_target()? else { return None };
        let kv = kv.borrow();
        Some((kv.sums(), kv.is_named()))
    }

    /// Adds a row that the kernel has counted; `stack_of` returns the id of a call chain.
    pub(in crate::script) fn add_counted(
        &self,
        table: usize,
        row: &CountedRow<'_>,
        stack_of: StackOf<'_>,
    ) {
        let Some(declared) = self.one(table) else { return };
        let Some(KernelTarget::Rows(kv)) = declared.body.kernel_target() else { return };
        let key = row.key.map(|key| self.words_with(key, stack_of));
        let name = row.name.map(|name| self.0.strings.borrow_mut().intern(name));
        let sums: Vec<Sum> = row.sums.iter().map(|sum| Sum::whole(*sum)).collect();
        kv.borrow_mut().add_row(key.as_deref(), row.count, &sums, name);
    }

    /// Returns the words of a key without call chains.
    pub(super) fn words(&self, key: &[KeyValue<'_>]) -> Vec<Word> {
        self.words_with(key, WITHOUT_STACKS)
    }

    fn words_with(&self, key: &[KeyValue<'_>], stack_of: StackOf<'_>) -> Vec<Word> {
        let mut strings = self.0.strings.borrow_mut();
        let mut cgroups = self.0.shared.cgroups.borrow_mut();
        let word = |part: &KeyValue<'_>| match part {
            KeyValue::Integer(bits) => number(*bits, &mut strings),
            KeyValue::Text(text) => Word::string(match without_partial_character(text) {
                Some(text) => strings.intern(&text),
                None => strings.intern(text),
            }),
            KeyValue::Chain(chain) => Word::number(stack_of(*chain) as f64),
            KeyValue::Cgroup(id, CgroupText::Path) => {
                Word::string(strings.intern(cgroups.path(*id)))
            }
            KeyValue::Cgroup(id, CgroupText::Container) => {
                Word::string(strings.intern(cgroups.container(*id)))
            }
        };
        key.iter().map(word).collect()
    }
}

/// Returns a number as compiled expressions return it (`exact` in view.lua).
fn number(bits: u64, strings: &mut Strings) -> Word {
    let value = bits.cast_signed();
    let double = value as f64;
    match double as i64 == value && double < I64_RANGE {
        true => Word::number(double),
        false => Word::string(strings.intern(format!("{bits:#x}").as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::word::WordContent;

    #[test]
    fn a_key_is_a_number_if_a_double_holds_it_and_text_otherwise() {
        let mut strings = Strings::new(1 << 16);
        let mut of = |bits: u64| number(bits, &mut strings).part();
        for (bits, value) in [(0, 0.0), (u64::MAX, -1.0), (1 << 60, 2f64.powi(60))] {
            assert_eq!(of(bits), WordContent::Number(value));
        }
        assert_eq!(of(1 << 63), WordContent::Number(-I64_RANGE));
        for bits in [(1u64 << 53) + 1, i64::MAX as u64, 0xffdf_ffff_ffff_ffff] {
            assert!(matches!(of(bits), WordContent::String(_)), "{bits:#x}");
        }
    }
}
