//! The names of the kernel's code, kept for the next run of this boot.
//!
//! They do not change while a kernel runs, and to have the kernel write them costs 30 to 60 ms of CPU: half of what a short
//! run with stacks costs. So root's first run leaves them in `/run/perilune`, some 5 MB; of another boot they are not read, and
//! replaced. What others could have written is not read; where it cannot be kept, the next run asks the kernel again.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::sys::user::{effective_uid, is_only_of};

const FOLDER: &str = "/run/perilune";
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Where they are kept.
pub(super) struct Kept {
    folder: PathBuf,
    /// The first line: which boot they are of.
    boot: String,
    owner: u32,
}

impl Kept {
    /// Those of this boot; root only, who alone sees the kernel's addresses.
    pub(super) fn of_this_boot() -> Option<Kept> {
        let boot = fs::read_to_string(BOOT).ok().filter(|_| effective_uid() == 0)?;
        Some(Kept { folder: FOLDER.into(), boot, owner: 0 })
    }

    /// The text that a run of this boot left, unless somebody else could have.
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

    /// Leaves it to the next run.
    ///
    /// # Errors
    /// The folder cannot be made or written to, or is somebody else's.
    pub(super) fn save(&self, text: &[&[u8]]) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(why),
            _ => {}
        }
        if !is_only_of(&fs::symlink_metadata(&self.folder)?, self.owner) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // Two runs that do this at once write the same; a file that one leaves half made is the next one's to make.
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
impl Kept {
    /// In another folder, of another boot.
    pub(super) fn in_folder(folder: &Path, boot: &str) -> Kept {
        Kept { folder: folder.into(), boot: format!("{boot}\n"), owner: effective_uid() }
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
    fn what_a_run_left_is_there_for_the_next_one_of_this_boot() {
        let folder = Folder::new("kept");
        let (first, second) = (Kept::in_folder(&folder.0, "a"), Kept::in_folder(&folder.0, "b"));
        assert_eq!(first.load(), None);
        first.save(&[b"ffff1000 T main\n"]).unwrap();
        assert_eq!(first.load().unwrap(), b"ffff1000 T main\n");
        assert_eq!(second.load(), None, "another boot");
        second.save(&[b"ffff2000 T main\n"]).unwrap();
        assert_eq!((first.load(), second.load().is_some()), (None, true));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing half made is left");
    }

    #[test]
    fn what_others_could_have_written_is_not_read() {
        let folder = Folder::new("kept-others");
        let kept = Kept::in_folder(&folder.0, "a");
        kept.save(&[b"ffff1000 T main\n"]).unwrap();
        let allow =
            |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        for path in [folder.0.clone(), kept.file()] {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            allow(&path, 0o777);
            assert_eq!(kept.load(), None, "{}", path.display());
            allow(&path, mode);
            assert!(kept.load().is_some());
        }
        let elsewhere = folder.0.join("elsewhere");
        fs::rename(kept.file(), &elsewhere).unwrap();
        symlink(&elsewhere, kept.file()).unwrap();
        assert_eq!(kept.load(), None, "a link");
        allow(&folder.0, 0o777);
        assert!(kept.save(&[b""]).is_err(), "nor is anything left there");
    }
}
