//! The watched threads and their children, according to the records of tasks.

use std::collections::{HashMap, VecDeque};

/// Ended threads that are still watched: far more than can be exiting at a time, far fewer than it
/// takes until a thread ID is reused.
const ENDED: usize = 1024;

/// The threads of `-p`, `-t` or a workload, and their descendants.
pub(in crate::source) struct WatchedTasks {
    /// Birth numbers of the threads that live or ended recently: each is switched out once more
    /// after its exit record.
    births: HashMap<u32, u64>,
    /// The threads that ended last, with their birth numbers: the thread ID may have been reused.
    ended: VecDeque<(u32, u64)>,
    born: u64,
}

impl WatchedTasks {
    /// Watches these threads.
    pub(in crate::source) fn of(tids: impl Iterator<Item = u32>) -> WatchedTasks {
        let births = tids.map(|tid| (tid, 0)).collect();
        WatchedTasks { births, ended: VecDeque::new(), born: 0 }
    }

    /// Returns whether a thread is watched.
    #[inline]
    pub(in crate::source) fn contains(&self, tid: u32) -> bool {
        self.births.contains_key(&tid)
    }

    /// Handles a fork: a child of a watched thread is watched. Another new thread is not, even if a
    /// watched thread had its ID before.
    pub(in crate::source) fn on_fork(&mut self, tid: u32, parent: u32) {
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
