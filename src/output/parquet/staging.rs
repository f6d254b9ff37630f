//! Events of a table that wait to be appended to its columns, all together: a loop over the values
//! of one column takes a fraction of the time that a walk over all columns for each event takes.

use super::column::ParquetColumn;
use super::column_kind::ColumnKind;
use crate::base::event::value::read_bits;
use crate::base::report::event_record::{EventRecord, FixedEncoding, FixedField};
use crate::base::text::unescape::until_nul;

/// Columns of every event, before its own.
pub(super) const SAMPLE: [(&str, ColumnKind); 6] = [
    ("time", ColumnKind::Time),
    ("clock_ns", ColumnKind::Clock),
    ("cpu", ColumnKind::Int),
    ("pid", ColumnKind::Int),
    ("tid", ColumnKind::Int),
    ("comm", ColumnKind::Text),
];

/// Events that are appended together. Their records fit the first-level cache.
pub(super) const STAGED: usize = 128;

/// Events of one layout, as records.
#[derive(Default)]
pub(super) struct StagedEvents {
    samples: Vec<StagedSample>,
    /// The records, each of `size` bytes.
    records: Vec<u8>,
    size: usize,
    /// The fields of the records, of which the columns behind the sample have the kinds.
    fields: Vec<FixedField>,
    /// The role of the last record; None if the columns may have other kinds.
    role: Option<usize>,
}

/// The values of an event that are not in its record.
struct StagedSample {
    wall_ns: i64,
    clock_ns: u64,
    cpu: u32,
    pid: u32,
    tid: u32,
    comm: [u8; 16],
}

impl StagedEvents {
    pub(super) fn len(&self) -> usize {
        self.samples.len()
    }

    /// Returns the memory that they take.
    pub(super) fn bytes(&self) -> usize {
        self.samples.len() * size_of::<StagedSample>() + self.records.len()
    }

    /// Returns whether the events have the layout of this one.
    #[inline]
    pub(super) fn fits(&mut self, event: &EventRecord<'_>) -> bool {
        let is_same = self.role == Some(event.role)
            || self.role.is_some() && self.fields.as_slice() == event.fields;
        let fits = is_same && self.size == event.bytes.len();
        if fits {
            self.role = Some(event.role);
        }
        fits
    }

    /// Takes the layout of an event from now on, while there are no events. Returns false if the
    /// columns behind the sample do not have the kinds of its fields.
    pub(super) fn take_layout(
        &mut self,
        event: &EventRecord<'_>,
        columns: &[ParquetColumn],
    ) -> bool {
        self.clear();
        let own = columns.get(SAMPLE.len()..).unwrap_or_default();
        let is_kind = |(column, field): (&ParquetColumn, &FixedField)| {
            column.kind
                == match field.encoding {
                    FixedEncoding::Signed => ColumnKind::Int,
                    FixedEncoding::Unsigned => ColumnKind::Uint,
                    FixedEncoding::Text => ColumnKind::Text,
                }
        };
        if own.len() < event.fields.len() || !own.iter().zip(event.fields).all(is_kind) {
            return false;
        }
        self.fields.extend_from_slice(event.fields);
        self.size = event.bytes.len();
        self.role = Some(event.role);
        true
    }

    /// Adds an event whose layout [`StagedEvents::fits`].
    #[inline]
    pub(super) fn push(&mut self, event: &EventRecord<'_>) {
        self.samples.push(StagedSample {
            wall_ns: event.wall_ns,
            clock_ns: event.clock_ns,
            cpu: event.cpu,
            pid: event.pid,
            tid: event.tid,
            comm: event.comm,
        });
        self.records.extend_from_slice(event.bytes);
    }

    /// Moves the events to the columns. Returns the number of columns that have their values.
    pub(super) fn append_to(&mut self, columns: &mut [ParquetColumn]) -> usize {
        self.append_samples(columns);
        for (column, field) in columns.iter_mut().skip(SAMPLE.len()).zip(&self.fields) {
            self.append_field(column, field);
        }
        self.samples.clear();
        self.records.clear();
        SAMPLE.len() + self.fields.len()
    }

    fn append_samples(&self, columns: &mut [ParquetColumn]) {
        let [time, clock, cpu, pid, tid, comm, ..] = columns else { return };
        let samples = self.samples.iter();
        time.push_times(samples.clone().map(|sample| microseconds(sample.wall_ns)));
        clock.push_times(samples.clone().map(|sample| sample.clock_ns.cast_signed()));
        cpu.push_integers(samples.clone().map(|sample| sample.cpu.into()));
        // Signed, as in the kernel: -1 is a task that is being released.
        pid.push_integers(samples.clone().map(|sample| sample.pid.cast_signed().into()));
        tid.push_integers(samples.clone().map(|sample| sample.tid.cast_signed().into()));
        comm.push_names(samples.map(|sample| sample.comm));
    }

    fn append_field(&self, column: &mut ParquetColumn, field: &FixedField) {
        match (field.encoding, field.size) {
            (FixedEncoding::Text, 16) => column.push_names(self.values(field.offset)),
            (FixedEncoding::Text, _) => {
                for record in self.records.chunks_exact(self.size.max(1)) {
                    let text = record.get(field.offset..field.end()).unwrap_or_default();
                    column.push_text(until_nul(text));
                }
            }
            (_, 1) => self.append_integers::<1>(column, field),
            (_, 2) => self.append_integers::<2>(column, field),
            (_, 4) => self.append_integers::<4>(column, field),
            _ => self.append_integers::<8>(column, field),
        }
    }

    fn append_integers<const SIZE: usize>(&self, column: &mut ParquetColumn, field: &FixedField) {
        let values = self.values::<SIZE>(field.offset);
        match field.encoding {
            FixedEncoding::Signed => {
                column.push_integers(values.map(|bytes| read_bits(&bytes, true).cast_signed()));
            }
            _ => column.push_integers(values.map(|bytes| read_bits(&bytes, false).cast_signed())),
        }
    }

    /// Returns the bytes at an offset of each record.
    #[inline]
    fn values<const SIZE: usize>(
        &self,
        offset: usize,
    ) -> impl ExactSizeIterator<Item = [u8; SIZE]> {
        self.records.chunks_exact(self.size.max(1)).map(move |record| {
            let value = record.get(offset..).and_then(|rest| rest.first_chunk());
            value.copied().unwrap_or([0; SIZE])
        })
    }

    /// Forgets the events and their layout.
    pub(super) fn clear(&mut self) {
        self.samples.clear();
        self.records.clear();
        self.fields.clear();
        self.role = None;
    }
}

/// Returns whole microseconds. An unsigned division takes half as long as one that rounds down.
#[inline]
fn microseconds(wall_ns: i64) -> i64 {
    match u64::try_from(wall_ns) {
        Ok(wall_ns) => (wall_ns / 1000).cast_signed(),
        Err(_) => wall_ns.div_euclid(1000),
    }
}
