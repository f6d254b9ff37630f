//! The catalog of the command line: the events of a machine or a recording, and those that
//! monitors emit.

use std::cell::OnceCell;
use std::rc::Rc;

use anyhow::Result;

use super::run_options;
use crate::event::catalog::Catalog;
use crate::event::kind::function::FunctionName;
use crate::event::kind::{Event, FoundNames};
use crate::script::host::Host;
use crate::script::load::library::{Library, Script};
use crate::script::load::source;

/// A catalog with the events of monitors, which are loaded when one is first asked for.
pub(super) struct CatalogWithSources {
    events: Rc<dyn Catalog>,
    library: Library,
    sources: OnceCell<Vec<Rc<Event>>>,
}

impl CatalogWithSources {
    /// Adds the events of the monitors in a library to a catalog.
    pub(super) fn new(events: Rc<dyn Catalog>, library: Library) -> CatalogWithSources {
        CatalogWithSources { events, library, sources: OnceCell::new() }
    }
}

/// Returns the events of the monitors that emit some, sorted by name. A script that does not load
/// has none.
pub(super) fn sources(library: &Library) -> Vec<Rc<Event>> {
    let emitting = library.all().into_iter().filter(Script::may_emit);
    let event = |script: Script| {
        let mut host = Host::new(false).ok()?;
        let monitor = host.load(&script, library, &run_options::reserved()).ok()?;
        source::event_of(monitor, None).ok().map(Rc::new)
    };
    emitting.filter_map(event).collect()
}

impl Catalog for CatalogWithSources {
    fn describe(&self, name: &str) -> Result<Rc<Event>> {
        self.events.describe(name).or_else(|why| {
            let monitor = name.strip_suffix("//").unwrap_or(name);
            let source = self.sources().iter().find(|source| source.name == monitor);
            source.cloned().ok_or(why)
        })
    }

    fn names(&self) -> Result<Vec<String>> {
        self.events.names()
    }

    fn functions(&self, glob: &FunctionName, most: usize) -> Result<Vec<FunctionName>> {
        self.events.functions(glob, most)
    }

    fn parameters(&self, of: &FunctionName, path: &[&str]) -> Vec<String> {
        self.events.parameters(of, path)
    }

    fn look_up(&self, pattern: &str, most: usize) -> Result<Option<FoundNames>> {
        self.events.look_up(pattern, most)
    }

    fn is_whole(&self) -> bool {
        self.events.is_whole()
    }

    fn sources(&self) -> &[Rc<Event>] {
        self.sources.get_or_init(|| sources(&self.library))
    }
}
