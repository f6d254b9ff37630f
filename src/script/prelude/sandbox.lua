--- The sandbox: the global table that scripts see.
--
-- Everything in it is either harmless or wrapped, and every library is a copy: what a script changes in its
-- `string` or `math` reaches no trusted code. Globals are strict: reading an unknown one and assigning any are
-- errors at the script's own line.
--
-- No access to the trusted globals is left: no getfenv or setfenv, no debug, no bytecode, and the metatable of
-- strings, which all code shares, is closed and points to a copy.
local write, nearest = ...

local type, tostring, select, error, next, rawset = type, tostring, select, error, next, rawset
local load, concat, setmetatable = load, table.concat, setmetatable
local metatable_of, info_of = debug.getmetatable, debug.getinfo
local create, resume, running, yield, gsub =
  coroutine.create, coroutine.resume, coroutine.running, coroutine.yield, string.gsub

local env = {}

for _, name in next, {
  "assert", "error", "getmetatable", "ipairs", "next", "pairs", "pcall", "rawequal", "rawget", "rawlen", "select",
  "setmetatable", "tonumber", "tostring", "type", "unpack", "xpcall",
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
env.table = copy(table)
env.math = copy(math)
env.bit = copy(bit)
env.coroutine = copy(coroutine)
env.os = { time = os.time, date = os.date, clock = os.clock }

-- What calls Lua from C takes of the process's own stack, which nobody guards: a gsub in a gsub's function 8 KiB of it, and a
-- coroutine in a coroutine a new stack for more of them. So they may stand within each other only so often, and a gsub with a
-- function only so deep. Everything else that nests meets a limit of Lua's first.
local NESTED, DEEP = 100, 200
local nested_below = setmetatable({}, { __mode = "k" })    -- coroutine → how many stand below it

local function nested()
  local count, level = nested_below[running()] or 0, 3
  local info = info_of(level, "f")
  while info do
    if info.func == gsub then count = count + 1 end
    level = level + 1
    if level > DEEP then return NESTED end
    info = info_of(level, "f")
  end
  return count
end

local function resumed(co, ...)
  local below = nested()
  if below >= NESTED then error("coroutines or gsub stand within each other too often", 3) end
  nested_below[co] = below + 1
  return resume(co, ...)
end

function env.coroutine.resume(co, ...)
  if type(co) ~= "thread" then error("coroutine.resume takes a coroutine", 2) end
  return resumed(co, ...)
end

--- Whether the runtime itself called a function that runs in this coroutine: a printer, a condition, a callback. The runtime's own frames
-- must end before anything else happens, so such a function cannot yield.
local function is_called_by_runtime()
  for level = 3, DEEP do
    local info = info_of(level, "S")
    if not info then return false end
    local by = info.source:match "^=perilune:([^/]*)"
    if by and by ~= "prompt" and by ~= "stdlib" then return true end
  end
  return true
end

local CALLED = "a printer, a condition or a callback of the runtime cannot yield; yield in a coroutine that it starts itself"

function env.coroutine.yield(...)
  if is_called_by_runtime() then error(CALLED, 2) end
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

function env.string.gsub(text, pattern, by, most)
  if type(by) ~= "string" and type(by) ~= "number" and nested() >= NESTED then error("gsub stands too deep", 2) end
  return gsub(text, pattern, by, most)
end

--- `("x"):upper()` goes through here; not the script's own copy, which it may change.
local of_strings = metatable_of ""
of_strings.__index = copy(env.string)
of_strings.__metatable = false

--- As Lua's, but a table whose metatable is closed stays as its owner made it.
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

--- As Lua's, but only text is loaded, never bytecode, and what is loaded sees the sandbox.
local function load_text(chunk, name, _, environment)
  if name ~= nil and type(name) ~= "string" then error("the chunk's name must be a string", 2) end
  if name and name:find("^[=@]?perilune:") then error("this name belongs to the runtime", 2) end
  if environment == nil then environment = env end
  if type(environment) ~= "table" then error("the environment must be a table", 2) end
  return load(chunk, name, "t", environment)
end

env.load = load_text
function env.loadstring(text, name) return load_text(tostring(text), name) end

--- A place to assign globals in, for `load`, which sees `below`, or what scripts see. A name that was assigned once is known,
-- also while it is nil. Gives the place, its values, and its names in order; `noted` is called with each assignment.
function env.scope(below, noted)
  below = below or env
  local values, assigned, order = {}, {}, {}
  setmetatable(values, { __index = function(_, name) if assigned[name] then return nil end return below[name] end })
  local function assign(_, name, value)
    if not assigned[name] then order[#order + 1], assigned[name] = name, true end
    if noted then noted() end
    values[name] = value
  end
  return setmetatable({}, { __index = values, __newindex = assign, __metatable = false }), values, order
end

local elsewhere = {
  ffi = true, io = true, debug = true, package = true, jit = true, dofile = true, loadfile = true, _G = true,
  getfenv = true, setfenv = true, collectgarbage = true, module = true, newproxy = true,
}

setmetatable(env, {
  __index = function(_, name)
    if type(name) == "string" and elsewhere[name] then
      error(("no global '%s': scripts run in a sandbox; --unsafe adds ffi, io, os and debug"):format(name), 2)
    end
    error(("no global '%s'%s"):format(tostring(name), nearest(tostring(name))), 2)
  end,
  __newindex = function(_, name)
    error(("assignment to the global '%s'; assign to a local: local %s"):format(tostring(name), tostring(name)), 2)
  end,
  __metatable = false,
})

return env
