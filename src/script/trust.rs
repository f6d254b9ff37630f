//! Whose text a root run executes: only what nobody else could have written.
//!
//! Judged is the file that is open, not the one that a path will mean a moment later: open first, then fstat, then
//! read from the same descriptor. A symbolic link counts as what it leads to.
//!
//! The owner has to be root, and neither group nor others may write. For the folders of the search path that holds
//! for every component up to `/`, and a sticky folder (`/tmp`) fails, too: anybody may add a file there, and a name
//! would find it. For a path that somebody typed, the file and its folder count, and a sticky folder will do: in it
//! nobody but root can replace a file that root owns, and which file is meant has been said.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Longer than any script that is still read by people.
pub const SIZE_MAX: u64 = 1 << 20;

const WRITABLE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// How much care a file needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// The run is not root's.
    None,
    /// Root named the file.
    Named,
    /// Root gave a name, and the search path led here.
    Searched,
}

/// Others than root can write a file or a folder on the way to it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {how}, and a root run takes only what root alone can write; {remedy}", .path.display())]
pub struct Untrusted {
    path: PathBuf,
    how: String,
    remedy: String,
}

/// Reads a script's text.
///
/// # Errors
///
/// [`Untrusted`]; else what is wrong with the file: absent, not a regular file, too long, not text.
pub fn read(path: &Path, care: Care) -> anyhow::Result<String> {
    let shown = path.display();
    // Without O_NONBLOCK a pipe would hold us here until somebody writes to it.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = opened.with_context(|| format!("{shown}"))?;
    let data = file.metadata().with_context(|| format!("{shown}"))?;
    if !data.is_file() {
        bail!("{shown}: not a regular file");
    }
    if care != Care::None {
        // Where the open file really is; a name that has changed its meaning since is as bad as a foreign one.
        let real = path.canonicalize().with_context(|| format!("{shown}"))?;
        let again = real.metadata().with_context(|| format!("{shown}"))?;
        if (again.dev(), again.ino()) != (data.dev(), data.ino()) {
            bail!("{shown}: changed while it was opened; try again");
        }
        judge(&real, &data, false)?;
        match care {
            Care::Searched => real.parent().map_or(Ok(()), folder)?,
            Care::Named | Care::None => own_folder(&real)?,
        }
    }
    text(file, path)
}

/// Whether a folder and every folder above it belong to root alone.
pub fn folder(path: &Path) -> Result<(), Untrusted> {
    let strange = |path: &Path, why: std::io::Error| Untrusted {
        path: path.to_owned(),
        how: why.to_string(),
        remedy: "check the path".to_owned(),
    };
    let real = path.canonicalize().map_err(|why| strange(path, why))?;
    for part in real.ancestors() {
        judge(part, &part.metadata().map_err(|why| strange(part, why))?, false)?;
    }
    Ok(())
}

fn own_folder(file: &Path) -> anyhow::Result<()> {
    let Some(folder) = file.parent() else { return Ok(()) };
    let data = folder.metadata().with_context(|| format!("{}", folder.display()))?;
    Ok(judge(folder, &data, true)?)
}

fn judge(path: &Path, data: &Metadata, sticky_will_do: bool) -> Result<(), Untrusted> {
    let (mode, shown) = (data.mode(), path.display());
    let (how, remedy) = if data.uid() != 0 {
        (format!("owned by uid {}", data.uid()), format!("chown root {shown}"))
    } else if mode & WRITABLE != 0 && !(sticky_will_do && mode & STICKY != 0) {
        (format!("mode {:04o}", mode & 0o7777), format!("chmod go-w {shown}"))
    } else {
        return Ok(());
    };
    let remedy = if data.is_dir() {
        format!("{remedy}, or use a folder such as /etc/perilune")
    } else {
        remedy
    };
    Err(Untrusted { path: path.to_owned(), how, remedy })
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
