//! Writes files, also into folders that other users may write to.
//!
//! [`writable`] resolves a path. The last component must not be a symbolic link; `is_followed`
//! decides which links before it are followed. An existing file must be a regular file of this
//! user.
//!
//! A file is created without a name (`O_TMPFILE`) and linked when it is complete, so that no
//! process reads half a picture, and a killed run leaves the previous file and nothing else. On a
//! file system without `O_TMPFILE` it is created under a hidden name; the next run removes a hidden
//! file that a killed run left.

use crate::sys::folder::{Folder, reopen, set_blocking, try_lock};
use crate::sys::user::effective_uid;
use crate::sys::walk::{PathStep, ResolvedPath, resolve};
use anyhow::{Context as _, Result, bail};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// A file of results that is read while it grows; its errors contain its name.
#[derive(Debug)]
pub struct GrowingFile {
    file: File,
    shown: String,
}

impl GrowingFile {
    fn named(&self, why: &io::Error) -> io::Error {
        io::Error::new(why.kind(), format!("{}: {why}", self.shown))
    }
}

impl io::Write for GrowingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|why| self.named(&why))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|why| self.named(&why))
    }
}

/// The mode bits of a folder that other users may write to.
const OPEN_TO_OTHERS: u32 = 0o022;

/// Resolves the path of a file to write.
///
/// # Errors
/// The last component is a symbolic link, outside /dev and /proc; `is_followed` refuses a
/// component; the folder does not exist.
pub fn writable(path: &Path) -> Result<ResolvedPath> {
    let shown = path.display();
    if path.file_name().is_none() {
        bail!("`{shown}` is not the name of a file");
    }
    resolve(path, |step| {
        if !is_followed(step) {
            bail!(
                "`{}` is a symbolic link of uid {}, which is not followed; use another path",
                step.path.display(),
                step.data.uid()
            );
        }
        // Refuses even this user's own links: a forgotten one leads to another file than intended.
        if step.is_last && step.data.is_symlink() && !is_of_system(step.path) {
            bail!("it is a symbolic link, which is not followed; name its target instead");
        }
        Ok(())
    })
    .with_context(|| format!("failed to create `{shown}`"))
}

/// Returns whether a path without links is one of the kernel's own names for files, such as
/// /dev/stdout.
fn is_of_system(path: &Path) -> bool {
    ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder))
}

/// Returns whether to follow a component. Refuses the symbolic links of other users, who could
/// point them at any file of root. A user other than root follows them in folders that only their
/// owner can write, as the kernel does with `protected_symlinks`.
fn is_followed(step: &PathStep<'_>) -> bool {
    let own = [0, effective_uid()].contains(&step.data.uid());
    let closed = step.folder.is_none_or(|folder| folder.mode() & OPEN_TO_OTHERS == 0);
    own || !step.data.is_symlink() || (closed && effective_uid() != 0)
}

/// A file in preparation; [`AtomicFile::place`] gives it its name.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    shown: PathBuf,
    place: ResolvedPath,
    state: FileState,
}

#[derive(Debug)]
enum FileState {
    Unnamed,
    Hidden(OsString),
    Placed,
}

impl AtomicFile {
    /// Begins a file that will be placed at `path`.
    ///
    /// # Errors
    /// The existing file is not a regular file of this user, or the folder is not writable.
    pub fn begin(path: &Path) -> Result<AtomicFile> {
        let place = writable(path)?;
        let mut mode = None;
        if let Some(found) = &place.found {
            let data = found.metadata()?;
            check_own(path, &data)?;
            mode = Some(data.permissions());
        }
        let failed = || format!("failed to create `{}`", path.display());
        sweep(&place);
        let (file, state) = match begin_unnamed(&place.folder) {
            Some(file) => (file, FileState::Unnamed),
            None => {
                let (file, name) = begin_hidden(&place).with_context(failed)?;
                (file, FileState::Hidden(name))
            }
        };
        // The new file gets the permissions of the file it replaces.
        if let Some(mode) = mode {
            file.set_permissions(mode).with_context(failed)?;
        }
        Ok(AtomicFile { file, shown: path.to_owned(), place, state })
    }

    /// Returns the file to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Places the file at its path and keeps it open: later writes are visible.
    ///
    /// # Errors
    /// The file cannot be linked or renamed, or the name now belongs to something other than a
    /// regular file of this user.
    pub fn place(&mut self) -> Result<()> {
        let (folder, name) = (&self.place.folder, &self.place.name);
        let failed = || format!("failed to move the new file to `{}`", self.shown.display());
        let hidden = match &self.state {
            FileState::Placed => return Ok(()),
            FileState::Hidden(hidden) => hidden.clone(),
            FileState::Unnamed => match folder.link(&self.file, name) {
                Ok(()) => {
                    self.state = FileState::Placed;
                    return Ok(());
                }
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {
                    // linkat(2) cannot replace a name; rename(2) can.
                    let hidden = free_name(&self.place, |hidden| folder.link(&self.file, hidden));
                    let ((), hidden) = hidden.with_context(failed)?;
                    self.state = FileState::Hidden(hidden.clone());
                    hidden
                }
                Err(why) => return Err(why).with_context(failed),
            },
        };
        if let Ok(there) = folder.look(name, false) {
            check_own(&self.shown, &there.metadata().with_context(failed)?)?;
        }
        folder.rename(&hidden, name).with_context(failed)?;
        self.state = FileState::Placed;
        Ok(())
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let FileState::Hidden(hidden) = &self.state {
            // A later run removes it if this fails.
            let _ = self.place.folder.remove(hidden);
        }
    }
}

/// Writes a whole file; replaces a regular file of this user.
///
/// # Errors
/// As [`AtomicFile::begin`]; or it cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut making = AtomicFile::begin(path)?;
    let written = making.file().write_all(bytes);
    written.with_context(|| format!("failed to write `{}`", path.display()))?;
    making.place()
}

/// Writes a new file.
///
/// # Errors
/// The file exists, or it or the folder is not writable.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let place = writable(path)?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    let created = place.folder.open(&place.name, flags);
    let mut file = created.with_context(|| format!("failed to create `{}`", path.display()))?;
    file.write_all(bytes).map_err(|why| {
        // A partial file would make the next attempt fail.
        let _ = place.folder.remove(&place.name);
        anyhow::Error::new(why).context(format!("failed to write `{}`", path.display()))
    })
}

/// Opens a file for results that are read while they are written. A regular file is replaced, as by
/// [`AtomicFile`]; a FIFO, a terminal, /dev/null or a descriptor of this process (/dev/stdout,
/// /dev/fd/N) is opened and written to.
///
/// # Errors
/// It belongs to another user, is a folder, or is a FIFO without a reader.
pub fn open_growing(path: &Path) -> Result<GrowingFile> {
    let (file, shown) = (open(path)?, path.display().to_string());
    Ok(GrowingFile { file, shown })
}

fn open(path: &Path) -> Result<File> {
    let place = writable(path)?;
    let Some(found) = &place.found else { return placed(path) };
    let data = found.metadata()?;
    let (kind, shown) = (data.file_type(), path.display());
    // A descriptor of this process was checked when it was opened.
    if !place.of_proc {
        if kind.is_file() || kind.is_dir() || kind.is_block_device() {
            return placed(path);
        }
        if ![0, effective_uid()].contains(&data.uid()) {
            bail!("`{shown}` belongs to uid {}; name another file", data.uid());
        }
    }
    // Without O_NONBLOCK, opening a FIFO without a reader would block.
    let opened = reopen(found, libc::O_WRONLY | libc::O_APPEND | libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = opened.map_err(|why| match why.raw_os_error() {
        Some(libc::ENXIO) if kind.is_fifo() => {
            anyhow::anyhow!("no process reads the FIFO `{shown}`; start its reader first")
        }
        _ => anyhow::Error::new(why).context(format!("failed to open `{shown}`")),
    })?;
    set_blocking(&file).with_context(|| format!("failed to open `{shown}`"))?;
    Ok(file)
}

fn placed(path: &Path) -> Result<File> {
    let mut making = AtomicFile::begin(path)?;
    making.place()?;
    making.file().try_clone().with_context(|| format!("failed to open `{}`", path.display()))
}

fn check_own(path: &Path, data: &Metadata) -> Result<()> {
    let shown = path.display();
    if !data.is_file() {
        bail!("`{shown}` exists and is not a regular file; choose another name");
    }
    if data.uid() != effective_uid() {
        bail!("`{shown}` belongs to uid {}; choose another name", data.uid());
    }
    Ok(())
}

/// Creates a file without a name, if it can be linked later, which needs /proc.
fn begin_unnamed(folder: &Folder) -> Option<File> {
    Path::new("/proc/self/fd").is_dir().then(|| folder.unnamed().ok()).flatten()
}

/// Creates a file under a hidden name, locked by this process.
fn begin_hidden(place: &ResolvedPath) -> io::Result<(File, OsString)> {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    let (file, name) = free_name(place, |hidden| place.folder.open(hidden, flags))?;
    // The file system may not support locks; then the process id in the name protects it from other
    // runs.
    try_lock(&file);
    Ok((file, name))
}

/// Calls `make` with hidden names until one is free.
fn free_name<T>(
    place: &ResolvedPath,
    make: impl Fn(&OsStr) -> io::Result<T>,
) -> io::Result<(T, OsString)> {
    for attempt in 0..100u32 {
        let mut hidden = prefix(&place.name);
        hidden.push(format!("{}.{attempt}", std::process::id()));
        match make(&hidden) {
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|made| (made, hidden)),
        }
    }
    Err(io::Error::other("100 unfinished files of this name are in the folder; remove them"))
}

fn prefix(name: &OsStr) -> OsString {
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(".");
    hidden
}

/// Removes hidden files that killed runs left: of this user, not locked, and whose process has
/// ended.
fn sweep(place: &ResolvedPath) {
    let prefix = prefix(&place.name);
    for name in place.folder.names().unwrap_or_default() {
        let rest = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
        let maker = rest.and_then(|rest| std::str::from_utf8(rest).ok()?.split_once('.'));
        let numbers = maker.and_then(|(pid, attempt)| {
            Some((pid.parse::<u32>().ok()?, attempt.parse::<u32>().ok()?))
        });
        let Some((pid, _)) = numbers else { continue };
        if Path::new(&format!("/proc/{pid}")).exists() || !Path::new("/proc/self").exists() {
            continue;
        }
        let Ok(file) =
            place.folder.open(&name, libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK)
        else {
            continue;
        };
        let own = file.metadata().is_ok_and(|d| d.is_file() && d.uid() == effective_uid());
        // The process may live in another pid namespace.
        if own && try_lock(&file) {
            let _ = place.folder.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests;
