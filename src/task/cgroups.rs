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
    path: Vec<u8>,
    /// None until it is used.
    container: Option<Vec<u8>>,
}

impl Cgroups {
    /// Returns the path of a control group: `/` for the root, `cgroup:ID` if it is not known, for
    /// example because it was removed.
    pub fn path(&mut self, id: u64) -> &[u8] {
        &self.known(id).0.path
    }

    /// Returns the name of the container of a control group; `-` if it does not belong to a
    /// container, and `cgroup:ID` if its path is not known.
    pub fn container(&mut self, id: u64) -> &[u8] {
        let (one, files) = self.known(id);
        one.container.get_or_insert_with(|| {
            if !one.path.starts_with(b"/") {
                return one.path.clone();
            }
            let name = files.name_of(&String::from_utf8_lossy(&one.path));
            name.map_or_else(|| b"-".to_vec(), |name| without_nuls(name.into_bytes()))
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
            KnownCgroup { path: without_nuls(path), container: None }
        });
        (one, files)
    }
}

fn without_nuls(mut text: Vec<u8>) -> Vec<u8> {
    text.retain(|byte| *byte != 0);
    text
}
