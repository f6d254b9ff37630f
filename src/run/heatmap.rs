//! The files of `--heatmap FILE`: how a run's delays spread over time, or when its events came.
//!
//! For a script with a `heat_map`, FILE.svg shows the delays that it added, and FILE.lat gets one
//! line for each delay as it comes. For any other script, FILE.svg shows when events came. If the
//! monitor prints events, these are the printed ones, each at its own time; with `--than` only
//! those over the threshold. A monitor that only aggregates shows all events that it received.
//!
//! FILE.html is a page with the script's stacks over time (`stack_map`), to be explored in a
//! browser.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use super::flames::text;
use super::request::RunRequest;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::Stamp;
use crate::base::report::heat::Heat;
use crate::base::report::stacks_over_time::StacksOverTime;
use crate::output::file::AtomicFile;
use crate::output::svg::{self, Caption};
use crate::output::{heat_page, heatmap, lat_file::Latencies, latency_heatmap};
use crate::script::option::value::{OptionValue, OptionValues};
use crate::stat::{heat_map::HeatMap, leaf::SharedAggregate};
use crate::sys::clock::local_zone;

/// The picture to be drawn at the end.
pub(super) struct Heatmap {
    path: PathBuf,
    picture: AtomicFile,
    monitor: String,
    /// Draw only the printed events, even if there are none: a threshold is given.
    than: bool,
    delays: Option<Delays>,
    /// Whether the file is a page of stacks, and the function that returns them.
    is_page: bool,
    stacks: Option<Box<dyn Fn() -> StacksOverTime>>,
}

/// The delays of a script, and the file that lists them.
struct Delays {
    of: SharedAggregate<HeatMap>,
    path: PathBuf,
    file: Latencies<BufWriter<File>>,
}

/// Extension of the file of delays.
const DELAYS: &str = "lat";

/// Returns the path of the picture, and whether it is a page of stacks; None without the option.
fn path(values: &OptionValues) -> Option<(PathBuf, bool)> {
    let name = text(values, "heatmap")?;
    if name.ends_with(".html") {
        return Some((PathBuf::from(name), true));
    }
    Some((PathBuf::from(format!("{}.svg", name.strip_suffix(".svg").unwrap_or(name))), false))
}

/// Returns the files that a run may write; none without the option.
pub(super) fn files(values: &OptionValues) -> Vec<PathBuf> {
    let Some((path, is_page)) = path(values) else { return Vec::new() };
    let delays = (!is_page).then(|| path.with_extension(DELAYS));
    std::iter::once(path).chain(delays).collect()
}

impl Heatmap {
    /// Creates the file, so that a folder that cannot be written to is reported before the run.
    /// Returns `None` without the option.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(super) fn begin(request: &RunRequest) -> Result<Option<Heatmap>> {
        let Some((path, is_page)) = path(&request.values) else { return Ok(None) };
        let picture = AtomicFile::begin(&path).context("--heatmap")?;
        let than = request.values.get("than").is_some_and(OptionValue::is_given);
        let monitor = request.monitor.name.clone();
        Ok(Some(Heatmap { path, picture, monitor, than, delays: None, is_page, stacks: None }))
    }

    /// Draws and lists the delays of `of` from now on; `begin` is the start of the run.
    ///
    /// # Errors
    /// The file of delays cannot be created.
    pub(super) fn follow(&mut self, of: SharedAggregate<HeatMap>, begin: Stamp) -> Result<()> {
        let path = self.path.with_extension(DELAYS);
        let mut file = AtomicFile::begin(&path).context("--heatmap")?;
        // The file can be followed while it grows.
        file.place().context("--heatmap")?;
        let out = BufWriter::new(file.file().try_clone().context("--heatmap")?);
        let file = Latencies::begin(out, begin, &local_zone()).context("--heatmap")?;
        of.borrow_mut().keep_points();
        self.delays = Some(Delays { of, path, file });
        Ok(())
    }

    /// Returns whether the file is a page of stacks.
    pub(super) fn is_page(&self) -> bool {
        self.is_page
    }

    /// Draws these stacks.
    ///
    /// # Errors
    /// There are none.
    pub(super) fn follow_stacks(
        &mut self,
        stacks: Option<Box<dyn Fn() -> StacksOverTime>>,
    ) -> Result<()> {
        ensure!(
            stacks.is_some(),
            "--heatmap {}: this monitor has no stacks over time; name a file that ends in .svg",
            self.path.display()
        );
        self.stacks = stacks;
        Ok(())
    }

    /// Writes the delays that have come since the last call.
    ///
    /// # Errors
    /// The file of delays cannot be written.
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

    /// Returns the heat map of events that is drawn: all events, or the printed ones.
    pub(super) fn choose(&self, all: Heat, emitted: Heat) -> Heat {
        if self.than || emitted.total() > 0 { emitted } else { all }
    }

    /// Draws the run, which took `length` nanoseconds. Returns a summary of what was written.
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
        let stacks = self.stacks.take().map(|stacks| stacks());
        let (drawn, summary) = match (self.delays.take(), &stacks) {
            (_, Some(stacks)) => {
                let total = stacks.total();
                let caption = caption(("stacks over time", stacks.unit.as_str()), total);
                let amount = svg::amount(total, &stacks.unit);
                let summary = format!("wrote {} ({amount})", self.path.display());
                (heat_page::write(stacks, &caption, &mut out), summary)
            }
            (Some(Delays { of, path, file }), None) => {
                let of = of.borrow();
                let total = of.map().total();
                let caption = caption(("delays over time", "delays"), total);
                let drawn = latency_heatmap::write(of.map(), length, &caption, &mut out);
                let lines = file.end().with_context(|| format!("--heatmap: {}", path.display()))?;
                let mut summary = format!(
                    "wrote {} ({total} delays) and {}",
                    self.path.display(),
                    path.display()
                );
                if lines < total {
                    summary += &format!(" ({lines} of them)");
                }
                (drawn, summary)
            }
            (None, None) => {
                let total = heat.total();
                let caption = caption(("events over time", "events"), total);
                let summary = format!("wrote {} ({total} events)", self.path.display());
                (heatmap::write(heat, &caption, &mut out), summary)
            }
        };
        drawn
            .and_then(|()| out.flush())
            .with_context(|| format!("--heatmap: failed to write `{}`", self.path.display()))?;
        drop(out);
        self.picture.place()?;
        Ok(summary)
    }
}
