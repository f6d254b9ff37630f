//! How an event is sampled: the options of a script or selector besides the event itself.

use std::fmt;
use std::rc::Rc;

use anyhow::{Result, bail};

use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::event::exclude::Exclude;
use crate::event::sample_field::SampleFields;

/// The sampling options of one evsel. Roles with different options are opened separately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// Count only: no samples, read at each interval.
    pub count: bool,
    /// Samples per second.
    pub freq: Option<u64>,
    /// Events per sample.
    pub period: Option<u64>,
    /// Record the call chain.
    pub stack: Option<StackSampling>,
    /// Open it on these CPUs only.
    pub cpus: Option<Vec<u32>>,
    /// Modes in which it does not count.
    pub exclude: Exclude,
    /// Track the memory mappings of processes, so that addresses can be resolved to functions
    /// without call chains, too.
    pub functions: bool,
    /// Open it for whole CPUs even if only some tasks are watched; a field
    /// ([`crate::event::plan::EventRole::task`]) determines which records are theirs.
    pub whole_cpus: bool,
    /// Deliver its records from all tasks and CPUs, perilune's own included, even if only some
    /// tasks or CPUs are watched: memory, for example, may be freed by any task.
    pub all_tasks: bool,
    /// Omit the records of this process unless `--self` is given, because the script does not
    /// relate them to other records. Without this option, its scheduler events are processed but
    /// not printed.
    pub hide_self: bool,
    /// The group that it is opened in.
    pub group: Option<EventGroup>,
    /// The control group whose tasks it counts, as typed.
    pub cgroup: Option<Rc<str>>,
    /// Keep it on its hardware counter, if it needs one.
    pub pinned: bool,
    /// Write the event's count in each sample, so that one event in N can be sampled and weighed.
    pub weighed: bool,
    /// Fields of the sample that a script reads and few events have.
    pub extra: SampleFields,
    /// Further `perf_event_attr` fields, by their kernel names.
    pub fields: Vec<(String, u64)>,
}

/// A group of events, which count at the same times.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventGroup {
    /// Name that the script gives, or the text `{…}` in a selector.
    pub name: Rc<str>,
    /// Whether it is a group in braces: its first event leads, and it may be sampled. A dummy event
    /// leads the others, which are counted.
    pub is_in_braces: bool,
    /// Whether its events are opened without it if the kernel refuses it.
    pub is_weak: bool,
}

impl EventGroup {
    /// Returns the group with this text, braces included.
    pub fn in_braces(text: &str, is_weak: bool) -> EventGroup {
        EventGroup { name: text.into(), is_in_braces: true, is_weak }
    }

    /// Returns the group of a script with this name.
    pub fn named(name: &str) -> EventGroup {
        EventGroup { name: name.into(), is_in_braces: false, is_weak: false }
    }
}

/// How a call chain is recorded, and which of its frames are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackSampling {
    /// How the user frames are found; the kernel always finds its own frames.
    pub walk: CallGraph,
    /// Which frames are wanted.
    pub part: ChainPart,
    /// Maximum number of frames; None is the unwinder's own limit.
    pub depth: Option<u16>,
}

/// How the callers of a user function are found: the argument of `--call-graph`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallGraph {
    /// `fp`: the kernel follows the frame pointers. Cheapest; misses callers without a frame
    /// pointer.
    #[default]
    FramePointers,
    /// `dwarf[,SIZE]`: the kernel copies the registers and SIZE bytes of the stack, which are then
    /// unwound with the unwind tables of the program and its libraries.
    Dwarf {
        /// Size of the stack copy: a multiple of 8, at most [`CallGraph::MOST_BYTES`].
        bytes: u16,
    },
    /// `lbr`: the hardware's record of the calls that have not returned yet.
    Branches,
}

/// Frames of a chain that are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChainPart {
    /// All frames.
    #[default]
    Both,
    /// `--user-callchain`: user frames.
    User,
    /// `--kernel-callchain`: kernel frames.
    Kernel,
}

/// A requested sampling rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingRate {
    /// Samples per second.
    Frequency(u64),
    /// Events per sample; for a clock, nanoseconds per sample.
    Period(u64),
}

impl StackSampling {
    /// Returns whether kernel frames are wanted.
    pub fn kernel(&self) -> bool {
        self.part != ChainPart::User
    }

    /// Returns whether user frames are wanted.
    pub fn user(&self) -> bool {
        self.part != ChainPart::Kernel
    }
}

impl CallGraph {
    /// The methods of `--call-graph`; the first one is the default.
    pub const METHODS: [&str; 3] = ["fp", "dwarf", "lbr"];

    /// Default size of the stack copy in a sample: 8 KiB hold the callers of most programs.
    pub const BYTES: u16 = 8192;

    /// Maximum size of the stack copy: `sample_stack_user` is a multiple of 8 below 64 KiB
    /// (kernel/events/core.c).
    pub const MOST_BYTES: u16 = 65528;

    /// Parses the argument of `--call-graph=`.
    ///
    /// # Errors
    /// An unknown method, a size with `fp` or `lbr`, or a size that is not a positive multiple of 8
    /// of at most [`CallGraph::MOST_BYTES`].
    pub fn parse(text: &str) -> Result<CallGraph> {
        let (method, size) = match text.split_once(',') {
            Some((method, size)) => (method.trim(), Some(size.trim())),
            None => (text.trim(), None),
        };
        match (method, size) {
            ("fp", None) => Ok(CallGraph::FramePointers),
            ("lbr", None) => Ok(CallGraph::Branches),
            ("dwarf", None) => Ok(CallGraph::Dwarf { bytes: CallGraph::BYTES }),
            ("dwarf", Some(size)) => match size.parse::<u16>() {
                Ok(bytes) if bytes > 0 && bytes % 8 == 0 => Ok(CallGraph::Dwarf { bytes }),
                _ => bail!(
                    "invalid stack size `{size}`: expected bytes, a multiple of 8 and at most {}, \
                     such as dwarf,16384",
                    CallGraph::MOST_BYTES
                ),
            },
            ("fp" | "lbr", Some(size)) => {
                bail!("{method} takes no size; omit `,{size}`, or use dwarf,{size}")
            }
            _ => {
                let hint = did_you_mean(&nearest(method, CallGraph::METHODS.into_iter()));
                bail!("`{method}` is not one of {}{hint}", CallGraph::METHODS.join(", "))
            }
        }
    }
}

impl fmt::Display for CallGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallGraph::FramePointers => f.write_str("fp"),
            CallGraph::Dwarf { bytes } => write!(f, "dwarf,{bytes}"),
            CallGraph::Branches => f.write_str("lbr"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_graph_method_is_parsed_and_printed() {
        for (text, walk) in [
            ("fp", CallGraph::FramePointers),
            ("lbr", CallGraph::Branches),
            ("dwarf", CallGraph::Dwarf { bytes: 8192 }),
            ("dwarf,16384", CallGraph::Dwarf { bytes: 16384 }),
            ("dwarf, 65528", CallGraph::Dwarf { bytes: CallGraph::MOST_BYTES }),
        ] {
            assert_eq!(CallGraph::parse(text).unwrap(), walk, "{text}");
            assert_eq!(CallGraph::parse(&walk.to_string()).unwrap(), walk);
        }
    }

    #[test]
    fn an_invalid_stack_size_is_refused_with_the_valid_range() {
        for size in ["0", "12", "65536", "65529", "-8", "8k", ""] {
            let why = CallGraph::parse(&format!("dwarf,{size}")).unwrap_err().to_string();
            assert!(
                why.ends_with("a multiple of 8 and at most 65528, such as dwarf,16384"),
                "{why}"
            );
        }
        let why = |text| CallGraph::parse(text).unwrap_err().to_string();
        assert_eq!(why("fp,64"), "fp takes no size; omit `,64`, or use dwarf,64");
        assert_eq!(why("dwarv"), "`dwarv` is not one of fp, dwarf, lbr; did you mean 'dwarf'?");
    }
}
