//! Checks of the files that a root run executes: only root may be able to write them.
//!
//! The same rule applies to scripts named by path, to scripts found on the search path, and to
//! their folders. Root must own each component of the path, `/` included, and neither group nor
//! others may write it. A folder that others may write is accepted if it is sticky, such as /tmp:
//! other users cannot rename or remove what root owns in it. The owner of a symbolic link matters
//! only there.
//!
//! The path is walked once ([`crate::sys::walk`]), and the file that was checked is the one that is
//! read.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::sys::folder::reopen;
use crate::sys::walk::{PathStep, ResolvedPath, resolve};

/// Size limit of a script, in bytes.
pub const SIZE_MAX: u64 = 1 << 20;

const WRITABLE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// A user other than root can change a file or a folder on its path.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {how}; a root run reads only what root alone can write; {remedy}", .path.display())]
pub struct Untrusted {
    path: PathBuf,
    how: String,
    remedy: String,
}

/// Reads a script's text; with `root`, only if root alone can write it.
///
/// # Errors
///
/// [`Untrusted`], or the file is absent, not a regular file, too long or not text.
pub fn read(path: &Path, root: bool) -> anyhow::Result<String> {
    let shown = path.display();
    let place = walk(path, root).map_err(|why| match why.is::<Untrusted>() {
        // The error names the path itself.
        true => why,
        false => why.context(format!("{shown}")),
    })?;
    let missing = || std::io::Error::from_raw_os_error(libc::ENOENT);
    let found = place.found.ok_or_else(missing).with_context(|| format!("{shown}"))?;
    if !found.metadata().with_context(|| format!("{shown}"))?.is_file() {
        bail!("{shown}: not a regular file");
    }
    let file = reopen(&found, libc::O_RDONLY).with_context(|| format!("{shown}"))?;
    text(file, path)
}

/// Checks that only root can change a folder and the path to it.
///
/// # Errors
///
/// [`Untrusted`], or the folder does not exist.
pub fn folder(path: &Path) -> anyhow::Result<()> {
    walk(path, true).map(|_| ())
}

fn walk(path: &Path, root: bool) -> anyhow::Result<ResolvedPath> {
    resolve(path, |step| match root {
        true => Ok(judge(step)?),
        false => Ok(()),
    })
}

fn judge(step: &PathStep<'_>) -> Result<(), Untrusted> {
    let (data, shown) = (step.data, step.path.display());
    let untrusted = |how: String, remedy: String| {
        let remedy = match data.is_file() {
            true => remedy,
            false => "use a folder that only root can write, such as /etc/perilune".to_owned(),
        };
        Err(Untrusted { path: step.path.to_owned(), how, remedy })
    };
    // A link has no mode, and its owner cannot replace it in a folder that only root can write.
    let replaceable = step.folder.is_some_and(is_open);
    if data.uid() != 0 && (replaceable || !data.is_symlink()) {
        let uid = data.uid();
        return untrusted(format!("owned by uid {uid}"), format!("chown root {shown}"));
    }
    // In a sticky folder only root can rename or remove what root owns.
    let mode = data.mode();
    if !data.is_symlink() && is_open(data) && !(data.is_dir() && mode & STICKY != 0) {
        let how = format!("mode {:04o}", mode & 0o7777);
        return untrusted(how, format!("chmod go-w {shown}"));
    }
    Ok(())
}

/// Returns whether group or others may write it.
fn is_open(data: &Metadata) -> bool {
    data.mode() & WRITABLE != 0
}

fn text(file: File, path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let mut bytes = Vec::new();
    file.take(SIZE_MAX + 1).read_to_end(&mut bytes).with_context(|| format!("{shown}"))?;
    if bytes.len() as u64 > SIZE_MAX {
        bail!("{shown}: longer than {SIZE_MAX} bytes; is it a script?");
    }
    if bytes.first() == Some(&0x1b) {
        bail!("{shown}: compiled Lua; only source is run");
    }
    String::from_utf8(bytes)
        .ok()
        .with_context(|| format!("{shown}: not UTF-8 text; is it a script?"))
}
