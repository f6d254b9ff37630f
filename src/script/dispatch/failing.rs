//! Handler errors: each is printed and counted; after too many the handler is switched off.

use std::ops::Range;

use mlua::Function;

use super::Dispatch;
use crate::base::event::slot::Slot;
use crate::base::report::draw::Level;
use crate::script::context::record::raw_of;
use crate::script::vm::call::explained_error;
use crate::script::vm::script_error::describe_text;
use crate::source::batch::Addresses;

impl Dispatch {
    /// Returns whether a role's handler was switched off.
    pub(in crate::script) fn is_off(&self, role: usize) -> bool {
        self.errors.borrow().off.contains(&role)
    }

    /// Returns the number of errors of these roles so far.
    pub(in crate::script) fn errors_of(&self, roles: Range<usize>) -> u64 {
        self.errors.borrow().by_role.iter().take(roles.end).skip(roles.start).sum()
    }

    /// Returns whether a handler of these roles was switched off.
    pub(in crate::script) fn any_off(&self, roles: Range<usize>) -> bool {
        self.errors.borrow().off.range(roles).next().is_some()
    }

    /// Returns whether there were handlers and all of them were switched off for errors.
    pub(in crate::script) fn spent(&self) -> bool {
        !self.handlers.is_empty() && self.errors.borrow().off.len() >= self.handlers.len()
    }

    /// Returns the number of errors so far.
    pub(in crate::script) fn errors(&self) -> u64 {
        self.errors.borrow().all
    }

    /// Counts a failure outside a handler.
    pub(in crate::script) fn count_error(&self) {
        self.errors.borrow_mut().all += 1;
    }

    /// Returns the function that drivers call with a failing event. It prints and counts the error,
    /// and returns whether to switch the handler off.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub(super) fn failing(&self, addresses: Addresses) -> mlua::Result<Function> {
        let (errors, shared) = (self.errors.clone(), self.shared.clone());
        let places = self.places.clone();
        let lua = self.trusted.lua();
        lua.create_function(move |_, (role, slot, why): (usize, usize, mlua::LuaString)| {
            let mut errors = errors.borrow_mut();
            errors.all += 1;
            let count = errors.count_of(role);
            // SAFETY: the driver passes the index of the slot under its cursor, which lies in the
            // batch that it was given.
            let slot: &Slot = unsafe { &*addresses.slots.add(slot) };
            // SAFETY: the batch is being dispatched: the pointers of its slots are valid.
            let raw = unsafe { raw_of(slot) };
            shared.with(|context| {
                let off = count >= errors.most;
                // The text of an error may contain a task's name, which need not be UTF-8.
                let fault = describe_text(&why.to_string_lossy());
                let fault = explained_error(fault, places.borrow().get(&role).map(String::as_str));
                // Prints the traceback only once: it is the same each time.
                let text = if count == 1 { fault.to_string() } else { fault.message };
                context.note(Level::Error, &text);
                context.note_event(slot, raw);
                if off {
                    let name = context.roles.get(role).map_or("", |e| e.name.as_str()).to_owned();
                    let times = if count > 1 { format!(" {count} times") } else { String::new() };
                    context.note(
                        Level::Error,
                        &format!("{name}: its handler failed{times} and is switched off"),
                    );
                    errors.off.insert(role);
                }
                Ok(off)
            })
        })
    }
}
