--- The constructors of the aggregates without methods of their own (latency, hist, rate, …), what
-- the other constructors share, and per_cpu and perins. Trusted code: it has the ffi, scripts do
-- not.
--
-- Each instance gets its own `add`, generated for its arity and loaded separately, so that a trace
-- through it sees constants: the leaf, the table's address, which keys are strings. Rust makes the
-- plan (aggregate/declare.rs).
local native, env, trusted = ...

local ffi = require "ffi"
local cast, flush = ffi.cast, require "jit".flush
local error, ipairs, load, pairs, setmetatable, tonumber, tostring, type, unpack =
  error, ipairs, load, pairs, setmetatable, tonumber, tostring, type, unpack
local concat, sort = table.concat, table.sort
local format, match, rep, sub = string.format, string.match, string.rep, string.sub
local fill = native.fill

-- Interned strings: ids[s] is the id that Rust assigned, names[id] the string. Rust sweeps both.
local ids, names = {}, {}
local OTHER = 0
local strings = cast("void *", native.strings)
local intern_leaf = cast("uint32_t (*)(void *, const char *, size_t)", native.intern)
names[OTHER] = "(other)"
-- Rust interns those of keys and values that the kernel has counted.
setmetatable(names, { __index = function(_, id)
  local text = native.text(id)
  if text then ids[text], names[id] = id, text end
  return text
end })

local function intern(text)
  local id = intern_leaf(strings, text, #text)
  -- A string that did not fit is not stored: Lua's table has the same limit.
  if id ~= OTHER then ids[text], names[id] = id, text end
  return id
end

-- One C type per arity: each cast from text would create a new one.
local leaf_types = {}
local function leaf_type(doubles, slot)
  local at = slot and -doubles - 1 or doubles
  if not leaf_types[at] then
    leaf_types[at] = ffi.typeof("uint32_t (*)(void *" .. (slot and ", const void *" or "")
      .. rep(", double", doubles) .. ", uint32_t)")
  end
  return leaf_types[at]
end

-- By number: the pointer that all functions of an aggregate share. The values are weak, so an entry
-- vanishes when nothing references the pointer any more.
local held = setmetatable({}, { __mode = "v" })

--- Returns the address of a plan's aggregate, for all of its functions.
local function pointer_of(plan)
  local pointer = cast("void *", plan.pointer)
  held[plan.id] = pointer
  return pointer
end

--- Returns these pointers, after flushing the compiled code that references them.
function trusted.held()
  flush()
  return held
end

local function list_of(parameters)
  local list = {}
  for i, parameter in ipairs(parameters) do list[i] = parameter.name end
  return concat(list, ", ")
end

-- A flag for the leaf of kv: adds the values to the row that was added to last, without counting.
local MORE = 2 ^ 30

--- Splits a 64-bit value that a double cannot hold into two doubles with this sum, for exact sums.
-- Such a value is passed as hexadecimal text, signed unless its column is `unsigned`.
local function halves(text, unsigned)
  local digits = type(text) == "string" and match(text, "^0x(%x+)$")
  if not digits or #digits > 16 then return end
  local high, low = tonumber(sub(digits, 1, -9), 16) or 0, tonumber(sub(digits, -8), 16)
  return ((unsigned or high < 2 ^ 31) and high or high - 2 ^ 32) * 2 ^ 32, low
end

-- Argument checks of exact sums. Scripts see unsigned values from 2^63 on as negative numbers.
local EXACT = {
  value = [[local $rest = 0 if type($a) ~= "number" then local all = $a
    $a, $rest = halves($a) if not $a then wrong($index, all) end more = true end]],
  unsigned = [[local $rest = 0 if type($a) ~= "number" then local all = $a
    $a, $rest = halves($a, true) if not $a then wrong($index, all) end more = true
    elseif $a < 0 then $rest = 18446744073709551616 more = true end]],
}

--- Generates `add` for a plan. Errors of arguments are raised at the script's line; the arguments
-- of absent columns are dropped. `method`: called with a colon; `flags`: added to the kinds of the
-- keys; `result`: what is returned.
local function generate(object, what, plan, leaf, method, flags, result)
  local parameters, checks, values, rests, keys = {}, {}, {}, {}, {}
  for i, parameter in ipairs(plan.parameters) do
    local a = "a" .. i
    parameters[i] = a
    if parameter.is == "key" or parameter.is == "root" then
      if parameter.is == "root" then
        checks[#checks + 1] = "if " .. a .. " == nil then " .. a .. " = '' end"
      end
      checks[#checks + 1] = fill([[
        if type($a) ~= "number" then
          if type($a) == "string" then $a = ids[$a] or intern($a) kinds = kinds + $bit
          else wrong($index, $a) end
        end]], { a = a, bit = 2 ^ #keys, index = i })
      keys[#keys + 1] = a
    elseif parameter.is == "text" then
      checks[#checks + 1] = fill([[
        if type($a) ~= "string" then
          if type($a) == "number" then $a = tostring($a) else wrong($index, $a) end
        end
        $a = ids[$a] or intern($a)]], { a = a, index = i })
      values[#values + 1] = a
    elseif parameter.is == "value" or parameter.is == "unsigned" then
      local check = plan.exact and EXACT[parameter.is]
        or [[if type($a) ~= "number" then $a = number($a) or wrong($index, $a) end]]
      checks[#checks + 1] = fill(check, { a = a, rest = "r" .. i, index = i })
      values[#values + 1], rests[#rests + 1] = a, "r" .. i
    end
  end
  local passed = { "pointer" }
  for _, a in ipairs(values) do passed[#passed + 1] = a end
  for _, a in ipairs(keys) do
    passed[#passed + 1] = a
    rests[#rests + 1] = a
  end
  passed[#passed + 1] = "kinds"
  parameters[#parameters + 1] = "extra"
  local source = fill([[
    local object, leaf, pointer, ids, intern, type,
      tostring, number, halves, wrong, surplus, not_self = ...
    return function($parameters)
      $check_self
      local kinds, more = $flags, false
      $checks
      if extra ~= nil then surplus() end
      local taken = leaf($passed)
      $add_rests
      $give_back
    end]], {
    parameters = (method and "self, " or "") .. concat(parameters, ", "),
    check_self = method and "if self ~= object then not_self() end" or "",
    flags = flags or 0, checks = concat(checks, "\n"), passed = concat(passed, ", "),
    add_rests = plan.exact
      and format("if more then leaf(pointer, %s, kinds + %d) end", concat(rests, ", "), MORE) or "",
    give_back = result and "return taken " .. result or "",
  })

  local usage = what .. "(" .. list_of(plan.parameters) .. ")"
  local function wrong(i, value)
    local name = plan.parameters[i].name
    if value == nil then error(format("%s has no value for '%s'", usage, name), 3) end
    error(format("%s: '%s' is a %s; it must be a number%s",
      usage, name, type(value), EXACT[plan.parameters[i].is] and "" or " or a string"), 3)
  end
  local function surplus() error(usage .. " has an argument too many", 3) end
  local function not_self() error(usage .. " is called with a colon: object:" .. usage, 3) end
  --- Returns the double nearest to such a value: the relative error is at most 2^-53.
  local function number(value)
    local high, low = halves(value)
    return high and high + low
  end
  return load(source, "=perilune:" .. what)(
    object, cast(leaf_type(#values + #keys), leaf), plan.pointer,
    ids, intern, type, tostring, number, halves, wrong, surplus, not_self)
end

--- Creates the object of an aggregate: its methods, and nothing else to read or write.
local function object_of(kind, id, object, functions)
  local known = {}
  for name, value in pairs(functions) do
    object[name] = value
    known[#known + 1] = name
  end
  sort(known)
  native.handles[object] = id
  return setmetatable(object, {
    __index = function(_, name)
      error(format("%s has no '%s'%s",
        kind, tostring(name), native.suggestion(tostring(name), known)), 2)
    end,
    __newindex = function(_, name)
      error(format("%s cannot be written: '%s'", kind, tostring(name)), 2)
    end,
    __metatable = false,
    __tostring = function() return kind end,
  })
end

--- Iterates over the current rows in drawing order: the values of the columns, then the results.
local function each_of(id, pointer)
  return function()
    local rows, i = native.rows(id, pointer), 0
    return function()
      i = i + 1
      local row = rows[i]
      if row then return unpack(row) end
    end
  end
end

--- Returns the plan of a new aggregate; raises a mistake in `spec` at the line of the script.
local function declare(kind, spec)
  local plan, why = native.declare(kind, spec)
  if not plan then error(why, 3) end
  plan.pointer = pointer_of(plan)
  return plan
end

--- Returns the constructor of a kind without methods of its own: its objects have `add`, and `each`
-- and `clear` if they are drawn.
local function simple(kind)
  return function(spec)
    local plan = declare(kind, spec)
    local object = {}
    return object_of(kind, plan.id, object, {
      add = generate(object, "add", plan, plan.leaf, true, 0, plan.returns and "+ 0"),
      each = plan.is_drawn and each_of(plan.id, plan.pointer) or nil,
      clear = plan.is_drawn and function() native.clear(plan.id) end or nil,
    })
  end
end

-- `hist.log2` is the field `log2` of the global `hist`.
local groups = {}
for _, kind in ipairs(native.simple_kinds) do
  local group, name = match(kind, "^(.-)%.(.+)$")
  if group then
    groups[group] = groups[group] or {}
    groups[group][name], env[group] = simple(kind), groups[group]
  else
    env[kind] = simple(kind)
  end
end

local by_cpu = setmetatable({}, { __mode = "k" })          -- table of per_cpu → initial value

--- Resets all per_cpu tables after events were lost: their values may be outdated.
function trusted.forget_cpus()
  for cpus, init in pairs(by_cpu) do
    for cpu in pairs(cpus) do cpus[cpu] = init end
  end
end

--- per_cpu(init): a table by CPU; every CPU has a value from the start.
function env.per_cpu(init)
  if init == nil or type(init) == "table" then
    error("per_cpu(init) takes a number, text or a boolean", 2)
  end
  local cpus = setmetatable({}, { __index = function() return init end, __metatable = false })
  for cpu = 0, native.cpus - 1 do cpus[cpu] = init end
  by_cpu[cpus] = init
  return cpus
end

local unmatched_count = cast("double *", native.unmatched)

--- unmatched(): counts a state whose beginning or end has no record.
function env.unmatched() unmatched_count[0] = unmatched_count[0] + 1 end

--- perins([column]): with --perins this column, or the column of the instance; else false.
function env.perins(column)
  local instance = native.instance()
  return instance and (column or instance) or false
end

trusted.ids, trusted.names, trusted.intern = ids, names, intern
trusted.object_of, trusted.leaf_type, trusted.each_of = object_of, leaf_type, each_of
trusted.declare, trusted.generate = declare, generate
