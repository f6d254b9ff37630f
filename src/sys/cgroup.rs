//! Control groups for perf_event_open(2): open folders of the hierarchy with the `perf_event`
//! controller, and the paths of its ids.
//!
//! With cgroup v1, that is a separate hierarchy, if it is mounted; otherwise the controller is part
//! of v2. See Documentation/admin-guide/cgroup-v2.rst.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use anyhow::{bail, ensure};

use super::errno::errno;
use super::tracefs::unescaped_path;
use crate::base::matching::glob;
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::base::text::units::counted;

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
    ensure!(
        !Path::new(path).components().any(|part| part == Component::ParentDir),
        "cgroup `{path}`: `..` leads out of the hierarchy; name a folder below {}",
        root.display()
    );
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

/// Returns whether the hierarchy with the controller is that of version 2.
pub fn is_version_2() -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let of_version_1 = mounts.lines().filter(|line| line.split(' ').nth(2) == Some("cgroup"));
    let has_controller = |line: &str| {
        let options = line.split(' ').nth(3).unwrap_or_default();
        options.split(',').any(|option| option == "perf_event")
    };
    hierarchy(&mounts).is_some() && !of_version_1.into_iter().any(has_controller)
}

/// The hierarchy whose ids samples contain (`PERF_SAMPLE_CGROUP`).
#[derive(Debug)]
pub struct CgroupHierarchy {
    root: PathBuf,
    folder: File,
}

/// Maximum number of control groups in a listing.
const PATHS_MAX: usize = 50_000;

/// `FILEID_KERNFS` (include/linux/exportfs.h): the handle is the id.
const KERNFS: libc::c_int = 0xfe;

/// `struct file_handle` with room for an id.
#[repr(C)]
struct IdHandle {
    bytes: libc::c_uint,
    kind: libc::c_int,
    id: [u8; 8],
}

impl CgroupHierarchy {
    /// Finds the hierarchy; None if none is mounted.
    pub fn find() -> Option<CgroupHierarchy> {
        let root = hierarchy(&fs::read_to_string("/proc/self/mounts").ok()?)?;
        let folder = File::open(&root).ok()?;
        Some(CgroupHierarchy { root, folder })
    }

    /// Returns where it is mounted.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns whether it is the hierarchy of cgroup v2, whose folders have `cgroup.threads`.
    pub fn is_version_2(&self) -> bool {
        self.root.join("cgroup.threads").exists()
    }

    /// Returns the path of the mounted folder in the hierarchy, as the cgroup namespace of this
    /// process has it: `/`, unless only a part of the hierarchy is mounted. None if it is unknown.
    pub fn mounted_path(&self) -> Option<String> {
        mounted_path(&fs::read_to_string("/proc/self/mountinfo").ok()?, &self.root)
    }

    /// Returns the folder of a control group; `path` is inside the hierarchy.
    pub fn folder(&self, path: &str) -> PathBuf {
        place(&self.root, path)
    }

    /// Returns the paths of all control groups, `/` first; at most `PATHS_MAX`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = vec!["/".to_owned()];
        let mut at = 0;
        while at < paths.len() && paths.len() < PATHS_MAX {
            let above = paths[at].trim_end_matches('/').to_owned();
            at += 1;
            let folder = self.root.join(above.trim_start_matches('/'));
            let Ok(entries) = fs::read_dir(folder) else { continue };
            let folders =
                entries.flatten().filter(|entry| entry.file_type().is_ok_and(|of| of.is_dir()));
            let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
            let mut names: Vec<String> = names.map(|name| format!("{above}/{name}")).collect();
            names.sort_unstable();
            names.truncate(PATHS_MAX - paths.len());
            paths.append(&mut names);
        }
        paths
    }

    /// Returns the path of a control group inside the hierarchy, which begins with `/`; None if it
    /// was removed, or lies outside this process's cgroup namespace. Two system calls; without
    /// `CAP_DAC_READ_SEARCH`, a search of the hierarchy.
    pub fn path_of(&self, id: u64) -> Option<Vec<u8>> {
        let handle = IdHandle { bytes: 8, kind: KERNFS, id: id.to_ne_bytes() };
        let flags = libc::O_PATH | libc::O_CLOEXEC;
        // SAFETY: the handle is a `struct file_handle` with as many bytes as it says, and is only
        // read.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_open_by_handle_at,
                self.folder.as_raw_fd(),
                &raw const handle,
                flags,
            )
        };
        if fd < 0 && errno(&io::Error::last_os_error()) == libc::EPERM {
            return self.path_with_inode(id);
        }
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: the call has returned a new descriptor, which nothing else owns.
        let found = unsafe { OwnedFd::from_raw_fd(fd) };
        let place = fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd())).ok()?;
        let inside = place.strip_prefix(&self.root).ok()?;
        let mut path = b"/".to_vec();
        path.extend(inside.as_os_str().to_owned().into_vec());
        (!path.ends_with(b" (deleted)")).then_some(path)
    }

    /// Searches the control group whose folder has this inode, which is its id.
    fn path_with_inode(&self, id: u64) -> Option<Vec<u8>> {
        if self.folder.metadata().is_ok_and(|root| root.ino() == id) {
            return Some(b"/".to_vec());
        }
        let mut above = vec![self.root.clone()];
        for _ in 0..PATHS_MAX {
            let Ok(entries) = fs::read_dir(above.pop()?) else { continue };
            for entry in entries.flatten() {
                if !entry.file_type().is_ok_and(|of| of.is_dir()) {
                    continue;
                }
                if entry.ino() == id {
                    let place = entry.path();
                    let inside = place.strip_prefix(&self.root).ok()?;
                    return Some([b"/", inside.as_os_str().as_bytes()].concat());
                }
                above.push(entry.path());
            }
        }
        None
    }
}

/// Maximum number of control groups that are watched one by one: each event is opened for each.
const WATCHED_MAX: usize = 64;

/// Returns the paths of the control groups that a path or glob names, sorted by depth and name.
///
/// # Errors
/// No hierarchy is mounted, or it has no such group.
pub fn matching(pattern: &str) -> anyhow::Result<Vec<String>> {
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
    let found = named(&all, &wanted);
    if found.is_empty() {
        let hint = did_you_mean(&nearest(&wanted, all.iter().map(String::as_str)));
        bail!("--cgroup: no cgroup matches `{pattern}` below {root}{hint}");
    }
    Ok(found)
}

/// Returns the path that is equal to a name, else those that match it as a glob: the backslash of
/// `a\x2db.slice` is part of the name.
fn named(all: &[String], wanted: &str) -> Vec<String> {
    if all.iter().any(|path| path == wanted) {
        return vec![wanted.to_owned()];
    }
    let is_match = |path: &&String| glob::matches(wanted.as_bytes(), path.as_bytes());
    all.iter().filter(is_match).cloned().collect()
}

/// Returns the paths of the control groups that a path or glob names.
///
/// # Errors
/// As [`matching`] and [`check_number`].
pub fn matching_at_most(pattern: &str) -> anyhow::Result<Vec<String>> {
    let found = matching(pattern)?;
    check_number(pattern, found.len())?;
    Ok(found)
}

/// Checks that not too many control groups are watched.
///
/// # Errors
/// There are more than `WATCHED_MAX`.
pub fn check_number(pattern: &str, number: usize) -> anyhow::Result<()> {
    ensure!(
        number <= WATCHED_MAX,
        "--cgroup: `{pattern}` matches {}, and each event is opened for each; at most \
         {WATCHED_MAX}: name a cgroup above them",
        counted(number as u64, "cgroup")
    );
    Ok(())
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

/// Returns the root of the last mount at a place, from the text of /proc/self/mountinfo
/// (proc_pid_mountinfo(5)).
fn mounted_path(mounts: &str, at: &Path) -> Option<String> {
    let mut of_place = mounts.lines().rev().filter_map(|line| {
        let mut columns = line.split(' ').skip(3);
        let (root, place) = (columns.next()?, columns.next()?);
        (unescaped_path(place) == at).then_some(root)
    });
    of_place.next().map(|root| unescaped_path(root).to_string_lossy().into_owned())
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
    fn a_name_with_characters_of_globs_names_its_group() {
        let all = ["/a", r"/a\x2db.slice", "/c[1]", "/c1"].map(str::to_owned);
        assert_eq!(named(&all, r"/a\x2db.slice"), [r"/a\x2db.slice"]);
        assert_eq!(named(&all, "/c[1]"), ["/c[1]"]);
        assert_eq!(named(&all, "/c*"), ["/c[1]", "/c1"]);
        assert_eq!(named(&all, "/d*"), [""; 0]);
    }

    #[test]
    fn the_last_mount_at_a_place_counts() {
        let mounts = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
            31 20 0:26 / /tmp/a\\040b rw - cgroup2 cgroup2 rw\n\
            32 30 0:26 /docker/5 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let of = |place: &str| mounted_path(mounts, Path::new(place));
        assert_eq!(of("/sys/fs/cgroup").as_deref(), Some("/docker/5"));
        assert_eq!(of("/tmp/a b").as_deref(), Some("/"));
        assert_eq!(of("/none"), None);
    }

    #[test]
    fn the_id_of_a_control_group_is_its_inode() {
        let Some(hierarchy) = CgroupHierarchy::find() else { return };
        let name = format!("perilune-test-{}", std::process::id());
        let made = hierarchy.root().join(&name);
        if fs::create_dir(&made).is_err() {
            return;
        }
        let id = fs::metadata(&made).unwrap().ino();
        let paths = [hierarchy.path_of(id), hierarchy.path_with_inode(id)];
        let root = hierarchy.folder.metadata().unwrap().ino();
        fs::remove_dir(&made).unwrap();
        assert_eq!(paths, [(); 2].map(|()| Some(format!("/{name}").into_bytes())));
        assert_eq!(hierarchy.path_of(id), None);
        assert_eq!(hierarchy.path_with_inode(id), None);
        assert_eq!(hierarchy.path_with_inode(root), Some(b"/".to_vec()));
    }

    #[test]
    fn a_path_may_begin_with_the_mount_point() {
        let root = Path::new("/sys/fs/cgroup");
        for path in ["a/b", "/a/b", "/sys/fs/cgroup/a/b"] {
            assert_eq!(place(root, path), Path::new("/sys/fs/cgroup/a/b"));
        }
    }
}
