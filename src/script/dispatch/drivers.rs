//! Loads the drivers, the loops in Lua that pass slots to handlers, and gives handlers to them.

use mlua::{Function, Table};

use super::predicate::predicate;
use super::{Dispatch, Handler};
use crate::script::context::leaf;
use crate::script::evsel::role::Role;
use crate::script::vm::trusted::{address, template_function};
use crate::source::batch::Addresses;

const DRIVER: &str = include_str!("../prelude/driver.lua");

impl Dispatch {
    /// Loads the drivers over a batch's arrays.
    pub(super) fn load_driver(&self, addresses: Addresses) -> mlua::Result<Table> {
        let native = self.trusted.lua().create_table()?;
        native.set("slots", address(addresses.slots))?;
        native.set("order", address(addresses.order))?;
        native.set("kinds", address(addresses.kinds))?;
        native.set("starts", address(addresses.starts))?;
        if self.shared.has_timeline() {
            native.set("tap", address(leaf::tap as *const ()))?;
        }
        native.set("weights", address(addresses.weights))?;
        let weight = self.shared.with(|context| context.weight.clone());
        native.set("weight", weight.varies().then(|| address(weight.address())))?;
        native.set("failed", self.failing(addresses)?)?;
        native.set("fill", template_function(self.trusted.lua())?)?;
        self.trusted.run("driver", DRIVER, native)
    }

    /// Gives a handler to the driver of its role, behind its predicate.
    pub(super) fn put(&self, handler: &Handler, roles: &[Role]) -> anyhow::Result<()> {
        let Some(driver) = &self.driver else { return Ok(()) };
        let Handler { role, function, .. } = handler;
        let met = match roles.get(*role) {
            Some(role) => predicate(&self.trusted.exports, &self.shared, role)?,
            None => None,
        };
        self.trusted.export("choose_by")?.call::<()>((*role, met.clone()))?;
        let set: Function = driver.get("set")?;
        let hidden = self.shared.with(|context| context.hidden_of(*role));
        let hidden = self.chooses.then(|| hidden.map_or(-2, |pid| pid as i32));
        Ok(set.call::<()>((*role, function, met, hidden))?)
    }
}
