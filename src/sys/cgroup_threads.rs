//! The threads of control groups, by the files of the hierarchy and of /proc.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::rc::Rc;

use super::cgroup::CgroupHierarchy;
use super::namespace::in_initial_cgroup_namespace;

/// Control groups whose threads are watched, those of the groups below them included.
#[derive(Clone, Debug)]
pub struct CgroupThreads {
    hierarchy: Rc<CgroupHierarchy>,
    /// Whether the hierarchy is one of cgroup v1, which has other files.
    is_v1: bool,
    /// Paths inside the hierarchy, which begin with `/`; none is below another one.
    groups: Vec<Rc<str>>,
    /// The number of the hierarchy in records; None if it is unknown.
    hierarchy_number: Option<u64>,
    /// The paths of `groups` in the cgroup namespace of this process, of which only a part may be
    /// mounted.
    whole: Vec<Rc<str>>,
    /// Whether the paths of `whole` are those of records, which begin at the root of the hierarchy.
    has_whole_paths: bool,
    /// The ids of `groups`; None once it was noted that one was removed.
    ids: Vec<Option<u64>>,
    /// By the id of a group, whether its threads are watched, and None if it was not found; at most
    /// [`KNOWN_GROUPS_MAX`]. The kernel uses no id twice.
    known: HashMap<u64, Option<bool>>,
}

/// Maximum number of groups that are remembered; then they are found again.
const KNOWN_GROUPS_MAX: usize = 65_536;

impl CgroupThreads {
    /// Watches groups, by their paths inside the hierarchy; None if no hierarchy is mounted.
    pub fn of(groups: Vec<Rc<str>>) -> Option<CgroupThreads> {
        let hierarchy = Rc::new(CgroupHierarchy::find()?);
        let is_v1 = !hierarchy.is_version_2();
        let mounted = hierarchy.mounted_path();
        let above = mounted.as_deref().unwrap_or("/").trim_end_matches('/');
        let whole = groups.iter().map(|group| Rc::from(format!("{above}{group}")));
        Some(CgroupThreads {
            whole: whole.collect(),
            ids: groups.iter().map(|group| id_of(&hierarchy.folder(group))).collect(),
            hierarchy,
            is_v1,
            groups,
            hierarchy_number: hierarchy_number(is_v1),
            has_whole_paths: mounted.is_some() && in_initial_cgroup_namespace(),
            known: HashMap::new(),
        })
    }

    /// Returns whether a group is one of these or below one; None if it was removed and no record
    /// has its path.
    pub fn has_group(&mut self, id: u64) -> Option<bool> {
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        let path = self.hierarchy.path_of(id);
        let has = path.map(|path| is_below(&String::from_utf8_lossy(&path), &self.groups));
        self.remember(id, has);
        has
    }

    /// Remembers whether a group is one of these or below one, by the path in a record. Returns
    /// false if it is in another hierarchy than these.
    pub fn remember_path(&mut self, hierarchy: u64, id: u64, path: &[u8]) -> bool {
        let is_own = self.hierarchy_number == Some(hierarchy);
        if is_own && self.has_whole_paths {
            let has = is_below(&String::from_utf8_lossy(path), &self.whole);
            self.remember(id, Some(has));
        }
        is_own
    }

    /// Forgets groups that were not found, so that they are searched again.
    pub fn forget_unknown(&mut self) {
        self.known.retain(|_, has| has.is_some());
    }

    fn remember(&mut self, id: u64, has: Option<bool>) {
        if self.known.len() >= KNOWN_GROUPS_MAX {
            self.known.clear();
        }
        self.known.insert(id, has);
    }

    /// Returns the number of these groups, without those below them.
    pub fn number(&self) -> usize {
        self.groups.len()
    }

    /// Reads the threads that are in the groups now. A group that was removed has none.
    pub fn now(&self) -> HashSet<u32> {
        let mut threads = HashSet::new();
        for group in &self.groups {
            self.add_below(&self.hierarchy.folder(group), &mut threads);
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
        let text = fs::read(format!("/proc/{tid}/cgroup")).ok()?;
        let text = String::from_utf8_lossy(&text);
        Some(path_in(&text, self.is_v1).is_some_and(|path| is_below(path, &self.whole)))
    }

    /// Returns the groups that were removed since the last call.
    pub fn take_removed(&mut self) -> Vec<Rc<str>> {
        let mut removed = Vec::new();
        for (group, id) in self.groups.iter().zip(&mut self.ids) {
            if id.is_some() && id_of(&self.hierarchy.folder(group)) != *id {
                *id = None;
                removed.push(group.clone());
            }
        }
        removed
    }
}

/// Returns the id of the group with this folder.
fn id_of(folder: &Path) -> Option<u64> {
    fs::metadata(folder).ok().map(|folder| folder.ino())
}

/// Returns the number of the hierarchy with the perf_event controller; None if it is unknown.
fn hierarchy_number(is_v1: bool) -> Option<u64> {
    if !is_v1 {
        return Some(0);
    }
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let line = text.lines().find(|line| path_in(line, true).is_some())?;
    line.split(':').next()?.parse().ok()
}

/// Returns whether a path is that of a group or of one below it. A path outside of the cgroup
/// namespace begins with `/..`.
fn is_below(path: &str, groups: &[Rc<str>]) -> bool {
    if path.split('/').nth(1) == Some("..") {
        return false;
    }
    groups.iter().any(|group| {
        let below = path.strip_prefix(group.trim_end_matches('/'));
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
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

    #[test]
    fn a_group_includes_those_below_it() {
        let groups = |paths: &[&str]| paths.iter().map(|path| Rc::from(*path)).collect::<Vec<_>>();
        for (path, is_in) in
            [("/a/b", true), ("/a/b/c", true), ("/a/bc", false), ("/a", false), ("/c", true)]
        {
            assert_eq!(is_below(path, &groups(&["/a/b", "/c"])), is_in, "{path}");
        }
        for (path, is_in) in [("/a", true), ("/", true), ("/..b", true), ("/../a", false)] {
            assert_eq!(is_below(path, &groups(&["/"])), is_in, "{path}");
        }
    }

    #[test]
    fn a_group_that_was_removed_is_known_by_its_record() {
        let Some(mut groups) = CgroupThreads::of(vec!["/none".into()]) else { return };
        let removed = u64::MAX;
        let hierarchy = groups.hierarchy_number.expect("the hierarchy is mounted");
        groups.has_whole_paths = true;
        assert_eq!(groups.has_group(removed), None);
        assert!(!groups.remember_path(hierarchy + 1, removed, b"/none/inner"));
        assert_eq!(groups.has_group(removed), None, "the record is of another hierarchy");
        assert!(groups.remember_path(hierarchy, removed, b"/none/inner"));
        assert_eq!(groups.has_group(removed), Some(true));
        groups.has_whole_paths = false;
        assert!(groups.remember_path(hierarchy, removed - 1, b"/none/inner"));
        assert_eq!(groups.has_group(removed - 1), None, "its path begins elsewhere");
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
