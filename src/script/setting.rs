//! What a script runs with, beside its options.

use std::rc::Rc;

use super::aggregate::flame::Wish;
use super::evsel::Trial;
use crate::event::catalog::Catalog;
use crate::event::rate::Rate;
use crate::event::sampling::Stack;

/// What a script runs with.
pub struct Setting {
    /// The events there are.
    pub catalog: Rc<dyn Catalog>,
    /// Opens one of them for a moment; None where there is nothing to open it on.
    pub trial: Trial,
    /// CPUs watched.
    pub cpus: Vec<u32>,
    /// CPUs that are online; None of a recording.
    pub online: Option<Vec<u32>>,
    /// `--perins`.
    pub perins: bool,
    /// `-v`: tables say all that they have.
    pub verbose: bool,
    /// Whether the instances are threads (`-p`, `-t`).
    pub per_thread: bool,
    /// How stacks are taken where an event does not say it.
    pub stack: Stack,
    /// How often clocks and hardware events are sampled where nothing else says it: `-F`, `-c`.
    pub rate: Option<Rate>,
    /// Bytes that the script may hold; 0 leaves it as it is.
    pub memory: usize,
    /// Bytes that all aggregates together may take; 0 leaves it as it is.
    pub aggregate_memory: usize,
    /// `--flame-graph`: stacks are not shown, but drawn.
    pub flame: Option<Wish>,
    /// Keep sums over the whole run, for `--total`.
    pub totals: bool,
}

impl Setting {
    /// One CPU, these events, and none of the options.
    pub fn of(catalog: Rc<dyn Catalog>) -> Setting {
        Setting {
            catalog,
            trial: None,
            cpus: vec![0],
            online: None,
            perins: false,
            verbose: false,
            per_thread: false,
            stack: Stack::default(),
            rate: None,
            memory: 0,
            aggregate_memory: 0,
            flame: None,
            totals: false,
        }
    }
}
