//! Applies what lines have changed: new events, filters and handlers.

use super::Prompt;
use crate::script::evsel::role::Role;

/// Changes by lines since the last call.
#[derive(Debug, Default)]
pub struct Changes {
    /// Roles to be reopened.
    pub narrowed: Vec<u32>,
    /// A field that a new handler reads and its event does not have: the new events must not be
    /// opened.
    pub misread: Option<anyhow::Error>,
}

impl Prompt {
    /// Creates views and drivers for what lines have declared, narrowed and replaced since there
    /// were `known` roles.
    ///
    /// # Errors
    /// A handler is missing, or a filter is too long for Lua.
    pub fn prepare_changes(&mut self, known: usize) -> anyhow::Result<Changes> {
        self.free_tables(true)?;
        let roles = self.host.roles();
        self.host.context.with(|context| {
            let new = roles[known.min(roles.len())..].iter().map(|role| role.event.clone());
            context.roles.extend(new);
        });
        let state = self.host.state.borrow();
        self.host.dispatch.make_views(&roles, None, &state.printers, state.per_thread)?;
        let (narrowed, replaced) = {
            let mut evsels = state.evsels.borrow_mut();
            (std::mem::take(&mut evsels.narrowed), std::mem::take(&mut evsels.replaced))
        };
        let look = state.knows_all_fields();
        let mut misread =
            if look { self.host.dispatch.check_fields(known, false).err() } else { None };
        for index in replaced {
            let roles_of = state.evsels.borrow().indexes_of(index);
            match self.host.dispatch.handler_of(index, look) {
                Ok(handler) => roles_of
                    .into_iter()
                    .try_for_each(|role| self.host.dispatch.renew(role, handler.clone(), &roles))?,
                // The previous handler stays.
                Err(why) => misread = Some(why),
            }
        }
        let mut narrowed = narrowed;
        if state.records_samples() {
            // An event whose samples need more fields is opened anew.
            narrowed.extend(self.host.dispatch.request_fields(&mut state.evsels.borrow_mut())?);
        }
        let narrowed = narrowed.into_iter().filter(|role| (*role as usize) < known).collect();
        Ok(Changes { narrowed, misread })
    }

    /// Drops the handlers of roles that were closed.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub fn forget(&mut self, roles: &[u32]) -> mlua::Result<()> {
        self.host.dispatch.forget(roles)
    }

    /// Attaches a role's handler again, behind its current predicate, and switches it on if it had
    /// failed.
    ///
    /// # Errors
    /// The filter is too long for Lua.
    pub fn revive(&mut self, role: u32) -> anyhow::Result<()> {
        let roles = self.host.roles();
        self.host.dispatch.renew(role as usize, None, &roles)
    }

    /// Restores a role after narrowing it failed.
    pub fn put_back(&self, role: u32, before: Role) {
        let state = self.host.state.borrow();
        let mut evsels = state.evsels.borrow_mut();
        if let Some(role) = evsels.roles.get_mut(role as usize) {
            *role = before;
        }
    }

    /// Returns the roles of an evsel, by its index in Lua, and those that its events are made of.
    pub fn roles_of(&self, evsel: usize) -> Vec<u32> {
        self.host.state.borrow().evsels.borrow().opened_for(evsel)
    }

    /// Removes all timers.
    pub fn forget_timers(&mut self) {
        self.host.state.borrow_mut().timers.clear();
    }
}
