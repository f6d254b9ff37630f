//! An event to print whose fields have fixed places in its record. An output can store the records
//! of many events, and then read one field of all of them at a time.

/// One event to print, borrowed from its record.
pub struct EventRecord<'a> {
    /// Time of the event, in nanoseconds since the Unix epoch.
    pub wall_ns: i64,
    /// The same on the clock of the events' timestamps.
    pub clock_ns: u64,
    /// The task's name, NUL-padded; `<...>` when unknown.
    pub comm: [u8; 16],
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// CPU of the record.
    pub cpu: u32,
    /// Index of the event in the run. Two records with the same index have the same fields.
    pub role: usize,
    /// Places of its own fields, in format order; each record of the event has all of them.
    pub fields: &'a [FixedField],
    /// The start of the record, up to the end of the last of these fields.
    pub bytes: &'a [u8],
}

/// Place of a field in each record of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedField {
    /// Offset in the record in bytes.
    pub offset: usize,
    /// Size in bytes; of an integer 1, 2, 4 or 8.
    pub size: usize,
    /// How it is encoded.
    pub encoding: FixedEncoding,
}

/// Encoding of a field with a fixed place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixedEncoding {
    /// A signed integer in native byte order.
    Signed,
    /// An unsigned integer or a pointer in native byte order.
    Unsigned,
    /// Text up to its NUL; all of it if there is none.
    Text,
}

impl FixedField {
    /// Returns the offset behind the field.
    pub fn end(&self) -> usize {
        self.offset.saturating_add(self.size)
    }
}
