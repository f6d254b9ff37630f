--- The function `emit`, which prints events and rows now.
local ffi, view, native, exports = ...

local kept_slot, emit_with, hides, emit_row =
  native.slot_of_kept, native.emit_with, native.hides, native.emit_row
local cast, type, error, select, tostring, tonumber, next =
  ffi.cast, type, error, select, tostring, tonumber, next
local traceback, getinfo = debug.traceback, debug.getinfo
local leaf = cast("void (*)(void *, const perilune_slot *)", native.leaf)
local slot_pointer = ffi.typeof "const perilune_slot *"
local cursor, is_live, role_of, ctx = view.cursor, view.is_live, view.role_of, view.ctx

--- Returns the slot of an argument of emit: that of the current event, or a copy of a kept event,
-- valid until the next call; nil for anything else.
local function slot_of(it)
  if is_live(it) then return cursor.s end
  if role_of(it) then
    error("the record `e` is valid during its handler only; keep it with pending{keep=true}", 3)
  end
  local kept = kept_slot(it)
  return kept and view.show(cast(slot_pointer, kept))
end

--- Converts values so that drawing them calls no script code: a slot must stay valid until it is
-- printed.
local function plain(fields)
  local all = {}
  for name, value in next, fields do
    local kind = type(value)
    if kind ~= "number" and kind ~= "string" and kind ~= "boolean" then value = tostring(value) end
    all[name] = value
  end
  return all
end
exports.plain = plain

exports.slot_of = slot_of

--- Returns whether a value is the record of an event, or a kept one.
function exports.is_event(it) return role_of(it) ~= nil or kept_slot(it) ~= nil end

local function address(slot) return tonumber(cast("intptr_t", slot)) end

-- Functions that emit calls instead of printing, by the role whose handler runs; nil without any.
local emitters

--- Calls `emit` instead of printing, in the handlers of `role`.
function exports.emit_by(role, emit)
  emitters = emitters or {}
  emitters[role] = emit
end

-- Printers by role; nil without any, so that printing is a single leaf call, which LuaJIT compiles.
local printing, printer_failed

--- Prints the events of `role` with `print`, which gets a view of them.
function exports.print_by(role, print, failed)
  printing, printer_failed = printing or {}, failed
  printing[role] = print
end

--- Removes the printer of `role`. After the last one is gone, printing is a leaf call again.
local function unprint(role)
  printing[role] = nil
  if next(printing) == nil then printing = nil end
end
exports.unprint = unprint

local function explain(why)
  if type(why) ~= "string" then why = tostring(why) end
  return traceback(why, 1)
end

-- Returns the text of the event's printer; nil if there is none, or if it declines or fails. The
-- printer gets a view of its own, also of the current event.
local function printed(slot)
  local role = slot.ev
  local print = printing[role]
  if not print then return nil end
  local ok, text = view.visit(slot, print, explain)
  if ok then
    if text == nil or type(text) == "string" then return text end
    if type(text) == "number" then return tostring(text) end
    local at = getinfo(print, "S")
    text = ("%s:%d: a printer returns text, not a %s"):format(
      at.source:gsub("^[@=]", ""), at.linedefined, type(text))
  end
  if printer_failed(role, text) then unprint(role) end
end

local function print_event(slot, extra, number, offset)
  local text
  if printing then text = printed(slot) end
  if text or extra or number then
    emit_with(address(slot), extra, text, number, offset)
  else
    leaf(ctx, slot)
  end
end

--- Prints an event as part of the detail with this number.
function exports.print_in_detail(slot, number, offset) print_event(slot, nil, number, offset) end

local function not_while_printing()
  if view.printing then error("a printer returns its text; emit is for handlers", 3) end
end

local function emit_all(...)
  local n, extra = select("#", ...), nil
  local last = select(n, ...)
  if n > 1 and type(last) == "table" and not slot_of(last) then n, extra = n - 1, plain(last) end
  -- Prints either all or none of the events: the rest of a pair would look like something else.
  for i = 1, n do
    local slot = slot_of(select(i, ...))
    if slot and hides(address(slot)) then return end
  end
  for i = 1, n do
    local it = select(i, ...)
    local slot = slot_of(it)
    if slot then
      -- Prints the extra fields with the first event only: they belong to all of them.
      print_event(slot, extra)
      extra = nil
    elseif it ~= nil then
      error(("emit takes events and one table of further fields, not a %s"):format(type(it)), 3)
    end
  end
end

--- Prints events now, as the monitor trace does; `emit { name = value }` prints a row.
function exports.emit(a, b, ...)
  not_while_printing()
  if emitters then
    local emit = emitters[cursor.s.ev]
    if emit then
      emit(a, b, ...)
      return
    end
  end
  if b == nil then
    local slot = slot_of(a)
    if slot then
      if printing then print_event(slot) else leaf(ctx, slot) end
      return
    end
    if type(a) == "table" then emit_row(plain(a), cursor.s.time) return end
    error(("emit takes an event or a table, not a %s"):format(type(a)), 2)
  end
  emit_all(a, b, ...)
end
