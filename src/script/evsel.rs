//! What a script watches: the selectors and wishes of its `evsel` calls, resolved to roles.
//!
//! A role is one event of one evsel: a glob has many. The index of a role is what a slot carries.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use mlua::{Lua, Table, Value};

pub use super::picked::Trial;

use super::narrow::{Narrowing, fill, names};
use super::picked;
use crate::base::cpulist;
use crate::base::nearest::{did_you_mean, nearest};
use crate::base::slot::ROLES_MAX;
use crate::event::catalog::Catalog;
use crate::event::plan;
use crate::event::sampling::{Sampling, Stack, Walk};
use crate::event::selector::Selector;
use crate::sys::attr::Attr;

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
}

/// What a script may get wrong: text for its own line.
pub(super) type Refused = String;

impl Declarer {
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
        let wish = Wishes::read(wishes, &chosen, from_table.as_ref(), self.stack)?;
        let events = match self.events_of(&chosen, &wish.sampling) {
            Ok(events) => events,
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
                filter: None,
                rest: Vec::new(),
                task: wish.task.clone(),
                sampling: wish.sampling.clone(),
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
            attrs: chosen.attrs.clone(),
        };
        all.declared.push(Declared { first, count: events.len() });
        all.roles.extend(roles);
        if all.roles.len() > usize::from(u16::MAX) {
            return Err(format!("'{}' selects too many events", chosen.text));
        }
        Ok(Some((all.declared.len() - 1, told)))
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

/// The wishes of an `evsel` call.
struct Wishes {
    sampling: Sampling,
    task: Option<String>,
    filter: Option<String>,
    optional: bool,
    title: Option<String>,
}

const WISHES: [&str; 13] = [
    "stack",
    "count",
    "freq",
    "period",
    "filter",
    "exclude",
    "optional",
    "title",
    "max_stack",
    "cpus",
    "task",
    "everyone",
    "functions",
];

impl Wishes {
    fn read(
        table: &Table,
        chosen: &Selector,
        from: Option<&Table>,
        usual: Stack,
    ) -> Result<Self, Refused> {
        let stack = chosen.stack() || from.is_some_and(|t| truthy(t, "stack"));
        let mut sampling = Sampling {
            stack: stack.then(|| Stack { depth: chosen.max_stack(), ..usual }),
            cpus: match chosen.cpus() {
                Some(list) => {
                    Some(cpulist::parse(list).map_err(|why| format!("cpus={list}: {why:#}"))?)
                }
                None => None,
            },
            ..Sampling::default()
        };
        let (mut filter, mut optional, mut title) = (None, false, None);
        let (mut task, mut depth) = (None, None);
        for pair in table.pairs::<String, Value>() {
            let (key, value) = pair.map_err(|_| "the wishes of an evsel are named".to_owned())?;
            let number = || match &value {
                Value::Integer(n) if *n >= 0 => Ok(*n as u64),
                Value::Number(n) if *n >= 0.0 => Ok(*n as u64),
                Value::Boolean(b) => Ok(u64::from(*b)),
                other => {
                    Err(format!("'{key}' of an evsel is a number, not a {}", other.type_name()))
                }
            };
            let text = || match &value {
                Value::String(s) => Ok(s.to_string_lossy()),
                other => Err(format!("'{key}' of an evsel is text, not a {}", other.type_name())),
            };
            if matches!(value, Value::Boolean(false) | Value::Nil) {
                continue;
            }
            match key.as_str() {
                "stack" => {
                    let walk = walk(&value)?.unwrap_or(usual.walk);
                    sampling.stack = Some(Stack { walk, ..sampling.stack.unwrap_or(usual) });
                }
                "count" => sampling.count = true,
                "freq" => sampling.freq = Some(number()?),
                "period" => sampling.period = Some(number()?.max(1)),
                "max_stack" => depth = Some(number()?.clamp(1, u64::from(u16::MAX)) as u16),
                "cpus" => {
                    sampling.cpus = Some(cpulist::parse(&text()?).map_err(|e| format!("{e:#}"))?);
                }
                "filter" => filter = Some(text()?),
                "title" => title = Some(text()?),
                "functions" => sampling.functions = true,
                "task" => task = Some(text()?),
                "everyone" => sampling.everyone = true,
                "optional" => optional = true,
                "exclude" => exclude(&mut sampling, &value)?,
                field if Attr::names().any(|name| name == field) => {
                    sampling.fields.push((key.clone(), number()?));
                }
                _ => {
                    let known = WISHES.into_iter().chain(Attr::names());
                    let hint = did_you_mean(&nearest(&key, known));
                    return Err(format!("an evsel has no '{key}'{hint}"));
                }
            }
        }
        // Of a selector, `max-stack=` asks for stacks by itself; here it limits those that are taken.
        if let (Some(stack), Some(depth)) = (&mut sampling.stack, depth) {
            stack.depth.get_or_insert(depth);
        }
        if sampling.everyone && task.is_some() {
            return Err("an evsel has 'everyone' or 'task', not both: with 'task' it is about one"
                .to_owned());
        }
        sampling.whole_cpus = task.is_some() || sampling.everyone;
        Ok(Wishes { sampling, task, filter, optional, title })
    }
}

/// The walk that `stack = "dwarf,16384"` names; None leaves it to the run, as `stack = true` does.
fn walk(value: &Value) -> Result<Option<Walk>, Refused> {
    match value {
        Value::String(text) => Walk::parse(&text.to_string_lossy())
            .map(Some)
            .map_err(|why| format!("'stack' of an evsel: {why}")),
        _ => Ok(None),
    }
}

const EXCLUDES: &str = "{ user = true, kernel = true, host = true, guest = true, idle = true }";

fn exclude(sampling: &mut Sampling, value: &Value) -> Result<(), Refused> {
    let Value::Table(modes) = value else {
        return Err(format!("'exclude' of an evsel is a table: {EXCLUDES}"));
    };
    for pair in modes.pairs::<String, Value>() {
        let (mode, on) =
            pair.map_err(|_| format!("'exclude' of an evsel has names: {EXCLUDES}"))?;
        let on = !matches!(on, Value::Boolean(false));
        match mode.as_str() {
            "user" => sampling.exclude.user |= on,
            "kernel" => sampling.exclude.kernel |= on,
            "host" => sampling.exclude.host |= on,
            "guest" => sampling.exclude.guest |= on,
            "idle" => sampling.exclude.idle |= on,
            _ => return Err(format!("'exclude' of an evsel has no '{mode}': {EXCLUDES}")),
        }
    }
    Ok(())
}

fn truthy(table: &Table, key: &str) -> bool {
    !matches!(table.raw_get::<Value>(key), Ok(Value::Nil | Value::Boolean(false)) | Err(_))
}
