//! Which event an evsel gets: of alternatives the first that opens on this machine.

use std::rc::Rc;

use super::evsel::{Declarer, Refused};
use super::host::Host;
use crate::base::nearest::{did_you_mean, nearest};
use crate::event::catalog::{Event, expand_where};
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
    ) -> anyhow::Result<Vec<Rc<Event>>> {
        let (mut passed, mut remarks): (Vec<(String, Refusal)>, Vec<String>) = Default::default();
        let events = expand_where(&*self.catalog, chosen, &mut |event| {
            let Some(trial) = &self.trial else { return Some(event.clone()) };
            match trial(event, sampling) {
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
        if let (Some((_, why)), Some(taken)) = (passed.first(), events.first())
            && !refused(taken)
        {
            let names: Vec<&str> = passed.iter().map(|(name, _)| name.as_str()).collect();
            let why = why.why.split(';').next().unwrap_or_default();
            remarks.insert(0, format!("{}: {why}; {} is taken", names.join(", "), taken.name));
        }
        let mut all = self.evsels.borrow_mut();
        remarks.retain(|remark| !all.remarks.contains(remark));
        all.remarks.extend(remarks);
        Ok(events)
    }
}

impl Host {
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
