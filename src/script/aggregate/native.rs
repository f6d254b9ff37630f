//! Functions that the preludes call in Rust on cold paths: declaring, rows for `each()`, addresses.

use super::{
    Aggregates,
    kind::AGGREGATE_KINDS,
    spec::{self, Checked},
};
use crate::script::vm::trusted::template_function;
use crate::stat::{leaf, pending::PendingState, word::Word};
use mlua::{LightUserData, Lua, Table, Value};
use std::rc::Rc;

impl Aggregates {
    /// Loads the constructors of all kinds into `env`.
    ///
    /// # Errors
    /// A prelude failed to load.
    pub(super) fn load_preludes(&self, lua: &Lua, env: &Table) -> mlua::Result<()> {
        let (native, trusted) = (self.native(lua)?, &self.0.trusted);
        let common = lua.load(include_str!("../prelude/aggregate.lua"));
        common.set_name("=perilune:aggregate").call::<()>((&native, env, trusted))?;
        for kind in AGGREGATE_KINDS {
            if let Some(prelude) = &kind.prelude {
                let chunk = lua.load(prelude.source).set_name(format!("=perilune:{}", kind.name));
                chunk.call::<()>((&native, env, trusted, (prelude.leaves)(lua)?))?;
            }
        }
        Ok(())
    }

    /// Returns the table of functions and addresses that the preludes use on cold paths.
    fn native(&self, lua: &Lua) -> mlua::Result<Table> {
        let native = lua.create_table()?;
        native.set("fill", template_function(lua)?)?;
        native.set("handles", &self.0.handles)?;
        native.set("strings", LightUserData(leaf::pointer(&self.0.strings)))?;
        native.set("intern", LightUserData(leaf::intern()))?;
        native.set("cpus", self.0.shared.cpus)?;
        // The cell does not move, since the aggregates are shared.
        native.set("unmatched", LightUserData(self.0.unmatched.as_ptr().cast()))?;
        let simple = AGGREGATE_KINDS.iter().filter(|kind| kind.prelude.is_none());
        native.set("simple_kinds", lua.create_sequence_from(simple.map(|kind| kind.name))?)?;
        let suggestion =
            |_: &Lua, (name, known): (String, Vec<String>)| Ok(spec::suggestion(&name, &known));
        native.set("suggestion", lua.create_function(suggestion)?)?;
        // The Lua state owns the functions below, and the aggregates own values of that state: a
        // strong reference here would be a cycle.
        let weak = Rc::new(self.downgrade());
        let upgrade =
            move || weak.upgrade().ok_or_else(|| mlua::Error::runtime("the run has ended"));
        let this = upgrade.clone();
        let declare = move |lua: &Lua, (kind, spec): (String, Value)| {
            Ok(match this()?.declare_kind(lua, &kind, &spec)? {
                Ok(plan) => (Some(plan), None),
                Err(why) => (None, Some(why)),
            })
        };
        native.set("declare", lua.create_function(declare)?)?;
        let this = upgrade.clone();
        let text = move |lua: &Lua, id: u32| lua.create_string(this()?.0.strings.borrow().get(id));
        native.set("text", lua.create_function(text)?)?;
        let this = upgrade.clone();
        native.set("rows", lua.create_function(move |lua, id: usize| this()?.rows(lua, id))?)?;
        let this = upgrade.clone();
        let clear = move |_: &Lua, id: usize| {
            this()?.clear(id);
            Ok(())
        };
        native.set("clear", lua.create_function(clear)?)?;
        let this = upgrade.clone();
        let write = move |lua: &Lua, (id, name): (usize, String)| {
            let this = this()?;
            let Some(flame) = this.flame_of(lua, id)? else { return Ok(None) };
            let write = &mut *this.0.shared.write_flame.borrow_mut();
            Ok(write.as_mut().and_then(|write| write(&name, &flame).err()))
        };
        native.set("write_flame", lua.create_function(write)?)?;
        let this = upgrade.clone();
        let instance = move |_: &Lua, ()| {
            let shared = &this()?.0.shared;
            Ok(shared.perins.get().then(|| if shared.by_thread.get() { "tid" } else { "cpu" }))
        };
        native.set("instance", lua.create_function(instance)?)?;
        let this = upgrade.clone();
        native.set("state", lua.create_function(move |_, id: usize| this()?.results(id))?)?;
        Ok(native)
    }

    /// Creates the aggregate of constructor `kind` and returns its plan: see
    /// [`NewAggregate::plan`](super::declare::NewAggregate::plan). It also has the `id` of the
    /// aggregate, and whether it `is_drawn`.
    ///
    /// # Errors
    /// Lua is out of memory. A mistake in the script is the inner error.
    fn declare_kind(&self, lua: &Lua, kind: &str, spec: &Value) -> mlua::Result<Checked<Table>> {
        if let Some(why) = self.full(kind) {
            return Ok(Err(why));
        }
        let Some(known) = AGGREGATE_KINDS.iter().find(|known| known.name == kind) else {
            return Ok(Err(format!("unknown kind of aggregate '{kind}'")));
        };
        if self.0.shared.weight.varies() && !known.estimates {
            return Ok(Err(format!(
                "{kind} needs every event, and --budget omits some; omit --budget"
            )));
        }
        let new = match (known.declare)(spec, &self.0.shared) {
            Ok(new) => new,
            Err(why) => return Ok(Err(why)),
        };
        let (plan, mut declared) = new.plan(lua)?;
        let functions = self.0.stack_functions.borrow();
        for column in declared.columns.iter_mut().flatten() {
            let style =
                functions.iter().find(|(function, _)| Some(function) == column.draw.as_ref());
            column.stack = style.map(|(_, style)| style.clone()).or(column.stack.take());
        }
        debug_assert_eq!(declared.is_drawn(), known.is_drawn, "{kind}");
        plan.set("is_drawn", known.is_drawn)?;
        plan.set("id", self.declare(declared))?;
        Ok(Ok(plan))
    }

    /// Returns the rows for `each()`: the values of the columns (false for an absent column), then
    /// the results.
    fn rows(&self, lua: &Lua, id: usize) -> mlua::Result<Table> {
        let rows = lua.create_table()?;
        let Some(declared) = self.one(id) else { return Ok(rows) };
        let parts = self.parts(lua, &declared);
        let mut push = |key: &[Word], rest: Vec<Value>| {
            let row = lua.create_table()?;
            let mut key = key.iter().copied();
            for column in &declared.columns {
                match (column, key.len()) {
                    (Some(_), 1..) => {
                        row.raw_push(key.next().map(|word| parts.value(word)).transpose()?)?;
                    }
                    _ => row.raw_push(false)?,
                }
            }
            rest.into_iter().try_for_each(|value| row.raw_push(value))?;
            rows.raw_push(row)
        };
        declared.body.rows(&parts, &mut push)?;
        Ok(rows)
    }

    /// Returns the addresses of the structs into which the leaves of a state write their results.
    fn results(&self, id: usize) -> mlua::Result<(LightUserData, LightUserData)> {
        let declared = self.one(id);
        let state = declared.as_ref().and_then(|declared| declared.body.open_state());
        let [closed, read] =
            state.ok_or_else(|| mlua::Error::runtime("this aggregate has no state"))?.results();
        let address = |state: *const PendingState| LightUserData(state.cast_mut().cast());
        Ok((address(closed), address(read)))
    }
}
