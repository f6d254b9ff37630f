//! The files of `--flame-graph NAME`: NAME.folded and NAME.svg, and the comparison with an older
//! run.
//!
//! Without `-i`, there is one graph of the whole run, written at its end. With `-i`, each
//! interval's stacks are appended when it ends, below two frames with its start time. The lines are
//! thus in time order, and a run that is killed leaves all intervals except the last. The picture
//! is redrawn as often as that costs little. A monitor with several tables of stacks has files for
//! each: NAME for the first, NAME-TABLE for the others.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use indexmap::IndexMap;
use jiff::tz::TimeZone;

use super::request::RunRequest;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::Stamp;
use crate::base::report::flame::Flame;
use crate::output::file::AtomicFile;
use crate::output::folded;
use crate::output::svg::{self, Caption};
use crate::script::aggregate::flame::{DrawnGraph, FlameOptions};
use crate::script::option::shared::IMPLIED;
use crate::script::option::value::{OptionValue, OptionValues};
use crate::sys::clock::local_zone;

/// Bytes of stacks that are kept for a picture; beyond it, frames too narrow to be seen are
/// dropped.
const BYTES: usize = 48 << 20;

/// The picture is redrawn before the end if that takes less than 1/`PART` of the time.
const PART: u32 = 20;

/// The files of a run.
pub(super) struct Flames {
    name: PathBuf,
    monitor: String,
    zone: TimeZone,
    timed: bool,
    /// The older run to compare with, and its file.
    before: Option<(Flame, String)>,
    graphs: IndexMap<String, Graph>,
    /// When the current interval and the run began.
    since: Option<(Stamp, Stamp)>,
    drawn: Instant,
    cost: Duration,
}

/// One graph's files.
struct Graph {
    path: PathBuf,
    folded: AtomicFile,
    all: Flame,
    /// `all` contains only the last snapshot.
    snapshot: bool,
}

/// Returns what the options request from the script's side.
pub(super) fn options(values: &OptionValues) -> Option<FlameOptions> {
    text(values, "flame-graph")?;
    let weight = match values.get("weight") {
        Some(OptionValue::Choice(weight)) => Some(weight.clone()),
        _ => None,
    };
    let counts = weight.as_deref() == Some("count");
    Some(FlameOptions { weight: weight.filter(|_| !counts), counts })
}

/// Returns the name of the files; None also if other files of stacks imply the option.
fn name(values: &OptionValues) -> Option<&str> {
    text(values, "flame-graph").filter(|name| *name != IMPLIED)
}

/// Returns the text of an option, if it is given.
pub(super) fn text<'a>(values: &'a OptionValues, option: &str) -> Option<&'a str> {
    match values.get(option) {
        Some(OptionValue::Text(text)) => Some(text),
        _ => None,
    }
}

/// Returns the files that a run begins with; none without `--flame-graph`.
pub(super) fn files(values: &OptionValues) -> Vec<PathBuf> {
    let path = name(values).map(without_ending);
    path.map_or(Vec::new(), |path| ["folded", "svg"].map(|end| with_ending(&path, end)).into())
}

impl Flames {
    /// Creates the first of the files, so that a folder that cannot be written to is reported
    /// before anything is measured. Returns `None` without `--flame-graph`.
    ///
    /// # Errors
    /// A file cannot be created, the file of `--diff` cannot be read, or `--diff` is combined with
    /// `-i`.
    pub(super) fn begin(request: &RunRequest) -> Result<Option<Flames>> {
        let Some(name) = name(&request.values) else { return Ok(None) };
        let name = without_ending(name);
        let timed = request.options.interval_ns.is_some();
        let before = match text(&request.values, "diff") {
            Some(_) if timed => {
                anyhow::bail!("--diff compares whole runs, but -i splits the run; omit one of them")
            }
            Some(given) => {
                // The name that was given to --flame-graph is enough.
                let folded = with_ending(&without_ending(given), "folded");
                let path = if folded.is_file() { &folded } else { Path::new(given) };
                Some((older(path)?, given.to_owned()))
            }
            None => None,
        };
        let mut flames = Flames {
            name,
            monitor: request.monitor.name.clone(),
            zone: local_zone(),
            timed,
            before,
            graphs: IndexMap::new(),
            since: None,
            drawn: Instant::now(),
            cost: Duration::ZERO,
        };
        let first = Graph::begin(flames.name.clone()).context("--flame-graph")?;
        flames.graphs.insert(String::new(), first);
        Ok(Some(flames))
    }

    /// Sets the start of the run.
    pub(super) fn start(&mut self, now: Stamp) {
        self.since = Some((now, now));
    }

    /// Adds the graphs of an interval that ends now; `last` marks the last one of the run.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn take(
        &mut self,
        drawn: Vec<DrawnGraph>,
        now: Stamp,
        coverage: &Coverage,
        last: bool,
    ) -> Result<()> {
        let (begin, since) = self.since.unwrap_or((now, now));
        self.since = Some((begin, now));
        let below = folded::time_frames(&self.zone, since.wall_ns);
        let below: &[&str] = if self.timed { &[&below.0, &below.1] } else { &[] };
        for DrawnGraph { table, flame, snapshot } in drawn {
            if flame.is_empty() && !snapshot {
                continue;
            }
            let timed = self.timed;
            let graph = self.graph(table)?;
            let mut part = Flame::new(&flame.title, &flame.unit);
            part.merge(&flame, below);
            graph.take(part, timed, snapshot)?;
        }
        let soon = self.drawn.elapsed() < self.cost * PART;
        if last || (self.timed && !soon) {
            let began = Instant::now();
            self.draw(begin, now, coverage, last)?;
            (self.drawn, self.cost) = (Instant::now(), began.elapsed());
        }
        Ok(())
    }

    /// Returns the graph of a table. The first one gets the plain name.
    fn graph(&mut self, table: String) -> Result<&mut Graph> {
        let first = self.graphs.len() == 1 && self.graphs.contains_key("");
        if first && self.graphs.values().all(|graph| graph.all.is_empty()) {
            let graph = self.graphs.swap_remove("").context("the first graph is missing")?;
            return Ok(self.graphs.entry(table).or_insert(graph));
        }
        if !self.graphs.contains_key(&table) {
            let mut path = self.name.clone().into_os_string();
            path.push(format!("-{table}"));
            self.graphs.insert(table.clone(), Graph::begin(path.into())?);
        }
        self.graphs.get_mut(&table).context("the graph was not added")
    }

    fn draw(&mut self, begin: Stamp, end: Stamp, coverage: &Coverage, last: bool) -> Result<()> {
        for graph in self.graphs.values_mut() {
            graph.all.merge_equal();
            if last {
                graph.folded.place()?;
            }
            let mut caption = Caption::of(
                &self.monitor,
                (&graph.all.title, graph.unit()),
                graph.all.total(),
                (begin, end),
                &self.zone,
                coverage,
            );
            let before = self.before.as_ref();
            if let Some((_, file)) = before {
                caption.subtitle.push_str(&format!("; red grew, blue shrank since {file}"));
            }
            write_picture(&graph.path, &graph.all, before.map(|(flame, _)| flame), &caption)?;
        }
        Ok(())
    }

    /// Returns a line about each graph that was written.
    pub(super) fn summary(&self) -> Vec<String> {
        let graph = |graph: &Graph| {
            let path = graph.path.display();
            let amount = svg::amount(graph.all.total(), graph.unit());
            let last = match self.timed && graph.snapshot {
                true => " at the end of the last interval",
                false => "",
            };
            format!("wrote {path}.folded and {path}.svg ({amount}{last})")
        };
        self.graphs.values().map(graph).collect()
    }

    /// Writes a graph that a script has drawn itself. Its files appear at once.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn write(monitor: &str, name: &str, flame: &Flame) -> Result<()> {
        let mut graph = Graph::begin(without_ending(name))?;
        graph.write_stacks(flame)?;
        graph.folded.place()?;
        let title = if flame.title.is_empty() { monitor } else { &flame.title };
        let caption = Caption { title: title.to_owned(), subtitle: String::new() };
        write_picture(&graph.path, flame, None, &caption)
    }
}

impl Graph {
    fn begin(path: PathBuf) -> Result<Graph> {
        let folded = AtomicFile::begin(&with_ending(&path, "folded"))?;
        // Also checks that the picture can be created before anything is measured.
        drop(AtomicFile::begin(&with_ending(&path, "svg"))?);
        Ok(Graph { path, folded, all: Flame::default(), snapshot: false })
    }

    /// Writes all stacks of an interval, and keeps the visible ones for the picture. `now` makes
    /// the file visible at once. The picture of snapshots is the last one: a sum would count a
    /// long-lived entry many times.
    fn take(&mut self, mut part: Flame, now: bool, snapshot: bool) -> Result<()> {
        part.merge_equal();
        self.snapshot = snapshot;
        self.write_stacks(&part)?;
        if now {
            self.folded.place()?;
        }
        if self.all.is_empty() || snapshot {
            self.all = part;
        } else {
            self.all.merge(&part, &[]);
        }
        let mut seen = 1 << 16;
        while self.all.bytes() > BYTES && seen > 16 {
            self.all.merge_equal();
            self.all.prune(self.all.total() / seen);
            seen /= 4;
        }
        Ok(())
    }

    fn write_stacks(&mut self, stacks: &Flame) -> Result<()> {
        let mut out = BufWriter::new(self.folded.file());
        let written = folded::write(stacks, &mut out).and_then(|()| out.flush());
        written.with_context(|| format!("failed to write `{}.folded`", self.path.display()))
    }

    fn unit(&self) -> &str {
        if self.all.unit.is_empty() { "stacks" } else { &self.all.unit }
    }
}

fn write_picture(
    path: &Path,
    flame: &Flame,
    before: Option<&Flame>,
    caption: &Caption,
) -> Result<()> {
    let mut picture = AtomicFile::begin(&with_ending(path, "svg"))?;
    let mut out = BufWriter::new(picture.file());
    match before {
        Some(before) => svg::write_difference(before, flame, caption, &mut out),
        None => svg::write(flame, caption, &mut out),
    }
    .and_then(|()| out.flush())
    .with_context(|| format!("failed to write `{}.svg`", path.display()))?;
    drop(out);
    picture.place()
}

/// Reads the stacks of an older run.
fn older(path: &Path) -> Result<Flame> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("--diff: failed to open `{shown}`"))?;
    let (flame, wrong) = folded::read(BufReader::new(file))
        .with_context(|| format!("--diff: failed to read `{shown}`"))?;
    ensure!(
        !flame.is_empty(),
        "--diff: `{shown}` has no folded stacks ({wrong} lines without a weight); name a file that \
         --flame-graph wrote"
    );
    Ok(flame)
}

/// Removes an ending that is added anyway.
fn without_ending(name: &str) -> PathBuf {
    let stem = name.strip_suffix(".folded").or(name.strip_suffix(".svg")).unwrap_or(name);
    PathBuf::from(stem)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".");
    path.push(ending);
    path.into()
}
