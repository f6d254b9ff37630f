//! Updates address spaces and mapped objects from the records of a run that takes stacks, and hands
//! records to the output, for a recording of the run.

use super::Host;
use crate::base::report::run_record::{RecordedSide, RunRecord, TaskChange};
use crate::decode::side_band::FileIdentity;
use crate::source::{SideBand, SideBandKind};
use crate::symbol::Ksymbol;
use crate::sys::tasks::other_threads;
use crate::task::maps::{Identity, Mapped};

impl Host {
    /// Updates the mappings of a process from a record. Does nothing in a run without stacks.
    pub(in crate::script) fn follow(&mut self, side: &SideBand<'_>) {
        self.context.with(|context| {
            let Some(programs) = &context.programs else { return };
            let mut programs = programs.borrow_mut();
            let now = || context.clock.clock_ns(side.time);
            programs.spaces.set_time(now());
            let mut ended = None;
            // Cached lookups of its addresses are valid only for the mappings before.
            let stale = match side.what {
                SideBandKind::Mmap { pid, .. } | SideBandKind::Comm { pid, exec: true, .. } => {
                    programs.spaces.known_space_of(pid)
                }
                SideBandKind::Exit { pid, tid } => {
                    ended = programs.spaces.on_exit(pid, tid, now(), || other_threads(pid));
                    ended
                }
                _ => None,
            };
            if let Some(space) = stale {
                context.unwinder.forget_space(space);
            }
            match side.what {
                SideBandKind::Fork { pid, tid, parent_pid, .. } => {
                    programs.spaces.on_fork(pid, tid, parent_pid);
                }
                SideBandKind::Comm { pid, exec: true, .. } => programs.spaces.on_exec(pid, now()),
                SideBandKind::Mmap { pid, address, length, offset, file, path, .. } => {
                    let (start, identity) = (address, identity(file));
                    programs.on_mmap(pid, &Mapped { start, length, offset, identity, path });
                }
                SideBandKind::Made { address, length, bpf, name } => {
                    context.symbols.on_ksymbol(&Ksymbol { address, length, bpf, name });
                }
                SideBandKind::Lost { of_tasks: true, .. } | SideBandKind::TasksLost => {
                    programs.spaces.on_lost();
                    context.unwinder.forget();
                }
                _ => {}
            }
            drop(programs);
            if let Some(space) = ended {
                context.naming.borrow_mut().on_exit(space);
            }
        });
    }

    /// Notes that all records up to a time (`CLOCK_MONOTONIC`) have been handled.
    pub(in crate::script) fn set_handled(&mut self, until_ns: u64) {
        self.context.with(|context| context.handled_ns = until_ns);
    }

    /// Hands a change of a task, or a loss, to the output. Omits tasks that are not watched if the
    /// run is about some tasks only: such tasks have no events.
    pub(super) fn record(&self, side: &SideBand<'_>) {
        let watched = side.watched;
        let task = |pid, tid, change| {
            let is_wanted = watched || !self.watches_some_tasks();
            is_wanted.then_some(RecordedSide::Task { pid, tid, watched, change })
        };
        let what = match side.what {
            SideBandKind::Fork { pid, tid, parent_pid, parent_tid } => {
                task(pid, tid, TaskChange::Fork { parent_pid, parent_tid })
            }
            SideBandKind::Comm { pid, tid, comm, exec: true } => {
                task(pid, tid, TaskChange::Exec { comm })
            }
            SideBandKind::Comm { pid, tid, comm, exec: false } => {
                task(pid, tid, TaskChange::Comm { comm })
            }
            SideBandKind::Exit { pid, tid } => task(pid, tid, TaskChange::Exit),
            SideBandKind::LossWindow { from, to } => {
                let length_ns = (to - from).max(0.0) as u64;
                return self.record_side(from, side.cpu, RecordedSide::LossWindow { length_ns });
            }
            SideBandKind::Lost { count, .. } => Some(RecordedSide::Lost { count }),
            _ => None,
        };
        what.into_iter().for_each(|what| self.record_side(side.time, side.cpu, what));
    }

    pub(super) fn record_side(&self, time: f64, cpu: u32, what: RecordedSide<'_>) {
        self.context.draw(time.max(0.0), |out, stamp| {
            out.run_record(stamp, &RunRecord::Side { cpu, what });
        });
    }
}

fn identity(file: FileIdentity<'_>) -> Identity {
    match file {
        FileIdentity::Inode { ino: 0, .. } => Identity::None,
        FileIdentity::Inode { maj, min, ino, ino_generation } => {
            Identity::Inode { major: maj, minor: min, inode: ino, generation: Some(ino_generation) }
        }
        FileIdentity::BuildId(id) => Identity::of_build_id(id).unwrap_or(Identity::None),
    }
}
