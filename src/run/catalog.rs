//! The events of this machine: counters and functions by name, and tracepoints as described by
//! tracefs.
//!
//! tracefs is searched, and mounted if it is not, when the first name is neither a counter nor a
//! function. A user who may not read tracefs can still use the events that need none.

use std::cell::OnceCell;
use std::io;
use std::rc::Rc;

use anyhow::Result;

use crate::base::matching::nearest::nearest;
use crate::event::catalog::{Catalog, TracefsCatalog};
use crate::event::kind::function::FunctionName;
use crate::event::kind::{self, Event, EventFiles, FoundNames};
use crate::source::open::user_text;
use crate::symbol::MachineFunctions;
use crate::sys::tracefs::Tracefs;

/// Counters, functions and tracepoints.
pub struct MachineCatalog {
    counters: TracefsCatalog,
    tracepoints: OnceCell<Tracepoints>,
}

struct Tracepoints {
    tracefs: Rc<Tracefs>,
    catalog: TracefsCatalog,
}

impl Default for MachineCatalog {
    fn default() -> Self {
        let none = Box::new(EventFiles::NONE.format);
        let nothing = Box::new(|| Ok(Vec::new()));
        let functions = Rc::new(MachineFunctions::default());
        let counters = TracefsCatalog::new(nothing, none)
            .with_pmus(Box::new(read_pmu))
            .with_functions(functions);
        MachineCatalog { counters, tracepoints: OnceCell::new() }
    }
}

impl MachineCatalog {
    /// Returns the events that the PMUs of this machine name, such as `msr/tsc/`.
    pub fn pmu_events() -> Vec<String> {
        kind::pmu_events(&read_pmu)
    }

    /// Returns whether this machine has a PMU.
    pub fn has_pmu(name: &str) -> bool {
        let is_name = !name.is_empty() && !name.contains(['/', '.']);
        is_name && read_pmu(&format!("{name}/type")).is_ok()
    }

    /// Returns the tracefs, if a name has required it so far.
    pub fn tracefs(&self) -> Option<&Tracefs> {
        self.tracepoints.get().map(|found| &*found.tracefs)
    }

    /// Returns the tracepoints. Retries tracefs after a refusal: that is rare, and the caller gets
    /// the reason again.
    fn tracepoints(&self) -> Result<&TracefsCatalog> {
        if let Some(found) = self.tracepoints.get() {
            return Ok(&found.catalog);
        }
        let tracefs = Rc::new(Tracefs::find()?);
        let (lister, reader) = (tracefs.clone(), tracefs.clone());
        let list = Box::new(move || lister.events());
        let formats = Box::new(move |sys: &str, name: &str| reader.format(sys, name));
        let catalog = TracefsCatalog::new(list, formats)
            .with_pmus(Box::new(read_pmu))
            .with_user_text(|| user_text::refusal().is_none());
        Ok(&self.tracepoints.get_or_init(|| Tracepoints { tracefs, catalog }).catalog)
    }
}

impl Catalog for MachineCatalog {
    fn describe(&self, name: &str) -> Result<Rc<Event>> {
        let counter = self.counters.describe(name);
        let is_pmu = !name.contains(':') && name.contains('/');
        if counter.is_ok() || is_pmu || kind::prefix_of(name).is_some() {
            return counter;
        }
        match self.tracepoints() {
            Ok(found) => found.describe(name),
            // A misspelt counter is more likely than a tracepoint without its system.
            Err(_) if !name.contains(':') && !nearest(name, kind::short_names()).is_empty() => {
                counter
            }
            Err(why) => Err(why),
        }
    }

    fn names(&self) -> Result<Vec<String>> {
        self.tracepoints()?.names()
    }

    fn functions(&self, glob: &FunctionName, most: usize) -> Result<Vec<FunctionName>> {
        self.counters.functions(glob, most)
    }

    fn parameters(&self, of: &FunctionName, path: &[&str]) -> Vec<String> {
        self.counters.parameters(of, path)
    }

    fn look_up(&self, pattern: &str, most: usize) -> Result<Option<FoundNames>> {
        self.counters.look_up(pattern, most)
    }
}

/// Reads a file of a PMU, or lists a directory, as [`ReadPmu`](crate::event::kind::ReadPmu) does.
fn read_pmu(path: &str) -> io::Result<String> {
    let full = format!("/sys/bus/event_source/devices/{path}");
    if !path.is_empty() && !path.ends_with('/') {
        return std::fs::read_to_string(full);
    }
    let entries = std::fs::read_dir(full)?.flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned() + "\n");
    Ok(names.collect())
}
