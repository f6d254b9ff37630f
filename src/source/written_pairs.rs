//! Pairs that programs in the kernel measure, and write as records if their delay is long
//! ([`crate::bpf::pair::long`]). A record becomes two slots: the start and the end, each with its
//! own record, as if the events had written them.

use std::sync::Arc;

use super::batch::Batch;
use super::sink::{SideBand, Sink};
use crate::base::event::slot::Slot;
use crate::bpf::pair::long::{COMMON_BYTES, LongRecord};
use crate::decode::clock::Clock;
use crate::decode::sample::Sample;
use crate::sys::bpf::OutputArray;

/// The pairs of one declaration.
pub struct WrittenPairs {
    /// The array in which the programs find the perf events to write to.
    pub array: Arc<OutputArray>,
    /// Their records.
    pub records: WrittenRecords,
}

/// The records of pairs.
pub struct WrittenRecords {
    /// The parts of a record.
    pub places: LongRecord,
    /// The sides, by the number that programs write.
    pub sides: Vec<WrittenSide>,
}

/// An event of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenSide {
    /// Its role.
    pub role: u16,
    /// The number by which handlers know the side: the address of its slots.
    pub number: u64,
    /// The number of its tracepoint (`common_type`).
    pub id: u16,
    /// The size of its record in bytes, rounded up to 8.
    pub bytes: usize,
}

/// The task and the CPU of an event, and its time in nanoseconds of the event clock.
#[derive(Clone, Copy)]
struct Moment {
    time: u64,
    pid: u32,
    tid: u32,
    cpu: u16,
}

impl WrittenRecords {
    /// Adds the two slots of a record, or reports that it cannot be decoded. Unlike other slots,
    /// both are older than the record: the end by some hundred nanoseconds, the start by the delay.
    pub(super) fn push(
        &self,
        batch: &mut Batch,
        sample: &Sample<'_>,
        clock: &Clock,
        sink: &mut dyn Sink,
    ) {
        if self.add(batch, sample.raw, sample.cpu as u16, clock).is_none() {
            sink.side(SideBand::undecodable(0.0, sample.cpu));
        }
    }

    /// Returns None, and adds nothing, if the record is too short or names no side.
    fn add(&self, batch: &mut Batch, raw: &[u8], cpu: u16, clock: &Clock) -> Option<()> {
        let at = &self.places;
        let (start, finish) = (self.side(raw, at.start_side)?, self.side(raw, at.finish_side)?);
        let moment = |time, task, cpu| {
            let task = word(raw, task)?;
            let (pid, tid) = ((task >> 32) as u32, task as u32);
            Some(Moment { time: word(raw, time)?, pid, tid, cpu })
        };
        let began = moment(at.start_time, at.start_task, word(raw, at.start)? as u16)?;
        let ended = moment(at.finish, at.finish_task, cpu)?;
        let start_raw = raw.get(at.start..at.start + start.bytes)?;
        let finish_raw = raw.get(at.finish..at.finish + finish.bytes)?;
        let comm = raw.get(at.start_comm..at.start)?;
        let both =
            [(start, start_raw, began, comm, Slot::NAMED), (finish, finish_raw, ended, &[], 1)];
        for (side, raw, of, comm, period) in both {
            let (raw, raw_size) = batch.chains().copy_with(&side.common(of.tid), raw, comm);
            let time = clock.since_start(of.time);
            let (ev, addr) = (side.role, side.number);
            let Moment { pid, tid, cpu, .. } = of;
            batch.push(Slot {
                time,
                raw,
                raw_size,
                addr,
                period,
                pid,
                tid,
                cpu,
                ev,
                ..Slot::EMPTY
            });
        }
        batch.mark_full_if_chains_low();
        Some(())
    }

    fn side(&self, raw: &[u8], at: usize) -> Option<&WrittenSide> {
        self.sides.get(usize::try_from(word(raw, at)?).ok()?)
    }
}

impl WrittenSide {
    /// Returns the common fields of a record: the type, two bytes of flags (0: a program does not
    /// see them), and the thread.
    fn common(&self, tid: u32) -> [u8; COMMON_BYTES] {
        let mut common = [0; COMMON_BYTES];
        common[..2].copy_from_slice(&self.id.to_ne_bytes());
        common[4..].copy_from_slice(&tid.to_ne_bytes());
        common
    }
}

fn word(raw: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*raw.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::report::draw::Stamp;

    /// Records of starts with 16 bytes of fields and ends with 8, and one kept value.
    fn records() -> WrittenRecords {
        let places = LongRecord {
            finish_side: 0,
            finish_task: 8,
            finish: 16,
            start_time: 32,
            start_side: 48,
            start_task: 56,
            start_comm: 64,
            start: 80,
            bytes: 104,
        };
        let side = |role, number, id, bytes| WrittenSide { role, number, id, bytes };
        WrittenRecords { places, sides: vec![side(4, 0, 300, 24), side(5, 1, 301, 13)] }
    }

    fn clock() -> Clock {
        Clock::new(Stamp { wall_ns: 0, clock_ns: 1000 }, 1000)
    }

    fn bytes(words: [u64; 13]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    const VALID: [u64; 13] =
        [1, 7 << 32 | 8, 5000, 77, 2000, 0, 0, 9 << 32 | 10, 0x6b72_6f77, 0, 3, 55, 66];

    #[test]
    fn a_record_becomes_the_start_and_the_end() {
        let mut batch = Batch::new(6);
        assert_eq!(records().add(&mut batch, &bytes(VALID), 2, &clock()), Some(()));
        let of = |slot: &Slot| (slot.ev, slot.addr, slot.time, slot.pid, slot.tid, slot.cpu);
        let slots: Vec<_> = batch.slots().iter().map(of).collect();
        assert_eq!(slots, [(4, 0, 1000.0, 9, 10, 3), (5, 1, 4000.0, 7, 8, 2)]);
        let sizes: Vec<u16> = batch.slots().iter().map(|slot| slot.raw_size).collect();
        let names = [0x6b72_6f77, 0];
        let (start, end) = ([10 << 32 | 300, 55, 66], [8 << 32 | 301, 77]);
        let written = [&start[..], &names, &end].concat();
        assert_eq!((sizes, &batch.chains().words), (vec![40, 13], &written));
        let periods: Vec<u64> = batch.slots().iter().map(|slot| slot.period).collect();
        assert_eq!(periods, [Slot::NAMED, 1], "the name of the start is behind it");
    }

    #[test]
    fn a_record_of_an_unknown_side_adds_nothing() {
        for place in [0, 6] {
            let mut words = VALID;
            words[place] = 2;
            let mut batch = Batch::new(6);
            assert_eq!(records().add(&mut batch, &bytes(words), 2, &clock()), None);
            assert!(batch.is_empty());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_add_two_slots_or_none(raw in prop::collection::vec(0_u8..4, 0..120)) {
            let mut batch = Batch::new(6);
            let added = records().add(&mut batch, &raw, 2, &clock());
            prop_assert_eq!(batch.len(), if added.is_some() { 2 } else { 0 });
        }
    }
}
