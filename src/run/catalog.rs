//! The events of this machine: counters by name, functions by theirs, tracepoints as tracefs tells of them.
//!
//! tracefs is looked for, and mounted where it is not, when the first name comes that is no counter's: who may not
//! read it can still count what needs none.

use std::cell::OnceCell;
use std::io;
use std::rc::Rc;

use anyhow::Result;

use crate::base::nearest::nearest;
use crate::event::catalog::{Catalog, Event, TracefsCatalog};
use crate::event::function::{Kind, Named};
use crate::event::name;
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
        let none = Box::new(|_: &str, _: &str| Err(io::ErrorKind::NotFound.into()));
        let nothing = Box::new(|| Ok(Vec::new()));
        let functions = Rc::new(MachineFunctions::default());
        let counters = TracefsCatalog::new(nothing, none)
            .with_pmus(Box::new(read_pmu))
            .with_functions(functions);
        MachineCatalog { counters, tracepoints: OnceCell::new() }
    }
}

impl MachineCatalog {
    /// The tracefs, if a name has asked for it so far.
    pub fn tracefs(&self) -> Option<&Tracefs> {
        self.tracepoints.get().map(|found| &*found.tracefs)
    }

    /// The tracepoints. Where tracefs was refused it is asked again: that is rare, and the reason is told anew.
    fn tracepoints(&self) -> Result<&TracefsCatalog> {
        if let Some(found) = self.tracepoints.get() {
            return Ok(&found.catalog);
        }
        let tracefs = Rc::new(Tracefs::find()?);
        let (lister, reader) = (tracefs.clone(), tracefs.clone());
        let list = Box::new(move || lister.events());
        let formats = Box::new(move |sys: &str, name: &str| reader.format(sys, name));
        let catalog = TracefsCatalog::new(list, formats).with_pmus(Box::new(read_pmu));
        Ok(&self.tracepoints.get_or_init(|| Tracepoints { tracefs, catalog }).catalog)
    }
}

impl Catalog for MachineCatalog {
    fn describe(&self, name: &str) -> Result<Rc<Event>> {
        let counter = self.counters.describe(name);
        if counter.is_ok() || Kind::in_front_of(name).is_some() {
            return counter;
        }
        match self.tracepoints() {
            Ok(found) => found.describe(name),
            // A counter that is nearly spelt is the better guess than a tracepoint without its system.
            Err(_) if !name.contains(':') && !nearest(name, name::short_names()).is_empty() => {
                counter
            }
            Err(why) => Err(why),
        }
    }

    fn names(&self) -> Result<Vec<String>> {
        self.tracepoints()?.names()
    }

    fn functions(&self, glob: &Named, most: usize) -> Result<Vec<Named>> {
        self.counters.functions(glob, most)
    }
}

fn read_pmu(path: &str) -> io::Result<String> {
    std::fs::read_to_string(format!("/sys/bus/event_source/devices/{path}"))
}
