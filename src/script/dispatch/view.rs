//! Views: the Lua source of an event's getters, generated from its format, and the leaves that
//! getters call.
//!
//! A getter is one line of Lua: a load at a constant offset. A record enters a batch only if it
//! holds the format's fixed part, so fixed fields need no bounds check; `__data_loc` and
//! `__rel_loc` go through leaves that check every offset that the kernel supplies.

use std::cell::RefCell;
use std::ffi::CStr;
use std::fmt::Write;
use std::rc::Rc;

use mlua::{Lua, Table};

use crate::base::event::slot::Slot;
use crate::base::matching::glob;
use crate::base::text::lua::field_name;
use crate::decode::format::{Element, Field, FieldKind, Format};
use crate::script::context::leaf;
use crate::script::context::shared::SharedContext;
use crate::script::context::state::ScriptState;
use crate::script::evsel::fields;
use crate::script::vm::trusted::{TrustedLua, address};

const VIEW: &str = include_str!("../prelude/view.lua");

/// Loads the views. `hooks` gets the functions by which aggregates read events.
///
/// # Errors
/// The prelude failed.
pub(in crate::script) fn views(
    lua: &Lua,
    state: &Rc<RefCell<ScriptState>>,
    shared: &SharedContext,
    hooks: Table,
) -> mlua::Result<TrustedLua> {
    let native = leaves(lua)?;
    native.set("context", address(shared.address()))?;
    native.set("hooks", hooks)?;
    let state = state.clone();
    let nearest = lua.create_function(move |_, (role, name): (usize, String)| {
        let state = state.borrow();
        let evsels = state.evsels.borrow();
        Ok(fields::suggestion(evsels.roles.get(role), &name))
    })?;
    native.set("nearest", nearest)?;
    TrustedLua::new(lua, VIEW, &native)
}

/// Returns the addresses of the leaves that views call.
fn leaves(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, leaf) in [
        ("text_len", text_len as *const ()),
        ("loc_at", loc_at as *const ()),
        ("loc_len", loc_len as *const ()),
        ("loc_text", loc_text as *const ()),
        ("comm", leaf::comm as *const ()),
        ("own_comm", leaf::own_comm as *const ()),
        ("stack", leaf::stack_of as *const ()),
        ("function_of", leaf::function_of as *const ()),
        ("text", leaf::text_of as *const ()),
        ("text_size", leaf::text_size as *const ()),
        ("met", leaf::met as *const ()),
        ("show", leaf::show as *const ()),
    ] {
        table.set(name, address(leaf))?;
    }
    Ok(table)
}

/// Returns Lua source that returns `{ field = function(s) … end, … }` for every field of the
/// format, and a second such table that copies arrays: a kept event's array is read while the
/// cursor is on another record.
pub(super) fn getters(format: &Format) -> String {
    let mut source = String::from(
        "local S, role = ... \
         local cast, fstr, exact, cursor, type, error = \
         S.cast, S.fstr, S.exact, S.cursor, S.type, S.error \
         local live, setmetatable, rawget = S.live, S.setmetatable, S.rawget \
         local text_len, text16 = S.text_len, S.text16 \
         local dynamic_text, fetched_text = S.dynamic_text, S.fetched_text \
         local loc_at, loc_len = S.loc_at, S.loc_len \
         local I8, U8, I16, U16, I32, U32, I64, F64 = \
         S.I8, S.U8, S.I16, S.U16, S.I32, S.U32, S.I64, S.F64 \
         local g, copies = {}, {}\n",
    );
    for field in &format.fields {
        // A pointer whose text is in the record reads as that text.
        getter(&mut source, &field.name, format.text_of(&field.name).unwrap_or(field));
    }
    source.push_str("return g, copies\n");
    source
}

fn getter(out: &mut String, name: &str, field: &Field) {
    let name = field_name(name);
    let (at, size) = (field.offset, field.size);
    let body = match field.kind {
        FieldKind::Int | FieldKind::Pointer => match load(size as u8, field.signed) {
            Some(load) => format!("return ({})", load.replace('@', &format!("s.raw + {at}"))),
            None => format!("return (fstr(s.raw + {at}, {size}))"),
        },
        FieldKind::Float => format!("return cast(F64, s.raw + {at})[0]"),
        FieldKind::Chars if size == 16 => format!("return (text16(s.raw + {at}))"),
        FieldKind::Chars => format!("local p = s.raw + {at} return (fstr(p, text_len(p, {size})))"),
        FieldKind::Bytes => format!("return (fstr(s.raw + {at}, {size}))"),
        FieldKind::Array(element) => {
            let count = size / usize::from(element.max(1));
            array(out, &name, element, field.signed, &format!("s.raw + {at}"), &count.to_string());
            return;
        }
        FieldKind::DataLoc(element) | FieldKind::RelLoc(element) => {
            let relative = matches!(field.kind, FieldKind::RelLoc(_));
            let base = if relative { at + size } else { 0 };
            let pointer = format!("loc_at(s, {at}, {size}, {base})");
            let bytes = format!("loc_len(s, {at}, {size}, {base})");
            match element {
                Element::Char => format!("return (dynamic_text(s, {at}, {size}, {base}))"),
                Element::Fetched => format!("return (fetched_text(s, {at}, {size}, {base}))"),
                Element::Byte => format!("return (fstr({pointer}, {bytes}))"),
                Element::Int(element) => {
                    let count = format!("({bytes} / {element})");
                    array(out, &name, element, field.signed, &pointer, &count);
                    return;
                }
            }
        }
    };
    let _ = writeln!(out, "g[{name:?}] = function(s) {body} end");
}

/// Appends the getters of an array, which is a proxy that checks the record it belongs to, and the
/// index. Like a view it holds the number of its event, and is allocated only if a handler keeps
/// it.
fn array(out: &mut String, name: &str, element: u8, signed: bool, pointer: &str, count: &str) {
    let Some(load) = load(element, signed) else { return };
    let load = load.replace('@', &format!("({pointer}) + i * {element}"));
    let _ = writeln!(
        out,
        "do local function none() return \
           error(\"'{name}' has no element at this index; the first index is 0\", 3) end \
         local function len(s) return {count} end \
         local function read(s, i) return {load} end \
         local mt = {{ __metatable = false }} \
         mt.__newindex = function() return error(\"a field cannot be written\", 2) end \
         mt.__len = function(self) local s = cursor.s \
           return s.ev == role and rawget(self, \"#\") == live.n and len(s) or 0 end \
         mt.__index = function(self, i) local s = cursor.s \
           if type(i) ~= \"number\" or s.ev ~= role or rawget(self, \"#\") ~= live.n \
             or i < 0 or i >= len(s) or i % 1 ~= 0 then none() end \
           return read(s, i) end \
         g[{name:?}] = function() return setmetatable({{ [\"#\"] = live.n }}, mt) end \
         copies[{name:?}] = function(s) \
           local list, n = {{}}, len(s) \
           for i = 0, n - 1 do list[i] = read(s, i) end \
           return setmetatable({{}}, {{ __metatable = false, __newindex = mt.__newindex, \
             __len = function() return n end, \
             __index = function(_, i) local v = list[i] if v == nil then none() end \
               return v end }}) end \
         end"
    );
}

/// Returns the Lua expression that loads an integer from the address `@`.
fn load(size: u8, signed: bool) -> Option<&'static str> {
    Some(match (size, signed) {
        (1, true) => "cast(I8, @)[0]",
        (1, false) => "cast(U8, @)[0]",
        (2, true) => "cast(I16, @)[0]",
        (2, false) => "cast(U16, @)[0]",
        (4, true) => "cast(I32, @)[0]",
        (4, false) => "cast(U32, @)[0]",
        (8, _) => "exact(cast(I64, @)[0])",
        _ => return None,
    })
}

/// Returns the number of bytes before the first NUL, at most `limit`. FFI leaf.
///
/// # Safety
/// `text` must have `limit` readable bytes: getters pass a place inside a record that was checked
/// against its format, or the results of `loc_at` and `loc_len`.
pub(super) unsafe extern "C" fn text_len(text: *const u8, limit: u32) -> u32 {
    if text.is_null() {
        return 0;
    }
    // SAFETY: `limit` bytes from `text` on are readable, as this function requires.
    let bytes = unsafe { std::slice::from_raw_parts(text, limit as usize) };
    // Searches by words; `position` searches byte by byte.
    CStr::from_bytes_until_nul(bytes).map_or(bytes.len(), CStr::count_bytes) as u32
}

/// Returns whether text matches a glob as the kernel does: 1 or 0. FFI leaf.
///
/// # Safety
/// `pattern` and `text` must have that many readable bytes: a constant of Lua, and what
/// [`text_len`] measured or a string of Lua.
pub(in crate::script) unsafe extern "C" fn glob(
    pattern: *const u8,
    pattern_len: u32,
    text: *const u8,
    text_len: u32,
) -> u32 {
    if pattern.is_null() || text.is_null() {
        return 0;
    }
    // SAFETY: `pattern` is a constant of Lua with `pattern_len` bytes.
    let pattern = unsafe { std::slice::from_raw_parts(pattern, pattern_len as usize) };
    // SAFETY: `text` has `text_len` readable bytes, in a record or a string of Lua.
    let text = unsafe { std::slice::from_raw_parts(text, text_len as usize) };
    glob::matches(pattern, text).into()
}

/// Returns where a dynamic field's bytes begin; the record's start if they do not lie inside it.
/// FFI leaf.
///
/// # Safety
/// `slot` must be a slot of the running batch: `raw` has `raw_size` bytes.
pub(super) unsafe extern "C" fn loc_at(
    slot: *const Slot,
    at: u32,
    size: u32,
    base: u32,
) -> *const u8 {
    // SAFETY: `slot` is valid, and `location` returns an offset within its record.
    unsafe {
        let (offset, _) = location(&*slot, at, size, base);
        (*slot).raw.add(offset as usize)
    }
}

/// Returns how many bytes of a dynamic field lie inside the record; 0 if it lies outside. FFI leaf.
///
/// # Safety
/// As [`loc_at`].
pub(super) unsafe extern "C" fn loc_len(slot: *const Slot, at: u32, size: u32, base: u32) -> u32 {
    // SAFETY: `slot` is valid, as this function requires.
    unsafe { location(&*slot, at, size, base).1 }
}

/// Returns where the text of a dynamic field is, up to its first NUL: its offset in the record in
/// the upper 16 bits, its length in the lower ones; the length is 0 if it lies outside. FFI leaf.
///
/// # Safety
/// As [`loc_at`].
pub(super) unsafe extern "C" fn loc_text(slot: *const Slot, at: u32, size: u32, base: u32) -> u32 {
    // SAFETY: `slot` is valid, as this function requires; `location` returns bytes of its record,
    // whose size is a u16.
    unsafe {
        let (offset, length) = location(&*slot, at, size, base);
        offset << 16 | text_len((*slot).raw.add(offset as usize), length)
    }
}

/// Returns offset and length of a `__data_loc` (base 0) or `__rel_loc` (base: the end of the field)
/// at `at`, cut to the record.
///
/// # Safety
/// `slot.raw` has `slot.raw_size` bytes.
unsafe fn location(slot: &Slot, at: u32, size: u32, base: u32) -> (u32, u32) {
    let raw_size = u32::from(slot.raw_size);
    if size != 4 || at.saturating_add(4) > raw_size {
        return (0, 0);
    }
    // SAFETY: `at + 4` lies inside the record, which was just checked.
    let word = unsafe { slot.raw.add(at as usize).cast::<u32>().read_unaligned() };
    let offset = base.saturating_add(word & 0xffff);
    if offset > raw_size {
        return (0, 0);
    }
    (offset, (word >> 16).min(raw_size - offset))
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use mlua::Function;

    use super::*;
    use crate::script::vm::{Limits, Vm};

    #[test]
    fn the_slot_in_lua_has_the_layout_of_the_slot_in_rust() {
        let vm = Vm::new(Limits { memory: 0 }).unwrap();
        let lua = vm.lua();
        let ffi: Table = lua.globals().get::<Function>("require").unwrap().call("ffi").unwrap();
        let hooks = lua.create_table().unwrap();
        views(lua, &Rc::default(), &SharedContext::idle(), hooks).unwrap();
        let ask = |what: &str| ffi.get::<Function>(what).unwrap();
        let size: usize = ask("sizeof").call("perilune_slot").unwrap();
        assert_eq!(size, size_of::<Slot>());
        for (field, offset) in [
            ("time", offset_of!(Slot, time)),
            ("raw", offset_of!(Slot, raw)),
            ("chain", offset_of!(Slot, chain)),
            ("ip", offset_of!(Slot, ip)),
            ("addr", offset_of!(Slot, addr)),
            ("period", offset_of!(Slot, period)),
            ("pid", offset_of!(Slot, pid)),
            ("tid", offset_of!(Slot, tid)),
            ("cpu", offset_of!(Slot, cpu)),
            ("ev", offset_of!(Slot, ev)),
            ("raw_size", offset_of!(Slot, raw_size)),
            ("chain_len", offset_of!(Slot, chain_len)),
        ] {
            let declared: usize = ask("offsetof").call(("perilune_slot", field)).unwrap();
            assert_eq!(declared, offset, "{field}");
        }
    }
}
