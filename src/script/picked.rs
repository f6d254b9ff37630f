//! Which event an evsel gets: of alternatives the first that opens on this machine.

use std::rc::Rc;

use mlua::{Table, Value};

use super::evsel::{Declarer, Refused};
use super::host::Host;
use super::option::value::lua_name;
use super::option::{Kind, OptionSpec};
use crate::base::nearest::{did_you_mean, nearest};
use crate::event::catalog::{Event, Meant, expand_where};
use crate::event::rate::settle;
use crate::event::sampling::Sampling;
use crate::event::selector::Selector;
use crate::source::trial::Tried;
use crate::sys::refusal::Refusal;

/// Opens an event for a moment, where there is a machine to open it on; else nothing is tried.
pub type Trial = Option<Rc<dyn Fn(&Rc<Event>, &Sampling) -> Result<Tried, Refusal>>>;

impl Declarer {
    /// The events of a selector as they open; of alternatives the first that does. Others than those asked for first
    /// are told, with the reason.
    pub(super) fn events_of(
        &self,
        chosen: &Selector,
        sampling: &Sampling,
    ) -> anyhow::Result<Meant> {
        let (mut passed, mut remarks): (Vec<(String, Refusal)>, Vec<String>) = Default::default();
        let meant = expand_where(&*self.catalog, chosen, &mut |event| {
            let Some(trial) = &self.trial else { return Some(event.clone()) };
            // A rate that cannot be had is refused when the event is declared.
            let settled = settle(event, sampling, self.rate.get());
            match trial(event, settled.as_ref().unwrap_or(sampling)) {
                Ok(tried) => {
                    remarks.extend(tried.remark);
                    Some(tried.event)
                }
                Err(refusal) => {
                    passed.push((event.name.clone(), refusal));
                    None
                }
            }
        })?;
        // One alone, and the last of all, is opened whatever the trial said, and its refusal shown.
        let refused = |event: &Rc<Event>| passed.iter().any(|(name, _)| *name == event.name);
        if let (Some((_, why)), Some(taken)) = (passed.first(), meant.events.first())
            && !refused(taken)
        {
            let names: Vec<&str> = passed.iter().map(|(name, _)| name.as_str()).collect();
            let why = why.why.split(';').next().unwrap_or_default();
            let fallback = format!("{}: {why}; {} is taken", names.join(", "), taken.name);
            self.evsels.borrow_mut().fallbacks.push(fallback.clone());
            remarks.insert(0, fallback);
        }
        let mut all = self.evsels.borrow_mut();
        remarks.retain(|remark| !all.remarks.contains(remark));
        all.remarks.extend(remarks);
        Ok(meant)
    }
}

impl Host {
    /// Checks the selectors that were typed and that the script has not opened, such as an untraced
    /// event that only another option would open.
    ///
    /// # Errors
    /// An event or a CPU that is not there.
    pub(super) fn check_unused(&self, options: &Table, specs: &[OptionSpec]) -> anyhow::Result<()> {
        let state = self.state.borrow();
        let Some(declarer) = &state.declarer else { return Ok(()) };
        // A default was not typed.
        for spec in specs.iter().filter(|spec| spec.default.is_none()) {
            let mut typed = Vec::new();
            match (&spec.kind, options.raw_get::<Value>(lua_name(&spec.long))?) {
                (Kind::Event { .. }, one @ Value::Table(_)) => typed.push(one),
                (Kind::Events { .. }, Value::Table(groups)) => {
                    for group in groups.sequence_values::<Table>() {
                        typed.extend(group?.sequence_values::<Value>().flatten());
                    }
                }
                _ => {}
            }
            for selector in typed {
                let checked = declarer.check_unused(self.lua(), &selector);
                checked.map_err(|why| anyhow::anyhow!("{}: {why}", spec.typed()))?;
            }
        }
        Ok(())
    }

    /// A line for each event that is another than the one asked for first, with the reason.
    pub fn fallbacks(&self) -> Vec<String> {
        self.state.borrow().evsels.borrow().fallbacks.clone()
    }

    /// What a user should hear of events that are others than those asked for first.
    pub fn remarks(&self) -> Vec<String> {
        self.state.borrow().evsels.borrow().remarks.clone()
    }
}

/// Whether the field of the event can hold a thread id.
pub(super) fn names_thread(event: &Event, field: &str) -> Result<(), Refused> {
    let Some(format) = event.format() else {
        return Err(format!("{}: only a tracepoint has a field that names a thread", event.name));
    };
    match format.field(field) {
        Some(found) if matches!(found.size, 4 | 8) => Ok(()),
        Some(_) => Err(format!(
            "{}: '{field}' is no thread id, which has 4 bytes, or 8 in a recording",
            event.name
        )),
        None => {
            let near = nearest(field, format.fields.iter().map(|f| f.name.as_str()));
            Err(format!("{} has no field '{field}'{}", event.name, did_you_mean(&near)))
        }
    }
}
