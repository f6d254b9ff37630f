//! Events that monitors derive from the events of a batch: made by `emit` in the handlers of a
//! source, and put into the batch in their place.
//!
//! Their records and chains are copied into memory that does not move until the next batch: an
//! event that `emit` gets may be one that an aggregate keeps.

use std::ops::Range;

use crate::base::event::slot::{BATCH, Slot};
use crate::decode::format::FieldKind;
use crate::event::kind::{DerivedEvent, Event, EventKind};
use crate::source::Batch;
use crate::stat::leaf::BorrowedEvent;

/// Maximum number of events that handlers derive from a batch.
const EVENTS_MAX: usize = 64 * BATCH;

/// Maximum size of their records in bytes, and of their chains in words.
const BYTES_MAX: usize = 16 << 20;
const WORDS_MAX: usize = 2 << 20;

/// Maximum size of one record in bytes; a slot has 16 bits for it.
const RECORD_MAX: usize = 0xfff8;

/// The events derived from a batch.
#[derive(Default)]
pub(in crate::script) struct DerivedEvents {
    layouts: Vec<DerivedLayout>,
    /// Address and length of the batch whose events are handled.
    handled: (usize, usize),
    events: Vec<NewEvent>,
    bytes: Vec<u8>,
    words: Vec<u64>,
    /// Memory of the events of this batch that were taken.
    taken: Vec<(Vec<u8>, Vec<u64>)>,
    /// Whether the last event was dropped, and thus has no columns.
    is_full: bool,
    dropped: u64,
}

/// Layout of the records of a derived event.
struct DerivedLayout {
    role: u16,
    /// The columns of a record without values: NaN, and empty texts.
    columns: Vec<u8>,
    /// Offsets of the fields that locate data in the record of the original event.
    located: Vec<usize>,
    /// Whether the record of the original event follows.
    with_record: bool,
}

/// An event whose memory may still move.
struct NewEvent {
    slot: Slot,
    /// Position in the batch of the event whose handler made it.
    at: usize,
    raw: Range<usize>,
    chain: Range<usize>,
}

impl DerivedEvents {
    /// Adds the event of a role. Returns its number for [`DerivedEvents::push`].
    pub(in crate::script) fn add(&mut self, role: usize, event: &Event, with_record: bool) -> u32 {
        let (mut columns, mut located) = (Vec::new(), Vec::new());
        if let EventKind::Derived(derived) = &event.what {
            columns.resize(DerivedEvent::columns_size(derived), 0);
        }
        for field in event.format().iter().flat_map(|format| &format.fields) {
            match field.kind {
                FieldKind::Float if field.offset + 8 <= columns.len() => {
                    columns[field.offset..field.offset + 8]
                        .copy_from_slice(&f64::NAN.to_ne_bytes());
                }
                FieldKind::DataLoc(_) if field.offset + 4 < columns.len() => {
                    let empty = 1 << 16 | (columns.len() - 1) as u32;
                    columns[field.offset..field.offset + 4].copy_from_slice(&empty.to_ne_bytes());
                }
                FieldKind::DataLoc(_) => located.push(field.offset),
                _ => {}
            }
        }
        self.layouts.push(DerivedLayout { role: role as u16, columns, located, with_record });
        self.layouts.len() as u32 - 1
    }

    /// Begins a batch of the run: frees the memory of the events before.
    pub(in crate::script) fn begin_batch(&mut self) {
        self.taken.clear();
        self.events.clear();
        self.bytes.clear();
        self.words.clear();
    }

    /// Begins to collect the events that handlers derive from this batch.
    pub(in crate::script) fn begin(&mut self, batch: &Batch) {
        self.handled = (batch.slots().as_ptr() as usize, batch.len());
    }

    /// Takes the events since the last call, each with the position in the batch of the event whose
    /// handler made it, ascending.
    pub(in crate::script) fn take(&mut self) -> Vec<(usize, Slot)> {
        let (bytes, words) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.words));
        let of = |event: NewEvent| {
            let (raw, chain) = (&bytes[event.raw], &words[event.chain]);
            let (raw_size, chain_len) = (raw.len() as u16, chain.len() as u16);
            let (raw, chain) = (raw.as_ptr(), chain.as_ptr());
            (event.at, Slot { raw, raw_size, chain, chain_len, ..event.slot })
        };
        let mut events: Vec<(usize, Slot)> = self.events.drain(..).map(of).collect();
        // Moves the vectors, not their memory.
        self.taken.push((bytes, words));
        self.handled = (0, 0);
        events.sort_by_key(|(at, _)| *at);
        events
    }

    /// Returns the number of events that were dropped because there were too many at once.
    pub(in crate::script) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Begins an event without values in its columns: a copy of `event`. `handled` is the address
    /// of the slot of the batch whose handler runs.
    pub(super) fn push(&mut self, number: u32, handled: *const Slot, event: &BorrowedEvent<'_>) {
        let BorrowedEvent { slot: event, raw, chain } = *event;
        let Some(layout) = self.layouts.get(number as usize) else { return };
        let offset = (handled as usize).wrapping_sub(self.handled.0);
        let at = offset / std::mem::size_of::<Slot>();
        let raw = if layout.with_record { raw } else { &[] };
        let size = layout.columns.len() + raw.len();
        self.is_full = at >= self.handled.1
            || self.events.len() >= EVENTS_MAX
            || self.bytes.len() + RECORD_MAX > BYTES_MAX
            || self.words.len() + chain.len() > WORDS_MAX
            || size > RECORD_MAX;
        if self.is_full {
            self.dropped += 1;
            return;
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let (start, first) = (self.bytes.len(), self.words.len());
        self.bytes.extend_from_slice(&layout.columns);
        self.bytes.extend_from_slice(raw);
        self.words.extend_from_slice(chain);
        for offset in &layout.located {
            // The low half is an offset from the start of the record.
            if let Some(word) = self.bytes.get_mut(start + offset..start + offset + 4) {
                let old = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
                let low = (old & 0xffff) + layout.columns.len() as u32;
                let new = if low > 0xffff { 0 } else { old & 0xffff_0000 | low };
                word.copy_from_slice(&new.to_ne_bytes());
            }
        }
        let (raw, chain) = (start..self.bytes.len(), first..self.words.len());
        let slot = Slot { ev: layout.role, period: event.occurrences(), ..*event };
        self.events.push(NewEvent { slot, at, raw, chain });
    }

    /// Sets the time of the event that was begun last.
    pub(super) fn set_time(&mut self, time: f64) {
        if let Some(event) = self.events.last_mut().filter(|_| !self.is_full) {
            event.slot.time = time;
        }
    }

    /// Sets a column of the event that was begun last.
    pub(super) fn set_number(&mut self, offset: u32, value: f64) {
        if self.is_full {
            return;
        }
        let Some(event) = self.events.last() else { return };
        let at = event.raw.start + offset as usize;
        if let Some(place) = self.bytes.get_mut(at..at + 8) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
    }

    /// Sets a column of the event that was begun last to a text, cut to what a record holds.
    pub(super) fn set_text(&mut self, offset: u32, text: &[u8]) {
        if self.is_full {
            return;
        }
        let Some(event) = self.events.last_mut() else { return };
        let begin = event.raw.end - event.raw.start;
        // The size of a text includes its NUL, as in records of the kernel: filters compare it.
        let Some(room) = (RECORD_MAX - begin).checked_sub(1) else { return };
        let text = &text[..text.len().min(room)];
        let at = event.raw.start + offset as usize;
        if let Some(place) = self.bytes.get_mut(at..at + 4) {
            let word = (text.len() as u32 + 1) << 16 | begin as u32;
            place.copy_from_slice(&word.to_ne_bytes());
            self.bytes.extend_from_slice(text);
            self.bytes.push(0);
            event.raw.end = self.bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::event::value::Value;
    use crate::event::kind::DerivedColumn;

    fn event() -> Event {
        let column = |name: &str, is_number| DerivedColumn { name: name.to_owned(), is_number };
        let columns = [
            column("state", false),
            column("delay", true),
            column("unset", true),
            column("empty", false),
        ];
        Event::new("x", DerivedEvent::new("x", &columns, None))
    }

    fn batch_of(times: &[f64]) -> Batch {
        let mut batch = Batch::new(1);
        times.iter().for_each(|time| assert!(batch.push(Slot { time: *time, ..Slot::EMPTY })));
        batch
    }

    #[test]
    fn an_event_has_the_columns_that_were_set() {
        let (event, batch) = (event(), batch_of(&[5.0, 6.0]));
        let mut derived = DerivedEvents::default();
        let number = derived.add(7, &event, false);
        derived.begin(&batch);
        let format = event.format().unwrap();
        let offset = |name: &str| format.field(name).unwrap().offset as u32;
        for (at, state) in [(1, &b"RQ"[..]), (0, b"S")] {
            let slot = &batch.slots()[at];
            derived.push(number, slot, &BorrowedEvent { slot, raw: &[1, 2], chain: &[9] });
            derived.set_number(offset("delay"), 1.5);
            derived.set_text(offset("state"), state);
        }
        let taken = derived.take();
        assert_eq!(taken.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1]);
        let slot = &taken[1].1;
        assert_eq!((slot.ev, slot.time, slot.chain_len), (7, 6.0, 1));
        // It was begun first.
        let raw = &derived.taken[0].0[..usize::from(slot.raw_size)];
        let values: Vec<_> = format.values(raw).collect();
        assert_eq!(values[..2], [("state", Value::Text(b"RQ")), ("delay", Value::Float(1.5))]);
        assert!(matches!(values[2], ("unset", Value::Float(none)) if none.is_nan()));
        assert_eq!(values[3], ("empty", Value::Text(b"")));
    }

    #[test]
    fn events_beyond_the_limit_are_counted() {
        let (event, batch) = (event(), batch_of(&[5.0]));
        let mut derived = DerivedEvents::default();
        let number = derived.add(0, &event, false);
        derived.begin(&batch);
        for _ in 0..EVENTS_MAX + 3 {
            let slot = &batch.slots()[0];
            derived.push(number, slot, &BorrowedEvent { slot, raw: &[], chain: &[] });
            derived.set_text(u32::MAX, b"ignored");
        }
        assert_eq!((derived.take().len(), derived.dropped()), (EVENTS_MAX, 3));
        // An event outside of a batch has no place.
        let slot = &batch.slots()[0];
        derived.push(number, std::ptr::null(), &BorrowedEvent { slot, raw: &[], chain: &[] });
        assert_eq!(derived.dropped(), 4);
    }
}
