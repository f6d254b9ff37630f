//! One table: its columns, the rows that wait for the next row group, and the file in progress.

use super::column::ParquetColumn;
use super::column_kind::ColumnKind;
use super::pages::{LEVEL, PageEncoder};
use super::place::{self, Partition};
use super::staging::{STAGED, StagedEvents};
use crate::base::report::event_record::EventRecord;
use crate::output::file::AtomicFile;
use anyhow::{Context as _, Result};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of rows of a row group.
pub(super) const ROWS: usize = 1 << 16;
/// Rows of a page. Encoding the pages of all columns takes less than a millisecond, in which no
/// ring overflows, and their rows fit the second-level cache.
const PAGE_ROWS: usize = 1 << 13;
/// Rows between two checks of the memory that a table takes.
pub(super) const CHECKED: usize = 256;
const _: () = assert!(CHECKED.is_multiple_of(STAGED), "a batch ends before a check");
const DAY_NS: i64 = 86_400_000_000_000;

/// A table.
pub(super) struct ParquetTable {
    /// The path below the folder: kind and name.
    path: PathBuf,
    pub(super) columns: Vec<ParquetColumn>,
    /// Number of rows in the columns, which are not written yet.
    pub(super) rows: usize,
    /// Events that are not in the columns yet; empty whenever a row is appended directly.
    staged: StagedEvents,
    /// Day of these rows and of the file, counted from the Unix epoch.
    day: i64,
    /// Wall-clock time of the first row since the last file.
    first_ns: i64,
    /// When that row was added.
    since: Option<Instant>,
    file: Option<FileInProgress>,
}

struct FileInProgress {
    path: PathBuf,
    file: AtomicFile,
    /// Number of rows in its row groups.
    rows: u64,
    writer: SerializedFileWriter<File>,
}

/// The state that all tables of a run share.
pub(super) struct TableContext {
    pub(super) partition: Partition,
    /// A file is finished at this size.
    pub(super) size: u64,
    /// Number of rows that were begun, in all tables.
    pub(super) begun: u64,
    /// Number of finished files, which have their names.
    pub(super) files: u64,
    /// Number of rows in these files.
    pub(super) rows: u64,
    /// Size of these files.
    pub(super) bytes: u64,
    encoder: PageEncoder,
}

impl TableContext {
    pub(super) fn new(partition: Partition, size: u64) -> TableContext {
        TableContext {
            partition,
            size,
            begun: 0,
            files: 0,
            rows: 0,
            bytes: 0,
            encoder: PageEncoder::default(),
        }
    }
}

impl ParquetTable {
    /// Returns an empty table. Its first column is the time of a row.
    pub(super) fn new(path: PathBuf, columns: Vec<ParquetColumn>) -> ParquetTable {
        let staged = StagedEvents::default();
        ParquetTable {
            path,
            columns,
            rows: 0,
            staged,
            day: 0,
            first_ns: 0,
            since: None,
            file: None,
        }
    }

    /// Prepares for a row of this time: rows of another day belong to another file.
    ///
    /// # Errors
    /// The file cannot be written.
    #[inline]
    pub(super) fn begin_row(&mut self, wall_ns: i64, context: &mut TableContext) -> Result<()> {
        context.begun += 1;
        let into_day = wall_ns.wrapping_sub(self.day.wrapping_mul(DAY_NS));
        if self.since.is_some() && (0..DAY_NS).contains(&into_day) {
            return Ok(());
        }
        self.finish(context)?;
        self.day = wall_ns.div_euclid(DAY_NS);
        self.first_ns = wall_ns;
        self.since = Some(Instant::now());
        Ok(())
    }

    /// Ends a row with values in `filled` columns: the others get null. Returns whether the table's
    /// memory is to be checked.
    ///
    /// # Errors
    /// The file cannot be written.
    #[inline]
    pub(super) fn end_row(&mut self, filled: usize, context: &mut TableContext) -> Result<bool> {
        self.add_rows(1, filled);
        self.check_rows(context)
    }

    /// Counts rows with values in `filled` columns: the others get null.
    #[inline]
    fn add_rows(&mut self, added: usize, filled: usize) {
        self.rows += added;
        if filled < self.columns.len() {
            for column in &mut self.columns {
                (column.rows..self.rows).for_each(|_| column.push_null());
            }
        }
    }

    /// Returns whether an event with this layout can be staged.
    #[inline]
    pub(super) fn takes(&mut self, event: &EventRecord<'_>) -> bool {
        self.staged.fits(event) || {
            self.append_staged();
            self.staged.take_layout(event, &self.columns)
        }
    }

    /// Stages an event that the table takes; its row has begun. Returns whether the table's memory
    /// is to be checked.
    ///
    /// # Errors
    /// The file cannot be written.
    #[inline]
    pub(super) fn stage(
        &mut self,
        event: &EventRecord<'_>,
        context: &mut TableContext,
    ) -> Result<bool> {
        self.staged.push(event);
        if !(self.rows + self.staged.len()).is_multiple_of(STAGED) {
            return Ok(false);
        }
        self.append_batch();
        self.check_rows(context)
    }

    /// Appends the staged events to the columns, whose kinds may change from now on.
    #[inline]
    pub(super) fn append_staged(&mut self) {
        self.append_batch();
        self.staged.clear();
    }

    /// Appends the staged events to the columns.
    fn append_batch(&mut self) {
        let added = self.staged.len();
        if added > 0 {
            let filled = self.staged.append_to(&mut self.columns);
            self.add_rows(added, filled);
        }
    }

    /// Ends a page or a row group that is complete. Returns whether the table's memory is to be
    /// checked.
    #[inline]
    fn check_rows(&mut self, context: &mut TableContext) -> Result<bool> {
        if !self.rows.is_multiple_of(CHECKED) {
            return Ok(false);
        }
        if self.rows >= ROWS {
            self.write_rows(context)?;
        } else if self.rows.is_multiple_of(PAGE_ROWS) {
            let ended = self.end_pages(context);
            self.abandon_after(ended)?;
        }
        Ok(true)
    }

    /// Encodes the rows since the last page.
    fn end_pages(&mut self, context: &mut TableContext) -> Result<()> {
        let encoder = &mut context.encoder;
        let ended = self.columns.iter_mut().try_for_each(|column| column.end_page(encoder));
        ended.with_context(|| self.path.display().to_string())
    }

    /// Makes a column accept values of a kind. A file has one type for each column, so it is
    /// finished if the type changes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn accept(
        &mut self,
        index: usize,
        kind: ColumnKind,
        context: &mut TableContext,
    ) -> Result<()> {
        let Some(column) = self.columns.get(index) else { return Ok(()) };
        let joined = column.kind.join(kind);
        if joined == column.kind {
            return Ok(());
        }
        if self.file.is_some() || column.kind != ColumnKind::Unknown {
            let (day, first_ns, since) = (self.day, self.first_ns, self.since);
            self.finish(context)?;
            (self.day, self.first_ns, self.since) = (day, first_ns, since);
        }
        if let Some(column) = self.columns.get_mut(index) {
            column.become_kind(joined);
        }
        Ok(())
    }

    /// Returns the column with this name, which is added if there is none. `start` is where it
    /// probably is; columns in `taken` are not returned.
    pub(super) fn column(&mut self, name: &str, start: usize, taken: &[usize]) -> usize {
        let is_it = |column: &ParquetColumn| column.source == name;
        let free = |index: &usize| !taken.contains(index);
        if self.columns.get(start).is_some_and(is_it) && free(&start) {
            return start;
        }
        let mut found = self.columns.iter().enumerate().filter(|(_, c)| is_it(c)).map(|(i, _)| i);
        if let Some(index) = found.find(free) {
            return index;
        }
        let column = ParquetColumn::new(self.free_name(name), name, ColumnKind::Unknown, self.rows);
        self.columns.push(column);
        self.columns.len() - 1
    }

    /// Returns a column name that differs from the others for engines, which ignore case.
    fn free_name(&self, name: &str) -> String {
        let mut name = if name.is_empty() { "_".to_owned() } else { name.to_owned() };
        let is_taken = |name: &str| {
            place::PARTITIONS.iter().any(|key| key.eq_ignore_ascii_case(name))
                || self.columns.iter().any(|column| column.name.eq_ignore_ascii_case(name))
        };
        while is_taken(&name) {
            name.push('_');
        }
        name
    }

    /// Returns the memory that the rows take.
    pub(super) fn bytes(&self) -> usize {
        self.staged.bytes() + self.columns.iter().map(ParquetColumn::bytes).sum::<usize>()
    }

    /// Returns when the first row was added that is not in a finished file.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Writes the rows as a row group.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write_rows(&mut self, context: &mut TableContext) -> Result<()> {
        let written = self.try_write_rows(context);
        self.abandon_after(written)
    }

    fn try_write_rows(&mut self, context: &mut TableContext) -> Result<()> {
        self.append_batch();
        if self.rows == 0 {
            return Ok(());
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.begin_file(context)?,
        };
        let written = write_group(&mut file.writer, &mut self.columns, &mut context.encoder);
        written.map_err(|why| file_error(why, &file.path))?;
        file.rows += self.rows as u64;
        self.rows = 0;
        let is_full = file.writer.bytes_written() as u64 >= context.size;
        self.file = Some(file);
        if is_full { self.finish(context) } else { Ok(()) }
    }

    fn begin_file(&self, context: &mut TableContext) -> Result<FileInProgress> {
        let mut fields = Vec::new();
        for column in self.columns.iter().filter(|column| column.kind != ColumnKind::Unknown) {
            fields.push(column.schema()?);
        }
        let schema = Type::group_type_builder("perilune").with_fields(fields).build()?;
        let path = context.partition.file(&self.path, self.day, self.first_ns)?;
        let mut file = AtomicFile::begin(&path)?;
        let out = file.file().try_clone().with_context(|| path.display().to_string())?;
        let writer = SerializedFileWriter::new(out, Arc::new(schema), properties(&self.columns)?)?;
        Ok(FileInProgress { path, file, rows: 0, writer })
    }

    /// Writes all rows, and gives the file its name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn finish(&mut self, context: &mut TableContext) -> Result<()> {
        self.since = None;
        self.write_rows(context)?;
        let Some(mut file) = self.file.take() else { return Ok(()) };
        file.writer.finish().map_err(|why| file_error(why, &file.path))?;
        file.file.place()?;
        context.files += 1;
        context.rows += file.rows;
        context.bytes += file.writer.bytes_written() as u64;
        Ok(())
    }

    /// Forgets all rows after an error: a column may have fewer of them than another one.
    fn abandon_after(&mut self, done: Result<()>) -> Result<()> {
        if done.is_err() {
            self.abandon();
        }
        done
    }

    /// Forgets all rows, after a failure.
    pub(super) fn abandon(&mut self) {
        self.file = None;
        self.rows = 0;
        self.staged.clear();
        self.columns.iter_mut().for_each(ParquetColumn::clear);
    }
}

fn write_group(
    writer: &mut SerializedFileWriter<File>,
    columns: &mut [ParquetColumn],
    encoder: &mut PageEncoder,
) -> parquet::errors::Result<()> {
    let places = writer.schema_descr().columns().to_vec();
    let (mut group, mut at) = (writer.next_row_group()?, 0);
    for column in columns {
        match places.get(at) {
            Some(place) if column.leaves() > 0 => {
                at += column.leaves();
                column.write(&mut group, place.clone(), encoder)?;
            }
            _ => column.clear(),
        }
    }
    group.close()?;
    Ok(())
}

/// Returns an error that names the file; the reason is that of the operating system, if it has one.
fn file_error(why: ParquetError, path: &Path) -> anyhow::Error {
    let shown = path.display().to_string();
    match why {
        ParquetError::External(why) => anyhow::anyhow!("{shown}: {why}"),
        why => anyhow::Error::new(why).context(shown),
    }
}

/// Returns the properties of the columns that `parquet` encodes: doubles, bools, and lists of
/// integers, most of which differ by small steps. Readers skip row groups by the statistics.
fn properties(columns: &[ParquetColumn]) -> Result<WriterPropertiesPtr> {
    let mut built = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_created_by(concat!("perilune ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_dictionary_enabled(false)
        .set_offset_index_disabled(true);
    for column in columns {
        for path in column.integer_paths() {
            built = built.set_column_encoding(path.into(), Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(Arc::new(built.build()))
}
