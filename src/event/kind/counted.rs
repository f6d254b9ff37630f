//! Events that are counted in the group of a sampled event, whose samples have their counts:
//! `{LEADER,MEMBER,…}:S`.

use std::rc::Rc;

use super::Event;
use crate::event::filter::Filter;

/// Prefix of the fields of a recording that have the counts: `_counts.page-faults`.
pub const COUNT_PREFIX: &str = "_counts.";

/// An event that is counted in the group of a sampled one.
#[derive(Clone, Debug, PartialEq)]
pub struct CountedMember {
    /// The event.
    pub event: Rc<Event>,
    /// The filter in the kernel's language; None counts every event.
    pub filter: Option<Filter>,
    /// The further names that scripts may use: as typed, and `alias=`.
    pub names: Vec<String>,
}

impl Event {
    /// Returns the event as the leader of a group. `names` are the further names of its own count.
    pub fn leading(&self, names: Vec<String>, members: Vec<CountedMember>) -> Event {
        let own = CountedMember { event: Rc::new(self.clone()), filter: None, names };
        Event { counted: [vec![own], members].concat(), ..self.clone() }
    }

    /// Returns the events that are counted beside it.
    pub fn members(&self) -> &[CountedMember] {
        self.counted.get(1..).unwrap_or_default()
    }

    /// Returns the names of the fields that have its group's counts, its own first.
    pub fn count_fields(&self) -> impl Iterator<Item = String> {
        let names = self.counted.iter().map(|one| one.event.name.as_str());
        names.enumerate().map(|(at, name)| match name.contains([' ', '\t', '"']) {
            // A name ends at a blank in a recording.
            true => format!("{COUNT_PREFIX}{at}"),
            false => format!("{COUNT_PREFIX}{name}"),
        })
    }
}
