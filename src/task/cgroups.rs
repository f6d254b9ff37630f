//! Paths and container names of the control groups that samples name by id.

use hashbrown::HashMap;
use std::hash::BuildHasherDefault;

use super::TidHasher;
use super::containers::ContainerFiles;
use crate::sys::cgroup::CgroupHierarchy;

/// Maximum number of control groups in the cache; at the limit it is emptied.
const CGROUPS_MAX: usize = 16384;

/// Control groups by id. A group is looked up at its first use: two system calls for its path, and
/// at most one file for the name of its container.
#[derive(Default)]
pub struct Cgroups {
    /// None until the first lookup; then None inside if no hierarchy is mounted.
    hierarchy: Option<Option<CgroupHierarchy>>,
    files: ContainerFiles,
    known: HashMap<u64, KnownCgroup, BuildHasherDefault<TidHasher>>,
}

struct KnownCgroup {
    /// NUL-terminated.
    path: Vec<u8>,
    /// NUL-terminated; None until it is used.
    container: Option<Vec<u8>>,
}

impl Cgroups {
    /// Returns the path of a control group, NUL-terminated: `/` for the root, `cgroup:ID` if it is
    /// not known, for example because it was removed.
    pub fn path(&mut self, id: u64) -> &[u8] {
        &self.known(id).0.path
    }

    /// Returns the name of the container of a control group, NUL-terminated; `-` if it does not
    /// belong to a container.
    pub fn container(&mut self, id: u64) -> &[u8] {
        let (one, files) = self.known(id);
        one.container.get_or_insert_with(|| {
            let path = one.path.strip_suffix(b"\0").unwrap_or(&one.path);
            let name = files.name_of(&String::from_utf8_lossy(path));
            terminated(name.map_or_else(|| b"-".to_vec(), String::into_bytes))
        })
    }

    fn known(&mut self, id: u64) -> (&mut KnownCgroup, &mut ContainerFiles) {
        if self.known.len() >= CGROUPS_MAX && !self.known.contains_key(&id) {
            self.known.clear();
        }
        let Cgroups { hierarchy, files, known } = self;
        let one = known.entry(id).or_insert_with(|| {
            let hierarchy = hierarchy.get_or_insert_with(CgroupHierarchy::find).as_ref();
            let path = hierarchy.and_then(|hierarchy| hierarchy.path_of(id));
            let path = path.unwrap_or_else(|| format!("cgroup:{id}").into_bytes());
            KnownCgroup { path: terminated(path), container: None }
        });
        (one, files)
    }
}

fn terminated(mut text: Vec<u8>) -> Vec<u8> {
    text.retain(|byte| *byte != 0);
    text.push(0);
    text
}
