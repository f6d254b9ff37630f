//! How an event is sampled: what a script or a selector asks for beside the event itself.

use std::fmt;
use std::rc::Rc;

use anyhow::{Result, bail};

use crate::base::cpulist;
use crate::base::nearest::{did_you_mean, nearest};
use crate::event::plan::Sampled;

/// The wishes of one evsel. Two roles that differ in any of them are opened separately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// Count only: no samples, read at each interval.
    pub count: bool,
    /// Samples a second.
    pub freq: Option<u64>,
    /// Events per sample.
    pub period: Option<u64>,
    /// Take the call chain.
    pub stack: Option<Stack>,
    /// Only on these CPUs.
    pub cpus: Option<Vec<u32>>,
    /// Do not count in user mode, kernel mode, the host, a guest, the idle task.
    pub exclude: Exclude,
    /// Follow what processes map, so that the functions of its addresses can be named without call chains, too.
    pub functions: bool,
    /// Open it for whole CPUs even where tasks are watched: which of its records are theirs, a field says
    /// ([`crate::event::plan::Role::task`]).
    pub whole_cpus: bool,
    /// All its records are wanted where tasks or some CPUs are watched, whosever they are and wherever they come from, our own among
    /// them: what is freed may be freed by anybody.
    pub everyone: bool,
    /// Leave out the records of this very process, unless `--self` asks for them: nobody relates
    /// them to others. Without it, those of the scheduler are handled, and not printed.
    pub hide_self: bool,
    /// The group that it is counted in: those of a name count at the same times.
    pub group: Option<Rc<str>>,
    /// The control group whose tasks it counts, as the user typed it.
    pub cgroup: Option<Rc<str>>,
    /// Further `perf_event_attr` fields by their kernel names.
    pub fields: Vec<(String, u64)>,
}

/// How a call chain is taken, and what of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// How the user's part is found; the kernel always finds its own.
    pub walk: Walk,
    /// Which frames are wanted.
    pub part: Part,
    /// Frames at most; None is the limit of whoever walks.
    pub depth: Option<u16>,
}

/// How the callers of a user function are found: what `--call-graph` takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Walk {
    /// `fp`: the kernel follows the frame pointers. Cheapest, and blind to callers that keep none.
    #[default]
    FramePointers,
    /// `dwarf[,SIZE]`: the kernel copies registers and so many bytes of the stack, which the unwind tables of the program
    /// and its libraries then make sense of.
    Dwarf {
        /// A multiple of 8, at most [`Walk::MOST_BYTES`].
        bytes: u16,
    },
    /// `lbr`: the hardware's record of the calls that have not returned yet.
    Branches,
}

/// Frames of a chain that are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All.
    #[default]
    Both,
    /// `--user-callchain`: user space's.
    User,
    /// `--kernel-callchain`: the kernel's.
    Kernel,
}

/// Modes in which an event does not count: `attr.exclude_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exclude {
    /// `exclude_user`.
    pub user: bool,
    /// `exclude_kernel`.
    pub kernel: bool,
    /// `exclude_host`.
    pub host: bool,
    /// `exclude_guest`.
    pub guest: bool,
    /// `exclude_idle`, of the kernel's clocks: a hardware counter of cycles stops by itself in idle CPUs, and some
    /// machines refuse the bit.
    pub idle: bool,
}

impl Sampled for Sampling {
    fn is_counted(&self) -> bool {
        self.count
    }
}

impl Sampling {
    /// The CPUs as the `cpus=` attribute writes them, for a message.
    pub fn cpus_text(&self) -> Option<String> {
        self.cpus.as_deref().map(cpulist::format)
    }
}

impl Stack {
    /// Whether the kernel's frames are wanted.
    pub fn kernel(&self) -> bool {
        self.part != Part::User
    }

    /// Whether user space's frames are wanted.
    pub fn user(&self) -> bool {
        self.part != Part::Kernel
    }
}

impl Walk {
    /// The words of `--call-graph`, the first the one that it means without a word.
    pub const WORDS: [&str; 3] = ["fp", "dwarf", "lbr"];

    /// Bytes of stack that a sample carries when nobody says how many: 8 KiB hold the callers of most programs.
    pub const BYTES: u16 = 8192;

    /// The most that the kernel takes: `sample_stack_user` is a multiple of 8 below 64 KiB (kernel/events/core.c).
    pub const MOST_BYTES: u16 = 65528;

    /// What was typed behind `--call-graph=`.
    pub fn parse(text: &str) -> Result<Walk> {
        let (word, size) = match text.split_once(',') {
            Some((word, size)) => (word.trim(), Some(size.trim())),
            None => (text.trim(), None),
        };
        match (word, size) {
            ("fp", None) => Ok(Walk::FramePointers),
            ("lbr", None) => Ok(Walk::Branches),
            ("dwarf", None) => Ok(Walk::Dwarf { bytes: Walk::BYTES }),
            ("dwarf", Some(size)) => match size.parse::<u16>() {
                Ok(bytes) if bytes > 0 && bytes % 8 == 0 => Ok(Walk::Dwarf { bytes }),
                _ => bail!(
                    "`{size}` is no size of a stack's copy; a multiple of 8, at most {}: dwarf,16384",
                    Walk::MOST_BYTES
                ),
            },
            ("fp" | "lbr", Some(size)) => {
                bail!("{word} takes no size; leave `,{size}` away, or take dwarf,{size}")
            }
            _ => {
                let hint = did_you_mean(&nearest(word, Walk::WORDS.into_iter()));
                bail!("`{word}` is none of {}{hint}", Walk::WORDS.join(", "))
            }
        }
    }
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Walk::FramePointers => f.write_str("fp"),
            Walk::Dwarf { bytes } => write!(f, "dwarf,{bytes}"),
            Walk::Branches => f.write_str("lbr"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_to_walk_is_parsed_and_printed() {
        for (text, walk) in [
            ("fp", Walk::FramePointers),
            ("lbr", Walk::Branches),
            ("dwarf", Walk::Dwarf { bytes: 8192 }),
            ("dwarf,16384", Walk::Dwarf { bytes: 16384 }),
            ("dwarf, 65528", Walk::Dwarf { bytes: Walk::MOST_BYTES }),
        ] {
            assert_eq!(Walk::parse(text).unwrap(), walk, "{text}");
            assert_eq!(Walk::parse(&walk.to_string()).unwrap(), walk);
        }
    }

    #[test]
    fn a_size_that_the_kernel_would_refuse_is_refused_with_the_reason() {
        for size in ["0", "12", "65536", "65529", "-8", "8k", ""] {
            let why = Walk::parse(&format!("dwarf,{size}")).unwrap_err().to_string();
            assert!(why.ends_with("a multiple of 8, at most 65528: dwarf,16384"), "{why}");
        }
        let why = |text| Walk::parse(text).unwrap_err().to_string();
        assert_eq!(why("fp,64"), "fp takes no size; leave `,64` away, or take dwarf,64");
        assert_eq!(why("dwarv"), "`dwarv` is none of fp, dwarf, lbr; did you mean 'dwarf'?");
    }
}
