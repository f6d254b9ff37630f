//! The file of `--database FILE`: the events of the run as tables of SQLite.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, ensure};

use super::flames::text;
use super::request::RunRequest;
use crate::base::report::coverage::Coverage;
use crate::output::file;
use crate::script::host::Host;

/// The option.
const OPTION: &str = "database";
/// Suffixes of the files that a killed run leaves beside a database. SQLite would apply them to the
/// new one.
const LEFT: [&str; 3] = ["-journal", "-wal", "-shm"];

/// Creates the file if it is requested, and keeps the events in it from now on. `host` has begun.
///
/// # Errors
/// The file cannot be created, or the monitor has no query.
pub(super) fn begin(request: &RunRequest, host: &Host) -> Result<()> {
    let Some(path) = text(&request.values, OPTION) else { return Ok(()) };
    let path = created(Path::new(path)).context("--database")?;
    let is_kept = host.keep_events(&path).map_err(|why| anyhow!("--database: {why}"))?;
    ensure!(is_kept, "--database keeps the events of `sql`, which this monitor does not declare");
    Ok(())
}

/// Creates an empty file and returns its path without links, which SQLite would refuse.
fn created(path: &Path) -> Result<PathBuf> {
    drop(file::open_growing(path)?);
    let path = fs::canonicalize(path).with_context(|| format!("`{}`", path.display()))?;
    let is_file = fs::symlink_metadata(&path)?.is_file();
    ensure!(is_file, "`{}` is not a regular file; name one", path.display());
    for suffix in LEFT {
        let mut left = path.clone().into_os_string();
        left.push(suffix);
        match fs::remove_file(&left) {
            Err(why) if why.kind() != ErrorKind::NotFound => {
                let shown = Path::new(&left).display().to_string();
                return Err(why).with_context(|| format!("failed to remove `{shown}`"));
            }
            _ => {}
        }
    }
    Ok(path)
}

/// Completes the file. Returns a summary.
///
/// # Errors
/// The file cannot be written.
pub(super) fn complete(host: &Host, coverage: &Coverage) -> Result<Option<String>> {
    host.complete_events(coverage).map_err(|why| anyhow!("--database: {why}"))
}
