//! Tracepoints whose records can be built from their arguments, so that a program may run at the
//! raw tracepoint ([`crate::bpf::argument_record`]).
//!
//! The places of members are those of the running kernel, from its types. A tracepoint whose number
//! of arguments is not the expected one is not used, nor a field whose members the kernel does not
//! have. Source: sched.h, task.h, syscalls.h, kmem.h and block.h in include/trace/events.

use std::cell::OnceCell;
use std::rc::Rc;

use crate::bpf::argument_record::request::{RequestField, RequestLayout};
use crate::bpf::argument_record::{ArgumentField, ArgumentRecord, ArgumentValue};
use crate::decode::btf::prototypes::BtfTypes;
use crate::decode::ctypes::{TypeShape, TypeTable as _, member};
use crate::decode::format::{Field, FieldKind, Format};

/// A tracepoint whose record can be built from its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawTracepoint {
    /// The identifier of its type.
    pub type_id: u32,
    /// The fields of its record that are known from its arguments.
    pub record: ArgumentRecord,
    /// Whether it may happen in an interrupt that hits its own program, which then misses it.
    pub nests: bool,
    /// Whether it may happen in an interrupt that hits a program.
    interrupts: bool,
    /// Whether an interrupt may hit its program.
    is_interruptible: bool,
}

impl RawTracepoint {
    /// Returns whether it may happen while a program of the other one runs on the CPU.
    pub fn may_interrupt(&self, other: &RawTracepoint) -> bool {
        self.interrupts && other.is_interruptible
    }
}

/// Where the value of a field is.
enum Source {
    /// An argument.
    Argument(u8),
    /// A member of the structure to which an argument points: the first of these paths that exists.
    Member(u8, &'static [&'static str]),
    /// The lower half of such a member, or all of it if it has 4 bytes, as a number of 8 bytes.
    Extended(u8, &'static [&'static str]),
    /// An argument that is a number of bytes, in sectors.
    Sectors(u8),
    /// A field that is computed from a block request, the first argument.
    Request(RequestField),
    /// The state with which a task leaves a CPU.
    SwitchState,
}

use Source::{Argument, Extended, Member, Request, Sectors, SwitchState};

/// A tracepoint: its event, the number of its arguments, and the fields of its record.
type KnownTracepoint = (&'static str, usize, &'static [(&'static str, Source)]);

/// Systems whose events do not happen in an interrupt that hits a program at the same event:
/// interrupts are off, or none raises it. A task that wakes itself, with interrupts on, is the rare
/// exception; what is missed then is counted.
const UNNESTED: &[&str] = &["sched", "task", "raw_syscalls"];

/// Events that do not happen in interrupts.
const OF_TASKS: &[&str] = &[
    "sched:sched_switch",
    "sched:sched_wakeup_new",
    "sched:sched_process_fork",
    "task:task_rename",
    "raw_syscalls:sys_enter",
    "raw_syscalls:sys_exit",
];

/// Events that happen while interrupts are off, with the lock of a run queue or of a task.
const UNINTERRUPTED: &[&str] = &[
    "sched:sched_switch",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_stat_runtime",
];

/// The CPU of a task: since 5.16, and before.
const CPU: &[&str] = &["thread_info.cpu", "cpu"];

/// The tracepoints. The end of a thread and the execution of a program are not among them: programs
/// that count these events must run before those that follow the tasks.
const KNOWN: &[KnownTracepoint] = &[
    (
        "sched:sched_switch",
        4,
        &[
            ("prev_comm", Member(1, &["comm"])),
            ("prev_pid", Member(1, &["pid"])),
            ("prev_prio", Member(1, &["prio"])),
            ("prev_state", SwitchState),
            ("next_comm", Member(2, &["comm"])),
            ("next_pid", Member(2, &["pid"])),
            ("next_prio", Member(2, &["prio"])),
        ],
    ),
    ("sched:sched_wakeup", 1, WAKEUP),
    ("sched:sched_wakeup_new", 1, WAKEUP),
    ("sched:sched_waking", 1, WAKEUP),
    (
        "sched:sched_migrate_task",
        2,
        &[
            ("comm", Member(0, &["comm"])),
            ("pid", Member(0, &["pid"])),
            ("prio", Member(0, &["prio"])),
            ("orig_cpu", Member(0, CPU)),
            ("dest_cpu", Argument(1)),
        ],
    ),
    (
        "sched:sched_stat_runtime",
        2,
        &[("comm", Member(0, &["comm"])), ("pid", Member(0, &["pid"])), ("runtime", Argument(1))],
    ),
    (
        "sched:sched_process_fork",
        2,
        &[("parent_pid", Member(0, &["pid"])), ("child_pid", Member(1, &["pid"]))],
    ),
    ("task:task_rename", 2, &[]),
    ("raw_syscalls:sys_enter", 2, &[("id", Argument(1))]),
    (
        "raw_syscalls:sys_exit",
        2,
        &[("id", Extended(0, &["orig_ax", "syscallno"])), ("ret", Argument(1))],
    ),
    ("kmem:kmalloc", 6, ALLOCATION),
    (
        "kmem:kmem_cache_alloc",
        5,
        &[
            ("call_site", Argument(0)),
            ("ptr", Argument(1)),
            ("bytes_req", Extended(2, &["object_size"])),
            ("bytes_alloc", Extended(2, &["size"])),
            ("node", Argument(4)),
        ],
    ),
    ("kmem:kfree", 2, ALLOCATION),
    ("kmem:kmem_cache_free", 3, ALLOCATION),
    ("block:block_rq_issue", 1, REQUEST),
    ("block:block_rq_requeue", 1, REQUEST),
    (
        "block:block_rq_complete",
        3,
        &[
            ("dev", Request(RequestField::Device)),
            ("sector", Member(0, &["__sector"])),
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
    ("comm", Member(0, &["comm"])),
    ("pid", Member(0, &["pid"])),
    ("prio", Member(0, &["prio"])),
    ("target_cpu", Member(0, CPU)),
];

/// First letters of `rwbs` by operation.
const OPERATIONS: &[(&str, u8)] = &[
    ("REQ_OP_READ", b'R'),
    ("REQ_OP_WRITE", b'W'),
    ("REQ_OP_FLUSH", b'F'),
    ("REQ_OP_DISCARD", b'D'),
    ("REQ_OP_SECURE_ERASE", b'D'),
];
/// Those of operations on zones. The change of the kernel that gave them letters also made `rwbs`
/// longer, to [`WITH_ZONES`] bytes.
const ZONE_OPERATIONS: &[(&str, u8)] = &[
    ("REQ_OP_ZONE_APPEND", b'Z'),
    ("REQ_OP_ZONE_RESET", b'Z'),
    ("REQ_OP_ZONE_RESET_ALL", b'Z'),
    ("REQ_OP_ZONE_FINISH", b'Z'),
    ("REQ_OP_ZONE_OPEN", b'Z'),
    ("REQ_OP_ZONE_CLOSE", b'Z'),
];
/// Least size of `rwbs` in bytes where operations on zones have letters.
const WITH_ZONES: usize = 10;

/// Returns whether a tracepoint of this name may have a known record.
pub fn is_known(event: &str) -> bool {
    KNOWN.iter().any(|(name, ..)| *name == event)
}

/// Returns the tracepoint of an event; None if its record is not known, or if this kernel is not as
/// expected.
pub fn find(types: &BtfTypes, event: &str, format: &Format) -> Option<RawTracepoint> {
    let (_, count, fields) = KNOWN.iter().find(|(name, ..)| *name == event)?;
    let (system, name) = event.split_once(':')?;
    let tracepoint = types.tracepoint(name)?;
    if tracepoint.arguments.len() != *count {
        return None;
    }
    let has_zones = format.field("rwbs").is_some_and(|field| field.size >= WITH_ZONES);
    let types_of = &tracepoint.arguments[..];
    let known = KnownArguments { types, types_of, has_zones, request: OnceCell::new() };
    let fields =
        fields.iter().filter_map(|(name, source)| known.field(format.field(name)?, source));
    let record = ArgumentRecord { fields: fields.collect() };
    let nests = !UNNESTED.contains(&system);
    Some(RawTracepoint {
        type_id: tracepoint.id,
        record,
        nests,
        interrupts: !OF_TASKS.contains(&event),
        is_interruptible: !UNINTERRUPTED.contains(&event),
    })
}

/// The arguments of a tracepoint.
struct KnownArguments<'a> {
    types: &'a BtfTypes,
    types_of: &'a [u32],
    /// Whether records name the operations on zones.
    has_zones: bool,
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
            Member(of, paths) => {
                let at = paths.iter().find_map(|path| self.member(*of, path, field))?;
                ArgumentValue::Member { of: i16::from(*of), at }
            }
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
                let layout = self.request.get_or_init(|| self.request_layout().map(Rc::new));
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

    /// Returns the layout of the request in the first argument.
    fn request_layout(&self) -> Option<RequestLayout> {
        let request = self.type_of(0)?;
        // Each with its size in bytes.
        let member = |pointer, name: &str, size| {
            let (at, type_) = place(self.types, pointer, name)?;
            (size_of(self.types, type_)? == size).then_some(at)
        };
        let (queue, to_queue) = place(self.types, request, "q")?;
        let (disk, to_disk) = place(self.types, to_queue, "disk")?;
        let operation = |name: &str| self.types.enumerator("req_op", name);
        let zones: &[_] = if self.has_zones { ZONE_OPERATIONS } else { &[] };
        let letters = OPERATIONS.iter().chain(zones);
        let letters = letters.filter_map(|(name, letter)| Some((operation(name)?, *letter)));
        let preflush = self.types.enumerator("req_flag_bits", "__REQ_PREFLUSH")?;
        Some(RequestLayout {
            queue,
            disk,
            major: member(to_disk, "major", 4)?,
            minor: member(to_disk, "first_minor", 4)?,
            flags: member(request, "cmd_flags", 4)?,
            sector: member(request, "__sector", 8)?,
            bytes: member(request, "__data_len", 4)?,
            preflush: 1i32.checked_shl(preflush.try_into().ok()?)?,
            driver: [operation("REQ_OP_DRV_IN")?, operation("REQ_OP_DRV_OUT")?],
            letters: letters.collect(),
        })
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

    fn tracepoint(event: &str) -> RawTracepoint {
        RawTracepoint {
            type_id: 1,
            record: ArgumentRecord::default(),
            nests: false,
            interrupts: !OF_TASKS.contains(&event),
            is_interruptible: !UNINTERRUPTED.contains(&event),
        }
    }

    #[test]
    fn events_in_interrupts_hit_programs_that_run_with_interrupts_on() {
        let hits = |one, other| tracepoint(one).may_interrupt(&tracepoint(other));
        let (switch, wakeup, enter) =
            ("sched:sched_switch", "sched:sched_wakeup", "raw_syscalls:sys_enter");
        assert!(hits(wakeup, enter) && hits("kmem:kfree", "kmem:kmalloc"));
        assert!(!hits(wakeup, switch) && !hits(switch, wakeup) && !hits(switch, enter));
        assert!(!hits(enter, "raw_syscalls:sys_exit") && !hits(enter, wakeup));
    }

    #[test]
    fn each_name_of_a_list_is_a_known_tracepoint() {
        for event in OF_TASKS.iter().chain(UNINTERRUPTED) {
            assert!(is_known(event), "{event}");
        }
    }
}
