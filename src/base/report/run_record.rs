//! The contents of a recording beside its events, so that a replay gives the numbers of the run.

/// A part of a run that is not an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunRecord<'a> {
    /// The beginning of the run, time 0. Precedes the first event.
    Begin {
        /// The watched CPUs, ascending.
        cpus: &'a [u32],
    },
    /// A change of a task, or a loss, on a CPU.
    Side {
        /// The CPU of its ring.
        cpu: u32,
        /// Its content.
        what: RecordedSide<'a>,
    },
    /// The end of the run. Follows the last report.
    End,
}

/// A change of a task, or a loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RecordedSide<'a> {
    /// A change of a task.
    Task {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// Whether the run watches the task; for a fork, the parent.
        watched: bool,
        /// The change.
        change: TaskChange<'a>,
    },
    /// Records of the CPU are missing from that time on. Their number follows.
    LossWindow {
        /// Length of that time.
        length_ns: u64,
    },
    /// Records of the CPU were lost, in a loss window before.
    Lost {
        /// Number of records.
        count: u64,
    },
    /// The kernel's own count of all losses of the run so far, on all CPUs.
    LostSoFar {
        /// Number of events.
        events: u64,
        /// Number of records of tasks from the rings of events.
        of_tasks: u64,
    },
}

/// A change of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TaskChange<'a> {
    /// It was created.
    Fork {
        /// The parent's process.
        parent_pid: u32,
        /// The parent's thread.
        parent_tid: u32,
    },
    /// It was renamed.
    Comm {
        /// The new name.
        comm: &'a [u8],
    },
    /// It executed another program.
    Exec {
        /// The new name.
        comm: &'a [u8],
    },
    /// It ended.
    Exit,
}
