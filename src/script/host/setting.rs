//! Settings of a run, beside the script's options.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::event::catalog::Catalog;
use crate::event::rate::SamplingRate;
use crate::event::sampling::StackSampling;
use crate::script::aggregate::flame::FlameOptions;
use crate::script::evsel::declare::Declarer;
use crate::script::evsel::resolve::Trial;
use crate::script::evsel::role::Evsels;
use crate::script::evsel::watchable::Watchable;
use crate::script::load::library::Library;

/// Settings of a run.
pub struct Setting {
    /// Known events.
    pub catalog: Rc<dyn Catalog>,
    /// Opens one of them on trial; `None` if there is no machine to open it on.
    pub trial: Trial,
    /// Watched CPUs.
    pub cpus: Vec<u32>,
    /// Online CPUs; `None` for a recording.
    pub online: Option<Vec<u32>>,
    /// `--perins`.
    pub perins: bool,
    /// `-v`: tables show all their columns.
    pub verbose: bool,
    /// Whether the instances are threads (`-p`, `-t`).
    pub per_thread: bool,
    /// Whether only some tasks are watched (`-p`, `-t`, a workload, `--cgroup`).
    pub some_tasks: bool,
    /// Stack mode of events that do not set one.
    pub stack: StackSampling,
    /// Sampling rate of clocks and hardware events that do not set one: `-F`, `-c`.
    pub rate: Option<SamplingRate>,
    /// Long names of the options that were typed.
    pub given: Vec<String>,
    /// Memory limit of the script in bytes; 0 leaves it unchanged.
    pub memory: usize,
    /// Memory limit of all aggregates in bytes; 0 leaves it unchanged.
    pub aggregate_memory: usize,
    /// `--flame-graph`: draw stacks instead of printing them.
    pub flame: Option<FlameOptions>,
    /// `--total`: keep sums over the whole run.
    pub totals: bool,
    /// `--perfetto`: add events to a timeline, in order of time.
    pub timeline: bool,
    /// `--prometheus`, `--otlp`, `--parquet`: collect the measurements of each report.
    pub metrics: bool,
    /// `--budget`: a record may stand for several events.
    pub estimated: bool,
}

impl Setting {
    /// Returns settings with one CPU, these events, and no options.
    pub fn of(catalog: Rc<dyn Catalog>) -> Setting {
        Setting {
            catalog,
            trial: None,
            cpus: vec![0],
            online: None,
            perins: false,
            verbose: false,
            per_thread: false,
            some_tasks: false,
            stack: StackSampling::default(),
            rate: None,
            given: Vec::new(),
            memory: 0,
            aggregate_memory: 0,
            flame: None,
            totals: false,
            timeline: false,
            metrics: false,
            estimated: false,
        }
    }

    /// Creates the declarer of events for a run with these settings, and with the monitors of a
    /// library.
    pub(super) fn declarer(&self, evsels: Rc<RefCell<Evsels>>, library: Library) -> Declarer {
        let watchable = |online: &Vec<u32>| {
            let (online, watched) = (online.clone(), self.cpus.clone());
            Watchable { online, watched }
        };
        Declarer {
            catalog: self.catalog.clone(),
            trial: self.trial.clone(),
            evsels,
            stack: Cell::new(self.stack),
            rate: Cell::new(self.rate),
            cpus: self.online.as_ref().map(watchable),
            library,
        }
    }
}
