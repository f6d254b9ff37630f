//! What a failing handler leads to: it is shown, counted, and switched off after so many times.

use std::collections::BTreeSet;

use mlua::Function;

use super::super::call::explained_error;
use super::super::fault::describe_text;
use super::super::host::ERRORS_PER_HANDLER;
use super::super::leaf::raw_of;
use super::Dispatch;
use crate::base::draw::Level;
use crate::base::slot::Slot;
use crate::source::batch::Addresses;

/// Errors of handlers, in all and by role, and the roles whose handlers they switched off.
pub(super) struct Errors {
    pub(super) all: u64,
    /// So many of one handler switch it off.
    pub(super) most: u64,
    pub(super) by_role: Vec<u64>,
    pub(super) off: BTreeSet<usize>,
}

impl Default for Errors {
    fn default() -> Self {
        let (by_role, off) = Default::default();
        Errors { all: 0, most: ERRORS_PER_HANDLER, by_role, off }
    }
}

impl Dispatch {
    /// The function that drivers call with a failing event: shows it, counts it, and says whether to switch off.
    pub(super) fn failing(&self, addresses: Addresses) -> mlua::Result<Function> {
        let (errors, shared) = (self.errors.clone(), self.shared.clone());
        let places = self.places.clone();
        self.lua.create_function(move |_, (role, slot, why): (usize, usize, mlua::LuaString)| {
            let mut errors = errors.borrow_mut();
            errors.all += 1;
            if errors.by_role.len() <= role {
                errors.by_role.resize(role + 1, 0);
            }
            errors.by_role[role] += 1;
            let count = errors.by_role[role];
            // SAFETY: the driver passes the index of the slot that it stands on, of the batch that it was given.
            let slot: &Slot = unsafe { &*addresses.slots.add(slot) };
            // SAFETY: the batch is being dispatched: its slots' pointers are good.
            let raw = unsafe { raw_of(slot) };
            shared.with(|context| {
                let off = count >= errors.most;
                // An error's text may hold bytes of a task's name, which is any bytes.
                let fault = describe_text(&why.to_string_lossy());
                let fault = explained_error(fault, places.borrow().get(&role).map(String::as_str));
                // The way there is the same each time; once is enough.
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
