//! The handlers of evsels, as a session or a run needs to look at them: their code is looked through, another one is found, and what
//! was closed is let go.

use mlua::{Function, Table, Value};

use super::{Dispatch, Handler};

impl Dispatch {
    /// Looks for fields that handlers read and their events do not have, in all of the handlers' code: see `prelude/fields.lua`.
    /// Of a monitor that ships with us only what was typed is looked at; of a session what has come since `known` roles were known.
    ///
    /// # Errors
    /// The first, with its line and the nearest name.
    pub(in crate::script) fn check_fields(
        &self,
        known: usize,
        typed_only: bool,
    ) -> anyhow::Result<()> {
        for entry in self.exports.get::<Table>("evsels")?.sequence_values::<Table>() {
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

    /// The same for one handler of an evsel.
    fn check(&self, entry: &Table, handler: &Function) -> anyhow::Result<()> {
        if self.fields.get().is_none() {
            // Nobody else can have set it.
            let _ = self.fields.set((self.load_fields)()?);
        }
        let Some(missing) = self.fields.get() else { return Ok(()) };
        let name: String = entry.get::<Table>("ev")?.raw_get("name")?;
        let roles: Vec<usize> = entry.get("roles")?;
        let why = missing.call::<Option<String>>((handler, name, roles))?;
        why.map_or(Ok(()), |why| Err(anyhow::Error::msg(why)))
    }

    /// The handler that an evsel has now, by its index; looked through if its events are those of the kernel.
    ///
    /// # Errors
    /// It reads a field that they do not have.
    pub(in crate::script) fn handler_of(
        &self,
        index: usize,
        check: bool,
    ) -> anyhow::Result<Option<Function>> {
        for entry in self.exports.get::<Table>("evsels")?.sequence_values::<Table>() {
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

    /// Lets go of the handlers of roles whose events were closed or never opened, and of what they hold; their evsels are gone.
    pub(in crate::script) fn forget(&mut self, roles: &[u32]) -> mlua::Result<()> {
        let is_one = |role: usize| roles.iter().any(|one| *one as usize == role);
        let attached = &self.handlers[..self.attached.min(self.handlers.len())];
        self.attached -= attached.iter().filter(|handler| is_one(handler.role)).count();
        self.handlers.retain(|handler| !is_one(handler.role));
        if let Some(driver) = &self.driver {
            let clear: Function = driver.get("clear")?;
            roles.iter().try_for_each(|role| clear.call::<()>(*role))?;
        }
        for entry in self.exports.get::<Table>("evsels")?.sequence_values::<Table>() {
            let entry = entry?;
            if entry.get::<Vec<usize>>("roles")?.into_iter().any(is_one) {
                entry.raw_set("handler", Value::Nil)?;
                entry.raw_set("gone", true)?;
            }
        }
        Ok(())
    }
}
