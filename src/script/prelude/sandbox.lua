--- The sandbox: the global table that scripts see.
--
-- Everything in it is either harmless or wrapped, and every library is a copy: changes that a
-- script makes to its `string` or `math` do not affect trusted code. Globals are strict: reading an
-- unknown one and assigning any are errors at the script's own line.
--
-- The trusted globals are not accessible: there is no getfenv or setfenv, no debug, no bytecode,
-- and the metatable of strings, which all code shares, is closed and points to a copy.
--
-- No function in it runs for long outside of Lua code, where the guard's hook can stop a script.
-- LuaJIT's pattern functions, `table.sort`, `tostring`, `pairs`, `ipairs` and `xpcall` could, so
-- they are replaced.
local write, nearest, patterns, sort = ...

local type, tostring, select, error, next, rawset = type, tostring, select, error, next, rawset
local load, concat, setmetatable, pcall, pairs, ipairs =
  load, table.concat, setmetatable, pcall, pairs, ipairs
local metatable_of, info_of = debug.getmetatable, debug.getinfo
local create, resume, running, yield =
  coroutine.create, coroutine.resume, coroutine.running, coroutine.yield

local env = {}

for _, name in next, {
  "assert", "error", "getmetatable", "next", "pcall", "rawequal", "rawget", "rawlen", "select",
  "setmetatable", "tonumber", "type", "unpack",
} do
  env[name] = _G[name]
end

local function copy(library, without)
  local t = {}
  for name, value in next, library do
    if name ~= without then t[name] = value end
  end
  return t
end

env.string = copy(string, "dump")
for name, value in next, patterns do env.string[name] = value end
env.table = copy(table)
env.table.sort = sort
env.math = copy(math)
env.bit = copy(bit)
env.coroutine = copy(coroutine)
env.os = { time = os.time, date = os.date, clock = os.clock }

--- LuaJIT's own function never returns if the metamethod is the function itself.
function env.tostring(value) return tostring(value) end
function env.pairs(t) return pairs(t) end
function env.ipairs(t) return ipairs(t) end

local function handled(handler, ok, ...)
  if ok then return true, ... end
  local shown, value = pcall(handler, (...))
  if shown then return false, value end
  return false, "error in error handling"
end

--- Like Lua's, but calls the handler after `f` has been unwound. For an error that the hook raises,
-- Lua would call it inside the hook, where no hook fires.
function env.xpcall(f, handler, ...) return handled(handler, pcall(f, ...)) end

-- Limits nested coroutines, since each uses some of the process's stack, which has no other guard.
-- All other nesting reaches a limit of Lua first.
local NESTED = 100
local nested_below = setmetatable({}, { __mode = "k" })    -- coroutine → its nesting depth

local function resumed(co, ...)
  local below = nested_below[running()] or 0
  if below >= NESTED then error("coroutines are nested too deeply", 3) end
  nested_below[co] = below + 1
  return resume(co, ...)
end

function env.coroutine.resume(co, ...)
  if type(co) ~= "thread" then error("coroutine.resume takes a coroutine", 2) end
  return resumed(co, ...)
end

local CALLED = "a printer, a condition or a callback of the runtime cannot yield; "
  .. "yield in a coroutine that it starts itself"

--- Returns why this coroutine cannot yield; nil if it can. A function that the runtime called (a
-- printer, a condition, a callback) cannot, since the runtime's own frames have to return first.
local DEEP = 200
local function why_no_yield()
  for level = 3, DEEP do
    local info = info_of(level, "S")
    if not info then return nil end
    local by = info.source:match "^=perilune:([^/]*)"
    if by and by ~= "prompt" and by ~= "stdlib" and by ~= "sandbox" then return CALLED end
  end
  return "a function that is called over 200 levels deep cannot yield"
end

function env.coroutine.yield(...)
  local why = why_no_yield()
  if why then error(why, 2) end
  return yield(...)
end

local function results(ok, ...)
  if ok then return ... end
  error((...), 0)
end

function env.coroutine.wrap(f)
  local co = create(f)
  return function(...) return results(resumed(co, ...)) end
end

-- The table for `("x"):upper()`: not the script's own copy, which the script may change.
local of_strings = metatable_of ""
of_strings.__index = copy(env.string)
of_strings.__metatable = false

--- Like Lua's, but does not write a table whose metatable is closed.
function env.rawset(t, key, value)
  local mt = metatable_of(t)
  if type(mt) == "table" and mt.__metatable ~= nil then error("the table is closed", 2) end
  return rawset(t, key, value)
end

function env.print(...)
  local texts = {}
  for i = 1, select("#", ...) do texts[i] = tostring((select(i, ...))) end
  write(concat(texts, "\t"))
end

--- Concatenates the pieces that a reader function returns. LuaJIT would call it inside its parser,
-- and an error that the hook raises there removes the hook.
local function text_by(read)
  local parts, n = {}, 0
  while true do
    local part = read()
    if part == nil or part == "" then return concat(parts) end
    if type(part) ~= "string" and type(part) ~= "number" then
      error("reader function must return a string", 0)
    end
    n = n + 1
    parts[n] = part
  end
end

--- Like Lua's, but loads only text, never bytecode, and what is loaded sees the sandbox.
local function load_text(chunk, name, _, environment)
  if name ~= nil and type(name) ~= "string" then error("the chunk's name must be a string", 2) end
  if name and name:find("^[=@]?perilune:") then error("this name belongs to the runtime", 2) end
  if environment == nil then environment = env end
  if type(environment) ~= "table" then error("the environment must be a table", 2) end
  if type(chunk) == "function" then
    local ok, text = pcall(text_by, chunk)
    if not ok then return nil, text end
    chunk, name = text, name or "=(load)"
  end
  return load(chunk, name, "t", environment)
end

env.load = load_text
function env.loadstring(text, name) return load_text(tostring(text), name) end

--- Returns an environment for `load` in which globals can be assigned; it falls back to `below`, or
-- to the globals of scripts. A name that was assigned once is known, also while its value is nil.
-- Also returns its values, and its names in order; `noted` is called for each assignment.
function env.scope(below, noted)
  below = below or env
  local values, assigned, order = {}, {}, {}
  setmetatable(values, {
    __index = function(_, name)
      if assigned[name] then return nil end
      return below[name]
    end,
  })
  local function assign(_, name, value)
    if not assigned[name] then order[#order + 1], assigned[name] = name, true end
    if noted then noted() end
    values[name] = value
  end
  return setmetatable({}, { __index = values, __newindex = assign, __metatable = false }),
    values, order
end

local elsewhere = {
  ffi = true, io = true, debug = true, package = true, jit = true, dofile = true, loadfile = true,
  _G = true,
  getfenv = true, setfenv = true, collectgarbage = true, module = true, newproxy = true,
}

setmetatable(env, {
  __index = function(_, name)
    if type(name) == "string" and elsewhere[name] then
      error(("no global '%s': scripts run in a sandbox; --unsafe adds ffi, io, os and debug")
        :format(name), 2)
    end
    error(("no global '%s'%s"):format(tostring(name), nearest(tostring(name))), 2)
  end,
  __newindex = function(_, name)
    error(("assignment to the global '%s'; assign to a local: local %s"):format(
      tostring(name), tostring(name)), 2)
  end,
  __metatable = false,
})

return env
