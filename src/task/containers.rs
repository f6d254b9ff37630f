//! Names of containers, from the path of their control group and the files of their runtime.
//!
//! No daemon or socket is asked. A runtime is recognized by the name of the control group that it
//! creates; its files have the name that the user gave the container. An id whose files cannot be
//! read is shown as its first 12 digits, as `docker ps` does.
//!
//! A file is read only if each symbolic link on its path belongs to root or to this user, it is a
//! regular file, and its size is at most `FILE_MAX`.

use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sys::folder::reopen;
use crate::sys::user::effective_uid;
use crate::sys::walk::resolve;

/// Maximum size of a file of a runtime, in bytes.
const FILE_MAX: u64 = 8 << 20;

/// Digits of an id that are shown.
const SHORT: usize = 12;

/// The files of the container runtimes of a machine.
pub struct ContainerFiles {
    root: PathBuf,
}

impl Default for ContainerFiles {
    fn default() -> ContainerFiles {
        ContainerFiles::below("/")
    }
}

/// A container, as its control group names it.
#[derive(Debug, PartialEq, Eq)]
enum Named<'a> {
    /// By the id that its runtime has given it.
    Id(&'a str),
    /// By its own name: systemd-nspawn, LXC.
    Name(String),
    /// A Kubernetes pod by its uid, without a container.
    Pod(&'a str),
}

/// Prefixes of a control group's name before the id: `docker-ID.scope`.
const PREFIXES: [&str; 7] = [
    "docker-",
    "cri-containerd-",
    "nerdctl-",
    "crio-",
    "libpod-",
    "libpod-payload-",
    "containerd-",
];

impl ContainerFiles {
    /// Returns the files below this folder instead of `/`.
    pub fn below(root: impl Into<PathBuf>) -> ContainerFiles {
        ContainerFiles { root: root.into() }
    }

    /// Returns the name of the container to which a control group belongs; None if there is none.
    pub fn name_of(&self, cgroup: &str) -> Option<String> {
        match named(cgroup)? {
            Named::Name(name) => Some(name),
            Named::Pod(uid) => Some(format!("pod {}", uid.get(..SHORT).unwrap_or(uid))),
            Named::Id(id) => {
                let found = SOURCES.iter().find_map(|source| source(self, id));
                let name = found.unwrap_or_else(|| id.get(..SHORT).unwrap_or(id).to_owned());
                Some(name)
            }
        }
    }

    /// Reads a file of at most [`FILE_MAX`] bytes as JSON; None if it is missing or not trusted.
    fn json(&self, path: &str) -> Option<Value> {
        let path = self.root.join(path);
        let text = read_bounded(&path).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Docker: the file of the container has its name, with a slash before it.
    fn docker(&self, id: &str) -> Option<String> {
        let config = self.json(&format!("var/lib/docker/containers/{id}/config.v2.json"))?;
        text(&config["Name"]).map(|name| name.trim_start_matches('/').to_owned())
    }

    /// Podman and CRI-O: one list of all containers. In a pod the annotations of the OCI bundle
    /// have better names.
    fn containers_storage(&self, id: &str) -> Option<String> {
        let bundle = format!("run/containers/storage/overlay-containers/{id}/userdata/config.json");
        if let Some(name) = self.json(&bundle).and_then(|config| annotated(&config)) {
            return Some(name);
        }
        let list = self.json("var/lib/containers/storage/overlay-containers/containers.json")?;
        let one = list.as_array()?.iter().find(|one| text(&one["id"]) == Some(id))?;
        text(&one["names"][0]).map(str::to_owned)
    }

    /// containerd: the OCI bundle of each namespace.
    fn containerd(&self, id: &str) -> Option<String> {
        ["k8s.io", "moby", "default"].into_iter().find_map(|namespace| {
            let folder = "run/containerd/io.containerd.runtime.v2.task";
            annotated(&self.json(&format!("{folder}/{namespace}/{id}/config.json"))?)
        })
    }
}

/// Where names are looked up, in this order.
const SOURCES: [fn(&ContainerFiles, &str) -> Option<String>; 3] =
    [ContainerFiles::docker, ContainerFiles::containers_storage, ContainerFiles::containerd];

/// Returns the name in the annotations of an OCI bundle: `NAMESPACE/POD/CONTAINER` in Kubernetes.
fn annotated(config: &Value) -> Option<String> {
    let annotations = &config["annotations"];
    let first = |names: &[&str]| names.iter().find_map(|name| text(&annotations[*name]));
    let container = first(&["io.kubernetes.cri.container-name", "io.kubernetes.container.name"])
        .or_else(|| {
            let kind =
                first(&["io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"]);
            kind.filter(|kind| *kind == "sandbox").map(|_| "pause")
        });
    let pod = first(&["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]);
    let namespace = first(&["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"]);
    match (container, pod) {
        (Some(container), Some(pod)) => {
            let parts = namespace.into_iter().chain([pod, container]);
            Some(parts.collect::<Vec<_>>().join("/"))
        }
        _ => first(&["nerdctl/name", "io.podman.annotations.name"]).map(str::to_owned),
    }
}

/// Returns a string that is not empty.
fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// Finds the container in the path of a control group; the innermost one of nested containers.
fn named(cgroup: &str) -> Option<Named<'_>> {
    let parts: Vec<&str> = cgroup.split('/').filter(|part| !part.is_empty()).collect();
    (0..parts.len()).rev().find_map(|at| {
        let above = at.checked_sub(1).map_or("", |above| parts[above]);
        one(parts[at], above)
    })
}

/// Recognizes one component of the path of a control group, whose parent is `above`.
fn one<'a>(part: &'a str, above: &str) -> Option<Named<'a>> {
    let unit = part.strip_suffix(".scope").or(part.strip_suffix(".slice")).unwrap_or(part);
    if let Some(name) = unit.strip_prefix("machine-").filter(|_| above == "machine.slice") {
        return Some(Named::Name(unescaped(name)));
    }
    if let Some(name) =
        unit.strip_prefix("systemd-nspawn@").and_then(|n| n.strip_suffix(".service"))
    {
        return Some(Named::Name(unescaped(name)));
    }
    if let Some(name) = unit.strip_prefix("lxc.payload.") {
        return Some(Named::Name(name.to_owned()));
    }
    if above == "lxc" {
        return Some(Named::Name(part.to_owned()));
    }
    // `SLICE:cri-containerd:ID` and `SLICE:crio:ID` without systemd.
    let last = unit.rsplit(':').next().unwrap_or(unit);
    let id = PREFIXES.iter().find_map(|prefix| last.strip_prefix(prefix)).unwrap_or(last);
    if is_id(id) {
        return Some(Named::Id(id));
    }
    let pod = unit.rsplit_once("pod").map(|(_, uid)| uid).filter(|uid| is_uid(uid));
    pod.map(Named::Pod)
}

/// Returns whether this is the id of a container: 64 hexadecimal digits in every runtime.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns whether this is the uid of a pod, in which systemd's slices have `_` for `-`. That of a
/// static pod is a hash of 32 digits.
fn is_uid(text: &str) -> bool {
    matches!(text.len(), 32 | 36)
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_'))
}

/// Decodes `\xNN` in the name of a unit (systemd.unit(5)).
fn unescaped(name: &str) -> String {
    let mut parts = name.split("\\x");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if byte.is_ascii() => {
                out.push(char::from(byte));
                out.push_str(&part[2..]);
            }
            _ => {
                out.push_str("\\x");
                out.push_str(part);
            }
        }
    }
    out
}

/// Reads a regular file of at most [`FILE_MAX`] bytes. Refuses links of other users.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let own = effective_uid();
    let resolved = resolve(path, |step| {
        let trusted = step.data.uid() == 0 || step.data.uid() == own;
        if step.data.is_symlink() && !trusted {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        Ok(())
    })?;
    let found = resolved.found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let data = found.metadata()?;
    if !data.is_file() || data.len() > FILE_MAX {
        return Err(io::Error::other("not a regular file, or too large"));
    }
    let mut text = Vec::new();
    reopen(&found, libc::O_RDONLY)?.take(FILE_MAX).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests;
