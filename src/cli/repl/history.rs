//! The file with the lines of earlier sessions, in a folder that no other user can write.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::script::load::trust;
use crate::sys::user::{effective_uid, is_only_of};

/// Number of lines kept.
pub(super) const LINES: usize = 10_000;

/// Returns `$XDG_STATE_HOME/perilune/history`; `None` if other users could change it.
pub(super) fn path() -> Option<PathBuf> {
    let var = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = var("XDG_STATE_HOME").or_else(|| Some(var("HOME")?.join(".local/state")))?;
    if !state.is_absolute() {
        return None;
    }
    let folder = state.join("perilune");
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.ok().filter(|()| is_ours(&folder))?;
    let file = folder.join("history");
    match fs::symlink_metadata(&file) {
        Ok(data) if !data.is_file() || data.uid() != effective_uid() => None,
        _ => Some(file),
    }
}

/// Returns whether only this user can put files there. A user who can write a folder above it could
/// replace it.
fn is_ours(folder: &Path) -> bool {
    let Ok(data) = fs::symlink_metadata(folder) else { return false };
    let own = data.is_dir() && is_only_of(&data, effective_uid());
    own && (effective_uid() != 0 || trust::folder(folder).is_ok())
}
