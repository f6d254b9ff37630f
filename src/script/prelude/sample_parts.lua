--- Finds which parts of a sample a handler reads: its time, its process and the event's own
-- fields. Other parts are always there, or follow from the record.
--
-- Reads the bytecode, as fields.lua does. A part is needed unless the handler reads its record as a
-- plain `e.field` only, and calls nothing that may need a time.
local _, view, _, exports = ...

local getupvalue, getfenv, funcinfo = debug.getupvalue, getfenv, require "jit.util".funcinfo
local getmetatable, rawget, type, next = debug.getmetatable, rawget, type, next
local funck = require "jit.util".funck
local decode = exports.decode

-- The parts that the fields of every sample need: all if they are not found in the bytecode, none
-- for those that are always there. Any other field is the event's own.
local NEEDS = { _time = "time", _pid = "process", _text = "all", _stack = "all", _function = "all",
  _cpu = "none", _tid = "none", _comm = "none", _instance = "none", _event = "none",
  _period = "none", _ip = "none", _addr = "none" }

-- Names of functions and libraries of the runtime that read no record and no time.
local FUNCTIONS = { "assert", "error", "next", "select", "tonumber", "tostring", "type", "pairs",
  "ipairs", "rawget" }
local LIBRARIES = { "string", "table", "math", "bit" }

--- Returns the set of the functions and libraries that need no part.
local function harmless(env)
  local set = {}
  for _, name in next, FUNCTIONS do set[rawget(env, name)] = true end
  for _, name in next, LIBRARIES do
    local library = rawget(env, name)
    set[library] = true
    for _, value in next, library do set[value] = true end
  end
  return set
end

--- Adds the parts that instruction `i` reads of the record, which is in slot 0. Returns false if
-- the record may be read elsewhere, too.
local function record_read(i, parts)
  local reads_a = i.a == 0 and (i.base or i.var_a or i.op == "RET1")
  if reads_a or i.op == "FNEW" or i.var_c and i.c == 0 or i.op == "CAT" and i.b == 0 then
    return false
  end
  if i.var_b and i.b == 0 then
    if i.op ~= "TGETS" then return false end
    local part = NEEDS[i.k] or "fields"
    if part == "all" then return false end
    parts[part] = true
  end
  return true
end

--- Returns whether function `f` and all that it can reach need no time: only the script's own
-- functions and tables, objects of the runtime, which get every time from their caller, and
-- harmless functions. `handled` has the parts that `f` reads of its record, if it is the handler.
local function is_timeless(f, handled, seen, safe)
  local visit

  local function instructions(it, env, parts)
    local code = decode(it)
    if not code then return false end
    for _, i in next, code do
      if parts and not record_read(i, parts) then return false end
      if i.op == "GGET" and not visit(rawget(env, i.k)) then return false end
      if i.op == "FNEW" and not instructions(funck(it, -i.c - 1), env) then return false end
    end
    return true
  end

  function visit(it, parts)
    local kind = type(it)
    if kind == "cdata" or kind == "userdata" or kind == "thread" then return false end
    if kind ~= "function" and kind ~= "table" or seen[it] or safe[it] then return true end
    seen[it] = true
    if kind == "table" then
      local meta = getmetatable(it)
      if meta then return rawget(meta, "__metatable") == false end
      for _, value in next, it do if not visit(value) then return false end end
      return true
    end
    local source = funcinfo(it).source
    if not source or source:find "^=perilune:" then return false end
    for n = 1, 255 do
      local name, value = getupvalue(it, n)
      if not name then break end
      if not visit(value) then return false end
    end
    return instructions(it, getfenv(it), parts)
  end
  return visit(f, handled)
end

--- Returns whether the time, the process and the event's own fields are needed for `handler`.
function exports.parts_read(handler)
  local parts = {}
  local function all() return true, true, true end
  if not decode or funcinfo(handler).params == 0 then return all() end
  local ok, is_known = pcall(function()
    return is_timeless(handler, parts, {}, harmless(getfenv(handler)))
  end)
  if not ok or not is_known then return all() end
  return parts.time or false, parts.process or false, parts.fields or false
end
