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
        glob,
        nearest::{did_you_mean, nearest},
    },
    decode::format::Format,
    event::{
        counter::{self, Counter},
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
    /// Anything else.
    Counter(Counter),
}

impl Event {
    /// The layout of its raw records, if it has any.
    pub fn format(&self) -> Option<&Format> {
        match &self.what {
            What::Tracepoint { format } => Some(format),
            What::Counter(_) => None,
        }
    }
}

/// The events of a machine, or of a recording.
pub trait Catalog {
    /// The event of that exact name. Errors: there is none (with what was probably meant), or it cannot be read.
    fn describe(&self, name: &str) -> Result<Rc<Event>>;
    /// All tracepoints as `sys:name`, sorted. Errors: they cannot be listed.
    fn names(&self) -> Result<Vec<String>>;
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
    expand_where(catalog, selector, &mut |event| Some(event.clone()))
}

/// Like [`expand`], for alternatives whose existence only opening them can tell (`cycles|cpu-clock`).
///
/// `tried` gives an event as it can be opened, or nothing: then it counts as absent when there is another
/// alternative left. The last one is given as it is, so that its refusal is shown when it is opened.
pub fn expand_where(
    catalog: &dyn Catalog,
    selector: &Selector,
    tried: &mut dyn FnMut(&Rc<Event>) -> Option<Rc<Event>>,
) -> Result<Vec<Rc<Event>>> {
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
        match events.iter().map(&mut *tried).collect::<Option<Vec<_>>>() {
            Some(opened) => return Ok(opened),
            None if is_last => return Ok(events),
            None => {}
        }
    }
    Err(fault.unwrap_or_else(|| anyhow!("an event without a name")))
}

fn expand_name(catalog: &dyn Catalog, name: &str) -> Result<Vec<Rc<Event>>> {
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
            described: RefCell::default(),
        }
    }

    /// Adds the PMUs; `read_pmu` reads a file by its path below /sys/bus/event_source/devices.
    pub fn with_pmus(mut self, read_pmu: ReadPmu) -> TracefsCatalog {
        self.read_pmu = read_pmu;
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
            // Counters have colons, too, and what stands before is no name of a file.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {
                Ok(None)
            }
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
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const NAMES: [(&str, &str); 6] = [
        ("sched", "sched_wakeup"),
        ("sched", "sched_switch"),
        ("sched", "sched_waking"),
        ("irq", "irq_handler_entry"),
        ("signal", "signal_generate"),
        ("bad", "broken"),
    ];

    fn catalog_that(counts: Rc<Cell<u32>>) -> TracefsCatalog {
        let list = || Ok(NAMES.map(|(sys, name)| (sys.to_owned(), name.to_owned())).to_vec());
        let read = move |sys: &str, name: &str| {
            counts.set(counts.get() + 1);
            match sys {
                _ if !NAMES.contains(&(sys, name)) => Err(io::ErrorKind::NotFound.into()),
                "bad" => Ok("nonsense".to_owned()),
                _ => Ok(format!(
                    "name: {name}\nID: 7\nformat:\n\tfield:int pid; offset:8; size:4; signed:1;\n"
                )),
            }
        };
        let pmu = |path: &str| match path {
            "msr/type" => Ok("9".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        TracefsCatalog::new(Box::new(list), Box::new(read)).with_pmus(Box::new(pmu))
    }

    fn catalog() -> TracefsCatalog {
        catalog_that(Rc::default())
    }

    fn fault(name: &str) -> String {
        catalog().describe(name).unwrap_err().to_string()
    }

    fn names_of(selector: &str) -> Result<Vec<String>> {
        let selector = Selector::parse_list(selector)?.remove(0);
        Ok(expand(&catalog(), &selector)?.iter().map(|e| e.name.clone()).collect())
    }

    #[test]
    fn an_event_is_described_by_its_format_read_once() {
        let reads = Rc::default();
        let catalog = catalog_that(Rc::clone(&reads));
        let event = catalog.describe("sched:sched_switch").unwrap();
        assert!(event.format().unwrap().field("pid").is_some());
        assert!(Rc::ptr_eq(&event, &catalog.describe("sched:sched_switch").unwrap()));
        assert_eq!(reads.get(), 1);
    }

    #[test]
    fn counters_are_events_too() {
        let event = catalog().describe("faults:u").unwrap();
        assert_eq!(event.name, "page-faults:u");
        assert!(matches!(&event.what, What::Counter(c) if c.exclude.kernel));
        assert!(catalog().describe("msr/config=1/").is_ok());
    }

    #[test]
    fn an_unknown_event_finds_what_was_meant() {
        assert_eq!(
            fault("sched:sched_swich"),
            "no event 'sched:sched_swich'; did you mean 'sched:sched_switch'?"
        );
        assert_eq!(
            fault("sched_switch"),
            "no event 'sched_switch'; did you mean 'sched:sched_switch'?"
        );
        assert_eq!(
            fault("schd:sched_switch"),
            "no event 'schd:sched_switch'; did you mean 'sched:sched_switch'?"
        );
        assert_eq!(
            fault("sched_swtch"),
            "no event 'sched_swtch'; did you mean 'sched:sched_switch'?"
        );
        assert_eq!(fault("page-fault"), "no event 'page-fault'; did you mean 'page-faults'?");
        assert_eq!(
            fault("nothing:like_that"),
            "no event 'nothing:like_that' (perilune list shows all)"
        );
        assert_eq!(fault("bad:broken"), "failed to parse the format of `bad:broken`");
    }

    #[test]
    fn globs_mean_every_event_that_matches() {
        assert_eq!(
            names_of("sched:sched_wak*").unwrap(),
            ["sched:sched_wakeup", "sched:sched_waking"]
        );
        assert_eq!(names_of("s*:*").unwrap().len(), 4);
        assert_eq!(names_of("*_wak*").unwrap().len(), 2);
        assert_eq!(
            names_of("schd:*").unwrap_err().to_string(),
            "no event matches 'schd:*'; did you mean 'sched:*'?"
        );
        assert_eq!(names_of("sched:x*").unwrap_err().to_string(), "no event matches 'sched:x*'");
    }

    #[test]
    fn of_alternatives_the_first_that_exists_is_meant() {
        assert_eq!(
            names_of("sched:gone|sched:sched_waking|irq:*").unwrap(),
            ["sched:sched_waking"]
        );
        assert_eq!(names_of("cycles|cpu-clock").unwrap(), ["cycles"]);
        let selector = Selector::parse_list("cycles|cpu-clock").unwrap().remove(0);
        let mut software = |event: &Rc<Event>| {
            matches!(&event.what, What::Counter(c) if c.type_ == 1).then(|| event.clone())
        };
        assert_eq!(
            expand_where(&catalog(), &selector, &mut software).unwrap()[0].name,
            "cpu-clock"
        );
        let mut none = |_: &Rc<Event>| None;
        assert_eq!(
            expand_where(&catalog(), &selector, &mut none).unwrap()[0].name,
            "cpu-clock",
            "its refusal is shown"
        );
        assert!(
            names_of("sched:gone|sched:sched_swich")
                .unwrap_err()
                .to_string()
                .contains("'sched:gone'")
        );
    }
}
