//! The watched threads and their children, according to the records of tasks.
//!
//! With `--cgroup`, the threads are those of control groups. A child is in the group of its parent
//! until it moves, or executes a program in another group ([`CgroupRecord`]). Without such records,
//! the group of a thread is read from /proc when it executes a program or forks.
//!
//! All threads of the groups are read once a second as well: a record may be lost, a thread may be
//! cloned into another group without executing a program, and the record of a process that moves
//! names only one of its threads. With records, a difference counts only if it is still there a
//! second later, when everything that was written before it has been handled.
//!
//! [`CgroupRecord`]: super::cgroup_records::CgroupRecord

use std::collections::{HashMap, HashSet, VecDeque};

use super::lone_threads::LoneThreads;
use crate::base::text::units::counted;
use crate::sys::cgroup_threads::CgroupThreads;
use crate::sys::tasks::{any_alive, process_of, threads_of};

/// Ended threads that are still watched: far more than can be exiting at a time, far fewer than it
/// takes until a thread ID is reused.
const ENDED: usize = 1024;

/// Maximum number of threads whose groups are read when their process moves. The others are found
/// by [`WatchedTasks::refresh`].
const MOVED_MAX: usize = 1024;

/// The threads of `-p`, `-t`, a workload or control groups, and their descendants.
pub(in crate::source) struct WatchedTasks {
    /// Birth numbers of the threads that live or ended recently: each is switched out once more
    /// after its exit record.
    births: HashMap<u32, u64>,
    /// The threads that ended last, with their birth numbers: the thread ID may have been reused.
    ended: VecDeque<(u32, u64)>,
    born: u64,
    /// Watched threads of processes whose first thread is not watched.
    lone: LoneThreads,
    /// The control groups whose threads are watched.
    cgroups: Option<CgroupThreads>,
    /// The thread of a workload that has not executed its program yet; watched from then on.
    awaited: Option<u32>,
    /// Threads that were cloned into a group that is not known: they ended before it was read.
    unknown: HashSet<u32>,
    /// Threads of which no record reported the group before they ended.
    unfollowed: u64,
    /// Whether records report the groups of threads.
    is_reported: bool,
    /// The result of the last [`WatchedTasks::refresh`].
    listed: Listed,
}

/// Threads as the files of control groups and /proc had them.
#[derive(Default)]
struct Listed {
    /// Those of the groups.
    now: HashSet<u32>,
    /// Watched threads that were not among them.
    away: HashSet<u32>,
}

impl WatchedTasks {
    /// Watches these threads.
    pub(in crate::source) fn of(tids: impl Iterator<Item = u32>) -> WatchedTasks {
        let births: HashMap<u32, u64> = tids.map(|tid| (tid, 0)).collect();
        let process_of = |tid: &u32| process_of(tid.cast_signed()).map(i32::cast_unsigned).ok();
        let lone = births.keys().filter_map(|tid| Some((*tid, process_of(tid)?)));
        let lone = LoneThreads::of(lone.filter(|(_, process)| !births.contains_key(process)));
        WatchedTasks {
            births,
            ended: VecDeque::new(),
            born: 0,
            lone,
            cgroups: None,
            awaited: None,
            unknown: HashSet::new(),
            unfollowed: 0,
            is_reported: false,
            listed: Listed::default(),
        }
    }

    /// Watches the thread of a workload from the moment when it executes its program.
    pub(in crate::source) fn from_exec_of(tid: u32) -> WatchedTasks {
        WatchedTasks { awaited: Some(tid), ..WatchedTasks::of([].into_iter()) }
    }

    /// Watches the threads of control groups, from the next [`WatchedTasks::refresh`] on.
    pub(in crate::source) fn of_cgroups(cgroups: CgroupThreads) -> WatchedTasks {
        WatchedTasks { cgroups: Some(cgroups), ..WatchedTasks::of([].into_iter()) }
    }

    /// Reads which threads are in the control groups; `is_reported`: records report it from now on.
    pub(in crate::source) fn read_cgroups(&mut self, is_reported: bool) {
        self.is_reported = false;
        self.refresh();
        self.is_reported = is_reported;
    }

    /// Reads again which threads are in the control groups.
    pub(in crate::source) fn refresh(&mut self) {
        let Some(cgroups) = &mut self.cgroups else { return };
        cgroups.forget_unknown();
        let now = cgroups.now();
        // A thread that has ended stays until its last records have been read.
        let ended: HashSet<u32> = self.ended.iter().map(|(tid, _)| *tid).collect();
        let away = self.births.keys().filter(|tid| !now.contains(tid) && !ended.contains(tid));
        let away = away.map(|tid| (*tid, cgroups.contains(*tid)));
        let away: HashMap<u32, Option<bool>> =
            away.filter(|(_, is_in)| *is_in != Some(true)).collect();
        let (was, is_reported) = (&self.listed, self.is_reported);
        let is_left = |tid: &u32| match away.get(tid) {
            // It has just ended, or its exit record is lost.
            Some(None) => was.away.contains(tid),
            Some(Some(_)) => !is_reported || was.away.contains(tid),
            None => false,
        };
        self.births.retain(|tid, _| !is_left(tid));
        let is_new = |tid: &&u32| !is_reported || was.now.contains(tid);
        let new: Vec<u32> = now.iter().filter(is_new).copied().collect();
        new.into_iter().for_each(|tid| self.watch(tid));
        self.listed = Listed { now, away: away.into_keys().collect() };
    }

    /// Handles the exec of a thread.
    pub(in crate::source) fn on_exec(&mut self, tid: u32) {
        if self.awaited == Some(tid) {
            self.watch_awaited();
        }
        // A thread other than the first one gets the number of that, whose exit was recorded.
        if let Some(birth) = self.births.get_mut(&tid) {
            self.born += 1;
            *birth = self.born;
        } else if self.lone.on_exec(tid) {
            self.watch(tid);
        }
        // Records of its group follow, but callbacks for this record come before them.
        self.look_up(tid);
    }

    /// Watches the thread of a workload even if no record of its exec has been read: it may be
    /// lost.
    pub(in crate::source) fn watch_awaited(&mut self) {
        if let Some(tid) = self.awaited.take() {
            self.watch(tid);
        }
    }

    /// Watches a thread if it has moved into one of the control groups.
    fn look_up(&mut self, tid: u32) {
        let Some(cgroups) = self.cgroups.as_ref().filter(|_| !self.contains(tid)) else { return };
        if cgroups.contains(tid) == Some(true) {
            self.watch(tid);
        }
    }

    /// Remembers whether a group is watched. Returns false if it is in another hierarchy.
    pub(in crate::source) fn remember_cgroup(
        &mut self,
        hierarchy: u64,
        id: u64,
        path: &[u8],
    ) -> bool {
        self.cgroups.as_mut().is_some_and(|cgroups| cgroups.remember_path(hierarchy, id, path))
    }

    /// Handles a record of a thread that is in a group.
    pub(in crate::source) fn on_cgroup(&mut self, tid: u32, id: u64) {
        let Some(cgroups) = &mut self.cgroups else { return };
        let is_in = cgroups.has_group(id).or_else(|| cgroups.contains(tid));
        self.unknown.remove(&tid);
        self.set_watched(tid, is_in);
    }

    /// Handles a thread that was cloned into another group than that of its parent. No record has
    /// the group before the thread executes a program.
    pub(in crate::source) fn on_clone(&mut self, tid: u32) {
        let Some(is_in) = self.cgroups.as_ref().map(|cgroups| cgroups.contains(tid)) else {
            return;
        };
        self.set_watched(tid, is_in);
        if is_in.is_none() && self.unknown.len() < ENDED {
            self.unknown.insert(tid);
        } else if is_in.is_none() {
            self.unfollowed += 1;
        }
    }

    /// Returns warnings for the user: watched groups that were removed and, `at_end`, threads whose
    /// group is not known.
    pub(in crate::source) fn take_warnings(&mut self, at_end: bool) -> Vec<String> {
        let removed = self.cgroups.as_mut().map_or(Vec::new(), CgroupThreads::take_removed);
        let removed = removed.into_iter().map(|group| {
            format!(
                "cgroup {group} was removed; one with its name that is made later is not watched"
            )
        });
        let unfollowed = (at_end && self.unfollowed > 0).then(|| {
            let tasks = counted(self.unfollowed, "task");
            format!(
                "{tasks} ended before perilune could read into which cgroup they were cloned: \
                 events about them are missing, or are of another cgroup"
            )
        });
        removed.chain(unfollowed).collect()
    }

    /// Handles the move of a thread to a group. If it leads a process, all of its threads may have
    /// moved with it.
    pub(in crate::source) fn on_move(&mut self, tid: u32, id: u64) {
        let was_watched = self.contains(tid);
        self.on_cgroup(tid, id);
        let Some(cgroups) = self.cgroups.as_ref().filter(|_| was_watched || self.contains(tid))
        else {
            return;
        };
        let threads = threads_of(tid.cast_signed()).unwrap_or_default();
        let others = threads.into_iter().map(i32::cast_unsigned).filter(|other| *other != tid);
        let others = others.take(MOVED_MAX).map(|other| (other, cgroups.contains(other)));
        let others: Vec<_> = others.collect();
        others.into_iter().for_each(|(other, is_in)| self.set_watched(other, is_in));
    }

    /// Watches a thread or not; `is_in` is None if it has ended and its group is unknown.
    fn set_watched(&mut self, tid: u32, is_in: Option<bool>) {
        match is_in {
            Some(true) => self.watch(tid),
            Some(false) => drop(self.births.remove(&tid)),
            None => {}
        }
    }

    /// Watches a thread, if it is not watched already.
    pub(in crate::source) fn watch(&mut self, tid: u32) {
        self.born += 1;
        self.births.entry(tid).or_insert(self.born);
    }

    /// Returns the watched threads whose end has not been recorded.
    pub(in crate::source) fn living(&self) -> impl Iterator<Item = u32> {
        let ended: HashSet<&(u32, u64)> = self.ended.iter().collect();
        let births = self.births.iter().map(|(tid, birth)| (*tid, *birth));
        births.filter(move |task| !ended.contains(task)).map(|(tid, _)| tid)
    }

    /// Returns whether a thread is watched.
    #[inline]
    pub(in crate::source) fn contains(&self, tid: u32) -> bool {
        self.births.contains_key(&tid)
    }

    /// Returns whether a selected thread may have continued as the first one of its process, by an
    /// exec, and lives. If the record of its end is lost, this holds until its process ends.
    pub(in crate::source) fn have_continued(&self) -> bool {
        any_alive(&self.lone.processes())
    }

    /// Handles a fork: a child of a watched thread is watched. Another new thread is not, even if a
    /// watched thread had its ID before.
    pub(in crate::source) fn on_fork(&mut self, tid: u32, pid: u32, parent: u32) {
        self.lone.on_fork(tid, pid, parent);
        if !self.is_reported {
            self.look_up(parent);
        }
        if self.contains(parent) {
            self.born += 1;
            self.births.insert(tid, self.born);
        } else {
            self.births.remove(&tid);
        }
    }

    /// Handles an exit.
    pub(in crate::source) fn on_exit(&mut self, tid: u32) {
        self.unfollowed += u64::from(self.unknown.remove(&tid));
        if let Some(process) = self.lone.on_exit(tid) {
            self.births.remove(&process);
        }
        let Some(birth) = self.births.get(&tid) else { return };
        self.ended.push_back((tid, *birth));
        if self.ended.len() > ENDED
            && let Some((tid, birth)) = self.ended.pop_front()
            && self.births.get(&tid) == Some(&birth)
        {
            self.births.remove(&tid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_watched_threads_are_watched() {
        let mut tasks = WatchedTasks::of([5].into_iter());
        tasks.on_fork(6, 6, 5);
        tasks.on_fork(7, 7, 6);
        tasks.on_fork(8, 8, 1);
        let watched = [5, 6, 7, 8].map(|tid| tasks.contains(tid));
        assert_eq!(watched, [true, true, true, false]);
    }

    #[test]
    fn a_workload_is_watched_from_its_exec_on() {
        let mut tasks = WatchedTasks::from_exec_of(5);
        tasks.on_fork(6, 6, 5);
        tasks.on_exec(6);
        assert!(!tasks.contains(5) && !tasks.contains(6));
        tasks.on_exec(5);
        tasks.on_fork(7, 7, 5);
        assert!(tasks.contains(5) && tasks.contains(7) && !tasks.contains(6));
    }

    #[test]
    fn a_program_that_another_thread_executes_stays_watched() {
        let mut tasks = WatchedTasks::of([5, 6].into_iter());
        tasks.on_exit(5);
        tasks.on_exec(5);
        for tid in 100..100 + 2 * ENDED as u32 {
            tasks.on_fork(tid, tid, 6);
            tasks.on_exit(tid);
        }
        assert!(tasks.contains(5) && !tasks.contains(100));
    }

    #[test]
    fn a_thread_that_executes_a_program_is_watched_as_its_process() {
        let watched = || WatchedTasks {
            lone: LoneThreads::of([(6, 5)].into_iter()),
            ..WatchedTasks::of([6].into_iter())
        };
        let (mut executes, mut ends, mut ends_late) = (watched(), watched(), watched());
        executes.on_exec(5);
        ends.on_exit(6);
        ends.on_exec(5);
        ends_late.on_exec(5);
        ends_late.on_exit(6);
        let are_watched = [executes, ends, ends_late].map(|tasks| tasks.contains(5));
        assert_eq!(are_watched, [true, false, false]);
    }

    #[test]
    fn a_workload_is_watched_if_the_record_of_its_exec_may_be_lost() {
        let mut tasks = WatchedTasks::from_exec_of(5);
        tasks.watch_awaited();
        assert!(tasks.contains(5));
    }

    #[test]
    fn a_cloned_thread_that_ends_before_its_group_is_read_is_reported() {
        let Some(cgroups) = CgroupThreads::of(vec!["/none".into()]) else { return };
        let mut tasks = WatchedTasks::of_cgroups(cgroups);
        // No thread has these IDs. Another record reports the group of the first one.
        tasks.on_clone(u32::MAX - 1);
        tasks.on_cgroup(u32::MAX - 1, u64::MAX);
        tasks.on_exit(u32::MAX - 1);
        assert_eq!(tasks.unfollowed, 0);
        tasks.on_clone(u32::MAX - 2);
        tasks.on_exit(u32::MAX - 2);
        assert!(tasks.take_warnings(false).is_empty());
        assert!(tasks.take_warnings(true)[0].starts_with("1 task ended before perilune could"));
    }

    #[test]
    fn a_reused_thread_id_is_not_watched() {
        let mut tasks = WatchedTasks::of([5].into_iter());
        tasks.on_fork(6, 6, 5);
        tasks.on_exit(6);
        assert!(tasks.contains(6), "it is switched out once more");
        assert_eq!(tasks.living().collect::<Vec<_>>(), [5]);
        tasks.on_fork(6, 6, 1);
        assert!(!tasks.contains(6));
    }

    #[test]
    fn a_watched_thread_with_a_reused_id_stays_watched() {
        let mut tasks = WatchedTasks::of([5].into_iter());
        tasks.on_fork(6, 6, 5);
        tasks.on_exit(6);
        tasks.on_fork(6, 6, 5);
        for tid in 100..2000 {
            tasks.on_fork(tid, tid, 5);
            tasks.on_exit(tid);
        }
        assert!(tasks.contains(6) && tasks.contains(5) && !tasks.contains(100));
        assert_eq!(tasks.births.len(), ENDED + 2);
    }
}
