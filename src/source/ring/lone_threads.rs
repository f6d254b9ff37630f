//! Watched threads of processes whose first thread is not watched, as `-t` selects them.
//!
//! If such a thread executes a program, it continues under the number of the first thread
//! (`de_thread()` in fs/exec.c). No record has both numbers, but its old one has no EXIT record, as
//! that of each other thread of the process has. A run that does not order its records may handle
//! an EXIT record after that of the exec; the process is not watched from then on.

use std::collections::HashMap;

/// The threads, and the processes in which they have executed a program.
#[derive(Default)]
pub(super) struct LoneThreads {
    threads: HashMap<u32, LoneThread>,
    continued: Vec<ContinuedThread>,
}

#[derive(Clone, Copy)]
struct LoneThread {
    process: u32,
    /// Whether the run ends with it.
    is_selected: bool,
}

/// A thread that has executed a program.
struct ContinuedThread {
    /// Its old number; None if that is in use again.
    tid: Option<u32>,
    lone: LoneThread,
}

impl LoneThreads {
    /// Creates a list of the selected threads, each with its process, whose first thread must not
    /// be watched.
    pub(super) fn of(selected: impl Iterator<Item = (u32, u32)>) -> LoneThreads {
        let lone = |process| LoneThread { process, is_selected: true };
        let threads = selected.map(|(tid, process)| (tid, lone(process))).collect();
        LoneThreads { threads, ..LoneThreads::default() }
    }

    /// Handles a fork by any thread.
    pub(super) fn on_fork(&mut self, tid: u32, process: u32, parent: u32) {
        let of_tid = self.continued.iter_mut().filter(|one| one.tid == Some(tid));
        of_tid.for_each(|one| one.tid = None);
        let by = self.threads.get(&parent).filter(|lone| lone.process == process).copied();
        match by {
            Some(lone) => self.threads.insert(tid, LoneThread { is_selected: false, ..lone }),
            None => self.threads.remove(&tid),
        };
    }

    /// Handles the exec of a process whose first thread is not watched. Returns whether one of
    /// these threads has executed the program.
    pub(super) fn on_exec(&mut self, process: u32) -> bool {
        let of_process = self.threads.iter().filter(|(_, lone)| lone.process == process);
        let continued =
            of_process.map(|(tid, lone)| ContinuedThread { tid: Some(*tid), lone: *lone });
        let before = self.continued.len();
        self.continued.extend(continued);
        self.threads.retain(|_, lone| lone.process != process);
        self.continued.len() > before
    }

    /// Handles an exit. Returns a process that is not watched any longer: the thread has not
    /// executed the program.
    pub(super) fn on_exit(&mut self, tid: u32) -> Option<u32> {
        self.threads.remove(&tid);
        let at = self.continued.iter().position(|one| one.tid == Some(tid))?;
        let process = self.continued.swap_remove(at).lone.process;
        let is_other = |one: &ContinuedThread| one.lone.process != process;
        self.continued.iter().all(is_other).then_some(process)
    }

    /// Returns the processes in which selected threads may continue.
    pub(super) fn processes(&self) -> Vec<i32> {
        let lone = self.threads.values().chain(self.continued.iter().map(|one| &one.lone));
        lone.filter(|lone| lone.is_selected).map(|lone| lone.process.cast_signed()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_an_exit_has_executed_the_program() {
        let mut lone = LoneThreads::of([(6, 5), (7, 5), (16, 15)].into_iter());
        assert_eq!(lone.on_exit(7), None);
        assert!(lone.on_exec(5) && !lone.on_exec(8));
        let mut processes = lone.processes();
        processes.sort_unstable();
        assert_eq!(processes, [5, 15]);
        // Another thread with its old number.
        lone.on_fork(6, 100, 100);
        assert_eq!(lone.on_exit(6), None);
        assert_eq!(lone.on_exit(16), None);
        assert!(!lone.on_exec(15));
        assert_eq!(lone.processes(), [5]);
    }

    #[test]
    fn a_late_exit_shows_that_another_thread_executed_the_program() {
        let mut lone = LoneThreads::of([(6, 5)].into_iter());
        assert!(lone.on_exec(5));
        assert_eq!(lone.on_exit(6), Some(5));
        assert_eq!(lone.processes(), [0; 0]);
    }

    #[test]
    fn a_run_does_not_continue_with_a_thread_that_a_selected_one_created() {
        let mut lone = LoneThreads::of([(6, 5)].into_iter());
        lone.on_fork(7, 5, 6);
        lone.on_fork(8, 8, 6);
        lone.on_exit(6);
        assert_eq!(lone.processes(), [0; 0]);
        assert!(lone.on_exec(5) && !lone.on_exec(8));
        assert_eq!(lone.processes(), [0; 0]);
    }
}
