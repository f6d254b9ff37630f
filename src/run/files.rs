//! The files that a run writes beside its results: flame graphs, profiles, a heat map, a timeline.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};

use super::flames::{self, Flames};
use super::heatmap::Heatmap;
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
        let (flames, heatmap) = (Flames::begin(request)?, Heatmap::begin(request)?);
        if let (Some(flames), Some(heatmap)) = (&flames, &heatmap) {
            let picture = flames.picture();
            ensure!(
                picture != heatmap.path(),
                "--flame-graph and --heatmap would both write {}; give one of them another name",
                picture.display()
            );
        }
        let timeline = flames::text(&request.values, "perfetto").map(PathBuf::from);
        Ok(Files { flames, profiles: Profiles::begin(request)?, heatmap, timeline })
    }
}

/// Checks that no two options name one file: the later one would replace the other's.
fn check_names(request: &RunRequest) -> anyhow::Result<()> {
    let mut named: Vec<(&str, PathBuf)> = Vec::new();
    let output = request.options.output.clone().map(|path| ("-o", path));
    let files = ["perfetto", "pprof", "firefox", "heatmap", "database"].into_iter();
    let typed = files.filter_map(|option| {
        let path = flames::text(&request.values, option)?;
        Some((option, PathBuf::from(path)))
    });
    for (option, path) in output.into_iter().chain(typed) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize();
        // A folder that does not exist is reported when the file is created.
        let name = path.file_name().unwrap_or_default();
        let Ok(place) = folder.map(|folder| folder.join(name)) else { continue };
        if let Some((other, _)) = named.iter().find(|(_, known)| *known == place) {
            let other = if *other == "-o" { "-o".to_owned() } else { format!("--{other}") };
            bail!("{other} and --{option} would both write {}; name two files", path.display());
        }
        if !place.starts_with("/dev") {
            named.push((option, place));
        }
    }
    Ok(())
}
