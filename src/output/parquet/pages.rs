//! The pages of column chunks: indices into a dictionary, or deltas, a page at a time.
//!
//! Pages are encoded while the rows of a row group arrive, so that the run reads its rings again
//! after each of them. The writers of `parquet` encode a chunk at once, and hash each value again.
//! The encodings are those of the format's specification:
//! <https://parquet.apache.org/docs/file-format/data-pages/encodings/>.

use super::bits::{bits_of, push_packed, push_run};
use super::delta::push_deltas;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use std::io::Write;

/// Level of the compression: higher ones take more time than they save bytes.
pub(super) const LEVEL: i32 = 1;

/// The data pages of a column chunk that are complete.
#[derive(Default)]
pub(super) struct ChunkPages {
    out: Option<TrackedWrite<Vec<u8>>>,
    /// Number of values, nulls included.
    values: u64,
    /// Sizes of the pages.
    compressed: usize,
    uncompressed: usize,
    has_indices: bool,
    has_deltas: bool,
}

impl ChunkPages {
    /// Returns the memory that the pages take.
    pub(super) fn bytes(&self) -> usize {
        self.compressed
    }

    fn add(&mut self, page: &PageWriteSpec) {
        self.values += u64::from(page.num_values);
        self.compressed += page.compressed_size;
        self.uncompressed += page.uncompressed_size;
    }
}

/// The levels of a page.
pub(super) enum PageLevels<'a> {
    /// Every row has a value, by the schema.
    Required,
    /// Every row of this page has a value.
    AllDefined,
    /// A definition level for each row.
    Optional(&'a [i16]),
    /// Definition and repetition levels of lists.
    Lists(&'a [i16], &'a [i16]),
}

/// The values of a page.
pub(super) enum PageValues<'a> {
    /// Indices into the dictionary of the chunk, which has this number of entries so far.
    Indices(&'a [u32], usize),
    /// Integers that differ by small steps.
    Deltas(&'a [i64]),
}

/// The values of a chunk that the indices of its pages stand for.
pub(super) struct DictionaryPage<'a> {
    /// The values, in plain encoding.
    pub(super) entries: &'a [u8],
    /// Number of values.
    pub(super) count: usize,
}

/// The rest of a chunk, which is known at its end.
pub(super) struct ChunkEnd<'a> {
    /// Number of rows.
    pub(super) rows: usize,
    pub(super) dictionary: DictionaryPage<'a>,
    pub(super) statistics: Option<Statistics>,
}

/// Encodes pages, in memory that is reused.
#[derive(Default)]
pub(super) struct PageEncoder {
    page: Vec<u8>,
    compressed: Vec<u8>,
    compressor: Option<zstd::bulk::Compressor<'static>>,
}

impl PageEncoder {
    /// Appends a data page to the pages of a chunk.
    ///
    /// # Errors
    /// The page cannot be compressed.
    pub(super) fn push_page(
        &mut self,
        pages: &mut ChunkPages,
        levels: &PageLevels<'_>,
        values: &PageValues<'_>,
    ) -> Result<()> {
        let defined = match values {
            PageValues::Indices(indices, _) => indices.len(),
            PageValues::Deltas(integers) => integers.len(),
        };
        self.page.clear();
        let num_values = push_page_levels(&mut self.page, levels, defined) as u32;
        let encoding = match values {
            PageValues::Indices(indices, entries) => {
                pages.has_indices = true;
                push_indices(&mut self.page, indices, bits_of(entries.saturating_sub(1) as u32));
                Encoding::RLE_DICTIONARY
            }
            PageValues::Deltas(integers) => {
                pages.has_deltas = true;
                push_deltas(&mut self.page, integers);
                Encoding::DELTA_BINARY_PACKED
            }
        };
        let page = self.compress(|buf| Page::DataPage {
            buf,
            num_values,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })?;
        let out = pages.out.get_or_insert_with(|| TrackedWrite::new(Vec::new()));
        let written = SerializedPageWriter::new(out).write_page(page)?;
        pages.add(&written);
        Ok(())
    }

    /// Appends a chunk to a row group, and forgets its pages.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn append<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        column: ColumnDescPtr,
        pages: &mut ChunkPages,
        end: ChunkEnd<'_>,
    ) -> Result<()> {
        let mut pages = std::mem::take(pages);
        let mut out = TrackedWrite::new(Vec::with_capacity(pages.compressed + 1024));
        if pages.has_indices {
            self.page.clear();
            self.page.extend_from_slice(end.dictionary.entries);
            let page = self.compress(|buf| Page::DictionaryPage {
                buf,
                num_values: end.dictionary.count as u32,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            })?;
            let written = SerializedPageWriter::new(&mut out).write_page(page)?;
            pages.compressed += written.compressed_size;
            pages.uncompressed += written.uncompressed_size;
        }
        let data_offset = out.bytes_written();
        if let Some(data) = pages.out.take() {
            out.write_all(&data.into_inner()?)?;
        }
        let close = closed(column, &pages, end, data_offset)?;
        group.append_column(&Bytes::from(out.into_inner()?), close)
    }

    fn compress(&mut self, page: impl FnOnce(Bytes) -> Page) -> Result<CompressedPage> {
        let failed = |why: std::io::Error| ParquetError::External(Box::new(why));
        if self.compressor.is_none() {
            self.compressor = Some(zstd::bulk::Compressor::new(LEVEL).map_err(failed)?);
        }
        let Some(compressor) = &mut self.compressor else {
            return Err(ParquetError::General("no compressor".to_owned()));
        };
        self.compressed.clear();
        self.compressed.reserve(zstd::zstd_safe::compress_bound(self.page.len()));
        compressor.compress_to_buffer(&self.page, &mut self.compressed).map_err(failed)?;
        Ok(CompressedPage::new(page(Bytes::copy_from_slice(&self.compressed)), self.page.len()))
    }
}

/// Returns the description of a chunk whose pages were written.
fn closed(
    column: ColumnDescPtr,
    pages: &ChunkPages,
    end: ChunkEnd<'_>,
    data_offset: usize,
) -> Result<ColumnCloseResult> {
    let mut encodings = vec![Encoding::RLE];
    if pages.has_indices {
        encodings.extend([Encoding::PLAIN, Encoding::RLE_DICTIONARY]);
    }
    if pages.has_deltas {
        encodings.push(Encoding::DELTA_BINARY_PACKED);
    }
    let mut metadata = ColumnChunkMetaData::builder(column)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_encodings(encodings)
        .set_num_values(pages.values.cast_signed())
        .set_total_compressed_size(pages.compressed as i64)
        .set_total_uncompressed_size(pages.uncompressed as i64)
        .set_dictionary_page_offset(pages.has_indices.then_some(0))
        .set_data_page_offset(data_offset as i64);
    if let Some(statistics) = end.statistics {
        metadata = metadata.set_statistics(statistics);
    }
    Ok(ColumnCloseResult {
        bytes_written: pages.compressed as u64,
        rows_written: end.rows as u64,
        metadata: metadata.build()?,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    })
}

/// Appends the levels of a page with this number of values that are not null. Returns the number of
/// its values, nulls included.
fn push_page_levels(out: &mut Vec<u8>, levels: &PageLevels<'_>, defined: usize) -> usize {
    match levels {
        PageLevels::Required => defined,
        PageLevels::AllDefined => {
            push_with_length(out, |out| push_run(out, defined, 1, 1));
            defined
        }
        PageLevels::Optional(definitions) => {
            push_levels(out, definitions, 1);
            definitions.len()
        }
        PageLevels::Lists(definitions, repetitions) => {
            push_levels(out, repetitions, 1);
            push_levels(out, definitions, 2);
            definitions.len()
        }
    }
}

/// Appends levels as a data page has them: the length of their encoding, and the encoding.
fn push_levels(out: &mut Vec<u8>, levels: &[i16], most: u32) {
    let width = bits_of(most);
    push_with_length(out, |out| match levels.first() {
        Some(first) if levels.iter().all(|level| level == first) => {
            push_run(out, levels.len(), u32::from(first.unsigned_abs()), width);
        }
        _ => push_packed(out, levels, |level| level.unsigned_abs().into(), width),
    });
}

/// Appends what `fill` appends, after its length in four bytes.
fn push_with_length(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let length = (out.len() - start - 4) as u32;
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

/// Appends the indices of a data page: their width, and a run of equal ones or a packed one.
fn push_indices(out: &mut Vec<u8>, indices: &[u32], width: u32) {
    out.push(width as u8);
    match indices.split_first() {
        Some((first, rest)) if rest.iter().all(|index| index == first) => {
            push_run(out, indices.len(), *first, width);
        }
        _ => push_packed(out, indices, |index| index, width),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_indices_are_one_run() {
        let pushed = |indices: &[u32], width| {
            let mut out = Vec::new();
            push_indices(&mut out, indices, width);
            out
        };
        assert_eq!(pushed(&[0; 300], 0), [0, 0xd8, 4]);
        assert_eq!(pushed(&[0x123; 8], 9), [9, 16, 0x23, 1]);
        assert_eq!(pushed(&[1, 0], 1), [1, 3, 1]);
        assert_eq!(pushed(&[], 0), [0]);
    }

    #[test]
    fn equal_levels_are_one_run() {
        let mut out = Vec::new();
        push_levels(&mut out, &[1; 100], 1);
        assert_eq!(out, [3, 0, 0, 0, 0xc8, 1, 1]);
        out.clear();
        push_levels(&mut out, &[1, 0, 1], 1);
        assert_eq!(out, [2, 0, 0, 0, 3, 0b101]);
    }
}
