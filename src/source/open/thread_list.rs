//! The threads that events are opened for with -p and -t.
//!
//! A thread inherits the events that its creator has at that moment. One that is created after the
//! threads were listed, but before the events of its creator are open, has none of them, or only
//! some. The threads are therefore listed again once all events are open: if there are new ones,
//! all events are opened again. A process that creates threads faster than events can be opened is
//! watched by events of whole CPUs, whose records are checked by thread.

use anyhow::bail;

use crate::base::text::units::counted;
use crate::source::request::{Opening, SourceRequest};
use crate::sys::limits::raise_nofile;
use crate::sys::tasks::threads_of_all;

/// How often events are opened for lists of threads. Each attempt may take seconds, with hundreds
/// of threads and CPUs.
const ATTEMPTS: usize = 3;

/// A list of threads, and how often it was made.
pub(in crate::source) struct ThreadList<'a> {
    openings: &'a [Opening],
    request: &'a SourceRequest,
    /// Threads that were created by watched ones before.
    followed: Vec<i32>,
    /// None: events are opened for whole CPUs.
    threads: Option<Vec<i32>>,
    attempts: usize,
    remark: Option<String>,
}

impl<'a> ThreadList<'a> {
    /// Lists the threads to open these events for.
    ///
    /// # Errors
    /// The events need too many files, and cannot be opened for whole CPUs.
    pub(in crate::source) fn new(
        openings: &'a [Opening],
        request: &'a SourceRequest,
        followed: Vec<i32>,
    ) -> anyhow::Result<ThreadList<'a>> {
        let mut list =
            ThreadList { openings, request, followed, threads: None, attempts: 1, remark: None };
        list.read()?;
        Ok(list)
    }

    /// Returns the threads; None: events are opened for whole CPUs.
    pub(in crate::source) fn threads(&self) -> Option<&[i32]> {
        self.threads.as_deref()
    }

    /// Returns the remark for the user once the events are open.
    pub(in crate::source) fn into_remark(self) -> Option<String> {
        self.remark
    }

    /// Looks for threads that were created while the events were opened. Returns whether there are
    /// some; all events must then be opened again, with the new list. `may_watch_cpus`: the user
    /// may open events for whole CPUs.
    ///
    /// # Errors
    /// As [`ThreadList::new`].
    pub(in crate::source) fn list_again(&mut self, may_watch_cpus: bool) -> anyhow::Result<bool> {
        let Some(threads) = self.threads.as_ref().filter(|_| self.is_by_thread()) else {
            return Ok(false);
        };
        let new = self.request.threads_of_processes();
        let new = new.filter(|tid| threads.binary_search(tid).is_err()).count();
        if new == 0 {
            return Ok(false);
        }
        self.attempts += 1;
        if self.attempts <= ATTEMPTS {
            return self.read().map(|()| true);
        }
        let new = counted(new as u64, "thread");
        let must_stay = self.needs_threads() || !may_watch_cpus;
        self.remark = Some(match must_stay {
            true => format!(
                "{new} of -p began while events were opened and their events may be missing: \
                 threads begin faster than events can be opened for them"
            ),
            false => format!(
                "threads of -p begin faster than events can be opened for them ({new} meanwhile): \
                 events are opened for whole CPUs and filtered by thread in user space"
            ),
        });
        self.threads.take_if(|_| !must_stay);
        Ok(!must_stay)
    }

    /// Returns whether an event is opened for each thread.
    fn is_by_thread(&self) -> bool {
        self.openings.iter().any(|one| !one.is_cpu_wide() && one.cpu_time().is_none())
    }

    /// Returns whether events count without records: a sample carries its thread, but a count of a
    /// whole CPU cannot be split by thread.
    fn needs_threads(&self) -> bool {
        self.openings.iter().any(|one| one.sampling.count || !one.event.counted.is_empty())
    }

    fn read(&mut self) -> anyhow::Result<()> {
        let Some(asked) = &self.request.tasks else { return Ok(()) };
        let mut threads: Vec<i32> = self.request.threads_of_processes().collect();
        threads.extend(asked.iter().chain(&self.followed));
        threads.sort_unstable();
        threads.dedup();
        let limit = raise_nofile().soft;
        let files = |one: &Opening| one.cpus_of(&self.request.cpus).count() * one.files();
        let events: usize = self.openings.iter().map(files).sum();
        let wanted = (threads.len() * events + self.request.cpus.len()) as u64 + 64;
        let fits = wanted <= limit || self.request.workload;
        let count = counted(threads.len() as u64, "thread");
        if !fits && self.needs_threads() {
            bail!(
                "-p: {count} with these events need {wanted} files, the limit is {limit}; raise \
                 it with `ulimit -Hn {wanted}`, or watch fewer threads"
            );
        }
        self.threads = Some(threads).filter(|_| fits);
        self.remark = (!fits).then(|| {
            format!(
                "{count} with these events need {wanted} files, the limit is {limit}: events are \
                 opened for whole CPUs and filtered by thread in user space"
            )
        });
        Ok(())
    }
}

impl SourceRequest {
    /// Returns the living threads of `-p`.
    pub(in crate::source) fn threads_of_processes(&self) -> impl Iterator<Item = i32> {
        threads_of_all(&self.processes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::format::Format;
    use crate::event::kind::{Event, Tracepoint};
    use crate::event::sampling::Sampling;
    use crate::source::request::{MappingRecords, SampleParts};
    use crate::source::side_record::SideKinds;
    use std::process::Command;
    use std::rc::Rc;

    fn opening(count: bool) -> Opening {
        let format = Format::parse("name: sys_enter\nID: 1\n").unwrap();
        Opening {
            event: Rc::new(Event::new("raw_syscalls:sys_enter", Tracepoint { format })),
            glob: None,
            filter: None,
            sampling: Sampling { count, ..Sampling::default() },
            parts: SampleParts::ALL,
            roles: Vec::new(),
            follows_cgroups: false,
            pairs: None,
        }
    }

    fn request(pid: i32) -> SourceRequest {
        SourceRequest {
            cpus: vec![0],
            watched: vec![0],
            tasks: Some(vec![pid]),
            processes: vec![pid],
            cgroups: None,
            workload: false,
            off: Vec::new(),
            pages: None,
            watermark: 50,
            ordered: true,
            mmap: MappingRecords::Omitted,
            side: SideKinds::default(),
            watch_self: false,
            own_tids: Vec::new(),
        }
    }

    /// Calls `then` with the request for a process of one thread.
    fn with_process(then: impl FnOnce(i32, SourceRequest)) {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().cast_signed();
        then(pid, request(pid));
        child.kill().and_then(|()| child.wait()).unwrap();
    }

    #[test]
    fn events_are_opened_again_if_a_thread_began_meanwhile() {
        with_process(|pid, request| {
            let openings = [opening(false)];
            let mut list = ThreadList::new(&openings, &request, vec![7]).unwrap();
            assert_eq!(list.threads(), Some(&[7, pid][..]));
            assert!(!list.list_again(true).unwrap(), "no new thread");
            list.threads = Some(vec![7]);
            assert!(list.list_again(true).unwrap());
            assert_eq!(list.threads(), Some(&[7, pid][..]));
            assert!(!list.list_again(true).unwrap());
            assert_eq!(list.into_remark(), None);
        });
    }

    #[test]
    fn a_user_who_may_not_watch_whole_cpus_keeps_the_list() {
        with_process(|_, request| {
            let openings = [opening(false)];
            let mut list = ThreadList::new(&openings, &request, Vec::new()).unwrap();
            for _ in 0..ATTEMPTS {
                list.threads = Some(Vec::new());
                let _ = list.list_again(false).unwrap();
            }
            assert!(list.threads().is_some());
            assert!(list.into_remark().unwrap().contains("events may be missing"));
        });
    }

    #[test]
    fn whole_cpus_are_watched_if_threads_always_begin_meanwhile() {
        with_process(|_, request| {
            for count in [false, true] {
                let openings = [opening(count)];
                let mut list = ThreadList::new(&openings, &request, Vec::new()).unwrap();
                for _ in 1..ATTEMPTS {
                    list.threads = Some(Vec::new());
                    assert!(list.list_again(true).unwrap());
                }
                list.threads = Some(Vec::new());
                assert_eq!(list.list_again(true).unwrap(), !count);
                assert_eq!(list.threads().is_none(), !count, "counts need a list");
                assert!(!list.list_again(true).unwrap() || count);
                let remark = list.into_remark().unwrap();
                let wanted = ["opened for whole CPUs", "events may be missing"][usize::from(count)];
                assert!(remark.contains(wanted), "{remark}");
            }
        });
    }
}
