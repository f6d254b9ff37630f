--- The constructor for state between two events: `pending`. Trusted code, as aggregate.lua.
--
-- `open` is generated for its values. `close` and `get` write their result to a C struct of the
-- instance and return one of two objects that read it, so nothing is allocated per event. The
-- result of close is valid until the next close, that of get and each until the next get.
local native, env, trusted, leaves = ...

local ffi = require "ffi"
local cast = ffi.cast
local error, ipairs, load, setmetatable, tostring, type =
  error, ipairs, load, setmetatable, tostring, type
local band = require("bit").band
local concat = table.concat
local format, fill = string.format, native.fill
local ids, names, intern, object_of, leaf_type =
  trusted.ids, trusted.names, trusted.intern, trusted.object_of, trusted.leaf_type

-- The layout of stat::pending::PendingState.
ffi.cdef [[
  typedef struct {
    double time, delay, key;
    double v1, v2, v3, v4, v5, v6, v7, v8;
    uint32_t kinds, index, generation, unsure;
    const void *event;
  } perilune_state;
]]
local State = ffi.typeof "const perilune_state *"
local close_leaf = cast("uint32_t (*)(void *, double, double, uint32_t)", leaves.close)
local close_call_leaf = cast(
  "uint32_t (*)(void *, double, double, double, uint32_t)", leaves.close_call)
local get_leaf = cast("uint32_t (*)(void *, double, uint32_t)", leaves.get)
local next_leaf = cast("uint32_t (*)(void *, uint32_t)", leaves.next)
local set_leaf = cast(
  "uint32_t (*)(void *, uint32_t, uint32_t, uint32_t, double, uint32_t)", leaves.set)
local recall_leaf = cast("void (*)(void *)", leaves.recall)
local miss_leaf = cast("void (*)(void *, double, uint32_t)", leaves.miss)
local len_leaf = cast("uint32_t (*)(void *)", leaves.len)

-- Set by the host: slot_of(e) for a live event; kept(pointer, name) reads a field of a copy.
local hooks = {}
-- For each object of a kept event: the function that returns its slot.
local kept = setmetatable({}, { __mode = "k" })

--- Returns the slot of `s.event`; nil for anything else.
function trusted.slot_of(object)
  local find = kept[object]
  return find and find()
end
trusted.hooks = hooks
trusted.state_size = ffi.sizeof "perilune_state"

local ONCE = 2 ^ 30                                        -- stat::pending::ONCE

--- Returns the object of a kept event. `recall`, if given, prepares the copy for reading.
local function kept_event(state, recall)
  local function find()
    if state.event == nil then return nil end
    if recall then recall() end
    return state.event
  end
  local event = setmetatable({}, {
    __index = function(_, name)
      local slot = find()
      if slot == nil then error("this event is gone: its state was closed or reopened", 2) end
      if not hooks.kept then error("a kept event can only be passed to emit", 2) end
      return hooks.kept(slot, name)
    end,
    __newindex = function() error("an event cannot be written", 2) end,
    __metatable = false,
  })
  kept[event] = find
  return event
end

-- Reads a state struct by name. In a trace the name is a constant, so nothing remains of the
-- comparisons.
local READ = [[
local state, names, band, event, unknown = ...
return function(_, name)
  $fields
  if name == "time" then return state.time end
  if name == "delay" then return state.delay end
  if name == "unsure" then return state.unsure ~= 0 end
  if event and name == "event" then return event end
  unknown(name)
end]]
local READ_FIELD = [[
  if name == $field then
    local v, kinds = state.v$index, band(state.kinds, $mask)
    if kinds == 0 then return v end
    if kinds == $string then return names[v] end
    return v ~= 0
  end]]

-- Writes a field of an open state. As in READ, the name is a constant in a trace.
local WRITE = [[
local leaf, pointer, state, ids, intern, type, wrong, gone = ...
return function(_, name, value)
  local index, string, boolean
  $fields
  if not index then wrong(name) end
  local kinds = 0
  if type(value) ~= "number" then
    if type(value) == "string" then value, kinds = ids[value] or intern(value), string
    elseif type(value) == "boolean" then value, kinds = value and 1 or 0, boolean
    else wrong(name, type(value)) end
  end
  if leaf(pointer, state.index, state.generation, index, value, kinds) == 0 then gone() end
end]]

--- Generates the function that writes the fields of the state that was read last.
local function generate_set(plan, pointer, state)
  local parts = {}
  for i, field in ipairs(plan.fields) do
    parts[i] = format("if name == %q then index, string, boolean = %d, %d, %d end",
      field, i - 1, 2 ^ i, 2 ^ (8 + i))
  end
  local function wrong(name, kind)
    if kind then
      error(format("'%s' is a %s; it must be a number, a string or a boolean", name, kind), 3)
    end
    error(format("a state has no '%s' to write%s",
      tostring(name), native.suggestion(tostring(name), plan.fields)), 3)
  end
  local function gone() error("this state was closed or replaced; get() it again", 3) end
  return load(fill(WRITE, { fields = concat(parts, "\n") }), "=perilune:state")(
    set_leaf, pointer, state, ids, intern, type, wrong, gone)
end

--- Returns an object that reads a state struct by name, and writes it through `set` if given.
-- `key`, if given, is the name by which its key is read, unless a field has that name.
local function reader(what, state, fields, keep, set, recall, key)
  local parts, known = {}, { "time", "delay", "unsure", "event", key }
  for i, field in ipairs(fields) do
    parts[i] = fill(READ_FIELD, {
      field = format("%q", field), index = i, mask = 0x101 * 2 ^ i, string = 2 ^ i,
    })
    known[#known + 1] = field
  end
  if key then
    parts[#parts + 1] = fill("if name == $key then return state.key end", {
      key = format("%q", key),
    })
  end
  local function unknown(name)
    if name == "event" then
      error("this pending keeps no events; declare it with keep = true", 3)
    end
    error(format("%s has no '%s'%s",
      what, tostring(name), native.suggestion(tostring(name), known)), 3)
  end
  local event = keep and kept_event(state, recall) or nil
  return setmetatable({}, {
    __index = load(fill(READ, { fields = concat(parts, "\n") }), "=perilune:state")(
      state, names, band, event, unknown),
    __newindex = set or function()
      error(what .. " is closed; only what get() returns can be written", 2)
    end,
    __metatable = false,
  })
end

local function bad_key(what, key)
  if key == nil then error(what .. " has no key", 3) end
  error(format("%s: the key is a %s; it must be a number or a string", what, type(key)), 3)
end
local function bad_event(what) error(what .. " has no event: pass the e of the handler", 3) end
local function surplus(what) error(what .. " has an argument too many", 3) end

local CHECK_KEY = [[
  if type(key) ~= "number" then
    if type(key) == "string" then key = ids[key] or intern(key) kinds = 1
    else bad_key(what, key) end
  end]]

--- Generates `open(key, e, value…)`. `flags` is added to the kinds of the values.
local function generate_open(object, plan, usage, flags)
  local parameters, checks, passed =
    {}, {}, { "pointer", plan.keep ~= 0 and "slot_of(e)" or "nil", "key", "e._time" }
  for i in ipairs(plan.fields) do
    local v = "v" .. i
    parameters[i], passed[#passed + 1] = v, v
    checks[i] = fill([[
      if type($v) ~= "number" then
        if type($v) == "string" then $v = ids[$v] or intern($v) kinds = kinds + $string
        elseif type($v) == "boolean" then $v = $v and 1 or 0 kinds = kinds + $boolean
        else bad_value($index, $v) end
      end]], { v = v, index = i, string = 2 ^ i, boolean = 2 ^ (8 + i) })
  end
  parameters[#parameters + 1] = "extra"
  passed[#passed + 1] = "kinds"
  local source = fill([[
    local object, what, leaf, pointer, ids, intern, type, slot_of,
      bad_key, bad_value, bad_event, surplus, not_self = ...
    return function(self, key, e, $parameters)
      if self ~= object then not_self() end
      local kinds = 0
      $check_key
      if e == nil then bad_event(what) end
      $checks
      if extra ~= nil then surplus(what) end
      kinds = kinds + $flags
      return leaf($passed) ~= 0
    end]], { parameters = concat(parameters, ", "), check_key = CHECK_KEY,
    checks = concat(checks, "\n"), flags = flags, passed = concat(passed, ", ") })
  local function bad_value(i, value)
    if value == nil then error(format("%s has no value for '%s'", usage, plan.fields[i]), 3) end
    error(format("%s: '%s' is a %s; it must be a number, a string or a boolean",
      usage, plan.fields[i], type(value)), 3)
  end
  local function not_self() error(usage .. " is called with a colon: object:" .. usage, 3) end
  return load(source, "=perilune:open")(
    object, usage, cast(leaf_type(2 + #plan.fields, true), plan.leaf), cast("void *", plan.pointer),
    ids, intern, type, hooks.slot_of, bad_key, bad_value, bad_event, surplus, not_self)
end

trusted.state_reader, trusted.State, trusted.CHECK_KEY = reader, State, CHECK_KEY

--- close(key, e) of a table of nested calls takes the call that ends: close(key, e, call).
local CLOSE_CALL = [[
    local object, what, leaf, pointer, result, ids, intern, type,
      bad_key, bad_event, surplus, not_self, bad_call = ...
    return function(self, key, e, call, extra)
      if self ~= object then not_self(what) end
      local kinds = 0
      $check_key
      if e == nil then bad_event(what) end
      if type(call) ~= "number" then bad_call(what) end
      if extra ~= nil then surplus(what) end
      if leaf(pointer, key, e._time, call, kinds) ~= 0 then return result end
    end]]
local function bad_call(what)
  error(what .. " has no call: pass the number that the first field had in open", 3)
end

--- pending { field…, key="tid"|"cpu"|"pointer"|"any", keep=bool, lost="drop"|"keep", nested=bool }
function env.pending(spec)
  local plan, why = native.declare("pending", spec)
  if not plan then error(why, 2) end
  local keep, object, pointer = plan.keep ~= 0, {}, cast("void *", plan.pointer)
  local closed_address, read_address = native.state(plan.id)
  local closed, read = cast(State, closed_address), cast(State, read_address)
  local set = generate_set(plan, pointer, read)
  local function recall() recall_leaf(pointer) end
  local result, live =
    reader("what close() returned", closed, plan.fields, keep, nil, recall),
    reader("a state", read, plan.fields, keep, set)

  local nested = plan.nested ~= 0
  local parts = { check_key = CHECK_KEY }
  local close = load(fill(nested and CLOSE_CALL or [[
    local object, what, leaf, pointer, result, ids, intern, type,
      bad_key, bad_event, surplus, not_self = ...
    return function(self, key, e, extra)
      if self ~= object then not_self(what) end
      local kinds = 0
      $check_key
      if e == nil then bad_event(what) end
      if extra ~= nil then surplus(what) end
      if leaf(pointer, key, e._time, kinds) ~= 0 then return result end
    end]], parts), "=perilune:close")
  local get = load(fill([[
    local object, what, leaf, pointer, live, ids, intern, type, bad_key, surplus, not_self = ...
    return function(self, key, extra)
      if self ~= object then not_self(what) end
      local kinds = 0
      $check_key
      if extra ~= nil then surplus(what) end
      if leaf(pointer, key, kinds) ~= 0 then return live end
    end]], parts), "=perilune:get")
  local miss = load(fill([[
    local object, what, leaf, pointer, ids, intern, type, bad_key, surplus, not_self = ...
    return function(self, key, extra)
      if self ~= object then not_self(what) end
      local kinds = 0
      $check_key
      if extra ~= nil then surplus(what) end
      leaf(pointer, key, kinds)
    end]], parts), "=perilune:miss")
  local function not_self(what) error(what .. " is called with a colon: object:" .. what, 3) end

  local usage = "(key, e" .. (#plan.fields > 0 and ", " or "") .. concat(plan.fields, ", ") .. ")"
  return object_of("pending", plan.id, object, {
    open = generate_open(object, plan, "open" .. usage, 0),
    open_once = generate_open(object, plan, "open_once" .. usage, ONCE),
    close = close(object, nested and "close(key, e, call)" or "close(key, e)",
      nested and close_call_leaf or close_leaf, pointer, result,
      ids, intern, type, bad_key, bad_event, surplus, not_self, bad_call),
    get = get(
      object, "get(key)", get_leaf, pointer, live, ids, intern, type, bad_key, surplus, not_self),
    miss = miss(
      object, "miss(key)", miss_leaf, pointer, ids, intern, type, bad_key, surplus, not_self),
    each = function()
      local index = 0
      return function()
        index = next_leaf(pointer, index)
        if index == 0 then return nil end
        return band(read.kinds, 1) ~= 0 and names[read.key] or read.key, live
      end
    end,
    len = function() return (len_leaf(pointer)) end,
  })
end
trusted.pending = env.pending
