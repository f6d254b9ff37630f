//! A perf event that an opening has opened on one CPU or task, and its place in a group.

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
    /// Its place in its group.
    pub(in crate::source) place: GroupPlace,
    /// The events that are counted beside it, for its samples.
    pub(in crate::source) members: Vec<PerfEvent>,
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
        let (place, members) = (GroupPlace::Alone, Vec::new());
        Ok(OpenEvent { counted, carried, event, id, place, members, opening, cpu, tid })
    }
}

/// How an event belongs to a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::source) enum GroupPlace {
    /// To none that the run keeps.
    #[default]
    Alone,
    /// It leads its group, and is enabled like an event without a group.
    Leader,
    /// It counts only while the leader of its group does.
    Member,
}
