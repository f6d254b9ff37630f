//! Events, and the table of their kinds.
//!
//! Each kind has a file below `kind/`, which parses its names and describes its properties
//! ([`EventProperties`]). This file lists the kinds: [`EventKind`], `PARSERS`, and for events with
//! names of their own [`NAME_FAMILIES`].

pub mod breakpoint;
mod cache;
mod counted;
mod counter;
mod cpu_time;
mod derived;
pub mod function;
mod hardware;
mod modifiers;
mod named;
mod pmu;
mod pmu_event;
mod prefix;
mod properties;
mod raw;
mod software;
mod tracepoint;

use std::io;

use anyhow::Result;

pub use counted::{COUNT_PREFIX, CountedMember};
pub use counter::Counter;
pub use cpu_time::CpuTimeEvent;
pub use derived::{DerivedColumn, DerivedEvent};
pub(crate) use modifiers::is_modifier;
pub use named::{NameFamily, NamedEvent};
pub use pmu::pmu_events;
pub use pmu_event::{PmuEvent, ReadPmu};
pub use prefix::NamePrefix;
pub use properties::{CountUnit, EventAttr, EventProperties, FoundNames, RegisterFields};
pub use tracepoint::{ReadTraceFormat, Tracepoint};

use crate::base::event::value::ValueType;
use crate::base::report::draw::OpenedEvent;
use crate::decode::format::Format;
use crate::event::sampling::Sampling;
use breakpoint::Breakpoint;
use function::{FunctionEvent, FunctionName, Functions};

/// An event that can be opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The name to show, aliases resolved: `sys:name`, `page-faults:u`, `msr/tsc/`.
    pub name: String,
    /// Kind of the event.
    pub what: EventKind,
    /// The events of its group whose counts its samples have, itself first; empty without a group.
    pub counted: Vec<CountedMember>,
}

macro_rules! event_kinds {
    ($($(#[$doc:meta])* $kind:ident($of:ty),)*) => {
        /// Kind of an event.
        #[derive(Clone, Debug, PartialEq)]
        pub enum EventKind {
            $($(#[$doc])* $kind($of),)*
        }

        impl EventKind {
            fn properties(&self) -> &dyn EventProperties {
                match self {
                    $(EventKind::$kind(of) => of,)*
                }
            }
        }

        $(impl From<$of> for EventKind {
            fn from(of: $of) -> EventKind {
                EventKind::$kind(of)
            }
        })*
    };
}

event_kinds! {
    /// A tracepoint.
    Tracepoint(Tracepoint),
    /// A call or return of a function.
    Function(FunctionEvent),
    /// A software, hardware, cache, raw or PMU event.
    Counter(Counter),
    /// A CPU time of /proc/stat.
    CpuTime(CpuTimeEvent),
    /// A hardware breakpoint.
    Breakpoint(Breakpoint),
    /// An event that a monitor emits.
    Derived(DerivedEvent),
}

impl Event {
    /// Returns an event with this name.
    pub fn new(name: impl Into<String>, what: impl Into<EventKind>) -> Event {
        Event { name: name.into(), what: what.into(), counted: Vec::new() }
    }

    /// Returns the properties that depend on its kind.
    pub fn kind(&self) -> &dyn EventProperties {
        self.what.properties()
    }

    /// Returns the layout of the fields that its samples have; None for a counter.
    pub fn format(&self) -> Option<&Format> {
        self.kind().format()
    }

    /// Returns whether it is opened for whole CPUs although only some tasks are watched.
    pub fn needs_whole_cpus(&self, sampling: &Sampling) -> bool {
        let is_hidden = self.kind().is_hidden_from_tasks() && !sampling.count;
        sampling.whole_cpus || self.kind().is_probe() || is_hidden
    }

    /// Returns whether a BPF program writes its samples, with strings in user memory. A program
    /// runs at each occurrence and for all tasks, so other ways of sampling are left to perf; so is
    /// a group, which counts the tracepoint itself.
    pub fn is_with_user_text(&self, sampling: &Sampling) -> bool {
        let format = self.kind().raw_format();
        self.is_writable_by_program(sampling)
            && format.is_some_and(|format| !format.user_text.is_empty())
    }

    /// Returns whether a BPF program could write its samples: each one, and nothing is counted.
    pub fn is_writable_by_program(&self, sampling: &Sampling) -> bool {
        let every = sampling.freq.is_none() && sampling.period.unwrap_or(1) == 1;
        let alone = sampling.group.is_none() && self.counted.is_empty();
        every && alone && sampling.fields.is_empty() && !sampling.count && !sampling.weighed
    }

    /// Returns the event as it is described in the header of a recording.
    pub fn opened(&self) -> OpenedEvent {
        let fields = self.format().into_iter().flat_map(|format| &format.fields);
        let fields = fields.filter(|field| !field.common);
        let fields = fields.map(|field| (field.name.clone(), field.field_type()));
        let counts = self.count_fields().map(|name| (name, ValueType::Uint.into()));
        OpenedEvent { name: self.name.clone(), fields: fields.chain(counts).collect() }
    }

    /// Returns the function event without its parameters; None for any other event.
    pub fn without_parameters(&self) -> Option<Event> {
        let plain = self.kind().without_parameters(&self.name)?;
        Some(Event { counted: self.counted.clone(), ..plain })
    }

    /// Returns the event restricted to user mode, under the name that says so; None for a kind
    /// without modifiers.
    pub fn in_user_mode(&self) -> Option<Event> {
        let user = self.kind().in_user_mode(&self.name)?;
        Some(Event { counted: self.counted.clone(), ..user })
    }
}

/// Readers of the machine's descriptions of events.
#[derive(Clone, Copy)]
pub struct EventFiles<'a> {
    /// Reads the format of a tracepoint.
    pub format: &'a ReadTraceFormat<'a>,
    /// Reads a file of a PMU.
    pub pmu: &'a ReadPmu<'a>,
    /// Finds functions and variables; None if they cannot be looked up.
    pub functions: Option<&'a dyn Functions>,
    /// Returns whether BPF programs can add strings in user memory to records.
    pub adds_user_text: &'a dyn Fn() -> bool,
}

impl EventFiles<'static> {
    /// A machine without tracepoints, PMUs and functions.
    pub const NONE: EventFiles<'static> = EventFiles {
        format: &|_, _| Err(io::ErrorKind::NotFound.into()),
        pmu: &|_| Err(io::ErrorKind::NotFound.into()),
        functions: None,
        adds_user_text: &|| false,
    };
}

/// Parses a name; None if it is not one of this kind.
type ParseEvent = fn(&str, &EventFiles<'_>) -> Result<Option<Event>>;

/// The parsers of all kinds, in the order in which they are asked.
const PARSERS: &[ParseEvent] = &[
    |name, files| match (FunctionName::parse(name), files.functions) {
        (Some(named), Some(functions)) => {
            let function = function::describe(&named, functions, files.pmu)?;
            Ok(Some(Event::new(named.to_string(), function)))
        }
        _ => Ok(None),
    },
    |name, files| {
        let found = breakpoint::parse(name, files.functions.map(|finder| finder as _))?;
        Ok(found.map(|found| Event::new(name, found)))
    },
    |name, files| Ok(tracepoint::parse(name, files)?.map(|found| Event::new(name, found))),
    |name, files| Ok(pmu::parse(name, files.pmu)?.map(|(name, counter)| Event::new(name, counter))),
    |name, files| parse_named(name, files.pmu),
];

/// The prefixes of names that are looked up, by kind.
pub static PREFIXES: &[&[NamePrefix]] = &[&function::PREFIXES, &[breakpoint::PREFIX]];

/// Returns the names that match a pattern; None if it is not a pattern of its kind.
type LookUp = fn(&str, &EventFiles<'_>, usize) -> Result<Option<FoundNames>>;

/// The kinds whose names are looked up, except functions ([`function::matching`]).
const LOOK_UPS: &[LookUp] = &[
    |pattern, files, most| {
        breakpoint::look_up(pattern, files.functions.map(|finder| finder as _), most)
    },
    |pattern, files, most| pmu::look_up(pattern, files.pmu, most),
];

/// Events with names of their own, in the order of `list`.
pub const NAME_FAMILIES: &[NameFamily] =
    &[software::FAMILY, hardware::FAMILY, cpu_time::FAMILY, cache::FAMILY, raw::FAMILY];

/// Returns the event that a name stands for; None if no kind has this name.
///
/// # Errors
/// An unknown modifier, or one that the event does not support; a PMU, term or alias that this
/// machine does not have; a value that is invalid or too large for its term; a function that cannot
/// be probed; or a format that cannot be read.
pub fn parse(name: &str, files: &EventFiles<'_>) -> Result<Option<Event>> {
    PARSERS.iter().find_map(|parse| parse(name, files).transpose()).transpose()
}

/// Parses `NAME[:MODIFIERS]`.
fn parse_named(text: &str, read: &ReadPmu<'_>) -> Result<Option<Event>> {
    let (name, modifiers) = text.split_once(':').unwrap_or((text, ""));
    let Some(named) = lookup(name) else { return Ok(None) };
    Ok(Some(if named.type_ == cpu_time::CPU_TIME {
        let (name, cpu_time) = CpuTimeEvent::of_named(text, &named, modifiers)?;
        Event::new(name, cpu_time)
    } else {
        let (name, counter) = Counter::of_named(text, &named, modifiers, read)?;
        Event::new(name, counter)
    }))
}

/// Looks up a name without modifiers: a name or alias of a table, a cache event such as
/// `L1-dcache-load-misses`, or `rHEX`.
pub fn lookup(name: &str) -> Option<NamedEvent> {
    NAME_FAMILIES.iter().find_map(|family| family.lookup(name))
}

/// Returns the prefix that a text begins with, and the text behind its colon.
pub fn prefix_of(text: &str) -> Option<(&'static NamePrefix, &str)> {
    PREFIXES.iter().copied().flatten().find_map(|prefix| Some((prefix, prefix.behind(text)?)))
}

/// Returns at most `most` names that match a pattern such as `mem:GLOB`; None if its kind has no
/// such names.
///
/// # Errors
/// The machine cannot list them.
pub fn look_up(pattern: &str, files: &EventFiles<'_>, most: usize) -> Result<Option<FoundNames>> {
    LOOK_UPS.iter().find_map(|look_up| look_up(pattern, files, most).transpose()).transpose()
}

/// Returns whether a name is that of an event with fields: a tracepoint (`sys:name`) or a function,
/// and not a counter with modifiers (`cycles:uH`) or a breakpoint.
pub fn has_fields(name: &str) -> bool {
    match prefix_of(name) {
        Some((prefix, _)) => prefix.has_fields,
        None => name.split_once(':').is_some_and(|(_, rest)| !rest.chars().all(is_modifier)),
    }
}

/// Returns the names of software events.
pub(crate) fn software_events() -> impl Iterator<Item = String> {
    software::FAMILY.names().map(|(name, _)| name)
}

/// Returns the names and aliases of the tables, without the cache events.
pub(crate) fn short_names() -> impl Iterator<Item = &'static str> {
    NAME_FAMILIES.iter().flat_map(NameFamily::short_names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_resolves_to_its_name() {
        let of = |name: &str| lookup(name).map(|n| (n.name, n.type_, n.config)).unwrap();
        assert_eq!(of("cpu-clock"), ("cpu-clock".into(), 1, 0));
        assert_eq!(of("faults"), ("page-faults".into(), 1, 2));
        assert_eq!(of("cs"), ("context-switches".into(), 1, 3));
        assert_eq!(of("cpu-cycles"), ("cycles".into(), 0, 0));
        assert_eq!(of("branches"), ("branch-instructions".into(), 0, 4));
        assert_eq!(of("ref-cycles"), ("ref-cycles".into(), 0, 9));
        assert_eq!(of("cgroup-switches"), ("cgroup-switches".into(), 1, 11));
        assert_eq!(of("LLC-store-misses"), ("LLC-store-misses".into(), 3, 0x10102));
        assert_eq!(of("r1a8"), ("r1a8".into(), 4, 0x1a8));
        assert_eq!(lookup("sched_switch"), None);
    }

    #[test]
    fn every_listed_name_can_be_looked_up() {
        let names: Vec<_> = NAME_FAMILIES.iter().flat_map(NameFamily::names).collect();
        assert!(names.len() > 60, "{} names", names.len());
        for (name, aliases) in names {
            assert_eq!(lookup(&name).unwrap().name, name);
            assert!(aliases.iter().all(|alias| lookup(alias).unwrap().name == name));
        }
    }

    #[test]
    fn aliases_are_resolved_in_the_shown_name() {
        let name = |text: &str| parse(text, &EventFiles::NONE).unwrap().map(|event| event.name);
        assert_eq!(name("faults:u").as_deref(), Some("page-faults:u"));
        assert_eq!(name("cs").as_deref(), Some("context-switches"));
        assert_eq!(name("sched:sched_switch"), None);
    }
}
