//! Counts events by perf events without records, independently of the programs that count them by
//! key, so that both can be compared.

use std::io;

use crate::source::open::attr::{self, Common};
use crate::source::open::kernel_filter::kernel_text;
use crate::source::request::{Opening, SourceRequest};
use crate::sys::attr::{EVERY_TASK, PerfTarget};
use crate::sys::perf::PerfEvent;

/// Most perf events: each holds a file, and an interrupt of its CPU reads it.
const EVENTS_MAX: usize = 512;

/// Perf events that count, one for each event and CPU.
pub struct PerfCounters {
    events: Vec<PerfEvent>,
}

impl PerfCounters {
    /// Counts the events of openings that pass their filters on their CPUs, without those of
    /// perilune that programs leave out. Returns None if that takes too many perf events.
    ///
    /// # Errors
    /// The kernel refuses an event or its filter.
    pub fn start(
        openings: &[Opening],
        source: &SourceRequest,
    ) -> anyhow::Result<Option<PerfCounters>> {
        let cpus = |opening: &Opening| opening.cpus_of(&source.cpus).count();
        let count = openings.iter().map(cpus).sum();
        if count > EVENTS_MAX {
            return Ok(None);
        }
        let mut events = Vec::with_capacity(count);
        let common = Common { watermark: 1, inherit: false };
        for opening in openings {
            let (event, mut sampling) = (&opening.event, opening.sampling.clone());
            sampling.count = true;
            let attr = attr::of_event(event.kind(), &sampling, common)?;
            let own = source.omitted_tids(event, &sampling);
            let text = kernel_text(opening.filter.as_ref(), own, event.is_interrupt());
            for cpu in opening.cpus_of(&source.cpus) {
                let target = PerfTarget { pid: EVERY_TASK, cpu: cpu as i32 };
                let opened = PerfEvent::open(&attr, target, &event.name)?.event;
                text.as_ref().map_or(Ok(()), |text| opened.set_filter(text))?;
                events.push(opened);
            }
        }
        events.iter().try_for_each(PerfEvent::enable)?;
        Ok(Some(PerfCounters { events }))
    }

    /// Returns the number of perf events.
    pub fn count(&self) -> usize {
        self.events.len()
    }

    /// Returns the number of events so far. Events are counted meanwhile.
    ///
    /// # Errors
    /// The kernel refuses to return a count.
    pub fn read(&self) -> io::Result<u64> {
        self.events.iter().map(|event| Ok(event.read_counts()?.value)).sum()
    }

    /// Returns the events, to be closed: each of a tracepoint takes tens of milliseconds.
    pub fn into_events(self) -> Vec<PerfEvent> {
        self.events
    }
}
