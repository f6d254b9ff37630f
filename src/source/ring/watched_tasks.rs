//! The watched threads and their children, according to the records of tasks.
//!
//! With `--cgroup`, the threads are those of control groups. A child is in the group of its parent.
//! No record reports that a thread moves to another group, so the group of a thread is read from
//! /proc when it executes a program or forks, and all threads of the groups are read once a second.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::sys::cgroup_threads::CgroupThreads;

/// Ended threads that are still watched: far more than can be exiting at a time, far fewer than it
/// takes until a thread ID is reused.
const ENDED: usize = 1024;

/// The threads of `-p`, `-t`, a workload or control groups, and their descendants.
pub(in crate::source) struct WatchedTasks {
    /// Birth numbers of the threads that live or ended recently: each is switched out once more
    /// after its exit record.
    births: HashMap<u32, u64>,
    /// The threads that ended last, with their birth numbers: the thread ID may have been reused.
    ended: VecDeque<(u32, u64)>,
    born: u64,
    /// The control groups whose threads are watched.
    cgroups: Option<CgroupThreads>,
}

impl WatchedTasks {
    /// Watches these threads.
    pub(in crate::source) fn of(tids: impl Iterator<Item = u32>) -> WatchedTasks {
        let births = tids.map(|tid| (tid, 0)).collect();
        WatchedTasks { births, ended: VecDeque::new(), born: 0, cgroups: None }
    }

    /// Watches the threads of control groups, from the next [`WatchedTasks::refresh`] on.
    pub(in crate::source) fn of_cgroups(cgroups: CgroupThreads) -> WatchedTasks {
        WatchedTasks { cgroups: Some(cgroups), ..WatchedTasks::of([].into_iter()) }
    }

    /// Reads which threads have moved into the control groups, or to others.
    pub(in crate::source) fn refresh(&mut self) {
        let Some(cgroups) = &self.cgroups else { return };
        let now = cgroups.now();
        // A thread that has ended stays until its last records have been read.
        let ended: HashSet<u32> = self.ended.iter().map(|(tid, _)| *tid).collect();
        self.births.retain(|tid, _| {
            now.contains(tid) || ended.contains(tid) || cgroups.contains(*tid) != Some(false)
        });
        now.into_iter().for_each(|tid| self.watch(tid));
    }

    /// Watches a thread if it has moved into one of the control groups.
    pub(in crate::source) fn look_up(&mut self, tid: u32) {
        let Some(cgroups) = self.cgroups.as_ref().filter(|_| !self.contains(tid)) else { return };
        if cgroups.contains(tid) == Some(true) {
            self.watch(tid);
        }
    }

    fn watch(&mut self, tid: u32) {
        self.born += 1;
        self.births.entry(tid).or_insert(self.born);
    }

    /// Returns whether a thread is watched.
    #[inline]
    pub(in crate::source) fn contains(&self, tid: u32) -> bool {
        self.births.contains_key(&tid)
    }

    /// Handles a fork: a child of a watched thread is watched. Another new thread is not, even if a
    /// watched thread had its ID before.
    pub(in crate::source) fn on_fork(&mut self, tid: u32, parent: u32) {
        self.look_up(parent);
        if self.contains(parent) {
            self.born += 1;
            self.births.insert(tid, self.born);
        } else {
            self.births.remove(&tid);
        }
    }

    /// Handles an exit.
    pub(in crate::source) fn on_exit(&mut self, tid: u32) {
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
        tasks.on_fork(6, 5);
        tasks.on_fork(7, 6);
        tasks.on_fork(8, 1);
        let watched = [5, 6, 7, 8].map(|tid| tasks.contains(tid));
        assert_eq!(watched, [true, true, true, false]);
    }

    #[test]
    fn a_reused_thread_id_is_not_watched() {
        let mut tasks = WatchedTasks::of([5].into_iter());
        tasks.on_fork(6, 5);
        tasks.on_exit(6);
        assert!(tasks.contains(6), "it is switched out once more");
        tasks.on_fork(6, 1);
        assert!(!tasks.contains(6));
    }

    #[test]
    fn a_watched_thread_with_a_reused_id_stays_watched() {
        let mut tasks = WatchedTasks::of([5].into_iter());
        tasks.on_fork(6, 5);
        tasks.on_exit(6);
        tasks.on_fork(6, 5);
        for tid in 100..2000 {
            tasks.on_fork(tid, 5);
            tasks.on_exit(tid);
        }
        assert!(tasks.contains(6) && tasks.contains(5) && !tasks.contains(100));
        assert_eq!(tasks.births.len(), ENDED + 2);
    }
}
