//! Control groups for perf_event_open(2): open folders of the hierarchy with the `perf_event`
//! controller.
//!
//! With cgroup v1, that is a separate hierarchy, if it is mounted; otherwise the controller is part
//! of v2. See Documentation/admin-guide/cgroup-v2.rst.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::tracefs::unescaped_path;

/// Opens the folder of a control group; `path` is inside the hierarchy, or relative to its root.
///
/// # Errors
/// No hierarchy is mounted, or it has no such control group.
pub fn open(path: &str) -> anyhow::Result<OwnedFd> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let Some(root) = hierarchy(&mounts) else {
        anyhow::bail!(
            "cgroup `{path}`: no hierarchy with the perf_event controller is mounted; \
             mount one: mount -t cgroup2 none /sys/fs/cgroup"
        );
    };
    let place = place(&root, path);
    match File::open(&place) {
        Ok(folder) if folder.metadata().is_ok_and(|of| of.is_dir()) => Ok(folder.into()),
        Ok(_) => anyhow::bail!("cgroup `{path}`: {} is not a folder", place.display()),
        Err(why) => anyhow::bail!(
            "cgroup `{path}`: {}: {why}; name a folder below {}",
            place.display(),
            root.display()
        ),
    }
}

/// Returns where the hierarchy with the controller is mounted, from the text of /proc/self/mounts.
fn hierarchy(mounts: &str) -> Option<PathBuf> {
    let mounted = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let mut columns = line.split(' ').skip(1);
            let (place, fs, options) = (columns.next()?, columns.next()?, columns.next()?);
            let has = |option| options.split(',').any(|one| one == option);
            (fs == kind && option.is_none_or(has)).then(|| unescaped_path(place))
        })
    };
    mounted("cgroup", Some("perf_event")).or_else(|| mounted("cgroup2", None))
}

/// Returns a path inside the hierarchy as it is; places any other path below its root.
fn place(root: &Path, path: &str) -> PathBuf {
    match Path::new(path).starts_with(root) {
        true => PathBuf::from(path),
        false => root.join(path.trim_start_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_1_hierarchy_of_the_controller_is_preferred() {
        let v2 = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid 0 0\n";
        let v1 = "cgroup /sys/fs/cgroup/perf_event cgroup rw,nosuid,perf_event 0 0\n";
        let memory = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n";
        assert_eq!(hierarchy(&[memory, v2].concat()).unwrap(), Path::new("/sys/fs/cgroup/unified"));
        assert_eq!(hierarchy(&[v2, v1].concat()).unwrap(), Path::new("/sys/fs/cgroup/perf_event"));
        assert_eq!(hierarchy(memory), None);
    }

    #[test]
    fn a_path_may_begin_with_the_mount_point() {
        let root = Path::new("/sys/fs/cgroup");
        for path in ["a/b", "/a/b", "/sys/fs/cgroup/a/b"] {
            assert_eq!(place(root, path), Path::new("/sys/fs/cgroup/a/b"));
        }
    }
}
