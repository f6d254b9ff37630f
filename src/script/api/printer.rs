//! Function `printer`: Lua code that formats an event in place of the runtime, for every monitor.
//!
//! `printer("sys:name", function(e) … return text end)` is called in `printers/*.lua` on the search
//! path, in a `--plugin FILE`, or in a monitor. If several exist for one event, the precedence is:
//! plugin, a monitor of the user, search path, bundled monitor; of several with the same origin,
//! the last. A file on the search path that does not load is skipped with a warning, because it
//! must not keep every monitor from running; a plugin was requested explicitly, so there it is an
//! error.
//!
//! A printer runs in the sandbox for each event that is printed, never for one that is only
//! counted. When it fails, the event is printed as if it had none; after ten failures
//! it is switched off.

use mlua::Function;

use super::registry::Registry;

/// Adds the function.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn register(api: &Registry<'_>) -> mlua::Result<()> {
    let state = api.state.clone();
    let printer = api.lua().create_function(move |_, (event, function): (String, Function)| {
        let named =
            !event.is_empty() && !event.contains(|c: char| c.is_whitespace() || "*?[,".contains(c));
        if !named {
            let why = format!(
                "'{event}' is not an event name: printer(\"sys:name\", function(e) … return text \
                 end)"
            );
            return Err(mlua::Error::runtime(why));
        }
        let mut state = state.borrow_mut();
        if state.evsels.borrow().sealed {
            let why =
                "printers are selected when the run begins; call printer at top level or in init";
            return Err(mlua::Error::runtime(why));
        }
        state.printers.add(event, function);
        Ok(())
    })?;
    api.globals.set("printer", printer)
}
