--- Functions that print: `emit`, and `counters` and `report`, which make the script's own tables.
local ffi, view, emit_leaf, kept_slot, emit_with, hides, emit_row, new_report, count_of,
  counted_instances, ask_to_stop, exports = ...

local cast, type, error, select, pairs, ipairs, tostring =
  ffi.cast, type, error, select, pairs, ipairs, tostring
local tonumber, setmetatable, xpcall, next = tonumber, setmetatable, xpcall, next
local traceback, getinfo = debug.traceback, debug.getinfo
local leaf = cast("void (*)(void *, const perilune_slot *)", emit_leaf)
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

local function address(slot) return tonumber(cast("intptr_t", slot)) end

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

--- Ends the run: no further event is handled, including the rest of the current batch.
function exports.stop(why)
  ask_to_stop(why)
  cursor.stop = 1
end

--- Continues after a `stop`.
function exports.go_on() cursor.stop = 0 end

--- A table of the script's own: `report(title, { column… }, { {v…}… }, name)`.
function exports.report(title, columns, rows, name)
  if type(columns) ~= "table" or type(rows) ~= "table" then
    error("report takes a title, columns and rows", 2)
  end
  -- As in other tables, a column that is false hides its values, and a column may have a function
  -- that draws them.
  local shown, drawn = {}, {}
  for i, column in ipairs(columns) do
    if column then 
      local draw = type(column) == "table" and column[2] or nil
      if draw and type(draw) ~= "function" then
        error("a column of report is a title, or { title, function }", 2)
      end
      shown[#shown + 1] = { i, column, draw }
    end
  end
  for i, row in ipairs(rows) do
    if type(row) ~= "table" then
      error(("a row of report is a table of values, not a %s"):format(type(row)), 2)
    end
    local cells = {}
    for j, it in ipairs(shown) do
      local value = row[it[1]]
      if it[3] and value ~= nil then value = it[3](value) end
      cells[j] = value
    end
    drawn[i] = cells
  end
  for j, it in ipairs(shown) do shown[j] = it[2] end
  return new_report(title or false, shown, drawn, name)
end

local declared = {}
exports.counter_tables = declared

--- Returns the function `n` of one instance, or of all: `n(ev)` returns a count, and the share of
-- the time during which it was counted.
local function counts_on(instance)
  return function(ev)
    if ev == nil then return 0, 1 end
    local index = exports.index_of(ev) or error("n() takes an evsel that counts", 2)
    return count_of(index, instance)
  end
end

local Counters = {}

--- Iterates over the instances of the interval with their counts:
-- `for cpu, n in c:each() do … n(ev) … end`. With `each(false)` there is one iteration, for all
-- instances together.
function Counters.each(_, apart)
  local instances, i = apart == false and { "all" } or counted_instances(), 0
  return function()
    i = i + 1
    if instances[i] then return instances[i], counts_on(apart ~= false and instances[i] or nil) end
  end
end

--- Rows of counters, one per instance: `counters { ev… }` or
-- `counters { { "title", function(n) … end }… }`.
function exports.counters(columns)
  if type(columns) ~= "table" then
    error("counters takes a list of events or of { title, function }", 2)
  end
  local list = {}
  for _, c in ipairs(columns) do
    if exports.index_of(c) then
      list[#list + 1] = { c.title, function(n) return (n(c)) end, decimals = 0 }
    elseif type(c) == "table" and type(c[2]) == "function" then
      list[#list + 1] = { c[1], c[2], decimals = c.decimals or 2 }
    else
      error("a column of counters is an evsel or { title, function(n) … end }", 2)
    end
  end
  local table = setmetatable({}, { __metatable = false, __index = Counters })
  declared[#declared + 1] = { table = table, columns = list }
  return table
end

--- Returns the report of one counters{}; called by the host after reading the counts of the
-- interval. A NaN (an event that was not counted, or a ratio of zeros) is an empty cell.
function exports.draw_counters(entry, instances, per_thread)
  local titles, rows = { { per_thread and "thread" or "cpu", align = "left" } }, {}
  for _, c in ipairs(entry.columns) do
    titles[#titles + 1] = { c[1], width = 8, decimals = c.decimals }
  end
  for _, instance in ipairs(instances) do
    local row, n = { per_thread and instance or ("[%03d]"):format(instance) }, counts_on(instance)
    for i, c in ipairs(entry.columns) do
      local value = c[2](n)
      row[i + 1] = value == value and value or nil
    end
    rows[#rows + 1] = row
  end
  return new_report(false, titles, rows)
end
