//! The files of `--heatmap FILE`: how a run's delays spread over time, or when its events came.
//!
//! Of a script that has a `heat_map`, FILE.svg shows the delays that it added and FILE.lat holds each of them, one a line, as they
//! come. Of any other, FILE.svg shows when events came: where the monitor prints events, those that were printed, each at its own
//! time, with `--than` only what was over it; a monitor that only adds up has nothing else to show than all that it was handed.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::flames::text;
use super::request::RunRequest;
use crate::base::coverage::Coverage;
use crate::base::draw::Stamp;
use crate::base::heat::Heat;
use crate::output::file::Making;
use crate::output::svg::Caption;
use crate::output::{delays, heatmap, latencies::Latencies};
use crate::script::option::value::OptionValue;
use crate::stat::{heat_map::HeatMap, leaf::Shared};
use crate::sys::clock::local_zone;

/// The picture that is to be drawn at the end.
pub(super) struct Heatmap {
    path: PathBuf,
    picture: Making,
    monitor: String,
    /// Whether only what is over a threshold is wanted, even if that is nothing.
    than: bool,
    delays: Option<Delays>,
}

/// The delays of a script, and the file that has them one by one.
struct Delays {
    of: Shared<HeatMap>,
    path: PathBuf,
    file: Latencies<BufWriter<File>>,
}

impl Heatmap {
    /// Begins the file, so that a folder that cannot be written to is told of first; None without the option.
    ///
    /// # Errors
    /// That.
    pub(super) fn begin(request: &RunRequest) -> Result<Option<Heatmap>> {
        let Some(name) = text(&request.values, "heatmap") else { return Ok(None) };
        let path = PathBuf::from(format!("{}.svg", name.strip_suffix(".svg").unwrap_or(name)));
        let picture = Making::begin(&path).context("--heatmap")?;
        let than = request.values.get("than").is_some_and(OptionValue::is_given);
        let monitor = request.monitor.name.clone();
        Ok(Some(Heatmap { path, picture, monitor, than, delays: None }))
    }

    /// Shows the delays of `of` from now on, in a run that began then.
    ///
    /// # Errors
    /// Their file cannot be begun.
    pub(super) fn follow(&mut self, of: Shared<HeatMap>, begin: Stamp) -> Result<()> {
        let path = self.path.with_extension("lat");
        let mut file = Making::begin(&path).context("--heatmap")?;
        // It can be followed while it grows.
        file.place().context("--heatmap")?;
        let out = BufWriter::new(file.file().try_clone().context("--heatmap")?);
        let file = Latencies::begin(out, begin, &local_zone()).context("--heatmap")?;
        of.borrow_mut().keep_points();
        self.delays = Some(Delays { of, path, file });
        Ok(())
    }

    /// Writes the delays that have come since.
    ///
    /// # Errors
    /// Their file cannot be written.
    pub(super) fn write_delays(&mut self) -> Result<()> {
        let Some(delays) = &mut self.delays else { return Ok(()) };
        let mut written = Ok(());
        delays.of.borrow_mut().take_points(|point| {
            if written.is_ok() {
                written = delays.file.write(point.time, point.delay);
            }
        });
        written.with_context(|| format!("--heatmap: failed to write {}", delays.path.display()))
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Which of the two maps of events is drawn.
    pub(super) fn choose(&self, all: Heat, emitted: Heat) -> Heat {
        if self.than || emitted.total() > 0 { emitted } else { all }
    }

    /// Draws the run, which took `length` nanoseconds; gives what to say about it.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn write(
        mut self,
        heat: &Heat,
        length: f64,
        between: (Stamp, Stamp),
        coverage: &Coverage,
    ) -> Result<String> {
        self.write_delays()?;
        let zone = local_zone();
        let caption =
            |words, total| Caption::of(&self.monitor, words, total, between, &zone, coverage);
        let mut out = BufWriter::new(self.picture.file());
        let (drawn, said) = match self.delays.take() {
            Some(Delays { of, path, file }) => {
                let of = of.borrow();
                let total = of.map().total();
                let caption = caption(("delays over time", "delays"), total);
                let drawn = delays::write(of.map(), length, &caption, &mut out);
                let lines = file.end().with_context(|| format!("--heatmap: {}", path.display()))?;
                let mut said = format!(
                    "wrote {}, of {total} delays, and {}",
                    self.path.display(),
                    path.display()
                );
                if lines < total {
                    said += &format!(", which has {lines} of them");
                }
                (drawn, said)
            }
            None => {
                let total = heat.total();
                let caption = caption(("events over time", "events"), total);
                let said = format!("wrote {}, of {total} events", self.path.display());
                (heatmap::write(heat, &caption, &mut out), said)
            }
        };
        drawn
            .and_then(|()| out.flush())
            .with_context(|| format!("--heatmap: failed to write `{}`", self.path.display()))?;
        drop(out);
        self.picture.place()?;
        Ok(said)
    }
}
