--- The record `e`: the views of one role (an event of an evsel), over one shared cursor.
--
-- A view is a table that holds a serial number, as `#`. Its `__index` reads the slot under the
-- cursor if the number is that of the current event. Each event gets its own view, and outside
-- handlers no view is valid. Reading an `e` that was kept from an earlier event is therefore an
-- error and not a wrong number. Getters are generated from the event's format, one small function
-- per field, so LuaJIT compiles a field access to a load. The driver makes the view and the getter
-- compares its number in the same trace: the comparison folds away, and LuaJIT allocates no table
-- unless the handler keeps the view (allocation sinking). A script that writes the number still
-- cannot read a record with the getters of another event, since the role is compared, too.
--
-- The parentheses in `return (f(x))` prevent a tail call. LuaJIT counts tail calls as iterations of
-- a loop and gives a trace up at the sixteenth: a handler that read as many fields was interpreted.
--
-- The cursor points to a slot of the batch, to the copy of a kept event that `show` made, or to the
-- copy that a history has read. Script code cannot change any of these while it runs: the cursor
-- never points to memory of an aggregate.
local ffi, native = ...
local nearest, hooks = native.nearest, native.hooks

ffi.cdef [[
  typedef struct {
    double time;
    const uint8_t *raw;
    const uint64_t *chain;
    uint64_t ip, addr, period;
    int32_t pid, tid;                                     // -1 for a task that is being released
    uint16_t cpu, ev, raw_size, chain_len;
  } perilune_slot;
  // LuaJIT compiles what a cdata of at most 16 bytes in an upvalue contains to constant addresses.
  typedef struct {
    const perilune_slot *s;
    uint32_t at, stop;
  } perilune_cursor;
  typedef struct {
    double n, role;
  } perilune_live;
]]

local cast, metatype, typeof, fstr, tonumber, type, error =
  ffi.cast, ffi.metatype, ffi.typeof, ffi.string, tonumber, type, error
local setmetatable, metatable_of, xpcall, rawget = setmetatable, debug.getmetatable, xpcall, rawget
local band, rshift = require "bit".band, require "bit".rshift
local int64 = typeof "int64_t"

local nowhere = ffi.new("perilune_slot", { time = -1, ev = 0xffff })
local cursor = ffi.new("perilune_cursor", { s = nowhere })
local text_len = cast("uint32_t (*)(const uint8_t *, uint32_t)", native.text_len)
local loc_at = cast(
  "const uint8_t *(*)(const perilune_slot *, uint32_t, uint32_t, uint32_t)", native.loc_at)
local loc_len = cast(
  "uint32_t (*)(const perilune_slot *, uint32_t, uint32_t, uint32_t)", native.loc_len)
local loc_text = cast(
  "int32_t (*)(const perilune_slot *, uint32_t, uint32_t, uint32_t)", native.loc_text)
local comm_of = cast("const uint8_t *(*)(void *, uint32_t, uint32_t)", native.comm)
local own_comm = cast("const uint8_t *(*)(void *, const perilune_slot *)", native.own_comm)
local text_of = cast("const uint8_t *(*)(void *, const perilune_slot *)", native.text)
local show_leaf = cast("const perilune_slot *(*)(void *, const perilune_slot *)", native.show)
local met = cast("bool (*)(void *, uint32_t, const perilune_slot *)", native.met)
local text_size = cast("uint32_t (*)(void *)", native.text_size)
local intern_stack = cast("double (*)(void *, const perilune_slot *)", native.stack)
local function_of = cast("double (*)(void *, const perilune_slot *)", native.function_of)
local ctx = cast("void *", native.context)

-- The id of the empty stack: an event without a stack needs no leaf call.
local NO_STACK = 1
local function stack_of(s)
  if s.chain_len == 0 then return NO_STACK end
  return (intern_stack(ctx, s))
end

-- The last texts of 16 bytes, the size of a task's name, by their hash: the bytes as two words, and
-- the text. Comparing two words costs less than searching for the end of the text and for its
-- string.
local TEXTS, TEXT_BITS, words = 128, 7, typeof "const uint64_t *"
local texts = { memory = typeof("uint64_t[?]")(2 * TEXTS) }
local cached = cast("uint64_t *", texts.memory)            -- a constant in compiled code
for i = 0, TEXTS - 1 do texts[i] = "" end

--- Returns the text in the 16 bytes at `p`, up to the first NUL.
local function text16(p)
  local pair = cast(words, p)
  local a, b = pair[0], pair[1]
  local i = tonumber(rshift((a + 31 * b) * 0x9e3779b97f4a7c15ULL, 64 - TEXT_BITS))
  if cached[2 * i] == a and cached[2 * i + 1] == b then return texts[i] end
  cached[2 * i], cached[2 * i + 1], texts[i] = a, b, fstr(p, text_len(p, 16))
  return texts[i]
end

--- Returns the name of the thread of a slot.
local function comm(s) return (text16(own_comm(ctx, s))) end

--- Returns the text of a dynamic field; `at`, `size` and `base` are constants of the field.
local function dynamic_text(s, at, size, base)
  local place = loc_text(s, at, size, base)
  return (fstr(s.raw + rshift(place, 16), band(place, 0xffff)))
end

--- Returns the text of a dynamic field that a probe read from memory: without a byte, also without
-- its NUL, the memory could not be read.
local function fetched_text(s, at, size, base)
  if loc_len(s, at, size, base) == 0 then return "(fault)" end
  return (dynamic_text(s, at, size, base))
end

--- Converts a 64-bit integer to a number if a double holds it exactly, else to hexadecimal text, so
-- that different values stay different keys.
local function exact(v)
  local n = tonumber(v)
  if cast(int64, n) == v and n ~= 9223372036854775808 then return n end
  return ("0x%x"):format(v)
end

--- The names that generated getters can use.
local scope = {
  cast = cast, fstr = fstr, exact = exact, cursor = cursor, type = type, error = error,
  setmetatable = setmetatable, rawget = rawget,
  text_len = text_len, text16 = text16, dynamic_text = dynamic_text,
  fetched_text = fetched_text,
  loc_at = loc_at, loc_len = loc_len,
  I8 = typeof "const int8_t *", U8 = typeof "const uint8_t *", I16 = typeof "const int16_t *",
  U16 = typeof "const uint16_t *", I32 = typeof "const int32_t *", U32 = typeof "const uint32_t *",
  -- Not const: string.format accepts a 64-bit integer only if it is not const.
  I64 = typeof "int64_t *", F64 = typeof "const double *",
}

-- The underscore fields that every sample has.
local SAMPLE = {
  _time = function(s) return s.time end,
  _cpu = function(s) return s.cpu end,
  _pid = function(s) return s.pid end,
  _tid = function(s) return s.tid end,
  _comm = comm,
  _stack = stack_of,
  _function = function(s) return (function_of(ctx, s)) end,
  -- -1: base::event::slot::NAMED.
  _period = function(s) return s.period == -1ULL and 1 or (exact(cast(int64, s.period))) end,
  _ip = function(s) return (exact(cast(int64, s.ip))) end,
  _addr = function(s) return (exact(cast(int64, s.addr))) end,
  _text = function(s) local p = text_of(ctx, s) return (fstr(p, text_size(ctx))) end,
}

local STALE =
  "the record `e` is valid during its handler only; keep values, or use pending{keep=true}"

-- Number and role of the valid view, which reads the slot under the cursor; NO_ROLE outside
-- handlers. Views of visits (by a printer or a condition) have negative numbers.
local NO_ROLE = -1
local live = ffi.new("perilune_live", { n = 0, role = NO_ROLE })
scope.live = live
local role_of_meta = {}                                    -- metatable of a view → role
local views = {}                                           -- role → { getters, copies, name, meta }

--- Returns the role of a view, valid or not; nil for anything else.
local function role_of(it)
  local mt = metatable_of(it)
  return mt and role_of_meta[mt]
end

--- Returns whether `it` is the valid view.
local function is_live(it)
  local mt = metatable_of(it)
  return mt and role_of_meta[mt] == live.role and rawget(it, "#") == live.n
end

-- The function that reads a field. It is loaded for each role: LuaJIT compiles the upvalues of a
-- function that exists once to constants.
local READ = [[
local role, live, cursor, getters, rawget, error, STALE = ...
return function(self, k)
  if role ~= live.role or rawget(self, "#") ~= live.n then return error(STALE, 2) end
  return (getters[k](cursor.s))
end]]

--- Returns an object that finds the functions of a table by name. Compiled code has them as
-- constants, while it searches a table in each run of a trace: who replaces one flushes the traces.
-- `missing(name)` returns the function of a name that the table does not have. The type of the
-- object and its functions are never freed; there are at most 65,536 types.
local function constants(functions, missing)
  setmetatable(functions, { __index = function(_, name) return missing(name) end })
  return metatype(typeof "struct {}", { __index = functions })()
end

--- Creates the views of `role`. `source` is Lua that returns a table of getters; see view.rs.
local function make(role, name, source, event, per_thread)
  local getters, copies = assert(loadstring(source, "=perilune:view"))(scope, role)
  for k, f in pairs(SAMPLE) do getters[k] = f end
  getters._instance = per_thread and SAMPLE._tid or SAMPLE._cpu
  getters._event = function() return event end
  local found = constants(getters, function(k)
    return function()
      return error(("%s has no field '%s'%s"):format(
        name, tostring(k), nearest(role, tostring(k))), 3)
    end
  end)
  local read = loadstring(READ, "=perilune:view")(
    role, live, cursor, found, rawget, error, STALE)
  local mt = { __index = read, __metatable = false,
    __newindex = function() return error("the record `e` cannot be written", 2) end,
    __tostring = function() return "event " .. name end }
  role_of_meta[mt] = role
  views[role] = { getters = getters, copies = copies, name = name, meta = mt }
end

--- Returns the getters of a role by field name.
local function getters_of(role) return views[role].getters end

--- Returns the getters for copies of kept events.
local function copies_of(role) return views[role].copies end

local M = {
  cursor = cursor, live = live, is_live = is_live, getters_of = getters_of,
  copies_of = copies_of, nowhere = nowhere,
  make = make, role_of = role_of, ctx = ctx, printing = false, noting = false, scope = scope,
  comm_of = comm_of, own_comm = comm, stack_of = stack_of, met = met, nearest = nearest,
}

--- Returns the metatable of a role's views.
function M.meta(role) return views[role].meta end

--- Copies a kept event and returns the copy, which is valid until the next `show`. The cursor may
-- point to it while a record is visited.
function M.show(slot)
  if M.printing then error "a kept event was shown while a record is visited" end
  return show_leaf(ctx, slot)
end

-- Minus the number of visits; number of the valid view before the visit.
local visits, before = 0, 0

--- Calls f with a view of the record at `slot`, which must not change until f returns; returns the
-- results of xpcall. Meanwhile no event is printed and no other record is visited.
function M.visit(slot, f, explain)
  local s, role, n, visit = cursor.s, live.role, live.n, visits - 1
  visits, before = visit, n
  cursor.s, live.role, live.n, M.printing = slot, slot.ev, visit, true
  local ok, result = xpcall(f, explain, setmetatable({ ["#"] = visit }, views[slot.ev].meta))
  cursor.s, live.role, live.n, M.printing = s, role, n, false
  return ok, result
end

--- Ends a batch: no view is valid afterwards.
function M.leave() cursor.s, live.role = nowhere, NO_ROLE end

--- Does the same for a batch that ended abnormally. Returns the role that was running, if any, the
-- position after its event, and whether its printer was running.
local function end_aborted_batch()
  local role, printing = cursor.s.ev, M.printing
  M.leave()
  M.printing = false
  if live.n < 0 then live.n = before end                   -- negative: the view of a visit
  if views[role] then return role, cursor.at + 1, printing end
end

-- The result of `end_aborted_batch` when the guard last stopped a call.
local stopped = {}

--- Resets the state of the runtime after the guard stopped a call: the code that does so after a
-- pcall did not run.
function M.recover()
  stopped[1], stopped[2], stopped[3] = end_aborted_batch()
  M.noting = false
end

--- Returns what `end_aborted_batch` returns, also if the guard stopped the batch.
function M.aborted_at()
  local role, rest, printing = end_aborted_batch()
  if role then return role, rest, printing end
  return stopped[1], stopped[2], stopped[3]
end

--- Returns the slot under the cursor, whose view `e` must be; for pending{keep}.
function hooks.slot_of(e)
  if is_live(e) then return cast("const void *", cursor.s) end
  return error("only the record of the handler that runs can be kept: pass its e", 3)
end

local slot_pointer = typeof "const perilune_slot *"

--- Returns a field of a kept event.
function hooks.kept(pointer, key)
  local s = cast(slot_pointer, pointer)
  local v = views[s.ev]
  if not v then return error("no event was kept", 3) end
  -- Prefers the getters for copies: the cursor points to another event.
  return (v.copies[key] or v.getters[key])(s)
end

return M
