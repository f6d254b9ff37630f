//! The one way in which files are written, also into folders that others may write to.
//!
//! A path is resolved by [`writable`]: the file itself must not be a link, a link on the way to it is followed only if this user
//! or root made it, and what stands there must be a plain file of this user or absent. A file is made without a name (`O_TMPFILE`) and gets its name when it is whole, so that
//! no process reads half a picture, and a run that is killed leaves the older file and nothing else. Where the file system has
//! no unnamed files it is made under a hidden name, and one that a killed run left there is removed by the next.

use crate::sys::folder::{Folder, let_it_block, reopen, try_lock};
use crate::sys::user::effective_uid;
use crate::sys::walk::{Place, Step, resolve};
use anyhow::{Context as _, Result, bail};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// A file of results; its errors name it.
#[derive(Debug)]
pub struct Growing {
    file: File,
    shown: String,
}

impl Growing {
    fn named(&self, why: &io::Error) -> io::Error {
        io::Error::new(why.kind(), format!("{}: {why}", self.shown))
    }
}

impl io::Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|why| self.named(&why))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|why| self.named(&why))
    }
}

/// A folder that others may write to.
const OPEN_TO_OTHERS: u32 = 0o022;

/// Where a file may be written.
///
/// # Errors
/// The file is a link, outside /dev and /proc; a component is another user's link, as [`is_followed`] has it; the folder is
/// not there.
pub fn writable(path: &Path) -> Result<Place> {
    let shown = path.display();
    if path.file_name().is_none() {
        bail!("`{shown}` names no file");
    }
    let place = resolve(path, |step| match is_followed(step) {
        true => Ok(()),
        false => bail!(
            "`{}` is a symbolic link of uid {}, which is not followed; name another file",
            step.path.display(),
            step.data.uid()
        ),
    })
    .with_context(|| format!("failed to create `{shown}`"))?;
    // A link that this user has forgotten leads to a file that is not meant. In /dev the system alone makes links.
    let of_system = ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder));
    if !of_system && std::fs::symlink_metadata(path).is_ok_and(|data| data.is_symlink()) {
        bail!(
            "`{shown}` is a symbolic link, which is not followed; name the file that it leads to"
        );
    }
    Ok(place)
}

/// Whether a component may be followed: all but a link of another user, who can let it lead to any file of root's. Others than
/// root follow such a link where the kernel's `protected_symlinks` does: in a folder that only its owner writes.
fn is_followed(step: &Step<'_>) -> bool {
    let own = [0, effective_uid()].contains(&step.data.uid());
    let closed = step.folder.is_none_or(|folder| folder.mode() & OPEN_TO_OTHERS == 0);
    own || !step.data.is_symlink() || (closed && effective_uid() != 0)
}

/// A file that is being made; its name leads to it once it is put in place.
#[derive(Debug)]
pub struct Making {
    file: File,
    shown: PathBuf,
    place: Place,
    state: State,
}

#[derive(Debug)]
enum State {
    Unnamed,
    Hidden(OsString),
    Placed,
}

impl Making {
    /// Begins a file that is to stand at `path`.
    ///
    /// # Errors
    /// What is there is not this user's plain file, or the folder cannot be written to.
    pub fn begin(path: &Path) -> Result<Making> {
        let place = writable(path)?;
        if let Some(found) = &place.found {
            check_own(path, &found.metadata()?)?;
        }
        let failed = || format!("failed to create `{}`", path.display());
        sweep(&place);
        let (file, state) = match begin_unnamed(&place.folder) {
            Some(file) => (file, State::Unnamed),
            None => {
                let (file, name) = begin_hidden(&place).with_context(failed)?;
                (file, State::Hidden(name))
            }
        };
        Ok(Making { file, shown: path.to_owned(), place, state })
    }

    /// What to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts it in its place and keeps it open: what is written from now on can be seen.
    ///
    /// # Errors
    /// The system's, or something else stands there by now.
    pub fn place(&mut self) -> Result<()> {
        let (folder, name) = (&self.place.folder, &self.place.name);
        let failed = || format!("failed to put `{}` in its place", self.shown.display());
        let hidden = match &self.state {
            State::Placed => return Ok(()),
            State::Hidden(hidden) => hidden.clone(),
            State::Unnamed => match folder.link(&self.file, name) {
                Ok(()) => {
                    self.state = State::Placed;
                    return Ok(());
                }
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {
                    // A link cannot replace a name; a rename can.
                    let hidden = free_name(&self.place, |hidden| folder.link(&self.file, hidden));
                    let ((), hidden) = hidden.with_context(failed)?;
                    self.state = State::Hidden(hidden.clone());
                    hidden
                }
                Err(why) => return Err(why).with_context(failed),
            },
        };
        if let Ok(there) = folder.look(name, false) {
            check_own(&self.shown, &there.metadata().with_context(failed)?)?;
        }
        folder.rename(&hidden, name).with_context(failed)?;
        self.state = State::Placed;
        Ok(())
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        if let State::Hidden(hidden) = &self.state {
            // What cannot be removed now is removed by a later run.
            let _ = self.place.folder.remove(hidden);
        }
    }
}

/// Writes a whole file; a plain file of this user is replaced.
///
/// # Errors
/// As [`Making::begin`]; or it cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut making = Making::begin(path)?;
    let written = making.file().write_all(bytes);
    written.with_context(|| format!("failed to write `{}`", path.display()))?;
    making.place()
}

/// Writes a file where none is.
///
/// # Errors
/// Something is there, the folder cannot be written to, or the file cannot be.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let place = writable(path)?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    let created = place.folder.open(&place.name, flags);
    let mut file = created.with_context(|| format!("failed to create `{}`", path.display()))?;
    file.write_all(bytes).map_err(|why| {
        // Half a file would be in the way of the next attempt.
        let _ = place.folder.remove(&place.name);
        anyhow::Error::new(why).context(format!("failed to write `{}`", path.display()))
    })
}

/// Opens a file for results that are read while they are written. A plain file is made anew, as by [`Making`]; a FIFO, a
/// terminal, /dev/null and whatever a descriptor of this process leads to (/dev/stdout, /dev/fd/N) is written to.
///
/// # Errors
/// It is another user's or a folder; a FIFO without a reader.
pub fn open_growing(path: &Path) -> Result<Growing> {
    let (file, shown) = (open(path)?, path.display().to_string());
    Ok(Growing { file, shown })
}

fn open(path: &Path) -> Result<File> {
    let place = writable(path)?;
    let Some(found) = &place.found else { return placed(path) };
    let data = found.metadata()?;
    let (kind, shown) = (data.file_type(), path.display());
    // The owner of what a descriptor leads to has been asked when it was opened.
    if !place.of_proc {
        if kind.is_file() || kind.is_dir() || kind.is_block_device() {
            return placed(path);
        }
        if ![0, effective_uid()].contains(&data.uid()) {
            bail!("`{shown}` belongs to uid {}; name another file", data.uid());
        }
    }
    // Opened without O_NONBLOCK, a FIFO without a reader would hold this process here.
    let opened = reopen(found, libc::O_WRONLY | libc::O_APPEND | libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = opened.map_err(|why| match why.raw_os_error() {
        Some(libc::ENXIO) if kind.is_fifo() => {
            anyhow::anyhow!("no process reads the FIFO `{shown}`; start its reader first")
        }
        _ => anyhow::Error::new(why).context(format!("failed to open `{shown}`")),
    })?;
    let_it_block(&file).with_context(|| format!("failed to open `{shown}`"))?;
    Ok(file)
}

fn placed(path: &Path) -> Result<File> {
    let mut making = Making::begin(path)?;
    making.place()?;
    making.file().try_clone().with_context(|| format!("failed to open `{}`", path.display()))
}

fn check_own(path: &Path, data: &Metadata) -> Result<()> {
    let shown = path.display();
    if !data.is_file() {
        bail!("`{shown}` is there and is no plain file; choose another name");
    }
    if data.uid() != effective_uid() {
        bail!("`{shown}` belongs to uid {}; choose another name", data.uid());
    }
    Ok(())
}

/// A file without a name, if it can get one later: that takes /proc.
fn begin_unnamed(folder: &Folder) -> Option<File> {
    Path::new("/proc/self/fd").is_dir().then(|| folder.unnamed().ok()).flatten()
}

/// A file under a hidden name, locked while this process makes it.
fn begin_hidden(place: &Place) -> io::Result<(File, OsString)> {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    let (file, name) = free_name(place, |hidden| place.folder.open(hidden, flags))?;
    // Some file systems have no locks; the process id in the name keeps other runs off.
    try_lock(&file);
    Ok((file, name))
}

/// Does `make` with the first hidden name that is free.
fn free_name<T>(
    place: &Place,
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
    Err(io::Error::other("the folder is full of unfinished files"))
}

fn prefix(name: &OsStr) -> OsString {
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(".");
    hidden
}

/// Removes what killed runs left of this file: hidden files of this user that no process has locked and whose process is gone.
fn sweep(place: &Place) {
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
