//! Tasks: the name, process and parent of each thread, as the side-band records tell them.
//!
//! Filled from FORK, COMM and EXIT records in time order, and from one snapshot of what ran before. A name that
//! a record gave is never overwritten by the snapshot, which is read while records already flow. A task that
//! has ended is remembered until [`GRACE`] others have ended after it, so that an event that is handled late
//! still finds its name; a thread id that is used again begins anew.
//!
//! Names are bytes: a task may call itself anything. The table has a bound; [`Tasks::refused`] counts what it
//! kept out. A record costs no allocation once the table has grown to the machine's number of tasks.

use std::{
    collections::VecDeque,
    hash::{BuildHasherDefault, Hasher},
};

use hashbrown::HashMap;

pub mod maps;
pub mod objects;
pub mod programs;
#[cfg(test)]
mod tests;

/// How an unknown task is drawn.
pub const UNKNOWN: &[u8] = b"<...>";

/// How many ended tasks are remembered.
pub const GRACE: usize = 4096;

/// Bytes that the table may take by default; enough for 450 000 tasks. While it grows, half as much again.
pub const BOUND: usize = 32 << 20;

/// Ancestors that [`Tasks::ancestry`] yields at most, the task itself included.
const GENERATIONS: usize = 64;

/// A FORK record: `parent` is the thread that forked, and its process.
#[derive(Clone, Copy, Debug)]
pub struct Fork {
    /// Thread id of the new task.
    pub tid: u32,
    /// Its process; that of the parent if it is a thread.
    pub pid: u32,
    /// The thread that forked.
    pub parent_tid: u32,
    /// The process of that thread.
    pub parent_pid: u32,
}

/// A task that was there before the records began.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// The process's parent, or 0.
    pub parent_pid: u32,
    /// Name; cut at its NUL or at 15 bytes.
    pub comm: &'a [u8],
}

/// What is known of the machine's tasks.
pub struct Tasks {
    known: HashMap<u32, Task, BuildHasherDefault<TidHasher>>,
    /// The idle task of each CPU.
    idle: Vec<Name>,
    /// Ended tasks in the order of their end, with their birth: the id may be in use again.
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
    /// Tells this task from others that had its id.
    birth: u32,
    from_record: bool,
    ended: bool,
}

/// A process, and which of those that had its id: 0 when that is not known.
#[derive(Clone, Copy)]
struct Link {
    pid: u32,
    birth: u32,
}

const NOBODY: Link = Link { pid: 0, birth: 0 };

impl Tasks {
    /// Nothing known yet but the idle tasks of so many CPUs.
    pub fn new(cpus: usize) -> Tasks {
        Tasks::with_bound(cpus, BOUND)
    }

    /// Likewise, in at most so many bytes.
    pub fn with_bound(cpus: usize, bytes: usize) -> Tasks {
        // hashbrown: a power of two of buckets with a control byte each, seven eighths of them filled.
        let bucket = size_of::<(u32, Task)>() + 1;
        let buckets = (bytes / bucket).max(8);
        let buckets =
            if buckets.is_power_of_two() { buckets } else { buckets.next_power_of_two() / 2 };
        Tasks {
            known: HashMap::default(),
            idle: (0..cpus).map(|cpu| Name::new(format!("swapper/{cpu}").as_bytes())).collect(),
            ended: VecDeque::with_capacity(GRACE + 1),
            births: 0,
            most: buckets / 8 * 7,
            refused: 0,
        }
    }

    /// Adds what ran before the records began. A name or parent learnt from a record stays.
    pub fn snapshot<'a>(&mut self, running: impl IntoIterator<Item = Running<'a>>) {
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

    /// A FORK record. The new task has its parent thread's name until it changes it.
    pub fn on_fork(&mut self, fork: Fork) {
        let by = self.known.get(&fork.parent_tid);
        let comm = by.and_then(|t| t.comm);
        let parent = if fork.pid == fork.parent_pid {
            by.or_else(|| self.known.get(&fork.pid)).map_or(NOBODY, |t| t.parent)
        } else {
            self.link(fork.parent_pid)
        };
        let task = Task { comm, parent, from_record: true, ..Task::anonymous(fork.pid) };
        self.insert(fork.tid, task);
    }

    /// A COMM record: the task has called itself so, or has executed a program of that name.
    pub fn on_comm(&mut self, tid: u32, pid: u32, comm: &[u8]) {
        let comm = Some(Name::new(comm));
        match self.known.get_mut(&tid) {
            Some(task) if !task.ended => {
                (task.comm, task.pid, task.from_record) = (comm, pid, true);
            }
            // Ended, so this is another task with its id, whose FORK record was lost.
            _ => self.insert(tid, Task { comm, from_record: true, ..Task::anonymous(pid) }),
        }
    }

    /// An EXIT record of a thread.
    pub fn on_exit(&mut self, tid: u32) {
        let Some(task) = self.known.get_mut(&tid).filter(|t| !t.ended) else { return };
        task.ended = true;
        self.ended.push_back((tid, task.birth));
        if self.ended.len() > GRACE {
            self.forget_oldest();
        }
    }

    /// The thread's name, without NUL. That of an idle task needs its CPU: [`Tasks::comm_on`].
    #[inline]
    pub fn comm(&self, tid: u32) -> Option<&[u8]> {
        if tid == 0 {
            return Some(b"swapper");
        }
        self.known.get(&tid)?.comm.as_ref().map(Name::bytes)
    }

    /// The name of the thread that ran on that CPU: `swapper/N` for thread 0.
    #[inline]
    pub fn comm_on(&self, cpu: u32, tid: u32) -> Option<&[u8]> {
        match self.idle.get(cpu as usize) {
            Some(idle) if tid == 0 => Some(idle.bytes()),
            _ => self.comm(tid),
        }
    }

    /// The same with NULs behind it.
    #[inline]
    pub fn padded_comm_on(&self, cpu: u32, tid: u32) -> Option<[u8; 16]> {
        Some(match self.idle.get(cpu as usize) {
            Some(idle) if tid == 0 => idle.0,
            _ if tid == 0 => Name::new(b"swapper").0,
            _ => self.known.get(&tid)?.comm?.0,
        })
    }

    /// The thread's process.
    pub fn process(&self, tid: u32) -> Option<u32> {
        if tid == 0 { Some(0) } else { Some(self.known.get(&tid)?.pid) }
    }

    /// The process that made the thread's process, as of then: an orphan keeps its first parent.
    pub fn parent(&self, tid: u32) -> Option<u32> {
        let parent = self.known.get(&tid)?.parent;
        (parent.pid != 0).then_some(parent.pid)
    }

    /// The thread, the process that made its own, that one's maker, and so on: as far as is known, 64 at most.
    /// Ends before an id that has since been given to another process.
    pub fn ancestry(&self, tid: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.known.contains_key(&tid).then_some(tid);
        let above = |tid: &u32| {
            let parent = self.known.get(tid)?.parent;
            let same = self.known.get(&parent.pid).is_some_and(|p| p.birth == parent.birth);
            (parent.pid != 0 && same).then_some(parent.pid)
        };
        std::iter::successors(first, above).take(GENERATIONS)
    }

    /// How many tasks are known, ended ones included.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no task is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// How many tasks the bound kept out.
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

    /// Drops the task that ended first; false if none has ended.
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

    /// A snapshot names parents that may come after their children in it.
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
        Task { comm: None, pid, parent: NOBODY, birth: 0, from_record: false, ended: false }
    }
}

/// A name of TASK_COMM_LEN (include/linux/sched.h): at most 15 bytes, and NULs behind them. A copy of all 16 costs a fifth of one
/// of as many bytes as there are.
#[derive(Clone, Copy)]
struct Name([u8; 16]);

impl Name {
    /// The bytes before the first NUL, 15 at most.
    fn new(text: &[u8]) -> Name {
        let mut bytes = [0; 16];
        let name = text.iter().take(15).take_while(|byte| **byte != 0);
        bytes.iter_mut().zip(name).for_each(|(into, byte)| *into = *byte);
        Name(bytes)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        let len = self.0.iter().position(|byte| *byte == 0).unwrap_or(15);
        &self.0[..len]
    }
}

/// Spreads small, dense ids: one multiplication. Nobody gains from making ids collide.
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
        // The table takes its bucket from the low bits and its tag from the top seven.
        let mixed = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
