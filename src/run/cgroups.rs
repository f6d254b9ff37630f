//! `--cgroup`: opens the events of a run once per control group.
//!
//! The kernel counts and samples only while a task of the group, or of a group below it, runs
//! (`PERF_FLAG_PID_CGROUP`), so tasks that join later are included and others cost nothing.

use std::rc::Rc;

use anyhow::{bail, ensure};

use crate::base::matching::glob;
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::base::text::units::counted;
use crate::source::request::Opening;
use crate::sys::cgroup::CgroupHierarchy;

/// Maximum number of control groups that are watched one by one: each event is opened for each.
const WATCHED_MAX: usize = 64;

/// Opens each event for each control group that a path or glob names; without one, as it is.
///
/// # Errors
/// No such group exists, there are too many, or an event cannot be limited to one.
pub(super) fn limited(
    openings: Vec<Opening>,
    pattern: Option<&str>,
) -> anyhow::Result<Vec<Opening>> {
    match pattern {
        Some(pattern) => limit(openings, &matching(pattern)?),
        None => Ok(openings),
    }
}

/// Returns the control groups that a path or glob names, without those below another one of them.
///
/// # Errors
/// No hierarchy is mounted, or it has no such group, or too many.
fn matching(pattern: &str) -> anyhow::Result<Vec<Rc<str>>> {
    let Some(hierarchy) = CgroupHierarchy::find() else {
        bail!(
            "--cgroup: no hierarchy with the perf_event controller is mounted; mount one: \
             mount -t cgroup2 none /sys/fs/cgroup"
        );
    };
    let root = hierarchy.root().to_string_lossy().into_owned();
    let inside = pattern.strip_prefix(&root).unwrap_or(pattern);
    let wanted = format!("/{}", inside.trim_matches('/'));
    let all = hierarchy.paths();
    let found: Vec<&String> =
        all.iter().filter(|path| glob::matches(wanted.as_bytes(), path.as_bytes())).collect();
    if found.is_empty() {
        let hint = did_you_mean(&nearest(&wanted, all.iter().map(String::as_str)));
        bail!("--cgroup: no cgroup matches `{pattern}` below {root}{hint}");
    }
    let outer = without_inner(&found);
    ensure!(
        outer.len() <= WATCHED_MAX,
        "--cgroup: `{pattern}` matches {}, and each event is opened for each; at most \
         {WATCHED_MAX}: name a cgroup above them",
        counted(outer.len() as u64, "cgroup")
    );
    Ok(outer)
}

/// Returns the paths without those below another one: the kernel includes them already.
fn without_inner(paths: &[&String]) -> Vec<Rc<str>> {
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
        if opening.sampling.all_tasks || opening.sampling.cgroup.is_some() {
            limited.push(opening);
            continue;
        }
        ensure!(
            opening.cpu_time().is_none(),
            "--cgroup: {name} is a counter of whole CPUs; omit the option"
        );
        // Such a record may be written by a task outside the group, whose event is not enabled.
        ensure!(
            opening.roles.iter().all(|served| served.about.is_none()),
            "--cgroup: {name} is raised by other tasks than the one that it is about, such as the \
             waker; watch the processes of the cgroup with -p"
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
        let all: Vec<&String> = paths.iter().collect();
        let outer = without_inner(&all);
        assert_eq!(outer, ["/a", "/ab", "/c/d"].map(Rc::from));
        let root = "/".to_owned();
        let all: Vec<&String> = paths.iter().chain([&root]).collect();
        assert_eq!(without_inner(&all), [Rc::from("/")]);
    }
}
