//! Resolves FILE of a probe: a path, a program of `$PATH`, or a library in the loader's folders.

use std::env::{self, consts::ARCH};
use std::fs;
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
    places.find(|path| path.is_file()).ok_or_else(|| match library(name) {
        Some(file) => {
            anyhow!("there is no program '{name}' in $PATH; write {file} for the library")
        }
        None => anyhow!(
            "there is no program '{name}' in $PATH; give a library or another file by its path \
             (/proc/PID/maps lists those that a process executes)"
        ),
    })
}

/// Returns the file name of an installed library: `libc.so.6` for `libc` or `c`.
fn library(name: &str) -> Option<String> {
    let folders = library_folders().into_iter().filter_map(|folder| fs::read_dir(folder).ok());
    let files =
        folders.flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let is_of_name = |file: &String| {
        let of_short = file.strip_prefix("lib").and_then(|file| file.strip_prefix(name));
        let behind = file.strip_prefix(name).or(of_short);
        behind.is_some_and(|behind| behind.starts_with(".so."))
    };
    files.filter(is_of_name).min_by_key(|file| (file.len(), file.clone()))
}

/// Returns the folders that a loader searches (ld.so(8)): those of Debian for this architecture,
/// then those of other distributions.
fn library_folders() -> Vec<PathBuf> {
    let own = [format!("/lib/{ARCH}-linux-gnu"), format!("/usr/lib/{ARCH}-linux-gnu")];
    let all = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];
    own.into_iter().map(PathBuf::from).chain(all.map(PathBuf::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_by_its_short_names() {
        assert_eq!(library("no-such-library"), None);
        let Some(file) = library("c") else { return };
        assert!(file.starts_with("libc.so."), "{file}");
        assert_eq!(library("libc"), Some(file.clone()));
        let why = located("libc").unwrap_err().to_string();
        let expected = format!("there is no program 'libc' in $PATH; write {file} for the library");
        assert_eq!(why, expected);
    }
}
