//! The events that there are, described when asked for.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    io,
    rc::Rc,
};

use anyhow::{Context, Result, anyhow, bail};

use crate::{
    base::{
        draw::OpenedEvent,
        glob,
        nearest::{did_you_mean, nearest},
    },
    decode::format::Format,
    event::{
        counter::{self, Counter},
        function::{self, Function, Functions, Named},
        name,
        selector::Selector,
    },
};

/// An event that can be opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The one name that is shown: `sys:name`, `page-faults:u`, `msr/tsc/`.
    pub name: String,
    /// Its kind.
    pub what: What,
}

/// What kind of event.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A tracepoint; `format.id` is its config.
    Tracepoint {
        /// The layout of its records.
        format: Format,
    },
    /// A function.
    Function(Function),
    /// Anything else.
    Counter(Counter),
}

impl Event {
    /// The layout of its raw records, or of what a function was given or returned, if it has any.
    pub fn format(&self) -> Option<&Format> {
        match &self.what {
            What::Tracepoint { format } => Some(format),
            What::Function(function) => Some(&function.format),
            What::Counter(_) => None,
        }
    }

    /// As the header of a recording names it.
    pub fn opened(&self) -> OpenedEvent {
        let fields = self.format().into_iter().flat_map(|format| &format.fields);
        let fields = fields.filter(|field| !field.common);
        let fields = fields.map(|field| (field.name.clone(), field.value_type())).collect();
        OpenedEvent { name: self.name.clone(), fields }
    }

    /// The function, if it is one.
    pub fn function(&self) -> Option<&Function> {
        match &self.what {
            What::Function(function) => Some(function),
            _ => None,
        }
    }
}

/// The events of a machine, or of a recording.
pub trait Catalog {
    /// The event of that exact name. Errors: there is none (with what was probably meant), or it cannot be read.
    fn describe(&self, name: &str) -> Result<Rc<Event>>;
    /// All tracepoints as `sys:name`, sorted. Errors: they cannot be listed.
    fn names(&self) -> Result<Vec<String>>;
    /// The functions that a glob means, of those that can be watched, at most so many. Errors: they cannot be listed, or not be
    /// watched at all.
    fn functions(&self, glob: &Named, most: usize) -> Result<Vec<Named>> {
        let is = |named: &Named| {
            named.with("") == glob.with("")
                && glob::matches(glob.function.as_bytes(), named.function.as_bytes())
        };
        let all = self.names()?;
        Ok(all.iter().filter_map(|name| Named::parse(name)).filter(is).take(most).collect())
    }
    /// Whether a format has every field that records of its event can have. A recording has those of its lines only.
    fn is_whole(&self) -> bool {
        true
    }
}

/// The events that a selector means, in the catalog's order; at least one.
///
/// A glob (`sched:sched_wak*`; without a colon it is for the part behind it) means every tracepoint
/// that matches, of alternatives (`a|b`) the first that exists is meant.
pub fn expand(catalog: &dyn Catalog, selector: &Selector) -> Result<Vec<Rc<Event>>> {
    expand_where(catalog, selector, &mut |event| Some(event.clone())).map(|meant| meant.events)
}

/// What a selector means.
#[derive(Debug)]
pub struct Meant {
    /// The events, at least one.
    pub events: Vec<Rc<Event>>,
    /// The glob that they match; None if it names one event.
    pub glob: Option<Rc<str>>,
}

/// Like [`expand`], for alternatives whose existence only opening them can tell (`cycles|cpu-clock`).
///
/// `tried` gives an event as it can be opened, or nothing: then it counts as absent when there is another
/// alternative left. The last one is given as it is, so that its refusal is shown when it is opened.
pub fn expand_where(
    catalog: &dyn Catalog,
    selector: &Selector,
    tried: &mut dyn FnMut(&Rc<Event>) -> Option<Rc<Event>>,
) -> Result<Meant> {
    let mut alternatives = selector.alternatives().peekable();
    let mut fault = None;
    while let Some(name) = alternatives.next() {
        let is_last = alternatives.peek().is_none();
        let events = match expand_name(catalog, name) {
            Ok(events) => events,
            Err(e) => {
                fault = fault.or(Some(e));
                continue;
            }
        };
        let is_glob = match Named::parse(name) {
            Some(named) => glob::is_glob(&named.function),
            None => glob::is_glob(name) && !name.contains('/'),
        };
        let glob = is_glob.then(|| Rc::from(name));
        match events.iter().map(&mut *tried).collect::<Option<Vec<_>>>() {
            Some(events) => return Ok(Meant { events, glob }),
            None if is_last => return Ok(Meant { events, glob }),
            None => {}
        }
    }
    Err(fault.unwrap_or_else(|| anyhow!("an event without a name")))
}

fn expand_name(catalog: &dyn Catalog, name: &str) -> Result<Vec<Rc<Event>>> {
    if let Some(named) = Named::parse(name) {
        return expand_function(catalog, &named);
    }
    if !glob::is_glob(name) || name.contains('/') {
        return Ok(vec![catalog.describe(name)?]);
    }
    let matches = |event: &str| match name.contains(':') {
        true => glob::matches(name.as_bytes(), event.as_bytes()),
        false => {
            event.split_once(':').is_some_and(|(_, e)| glob::matches(name.as_bytes(), e.as_bytes()))
        }
    };
    let names = catalog.names()?;
    let found: Vec<Rc<Event>> = names
        .iter()
        .filter(|event| matches(event))
        .map(|event| catalog.describe(event))
        .collect::<Result<_>>()?;
    if found.is_empty() {
        bail!("no event matches '{name}'{}", glob_meant(name, &names));
    }
    Ok(found)
}

fn expand_function(catalog: &dyn Catalog, named: &Named) -> Result<Vec<Rc<Event>>> {
    if !glob::is_glob(&named.function) {
        return Ok(vec![catalog.describe(&named.to_string())?]);
    }
    let found = catalog.functions(named, FUNCTIONS_MAX + 1)?;
    if found.is_empty() {
        bail!("no function matches '{named}' (perilune list '{}' shows all)", named.with("*"));
    }
    if found.len() > FUNCTIONS_MAX {
        bail!(
            "'{named}' matches more functions than can be watched at once; narrow the glob (perilune list '{named}' shows them)"
        );
    }
    found.iter().map(|one| catalog.describe(&one.to_string())).collect()
}

/// Functions that one glob may mean, in a recording, too. How many can be open at once depends on the CPUs, and is looked at when they
/// are opened.
const FUNCTIONS_MAX: usize = 1024;

/// The glob with the system that was probably meant, when there is none of that name.
fn glob_meant(glob: &str, names: &[String]) -> String {
    let Some((system, rest)) = glob.split_once(':') else { return String::new() };
    let mut systems: Vec<&str> = names.iter().filter_map(|n| Some(n.split_once(':')?.0)).collect();
    systems.dedup();
    if glob::is_glob(system) || systems.contains(&system) {
        return String::new();
    }
    let meant: Vec<String> = nearest(system, systems.into_iter())
        .iter()
        .map(|system| format!("{system}:{rest}"))
        .collect();
    did_you_mean(&meant.iter().map(String::as_str).collect::<Vec<_>>())
}

type List = Box<dyn Fn() -> io::Result<Vec<(String, String)>>>;
type ReadFormat = Box<dyn Fn(&str, &str) -> io::Result<String>>;
type ReadPmu = Box<counter::ReadPmu<'static>>;

/// What reading a file by a name that is none of a tracepoint comes to.
const NO_SUCH_FILE: [io::ErrorKind; 4] = [
    io::ErrorKind::NotFound,
    io::ErrorKind::InvalidInput,
    io::ErrorKind::NotADirectory,
    io::ErrorKind::InvalidFilename,
];

/// ftrace's own records: they have formats, but nothing opens them, and they are not listed.
const NO_TRACEPOINTS: &str = "ftrace";

/// The tracepoints of a tracefs, each format read and parsed once; and the counters.
///
/// Their list is long and the kernel makes it anew for each reader, so it is read only when a name needs it: a glob, or one
/// that is wrong.
pub struct TracefsCatalog {
    list: List,
    names: OnceCell<Vec<String>>,
    read_format: ReadFormat,
    read_pmu: ReadPmu,
    functions: Option<Rc<dyn Functions>>,
    described: RefCell<HashMap<String, Rc<Event>>>,
}

impl TracefsCatalog {
    /// A catalog of the (system, name) pairs that `list` gives; `read_format` reads `events/SYSTEM/NAME/format`, or tells
    /// that there is none ([`io::ErrorKind::NotFound`]).
    pub fn new(list: List, read_format: ReadFormat) -> TracefsCatalog {
        TracefsCatalog {
            list,
            names: OnceCell::new(),
            read_format,
            read_pmu: Box::new(|_| Err(io::ErrorKind::NotFound.into())),
            functions: None,
            described: RefCell::default(),
        }
    }

    /// Adds the PMUs; `read_pmu` reads a file by its path below /sys/bus/event_source/devices.
    pub fn with_pmus(mut self, read_pmu: ReadPmu) -> TracefsCatalog {
        self.read_pmu = read_pmu;
        self
    }

    /// Adds functions.
    pub fn with_functions(mut self, functions: Rc<dyn Functions>) -> TracefsCatalog {
        self.functions = Some(functions);
        self
    }

    fn look_up(&self, name: &str) -> Result<Event> {
        if let Some((sys, event)) = name.split_once(':')
            && sys != NO_TRACEPOINTS
            && let Some(text) = self.format(sys, event, name)?
        {
            let format = Format::parse(&text)
                .with_context(|| format!("failed to parse the format of `{name}`"))?;
            return Ok(Event { name: name.to_owned(), what: What::Tracepoint { format } });
        }
        match counter::parse(name, &self.read_pmu)? {
            Some((name, counter)) => Ok(Event { name, what: What::Counter(counter) }),
            None => match &*self.meant(name)? {
                [] => bail!("no event '{name}' (perilune list shows all)"),
                meant => bail!("no event '{name}'{}", did_you_mean(meant)),
            },
        }
    }

    /// The text of a format; None if there is no such tracepoint.
    fn format(&self, sys: &str, event: &str, name: &str) -> Result<Option<String>> {
        match (self.read_format)(sys, event) {
            Ok(text) => Ok(Some(text)),
            // Counters have colons, too, and other files than tracepoints stand beside these.
            Err(e) if NO_SUCH_FILE.contains(&e.kind()) => Ok(None),
            Err(e) => Err(e).with_context(|| format!("failed to read the format of `{name}`")),
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

    /// What was probably meant: a tracepoint of that very name in some system, else what is spelt alike.
    fn meant(&self, name: &str) -> Result<Vec<&str>> {
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
        let counters = name::short_names();
        let found = nearest(name, counters);
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
        if let (Some(named), Some(functions)) = (Named::parse(name), &self.functions) {
            // Looked for anew each time: a file may be another one by now.
            return function::describe(&named, &**functions, &self.read_pmu).map(Rc::new);
        }
        if let Some(known) = self.described.borrow().get(name) {
            return Ok(known.clone());
        }
        let event = Rc::new(self.look_up(name)?);
        self.described.borrow_mut().insert(name.to_owned(), event.clone());
        Ok(event)
    }

    fn names(&self) -> Result<Vec<String>> {
        Ok(self.listed()?.to_vec())
    }

    fn functions(&self, glob: &Named, most: usize) -> Result<Vec<Named>> {
        let Some(functions) = &self.functions else { return Ok(Vec::new()) };
        function::pmu(glob.kind, &self.read_pmu).map_err(|why| anyhow!("{glob}: {why}"))?;
        function::matching(glob, &**functions, most)
    }
}

#[cfg(test)]
mod tests;
