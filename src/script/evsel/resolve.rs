//! Resolves a selector to events: of several alternatives, the first that opens on this machine.

use std::rc::Rc;

use crate::event::catalog::{Catalog, SelectedEvents, expand_where};
use crate::event::kind::Event;
use crate::event::rate::{SamplingRate, resolve_rate};
use crate::event::sampling::Sampling;
use crate::event::selector::Selector;
use crate::source::open::try_open::OpenableEvent;
use crate::sys::refusal::Refusal;

/// Opens an event on trial, if there is a machine to open it on.
pub type Trial = Option<Rc<dyn Fn(&Rc<Event>, &Sampling) -> Result<OpenableEvent, Refusal>>>;

/// Events of a selector, as they open.
pub(super) struct Resolved {
    /// The events.
    pub(super) selected: SelectedEvents,
    /// Names of events whose kernel part this user may not watch.
    pub(super) in_user_mode: Vec<String>,
    /// A remark, with the reason, if this is not the first choice.
    pub(super) fallback: Option<String>,
    /// Why the event does not open, if there is no other alternative.
    pub(super) refusal: Option<Refusal>,
}

/// Returns the events of a selector as they open; of several alternatives, the first that does.
/// `rate` is the sampling rate of events that do not set one.
///
/// # Errors
/// The selector does not resolve to an event.
pub(super) fn resolve(
    catalog: &dyn Catalog,
    trial: &Trial,
    rate: Option<SamplingRate>,
    chosen: &Selector,
    sampling: &Sampling,
) -> anyhow::Result<Resolved> {
    let mut passed: Vec<(String, Refusal)> = Vec::new();
    let mut in_user_mode = Vec::new();
    let selected = expand_where(catalog, chosen, &mut |event| {
        let Some(trial) = trial else { return Some(event.clone()) };
        // An unavailable rate is refused when the event is declared.
        let resolved = resolve_rate(event, sampling, rate);
        match trial(event, resolved.as_ref().unwrap_or(sampling)) {
            Ok(tried) => {
                if tried.in_user_mode {
                    in_user_mode.push(tried.event.name.clone());
                }
                Some(tried.event)
            }
            Err(refusal) => {
                passed.push((event.name.clone(), refusal));
                None
            }
        }
    })?;
    // A single event, and the last alternative, is opened despite a failed trial, and its error is
    // shown.
    let refused = |event: &Rc<Event>| passed.iter().any(|(name, _)| *name == event.name);
    let fallback = match (passed.first(), selected.events.first()) {
        (Some((_, why)), Some(opened)) if !refused(opened) => {
            let names: Vec<&str> = passed.iter().map(|(name, _)| name.as_str()).collect();
            let why = why.why.split(';').next().unwrap_or_default();
            Some(format!("{}: {why}; using {} instead", names.join(", "), opened.name))
        }
        _ => None,
    };
    let refusal = passed
        .iter()
        .find(|(name, _)| selected.events.iter().any(|event| event.name == *name))
        .map(|(_, refusal)| refusal.clone());
    Ok(Resolved { selected, in_user_mode, fallback, refusal })
}
