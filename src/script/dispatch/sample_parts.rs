//! Finds the parts of samples that handlers read.

use mlua::Function;

use super::Dispatch;
use crate::source::request::SampleParts;

const SAMPLE_PARTS_LUA: &str = include_str!("../prelude/sample_parts.lua");

impl Dispatch {
    /// Returns the parts of a sample that the handler of a role reads; all if that is not known.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub(in crate::script) fn parts_read(&self, role: usize) -> mlua::Result<SampleParts> {
        let Some(handler) = self.handlers.iter().find(|handler| handler.role == role) else {
            return Ok(SampleParts::ALL);
        };
        let known: Option<Function> = self.trusted.exports.get("parts_read")?;
        let parts_read = match known {
            Some(known) => known,
            None => {
                self.load_fields()?;
                self.trusted.run::<()>("sample_parts", SAMPLE_PARTS_LUA, mlua::Nil)?;
                self.trusted.export("parts_read")?
            }
        };
        let (time, process, parameters) = parts_read.call(&handler.function)?;
        Ok(SampleParts { time, process, parameters, ..SampleParts::ALL })
    }
}
