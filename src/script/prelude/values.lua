--- Values of single events: `measure` of a latency. Declares them, so that the kernel may measure,
-- and sets the handlers that do the same with records. Trusted code, as pairs.lua.
local _, _, native, exports = ...

local declared, pairing = native.paired, exports.pairing
local compiled, handler = pairing.compiled, pairing.handler
local check_options, sides_of = exports.check_options, exports.sides_of
local histogram_code, handlers_of = pairing.histogram_code, pairing.handlers_of

local error, ipairs, pcall, tonumber, type = error, ipairs, pcall, tonumber, type
local concat, unpack = table.concat, unpack

local USAGE = "measure takes an evsel and a table: "
  .. "sizes:measure(ev, { value = \"len\" })"

--- Returns the events of `measure`. They are not pairs, so all have the same key.
local function measured_events(list, of)
  return sides_of(list, USAGE, "value where rows", function(own)
    local value = own.value or of.value
    return value and { key = { "0" }, value = value, where = own.where or of.where,
      rows = own.rows or of.rows or {} }
  end)
end

local VALUE = [[

return function(e)
  $met
  $own
  local value = up_value(e)
  if up_type(value) == "string" then value = up_tonumber(value) end
  up_times:add($arguments)
  $histogram
end]]

--- Returns the handler of an event with a value.
local function value_handler(side, plan)
  -- A value that a double cannot hold is text with its sign, whatever its type.
  local up = { times = plan.times, value = (compiled({ side.value }, side, "number", true)),
    type = type, tonumber = tonumber, histogram = plan.histogram and plan.histogram[1] }
  local own, columns = {}, {}
  for i = 1, plan.columns do
    columns[i] = "0"
    if plan.present[i] then
      if not side.rows[i] then
        error(("measure: %s has no expression for column %d"):format(side.entry.ev.name, i), 0)
      end
      up["own" .. i] = compiled({ side.rows[i] }, side, nil, plan.mixed == i)
      own[#own + 1] = ("local v%d = up_own%d(e)"):format(i, i)
      columns[i] = "v" .. i
    end
  end
  return handler(side, VALUE, { own = concat(own, "\n"),
    arguments = concat({ "value", unpack(columns) }, ", "),
    histogram = histogram_code("value", plan, columns) }, up)
end

--- Adds values of single events to `times`, a latency with the plan `spec`: see `latency:measure`
--- in meta/aggregate.lua.
function exports.measure(times, spec, events, of)
  if type(of) ~= "table" then error(USAGE, 3) end
  local plan = { times = times, columns = #spec.parameters - 1, present = {},
    histogram = of.histogram or nil, mixed = of.mixed or nil }
  for i = 1, plan.columns do plan.present[i] = spec.parameters[i + 1].is ~= "ignored" end
  local ok, why = pcall(function()
    check_options("measure", of, "value where rows histogram mixed")
    local sides = measured_events(events, of)
    local set, add = handlers_of "the values"
    for _, side in ipairs(sides) do add(side, value_handler(side, plan)) end
    declared { target = times, starts = {}, finishes = sides, drops = {}, present = plan.present,
      fields = "", counts = {}, threads = false, strict = false, cut_texts = false,
      histogram = plan.histogram,
      needs = plan.mixed and "values of different types share a column" or nil }
    set()
  end)
  if not ok then error(why, 3) end
end
