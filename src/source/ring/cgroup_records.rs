//! Records that report the control group of a task at the time of the record.
//!
//! They follow the threads of `--cgroup` for events that are about another task than the one that
//! raises them: a thread may have ended before its group is read from /proc.

use perf_event_open_sys::bindings as abi;

use super::watched_tasks::WatchedTasks;
use crate::base::event::value::Value;
use crate::decode::format::Field;
use crate::decode::sample::{RecordLayout, Sample};
use crate::event::kind::Event;

/// `CLONE_INTO_CGROUP` (include/uapi/linux/sched.h).
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// How the records of an event report a group.
pub(in crate::source) enum CgroupRecord {
    /// The sample has the group of the thread that it comes from (`PERF_SAMPLE_CGROUP`).
    Sampled,
    /// Fields of a tracepoint have a group, and the thread that moves to it.
    Moved { thread: Field, group: GroupFields },
    /// Fields of a tracepoint have a new thread, and whether it was cloned into another group.
    Cloned { thread: Field, flags: Field },
    /// Fields of a tracepoint have a new group.
    Created(GroupFields),
}

/// The fields of a group.
pub(in crate::source) struct GroupFields {
    hierarchy: Field,
    id: Field,
    path: Field,
}

impl CgroupRecord {
    /// Returns how an event reports a group; None if it does not.
    pub(in crate::source) fn of(event: &Event, sample_type: u64) -> Option<CgroupRecord> {
        let format = event.format()?;
        let field = |name: &str| format.field(name).cloned();
        let of_group = |prefix: &str| {
            let part = |name: &str| field(&format!("{prefix}{name}"));
            Some(GroupFields { hierarchy: part("root")?, id: part("id")?, path: part("path")? })
        };
        if let Some(thread) = field("pid")
            && let Some(group) = of_group("dst_")
        {
            return Some(CgroupRecord::Moved { thread, group });
        }
        if let Some(flags) = field("clone_flags") {
            return Some(CgroupRecord::Cloned { thread: field("pid")?, flags });
        }
        let is_sampled = sample_type & u64::from(abi::PERF_SAMPLE_CGROUP) != 0;
        of_group("").map(CgroupRecord::Created).or(is_sampled.then_some(CgroupRecord::Sampled))
    }

    /// Updates which threads are watched.
    pub(in crate::source) fn apply(
        &self,
        sample: &Sample<'_>,
        layout: &RecordLayout,
        tasks: &mut WatchedTasks,
    ) {
        match self {
            CgroupRecord::Sampled => {
                if let Ok(rest) = layout.rest(sample) {
                    tasks.on_cgroup(sample.tid, rest.cgroup);
                }
            }
            CgroupRecord::Moved { thread, group } => {
                if let (Some(tid), Some(id)) =
                    (number(thread, sample), group.remember(sample, tasks))
                {
                    tasks.on_move(tid as u32, id);
                }
            }
            CgroupRecord::Cloned { thread, flags } => {
                // The kernel may have refused the filter.
                let is_into = |flags| flags & INTO_CGROUP != 0;
                if number(flags, sample).is_some_and(is_into)
                    && let Some(tid) = number(thread, sample)
                {
                    tasks.on_clone(tid as u32);
                }
            }
            CgroupRecord::Created(group) => drop(group.remember(sample, tasks)),
        }
    }
}

impl GroupFields {
    /// Remembers whether the group is watched. Returns its id; None if it is in another hierarchy.
    fn remember(&self, sample: &Sample<'_>, tasks: &mut WatchedTasks) -> Option<u64> {
        let (hierarchy, id) = (number(&self.hierarchy, sample)?, number(&self.id, sample)?);
        let Ok(Value::Text(path)) = self.path.read(sample.raw) else { return None };
        tasks.remember_cgroup(hierarchy, id, path).then_some(id)
    }
}

fn number(field: &Field, sample: &Sample<'_>) -> Option<u64> {
    match field.read(sample.raw).ok()? {
        Value::Int(number) => Some(number.cast_unsigned()),
        Value::Uint(number) => Some(number),
        _ => None,
    }
}
