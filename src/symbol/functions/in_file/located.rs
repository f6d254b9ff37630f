//! Resolves FILE of a probe: a path, a program of `$PATH`, or a library in the loader's folders.

use std::env::{self, consts::ARCH};
use std::path::PathBuf;

use anyhow::{Result, anyhow};

/// Returns the path of a name: without a slash, that of the program that a shell would run; of a
/// library by its file name, `libc.so.6`, the first one in the usual folders.
///
/// # Errors
/// There is no such program or library.
pub(super) fn located(name: &str) -> Result<PathBuf> {
    if name.contains('/') {
        return Ok(name.into());
    }
    let folders = match name.contains(".so") {
        true => library_folders(),
        false => env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect(),
    };
    let mut places = folders.into_iter().map(|folder| folder.join(name));
    places.find(|path| path.is_file()).ok_or_else(|| {
        anyhow!(
            "there is no program '{name}' in $PATH; give a library or another file by its path \
             (/proc/PID/maps lists those that a process executes)"
        )
    })
}

/// Returns the folders that a loader searches (ld.so(8)): those of Debian for this architecture,
/// then those of other distributions.
fn library_folders() -> Vec<PathBuf> {
    let own = [format!("/lib/{ARCH}-linux-gnu"), format!("/usr/lib/{ARCH}-linux-gnu")];
    let all = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];
    own.into_iter().map(PathBuf::from).chain(all.map(PathBuf::from)).collect()
}
