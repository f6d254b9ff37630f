//! The threads of control groups, by the files of the hierarchy and of /proc.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::cgroup::CgroupHierarchy;

/// Control groups whose threads are watched, those of the groups below them included.
#[derive(Clone, Debug)]
pub struct CgroupThreads {
    root: PathBuf,
    /// Whether the hierarchy is one of cgroup v1, which has other files.
    is_v1: bool,
    /// Paths inside the hierarchy, which begin with `/`; none is below another one.
    groups: Vec<Rc<str>>,
}

impl CgroupThreads {
    /// Watches groups, by their paths inside the hierarchy; None if no hierarchy is mounted.
    pub fn of(groups: Vec<Rc<str>>) -> Option<CgroupThreads> {
        let root = CgroupHierarchy::find()?.root().to_owned();
        let is_v1 = !root.join("cgroup.threads").exists();
        Some(CgroupThreads { root, is_v1, groups })
    }

    /// Reads the threads that are in the groups now. A group that was removed has none.
    pub fn now(&self) -> HashSet<u32> {
        let mut threads = HashSet::new();
        for group in &self.groups {
            self.add_below(&self.root.join(group.trim_start_matches('/')), &mut threads);
        }
        threads
    }

    fn add_below(&self, folder: &Path, threads: &mut HashSet<u32>) {
        let file = if self.is_v1 { "tasks" } else { "cgroup.threads" };
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        threads.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        let Ok(entries) = fs::read_dir(folder) else { return };
        let is_folder =
            |entry: &fs::DirEntry| entry.file_type().is_ok_and(|file_type| file_type.is_dir());
        for inner in entries.flatten().filter(is_folder) {
            self.add_below(&inner.path(), threads);
        }
    }

    /// Returns whether a thread is in one of the groups now; None if it has ended.
    pub fn contains(&self, tid: u32) -> Option<bool> {
        let text = fs::read_to_string(format!("/proc/{tid}/cgroup")).ok()?;
        Some(path_in(&text, self.is_v1).is_some_and(|path| self.is_in(path)))
    }

    fn is_in(&self, path: &str) -> bool {
        self.groups.iter().any(|group| {
            let below = path.strip_prefix(group.trim_end_matches('/'));
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

/// Returns the path of a thread's group from the text of /proc/TID/cgroup, whose lines are
/// `NUMBER:CONTROLLERS:PATH` (cgroups(7)).
fn path_in(text: &str, is_v1: bool) -> Option<&str> {
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let is_it = match is_v1 {
            true => controllers.split(',').any(|controller| controller == "perf_event"),
            false => controllers.is_empty(),
        };
        is_it.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watching(groups: &[&str]) -> CgroupThreads {
        let groups = groups.iter().map(|group| Rc::from(*group)).collect();
        CgroupThreads { root: PathBuf::from("/nowhere"), is_v1: false, groups }
    }

    #[test]
    fn a_group_includes_those_below_it() {
        let groups = watching(&["/a/b", "/c"]);
        for (path, is_in) in
            [("/a/b", true), ("/a/b/c", true), ("/a/bc", false), ("/a", false), ("/c", true)]
        {
            assert_eq!(groups.is_in(path), is_in, "{path}");
        }
        assert!(watching(&["/"]).is_in("/a") && watching(&["/"]).is_in("/"));
    }

    #[test]
    fn the_path_is_that_of_the_hierarchy_with_the_controller() {
        let text = "5:net_cls,perf_event:/docker/a:b\n4:memory:/m\n0::/user.slice\n";
        assert_eq!(path_in(text, true), Some("/docker/a:b"));
        assert_eq!(path_in(text, false), Some("/user.slice"));
        assert_eq!(path_in("4:memory:/m\n", false), None);
    }

    #[test]
    fn a_thread_of_this_process_is_in_its_group_until_it_ends() {
        let everything = CgroupThreads::of(vec!["/".into()]);
        let Some(everything) = everything.filter(|groups| groups.contains(1).is_some()) else {
            return;
        };
        let own = std::process::id();
        assert_eq!(everything.contains(own), Some(true));
        assert_eq!(everything.contains(u32::MAX), None, "no thread has this ID");
    }
}
