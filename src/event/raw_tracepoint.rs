//! Tracepoints whose records can be built from their arguments, so that a program may run at the
//! raw tracepoint ([`crate::bpf::argument_record`]).
//!
//! The places of members are those of the running kernel, from its types. A tracepoint whose number
//! of arguments is not the expected one is not used, nor a field whose members the kernel does not
//! have. Source: sched.h, task.h, syscalls.h, irq.h, kmem.h and block.h in include/trace/events.

mod request;

use std::cell::OnceCell;
use std::rc::Rc;

use crate::bpf::argument_record::request::{RequestField, RequestLayout};
use crate::bpf::argument_record::{ArgumentField, ArgumentRecord, ArgumentValue};
use crate::bpf::record_text::TextLocation;
use crate::decode::btf::prototypes::BtfTypes;
use crate::decode::ctypes::{TypeShape, TypeTable as _, member};
use crate::decode::format::{Field, FieldKind, Format};
use crate::event::expr::in_kernel;

/// A tracepoint whose record can be built from its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawTracepoint {
    /// The identifier of its type.
    pub type_id: u32,
    /// The fields of its record that are known from its arguments.
    pub record: ArgumentRecord,
    /// Where it happens.
    pub context: EventContext,
}

/// Where a tracepoint happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventContext {
    /// In tasks, with interrupts on.
    Task,
    /// In tasks, with interrupts off.
    UninterruptedTask,
    /// In tasks and interrupts, with interrupts off: a run queue or a task is locked.
    Locked,
    /// As [`EventContext::Locked`], but for a task that wakes itself, with interrupts on. That is
    /// rare, and what a program misses then is counted.
    Wakeup,
    /// In hard interrupts, with interrupts off.
    HardInterrupt,
    /// In soft interrupts, also those that a kernel thread runs, with interrupts on. Those of a CPU
    /// do not interrupt each other.
    SoftInterrupt,
    /// As [`EventContext::Any`], but it rarely hits its own program. The kernel counts what is
    /// missed then.
    BlockRequest,
    /// Anywhere.
    Any,
}

impl EventContext {
    /// Returns whether it often happens in an interrupt that hits its own program, which misses it
    /// then.
    pub fn nests(self) -> bool {
        self == Any
    }

    /// Returns whether it may happen while a program of the other one runs on the CPU.
    pub fn may_interrupt(self, other: EventContext) -> bool {
        match self {
            Task | UninterruptedTask => false,
            SoftInterrupt => matches!(other, Task | Wakeup | BlockRequest | Any),
            Locked | Wakeup | HardInterrupt | BlockRequest | Any => {
                matches!(other, Task | Wakeup | SoftInterrupt | BlockRequest | Any)
            }
        }
    }
}

/// Where the value of a field is.
enum Source {
    /// An argument.
    Argument(u8),
    /// A member of the structure to which an argument points, at a path. For text whose place
    /// differs between records, an array of characters or a pointer to them.
    Member(u8, &'static str),
    /// The lower half of a member, or all of it if it has 4 bytes, as a number of 8 bytes: the
    /// first of these that exists.
    Extended(u8, &'static [&'static str]),
    /// An argument that is a number of bytes, in sectors.
    Sectors(u8),
    /// A field that is computed from a block request, the first argument.
    Request(RequestField),
    /// The state with which a task leaves a CPU.
    SwitchState,
}

use EventContext::{
    Any, BlockRequest, HardInterrupt, Locked, SoftInterrupt, Task, UninterruptedTask, Wakeup,
};
use Source::{Argument, Extended, Member, Request, Sectors, SwitchState};

/// A tracepoint: its event, where it happens, the number of its arguments, and the fields of its
/// record.
type KnownTracepoint = (&'static str, EventContext, usize, &'static [(&'static str, Source)]);

/// The CPU of a task.
const CPU: &str = "thread_info.cpu";

/// The tracepoints. The end of a thread and the execution of a program are not among them: programs
/// that count these events must run before those that follow the tasks.
const KNOWN: &[KnownTracepoint] = &[
    (
        "sched:sched_switch",
        UninterruptedTask,
        4,
        &[
            ("prev_comm", Member(1, "comm")),
            ("prev_pid", Member(1, "pid")),
            ("prev_prio", Member(1, "prio")),
            ("prev_state", SwitchState),
            ("next_comm", Member(2, "comm")),
            ("next_pid", Member(2, "pid")),
            ("next_prio", Member(2, "prio")),
        ],
    ),
    ("sched:sched_wakeup", Wakeup, 1, WAKEUP),
    ("sched:sched_wakeup_new", UninterruptedTask, 1, WAKEUP),
    ("sched:sched_waking", Wakeup, 1, WAKEUP),
    (
        "sched:sched_migrate_task",
        Locked,
        2,
        &[
            ("comm", Member(0, "comm")),
            ("pid", Member(0, "pid")),
            ("prio", Member(0, "prio")),
            ("orig_cpu", Member(0, CPU)),
            ("dest_cpu", Argument(1)),
        ],
    ),
    (
        "sched:sched_stat_runtime",
        Locked,
        2,
        &[("comm", Member(0, "comm")), ("pid", Member(0, "pid")), ("runtime", Argument(1))],
    ),
    (
        "sched:sched_process_fork",
        Task,
        2,
        &[
            ("parent_comm", Member(0, "comm")),
            ("parent_pid", Member(0, "pid")),
            ("child_comm", Member(1, "comm")),
            ("child_pid", Member(1, "pid")),
        ],
    ),
    ("task:task_newtask", Task, 2, &[("pid", Member(0, "pid"))]),
    ("task:task_rename", Task, 2, &[]),
    ("raw_syscalls:sys_enter", Task, 2, &[("id", Argument(1))]),
    (
        "raw_syscalls:sys_exit",
        Task,
        2,
        &[("id", Extended(0, &["orig_ax", "syscallno"])), ("ret", Argument(1))],
    ),
    (
        "irq:irq_handler_entry",
        HardInterrupt,
        2,
        &[("irq", Argument(0)), ("name", Member(1, "name"))],
    ),
    ("irq:irq_handler_exit", HardInterrupt, 3, &[("irq", Argument(0)), ("ret", Argument(2))]),
    ("irq:softirq_entry", SoftInterrupt, 1, &[("vec", Argument(0))]),
    ("irq:softirq_exit", SoftInterrupt, 1, &[("vec", Argument(0))]),
    ("kmem:kmalloc", Any, 6, ALLOCATION),
    (
        "kmem:kmem_cache_alloc",
        Any,
        5,
        &[
            ("call_site", Argument(0)),
            ("ptr", Argument(1)),
            ("bytes_req", Extended(2, &["object_size"])),
            ("bytes_alloc", Extended(2, &["size"])),
            ("node", Argument(4)),
        ],
    ),
    ("kmem:kfree", Any, 2, ALLOCATION),
    ("kmem:kmem_cache_free", Any, 3, ALLOCATION),
    ("block:block_rq_issue", BlockRequest, 1, REQUEST),
    ("block:block_rq_requeue", BlockRequest, 1, REQUEST),
    (
        "block:block_rq_complete",
        BlockRequest,
        3,
        &[
            ("dev", Request(RequestField::Device)),
            ("sector", Member(0, "__sector")),
            ("nr_sector", Sectors(2)),
            ("rwbs", Request(RequestField::Kind)),
        ],
    ),
];

const ALLOCATION: &[(&str, Source)] = &[
    ("call_site", Argument(0)),
    ("ptr", Argument(1)),
    ("bytes_req", Argument(2)),
    ("bytes_alloc", Argument(3)),
    ("node", Argument(5)),
];

const REQUEST: &[(&str, Source)] = &[
    ("dev", Request(RequestField::Device)),
    ("sector", Request(RequestField::Sector)),
    ("nr_sector", Request(RequestField::Sectors)),
    ("rwbs", Request(RequestField::Kind)),
];

const WAKEUP: &[(&str, Source)] = &[
    ("comm", Member(0, "comm")),
    ("pid", Member(0, "pid")),
    ("prio", Member(0, "prio")),
    ("target_cpu", Member(0, CPU)),
];

/// Returns whether a tracepoint of this name may have a known record.
pub fn is_known(event: &str) -> bool {
    KNOWN.iter().any(|(name, ..)| *name == event)
}

/// Returns the tracepoint of an event; None if its record is not known, or if this kernel is not as
/// expected.
pub fn find(types: &BtfTypes, event: &str, format: &Format) -> Option<RawTracepoint> {
    let (_, context, count, fields) = KNOWN.iter().find(|(name, ..)| *name == event)?;
    let (_, name) = event.split_once(':')?;
    let tracepoint = types.tracepoint(name)?;
    if tracepoint.arguments.len() != *count {
        return None;
    }
    let rwbs = format.field("rwbs");
    let known =
        KnownArguments { types, types_of: &tracepoint.arguments, rwbs, request: OnceCell::new() };
    let fields =
        fields.iter().filter_map(|(name, source)| known.field(format.field(name)?, source));
    let record = ArgumentRecord { fields: fields.collect() };
    Some(RawTracepoint { type_id: tracepoint.id, record, context: *context })
}

/// The arguments of a tracepoint.
struct KnownArguments<'a> {
    types: &'a BtfTypes,
    types_of: &'a [u32],
    /// The field of the record with the kind of a request.
    rwbs: Option<&'a Field>,
    request: OnceCell<Option<Rc<RequestLayout>>>,
}

impl KnownArguments<'_> {
    /// Returns a field of the record; None if this kernel is not as expected.
    fn field(&self, field: &Field, source: &Source) -> Option<ArgumentField> {
        let mut bytes = field.size;
        let value = match source {
            Argument(index) => {
                let size = size_of(self.types, self.type_of(*index)?)?;
                (size == field.size).then_some(ArgumentValue::Argument(i16::from(*index)))?
            }
            Member(of, path) => match in_kernel::location(field) {
                Some(location) => self.text(*of, path, location)?,
                None => {
                    let at = self.member(*of, path, field)?;
                    ArgumentValue::Member { of: i16::from(*of), at }
                }
            },
            Extended(of, paths) => {
                let (at, signed) = paths.iter().find_map(|path| {
                    let (at, type_) = place(self.types, self.type_of(*of)?, path)?;
                    let TypeShape::Int { size, signed } = self.types.shape(type_)? else {
                        return None;
                    };
                    let is_wide = size == 8 && cfg!(target_endian = "little");
                    (size == 4 || is_wide).then_some((at, signed || is_wide))
                })?;
                let value = ArgumentValue::Extended { of: i16::from(*of), at, signed };
                (field.size == 8).then_some(value)?
            }
            Sectors(index) => {
                let is_expected =
                    (field.size, size_of(self.types, self.type_of(*index)?)?) == (4, 4);
                is_expected.then_some(ArgumentValue::Sectors(i16::from(*index)))?
            }
            Request(of) => {
                let is_expected = match of {
                    RequestField::Device | RequestField::Sectors => field.size == 4,
                    RequestField::Sector => field.size == 8,
                    RequestField::Kind => field.kind == FieldKind::Chars,
                };
                if *of == RequestField::Kind {
                    bytes = 1;
                }
                let layout = || request::layout(self.types, self.type_of(0)?, self.rwbs?.size);
                let layout = self.request.get_or_init(|| layout().map(Rc::new));
                is_expected.then_some(ArgumentValue::Request(*of, layout.clone()?))?
            }
            SwitchState => {
                let (at, type_) = place(self.types, self.type_of(1)?, "exit_state")?;
                let is_expected = (field.size, size_of(self.types, type_)?) == (8, 4);
                is_expected.then_some(ArgumentValue::SwitchState { exit_state_at: at })?
            }
        };
        Some(ArgumentField {
            at: field.offset.try_into().ok()?,
            bytes: bytes.try_into().ok()?,
            value,
        })
    }

    fn type_of(&self, argument: u8) -> Option<u32> {
        self.types_of.get(usize::from(argument)).copied()
    }

    /// Returns a text whose place differs between records.
    fn text(&self, of: u8, path: &str, location: TextLocation) -> Option<ArgumentValue> {
        let (at, type_) = place(self.types, self.type_of(of)?, path)?;
        let is_pointer = match self.types.shape(type_)? {
            TypeShape::Pointer(_) => true,
            TypeShape::Array(_) => false,
            _ => return None,
        };
        Some(ArgumentValue::Text { of: of.into(), at, is_pointer, from: location.from })
    }

    /// Returns the offset of a member that has the type of a field.
    fn member(&self, of: u8, path: &str, field: &Field) -> Option<i16> {
        let (at, type_) = place(self.types, self.type_of(of)?, path)?;
        // The kernel refuses a program that reads beyond the end of an array.
        let fits = match self.types.shape(type_)? {
            TypeShape::Array(_) => field.kind == FieldKind::Chars,
            _ => size_of(self.types, type_)? == field.size,
        };
        fits.then_some(at)
    }
}

/// Returns the offset and the type of a member, at a path of names in the structure to which a
/// pointer leads.
fn place(types: &BtfTypes, pointer: u32, path: &str) -> Option<(i16, u32)> {
    let TypeShape::Pointer(Some(mut type_)) = types.shape(pointer)? else { return None };
    let mut offset = 0;
    for name in path.split('.') {
        let found = member(types, type_, name).filter(|found| found.bits.is_none())?;
        offset += found.offset;
        type_ = found.type_;
    }
    Some((offset.try_into().ok()?, type_))
}

/// Returns the size of an integer or a pointer in bytes.
fn size_of(types: &BtfTypes, type_: u32) -> Option<usize> {
    match types.shape(type_)? {
        TypeShape::Int { size, .. } => size.try_into().ok(),
        TypeShape::Pointer(_) => Some(8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_in_interrupts_hit_programs_that_run_with_interrupts_on() {
        let context = |event: &str| KNOWN.iter().find(|(name, ..)| *name == event).unwrap().1;
        let hits = |one, other| context(one).may_interrupt(context(other));
        let (switch, wakeup, enter) =
            ("sched:sched_switch", "sched:sched_wakeup", "raw_syscalls:sys_enter");
        let wakeup_new = "sched:sched_wakeup_new";
        assert!(hits(wakeup, enter) && hits("kmem:kfree", "kmem:kmalloc"));
        assert!(!hits(wakeup, switch) && !hits(switch, wakeup) && !hits(switch, enter));
        assert!(!hits(enter, "raw_syscalls:sys_exit") && !hits(enter, wakeup));
        let (hard, soft) = ("irq:irq_handler_entry", "irq:softirq_entry");
        assert!(hits(hard, soft) && hits(soft, enter) && hits(wakeup, soft));
        assert!(
            !hits(soft, hard) && !hits(hard, "irq:irq_handler_exit") && !hits(hard, wakeup_new)
        );
        assert!(!hits(soft, "irq:softirq_exit") && !hits(wakeup, hard) && !hits(soft, switch));
    }
}
