//! The file of `--heatmap FILE`: when the events of a run came, as a picture.
//!
//! Where the monitor prints events, it shows those that were printed, each at its own time: with `--than` only what was over it.
//! A monitor that only adds up has nothing else to show than all that it was handed.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use jiff::tz::TimeZone;

use super::flames::text;
use super::request::RunRequest;
use crate::base::coverage::Coverage;
use crate::base::draw::Stamp;
use crate::base::heat::Heat;
use crate::output::file::Making;
use crate::output::heatmap;
use crate::output::svg::Caption;
use crate::script::option::value::OptionValue;

/// The picture that is to be drawn at the end.
pub(super) struct Heatmap {
    path: PathBuf,
    picture: Making,
    monitor: String,
    /// Whether only what is over a threshold is wanted, even if that is nothing.
    than: bool,
}

impl Heatmap {
    /// Begins the file, so that a folder that cannot be written to is told of first; None without the option.
    ///
    /// # Errors
    /// That.
    pub(super) fn begin(request: &RunRequest) -> Result<Option<Heatmap>> {
        let Some(name) = text(&request.values, "heatmap") else { return Ok(None) };
        let path = match name.strip_suffix(".svg") {
            Some(_) => PathBuf::from(name),
            None => PathBuf::from(format!("{name}.svg")),
        };
        let picture = Making::begin(&path).context("--heatmap")?;
        let than = request.values.get("than").is_some_and(OptionValue::is_given);
        Ok(Some(Heatmap { path, picture, monitor: request.monitor.name.clone(), than }))
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Which of the two maps is drawn.
    pub(super) fn choose(&self, all: Heat, emitted: Heat) -> Heat {
        if self.than || emitted.total() > 0 { emitted } else { all }
    }

    /// Draws the run; gives what to say about it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(
        mut self,
        heat: &Heat,
        between: (Stamp, Stamp),
        coverage: &Coverage,
    ) -> Result<String> {
        let words = ("events over time", "events");
        let zone = TimeZone::system();
        let caption = Caption::of(&self.monitor, words, heat.total(), between, &zone, coverage);
        let mut out = BufWriter::new(self.picture.file());
        heatmap::write(heat, &caption, &mut out)
            .and_then(|()| out.flush())
            .context("--heatmap: failed to write the picture")?;
        drop(out);
        self.picture.place()?;
        Ok(format!("wrote {}, of {} events", self.path.display(), heat.total()))
    }
}
