//! The Rust half of `prelude/sample_fields.lua`: the table of the fields, and why one was not
//! recorded.

use mlua::Function;

use super::registry::Registry;
use crate::event::sample_field::{SAMPLE_FIELDS, SampleFields, TAIL_BYTES, TAIL_MARK};
use crate::script::context::leaf;
use crate::script::evsel::role::NO_GROUP;
use crate::script::vm::trusted::address;
use crate::sys::registers;

const SAMPLE_FIELDS_LUA: &str = include_str!("../prelude/sample_fields.lua");

/// Loads the prelude, which exports `offer_fields`, `request_fields`, `fields_read`, and what
/// expressions need.
///
/// # Errors
/// The prelude failed to load.
pub(super) fn register(api: &Registry<'_>) -> mlua::Result<()> {
    let lua = api.lua();
    let native = lua.create_table()?;
    let rows = lua.create_table()?;
    for (row, field) in SAMPLE_FIELDS.iter().enumerate() {
        let entry = lua.create_table()?;
        entry.set("name", field.name)?;
        entry.set("kind", field.kind.name())?;
        rows.raw_set(row, entry)?;
    }
    native.set("rows", rows)?;
    // The kernel writes them by number.
    let mut names = registers::NAMES.to_vec();
    names.sort_by_key(|(_, number)| *number);
    native.set("registers", names.into_iter().map(|(name, _)| name).collect::<Vec<_>>())?;
    native.set("tail", TAIL_BYTES)?;
    let bytes = TAIL_MARK.to_ne_bytes();
    let half = |at: usize| bytes[at..].first_chunk().map_or(0, |half| u32::from_ne_bytes(*half));
    native.set("mark_low", half(0))?;
    native.set("mark_high", half(4))?;
    native.set("text", address(leaf::sampled_text as *const ()))?;
    native.set("missing", missing(api)?)?;
    api.trusted.run("sample_fields", SAMPLE_FIELDS_LUA, native)
}

fn missing(api: &Registry<'_>) -> mlua::Result<Function> {
    let state = api.state.clone();
    api.lua().create_function(move |_, (field, event): (String, String)| {
        let of_group = SampleFields::named(&field).unwrap_or_default();
        let is_of_group = of_group.without(SampleFields::of_groups()).is_empty();
        Ok(match state.borrow().records_samples() {
            true if is_of_group => format!("{event}: `{field}`: {NO_GROUP}"),
            true => format!(
                "{event}: `{field}` was not recorded, because no handler names it; add \
                 fields = \"{field}\" to the evsel"
            ),
            false => format!("{event}: the recording does not contain `{field}`"),
        })
    })
}
