//! The threads that are watched, with their children, as the records of tasks tell of them.

use std::collections::{HashMap, VecDeque};

/// So many threads that ended are still watched: far more than can be on their last way out, far
/// fewer than it takes for a number to be given anew.
const ENDED: usize = 1024;

/// The threads of `-p`, `-t` or a workload, and those that they started.
pub(super) struct WatchedTasks {
    /// The births of those that live or ended a short while ago: each is switched out once more
    /// after the record of its end.
    births: HashMap<u32, u64>,
    /// Those that ended last, with their births: the number may be another task's by now.
    ended: VecDeque<(u32, u64)>,
    born: u64,
}

impl WatchedTasks {
    /// These threads.
    pub(super) fn of(tids: impl Iterator<Item = u32>) -> WatchedTasks {
        let births = tids.map(|tid| (tid, 0)).collect();
        WatchedTasks { births, ended: VecDeque::new(), born: 0 }
    }

    /// Whether a thread is watched.
    #[inline]
    pub(super) fn contains(&self, tid: u32) -> bool {
        self.births.contains_key(&tid)
    }

    /// Takes the record of a fork: a child of a watched thread is watched. Another one is not,
    /// though a watched thread may have had its number.
    pub(super) fn on_fork(&mut self, tid: u32, parent: u32) {
        if self.contains(parent) {
            self.born += 1;
            self.births.insert(tid, self.born);
        } else {
            self.births.remove(&tid);
        }
    }

    /// Takes the record of an end.
    pub(super) fn on_exit(&mut self, tid: u32) {
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
    fn a_number_that_another_task_has_by_now_is_not_watched() {
        let mut tasks = WatchedTasks::of([5].into_iter());
        tasks.on_fork(6, 5);
        tasks.on_exit(6);
        assert!(tasks.contains(6), "it is switched out once more");
        tasks.on_fork(6, 1);
        assert!(!tasks.contains(6));
    }

    #[test]
    fn a_watched_thread_keeps_a_number_that_one_before_it_had() {
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
