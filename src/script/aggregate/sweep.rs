//! Frees strings and stacks that no table and no open state refers to any more.

use super::Aggregates;
use crate::stat::Aggregate as _;
use mlua::{Table, Value};

impl Aggregates {
    /// Returns whether so many stacks are held that they must be swept before the next report.
    pub fn stacks_want_sweep(&self) -> bool {
        self.0.shared.stacks.borrow().wants_sweep()
    }

    /// Frees strings and stacks that no key and no open state refers to, once the strings are half
    /// full or [`Aggregates::stacks_want_sweep`]. Must be called between batches.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub fn sweep(&self) -> mlua::Result<()> {
        let of_stacks = self.stacks_want_sweep();
        if !of_stacks && !self.0.strings.borrow().is_half_full() {
            return Ok(());
        }
        let mut marks = self.0.strings.borrow().marks();
        if of_stacks {
            marks = marks.with_numbers();
        }
        for declared in self.0.declared.borrow().values() {
            declared.body.mark(&mut marks);
        }
        if let Some(kv) = &*self.0.emitted.borrow() {
            kv.borrow().mark(&mut marks);
        }
        if let Some(mut numbers) = marks.take_numbers() {
            // Any number may be the id of a stack: at worst an unused stack is kept.
            self.0.shared.stacks.borrow_mut().sweep(&mut numbers);
        }
        let freed = self.0.strings.borrow_mut().sweep(&marks);
        let (ids, names): (Table, Table) =
            (self.0.trusted.get("ids")?, self.0.trusted.get("names")?);
        for id in freed {
            let text: Value = names.raw_get(id)?;
            if !text.is_nil() {
                ids.raw_set(text, Value::Nil)?;
            }
            names.raw_set(id, Value::Nil)?;
        }
        Ok(())
    }
}
