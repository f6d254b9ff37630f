//! Tasks: the name, process and parent of each thread, from the side-band records.
//!
//! Filled from FORK, COMM and EXIT records, and from one snapshot of the tasks that ran before. The
//! snapshot is read while records already arrive, and never overwrites a name from a record; nor
//! does the FORK record of a task that the snapshot has named since overwrite that name. A run
//! that does not order its records may handle those of one task, which came from several CPUs, in
//! another order: an older record never replaces what a newer one has set. An ended task is kept
//! until [`GRACE`] others have ended after it, so that an event handled late still finds its name;
//! a reused thread id starts a new task.
//!
//! Names are bytes, since a task can set any name. The table is bounded; [`Tasks::refused`] counts
//! the tasks it omitted. A record costs no allocation once the table has grown to the machine's
//! number of tasks.

use std::{
    collections::VecDeque,
    hash::{BuildHasherDefault, Hasher},
};

use hashbrown::HashMap;

use name::Name;

pub mod cgroups;
pub mod containers;
pub mod maps;
mod name;
pub mod objects;
pub mod programs;
#[cfg(test)]
mod tests;

/// Name drawn for an unknown task.
pub const UNKNOWN: &[u8] = b"<...>";

/// Number of ended tasks that are kept.
pub const GRACE: usize = 4096;

/// Default limit of the table in bytes, enough for 450 000 tasks. While it grows, it takes half as
/// much again.
pub const BOUND: usize = 32 << 20;

/// Largest number of tasks that [`Tasks::ancestry`] yields, the task itself included.
const GENERATIONS: usize = 64;

/// A FORK record.
#[derive(Clone, Copy, Debug)]
pub struct Fork {
    /// Thread id of the new task.
    pub tid: u32,
    /// Its process; the parent's process if it is a thread.
    pub pid: u32,
    /// The thread that forked.
    pub parent_tid: u32,
    /// The process of that thread.
    pub parent_pid: u32,
}

/// A task that ran before the records began.
#[derive(Clone, Copy, Debug)]
pub struct ExistingTask<'a> {
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// The process's parent, or 0.
    pub parent_pid: u32,
    /// Name; cut at its NUL or at 15 bytes.
    pub comm: &'a [u8],
}

/// The known tasks of the machine.
pub struct Tasks {
    /// Time at which the last snapshot was complete, in nanoseconds of the run.
    snapshot_end: f64,
    known: HashMap<u32, Task, BuildHasherDefault<TidHasher>>,
    /// The idle task of each CPU.
    idle: Vec<Name>,
    /// Ended tasks in the order of their end, with their birth, since the id may be in use again.
    ended: VecDeque<(u32, u32)>,
    births: u32,
    most: usize,
    refused: u64,
}

#[derive(Clone, Copy)]
struct Task {
    comm: Option<Name>,
    pid: u32,
    parent: Link,
    /// Distinguishes this task from others with the same id.
    birth: u32,
    from_record: bool,
    /// Whether its FORK record was handled.
    is_forked: bool,
    ended: bool,
    /// Time of the newest record about it, in nanoseconds of the run.
    time: f64,
}

/// A process, and the birth that distinguishes it from others with its id; 0 if not known.
#[derive(Clone, Copy)]
struct Link {
    pid: u32,
    birth: u32,
}

const NO_PARENT: Link = Link { pid: 0, birth: 0 };

impl Tasks {
    /// Creates a table that knows only the idle tasks of `cpus` CPUs.
    pub fn new(cpus: usize) -> Tasks {
        Tasks::with_bound(cpus, BOUND)
    }

    /// Like [`Tasks::new`], with a limit of `bytes` bytes.
    pub fn with_bound(cpus: usize, bytes: usize) -> Tasks {
        // hashbrown has a power of two of buckets with a control byte each, and fills seven eighths
        // of them.
        let bucket = size_of::<(u32, Task)>() + 1;
        let buckets = (bytes / bucket).max(8);
        let buckets =
            if buckets.is_power_of_two() { buckets } else { buckets.next_power_of_two() / 2 };
        Tasks {
            snapshot_end: f64::NEG_INFINITY,
            known: HashMap::default(),
            idle: (0..cpus).map(|cpu| Name::new(format!("swapper/{cpu}").as_bytes())).collect(),
            ended: VecDeque::with_capacity(GRACE + 1),
            births: 0,
            most: buckets / 8 * 7,
            refused: 0,
        }
    }

    /// Adds the tasks that ran before the records began. A name or parent from a record stays.
    /// `end` is the time at which the last one was read, in nanoseconds of the run.
    pub fn snapshot<'a>(&mut self, running: impl IntoIterator<Item = ExistingTask<'a>>, end: f64) {
        self.snapshot_end = end;
        for task in running {
            let comm = Some(Name::new(task.comm));
            let parent = Link { pid: task.parent_pid, birth: 0 };
            match self.known.get_mut(&task.tid) {
                None => self.insert(task.tid, Task { comm, parent, ..Task::anonymous(task.pid) }),
                Some(known) if known.from_record => {
                    known.comm = known.comm.or(comm);
                    if known.parent.pid == 0 {
                        known.parent = parent;
                    }
                }
                Some(known) => {
                    (known.comm, known.pid, known.parent) = (comm, task.pid, parent);
                }
            }
        }
        self.link_parents();
    }

    /// Handles a FORK record, with its time in nanoseconds of the run. The new task has its parent
    /// thread's name until it changes it. If it is in a snapshot that was read since, it has the
    /// name from there: the parent may have changed its own in between.
    pub fn on_fork(&mut self, fork: Fork, time: f64) {
        let by = self.known.get(&fork.parent_tid);
        let comm = by.and_then(|t| t.comm);
        let parent = if fork.pid == fork.parent_pid {
            by.or_else(|| self.known.get(&fork.pid)).map_or(NO_PARENT, |t| t.parent)
        } else {
            self.link(fork.parent_pid)
        };
        let snapshot_end = self.snapshot_end;
        let is_newer =
            |t: &Task| t.time > time || !t.from_record && !t.ended && time <= snapshot_end;
        let newer = self.known.get_mut(&fork.tid).filter(|t| !t.is_forked && is_newer(t));
        if let Some(task) = newer {
            task.comm = task.comm.or(comm);
            (task.pid, task.parent, task.is_forked) = (fork.pid, parent, true);
            return;
        }
        let task = Task {
            comm,
            parent,
            from_record: true,
            is_forked: true,
            time,
            ..Task::anonymous(fork.pid)
        };
        self.insert(fork.tid, task);
    }

    /// Handles a COMM record: the task has set this name, or has executed a program of that name.
    pub fn on_comm(&mut self, tid: u32, pid: u32, comm: &[u8], time: f64) {
        let comm = Some(Name::new(comm));
        match self.known.get_mut(&tid) {
            // The name that it had when it ended; or that of an earlier task with its id.
            Some(task) if task.time > time => {
                if task.ended {
                    task.comm = comm;
                }
            }
            Some(task) if !task.ended => {
                (task.comm, task.pid, task.from_record, task.time) = (comm, pid, true, time);
            }
            // If the known task has ended, this is another one with its id, whose FORK was lost.
            _ => {
                let task = Task { comm, from_record: true, time, ..Task::anonymous(pid) };
                self.insert(tid, task);
            }
        }
    }

    /// Handles the COMM record of a process that executed a program. Its other threads have ended,
    /// and its first thread continues. If that had ended, another thread executed the program and
    /// got its id: returns the threads that have ended without a record, which is that thread.
    pub fn on_exec(&mut self, pid: u32, comm: &[u8], time: f64) -> Vec<u32> {
        let first = self.known.get(&pid);
        let Some(birth) = first.filter(|t| t.ended && t.time <= time).map(|t| t.birth) else {
            self.on_comm(pid, pid, comm, time);
            return Vec::new();
        };
        let is_replaced =
            |t: &Task, tid: u32| t.pid == pid && tid != pid && !t.ended && t.time <= time;
        let replaced = self.known.iter().filter(|(tid, task)| is_replaced(task, **tid));
        let replaced: Vec<u32> = replaced.map(|(tid, _)| *tid).collect();
        if !replaced.is_empty()
            && let Some(task) = self.known.get_mut(&pid)
        {
            task.ended = false;
            self.ended.retain(|ended| *ended != (pid, birth));
        }
        replaced.iter().for_each(|tid| self.on_exit(*tid, pid, time));
        self.on_comm(pid, pid, comm, time);
        replaced
    }

    /// Handles the EXIT record of a thread.
    pub fn on_exit(&mut self, tid: u32, pid: u32, time: f64) {
        if !self.known.contains_key(&tid) {
            // Its FORK may follow.
            self.insert(tid, Task { from_record: true, time, ..Task::anonymous(pid) });
        }
        let known = self.known.get_mut(&tid);
        let Some(task) = known.filter(|t| !t.ended && t.time <= time) else { return };
        (task.ended, task.time) = (true, time);
        self.ended.push_back((tid, task.birth));
        if self.ended.len() > GRACE {
            self.forget_oldest();
        }
    }

    /// Returns the thread's name, without NUL. The name of an idle task depends on its CPU: see
    /// [`Tasks::padded_comm_on`].
    #[inline]
    pub fn comm(&self, tid: u32) -> Option<&[u8]> {
        if tid == 0 {
            return Some(b"swapper");
        }
        self.known.get(&tid)?.comm.as_ref().map(Name::bytes)
    }

    /// Returns the name of the thread that ran on that CPU, padded with NULs: `swapper/N` for
    /// thread 0.
    #[inline]
    pub fn padded_comm_on(&self, cpu: u32, tid: u32) -> Option<[u8; 16]> {
        Some(match self.idle.get(cpu as usize) {
            Some(idle) if tid == 0 => idle.0,
            _ if tid == 0 => Name::new(b"swapper").0,
            _ => self.known.get(&tid)?.comm?.0,
        })
    }

    /// Returns the thread's process.
    pub fn process(&self, tid: u32) -> Option<u32> {
        if tid == 0 { Some(0) } else { Some(self.known.get(&tid)?.pid) }
    }

    /// Returns the known threads, in no order.
    pub fn tids(&self) -> impl Iterator<Item = u32> + '_ {
        self.known.keys().copied()
    }

    /// Returns the process that created the thread's process. An orphan keeps its first parent.
    pub fn parent(&self, tid: u32) -> Option<u32> {
        let parent = self.known.get(&tid)?.parent;
        (parent.pid != 0).then_some(parent.pid)
    }

    /// Iterates over the thread, the process that created its process, the creator of that process,
    /// and so on, as far as they are known, at most 64. Ends before an id that another process has
    /// reused.
    pub fn ancestry(&self, tid: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.known.contains_key(&tid).then_some(tid);
        let above = |tid: &u32| {
            let parent = self.known.get(tid)?.parent;
            let same = self.known.get(&parent.pid).is_some_and(|p| p.birth == parent.birth);
            (parent.pid != 0 && same).then_some(parent.pid)
        };
        std::iter::successors(first, above).take(GENERATIONS)
    }

    /// Returns the number of known tasks, ended ones included.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns whether no task is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns how many tasks were omitted because of the limit.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn insert(&mut self, tid: u32, mut task: Task) {
        // 0 is the idle task, -1 a task that has no id in this pid namespace.
        if tid == 0 || tid == u32::MAX {
            return;
        }
        while self.known.len() >= self.most && !self.known.contains_key(&tid) {
            if !self.forget_oldest() {
                self.refused += 1;
                return;
            }
        }
        self.births = self.births.checked_add(1).unwrap_or(1);
        task.birth = self.births;
        self.known.insert(tid, task);
    }

    /// Drops the task that ended first. Returns false if none has ended.
    fn forget_oldest(&mut self) -> bool {
        let Some((tid, birth)) = self.ended.pop_front() else { return false };
        if self.known.get(&tid).is_some_and(|t| t.birth == birth) {
            self.known.remove(&tid);
        }
        true
    }

    fn link(&self, pid: u32) -> Link {
        Link { pid, birth: self.known.get(&pid).map_or(0, |p| p.birth) }
    }

    /// Links tasks to their parents, which may come after their children in a snapshot.
    fn link_parents(&mut self) {
        let open: Vec<(u32, u32)> = self
            .known
            .iter()
            .filter(|(_, t)| t.parent.pid != 0 && t.parent.birth == 0)
            .map(|(tid, t)| (*tid, t.parent.pid))
            .collect();
        for (tid, pid) in open {
            let link = self.link(pid);
            if let Some(task) = self.known.get_mut(&tid) {
                task.parent = link;
            }
        }
    }
}

impl Task {
    fn anonymous(pid: u32) -> Task {
        Task {
            comm: None,
            pid,
            parent: NO_PARENT,
            birth: 0,
            from_record: false,
            is_forked: false,
            ended: false,
            time: f64::NEG_INFINITY,
        }
    }
}

/// Spreads small, dense ids with one multiplication. There is no seed: chosen collisions gain
/// nothing.
#[derive(Default)]
struct TidHasher(u64);

impl Hasher for TidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, id: u32) {
        self.write_u64(u64::from(id));
    }

    fn write_u64(&mut self, id: u64) {
        // The table takes its bucket from the low bits and its tag from the top seven.
        let mixed = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
