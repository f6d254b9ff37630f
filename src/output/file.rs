//! Files of a run's own making, written safely into folders that others may write to, too.
//!
//! A file is made under a name of its own that nothing can be waiting at, and then put in the place of the old one: no
//! link that somebody planted is followed, nobody reads half a picture, and a run that ends early leaves the older
//! one. What is replaced must be a plain file of this user.

use crate::sys::user::effective_uid;
use anyhow::{Context as _, Result, bail};
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A file that is being made; nothing is seen of it until it is put in place.
pub struct Making {
    file: File,
    path: PathBuf,
    hidden: Option<PathBuf>,
}

impl Making {
    /// Begins a file that is to stand at `path`.
    ///
    /// # Errors
    /// What is there is not this user's plain file, or the folder cannot be written to.
    pub fn begin(path: &Path) -> Result<Making> {
        let shown = path.display();
        if let Ok(there) = fs::symlink_metadata(path) {
            // A link would be replaced and not followed, but whoever has one there wants it.
            let own = there.is_file() && there.uid() == effective_uid();
            if !own {
                bail!("`{shown}` is there and is no plain file of this user; choose another name");
            }
        }
        let name = path.file_name().with_context(|| format!("`{shown}` names no file"))?;
        for attempt in 0..100u32 {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}.{attempt}", std::process::id()));
            let hidden = path.with_file_name(hidden);
            match OpenOptions::new().write(true).create_new(true).open(&hidden) {
                Ok(file) => {
                    return Ok(Making { file, path: path.to_owned(), hidden: Some(hidden) });
                }
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
                Err(why) => return Err(why).with_context(|| format!("failed to create `{shown}`")),
            }
        }
        bail!("failed to create `{shown}`: its folder is full of unfinished files");
    }

    /// What to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts it in its place and keeps it open: what is written from now on can be seen.
    ///
    /// # Errors
    /// The system's.
    pub fn place(&mut self) -> Result<()> {
        if let Some(hidden) = self.hidden.take() {
            let moved = fs::rename(&hidden, &self.path);
            moved
                .with_context(|| format!("failed to put `{}` in its place", self.path.display()))?;
        }
        Ok(())
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        if let Some(hidden) = self.hidden.take() {
            // Nobody would miss it.
            let _ = fs::remove_file(hidden);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_file_appears_whole_and_replaces_an_own_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.svg");
        fs::write(&path, "old").unwrap();
        let mut making = Making::begin(&path).unwrap();
        making.file().write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        making.place().unwrap();
        making.file().write_all(b"er").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
        drop(Making::begin(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_and_a_folder_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::write(&target, "precious").unwrap();
        let link = folder.path().join("x.svg");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for path in [link.as_path(), folder.path()] {
            let why = Making::begin(path).err().unwrap().to_string();
            assert!(why.contains("is no plain file of this user"), "{why}");
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        let why = Making::begin(&folder.path().join("no/x.svg")).err().unwrap().to_string();
        assert!(why.starts_with("failed to create"), "{why}");
    }
}
