//! A column of a Parquet table: the values of the rows that are not written yet.
//!
//! Scalars and lists are optional. Definition and repetition levels follow Dremel, as the format
//! describes them: <https://parquet.apache.org/docs/file-format/nestedencoding/>.

use super::column_kind::ColumnKind;
use super::dictionary::Dictionary;
use super::numbers::{Numbers, extremes};
use super::pages::{ChunkEnd, ChunkPages, DictionaryPage, PageEncoder, PageLevels, PageValues};
use crate::base::report::draw::Bucket;
use parquet::data_type::{BoolType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedColumnWriter, SerializedRowGroupWriter};
use parquet::schema::types::ColumnDescPtr;
use std::io::Write;

/// A column.
pub(super) struct ParquetColumn {
    /// The name in the file.
    pub(super) name: String,
    /// The name of the field or key whose values it has.
    pub(super) source: String,
    pub(super) kind: ColumnKind,
    /// Number of rows that are not written yet.
    pub(super) rows: usize,
    /// Number of those in complete pages.
    paged: usize,
    /// Whether every row has a value: such a column has no levels.
    pub(super) required: bool,
    pages: ChunkPages,
    /// The values of kinds `Int` and `Uint`.
    numbers: Numbers,
    /// Times, and the elements of lists.
    integers: Vec<i64>,
    doubles: Vec<f64>,
    bools: Vec<bool>,
    texts: Dictionary,
    /// Highs and counts of buckets; their lows are `integers`.
    highs: Vec<i64>,
    counts: Vec<i64>,
    /// Empty as long as each row has a value, except of lists.
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    /// Number of nulls of the chunk.
    nulls: u64,
    /// The least and the largest number of each page of deltas.
    extremes: Vec<i64>,
}

impl ParquetColumn {
    /// Returns a column in which `rows` rows have no value.
    pub(super) fn new(name: String, source: &str, kind: ColumnKind, rows: usize) -> ParquetColumn {
        let mut column = ParquetColumn {
            name,
            source: source.to_owned(),
            kind,
            rows: 0,
            paged: 0,
            required: false,
            pages: ChunkPages::default(),
            numbers: Numbers::default(),
            integers: Vec::new(),
            doubles: Vec::new(),
            bools: Vec::new(),
            texts: Dictionary::default(),
            highs: Vec::new(),
            counts: Vec::new(),
            definitions: Vec::new(),
            repetitions: Vec::new(),
            nulls: 0,
            extremes: Vec::new(),
        };
        for _ in 0..rows {
            column.push_null();
        }
        column
    }

    /// Returns a column of which every row has a value.
    pub(super) fn required(name: &str, kind: ColumnKind) -> ParquetColumn {
        ParquetColumn { required: true, ..ParquetColumn::new(name.to_owned(), name, kind, 0) }
    }

    pub(super) fn push_null(&mut self) {
        match self.required {
            true => self.push_default(),
            false => {
                if self.definitions.is_empty() {
                    self.definitions.resize(self.rows - self.paged, 1);
                }
                self.level(0, 0);
                self.rows += 1;
                self.nulls += 1;
            }
        }
    }

    /// Sets the kind of a column without values.
    pub(super) fn become_kind(&mut self, kind: ColumnKind) {
        self.kind = kind;
        let levels = if kind.is_list() { self.definitions.len() } else { 0 };
        self.repetitions = vec![0; levels];
    }

    fn push_default(&mut self) {
        self.rows += 1;
        match self.kind {
            ColumnKind::Text | ColumnKind::Bytes => self.texts.push(b""),
            ColumnKind::Double => self.doubles.push(0.0),
            ColumnKind::Bool => self.bools.push(false),
            ColumnKind::Int | ColumnKind::Uint => self.numbers.push(0),
            _ => self.integers.push(0),
        }
    }

    /// Appends a value of kind `Int`, or the bits of one of kind `Uint`.
    #[inline]
    pub(super) fn push_int(&mut self, value: i64) {
        self.defined();
        self.numbers.push(value);
    }

    /// Appends a value of kind `Time` or `Clock`.
    #[inline]
    pub(super) fn push_time(&mut self, value: i64) {
        self.defined();
        self.integers.push(value);
    }

    /// Appends values of kind `Int`, or the bits of values of kind `Uint`.
    #[inline]
    pub(super) fn push_integers(&mut self, values: impl ExactSizeIterator<Item = i64>) {
        self.defined_rows(values.len());
        self.numbers.push_all(values);
    }

    /// Appends values of kind `Time` or `Clock`.
    #[inline]
    pub(super) fn push_times(&mut self, values: impl ExactSizeIterator<Item = i64>) {
        self.defined_rows(values.len());
        self.integers.extend(values);
    }

    /// Appends texts that end at their first NUL.
    #[inline]
    pub(super) fn push_names(&mut self, names: impl ExactSizeIterator<Item = [u8; 16]>) {
        self.defined_rows(names.len());
        self.texts.push_names(names);
    }

    pub(super) fn push_double(&mut self, value: f64) {
        self.defined();
        self.doubles.push(value);
    }

    pub(super) fn push_bool(&mut self, value: bool) {
        self.defined();
        self.bools.push(value);
    }

    #[inline]
    pub(super) fn push_text(&mut self, value: &[u8]) {
        self.defined();
        self.texts.push(value);
    }

    /// Appends the bytes unchanged.
    pub(super) fn push_bytes(&mut self, value: &[u8]) {
        self.defined();
        self.texts.push_raw(value);
    }

    pub(super) fn push_ints(&mut self, values: impl Iterator<Item = i64>) {
        let before = self.integers.len();
        self.integers.extend(values);
        self.list(self.integers.len() - before);
    }

    pub(super) fn push_texts<'t>(&mut self, values: impl Iterator<Item = &'t [u8]>) {
        let before = self.texts.len();
        values.for_each(|value| self.texts.push(value));
        self.list(self.texts.len() - before);
    }

    pub(super) fn push_buckets(&mut self, buckets: impl Iterator<Item = Bucket>) {
        let before = self.integers.len();
        for bucket in buckets {
            self.integers.push(bucket.low);
            self.highs.push(bucket.high);
            self.counts.push(bucket.count.cast_signed());
        }
        self.list(self.integers.len() - before);
    }

    #[inline]
    fn defined(&mut self) {
        self.defined_rows(1);
    }

    #[inline]
    fn defined_rows(&mut self, rows: usize) {
        self.rows += rows;
        if !self.definitions.is_empty() {
            self.definitions.resize(self.definitions.len() + rows, 1);
        }
    }

    /// Adds the levels of a list of `length` elements.
    fn list(&mut self, length: usize) {
        self.rows += 1;
        if length == 0 {
            return self.level(1, 0);
        }
        for element in 0..length {
            self.level(2, i16::from(element > 0));
        }
    }

    fn level(&mut self, definition: i16, repetition: i16) {
        self.definitions.push(definition);
        if self.kind.is_list() {
            self.repetitions.push(repetition);
        }
    }

    /// Returns the memory that the values take.
    pub(super) fn bytes(&self) -> usize {
        let words = self.integers.len() + self.doubles.len() + self.highs.len() + self.counts.len();
        let levels = self.definitions.len() + self.repetitions.len();
        words * size_of::<i64>()
            + levels * size_of::<i16>()
            + self.bools.len()
            + self.texts.bytes()
            + self.numbers.bytes()
            + self.pages.bytes()
    }

    /// Encodes the rows since the last page as a page, unless `parquet` encodes the column.
    ///
    /// # Errors
    /// The page cannot be compressed.
    pub(super) fn end_page(&mut self, encoder: &mut PageEncoder) -> Result<()> {
        if self.rows == self.paged {
            return Ok(());
        }
        let levels = match &*self.definitions {
            _ if self.required => PageLevels::Required,
            [] => PageLevels::AllDefined,
            definitions if self.kind.is_list() => PageLevels::Lists(definitions, &self.repetitions),
            definitions => PageLevels::Optional(definitions),
        };
        let values = match self.kind {
            ColumnKind::Int | ColumnKind::Uint if self.numbers.is_plain() => {
                PageValues::Deltas(&self.numbers.page)
            }
            ColumnKind::Int | ColumnKind::Uint => {
                PageValues::Indices(&self.numbers.indices, self.numbers.entries.len())
            }
            ColumnKind::Time | ColumnKind::Clock => PageValues::Deltas(&self.integers),
            ColumnKind::Text | ColumnKind::Bytes | ColumnKind::Texts => {
                PageValues::Indices(&self.texts.indices, self.texts.entries())
            }
            _ => return Ok(()),
        };
        if let PageValues::Deltas(numbers) = values {
            let is_unsigned = self.kind == ColumnKind::Uint;
            self.extremes.extend(extremes(numbers, is_unsigned).into_iter().flatten());
        }
        encoder.push_page(&mut self.pages, &levels, &values)?;
        self.forget_page();
        self.paged = self.rows;
        Ok(())
    }

    /// Writes the values into a row group, and forgets them. `place` is its first column there.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        place: ColumnDescPtr,
        encoder: &mut PageEncoder,
    ) -> Result<()> {
        self.end_page(encoder)?;
        if !self.required && self.definitions.is_empty() {
            self.definitions.resize(self.rows - self.paged, 1);
        }
        let levels = (!self.required).then_some(&*self.definitions);
        let repeated = self.kind.is_list().then_some(&*self.repetitions);
        match self.kind {
            ColumnKind::Unknown => {}
            ColumnKind::Bool => put::<BoolType, W>(group, &self.bools, levels, repeated)?,
            ColumnKind::Double => put::<DoubleType, W>(group, &self.doubles, levels, repeated)?,
            ColumnKind::Ints | ColumnKind::Uints => {
                put::<Int64Type, W>(group, &self.integers, levels, repeated)?;
            }
            ColumnKind::Buckets => {
                for part in [&self.integers, &self.highs, &self.counts] {
                    put::<Int64Type, W>(group, part, levels, repeated)?;
                }
            }
            ColumnKind::Int | ColumnKind::Uint | ColumnKind::Time | ColumnKind::Clock => {
                let entries: Vec<u8> =
                    self.numbers.entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
                let dictionary =
                    DictionaryPage { entries: &entries, count: self.numbers.entries.len() };
                let end = ChunkEnd { rows: self.rows, dictionary, statistics: self.statistics() };
                encoder.append(group, place, &mut self.pages, end)?;
            }
            ColumnKind::Text | ColumnKind::Bytes | ColumnKind::Texts => {
                let dictionary =
                    DictionaryPage { entries: &self.texts.page, count: self.texts.entries() };
                let end = ChunkEnd { rows: self.rows, dictionary, statistics: None };
                encoder.append(group, place, &mut self.pages, end)?;
            }
        }
        self.clear();
        Ok(())
    }

    /// Returns the least and the largest number, by which readers skip row groups.
    fn statistics(&self) -> Option<Statistics> {
        let is_unsigned = self.kind == ColumnKind::Uint;
        let of_pages = extremes(&self.extremes, is_unsigned);
        let of_entries = extremes(&self.numbers.entries, is_unsigned);
        let all: Vec<i64> = of_pages.into_iter().chain(of_entries).flatten().collect();
        let extremes = extremes(&all, is_unsigned);
        let [least, most] = extremes.map_or([None; 2], |extremes| extremes.map(Some));
        Some(Statistics::int64(least, most, None, Some(self.nulls), false))
    }

    /// Forgets the values of the page in progress; keeps their memory.
    fn forget_page(&mut self) {
        self.numbers.clear_page();
        self.integers.clear();
        self.doubles.clear();
        self.bools.clear();
        self.texts.indices.clear();
        self.highs.clear();
        self.counts.clear();
        self.definitions.clear();
        self.repetitions.clear();
    }

    /// Forgets the values; keeps their memory.
    pub(super) fn clear(&mut self) {
        self.forget_page();
        (self.rows, self.paged, self.nulls) = (0, 0, 0);
        self.pages = ChunkPages::default();
        self.numbers.clear();
        self.texts.clear();
        self.extremes.clear();
    }
}

/// Writes the next column of a row group.
fn put<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    definitions: Option<&[i16]>,
    repetitions: Option<&[i16]>,
) -> Result<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let writer: &mut SerializedColumnWriter<'_> = &mut column;
    writer.typed::<T>().write_batch(values, definitions, repetitions)?;
    column.close()
}
