//! Fields of a sample that are recorded only if a script reads them.
//!
//! A field is one row of [`SAMPLE_FIELDS`]. Its bit of `sample_type` is set for the events whose
//! handler, key or filter reads it, so other events do not pay for it. The decoded values follow
//! the raw record of a slot as a *tail*, which every copy of the record contains:
//!
//! ```text
//!   raw record, padded to 8 | list of row 0 | list of row 1 … | word of row 0 | word of row 1 … |
//!   TAIL_MARK
//! ```
//!
//! Only registers and branches have a list; their word is its length.

use perf_event_open_sys::bindings as abi;

use crate::decode::cursor::Words;
use crate::decode::data_source::MemoryPart;
use crate::decode::sample_extra::SampleExtra;
use FieldValue::{
    Address, Branches, CgroupPath, ContainerName, Counts, Memory, Number, Registers, Totals,
    UserRegisters,
};

/// A field of a sample.
pub struct SampleField {
    /// Name in scripts.
    pub name: &'static str,
    /// The bit of `sample_type`, one of `PERF_SAMPLE_*`.
    pub bit: u32,
    /// How scripts see it.
    pub kind: FieldValue,
}

/// How scripts see a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A number.
    Number,
    /// A number that is an address.
    Address,
    /// Path of the cgroup whose id the word is.
    CgroupPath,
    /// Name of the container whose cgroup id the word is.
    ContainerName,
    /// A part of the data source that the word is, as text.
    Memory(MemoryPart),
    /// Registers by name, interrupted code.
    Registers,
    /// Registers by name, user space.
    UserRegisters,
    /// Branches, the latest first.
    Branches,
    /// Counts of the events of a group since the sample before, the leader's first.
    Counts,
    /// The same, since the event was opened.
    Totals,
}

impl FieldValue {
    /// Returns whether it is text.
    pub fn is_text(self) -> bool {
        matches!(self, Self::CgroupPath | Self::ContainerName | Self::Memory(_))
    }

    /// Returns the name by which the prelude knows the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Number | Self::Address => "number",
            Self::Registers | Self::UserRegisters => "registers",
            Self::Branches => "branches",
            Self::Counts | Self::Totals => "counts",
            Self::CgroupPath | Self::ContainerName | Self::Memory(_) => "text",
        }
    }

    /// Returns the list of the tail; empty for a field that is only a word.
    pub fn list<'a>(self, extra: &SampleExtra<'a>) -> Words<'a> {
        match self {
            Self::Registers => extra.regs_intr.values,
            Self::UserRegisters => extra.regs_user.values,
            Self::Branches => extra.branch_stack.entries,
            Self::Counts => extra.counts,
            Self::Totals => extra.totals,
            _ => Words::default(),
        }
    }
}

/// The last word of a tail.
pub const TAIL_MARK: u64 = 0x656c_6966_6c72_6570;

/// Words of a tail without its lists.
pub const TAIL_WORDS: usize = SAMPLE_FIELDS.len() + 1;

/// Bytes of a tail without its lists.
pub const TAIL_BYTES: usize = 8 * TAIL_WORDS;

macro_rules! fields {
    ($($name:literal $bit:ident $kind:ident $(($part:expr))? |$x:ident| $word:expr;)*) => {
        /// The fields. `stdlib/meta/record.lua` documents them.
        pub const SAMPLE_FIELDS: &[SampleField] = &[$(SampleField {
            name: $name,
            bit: abi::$bit,
            kind: $kind $(($part))?,
        }),*];

        /// Returns the words of a tail that follow its lists: one array, without a call per field,
        /// because it is made for each event.
        #[inline]
        pub fn tail_words(extra: &SampleExtra<'_>) -> [u64; TAIL_WORDS] {
            [$({ let $x = extra; $word },)* TAIL_MARK]
        }
    };
}

#[rustfmt::skip]
fields! {
    "_weight"         PERF_SAMPLE_WEIGHT         Number                    |x| x.weight;
    "_data_src"       PERF_SAMPLE_DATA_SRC       Number                    |x| x.data_src;
    "_data_op"        PERF_SAMPLE_DATA_SRC       Memory(MemoryPart::Op)    |x| x.data_src;
    "_data_level"     PERF_SAMPLE_DATA_SRC       Memory(MemoryPart::Level) |x| x.data_src;
    "_data_snoop"     PERF_SAMPLE_DATA_SRC       Memory(MemoryPart::Snoop) |x| x.data_src;
    "_data_tlb"       PERF_SAMPLE_DATA_SRC       Memory(MemoryPart::Tlb)   |x| x.data_src;
    "_data_lock"      PERF_SAMPLE_DATA_SRC       Memory(MemoryPart::Lock)  |x| x.data_src;
    "_transaction"    PERF_SAMPLE_TRANSACTION    Number                    |x| x.transaction;
    "_phys_addr"      PERF_SAMPLE_PHYS_ADDR      Address                   |x| x.phys_addr;
    "_cgroup"         PERF_SAMPLE_CGROUP         CgroupPath                |x| x.cgroup;
    "_cgroup_id"      PERF_SAMPLE_CGROUP         Number                    |x| x.cgroup;
    "_container"      PERF_SAMPLE_CGROUP         ContainerName             |x| x.cgroup;
    "_data_page_size" PERF_SAMPLE_DATA_PAGE_SIZE Number                    |x| x.data_page_size;
    "_code_page_size" PERF_SAMPLE_CODE_PAGE_SIZE Number                    |x| x.code_page_size;
    "_regs"           PERF_SAMPLE_REGS_INTR      Registers                 |x| size(Registers, x);
    "_user_regs"      PERF_SAMPLE_REGS_USER      UserRegisters         |x| size(UserRegisters, x);
    "_branches"       PERF_SAMPLE_BRANCH_STACK   Branches                  |x| size(Branches, x);
    "_counts"         PERF_SAMPLE_READ           Counts                    |x| size(Counts, x);
    "_totals"         PERF_SAMPLE_READ           Totals                    |x| size(Totals, x);
}

/// Returns the size of a field's list in words.
fn size(kind: FieldValue, extra: &SampleExtra<'_>) -> u64 {
    kind.list(extra).len() as u64
}

/// A set of fields, by their rows of [`SAMPLE_FIELDS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleFields(u32);

const _: () = assert!(SAMPLE_FIELDS.len() < 32);

impl SampleFields {
    /// Returns the set of one field; None if no field has the name.
    pub fn named(name: &str) -> Option<SampleFields> {
        row_named(name).map(|row| SampleFields(1 << row))
    }

    /// Returns the set of the field at a row of the table.
    pub fn row(row: usize) -> SampleFields {
        SampleFields(if row < SAMPLE_FIELDS.len() { 1 << row } else { 0 })
    }

    /// Returns the set of the fields that only the first event of a group has.
    pub fn of_groups() -> SampleFields {
        let of_group = |field: &SampleField| matches!(field.kind, Counts | Totals);
        let rows = (0..SAMPLE_FIELDS.len()).filter(|row| of_group(&SAMPLE_FIELDS[*row]));
        rows.fold(SampleFields::default(), |all, row| all.or(SampleFields::row(row)))
    }

    /// Returns whether it has this field.
    pub fn has(self, kind: FieldValue) -> bool {
        self.iter().any(|field| field.kind == kind)
    }

    /// Returns whether it has no field.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the fields of either.
    #[must_use]
    pub fn or(self, other: SampleFields) -> SampleFields {
        SampleFields(self.0 | other.0)
    }

    /// Returns its fields without those of another.
    #[must_use]
    pub fn without(self, other: SampleFields) -> SampleFields {
        SampleFields(self.0 & !other.0)
    }

    /// Returns the rows of its fields, ascending.
    pub fn rows(self) -> impl Iterator<Item = usize> {
        (0..SAMPLE_FIELDS.len()).filter(move |row| self.0 & (1 << row) != 0)
    }

    /// Returns its fields, in the order of the table.
    pub fn iter(self) -> impl Iterator<Item = &'static SampleField> {
        self.rows().map(|row| &SAMPLE_FIELDS[row])
    }

    /// Returns the names, for messages.
    pub fn names(self) -> String {
        self.iter().map(|field| format!("`{}`", field.name)).collect::<Vec<_>>().join(", ")
    }

    /// Returns its bits of `sample_type`.
    pub fn sample_type(self) -> u32 {
        self.iter().fold(0, |bits, field| bits | field.bit)
    }
}

/// Returns the index of a field's row.
pub fn row_named(name: &str) -> Option<usize> {
    SAMPLE_FIELDS.iter().position(|field| field.name == name)
}

/// Returns the offset of a row's word from the end of the record, in bytes.
pub const fn word_from_end(row: usize) -> usize {
    TAIL_BYTES - 8 * row
}

/// The kinds of field that have a list, in the order of the table.
const LISTS: [FieldValue; 5] = [Registers, UserRegisters, Branches, Counts, Totals];

/// Returns the lists of a tail, in order.
#[inline(always)]
pub fn tail_lists<'a>(extra: &SampleExtra<'a>) -> [Words<'a>; LISTS.len()] {
    LISTS.map(|kind| kind.list(extra))
}

/// Returns the list `_counts` of a record; empty if it has none. Only the list `_totals` stands
/// between it and the words.
pub fn counts_of(raw: &[u8]) -> impl Iterator<Item = u64> {
    let size = |name| row_named(name).and_then(|row| word_of(raw, row)).unwrap_or(0) as usize;
    let (counts, totals) = (size("_counts"), size("_totals"));
    let behind = totals.saturating_mul(8).saturating_add(TAIL_BYTES);
    let end = raw.len().checked_sub(behind);
    let start = end.and_then(|end| end.checked_sub(counts.saturating_mul(8)));
    let bytes = start.zip(end).and_then(|(start, end)| raw.get(start..end)).unwrap_or_default();
    bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word))
}

/// Returns the word of a row; None if the record has no tail.
pub fn word_of(raw: &[u8], row: usize) -> Option<u64> {
    let word = |from_end: usize| {
        let bytes = raw.get(raw.len().checked_sub(from_end)?..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*bytes))
    };
    (word(8)? == TAIL_MARK).then(|| word(word_from_end(row)))?
}

#[cfg(test)]
mod tests;
