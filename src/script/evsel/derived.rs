//! Declares the events that monitors emit, for a script that takes them: `evsel "profile/-F 200/"`.

use std::rc::Rc;

use mlua::Value;

use super::declare::{Declarer, EvselInfo, chosen};
use super::role::{DeclaredEvsel, Refused, Role};
use super::sources::OpenSource;
use crate::base::event::slot::ROLES_MAX;
use crate::event::kind::{self, Event};
use crate::event::rate::SamplingRate;
use crate::event::sampling::Sampling;
use crate::event::selector::Selector;

/// A monitor that a selector names.
pub struct NamedSource {
    /// Its name.
    pub name: String,
    /// Its options, as typed.
    pub options: String,
    /// Whether its events are to have stacks.
    pub stack: bool,
    /// The alias.
    pub title: Option<String>,
    /// Attributes as typed, in order.
    pub attrs: Vec<(String, Option<String>)>,
}

impl Declarer {
    /// Returns the monitor that a selector names; None if it names an event. An event takes
    /// precedence over a monitor of the same name that has no options.
    ///
    /// # Errors
    /// The selector does not parse, or has an attribute that such events do not have.
    pub fn source_of(&self, selector: &Value) -> Result<Option<NamedSource>, Refused> {
        let (chosen, _) = chosen(selector)?;
        if !self.is_source(&chosen) {
            return Ok(None);
        }
        let (name, rest) = chosen.name.split_once('/').unwrap_or((chosen.name.as_str(), "/"));
        if rest != "/" || chosen.options.is_none() && chosen.filter.is_some() {
            return Err(format!(
                "{}: {name} is a monitor, whose options come first: {name}/-OPTION/ATTRIBUTE/",
                chosen.text
            ));
        }
        if chosen.group.is_some() || !chosen.members.is_empty() {
            return Err(in_group(name));
        }
        for attr in ["freq", "period", "cpus", "max-stack"] {
            if chosen.attr(attr).is_some() {
                return Err(format!(
                    "{name}: '{attr}' is an attribute of events, not of monitors; use an option of \
                     the monitor: {name}/-OPTION/"
                ));
            }
        }
        Ok(Some(NamedSource {
            name: name.to_owned(),
            options: chosen.options.clone().unwrap_or_default(),
            stack: chosen.stack(),
            title: chosen.alias().map(str::to_owned),
            attrs: chosen.attrs.clone(),
        }))
    }

    /// Refuses a monitor as a member of a group, which the kernel counts.
    pub(super) fn check_member(&self, one: &Selector) -> Result<(), Refused> {
        if self.is_source(one) { Err(in_group(&one.name)) } else { Ok(()) }
    }

    /// Returns whether a selector names a monitor.
    fn is_source(&self, chosen: &Selector) -> bool {
        let name = chosen.name.split_once('/').map_or(chosen.name.as_str(), |(name, _)| name);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        chosen.options.is_some()
            || name.chars().all(is_plain)
                && kind::lookup(name).is_none()
                && matches!(self.library.look_up(name), Ok(Some(_)))
                && self.catalog.describe(&chosen.name).is_err()
    }

    /// Begins the declarations of a source.
    ///
    /// # Errors
    /// The run has begun, or the source cannot be nested in those whose `init` is running.
    pub fn begin_source(&self, name: &str, rate: Option<SamplingRate>) -> Result<(), Refused> {
        let mut all = self.evsels.borrow_mut();
        if all.sealed {
            return Err("events are opened when the run begins; call evsel in init".to_owned());
        }
        let (declared, roles) = (all.declared.len(), all.roles.len());
        all.sources.begin(name, declared, roles, self.rate.get())?;
        self.rate.set(rate.or(self.rate.get()));
        Ok(())
    }

    /// Ends the declarations of the innermost source. Returns the roles that it has declared.
    pub(in crate::script) fn end_source(&self) -> Option<(OpenSource, Vec<usize>)> {
        let mut all = self.evsels.borrow_mut();
        let source = all.sources.end()?;
        self.rate.set(source.rate);
        let roles = all.sources.roles_of(&source);
        Some((source, roles))
    }

    /// Removes what a source has declared.
    pub(in crate::script) fn forget_source(&self, source: &OpenSource) {
        let mut all = self.evsels.borrow_mut();
        all.declared.truncate(source.declared);
        all.roles.truncate(source.roles);
        all.sources.truncate(source.roles);
    }

    /// Declares the event that a source emits.
    ///
    /// # Errors
    /// There are too many events.
    pub(in crate::script) fn declare_derived(
        &self,
        source: &OpenSource,
        event: Rc<Event>,
        title: Option<String>,
        attrs: Vec<(String, Option<String>)>,
    ) -> Result<(usize, EvselInfo), Refused> {
        let mut all = self.evsels.borrow_mut();
        let first = all.roles.len();
        if first >= usize::from(ROLES_MAX) {
            return Err(format!("a run has at most {ROLES_MAX} events; select fewer"));
        }
        let name = event.name.clone();
        let (glob, filter, rest, task) = Default::default();
        let sampling = Sampling::default();
        all.roles.push(Role { event, glob, filter, rest, task, sampling });
        all.declared.push(DeclaredEvsel { first, count: 1 });
        all.sources.own(first + 1);
        all.sources.made_by(source);
        let (names, rate, unit) = (vec![name.clone()], None, None);
        let info = EvselInfo { name, title, names, first, count_only: false, rate, unit, attrs };
        Ok((all.declared.len() - 1, info))
    }
}

fn in_group(name: &str) -> Refused {
    format!(
        "{name}: the kernel counts the events of a group, and a monitor emits this one; write it \
         outside of the braces"
    )
}
