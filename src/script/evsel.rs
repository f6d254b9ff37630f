//! What a script watches: the selectors and wishes of its `evsel` calls, resolved to roles.
//!
//! A role is one event of one evsel: a glob has many. The index of a role is what a slot carries.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use mlua::{Lua, Table, Value};

pub use super::picked::Trial;

use super::narrow::{Narrowing, fill, names};
use super::picked;
use super::setting::Setting;
use super::wishes::Wishes;
use crate::base::cpulist;
use crate::base::slot::ROLES_MAX;
use crate::event::catalog::{Catalog, Event, Meant, expand};
use crate::event::plan;
use crate::event::rate::{Rate, USUAL_HZ, settle};
use crate::event::sampling::{Sampling, Stack};
use crate::event::selector::Selector;
use crate::sys::cpus::absent;

/// Everything declared so far.
#[derive(Default)]
pub struct Evsels {
    /// Roles, by index.
    pub roles: Vec<Role>,
    /// Roles whose events are to be turned on or off; the last wish for each.
    pub switches: BTreeMap<u32, bool>,
    /// Roles whose filter was narrowed, and evsels whose handler was replaced, since a session looked last.
    pub narrowed: BTreeSet<u32>,
    /// See `narrowed`.
    pub replaced: BTreeSet<usize>,
    /// Whether the run has begun: its events are open, and no wish reaches them any more.
    pub sealed: bool,
    /// Lists of names that tasks are to have, as given to `ev:matching`.
    pub names: Vec<String>,
    /// What a user should hear of events that are others than those asked for first.
    pub remarks: Vec<String>,
    /// Those of `remarks` that name an event that was taken instead of another.
    pub fallbacks: Vec<String>,
    /// Selectors that evsels were declared with, as typed.
    pub(super) used: BTreeSet<String>,
    declared: Vec<Declared>,
}

impl Evsels {
    /// The roles of an evsel, as indexes.
    pub fn indexes_of(&self, index: usize) -> std::ops::Range<usize> {
        self.declared.get(index).map_or(0..0, |d| d.first..d.first + d.count)
    }

    /// The roles of an evsel.
    pub fn roles_of(&self, index: usize) -> &[Role] {
        self.roles.get(self.indexes_of(index)).unwrap_or_default()
    }
}

/// One event of one evsel.
pub type Role = plan::Role<Sampling>;

struct Declared {
    first: usize,
    count: usize,
}

/// The Rust side of `evsel`, over a catalog of events.
pub struct Declarer {
    /// Which events there are.
    pub catalog: Rc<dyn Catalog>,
    /// Tries them out.
    pub trial: Trial,
    /// What was declared.
    pub evsels: Rc<RefCell<Evsels>>,
    /// How stacks are taken where an evsel does not say it.
    pub stack: Stack,
    /// The rate of clocks and hardware events where an evsel does not say it.
    pub rate: Cell<Option<Rate>>,
    /// The CPUs that an event may be limited to; None leaves it to the recording.
    pub cpus: Option<Watchable>,
}

/// The CPUs that an event may be limited to.
#[derive(Clone, Debug)]
pub struct Watchable {
    /// Those that are online.
    pub online: Vec<u32>,
    /// Those of `-C`, or all.
    pub watched: Vec<u32>,
}

impl Watchable {
    /// # Errors
    /// A CPU that this machine does not have, that is offline, or that `-C` leaves out, where it
    /// leaves none.
    fn check(&self, asked: &[u32]) -> Result<(), Refused> {
        let list = cpulist::format(asked);
        if let Some(why) = absent(asked, &self.online) {
            return Err(format!("cpus={list}: {why}"));
        }
        if asked.iter().any(|cpu| self.watched.contains(cpu)) {
            return Ok(());
        }
        let watched = cpulist::format(&self.watched);
        Err(format!(
            "cpus={list}: -C watches only CPU {watched}; name one of those, or add {list} to -C"
        ))
    }
}

/// What a script may get wrong: text for its own line.
pub(super) type Refused = String;

impl Declarer {
    /// Declares what a run with this setting asks for.
    pub(super) fn new(setting: &Setting, evsels: Rc<RefCell<Evsels>>) -> Declarer {
        let watchable = |online: &Vec<u32>| {
            let (online, watched) = (online.clone(), setting.cpus.clone());
            Watchable { online, watched }
        };
        Declarer {
            catalog: setting.catalog.clone(),
            trial: setting.trial.clone(),
            evsels,
            stack: setting.stack,
            rate: Cell::new(setting.rate),
            cpus: setting.online.as_ref().map(watchable),
        }
    }

    /// Takes one `evsel(selector, wishes)` in. `Ok(None)` is an optional event that this machine has not.
    pub fn declare(
        &self,
        selector: &Value,
        wishes: &Table,
    ) -> Result<Option<(usize, Told)>, Refused> {
        if self.evsels.borrow().sealed {
            return Err(
                "the events of a run are opened as it begins; call evsel in init".to_owned()
            );
        }
        let (chosen, from_table) = chosen(selector)?;
        self.evsels.borrow_mut().used.insert(chosen.text.clone());
        let wish = Wishes::read(wishes, &chosen, from_table.as_ref(), self.stack)?;
        self.check_cpus(&wish.sampling)?;
        let Meant { events, glob } = match self.events_of(&chosen, &wish.sampling) {
            Ok(meant) => meant,
            Err(_) if wish.optional => return Ok(None),
            Err(why) => return Err(format!("{why:#}")),
        };
        for event in &events {
            wish.task.as_deref().map_or(Ok(()), |field| picked::names_thread(event, field))?;
        }
        let filters = [chosen.filter.as_deref(), wish.filter.as_deref()];
        let mut roles = Vec::with_capacity(events.len());
        for event in &events {
            let mut role = Role {
                event: event.clone(),
                glob: glob.clone(),
                filter: None,
                rest: Vec::new(),
                task: wish.task.clone(),
                sampling: self.settled(event, &wish.sampling)?,
            };
            filters.into_iter().flatten().try_for_each(|text| role.narrow(text))?;
            roles.push(role);
        }
        let mut all = self.evsels.borrow_mut();
        let first = all.roles.len();
        if first + roles.len() > usize::from(ROLES_MAX) {
            return Err(format!("a run has at most {ROLES_MAX} events; select fewer"));
        }
        let told = Told {
            name: if events.len() == 1 { events[0].name.clone() } else { chosen.name.clone() },
            title: wish.title.clone().or_else(|| chosen.alias().map(str::to_owned)),
            names: events.iter().map(|e| e.name.clone()).collect(),
            first,
            count_only: wish.sampling.count,
            rate: roles.first().and_then(|role| role.sampling.rate()),
            attrs: chosen.attrs.clone(),
        };
        all.declared.push(Declared { first, count: events.len() });
        all.roles.extend(roles);
        if all.roles.len() > usize::from(u16::MAX) {
            return Err(format!("'{}' selects too many events", chosen.text));
        }
        Ok(Some((all.declared.len() - 1, told)))
    }

    /// How an event is sampled; adds a remark where nothing said how often.
    fn settled(&self, event: &Event, sampling: &Sampling) -> Result<Sampling, Refused> {
        let of_run = self.rate.get();
        let settled = settle(event, sampling, of_run).map_err(|why| why.to_string())?;
        if of_run.is_none() && sampling.rate() != settled.rate() {
            let remark = format!(
                "{}: sampled {USUAL_HZ} times a second; -F, -c, freq= and period= set another rate",
                event.name
            );
            let remarks = &mut self.evsels.borrow_mut().remarks;
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        }
        Ok(settled)
    }

    fn check_cpus(&self, sampling: &Sampling) -> Result<(), Refused> {
        match (&self.cpus, &sampling.cpus) {
            (Some(watchable), Some(asked)) => watchable.check(asked),
            _ => Ok(()),
        }
    }

    /// Checks a selector that was typed and that no evsel was declared with: its event exists, and
    /// so do its CPUs.
    ///
    /// # Errors
    /// As [`Declarer::declare`].
    pub fn check_unused(&self, lua: &Lua, selector: &Value) -> Result<(), Refused> {
        let (chosen, from_table) = chosen(selector)?;
        if self.evsels.borrow().used.contains(&chosen.text) {
            return Ok(());
        }
        let none = lua.create_table().map_err(|why| why.to_string())?;
        let wish = Wishes::read(&none, &chosen, from_table.as_ref(), self.stack)?;
        self.check_cpus(&wish.sampling)?;
        let events = expand(&*self.catalog, &chosen).map_err(|why| format!("{why:#}"))?;
        let mut rates = events.iter().map(|event| settle(event, &wish.sampling, self.rate.get()));
        rates.try_for_each(|rate| rate.map(drop).map_err(|why| why.to_string()))
    }

    /// ANDs a filter to an evsel. `args` fill `%s` (quoted) and `%d`; without, a `%` is the operator.
    pub fn narrow(&self, index: usize, format: &str, args: &[Value]) -> Result<(), Refused> {
        let text = if args.is_empty() { format.to_owned() } else { fill(format, args)? };
        self.each_role(index, |role| role.narrow(&text))
    }

    /// ANDs to an evsel that `field` is one of a list of names and globs.
    pub fn matching(&self, index: usize, field: &str, list: &str) -> Result<(), Refused> {
        self.each_role(index, |role| role.narrow(&names(field, list, role)?))?;
        let all = &mut self.evsels.borrow_mut().names;
        if field.ends_with("comm") && !all.iter().any(|other| other == list) {
            all.push(list.to_owned());
        }
        Ok(())
    }

    fn each_role(
        &self,
        index: usize,
        narrow: impl Fn(&mut Role) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let mut all = self.evsels.borrow_mut();
        if all.sealed {
            return Err("filters are set in init or filter, or at the prompt".into());
        }
        let Some(&Declared { first, count }) = all.declared.get(index) else {
            return Err("this evsel is not of this run".to_owned());
        };
        // All of them or none: a script may go on after a refusal.
        let mut roles = all.roles[first..first + count].to_vec();
        roles.iter_mut().try_for_each(narrow)?;
        all.roles[first..first + count].clone_from_slice(&roles);
        all.narrowed.extend((first..first + count).map(|role| role as u32));
        Ok(())
    }

    /// Notes that an evsel has another handler.
    pub fn replaced(&self, index: usize) -> Result<(), Refused> {
        let mut all = self.evsels.borrow_mut();
        if all.sealed {
            return Err("a handler is replaced in init, or at the prompt".to_owned());
        }
        all.replaced.insert(index);
        Ok(())
    }

    /// Asks for an evsel's events to be turned on or off between batches.
    pub fn switch(&self, index: usize, on: bool) {
        let mut all = self.evsels.borrow_mut();
        if let Some(&Declared { first, count }) = all.declared.get(index) {
            all.switches.extend((first..first + count).map(|role| (role as u32, on)));
        }
    }

    /// Names and types of the fields of an evsel's first event.
    pub fn fields(&self, lua: &Lua, index: usize) -> mlua::Result<Table> {
        let table = lua.create_table()?;
        let all = self.evsels.borrow();
        let role = all.declared.get(index).and_then(|d| all.roles.get(d.first));
        if let Some(format) = role.and_then(|r| r.event.format()) {
            for field in format.fields.iter().filter(|f| !f.common) {
                table.set(field.name.as_str(), field.type_text.as_str())?;
            }
        }
        Ok(table)
    }
}

/// What `evsel` tells the script of what it declared.
pub struct Told {
    /// `sys:name`, or the glob.
    pub name: String,
    /// The title or alias asked for.
    pub title: Option<String>,
    /// The events of its roles.
    pub names: Vec<String>,
    /// Index of its first role.
    pub first: usize,
    /// Whether it only counts.
    pub count_only: bool,
    /// How often its first event is sampled; None is each time.
    pub rate: Option<Rate>,
    /// Attributes as typed, in order.
    pub attrs: Vec<(String, Option<String>)>,
}

/// The selector, and the script's table when it is one of `opt.event[group][i]`.
fn chosen(selector: &Value) -> Result<(Selector, Option<Table>), Refused> {
    match selector {
        Value::String(text) => {
            let text = text.to_str().map_err(|_| "a selector is UTF-8 text".to_owned())?;
            let mut all = Selector::parse_list(&text).map_err(|why| why.to_string())?;
            match (all.pop(), all.is_empty()) {
                (Some(one), true) => Ok((one, None)),
                (None, _) => Err("a selector is empty; write sys:name".to_owned()),
                _ => Err(format!("'{text}' selects several events; call evsel for each")),
            }
        }
        Value::Table(table) => {
            let text: String =
                table.raw_get("text").map_err(|_| "this table is no selector".to_owned())?;
            let mut one = Selector::parse_list(&text)
                .ok()
                .and_then(|mut all| all.pop())
                .ok_or_else(|| "this table is no selector".to_owned())?;
            // A script may have changed them.
            one.filter = match table.raw_get("filter") {
                Ok(Value::String(text)) => Some(text.to_string_lossy()),
                _ => None,
            };
            Ok((one, Some(table.clone())))
        }
        other => {
            Err(format!("a selector is text or one of opt.event, not a {}", other.type_name()))
        }
    }
}
