--- The record `e`: one view per role (an event of an evsel), over one shared cursor.
--
-- A view is an empty table whose `__index` reads the slot under the cursor, if it is of the view's own role;
-- outside handlers the cursor stands on a slot of no role. That is what makes an `e` kept in an upvalue an
-- error and not a wrong number: another event's record has other offsets. Getters are generated from the
-- event's format, one small function a field, so LuaJIT compiles a field access to a load; it looks at the role once a handler.
local ffi, leaves, context, nearest, hooks = ...

ffi.cdef [[
  typedef struct {
    double time;
    const uint8_t *raw;
    const uint64_t *chain;
    uint64_t ip, addr, period;
    int32_t pid, tid;                                     // -1 of a task that is being taken apart
    uint16_t cpu, ev, raw_size, chain_len;
  } perilune_slot;
  typedef struct {
    const perilune_slot *s;
    uint32_t at, stop;
    double filtered, left;                                // events kept back by predicates; events until -N is reached
  } perilune_cursor;
]]

local cast, typeof, fstr, tonumber, type, error = ffi.cast, ffi.typeof, ffi.string, tonumber, type, error
local setmetatable = setmetatable
local int64 = typeof "int64_t"

local nowhere = ffi.new("perilune_slot", { time = -1, ev = 0xffff })
local cursor = ffi.new("perilune_cursor", { s = nowhere, left = math.huge })
local text_len = cast("uint32_t (*)(const uint8_t *, uint32_t)", leaves.text_len)
local loc_at = cast("const uint8_t *(*)(const perilune_slot *, uint32_t, uint32_t, uint32_t)", leaves.loc_at)
local loc_len = cast("uint32_t (*)(const perilune_slot *, uint32_t, uint32_t, uint32_t)", leaves.loc_len)
local comm_of = cast("const uint8_t *(*)(void *, uint32_t, uint32_t)", leaves.comm)
local own_comm = cast("const uint8_t *(*)(void *, const perilune_slot *)", leaves.own_comm)
local text_of = cast("const uint8_t *(*)(void *, const perilune_slot *)", leaves.text)
local met = cast("bool (*)(void *, uint32_t, const perilune_slot *)", leaves.met)
local text_size = cast("uint32_t (*)(void *)", leaves.text_size)
local intern_stack = cast("double (*)(void *, const perilune_slot *)", leaves.stack)
local function_of = cast("double (*)(void *, const perilune_slot *)", leaves["function"])
local ctx = cast("void *", context)

-- The id of the stack without frames: an event that has no stack calls no leaf for it.
local NO_STACK = 1
local function stack_of(s)
  if s.chain_len == 0 then return NO_STACK end
  return intern_stack(ctx, s)
end

--- A 64-bit integer as a number where a double holds it exactly, else its hexadecimal text: keys never collide.
local function exact(v)
  local n = tonumber(v)
  if cast(int64, n) == v and n ~= 9223372036854775808 then return n end
  return ("0x%x"):format(v)
end

--- What generated getters may use; they see nothing else.
local scope = {
  cast = cast, fstr = fstr, exact = exact, cursor = cursor, type = type, error = error, setmetatable = setmetatable,
  text_len = text_len, loc_at = loc_at, loc_len = loc_len,
  I8 = typeof "const int8_t *", U8 = typeof "const uint8_t *", I16 = typeof "const int16_t *",
  U16 = typeof "const uint16_t *", I32 = typeof "const int32_t *", U32 = typeof "const uint32_t *",
  -- Not const: string.format takes a 64-bit integer, but not a constant one.
  I64 = typeof "int64_t *",
}

--- The underscore names of every sample.
local function sample_getters(event, per_thread)
  return {
    _time = function(s) return s.time end,
    _cpu = function(s) return s.cpu end,
    _pid = function(s) return s.pid end,
    _tid = function(s) return s.tid end,
    _comm = function(s) return fstr(own_comm(ctx, s)) end,
    _instance = per_thread and function(s) return s.tid end or function(s) return s.cpu end,
    _event = function() return event end,
    _stack = stack_of,
    _function = function(s) return function_of(ctx, s) end,
    _period = function(s) return exact(cast(int64, s.period)) end,
    _ip = function(s) return exact(cast(int64, s.ip)) end,
    _addr = function(s) return exact(cast(int64, s.addr)) end,
    _text = function(s) local p = text_of(ctx, s) return fstr(p, text_size(ctx)) end,
  }
end

local role_of = setmetatable({}, { __mode = "k" })         -- view → role, for emit and pending{keep}
local views = {}                                           -- role → { getters, name, view }

--- Makes the view of `role`. `source` is Lua that returns a table of getters; see view.rs.
local function make(role, name, source, event, per_thread)
  local getters = assert(loadstring(source, "=perilune:view"))(scope, role)
  for k, f in pairs(sample_getters(event, per_thread)) do getters[k] = f end
  local function read(_, k)
    local s = cursor.s
    if s.ev ~= role then return error("the record `e` is valid during its handler only; keep values, or use pending{keep=true}", 2) end
    local get = getters[k]
    if not get then
      return error(("%s has no field '%s'%s"):format(name, tostring(k), nearest(role, tostring(k))), 2)
    end
    return get(s)
  end
  local view = setmetatable({}, { __index = read, __metatable = false,
    __newindex = function() return error("the record `e` cannot be written", 2) end,
    __tostring = function() return "event " .. name end })
  role_of[view] = role
  views[role] = { getters = getters, name = name, view = view }
  return view
end

--- What the records of a role have.
local function getters_of(role) return views[role].getters end

local M = { cursor = cursor, getters_of = getters_of, nowhere = nowhere, make = make, role_of = role_of, ctx = ctx, printing = false,
  scope = scope, comm_of = comm_of, own_comm = own_comm, stack_of = stack_of, met = met }

--- The view of a role.
function M.of(role) return views[role].view end

--- After an abnormal end of a batch: no view reads a slot any more. Returns the role that was running, if one was, the
-- position behind the event at hand, and whether it was that role's printer that ran.
function M.bury()
  local role, printing = cursor.s.ev, M.printing
  cursor.s, M.printing = nowhere, false
  if views[role] then return role, cursor.at + 1, printing end
end

--- The slot under the cursor, whose view `e` has to be; for pending{keep}.
function hooks.slot_of(e)
  local role, s = role_of[e], cursor.s
  if role and s.ev == role then return cast("const void *", s) end
  return error("only the record of the handler that runs can be kept: pass its e", 3)
end

local slot_pointer = typeof "const perilune_slot *"

--- A field of a kept event.
function hooks.kept(pointer, key)
  local s = cast(slot_pointer, pointer)
  local v = views[s.ev]
  if not v then return error("no event was kept", 3) end
  local get = v.getters[key]
  if not get then return error(("%s has no field '%s'%s"):format(v.name, tostring(key), nearest(s.ev, tostring(key))), 3) end
  return get(s)
end

return M
