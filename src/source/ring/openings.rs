//! The openings of a run, by the IDs in the records of their events.

use super::decoder::Decoder;
use super::ids::Ids;
use crate::decode::sample::identifier;

/// Offset of the identifier in a sample.
const IDENTIFIER: usize = 8;

/// Offset of the event's own ID in a sample whose identifier may be that of another event, see
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

/// The event of a sample.
#[derive(Clone, Copy)]
pub(in crate::source) struct Origin<'a> {
    pub(in crate::source) decoder: &'a Decoder,
    /// The event's ID.
    pub(in crate::source) id: u64,
    /// Whether the identifier in the sample is that of an event outside of the run: so is its time.
    pub(in crate::source) is_foreign: bool,
}

impl<'a> Openings<'a> {
    /// Returns the decoder of an event.
    #[inline(always)]
    pub(in crate::source) fn of_id(&self, id: u64) -> Option<&'a Decoder> {
        self.decoders.get(self.ids.get(id)? as usize)
    }

    /// Returns the event of a sample; None if it is not one of the run, or `word`, which returns
    /// the word at an offset, finds none.
    pub(in crate::source) fn origin(
        &self,
        word: impl Fn(usize) -> Option<u64>,
    ) -> Option<Origin<'a>> {
        let id = word(IDENTIFIER)?;
        let named = self.of_id(id);
        if let Some(decoder) = named.filter(|decoder| !decoder.has_own_id) {
            return Some(Origin { decoder, id, is_foreign: false });
        }
        let id = word(OWN_ID)?;
        let decoder = self.of_id(id).filter(|decoder| decoder.has_own_id)?;
        Some(Origin { decoder, id, is_foreign: named.is_none() })
    }

    /// Returns the decoder of a sample that does not wrap; None if its identifier is not that of an
    /// event of the run.
    #[inline(always)]
    pub(in crate::source) fn of_whole(&self, record: &[u8]) -> Option<&'a Decoder> {
        let decoder = self.of_id(identifier(record)?)?;
        if decoder.has_own_id { self.of_own_id(record) } else { Some(decoder) }
    }

    #[inline(never)]
    fn of_own_id(&self, record: &[u8]) -> Option<&'a Decoder> {
        let own = record.get(OWN_ID..)?.first_chunk()?;
        self.of_id(u64::from_ne_bytes(*own)).filter(|decoder| decoder.has_own_id)
    }
}
