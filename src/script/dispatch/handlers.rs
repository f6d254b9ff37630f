//! Access to the handlers of evsels for runs and sessions: checks the fields that they read, finds
//! the current handler of an evsel, and drops handlers of closed events.

use mlua::{Function, Table, Value};

use super::{Dispatch, Handler};

const FIELDS: &str = include_str!("../prelude/fields.lua");

impl Dispatch {
    /// Checks all handlers for fields that they read and their events do not have; see
    /// `prelude/fields.lua`.
    ///
    /// Handlers that have only roles below `known` are skipped; with `typed_only` (for a bundled
    /// monitor) also those from a file, so that only typed code is checked.
    ///
    /// # Errors
    /// The first such field, with its line and the nearest name.
    pub(in crate::script) fn check_fields(
        &self,
        known: usize,
        typed_only: bool,
    ) -> anyhow::Result<()> {
        for entry in self.trusted.exports.get::<Table>("evsels")?.sequence_values::<Table>() {
            let entry = entry?;
            let roles: Vec<usize> = entry.get("roles")?;
            let new = |h: &&Handler| h.role >= known && roles.contains(&h.role);
            let Some(handler) = self.handlers.iter().find(new) else { continue };
            let in_file = || handler.place.as_ref().is_some_and(|place| place.contains(".lua:"));
            if !(typed_only && in_file()) {
                self.check(&entry, &handler.function)?;
            }
        }
        Ok(())
    }

    /// Checks one handler of an evsel.
    fn check(&self, entry: &Table, handler: &Function) -> anyhow::Result<()> {
        self.load_fields()?;
        let Some(missing) = self.fields.get() else { return Ok(()) };
        let name: String = entry.get::<Table>("ev")?.raw_get("name")?;
        let roles: Vec<usize> = entry.get("roles")?;
        let why = missing.call::<Option<String>>((handler, name, roles))?;
        why.map_or(Ok(()), |why| Err(anyhow::Error::msg(why)))
    }

    /// Loads the check of fields, which also decodes bytecode.
    pub(super) fn load_fields(&self) -> mlua::Result<()> {
        if self.fields.get().is_none() {
            // Cannot fail: the cell is empty, and only this thread sets it.
            let _ = self.fields.set(self.trusted.run("fields", FIELDS, mlua::Nil)?);
        }
        Ok(())
    }

    /// Returns the current handler of the evsel with this index; checks its fields if `check` is
    /// set.
    ///
    /// # Errors
    /// The handler reads a field that its events do not have.
    pub(in crate::script) fn handler_of(
        &self,
        index: usize,
        check: bool,
    ) -> anyhow::Result<Option<Function>> {
        for entry in self.trusted.exports.get::<Table>("evsels")?.sequence_values::<Table>() {
            let entry = entry?;
            if entry.get::<usize>("index")? == index {
                let handler: Option<Function> = entry.get("handler")?;
                if let Some(handler) = handler.as_ref().filter(|_| check) {
                    self.check(&entry, handler)?;
                }
                return Ok(handler);
            }
        }
        Ok(None)
    }

    /// Drops the handlers of roles whose events were closed or never opened, and marks their evsels
    /// as gone.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub(in crate::script) fn forget(&mut self, roles: &[u32]) -> mlua::Result<()> {
        let is_one = |role: usize| roles.iter().any(|one| *one as usize == role);
        let attached = &self.handlers[..self.attached.min(self.handlers.len())];
        self.attached -= attached.iter().filter(|handler| is_one(handler.role)).count();
        self.handlers.retain(|handler| !is_one(handler.role));
        if let Some(driver) = &self.driver {
            let clear: Function = driver.get("clear")?;
            roles.iter().try_for_each(|role| clear.call::<()>(*role))?;
        }
        for entry in self.trusted.exports.get::<Table>("evsels")?.sequence_values::<Table>() {
            let entry = entry?;
            if entry.get::<Vec<usize>>("roles")?.into_iter().any(is_one) {
                entry.raw_set("handler", Value::Nil)?;
                entry.raw_set("gone", true)?;
            }
        }
        Ok(())
    }
}
