//! The files of `--pprof FILE` and `--firefox FILE`: the stacks of the whole run, written at its
//! end.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use indexmap::IndexMap;

use super::flames::text;
use super::request::RunRequest;
use crate::base::report::draw::Stamp;
use crate::base::report::flame::Flame;
use crate::output::file::{self, AtomicFile};
use crate::output::firefox::firefox;
use crate::output::pprof::pprof;
use crate::script::aggregate::flame::DrawnGraph;

/// Bytes of the stacks of a table that are kept; beyond it, frames with a small share are cut.
const BYTES: usize = 48 << 20;

/// The files, and the stacks of each table so far.
pub(super) struct Profiles {
    monitor: String,
    pprof: Option<PathBuf>,
    firefox: Option<PathBuf>,
    tables: IndexMap<String, Flame>,
    begin: Option<Stamp>,
}

impl Profiles {
    /// Checks that the files can be created before anything is measured. Returns None if none is
    /// requested.
    ///
    /// # Errors
    /// A file cannot be created.
    pub(super) fn begin(request: &RunRequest) -> Result<Option<Profiles>> {
        let path = |option| text(&request.values, option).map(PathBuf::from);
        let (pprof, firefox) = (path("pprof"), path("firefox"));
        if pprof.is_none() && firefox.is_none() {
            return Ok(None);
        }
        for (option, path) in [("--pprof", &pprof), ("--firefox", &firefox)] {
            if let Some(path) = path {
                drop(AtomicFile::begin(path).context(option)?);
            }
        }
        let (monitor, tables) = (request.monitor.name.clone(), IndexMap::new());
        Ok(Some(Profiles { monitor, pprof, firefox, tables, begin: None }))
    }

    /// Sets the start of the run.
    pub(super) fn start(&mut self, now: Stamp) {
        self.begin = Some(now);
    }

    /// Adds the stacks of an interval. A snapshot replaces the one before: a sum would count a
    /// long-lived entry many times.
    pub(super) fn take(&mut self, drawn: &[DrawnGraph]) {
        for DrawnGraph { table, flame, snapshot } in drawn {
            let all = self.tables.entry(table.clone()).or_default();
            if all.is_empty() || *snapshot {
                *all = flame.clone();
            } else {
                all.merge(flame, &[]);
            }
            all.merge_equal();
            let mut seen = 1 << 16;
            while all.bytes() > BYTES && seen > 16 {
                all.merge_equal();
                all.prune(all.total() / seen);
                seen /= 4;
            }
        }
    }

    /// Writes the files, and returns a line about each.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn write(&self, now: Stamp) -> Result<Vec<String>> {
        let begin = self.begin.unwrap_or(now);
        let tables = self.tables.iter().filter(|(_, flame)| !flame.is_empty());
        let tables: Vec<(&str, &Flame)> =
            tables.map(|(name, flame)| (name.as_str(), flame)).collect();
        let stacks: usize = tables.iter().map(|(_, flame)| flame.len()).sum();
        let mut summary = Vec::new();
        let mut write = |path: &Path, bytes: &[u8]| {
            summary.push(format!("wrote {} ({stacks} stacks)", path.display()));
            file::write(path, bytes)
        };
        if let Some(path) = &self.pprof {
            write(path, &pprof(&tables, begin, now)?).context("--pprof")?;
        }
        if let Some(path) = &self.firefox {
            write(path, &firefox(&self.monitor, &tables, begin, now)?).context("--firefox")?;
        }
        Ok(summary)
    }
}
