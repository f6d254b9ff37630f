--- Monitors whose events another one takes: `evsel "profile/-F 200/"`, `evsel.from("profile", …)`.
--
-- The monitor is loaded beside the other one, and its `init` declares its events. In their handlers
-- `emit` makes an event for the other monitor instead of printing.
local ffi, view, native, exports = ...

local begin, finish, abandon = native.begin, native.finish, native.abandon
local type, error, pcall, rawget, select, next, setmetatable, tostring =
  type, error, pcall, rawget, select, next, setmetatable, tostring
local cast = ffi.cast
local derive = cast(
  "void (*)(void *, uint32_t, const perilune_slot *, const perilune_slot *)", native.derive)
local set_number = cast("void (*)(void *, uint32_t, double)", native.set_number)
local set_text = cast("void (*)(void *, uint32_t, const char *, uint32_t)", native.set_text)
local cursor, ctx = view.cursor, view.ctx
local slot_of, is_event, evsels, evsel = exports.slot_of, exports.is_event, exports.evsels,
  exports.evsel

--- Returns the `emit` of a monitor. It makes an event with this number: the first event that it
-- gets, at the time of the event that is handled, with the values of the columns.
local function emitter(name, number, columns, offsets)
  local known = {}
  for _, column in next, columns do
    known[column.name] = { offset = offsets[column.name], is_number = column.is_number }
  end
  return function(...)
    local event, fields
    for i = 1, select("#", ...) do
      local it = select(i, ...)
      if it ~= nil and not (event and is_event(it)) then
        local slot = slot_of(it)
        if slot then event = slot
        elseif type(it) == "table" then fields = it
        else
          error(("emit takes events and one table of further fields, not a %s"):format(type(it)), 3)
        end
      end
    end
    derive(ctx, number, cursor.s, event or cursor.s)
    if not fields then return end
    for key, value in next, fields do
      local column = known[key]
      if not column then
        error(("%s emits '%s'; add it to `emits` of its monitor{}"):format(name, tostring(key)), 3)
      end
      if not column.is_number then
        local text = tostring(value)
        set_text(ctx, column.offset, text, #text)
      elseif type(value) == "number" then
        set_number(ctx, column.offset, value)
      else
        error(("%s emits %s '%s'; its `emits` declares a number"):format(name, type(value), key), 3)
      end
    end
  end
end

-- Calls of init, with the names in messages as if the script of the run had called it.
local function start(m, opt)
  m.init(opt)
  if rawget(m, "filter") then m.filter(opt) end
end

--- Declares the event that a monitor emits: `asked` has its `name`, and `options`, a text or a
-- table. Returns what the Rust side of `evsel` returns, or nil and why.
local function from_monitor(asked)
  local m, opt = begin(asked)
  if not m then return nil, opt end
  opt.is_source = true
  local first = #evsels + 1
  local within = exports.in_source
  exports.in_source = true                                 -- not a line that is typed at a prompt
  local ok, why = pcall(start, m, opt)
  exports.in_source = within
  local index, info, offsets
  if ok then index, info, offsets = finish(asked) else abandon() end
  if not index then
    for i = #evsels, first, -1 do evsels[i] = nil end
    why = ok and info or why
    if type(why) ~= "string" then error(why, 0) end
    return nil, ("%s: %s"):format(asked.name, why:gsub("^[^%s:]+:%d+: ", ""))
  end
  local sample = rawget(m, "sample")
  for i = first, #evsels do
    local e = evsels[i]
    e.handler, e.of_source = e.handler or sample, true
  end
  local emit = emitter(asked.name, info.number, asked.columns, offsets)
  for _, role in next, info.of do exports.emit_by(role, emit) end
  return index, info, asked.attrs or {}
end
exports.from_monitor = from_monitor

--- Declares the event that a monitor emits: `evsel.from(name [, options] [, handler])`.
local function from(name, options, handler)
  if type(options) == "function" and handler == nil then handler, options = options, nil end
  if type(name) ~= "string" then error("evsel.from takes the name of a monitor", 2) end
  if options ~= nil and type(options) ~= "table" then
    error("evsel.from takes a name, a table of the monitor's options and a handler", 2)
  end
  if handler ~= nil and type(handler) ~= "function" then
    error("the handler of an evsel is a function", 2)
  end
  local index, info, attrs = from_monitor({ name = name, options = options or {} })
  if index == nil then error(info, 2) end
  return exports.declared(index, info, attrs, handler)
end

--- Returns a function that can be called like `declare`, and has `from`.
local function with_from(declare, from)
  return setmetatable({}, {
    __call = function(_, ...) return declare(...) end,
    __index = { from = from }, __metatable = false,
    __newindex = function() error("evsel has evsel(…) and evsel.from(…) only", 2) end,
  })
end
exports.with_from, exports.from = with_from, from
exports.evsel = with_from(evsel, from)
