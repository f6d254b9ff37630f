//! Printers of the events of a run: puts them before the runtime's own format, and switches off
//! those that fail.

use std::cell::RefCell;
use std::collections::BTreeMap;

use mlua::{Function, Lua, Table};

use super::errors::ERRORS_PER_HANDLER;
use crate::base::report::draw::Level;
use crate::script::context::printers::Printers;
use crate::script::context::shared::SharedContext;
use crate::script::evsel::role::Role;
use crate::script::vm::callback::FailureCount;
use crate::script::vm::guard::Failure;
use crate::script::vm::script_error::describe_text;

/// Installs the printers for the events of the `new` roles; `failed` is [`failing`].
///
/// # Errors
/// The runtime's own Lua failed.
pub(super) fn install(
    exports: &Table,
    printers: &Printers,
    roles: &[Role],
    new: impl Iterator<Item = usize>,
    failed: &Function,
) -> mlua::Result<()> {
    let print_by: Function = exports.get("print_by")?;
    for role in new {
        let printer = roles.get(role).and_then(|r| printers.of(&r.event.name));
        if let Some(printer) = printer {
            print_by.call::<()>((role, printer, failed))?;
        }
    }
    Ok(())
}

/// Creates the function that is called when a printer fails: it reports the error, and returns
/// whether to switch the printer off.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn failing(
    lua: &Lua,
    shared: &SharedContext,
    count_error: impl Fn() + 'static,
) -> mlua::Result<Function> {
    let (shared, failures) = (shared.clone(), RefCell::new(BTreeMap::<usize, FailureCount>::new()));
    lua.create_function(move |_, (role, why): (usize, mlua::LuaString)| {
        count_error();
        let why = Failure::Script(describe_text(&why.to_string_lossy()));
        let mut failures = failures.borrow_mut();
        let (text, out) = failures.entry(role).or_default().count(&why, ERRORS_PER_HANDLER);
        shared.with(|context| {
            context.note(Level::Error, &text);
            if let Some(times) = &out {
                let name = context.roles.get(role).map_or("", |e| e.name.as_str()).to_owned();
                let text = format!("{name}: its printer {times} and is switched off");
                context.note(Level::Error, &text);
            }
        });
        Ok(out.is_some())
    })
}
