//! The events of a run, and what is looked up once for each of them.

use super::annotation::EventNumbers;
use super::ftrace::FtraceMessage;
use super::intern::{Interned, Kind};
use crate::base::report::draw::OpenedEvent;

/// One event of the run.
pub(super) struct TracedRole {
    pub(super) name: String,
    fields: Vec<String>,
    pub(super) ftrace: Option<FtraceMessage>,
    /// The packet sequence of its samples.
    pub(super) sequence: u64,
    pub(super) stacks: Interned,
    pub(super) is_first: bool,
    /// Sum of the periods, per CPU.
    pub(super) counted: Vec<u64>,
    numbers: RoleNumbers,
}

/// The numbers of interned names of a role.
#[derive(Default)]
pub(super) struct RoleNumbers {
    /// The generation of the numbers; None before the first event.
    generation: Option<u64>,
    pub(super) event: EventNumbers,
    /// By field.
    pub(super) fields: Vec<u64>,
}

impl TracedRole {
    /// Returns the role of an event whose samples are in a packet sequence of this number.
    pub(super) fn new(event: &OpenedEvent, sequence: u64) -> TracedRole {
        TracedRole {
            name: event.name.clone(),
            fields: event.fields.iter().map(|(name, _)| name.clone()).collect(),
            ftrace: FtraceMessage::of(event),
            sequence,
            stacks: Interned::default(),
            is_first: true,
            counted: Vec::new(),
            numbers: RoleNumbers::default(),
        }
    }

    /// Returns the numbers of its names, which are interned again if they were forgotten.
    #[inline]
    pub(super) fn numbers(&mut self, strings: &mut Interned) -> &RoleNumbers {
        if self.numbers.generation != Some(strings.generation) {
            self.intern(strings);
        }
        &self.numbers
    }

    #[cold]
    fn intern(&mut self, strings: &mut Interned) {
        let mut number = |name: &String| strings.text(Kind::AnnotationName, name.as_bytes());
        self.numbers.fields = self.fields.iter().map(&mut number).collect();
        self.numbers.event = EventNumbers::of(strings, self.name.as_bytes());
        self.numbers.generation = Some(strings.generation);
    }
}
