//! Cache of the names of the kernel's code, for the next run of this boot.
//!
//! The names do not change while a kernel runs, and the kernel needs 30 to 60 ms of CPU to write
//! them: half of the cost of a short run with stacks. The first run as root therefore saves them in
//! `/run/perilune`, about 5 MB. A file of another boot is not read, but replaced; a file that
//! another user could have written is not read. If the file cannot be saved, the next run reads the
//! names from the kernel again.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::sys::user::{effective_uid, is_only_of};

const FOLDER: &str = "/run/perilune";
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Location of the cache.
pub(super) struct KallsymsCache {
    folder: PathBuf,
    /// The first line, which identifies the boot.
    boot: String,
    owner: u32,
}

impl KallsymsCache {
    /// Returns the cache of this boot; only for root, since no other user sees the kernel's
    /// addresses.
    pub(super) fn of_this_boot() -> Option<KallsymsCache> {
        let boot = fs::read_to_string(BOOT).ok().filter(|_| effective_uid() == 0)?;
        Some(KallsymsCache { folder: FOLDER.into(), boot, owner: 0 })
    }

    /// Returns the text that a run of this boot saved, unless another user could have written it.
    pub(super) fn load(&self) -> Option<Vec<u8>> {
        fs::symlink_metadata(&self.folder)
            .ok()
            .filter(|folder| folder.is_dir() && is_only_of(folder, self.owner))?;
        let mut file =
            OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(self.file()).ok()?;
        let meta =
            file.metadata().ok().filter(|file| file.is_file() && is_only_of(file, self.owner))?;
        let mut text = Vec::with_capacity(usize::try_from(meta.len()).ok()? + 1);
        file.read_to_end(&mut text).ok()?;
        text.starts_with(self.boot.as_bytes()).then(|| text.split_off(self.boot.len()))
    }

    /// Saves the text for the next run.
    ///
    /// # Errors
    /// The directory cannot be created or written to, or another user could write to it.
    pub(super) fn save(&self, text: &[&[u8]]) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(why),
            _ => {}
        }
        if !is_only_of(&fs::symlink_metadata(&self.folder)?, self.owner) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // Two runs that do this at the same time write the same text; an incomplete file is
        // overwritten by the next run.
        let making = self.folder.join("kallsyms.new");
        let written = write(&making, self.boot.as_bytes(), text);
        written.and_then(|()| fs::rename(&making, self.file())).inspect_err(|_| {
            let _ = fs::remove_file(&making);
        })
    }

    fn file(&self) -> PathBuf {
        self.folder.join("kallsyms")
    }
}

fn write(path: &Path, first: &[u8], parts: &[&[u8]]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file: File = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    file.write_all(first)?;
    parts.iter().try_for_each(|part| file.write_all(part))
}

#[cfg(test)]
impl KallsymsCache {
    /// Returns a cache in another directory, of another boot.
    pub(super) fn in_folder(folder: &Path, boot: &str) -> KallsymsCache {
        KallsymsCache { folder: folder.into(), boot: format!("{boot}\n"), owner: effective_uid() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("perilune-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_next_run_of_this_boot_reads_the_cache() {
        let folder = Folder::new("cache");
        let (first, second) =
            (KallsymsCache::in_folder(&folder.0, "a"), KallsymsCache::in_folder(&folder.0, "b"));
        assert_eq!(first.load(), None);
        first.save(&[b"ffff1000 T main\n"]).unwrap();
        assert_eq!(first.load().unwrap(), b"ffff1000 T main\n");
        assert_eq!(second.load(), None, "another boot");
        second.save(&[b"ffff2000 T main\n"]).unwrap();
        assert_eq!((first.load(), second.load().is_some()), (None, true));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_cache_that_other_users_can_write_is_not_read() {
        let folder = Folder::new("cache-others");
        let cache = KallsymsCache::in_folder(&folder.0, "a");
        cache.save(&[b"ffff1000 T main\n"]).unwrap();
        let allow =
            |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        for path in [folder.0.clone(), cache.file()] {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            allow(&path, 0o777);
            assert_eq!(cache.load(), None, "{}", path.display());
            allow(&path, mode);
            assert!(cache.load().is_some());
        }
        let elsewhere = folder.0.join("elsewhere");
        fs::rename(cache.file(), &elsewhere).unwrap();
        symlink(&elsewhere, cache.file()).unwrap();
        assert_eq!(cache.load(), None, "a link");
        allow(&folder.0, 0o777);
        assert!(cache.save(&[b""]).is_err(), "no file is written either");
    }
}
