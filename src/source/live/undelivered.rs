//! Compares the events that the kernel counted with the records that arrived or are known to be
//! lost.
//!
//! An event that writes a sample each time has as many samples as its count, minus those that the
//! kernel dropped for lack of space (`PERF_FORMAT_LOST`). If the kernel counts an event and then
//! omits its record, nothing else shows it. (6.18 omits about one in a hundred wakeups by
//! interrupts, and on some machines everything that happens while a CPU is idle.) Clocks and
//! counters, events with a period, and tracepoints that count nanoseconds are not compared. The
//! kernel applies a filter before it counts an event, so filters do not affect the comparison.
//!
//! While events are on, the count may be ahead of the ring by the records that are being written,
//! at most one in each of a CPU's contexts.

use std::time::Duration;

use super::Live;
use crate::source::open::opened::OpenedSource;
use crate::source::ring::cpu_ring::CpuRing;
use crate::source::ring::decoder::SAMPLE;
use crate::source::ring::delivery::IN_FLIGHT;
use crate::source::ring::openings::Openings;

/// Maximum number of waits for the last records of the rings, each of one millisecond.
const WAITS: u32 = 20;

impl Live {
    /// Compares counts and records, of one CPU in turn or of `all`. Reading an enabled count costs
    /// about 10 us for each event of the CPU.
    pub fn look_for_undelivered(&mut self, all: bool) {
        let rings = self.opened.rings.len().max(1);
        let turn = self.next_compared % rings;
        self.next_compared = turn + 1;
        let indexes = if all { 0..self.opened.rings.len() } else { turn..turn + 1 };
        let mut waits = 0;
        for index in indexes {
            self.compare(index, &mut waits);
        }
    }

    /// Returns how many events so far were counted but left no record.
    pub fn undelivered(&self) -> u64 {
        let missing: u64 = self.opened.rings.iter().map(|ring| ring.delivery.missing).sum();
        missing + self.opened.programs.counts().failed + self.opened.links.failed()
    }

    /// Returns how many samples so far are known to have the time, the stack and the registers that
    /// an event of another program requested.
    pub fn prepared_elsewhere(&self) -> u64 {
        self.prepared_elsewhere
    }

    /// Returns how many strings of system calls BPF programs could not read so far.
    pub fn unread_texts(&self) -> u64 {
        self.opened.programs.counts().faults
    }

    /// Returns whether records of tasks that are not watched are dropped: with `-p` or a COMMAND.
    pub fn filters_by_task(&self) -> bool {
        self.request.tasks.is_some()
    }

    /// Returns the CPUs that omit a large part of their events, more than a healthy kernel does.
    pub fn undelivering(&self) -> Vec<u32> {
        let rings = self.opened.rings.iter().filter(|ring| ring.delivery.is_conspicuous());
        rings.map(|ring| ring.cpu).collect()
    }

    fn compare(&mut self, index: usize, waits: &mut u32) {
        let Some(counted) = self.opened.counted(index) else { return };
        let OpenedSource { rings, ids, decoders, .. } = &mut self.opened;
        let openings = Openings { ids, decoders, own_pid: self.own_pid };
        let Some(ring) = rings.get_mut(index) else { return };
        if self.is_disabled {
            // A task may have been interrupted while writing.
            while ring.waiting(openings) + ring.delivery.taken < counted + ring.delivery.of_closed
                && *waits < WAITS
            {
                std::thread::sleep(Duration::from_millis(1));
                *waits += 1;
            }
        }
        let waiting = ring.waiting(openings);
        ring.delivery.look(counted, waiting, if self.is_disabled { 0 } else { IN_FLIGHT });
    }
}

impl OpenedSource {
    /// Returns what the open events of a ring counted and did not lose; None if the kernel does not
    /// count losses (before 6.0).
    fn counted(&self, index: usize) -> Option<u64> {
        let cpu = self.rings.get(index)?.cpu;
        let here = self.events.iter().filter(|open| open.cpu == cpu);
        let compared = here.filter(|open| {
            self.decoders.get(open.opening).is_some_and(|decoder| decoder.samples_each)
        });
        compared.map(|open| open.event.delivered()).sum()
    }
}

impl CpuRing {
    /// Returns the number of unread samples in the ring, of events that are compared.
    fn waiting(&self, openings: Openings<'_>) -> u64 {
        let (mut at, head, mut waiting) = (self.at, self.ring.head(), 0);
        while let Ok(Some(piece)) = self.ring.piece(at, head) {
            at += piece.len() as u64;
            if piece.kind() == SAMPLE {
                let of_sample = openings.of_sample(|at| piece.u64_at(at));
                waiting += u64::from(of_sample.is_some_and(|(decoder, _)| decoder.samples_each));
            }
        }
        waiting
    }
}
