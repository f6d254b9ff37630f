//! Control groups that tests create.

use std::fs;

use crate::live::skip_anywhere;

/// A folder of the perf_event hierarchy, removed at the end.
pub(crate) struct Cgroup {
    pub(crate) path: std::path::PathBuf,
    pub(crate) name: String,
}

impl Cgroup {
    pub(crate) fn new(name: &str) -> Cgroup {
        let Some(hierarchy) = perilune::sys::cgroup::CgroupHierarchy::find() else {
            skip_anywhere("no cgroup hierarchy with the perf_event controller is mounted");
        };
        let name = format!("/perilune-{}-{name}", std::process::id());
        let path = hierarchy.folder(&name);
        if let Err(why) = fs::create_dir(&path) {
            skip_anywhere(&format!("no cgroup can be created: {why}"));
        }
        Cgroup { path, name }
    }

    /// Returns a shell command that runs in the group.
    pub(crate) fn run(&self, command: &str) -> String {
        format!("echo $$ > {}/cgroup.procs && {command}", self.path.display())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A group is busy until its last task has been reaped.
        for _ in 0..50 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
