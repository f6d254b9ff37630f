//! Resolves a path component by component, and checks each component before it follows it.
//!
//! The check uses the open descriptor, and the next name is looked up in it, so that no rename
//! between check and use can redirect the path. Links are resolved as in path_resolution(7).

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::folder::{Folder, read_link};

/// Maximum number of symbolic links in a path (`MAXSYMLINKS`).
const LINKS_MAX: u32 = 40;

/// One component of a path.
#[derive(Debug)]
pub struct PathStep<'a> {
    /// The path up to this component, without links.
    pub path: &'a Path,
    /// Its owner and mode; for a link, those of the link itself.
    pub data: &'a Metadata,
    /// The folder that contains it; None for `/`.
    pub folder: Option<&'a Metadata>,
    /// Whether it is the last component of the path, or of the target of a link at its end.
    pub is_last: bool,
}

/// Where a path leads.
#[derive(Debug)]
pub struct ResolvedPath {
    /// The folder of the last component.
    pub folder: Folder,
    /// Its name in the folder.
    pub name: OsString,
    /// The path, without links.
    pub path: PathBuf,
    /// The existing file, opened by [`Folder::look`].
    pub found: Option<File>,
    /// Whether a link of /proc led here, such as that of a descriptor of this process
    /// (/dev/stdout).
    pub of_proc: bool,
}

/// Resolves a path. Calls `judge` with each component, `/` first; its error ends the walk.
///
/// # Errors
/// The error of `judge`; a component before the last is missing or not a folder; too many links.
pub fn resolve<E: From<io::Error>>(
    path: &Path,
    mut judge: impl FnMut(&PathStep<'_>) -> Result<(), E>,
) -> Result<ResolvedPath, E> {
    let mut pending = parts(&std::path::absolute(path)?);
    let root = Folder::root()?;
    let data = root.metadata()?;
    judge(&PathStep {
        path: Path::new("/"),
        data: &data,
        folder: None,
        is_last: pending.is_empty(),
    })?;
    let (mut way, mut real, mut links) = (vec![(root, data)], PathBuf::from("/"), 0);
    while let Some(name) = pending.pop_front() {
        if name == ".." {
            if way.len() > 1 {
                way.pop();
                real.pop();
            }
            continue;
        }
        let Some((folder, above)) = way.last() else { break };
        let mut found = match folder.look(&name, false) {
            Err(why) if why.kind() == io::ErrorKind::NotFound && pending.is_empty() => {
                real.push(&name);
                return Ok(place(way, name, real, None, false)?);
            }
            found => found?,
        };
        let mut data = found.metadata()?;
        judge(&PathStep {
            path: &real.join(&name),
            data: &data,
            folder: Some(above),
            is_last: pending.is_empty(),
        })?;
        let mut of_proc = false;
        if data.is_symlink() {
            links += 1;
            if links > LINKS_MAX {
                return Err(io::Error::from_raw_os_error(libc::ELOOP).into());
            }
            of_proc = folder.is_of_proc();
            if !of_proc {
                let target = read_link(&found)?;
                if target.is_absolute() {
                    way.truncate(1);
                    real = PathBuf::from("/");
                }
                let mut behind = std::mem::replace(&mut pending, parts(&target));
                pending.append(&mut behind);
                continue;
            }
            // Only the kernel creates these links, and their text may not be a path.
            found = folder.look(&name, true)?;
            data = found.metadata()?;
        }
        real.push(&name);
        if pending.is_empty() {
            return Ok(place(way, name, real, Some(found), of_proc)?);
        }
        if !data.is_dir() {
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR).into());
        }
        way.push((Folder::of(found), data));
    }
    // For `/`, or a path that ends in `..`, the folder itself is the result.
    let (folder, _) = way.last().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let found = folder.look(OsStr::new("."), false)?;
    Ok(place(way, ".".into(), real, Some(found), false)?)
}

/// Returns the names of a path, including `..`.
fn parts(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.collect()
}

fn place(
    mut way: Vec<(Folder, Metadata)>,
    name: OsString,
    path: PathBuf,
    found: Option<File>,
    of_proc: bool,
) -> io::Result<ResolvedPath> {
    let (folder, _) = way.pop().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    Ok(ResolvedPath { folder, name, path, found, of_proc })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    fn resolved(path: &Path) -> (Vec<PathBuf>, io::Result<ResolvedPath>) {
        let mut steps = Vec::new();
        let place = resolve(path, |step| {
            steps.push(step.path.to_owned());
            Ok(())
        });
        (steps, place)
    }

    #[test]
    fn paths_resolve_as_in_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/file"), "").unwrap();
        symlink("a/b", top.join("relative")).unwrap();
        symlink(top.join("a"), top.join("absolute")).unwrap();
        symlink("loop", top.join("loop")).unwrap();
        for path in ["a/file", "relative/../file", "absolute/b/.././file", "./absolute/file"] {
            let (steps, place) = resolved(&top.join(path));
            let found = place.unwrap().found.unwrap().metadata().unwrap();
            assert_eq!(found.ino(), fs::metadata(top.join(path)).unwrap().ino(), "{path}");
            assert_eq!(steps.first().unwrap(), Path::new("/"));
            assert_eq!(steps.last().unwrap(), &top.join("a/file"), "{path}");
        }
        assert!(resolved(&top.join("relative")).0.contains(&top.join("relative")));
        let new = resolved(&top.join("relative/new")).1.unwrap();
        assert_eq!((new.path, new.found.is_none()), (top.join("a/b/new"), true));
        for path in ["no/file", "a/file/x", "loop"] {
            assert!(resolved(&top.join(path)).1.is_err(), "{path}");
        }
        assert_eq!(resolved(Path::new("/")).1.unwrap().path, Path::new("/"));
    }

    #[test]
    fn a_link_of_proc_leads_to_the_descriptor_itself() {
        use std::os::fd::AsRawFd as _;
        let (pipe, _other) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
        let place = resolved(Path::new(&path)).1.unwrap();
        assert!(place.of_proc);
        use std::os::unix::fs::FileTypeExt as _;
        assert!(place.found.unwrap().metadata().unwrap().file_type().is_fifo());
    }
}
