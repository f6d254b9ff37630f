//! The tasks of a recording that `-p` and `-t` select: with their children, as in a live run.

use std::collections::HashMap;

/// The selected tasks at a time of the recording.
pub(super) struct RecordedTasks<'a> {
    pids: &'a [u32],
    tids: &'a [u32],
    /// Threads that selected ones have created, each with the thread whose events it inherited: a
    /// live run counts it there.
    children: HashMap<u32, u32>,
}

impl<'a> RecordedTasks<'a> {
    /// Returns the processes of `-p` and the threads of `-t`; all tasks if there are none.
    pub(super) fn new(pids: &'a [u32], tids: &'a [u32]) -> Self {
        RecordedTasks { pids, tids, children: HashMap::new() }
    }

    fn are_all(&self) -> bool {
        self.pids.is_empty() && self.tids.is_empty()
    }

    /// Selects a new thread if its parent is selected. A thread ID may be reused.
    pub(super) fn on_fork(&mut self, tid: u32, parent_pid: u32, parent_tid: u32) {
        if self.are_all() {
            return;
        }
        if self.contains(parent_pid, parent_tid) {
            self.children.insert(tid, self.counted_in(parent_tid));
        } else {
            self.children.remove(&tid);
        }
    }

    /// Returns whether a thread is selected.
    pub(super) fn contains(&self, pid: u32, tid: u32) -> bool {
        self.are_all()
            || self.pids.contains(&pid)
            || self.tids.contains(&tid)
            || self.children.contains_key(&tid)
    }

    /// Returns the thread that a live run counts the events of a selected thread in.
    pub(super) fn counted_in(&self, tid: u32) -> u32 {
        self.children.get(&tid).copied().unwrap_or(tid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_children_and_grandchildren_of_a_process_are_selected() {
        let mut tasks = RecordedTasks::new(&[10], &[]);
        assert!(tasks.contains(10, 10) && tasks.contains(10, 11) && !tasks.contains(20, 20));
        tasks.on_fork(20, 10, 11);
        tasks.on_fork(30, 20, 20);
        tasks.on_fork(41, 40, 40);
        assert!(tasks.contains(20, 20) && tasks.contains(30, 30) && !tasks.contains(40, 41));
        assert_eq!([11, 20, 30].map(|tid| tasks.counted_in(tid)), [11; 3]);
        tasks.on_fork(20, 40, 40);
        assert!(!tasks.contains(20, 20), "the thread ID was reused");
    }

    #[test]
    fn of_a_thread_only_what_it_creates_is_selected() {
        let mut tasks = RecordedTasks::new(&[], &[11]);
        tasks.on_fork(12, 10, 10);
        tasks.on_fork(13, 10, 11);
        let selected = [10, 11, 12, 13].map(|tid| tasks.contains(10, tid));
        assert_eq!(selected, [false, true, false, true]);
    }

    #[test]
    fn without_options_every_task_is_selected() {
        let mut tasks = RecordedTasks::new(&[], &[]);
        tasks.on_fork(12, 10, 10);
        assert!(tasks.contains(5, 6) && tasks.counted_in(12) == 12);
    }
}
