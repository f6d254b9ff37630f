//! Resolves an evsel to an event: of several alternatives, the first that opens on this machine.

use std::rc::Rc;

use mlua::{Table, Value};

use super::evsel::{Declarer, Refused};
use super::host::Host;
use super::option::value::lua_name;
use super::option::{OptionKind, OptionSpec};
use crate::base::nearest::{did_you_mean, nearest};
use crate::event::catalog::{SelectedEvents, expand_where};
use crate::event::kind::Event;
use crate::event::rate::settle;
use crate::event::sampling::Sampling;
use crate::event::selector::Selector;
use crate::source::open::probe_open::ProbedEvent;
use crate::sys::refusal::Refusal;

/// Opens an event on trial, if there is a machine to open it on.
pub type Trial = Option<Rc<dyn Fn(&Rc<Event>, &Sampling) -> Result<ProbedEvent, Refusal>>>;

impl Declarer {
    /// Returns the events of a selector as they open; of several alternatives, the first that does.
    /// Adds a remark, with the reason, if this is not the first choice.
    ///
    /// # Errors
    /// The selector does not resolve to an event.
    pub(super) fn events_of(
        &self,
        chosen: &Selector,
        sampling: &Sampling,
    ) -> anyhow::Result<SelectedEvents> {
        let (mut passed, mut remarks): (Vec<(String, Refusal)>, Vec<String>) = Default::default();
        let meant = expand_where(&*self.catalog, chosen, &mut |event| {
            let Some(trial) = &self.trial else { return Some(event.clone()) };
            // An unavailable rate is refused when the event is declared.
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
        // A single event, and the last alternative, is opened despite a failed trial, and its error
        // is shown.
        let refused = |event: &Rc<Event>| passed.iter().any(|(name, _)| *name == event.name);
        if let (Some((_, why)), Some(chosen)) = (passed.first(), meant.events.first())
            && !refused(chosen)
        {
            let names: Vec<&str> = passed.iter().map(|(name, _)| name.as_str()).collect();
            let why = why.why.split(';').next().unwrap_or_default();
            let fallback = format!("{}: {why}; using {} instead", names.join(", "), chosen.name);
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
    /// An event or a CPU that does not exist.
    pub(super) fn check_unused(&self, options: &Table, specs: &[OptionSpec]) -> anyhow::Result<()> {
        let state = self.state.borrow();
        let Some(declarer) = &state.declarer else { return Ok(()) };
        for spec in specs {
            let mut typed = Vec::new();
            match (&spec.kind, options.raw_get::<Value>(lua_name(&spec.long))?) {
                (OptionKind::Event { .. }, one @ Value::Table(_)) => typed.push(one),
                (OptionKind::Events { .. }, Value::Table(groups)) => {
                    for group in groups.sequence_values::<Table>() {
                        typed.extend(group?.sequence_values::<Value>().flatten());
                    }
                }
                _ => {}
            }
            for selector in typed {
                let text = selector.as_table().and_then(|table| table.raw_get("text").ok());
                // A default was not typed.
                if spec.default.is_some() && text == spec.default {
                    continue;
                }
                let checked = declarer.check_unused(self.lua(), &selector);
                checked.map_err(|why| anyhow::anyhow!("{}: {why}", spec.typed()))?;
            }
        }
        Ok(())
    }

    /// Returns a line for each event that is a fallback for the first choice, with the reason.
    pub fn fallbacks(&self) -> Vec<String> {
        self.state.borrow().evsels.borrow().fallbacks.clone()
    }

    /// Returns the remarks for the user about events that differ from the first choice.
    pub fn remarks(&self) -> Vec<String> {
        self.state.borrow().evsels.borrow().remarks.clone()
    }
}

/// Checks that a field of the event can hold a thread id.
///
/// # Errors
/// The event is not a tracepoint, it has no such field, or the field has another size.
pub(super) fn names_thread(event: &Event, field: &str) -> Result<(), Refused> {
    let Some(format) = event.format() else {
        return Err(format!("{}: only a tracepoint has a field that names a thread", event.name));
    };
    match format.field(field) {
        Some(found) if matches!(found.size, 4 | 8) => Ok(()),
        Some(_) => Err(format!(
            "{}: '{field}' is not a thread ID, which has 4 bytes, or 8 in a recording",
            event.name
        )),
        None => {
            let near = nearest(field, format.fields.iter().map(|f| f.name.as_str()));
            Err(format!("{} has no field '{field}'{}", event.name, did_you_mean(&near)))
        }
    }
}
