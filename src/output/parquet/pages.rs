//! Column chunks with a dictionary: a page of the different values, and one of indices.
//!
//! The writers of `parquet` would hash every value again, which takes several times as long as the
//! rest of an event. The encodings are those of the format's specification:
//! <https://parquet.apache.org/docs/file-format/data-pages/encodings/>.

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

/// The content of a column chunk.
pub(super) struct DictionaryChunk<'a> {
    /// Number of rows.
    pub(super) rows: usize,
    /// The different values, in plain encoding.
    pub(super) entries: &'a [u8],
    /// Number of different values.
    pub(super) count: usize,
    /// The index of each value.
    pub(super) indices: &'a [u32],
    /// A definition level for each value and each null; None if every row has a value.
    pub(super) definitions: Option<&'a [i16]>,
    /// The repetition levels of a list.
    pub(super) repetitions: Option<&'a [i16]>,
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
    /// Appends a chunk to a row group.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn append<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        column: ColumnDescPtr,
        chunk: &DictionaryChunk<'_>,
    ) -> Result<()> {
        let mut out = TrackedWrite::new(Vec::with_capacity(self.compressed.capacity() + 256));
        let mut writer = SerializedPageWriter::new(&mut out);
        let values = chunk.definitions.map_or(chunk.indices.len(), <[i16]>::len);
        self.page.clear();
        self.page.extend_from_slice(chunk.entries);
        let dictionary = writer.write_page(self.compress(|buf| Page::DictionaryPage {
            buf,
            num_values: chunk.count as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        })?)?;
        self.page.clear();
        if let Some(levels) = chunk.repetitions {
            push_levels(&mut self.page, levels, column.max_rep_level());
        }
        if let Some(levels) = chunk.definitions {
            push_levels(&mut self.page, levels, column.max_def_level());
        }
        let width = bits_of(chunk.count.saturating_sub(1) as u32);
        self.page.push(width as u8);
        push_packed(&mut self.page, chunk.indices.iter().copied(), width);
        let data = writer.write_page(self.compress(|buf| Page::DataPage {
            buf,
            num_values: values as u32,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })?)?;
        let close = closed(column, chunk, &dictionary, &data)?;
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
    chunk: &DictionaryChunk<'_>,
    dictionary: &PageWriteSpec,
    data: &PageWriteSpec,
) -> Result<ColumnCloseResult> {
    let size = dictionary.compressed_size + data.compressed_size;
    let raw = dictionary.uncompressed_size + data.uncompressed_size;
    let mut metadata = ColumnChunkMetaData::builder(column)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
        .set_num_values(i64::from(data.num_values))
        .set_total_compressed_size(size as i64)
        .set_total_uncompressed_size(raw as i64)
        .set_dictionary_page_offset(Some(dictionary.offset as i64))
        .set_data_page_offset(data.offset as i64);
    if let Some(statistics) = chunk.statistics.clone() {
        metadata = metadata.set_statistics(statistics);
    }
    Ok(ColumnCloseResult {
        bytes_written: size as u64,
        rows_written: chunk.rows as u64,
        metadata: metadata.build()?,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    })
}

/// Returns the number of bits of the largest value.
fn bits_of(largest: u32) -> u32 {
    u32::BITS - largest.leading_zeros()
}

/// Appends levels as a data page has them: the length of their encoding, and the encoding.
fn push_levels(out: &mut Vec<u8>, levels: &[i16], most: i16) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let width = bits_of(u32::from(most.unsigned_abs()));
    match levels.first() {
        Some(first) if levels.iter().all(|level| level == first) => {
            push_varint(out, (levels.len() as u64) << 1);
            // A level has at most eight bits.
            out.push(*first as u8);
        }
        _ => push_packed(out, levels.iter().map(|level| u32::from(level.unsigned_abs())), width),
    }
    let length = (out.len() - start - 4) as u32;
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

/// Appends one run of values of `width` bits each, packed from the lowest bit on. The last group of
/// eight is filled with zeros.
fn push_packed(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = u32>, width: u32) {
    let count = values.len();
    if count == 0 {
        return;
    }
    if width == 0 {
        return push_varint(out, (count as u64) << 1);
    }
    let groups = count.div_ceil(8);
    push_varint(out, (groups as u64) << 1 | 1);
    let end = out.len() + groups * width as usize;
    out.reserve(end - out.len());
    let (mut pending, mut bits) = (0u64, 0);
    for value in values {
        pending |= u64::from(value) << bits;
        bits += width;
        if bits >= 32 {
            out.extend_from_slice(&(pending as u32).to_le_bytes());
            pending >>= 32;
            bits -= 32;
        }
    }
    out.extend_from_slice(&pending.to_le_bytes());
    out.resize(end, 0);
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
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
            push_packed(&mut out, values.iter().copied(), width);
            out
        };
        // The example of the format's documentation: 0 to 7 in three bits each.
        assert_eq!(packed(&[0, 1, 2, 3, 4, 5, 6, 7], 3), [3, 0x88, 0xc6, 0xfa]);
        assert_eq!(packed(&[1, 1, 1], 1), [3, 0b111]);
        assert_eq!(packed(&[0; 300], 0), [0xd8, 4]);
        assert_eq!(packed(&[], 0), [0; 0]);
        assert_eq!(packed(&[0xabcde, 1], 20).len(), 1 + 20);
        assert_eq!(packed(&[0; 17], 32).len(), 1 + 3 * 32);
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
