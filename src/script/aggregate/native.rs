//! Functions that the prelude calls in Rust on cold paths: declaring, rows for `each()`, addresses.

use super::{Aggregates, Body, declare, draw::PERCENTILES, spec};
use crate::stat::{
    kv::Kv,
    latency::Timing,
    leaf,
    pending::{Pending, PendingState},
    word::Word,
};
use mlua::{IntoLua, LightUserData, Lua, Table, Value};
use std::rc::Rc;

impl Aggregates {
    /// Returns the table of functions and addresses that the prelude uses on cold paths.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub(super) fn native(&self, lua: &Lua) -> mlua::Result<Table> {
        let native = lua.create_table()?;
        native.set("handles", &self.0.handles)?;
        native.set("strings", LightUserData(leaf::pointer(&self.0.strings)))?;
        native.set("intern", LightUserData(leaf::intern()))?;
        native.set("cpus", self.0.shared.cpus)?;
        let suggestion =
            |_: &Lua, (name, known): (String, Vec<String>)| Ok(spec::suggestion(&name, &known));
        native.set("suggestion", lua.create_function(suggestion)?)?;
        let of_kv = |_: &Lua, doubles| Ok(leaf::take::<Kv>(doubles).map(LightUserData));
        native.set("kv_leaf", lua.create_function(of_kv)?)?;
        // The Lua state owns the functions below, and the aggregates own values of that state: a
        // strong reference here would be a cycle.
        let weak = Rc::new(self.downgrade());
        let upgrade =
            move || weak.upgrade().ok_or_else(|| mlua::Error::runtime("the run has ended"));
        let this = upgrade.clone();
        let declare = move |lua: &Lua, (kind, spec): (String, Value)| match declare::declare(
            &this()?,
            lua,
            &kind,
            &spec,
        )? {
            Ok(plan) => Ok((Some(plan), None)),
            Err(why) => Ok((None, Some(why))),
        };
        native.set("declare", lua.create_function(declare)?)?;
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
        native.set("state", lua.create_function(move |_, id: usize| this()?.state(id))?)?;
        native.set("pending", addresses(lua, leaf::of_pending())?)?;
        native.set("states", addresses(lua, leaf::of_states())?)?;
        Ok(native)
    }

    /// Returns whether `value` is an object that a constructor returned and a report can draw.
    pub(in crate::script) fn is_drawn(&self, value: &Value) -> bool {
        let Some(declared) = self.number(value).and_then(|id| self.one(id)) else { return false };
        !matches!(declared.body, Body::Pending(_) | Body::Rate(_) | Body::HeatMap(_))
    }

    /// Returns the rows for `each()`: the values of the columns (false for an absent column), then
    /// the results.
    fn rows(&self, lua: &Lua, id: usize) -> mlua::Result<Table> {
        let rows = lua.create_table()?;
        let Some(declared) = self.one(id) else { return Ok(rows) };
        let frame = self.frame(lua, &declared);
        let row = |key: &[Word], rest: Vec<Value>| {
            let row = lua.create_table()?;
            let mut key = key.iter().copied();
            for column in &declared.columns {
                match (column, key.len()) {
                    (Some(_), 1..) => {
                        row.raw_push(key.next().map(|word| frame.value(word)).transpose()?)?;
                    }
                    _ => row.raw_push(false)?,
                }
            }
            rest.into_iter().try_for_each(|value| row.raw_push(value))?;
            rows.raw_push(row)
        };
        match &declared.body {
            Body::Latency(of, _) | Body::States(_, of, _) => {
                let latency = of.live.borrow();
                for (key, timing) in frame.latencies(&latency) {
                    row(key, vec![timing_table(lua, timing)?])?;
                }
            }
            Body::Kv(of, look) => {
                let kv = of.live.borrow();
                for counted in frame.counts(&kv) {
                    let sums = counted.sums.iter().map(|sum| Value::Number(sum.value()));
                    let count = look.sums.is_empty().then_some(Value::Number(counted.count as f64));
                    row(counted.key, count.into_iter().chain(sums).collect())?;
                }
            }
            Body::Hist(of, _) => {
                let hist = of.live.borrow();
                for (key, buckets) in frame.hists(&hist) {
                    let list = buckets.into_iter().map(|bucket| {
                        let bounds = [bucket.low as f64, bucket.high as f64, bucket.count as f64];
                        lua.create_sequence_from(bounds)
                    });
                    let list = lua.create_sequence_from(list.collect::<mlua::Result<Vec<_>>>()?)?;
                    row(key, vec![list.into_lua(lua)?])?;
                }
            }
            Body::Pending(_) | Body::Rate(_) | Body::HeatMap(_) => {}
        }
        Ok(rows)
    }

    /// Returns the addresses of the structs into which `close` and `get` write their results.
    fn state(&self, id: usize) -> mlua::Result<(LightUserData, LightUserData)> {
        let declared = self.one(id);
        let address = |state: &PendingState| LightUserData((&raw const *state).cast_mut().cast());
        let of = |pending: &Pending| (address(pending.closed()), address(pending.read()));
        match declared.as_ref().map(|declared| &declared.body) {
            Some(Body::Pending(pending)) => Ok(of(&pending.borrow())),
            Some(Body::States(states, ..)) => {
                let ended = address(states.borrow().ended());
                Ok((ended, ended))
            }
            _ => Err(mlua::Error::runtime("this aggregate has no state")),
        }
    }
}

fn timing_table(lua: &Lua, timing: &Timing) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set("calls", timing.count() as f64)?;
    table.raw_set("total", timing.total().value())?;
    table.raw_set("min", timing.min())?;
    table.raw_set("avg", timing.avg())?;
    table.raw_set("max", timing.max())?;
    for percent in PERCENTILES {
        table.raw_set(format!("p{percent}"), timing.percentile(percent))?;
    }
    table.into_lua(lua)
}

fn addresses<const N: usize>(
    lua: &Lua,
    all: [(&'static str, *mut std::ffi::c_void); N],
) -> mlua::Result<Table> {
    let leaves = lua.create_table()?;
    for (name, address) in all {
        leaves.set(name, LightUserData(address))?;
    }
    Ok(leaves)
}
