//! The tasks whose events are counted in the kernel: threads, with their children, or the members
//! of control groups.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;

use super::{HeldProgram, ProgramPlace, refused};
use crate::bpf::task_scope::{FollowedTasksMaps, TaskScope, WAITING, WATCHED};
use crate::event::kind::Event;
use crate::sys::bpf::{BpfMap, BpfMapType};
use crate::sys::errno::errno;
use crate::sys::refusal::Refusal;
use crate::sys::tasks::threads_of_all;

/// The tasks whose events are counted.
pub enum CountedTasks {
    /// All.
    All,
    /// These threads and their children.
    Threads(WatchedThreads),
    /// Members of these control groups of version 2, and of those below them.
    Cgroups(Vec<OwnedFd>),
}

/// Threads to watch, and the events that show their children and their end.
pub struct WatchedThreads {
    /// The threads, in the kernel's numbers.
    pub threads: Vec<i32>,
    /// The processes whose threads they are, if they are all threads of processes.
    pub processes: Vec<i32>,
    /// Whether their events count only after their next exec.
    pub after_exec: bool,
    /// `task:task_newtask`.
    pub new_task: FollowedEvent,
    /// `sched:sched_process_exit`, if the kernel closes a thread's perf events just after it.
    pub exit: Option<FollowedEvent>,
    /// `sched:sched_process_free`.
    pub free: FollowedEvent,
    /// `task:task_rename`.
    pub rename: FollowedEvent,
}

/// An event that shows children or an end.
#[derive(Clone)]
pub struct FollowedEvent {
    /// The event.
    pub event: Rc<Event>,
    /// Where its program runs.
    pub place: ProgramPlace,
}

impl FollowedEvent {
    /// Attaches a program. `cpu` is any online CPU.
    fn hold(&self, code: &[u64], cpu: u32) -> Result<HeldProgram, Refusal> {
        HeldProgram::without_role(code, &self.event, &self.place, cpu)
    }

    /// Returns the offset of a field of this many bytes.
    fn offset_of(&self, field: &str, bytes: usize) -> Option<i16> {
        i16::try_from(self.event.kind().raw_format()?.offset_of(field, bytes)?).ok()
    }
}

/// Limit of the threads that are watched at once.
pub const THREADS_MAX: usize = 1 << 15;

/// Maximum number of lists of the threads of a process that are read before the run.
const LISTS_MAX: usize = 8;

/// The maps of watched tasks, and the programs that keep them true.
#[derive(Default)]
pub(super) struct FollowedTasks {
    threads: Option<BpfMap>,
    unfollowed: Option<BpfMap>,
    cgroups: Option<(BpfMap, u32)>,
    /// The programs at new tasks and at the execution of a program.
    held: Vec<HeldProgram>,
    /// The programs at the end of a thread.
    ends: Vec<HeldProgram>,
    /// The event at the end of a thread, the attached program that runs there until the programs
    /// that count are attached, and its code: the kernel attaches a program to an event once.
    early_end: Option<(FollowedEvent, HeldProgram, Vec<u64>)>,
}

impl FollowedTasks {
    /// Begins to follow tasks; [`FollowedTasks::count_ends`] must follow. `cpu` is any online
    /// CPU.
    ///
    /// # Errors
    /// The kernel refuses a map, an event, a program or its attachment.
    pub(super) fn open(tasks: &CountedTasks, cpu: u32) -> Result<FollowedTasks, Refusal> {
        match tasks {
            CountedTasks::All => Ok(FollowedTasks::default()),
            CountedTasks::Threads(watched) => FollowedTasks::of_threads(watched, cpu),
            CountedTasks::Cgroups(groups) => {
                let map = BpfMap::create(BpfMapType::CgroupArray, 4, groups.len())?;
                for (index, group) in (0u32..).zip(groups) {
                    set(map.set_file(index, group.as_fd()))?;
                }
                let cgroups = Some((map, groups.len() as u32));
                Ok(FollowedTasks { cgroups, ..FollowedTasks::default() })
            }
        }
    }

    fn of_threads(watched: &WatchedThreads, cpu: u32) -> Result<FollowedTasks, Refusal> {
        let threads = BpfMap::create(BpfMapType::Hash, 4, THREADS_MAX)?;
        let unfollowed = BpfMap::create(BpfMapType::PerCpuArray, 8, 1)?;
        let state = if watched.after_exec { WAITING } else { WATCHED };
        for thread in &watched.threads {
            set(threads.set_number(thread.cast_unsigned(), state))?;
        }
        let maps = FollowedTasksMaps { threads: threads.number(), unfollowed: unfollowed.number() };
        let child = watched.new_task.offset_of("pid", 4);
        let new_task = child.and_then(|child| maps.at_new_task(child));
        let thread = watched.free.offset_of("pid", 4);
        let free = thread.and_then(|thread| maps.at_free(thread, watched.exit.is_some()));
        let mut programs = vec![(&watched.new_task, new_task)];
        if watched.after_exec || watched.exit.is_some() {
            programs.push((&watched.rename, maps.at_rename()));
        }
        let hold = |event: &FollowedEvent, code: Option<Vec<u64>>| {
            event.hold(&code.ok_or_else(|| refused(libc::EINVAL))?, cpu)
        };
        let mut held = Vec::new();
        for (event, code) in programs {
            held.push(hold(event, code)?);
        }
        let mut ends = Vec::new();
        let (end_event, end) = match &watched.exit {
            Some(exit) => {
                ends.push(hold(&watched.free, free)?);
                (exit, maps.at_exit())
            }
            None => (&watched.free, free),
        };
        let end = end.ok_or_else(|| refused(libc::EINVAL))?;
        let early = end_event.hold(&end, cpu)?;
        // Threads that were created after the list was made, before their parents were followed.
        // Each may create others before it is followed itself.
        let mut known: HashSet<i32> = watched.threads.iter().copied().collect();
        for _ in 0..LISTS_MAX {
            let all = threads_of_all(&watched.processes);
            let new: Vec<i32> = all.filter(|thread| known.insert(*thread)).collect();
            if new.is_empty() {
                break;
            }
            for thread in new {
                set(threads.set_number(thread.cast_unsigned(), state))?;
            }
        }
        Ok(FollowedTasks {
            threads: Some(threads),
            unfollowed: Some(unfollowed),
            cgroups: None,
            held,
            ends,
            early_end: Some((end_event.clone(), early, end)),
        })
    }

    /// Attaches the program at the end of threads again. Must be called when the programs that
    /// count are attached: the kernel runs those of one event in the order in which they were
    /// attached.
    ///
    /// # Errors
    /// The kernel refuses the event or the attachment.
    pub(super) fn count_ends(&mut self, cpu: u32) -> Result<(), Refusal> {
        if let Some((event, early, code)) = self.early_end.take() {
            self.ends.push(event.hold(&code, cpu)?);
            drop(early);
        }
        Ok(())
    }

    /// Returns the limit for the programs that count.
    pub(super) fn scope(&self) -> TaskScope {
        TaskScope {
            threads: self.threads.as_ref().map(BpfMap::number),
            cgroups: self.cgroups.as_ref().map(|(map, count)| (map.number(), *count)),
        }
    }

    /// Returns how many children of watched threads were not followed for lack of room.
    pub(super) fn unfollowed(&self) -> u64 {
        let values = self.unfollowed.as_ref().and_then(|map| map.of_cpus(0).ok());
        let words = values.iter().flatten().filter_map(|value| super::word(value));
        words.sum()
    }

    /// Returns how many new threads and executed programs, of any process, were missed because
    /// another program ran on the CPU. A thread that is missed at its end stays until its number is
    /// used again; what it does after its exit counts.
    pub(super) fn missed(&self) -> u64 {
        HeldProgram::missed(&self.held)
    }

    /// Returns the number of tracepoints that are closed when this is dropped.
    pub(super) fn tracepoints(&self) -> usize {
        self.held.len() + self.ends.len()
    }
}

fn set(result: io::Result<()>) -> Result<(), Refusal> {
    result.map_err(|why| refused(errno(&why)))
}
