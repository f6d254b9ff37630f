--- The constructor for timed states, one at a time per key: `states`. Trusted code, as
-- aggregate.lua.
--
-- An ended state is read like the result of a pending's close(): through one object over one C
-- struct, so nothing is allocated per event. The argument of `longer` is valid until the next state
-- ends.
local native, env, trusted, leaves = ...

local ffi = require "ffi"
local cast = ffi.cast
local error, ipairs, load, type = error, ipairs, load, type
local concat = table.concat
local format, fill = string.format, native.fill
local ids, intern, object_of, leaf_type =
  trusted.ids, trusted.intern, trusted.object_of, trusted.leaf_type
local hooks, reader, State = trusted.hooks, trusted.state_reader, trusted.State
local move_leaf = cast(
  "uint32_t (*)(void *, const void *, uint32_t, double, uint32_t, int32_t)", leaves.move)
local switch_leaf = cast(
  "uint32_t (*)(void *, const void *, uint32_t, uint32_t, double, int32_t)", leaves.switch)
local still_leaf = cast("uint32_t (*)(void *, uint32_t, double)", leaves.still)
local leave_leaf = cast("uint32_t (*)(void *, uint32_t, double)", leaves.leave)

-- The errors of all methods, raised at the script's line.
local wrong = {}
function wrong.event(what) error(what .. " has no event: pass the e of the handler", 3) end
function wrong.number(what, name, value)
  error(format("%s: the %s is %s; it must be a whole number",
    what, name, value == nil and "absent" or "a " .. type(value)), 3)
end
function wrong.surplus(what) error(what .. " has an argument too many", 3) end
function wrong.self(what) error(what .. " is called with a colon: object:" .. what, 3) end

-- A method that ends with one leaf call. Its parts are its parameters, the checks of its arguments,
-- and the arguments of the leaf.
local METHOD = [[
local object, what, leaf, pointer, ended, longer, ids, intern, type, slot_of, wrong, bad_value = ...
return function(self, $parameters, extra)
  if self ~= object then wrong.self(what) end
  if type(tid) ~= "number" then wrong.number(what, "task", tid) end
  if e == nil then wrong.event(what) end
  $checks
  if extra ~= nil then wrong.surplus(what) end
  local moved = leaf(pointer, $passed)
  if moved == 2 then longer(ended, e) end
  return moved ~= 0
end]]

-- A switch from one task to another on a CPU. The bits are those of `States::switch`.
local SWITCH = [[
local object, leaf, pointer, ended, longer, type, slot_of, wrong, band = ...
local usage = "switch(prev, state, next, e)"
return function(self, prev, state, next, e, extra)
  if self ~= object then wrong.self(usage) end
  if type(prev) ~= "number" then wrong.number(usage, "task", prev) end
  if type(state) ~= "number" then wrong.number(usage, "state", state) end
  if type(next) ~= "number" then wrong.number(usage, "next task", next) end
  if e == nil then wrong.event(usage) end
  if extra ~= nil then wrong.surplus(usage) end
  local became = leaf(pointer, $slot, prev, next, e._time, state)
  if became == 0 then return true, true end
  if became == 4 then
    longer(ended, e)
    became = leaf(pointer, $slot, 0, next, e._time, 0)
  end
  if band(became, 8) ~= 0 then longer(ended, e) end
  return band(became, 1) == 0, band(became, 2) == 0
end]]

--- states { column…, "state", keep=, than=, longer=function(stay, e), unit=, title=, top=,
-- percentiles= }
function env.states(spec)
  local longer = type(spec) == "table" and spec.longer or nil
  if longer and type(longer) ~= "function" then
    error("states: longer is a function(stay, e)", 2)
  end
  if longer == nil and type(spec) == "table" and spec.than then
    error("states: `than` needs `longer`, a function(stay, e)", 2)
  end
  local plan, why = native.declare("states", spec)
  if not plan then error(why, 2) end
  local object, pointer = {}, cast("void *", plan.pointer)
  local state = cast(State, (native.state(plan.id)))
  local ended =
    reader("the state that ended", state, plan.fields, plan.keep ~= 0, nil, nil, "tid")
  local slot = plan.keep ~= 0 and "slot_of(e)" or "nil"

  local function method(what, leaf, parameters, checks, passed, bad_value)
    local parts = { parameters = parameters, checks = checks, passed = passed }
    return load(fill(METHOD, parts), "=perilune:states")(
      object, what .. "(" .. parameters .. ")", leaf, pointer, ended, longer, ids, intern, type,
      hooks.slot_of, wrong, bad_value)
  end

  local names, arguments, checks, passed =
    {}, { "tid, e" }, { "local kinds = 0" }, { slot, "tid", "e._time" }
  for i, parameter in ipairs(plan.parameters) do
    local v = "v" .. i
    names[i], arguments[i + 1] = parameter.name, v
    if parameter.is == "key" then
      passed[#passed + 1] = v
      checks[#checks + 1] = fill([[
        if type($v) ~= "number" then
          if type($v) == "string" then $v = ids[$v] or intern($v) kinds = kinds + $bit
          else bad_value($index, $v) end
        end]], { v = v, index = i, bit = 2 ^ (#passed - 3) })
    end
  end
  local function bad_value(i, value)
    local usage = "enter(tid, e, " .. concat(names, ", ") .. ")"
    if value == nil then error(format("%s has no value for '%s'", usage, names[i]), 3) end
    error(format("%s: '%s' is a %s; it must be a number or a string",
      usage, names[i], type(value)), 3)
  end
  passed[#passed + 1] = "kinds"
  local STATE = [[if type(state) ~= "number" then wrong.number(what, "state", state) end]]
  local MASK = [[if type(mask) ~= "number" then wrong.number(what, "mask", mask) end ]]
  return object_of("states", plan.id, object, {
    enter = method("enter", cast(leaf_type(2 + plan.values, true), plan.leaf),
      concat(arguments, ", "), concat(checks, "\n"),
      concat(passed, ", "), bad_value),
    move = method("move", move_leaf, "tid, e, state", STATE, slot .. ", tid, e._time, 0, state"),
    move_from = method("move_from", move_leaf, "mask, tid, e, state", MASK .. STATE,
      slot .. ", tid, e._time, mask, state"),
    switch = load(fill(SWITCH, { slot = slot }), "=perilune:states")(
      object, switch_leaf, pointer, ended, longer, type, hooks.slot_of, wrong, bit.band),
    leave = method("leave", leave_leaf, "tid, e", "", "tid, e._time"),
    each = trusted.each_of(plan.id),
    still = function(self, time)
      if self ~= object then wrong.self("still(time)") end
      if type(time) ~= "number" then wrong.number("still(time)", "time", time) end
      local index = 0
      return function()
        index = still_leaf(pointer, index, time)
        if index ~= 0 then return state.key, ended end
      end
    end,
  })
end
