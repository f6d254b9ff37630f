//! The files that a run writes beside its results: flame graphs, profiles, a heat map, a timeline.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};

use super::flames::{self, Flames};
use super::heatmap::{self, Heatmap};
use super::profiles::Profiles;
use super::request::RunRequest;

/// The files that a run writes beside its results.
pub(super) struct Files {
    pub(super) flames: Option<Flames>,
    pub(super) profiles: Option<Profiles>,
    pub(super) heatmap: Option<Heatmap>,
    pub(super) timeline: Option<PathBuf>,
}

impl Files {
    /// No files.
    pub(super) const NONE: Files =
        Files { flames: None, profiles: None, heatmap: None, timeline: None };

    /// Creates the files that the options request.
    ///
    /// # Errors
    /// A file cannot be written, or two have the same name.
    pub(super) fn begin(request: &RunRequest) -> anyhow::Result<Files> {
        check_names(request)?;
        ensure!(
            !request.is_given("otlp-profiles") || request.options.otlp.is_some(),
            "--otlp-profiles needs a receiver: --otlp http://127.0.0.1:4318"
        );
        Ok(Files {
            flames: Flames::begin(request)?,
            profiles: Profiles::begin(request)?,
            heatmap: Heatmap::begin(request)?,
            timeline: flames::text(&request.values, "perfetto").map(PathBuf::from),
        })
    }
}

/// Checks that no two options name one file: the later one would replace the other's.
fn check_names(request: &RunRequest) -> anyhow::Result<()> {
    let mut named: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path) in written(request) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize();
        // A folder that does not exist is reported when the file is created.
        let name = path.file_name().unwrap_or_default();
        let Ok(place) = folder.map(|folder| folder.join(name)) else { continue };
        if let Some((other, _)) = named.iter().find(|(_, known)| *known == place) {
            bail!("{other} and {option} may both write {}; name two files", path.display());
        }
        if !place.starts_with("/dev") {
            named.push((option, place));
        }
    }
    Ok(())
}

/// Returns the files that options may write, each with its option. Files of further tables of
/// stacks are not included: their names are not known before the run.
fn written(request: &RunRequest) -> impl Iterator<Item = (&'static str, PathBuf)> {
    let named = |option| flames::text(&request.values, option).map(PathBuf::from);
    let output = request.options.output.clone().map(|path| ("-o", path));
    let single = [
        ("--perfetto", named("perfetto")),
        ("--pprof", named("pprof")),
        ("--firefox", named("firefox")),
        ("--database", named("database")),
    ];
    let single = single.into_iter().filter_map(|(option, path)| Some((option, path?)));
    let flames = flames::files(&request.values).into_iter().map(|path| ("--flame-graph", path));
    let heatmap = heatmap::files(&request.values).into_iter().map(|path| ("--heatmap", path));
    output.into_iter().chain(single).chain(flames).chain(heatmap)
}
