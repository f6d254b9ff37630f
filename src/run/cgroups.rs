//! `--cgroup`: opens the events of a run once per control group.
//!
//! The kernel counts and samples only while a task of the group, or of a group below it, runs
//! (`PERF_FLAG_PID_CGROUP`), so tasks that join later are included and others cost nothing.
//!
//! An event that is about another task than the one that raises it, such as a wakeup, is opened for
//! whole CPUs: the waker may be outside the group. Its records are filtered in user space, by the
//! threads of the groups ([`CgroupThreads`]). Further events report which threads these are
//! ([`MEMBERSHIP_EVENTS`]).

use std::rc::Rc;

use anyhow::ensure;

use crate::event::catalog::Catalog;
use crate::event::filter::Filter;
use crate::event::sample_field::SampleFields;
use crate::event::sampling::Sampling;
use crate::source::request::{Opening, SampleParts};
use crate::sys::cgroup::{CgroupHierarchy, check_number, matching};
use crate::sys::cgroup_threads::CgroupThreads;
use crate::sys::machine::is_linux_since;

/// The control groups that a run watches.
pub(super) struct WatchedCgroups {
    /// Their paths; none is below another one.
    paths: Vec<Rc<str>>,
}

impl WatchedCgroups {
    /// Finds the control groups that a path or glob names.
    ///
    /// # Errors
    /// No hierarchy is mounted, or it has no such group, or too many.
    pub(super) fn of(pattern: &str) -> anyhow::Result<WatchedCgroups> {
        Ok(WatchedCgroups { paths: outermost(pattern)? })
    }

    /// Returns those that still exist: one may have been removed since they were found. All of them
    /// if none does, so that opening the first one gives the reason.
    fn present(&self) -> Vec<Rc<str>> {
        let Some(hierarchy) = CgroupHierarchy::find() else { return self.paths.clone() };
        let is_removed = |path: &Rc<str>| matches!(hierarchy.folder(path).try_exists(), Ok(false));
        let present: Vec<_> = self.paths.iter().filter(|path| !is_removed(path)).cloned().collect();
        if present.is_empty() { self.paths.clone() } else { present }
    }

    /// Returns the reader of their threads; None if the hierarchy was unmounted meanwhile.
    pub(super) fn threads(&self) -> Option<CgroupThreads> {
        CgroupThreads::of(self.paths.clone())
    }
}

/// Opens each event for each watched control group; without one, as it is. Adds the events that
/// follow the threads of the groups if an event is about other threads than those that raise it, or
/// a callback is called for `watched_tasks` only.
///
/// # Errors
/// An event cannot be limited to a control group.
pub(super) fn limited(
    openings: Vec<Opening>,
    cgroups: Option<&WatchedCgroups>,
    catalog: &dyn Catalog,
    watched_tasks: bool,
) -> anyhow::Result<Vec<Opening>> {
    let Some(cgroups) = cgroups else { return Ok(openings) };
    let mut limited = limit(openings, &cgroups.present())?;
    if watched_tasks || limited.iter().any(Opening::is_about_others) {
        limited.extend(membership_events(catalog));
    }
    Ok(limited)
}

/// The events whose records report the control groups of threads, with their filters: new groups,
/// moves, programs that begin, and threads that are cloned into another group than their parent's
/// (`CLONE_INTO_CGROUP` of clone3(2)).
const MEMBERSHIP_EVENTS: [(&str, Option<&str>); 4] = [
    ("cgroup:cgroup_mkdir", None),
    ("cgroup:cgroup_attach_task", None),
    ("sched:sched_process_exec", None),
    ("task:task_newtask", Some("clone_flags & 0x200000000")),
];

/// The Linux version since which samples have the control group of their thread.
const SAMPLED_SINCE: (u32, u32) = (5, 7);

/// Returns the events that follow the threads of control groups. Without one of them, groups are
/// read from /proc.
fn membership_events(catalog: &dyn Catalog) -> Vec<Opening> {
    if !is_linux_since(SAMPLED_SINCE) {
        return Vec::new();
    }
    let extra = SampleFields::named("_cgroup_id").unwrap_or_default();
    let sampling = Sampling { all_tasks: true, whole_cpus: true, extra, ..Sampling::default() };
    let opening = |(event, filter)| Opening {
        event,
        glob: None,
        filter,
        sampling: sampling.clone(),
        parts: SampleParts::ALL,
        roles: Vec::new(),
        follows_cgroups: true,
        pairs: None,
    };
    let described = MEMBERSHIP_EVENTS.iter().map(|(name, filter)| {
        let filter = filter.map(Filter::parse).transpose()?;
        anyhow::Ok((catalog.describe(name)?, filter))
    });
    let events: anyhow::Result<Vec<_>> = described.collect();
    events.unwrap_or_default().into_iter().map(opening).collect()
}

/// Returns the control groups that a path or glob names, without those below another one of them.
///
/// # Errors
/// No hierarchy is mounted, or it has no such group, or too many.
pub(super) fn outermost(pattern: &str) -> anyhow::Result<Vec<Rc<str>>> {
    let outer = without_inner(&matching(pattern)?);
    check_number(pattern, outer.len())?;
    Ok(outer)
}

/// Returns the paths without those below another one: the kernel includes them already.
fn without_inner(paths: &[String]) -> Vec<Rc<str>> {
    let is_below = |path: &str, other: &str| {
        path != other
            && (other == "/" || path.strip_prefix(other).is_some_and(|p| p.starts_with('/')))
    };
    let outer = paths.iter().filter(|path| !paths.iter().any(|other| is_below(path, other)));
    outer.map(|path| Rc::from(path.as_str())).collect()
}

/// Opens each event for each of these control groups instead of whole CPUs.
///
/// # Errors
/// An event cannot be limited to a control group.
fn limit(openings: Vec<Opening>, cgroups: &[Rc<str>]) -> anyhow::Result<Vec<Opening>> {
    let mut limited = Vec::with_capacity(openings.len() * cgroups.len());
    for opening in openings {
        let name = &opening.event.name;
        let is_whole = opening.sampling.all_tasks || opening.sampling.cgroup.is_some();
        if is_whole || opening.is_about_others() {
            limited.push(opening);
            continue;
        }
        ensure!(
            opening.cpu_time().is_none(),
            "--cgroup: {name} is a counter of whole CPUs; omit the option (the monitor \
             `container` shows the CPU time of cgroups)"
        );
        for cgroup in cgroups {
            let mut one = opening.clone();
            one.sampling.cgroup = Some(cgroup.clone());
            limited.push(one);
        }
    }
    Ok(limited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_below_another_one_is_not_opened_twice() {
        let paths = ["/a", "/a/b", "/ab", "/c/d", "/c/d/e/f"].map(str::to_owned);
        assert_eq!(without_inner(&paths), ["/a", "/ab", "/c/d"].map(Rc::from));
        let with_root = [&paths[..], &["/".to_owned()]].concat();
        assert_eq!(without_inner(&with_root), [Rc::from("/")]);
    }
}
