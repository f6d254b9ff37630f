//! Catalog of the events of a machine or a recording, described on demand.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    io,
    rc::Rc,
};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::{
    base::{
        matching::glob,
        matching::nearest::{did_you_mean, nearest},
    },
    event::{
        kind::{
            self, Event, EventFiles, FoundNames, ReadPmu, ReadTraceFormat,
            function::{self, FunctionName, Functions},
        },
        other_tools::event_hint,
        selector::Selector,
    },
};

/// The events of a machine or of a recording.
pub trait Catalog {
    /// Returns the event with exactly this name.
    ///
    /// # Errors
    /// No such event exists (the message suggests similar names), or it cannot be read.
    fn describe(&self, name: &str) -> Result<Rc<Event>>;
    /// Returns the names of all tracepoints as `sys:name`, sorted; for a recording, of all its
    /// events.
    ///
    /// # Errors
    /// They cannot be listed.
    fn names(&self) -> Result<Vec<String>>;
    /// Returns at most `most` functions that match a glob and can be probed.
    ///
    /// # Errors
    /// They cannot be listed, or this kernel cannot probe functions.
    fn functions(&self, glob: &FunctionName, most: usize) -> Result<Vec<FunctionName>> {
        let is_wanted = |named: &FunctionName| {
            named.with("") == glob.with("")
                && glob::matches(glob.function.as_bytes(), named.function.as_bytes())
        };
        let all = self.names()?;
        Ok(all
            .iter()
            .filter_map(|name| FunctionName::parse(name))
            .filter(is_wanted)
            .take(most)
            .collect())
    }
    /// Returns the names that may follow `path` in the parameters of a function, as
    /// [`Functions::parameters`].
    fn parameters(&self, _of: &FunctionName, _path: &[&str]) -> Vec<String> {
        Vec::new()
    }
    /// Returns at most `most` names that match a pattern such as `mem:GLOB`; None if its kind has
    /// no such names, which is so for each kind of a recording.
    ///
    /// # Errors
    /// The machine cannot list them.
    fn look_up(&self, _pattern: &str, _most: usize) -> Result<Option<FoundNames>> {
        Ok(None)
    }
    /// Returns the events of monitors, as far as they are known without running a monitor.
    fn sources(&self) -> &[Rc<Event>] {
        &[]
    }
    /// Returns whether a format lists every field that records of its event can have. The formats
    /// of a recording list only the fields that its lines contain.
    fn is_whole(&self) -> bool {
        true
    }
}

/// Returns the events that a selector names, in the catalog's order; at least one.
///
/// A glob (`sched:sched_wak*`; without a colon it is matched with the part behind the colon) names
/// every tracepoint that matches, or if none does, the software events that match. The name of a
/// PMU without its number, or a glob, names the event in all boxes of that name. Alternatives
/// (`a|b`) name the first one that exists.
///
/// # Errors
/// No alternative exists: an unknown event, a glob that matches nothing or too many functions, or
/// an event that cannot be read. The error is that of the first alternative.
pub fn expand(catalog: &dyn Catalog, selector: &Selector) -> Result<Vec<Rc<Event>>> {
    expand_where(catalog, selector, &mut |event| Some(event.clone()))
        .map(|selected| selected.events)
}

/// The events that a selector names.
#[derive(Debug)]
pub struct SelectedEvents {
    /// The events, at least one.
    pub events: Vec<Rc<Event>>,
    /// The glob that they match; None if the selector names one event.
    pub glob: Option<Rc<str>>,
}

/// Like [`expand`], for alternatives that must be opened to find out whether they exist
/// (`cycles|cpu-clock`).
///
/// `try_open` returns an event in the form in which it opens, or None if it does not open. An
/// alternative that does not open counts as absent while another one is left. The last one is
/// returned unchanged, so that opening it reports why the kernel refuses it.
///
/// # Errors
/// As [`expand`].
pub fn expand_where(
    catalog: &dyn Catalog,
    selector: &Selector,
    try_open: &mut dyn FnMut(&Rc<Event>) -> Option<Rc<Event>>,
) -> Result<SelectedEvents> {
    if selector.options.is_some() {
        let named = |source: &&Rc<Event>| source.name == selector.name;
        let Some(source) = catalog.sources().iter().find(named) else {
            bail!("{}: there is no monitor of this name that emits events", selector.name);
        };
        return Ok(SelectedEvents { events: vec![source.clone()], glob: None });
    }
    let number = selector.alternatives().count();
    ensure!(
        number <= ALTERNATIVES_MAX,
        "{number} alternatives joined by `|`; at most {ALTERNATIVES_MAX} are tried in turn"
    );
    let mut alternatives = selector.alternatives().peekable();
    let mut first_error = None;
    while let Some(name) = alternatives.next() {
        let is_last = alternatives.peek().is_none();
        let events = match expand_name(catalog, name) {
            Ok(events) => events,
            Err(e) => {
                first_error = first_error.or(Some(e));
                continue;
            }
        };
        let is_glob = match FunctionName::parse(name) {
            Some(named) => glob::is_glob(&named.function),
            None => glob::is_glob(name) && !name.contains('/'),
        };
        let glob = is_glob.then(|| Rc::from(name));
        match events.iter().map(&mut *try_open).collect::<Option<Vec<_>>>() {
            Some(events) => return Ok(SelectedEvents { events, glob }),
            None if is_last => return Ok(SelectedEvents { events, glob }),
            None => {}
        }
    }
    Err(first_error.unwrap_or_else(|| anyhow!("the selector has no event name")))
}

/// Maximum number of names joined by `|`: similar names are searched for each unknown one, which
/// takes some milliseconds.
const ALTERNATIVES_MAX: usize = 64;

fn expand_name(catalog: &dyn Catalog, name: &str) -> Result<Vec<Rc<Event>>> {
    if let Some(named) = FunctionName::parse(name) {
        return expand_function(catalog, &named);
    }
    if name.contains('/') {
        return expand_pmu(catalog, name);
    }
    if !glob::is_glob(name) {
        return Ok(vec![catalog.describe(name)?]);
    }
    let matches = |event: &str| match name.contains(':') {
        true => glob::matches(name.as_bytes(), event.as_bytes()),
        false => {
            event.split_once(':').is_some_and(|(_, e)| glob::matches(name.as_bytes(), e.as_bytes()))
        }
    };
    let names = catalog.names();
    let found: Vec<Rc<Event>> = names
        .iter()
        .flatten()
        .filter(|event| matches(event))
        .map(|event| catalog.describe(event))
        .collect::<Result<_>>()?;
    if !found.is_empty() {
        return Ok(found);
    }
    // A recording may lack some of them.
    let software =
        kind::software_events().filter(|event| glob::matches(name.as_bytes(), event.as_bytes()));
    let found: Vec<Rc<Event>> =
        software.filter_map(|event| catalog.describe(&event).ok()).collect();
    if found.is_empty() {
        let of_other_tool = event_hint(name);
        ensure!(of_other_tool.is_empty(), "no event matches '{name}'{of_other_tool}");
        bail!("no event matches '{name}'{}", suggest_system(name, &names?));
    }
    Ok(found)
}

/// Returns the event of a PMU, or those of all its boxes that have it.
fn expand_pmu(catalog: &dyn Catalog, name: &str) -> Result<Vec<Rc<Event>>> {
    let is_prefixed = kind::prefix_of(name).is_some();
    let found = if is_prefixed { None } else { catalog.look_up(name, BOXES_MAX)? };
    let Some(found) = found else { return Ok(vec![catalog.describe(name)?]) };
    let (mut events, mut first_error) = (Vec::new(), None);
    for one in &found.names {
        match catalog.describe(one) {
            Ok(event) => events.push(event),
            Err(why) => first_error = first_error.or(Some(why)),
        }
    }
    match first_error {
        Some(why) if events.is_empty() => Err(why),
        _ => Ok(events),
    }
}

/// Maximum number of boxes that one name may select.
const BOXES_MAX: usize = 1024;

fn expand_function(catalog: &dyn Catalog, named: &FunctionName) -> Result<Vec<Rc<Event>>> {
    if !glob::is_glob(&named.function) {
        return Ok(vec![catalog.describe(&named.to_string())?]);
    }
    let found = catalog.functions(named, FUNCTIONS_MAX + 1)?;
    let noun = named.kind.noun();
    if found.is_empty() {
        bail!("no {noun} matches '{named}' (perilune list '{}' shows all)", named.with("*"));
    }
    if found.len() > FUNCTIONS_MAX {
        bail!(
            "'{named}' matches more than {FUNCTIONS_MAX} {noun}s; narrow the glob (perilune list \
             '{named}' shows them)"
        );
    }
    found.iter().map(|one| catalog.describe(&one.to_string())).collect()
}

/// Maximum number of functions that one glob may match, also in a recording. The number that can be
/// open at once depends on the CPUs and is checked when they are opened.
const FUNCTIONS_MAX: usize = 1024;

/// Returns a suggestion with a similar system if the system of the glob does not exist.
fn suggest_system(glob: &str, names: &[String]) -> String {
    let Some((system, rest)) = glob.split_once(':') else { return String::new() };
    let mut systems: Vec<&str> = names.iter().filter_map(|n| Some(n.split_once(':')?.0)).collect();
    systems.dedup();
    if glob::is_glob(system) || systems.contains(&system) {
        return String::new();
    }
    let similar: Vec<String> = nearest(system, systems.into_iter())
        .iter()
        .map(|system| format!("{system}:{rest}"))
        .collect();
    did_you_mean(&similar.iter().map(String::as_str).collect::<Vec<_>>())
}

type List = Box<dyn Fn() -> io::Result<Vec<(String, String)>>>;
/// The tracepoints of a tracefs, each format read and parsed once; and counters and functions.
///
/// The list of tracepoints is long and the kernel generates it for each reader, so it is read only
/// for a glob or an unknown name.
pub struct TracefsCatalog {
    list: List,
    names: OnceCell<Vec<String>>,
    read_format: Box<ReadTraceFormat<'static>>,
    read_pmu: Box<ReadPmu<'static>>,
    functions: Option<Rc<dyn Functions>>,
    adds_user_text: fn() -> bool,
    described: RefCell<HashMap<String, Rc<Event>>>,
}

impl TracefsCatalog {
    /// Returns a catalog of the (system, name) pairs that `list` returns. `read_format` reads
    /// `events/SYSTEM/NAME/format`; it fails with [`io::ErrorKind::NotFound`] if there is no such
    /// file.
    pub fn new(list: List, read_format: Box<ReadTraceFormat<'static>>) -> TracefsCatalog {
        TracefsCatalog {
            list,
            names: OnceCell::new(),
            read_format,
            read_pmu: Box::new(EventFiles::NONE.pmu),
            functions: None,
            adds_user_text: || false,
            described: RefCell::default(),
        }
    }

    /// Adds the PMUs. `read_pmu` reads a file by its path below /sys/bus/event_source/devices.
    pub fn with_pmus(mut self, read_pmu: Box<ReadPmu<'static>>) -> TracefsCatalog {
        self.read_pmu = read_pmu;
        self
    }

    /// Adds function events, found by `functions`.
    pub fn with_functions(mut self, functions: Rc<dyn Functions>) -> TracefsCatalog {
        self.functions = Some(functions);
        self
    }

    /// Adds strings in user memory to the formats of system calls if `adds_user_text` returns true;
    /// called when the first such format is read.
    pub fn with_user_text(mut self, adds_user_text: fn() -> bool) -> TracefsCatalog {
        self.adds_user_text = adds_user_text;
        self
    }

    fn files(&self) -> EventFiles<'_> {
        EventFiles {
            format: &*self.read_format,
            pmu: &*self.read_pmu,
            functions: self.functions.as_deref(),
            adds_user_text: &self.adds_user_text,
        }
    }

    fn parse_name(&self, name: &str) -> Result<Event> {
        match kind::parse(name, &self.files())? {
            Some(event) => Ok(event),
            None if !event_hint(name).is_empty() => bail!("no event '{name}'{}", event_hint(name)),
            None => match &*self.suggestions(name)? {
                [] => bail!("no event '{name}' (perilune list shows all)"),
                similar => bail!("no event '{name}'{}", did_you_mean(similar)),
            },
        }
    }

    fn listed(&self) -> Result<&[String]> {
        if let Some(names) = self.names.get() {
            return Ok(names);
        }
        let events = (self.list)().context("failed to list the tracepoints")?;
        let mut names: Vec<String> =
            events.iter().map(|(sys, name)| format!("{sys}:{name}")).collect();
        names.sort_unstable();
        Ok(self.names.get_or_init(|| names))
    }

    /// Returns suggestions for an unknown name: tracepoints of the same name in any system, else
    /// names with a similar spelling.
    fn suggestions(&self, name: &str) -> Result<Vec<&str>> {
        let listed = self.listed()?;
        let event = name.rsplit_once(':').map_or(name, |(_, event)| event);
        let same = |full: &&str| full.split_once(':').is_some_and(|(_, e)| e == event);
        let names = || listed.iter().map(String::as_str);
        let elsewhere: Vec<&str> = names().filter(same).take(3).collect();
        if !elsewhere.is_empty() {
            return Ok(elsewhere);
        }
        if name.contains(':') {
            return Ok(nearest(name, names()));
        }
        let found = nearest(name, kind::short_names());
        if !found.is_empty() {
            return Ok(found);
        }
        let behind = nearest(name, names().filter_map(|full| Some(full.split_once(':')?.1)));
        let full =
            |event: &str| names().find(|n| n.split_once(':').is_some_and(|(_, e)| e == event));
        Ok(behind.into_iter().filter_map(full).collect())
    }
}

impl Catalog for TracefsCatalog {
    fn describe(&self, name: &str) -> Result<Rc<Event>> {
        if let Some(known) = self.described.borrow().get(name) {
            return Ok(known.clone());
        }
        let event = Rc::new(self.parse_name(name)?);
        if !event.kind().may_change() {
            self.described.borrow_mut().insert(name.to_owned(), event.clone());
        }
        Ok(event)
    }

    fn names(&self) -> Result<Vec<String>> {
        Ok(self.listed()?.to_vec())
    }

    fn functions(&self, glob: &FunctionName, most: usize) -> Result<Vec<FunctionName>> {
        let Some(functions) = &self.functions else { return Ok(Vec::new()) };
        function::check_kernel(glob.kind, &*self.read_pmu)
            .map_err(|why| anyhow!("{glob}: {why}"))?;
        function::matching(glob, &**functions, most)
    }

    fn parameters(&self, of: &FunctionName, path: &[&str]) -> Vec<String> {
        self.functions.as_ref().map_or(Vec::new(), |functions| functions.parameters(of, path))
    }

    fn look_up(&self, pattern: &str, most: usize) -> Result<Option<FoundNames>> {
        kind::look_up(pattern, &self.files(), most)
    }
}

#[cfg(test)]
mod tests;
