//! An open perf event of an opening.

use super::counter_reading::CounterReading;
use crate::sys::attr::PerfTarget;
use crate::sys::perf::PerfEvent;

/// An open perf event of an opening.
pub(in crate::source) struct OpenEvent {
    /// Count at the last reading.
    pub(in crate::source) counted: CounterReading,
    /// Sum of the counts of its predecessors: the event is reopened after its CPU was offline.
    pub(in crate::source) carried: CounterReading,
    pub(in crate::source) event: PerfEvent,
    /// Event ID, which identifies the event in a reading of its group.
    pub(in crate::source) id: u64,
    /// Whether it counts only while the leader of its group does.
    pub(in crate::source) in_group: bool,
    pub(in crate::source) opening: usize,
    pub(in crate::source) cpu: u32,
    pub(in crate::source) tid: i32,
}

impl OpenEvent {
    pub(in crate::source) fn new(
        event: PerfEvent,
        opening: usize,
        target: PerfTarget,
    ) -> std::io::Result<OpenEvent> {
        let (counted, carried) = (CounterReading::default(), CounterReading::default());
        let (id, cpu, tid) = (event.id()?, target.cpu as u32, target.pid);
        Ok(OpenEvent { counted, carried, event, id, in_group: false, opening, cpu, tid })
    }
}
