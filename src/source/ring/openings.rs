//! The openings of a run, by the IDs in the records of their events.

use std::ops::RangeInclusive;

use super::chains::Chained;
use super::decoder::{Decoder, SAMPLE};
use super::ids::Ids;
use crate::decode::sample::{RecordLayout, Sample};
use crate::sys::ring::Piece;
use perf_event_open_sys::bindings as abi;

/// Offset of the identifier in a sample.
const IDENTIFIER: usize = 8;

/// Offset of the event's own ID in samples whose identifier may be that of another event, see
/// `open/own_id.rs`. In front of it are the identifier, IP, TID, TIME, ADDR, two further words, and
/// the event's count.
pub(in crate::source) const OWN_ID: usize = 8 + 8 * 8;

/// The openings of a run.
#[derive(Clone, Copy)]
pub(in crate::source) struct Openings<'a> {
    pub(in crate::source) ids: &'a Ids,
    pub(in crate::source) decoders: &'a [Decoder],
    /// This process.
    pub(in crate::source) own_pid: u32,
}

impl<'a> Openings<'a> {
    /// Returns the decoder of an event.
    #[inline(always)]
    pub(in crate::source) fn of_id(&self, id: u64) -> Option<&'a Decoder> {
        self.decoders.get(self.ids.get(id)? as usize)
    }

    /// Returns the only decoder of the run, if its samples lack IDs (`SampleParts::id`).
    #[inline(always)]
    pub(in crate::source) fn without_id(&self) -> Option<&'a Decoder> {
        match self.decoders {
            [only] if !only.has_id => Some(only),
            _ => None,
        }
    }

    /// Returns the decoder of a sample, and the ID of its event, or 0 if samples lack IDs; None if
    /// that is not an event of the run, or `word`, which returns the word at an offset, finds none.
    pub(in crate::source) fn of_sample(
        &self,
        word: impl Fn(usize) -> Option<u64>,
    ) -> Option<(&'a Decoder, u64)> {
        if let Some(decoder) = self.without_id() {
            return Some((decoder, 0));
        }
        let id = word(IDENTIFIER)?;
        match self.of_id(id).filter(|decoder| !decoder.has_own_id) {
            Some(decoder) => Some((decoder, id)),
            None => word(OWN_ID).and_then(|id| Some((self.of_own_id(id)?, id))),
        }
    }

    /// Returns the decoder of an event whose samples have its own ID.
    pub(in crate::source) fn of_own_id(&self, id: u64) -> Option<&'a Decoder> {
        self.of_id(id).filter(|decoder| decoder.has_own_id)
    }

    /// Returns whether a sample of a decoder with `has_own_id` shows, by its identifier, its time
    /// or its chain, that an event of another program requested its data. A time that is not
    /// `possible` becomes the earliest one, from `from` on, at which a role takes samples.
    pub(in crate::source) fn correct_foreign(
        &self,
        decoder: &Decoder,
        sample: &mut Sample<'_>,
        possible: RangeInclusive<u64>,
        from: u64,
    ) -> bool {
        let is_possible = possible.contains(&sample.time);
        if !is_possible {
            sample.time = decoder.earliest_time(from);
        }
        let is_of_another = |chained: Chained| chained.is_of_another(sample.callchain);
        !is_possible
            || self.of_id(sample.id).is_none()
            || decoder.chained.is_some_and(is_of_another)
    }

    /// Returns the time of the event clock, in nanoseconds, at which the next record of a ring was
    /// written; None if it is unknown, or may be of another clock and is earlier than `last`, the
    /// time of the record before. `side` is the layout of the dummy.
    #[inline(never)]
    pub(in crate::source) fn time_of(
        &self,
        piece: &Piece<'_>,
        last: u64,
        side: &RecordLayout,
    ) -> Option<u64> {
        let word = |at| piece.u64_at(at);
        if piece.kind() == SAMPLE {
            let (decoder, _) = self.of_sample(word)?;
            return word(decoder.time_at?).filter(|time| !decoder.has_own_id || *time >= last);
        }
        let layout = self.layout_of(piece).unwrap_or(side);
        word(layout.trailer_time_offset(piece.kind(), piece.len(), word)?)
    }

    /// Returns the layout of the event that wrote a record other than a sample; None if that is the
    /// dummy. Only records of losses and of throttling are of other events.
    #[inline(never)]
    pub(in crate::source) fn layout_of(&self, piece: &Piece<'_>) -> Option<&'a RecordLayout> {
        // The ID is the first field of the record of a loss; in the others it follows the time.
        let id_at = match piece.kind() {
            abi::PERF_RECORD_LOST => 8,
            abi::PERF_RECORD_THROTTLE | abi::PERF_RECORD_UNTHROTTLE => 16,
            _ => return None,
        };
        self.of_id(piece.u64_at(id_at)?).map(|decoder| &decoder.layout)
    }
}
