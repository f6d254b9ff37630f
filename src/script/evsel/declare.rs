//! Declares the events of a script: the selectors and options of its `evsel` calls.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::filter::{fill, names};
use super::options::{EvselOptions, names_thread};
use super::resolve::{Resolved, Trial, resolve};
use super::role::{DeclaredEvsel, Evsels, Refused, Role};
use super::watchable::Watchable;
use crate::base::event::slot::ROLES_MAX;
use crate::event::catalog::{Catalog, SelectedEvents, expand};
use crate::event::kind::Event;
use crate::event::rate::{DEFAULT_HZ, SamplingRate, resolve_rate};
use crate::event::sample_field::SampleFields;
use crate::event::sampling::{EventGroup, Sampling, StackSampling};
use crate::event::selector::Selector;
use crate::script::load::library::Library;

/// Fix for a recording that lacks an event that a monitor counts.
pub(in crate::script) const NO_COUNTS: &str =
    "--events does not record counts: run this monitor live, without --replay";

/// Rust side of `evsel`, over a catalog of events.
pub struct Declarer {
    /// Known events.
    pub catalog: Rc<dyn Catalog>,
    /// Opens events on trial.
    pub trial: Trial,
    /// Declared evsels.
    pub evsels: Rc<RefCell<Evsels>>,
    /// Stack mode of evsels that do not set one.
    pub stack: Cell<StackSampling>,
    /// Sampling rate of clocks and hardware events that do not set one.
    pub rate: Cell<Option<SamplingRate>>,
    /// CPUs that an event may be limited to; `None` leaves it to the recording.
    pub cpus: Option<Watchable>,
    /// Monitors that can be sources of events.
    pub library: Library,
}

impl Declarer {
    /// Declares one `evsel(selector, options)`. Returns `Ok(None)` for an optional event that this
    /// machine does not have.
    ///
    /// # Errors
    /// The run has begun, or the selector or one of its options is invalid or cannot be met.
    pub fn declare(
        &self,
        selector: &Value,
        table: &Table,
    ) -> Result<Option<(usize, EvselInfo)>, Refused> {
        if self.evsels.borrow().sealed {
            return Err("events are opened when the run begins; call evsel in init".to_owned());
        }
        let (chosen, from_table) = chosen(selector)?;
        self.evsels.borrow_mut().used.insert(chosen.text.clone());
        let options = EvselOptions::read(table, &chosen, from_table.as_ref(), self.stack.get())?;
        self.check_cpus(&options.sampling)?;
        let opened = self.events_of(&chosen, &options.sampling, options.optional);
        let SelectedEvents { events, glob } = match opened {
            Ok(Some(selected)) => selected,
            Ok(None) => return Ok(None),
            Err(why) if options.optional => {
                self.evsels.borrow_mut().remarks.add_missing(format!("{why:#}"));
                return Ok(None);
            }
            Err(why) => return Err(format!("{why:#}")),
        };
        let mut events = self.with_members(&chosen, &options.sampling, events)?;
        if options.registers {
            self.read_registers(&mut events)?;
        }
        for event in &events {
            options.task.as_deref().map_or(Ok(()), |field| names_thread(event, field))?;
        }
        let filters = [chosen.filter.as_deref(), options.filter.as_deref()];
        let mut roles = Vec::with_capacity(events.len());
        for event in &events {
            let mut role = Role {
                event: event.clone(),
                glob: glob.clone(),
                filter: None,
                rest: Vec::new(),
                task: options.task.clone(),
                sampling: self.sampling_of(event, &options.sampling)?,
            };
            role.request(options.extra, self.trial.is_some())?;
            if self.trial.is_some() && !event.counted.is_empty() {
                role.request(SampleFields::named("_counts").unwrap_or_default(), true)?;
            }
            filters.into_iter().flatten().try_for_each(|text| self.narrow_role(&mut role, text))?;
            roles.push(role);
        }
        let mut all = self.evsels.borrow_mut();
        let first = all.roles.len();
        if first + roles.len() > usize::from(ROLES_MAX) {
            return Err(format!("a run has at most {ROLES_MAX} events; select fewer"));
        }
        let info = EvselInfo {
            name: if events.len() == 1 { events[0].name.clone() } else { chosen.name.clone() },
            title: options.title.clone().or_else(|| chosen.alias().map(str::to_owned)),
            names: events.iter().map(|e| e.name.clone()).collect(),
            first,
            count_only: options.sampling.count,
            rate: roles.first().and_then(|role| role.sampling.rate()),
            unit: events[0].kind().unit().map(|unit| unit.unit.clone()),
            attrs: chosen.attrs.clone(),
        };
        all.declared.push(DeclaredEvsel { first, count: events.len() });
        all.roles.extend(roles);
        let count = all.roles.len();
        all.sources.own(count);
        if all.roles.len() > usize::from(u16::MAX) {
            return Err(format!("'{}' selects too many events", chosen.text));
        }
        Ok(Some((all.declared.len() - 1, info)))
    }

    /// Returns the events of a selector as they open, and adds remarks about them; None if an
    /// optional one does not open.
    ///
    /// # Errors
    /// The selector does not resolve to an event.
    pub(super) fn events_of(
        &self,
        chosen: &Selector,
        sampling: &Sampling,
        optional: bool,
    ) -> anyhow::Result<Option<SelectedEvents>> {
        let rate = self.rate.get();
        let lacks_counts = sampling.count && !self.catalog.is_whole();
        let resolved = resolve(&*self.catalog, &self.trial, rate, chosen, sampling);
        let resolved = resolved.map_err(|why| match lacks_counts {
            true => anyhow::anyhow!("{why:#}; {NO_COUNTS}"),
            false => why,
        });
        let Resolved { selected, in_user_mode, fallback, refusal } = resolved?;
        let mut all = self.evsels.borrow_mut();
        match refusal {
            Some(refusal) if optional => {
                if !refusal.is_absence() {
                    all.remarks.add_omitted(&refusal.what, &refusal.why);
                }
                return Ok(None);
            }
            // Opening it would succeed.
            Some(refusal) if refusal.is_unsupported() => return Err(refusal.into()),
            _ => {}
        }
        all.fallbacks.extend(fallback.clone());
        fallback.into_iter().for_each(|text| all.remarks.add(text));
        in_user_mode.iter().for_each(|name| all.remarks.add_in_user_mode(name, sampling.count));
        Ok(Some(selected))
    }

    /// Returns how an event is sampled; adds a remark if no rate was set.
    fn sampling_of(&self, event: &Event, sampling: &Sampling) -> Result<Sampling, Refused> {
        let of_run = self.rate.get();
        let resolved = resolve_rate(event, sampling, of_run).map_err(|why| why.to_string())?;
        if of_run.is_none() && sampling.rate() != resolved.rate() {
            let remark = format!(
                "{}: sampled {DEFAULT_HZ} times a second; -F, -c, freq= and period= set another \
                 rate",
                event.name
            );
            self.evsels.borrow_mut().remarks.add(remark);
        }
        Ok(resolved)
    }

    /// Makes the fields of functions the registers of their calls.
    ///
    /// # Errors
    /// An event is not a function; a recording does not show this.
    fn read_registers(&self, events: &mut [Rc<Event>]) -> Result<(), Refused> {
        for event in events {
            if let Some(plain) = event.without_parameters() {
                *event = Rc::new(plain);
            } else if self.trial.is_some() && !event.kind().is_function() {
                return Err(format!(
                    "'registers' of an evsel: {} is not a function; use kprobe:NAME or \
                     uprobe:FILE:NAME",
                    event.name
                ));
            }
        }
        Ok(())
    }

    fn check_cpus(&self, sampling: &Sampling) -> Result<(), Refused> {
        match (&self.cpus, &sampling.cpus) {
            (Some(watchable), Some(asked)) => watchable.check(asked),
            _ => Ok(()),
        }
    }

    /// Checks a typed selector that no evsel uses: its event and its CPUs must exist.
    ///
    /// # Errors
    /// As [`Declarer::declare`].
    pub fn check_unused(&self, lua: &Lua, selector: &Value) -> Result<(), Refused> {
        let (chosen, from_table) = chosen(selector)?;
        if self.evsels.borrow().used.contains(&chosen.text) || self.source_of(selector)?.is_some() {
            return Ok(());
        }
        let none = lua.create_table().map_err(|why| why.to_string())?;
        let options = EvselOptions::read(&none, &chosen, from_table.as_ref(), self.stack.get())?;
        self.check_cpus(&options.sampling)?;
        let events = expand(&*self.catalog, &chosen).map_err(|why| format!("{why:#}"))?;
        let mut rates =
            events.iter().map(|event| resolve_rate(event, &options.sampling, self.rate.get()));
        rates.try_for_each(|rate| rate.map(drop).map_err(|why| why.to_string()))
    }

    /// ANDs a filter to an evsel. `args` fill `%s` (quoted) and `%d`; without arguments, `%` is the
    /// operator.
    ///
    /// # Errors
    /// The run has begun, the evsel is not of this run, or the filter is invalid.
    pub fn narrow(&self, index: usize, format: &str, args: &[Value]) -> Result<(), Refused> {
        let text = if args.is_empty() { format.to_owned() } else { fill(format, args)? };
        self.each_role(index, |role| self.narrow_role(role, &text))
    }

    /// ANDs to an evsel the condition that `field` matches a list of names and globs.
    ///
    /// # Errors
    /// As [`Declarer::narrow`].
    pub fn matching(&self, index: usize, field: &str, list: &str) -> Result<(), Refused> {
        self.each_role(index, |role| {
            let text = names(field, list, role)?;
            self.narrow_role(role, &text)
        })?;
        let all = &mut self.evsels.borrow_mut().names;
        if field.ends_with("comm") && !all.iter().any(|other| other == list) {
            all.push(list.to_owned());
        }
        Ok(())
    }

    /// ANDs a filter to a role, and requests the fields of samples that it reads.
    fn narrow_role(&self, role: &mut Role, text: &str) -> Result<(), Refused> {
        role.narrow(text)?;
        let extra = std::mem::take(&mut role.sampling.extra);
        if role.event.kind().is_derived() && !extra.is_empty() {
            let (event, names) = (&role.event.name, extra.names());
            return Err(format!("{event}: the events of a monitor do not have {names}"));
        }
        role.request(extra, self.trial.is_some())
    }

    fn each_role(
        &self,
        index: usize,
        narrow: impl Fn(&mut Role) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let mut all = self.evsels.borrow_mut();
        if all.sealed {
            return Err("a filter can be set only in init, in filter or at the prompt".into());
        }
        let Some(&DeclaredEvsel { first, count }) = all.declared.get(index) else {
            return Err("this evsel belongs to another run".to_owned());
        };
        // All roles or none: a script may continue after an error.
        let mut roles = all.roles[first..first + count].to_vec();
        roles.iter_mut().try_for_each(narrow)?;
        all.roles[first..first + count].clone_from_slice(&roles);
        all.narrowed.extend((first..first + count).map(|role| role as u32));
        Ok(())
    }

    /// Records that an evsel has a new handler.
    ///
    /// # Errors
    /// The run has begun.
    pub fn replaced(&self, index: usize) -> Result<(), Refused> {
        let mut all = self.evsels.borrow_mut();
        if all.sealed {
            return Err("a handler can be replaced only in init or at the prompt".to_owned());
        }
        all.replaced.insert(index);
        Ok(())
    }

    /// Requests to switch an evsel's events on or off between batches.
    pub fn switch(&self, index: usize, on: bool) {
        let mut all = self.evsels.borrow_mut();
        if let Some(&DeclaredEvsel { first, count }) = all.declared.get(index) {
            let roles = (first..first + count).flat_map(|role| all.sources.with_source(role));
            let switches: Vec<(u32, bool)> = roles.map(|role| (role as u32, on)).collect();
            all.switches.extend(switches);
        }
    }

    /// Returns names and types of the fields of an evsel's first event.
    ///
    /// # Errors
    /// Lua is out of memory.
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

/// The description of a declaration that `evsel` returns to the script.
pub struct EvselInfo {
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
    /// Sampling rate of its first event; `None` if every event is taken.
    pub rate: Option<SamplingRate>,
    /// Unit of its counts, if its PMU declares one; empty if it declares only a scale.
    pub unit: Option<String>,
    /// Attributes as typed, in order.
    pub attrs: Vec<(String, Option<String>)>,
}

/// Returns the selector, and the script's table if it is one of `opt.event[group][i]`.
pub(super) fn chosen(selector: &Value) -> Result<(Selector, Option<Table>), Refused> {
    match selector {
        Value::String(text) => {
            let text = text.to_str().map_err(|_| "a selector must be UTF-8 text".to_owned())?;
            let mut all = Selector::parse_list(&text).map_err(|why| why.to_string())?;
            match (all.pop(), all.is_empty()) {
                (Some(one), true) => Ok((one, None)),
                (None, _) => Err("a selector is empty; write sys:name".to_owned()),
                _ => Err(format!(
                    "'{text}' selects several events; call evsel for each, or for a group in braces"
                )),
            }
        }
        Value::Table(table) => {
            let text: String =
                table.raw_get("text").map_err(|_| "this table is not a selector".to_owned())?;
            let mut one = Selector::parse_list(&text)
                .ok()
                .and_then(|mut all| all.pop())
                .ok_or_else(|| "this table is not a selector".to_owned())?;
            // The script may have changed the filter.
            one.filter = match table.raw_get("filter") {
                Ok(Value::String(text)) => Some(text.to_string_lossy()),
                _ => None,
            };
            if let Ok(Value::String(text)) = table.raw_get("group") {
                let is_weak = table.raw_get("weak").unwrap_or(false);
                one.group = Some(EventGroup::in_braces(&text.to_string_lossy(), is_weak));
            }
            Ok((one, Some(table.clone())))
        }
        other => {
            Err(format!("a selector is text or one of opt.event, not a {}", other.type_name()))
        }
    }
}
