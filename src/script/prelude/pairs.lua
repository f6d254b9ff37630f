--- Pairs of two events: `between` of a latency, and of a kv. Declares them, so that the kernel may
-- pair, and sets the handlers that do the same with records (pair_handlers.lua). Trusted code.
local _, _, native, exports = ...

local declared, pending, pairing = native.paired, native.pending, exports.pairing
local entry_of, check_options = exports.entry_of, exports.check_options
local compiled, nesting, handlers_of = pairing.compiled, pairing.nesting, pairing.handlers_of
local start_handler, drop_handler = pairing.start_handler, pairing.drop_handler
local finish_handler, add_takers = pairing.finish_handler, pairing.add_takers
local paired_events = exports.paired_events

local error, ipairs, pairs, pcall = error, ipairs, pairs, pcall
local rawget, tonumber, type, unpack = rawget, tonumber, type, unpack
local concat = table.concat

-- The options of pairs, and those of a latency or a kv.
local OPTIONS = "key same rows room threads drops longer age counts nested records strict pair "
  .. "needs keep cut_texts "
local OF_LATENCY, OF_KV = OPTIONS .. "histogram than", OPTIONS .. "sums starts"

--- Sets the types of the sums of sides. Raises an error for a sum of text.
local function set_types(sides, plan)
  for _, side in ipairs(sides) do
    side.types = {}
    for i = plan.keys + 1, plan.columns do
      if side.rows[i] then
        local _, types = compiled({ side.rows[i] }, side, "number")
        side.types[i] = types[1]
      end
    end
  end
end

--- Returns the names of the values that a start keeps, and adds their expressions to the sides.
local function keep_values(starts, finishes, plan)
  local fields = {}
  if finishes[1].same then fields[1] = "same" end
  set_types(starts, plan)
  set_types(finishes, plan)
  plan.kept_types = starts[1].types
  for i = 1, plan.columns do
    local has_all = true
    for _, finish in ipairs(finishes) do has_all = has_all and finish.rows[i] end
    if plan.wanted[i] and not has_all then fields[#fields + 1] = "column" .. i end
  end
  for _, start in ipairs(starts) do
    local function require_value(value, what)
      if value then return value end
      error(("between: %s has no expression for %s"):format(start.entry.ev.name, what), 0)
    end
    start.kept = {}
    for i, field in ipairs(fields) do
      local column = tonumber(field:match "%d+$")
      start.kept[i] = column and require_value(start.rows[column], "column " .. column)
        or require_value(start.same, "same")
    end
    for i = 1, plan.adds_starts and plan.columns or 0 do
      if plan.wanted[i] then require_value(start.rows[i], "column " .. i) end
    end
  end
  return fields
end

--- Returns the handlers that a script sets for records.
local function own_handlers(records, open)
  local list = type(records) == "function" and records(open)
  local is_list = type(list) == "table" and #list > 0
  for _, own in ipairs(is_list and list or {}) do
    local entry = type(own) == "table" and entry_of(own[1])
    is_list = is_list and entry and type(own[2]) == "function"
  end
  if not is_list then
    error("between: records takes a function that returns { { ev, handler }, … }", 0)
  end
  return list
end

--- Sets the handlers of a plan, and declares it for the kernel.
local function declare_pairs(plan, starts, finishes, drops, of)
  for i, parameter in ipairs(plan.parameters) do
    plan.present[i] = parameter.is ~= "ignored"
    -- A function takes all columns.
    plan.wanted[i] = plan.present[i] or plan.pair ~= nil
  end
  local spec = keep_values(starts, finishes, plan)
  local fields = concat(spec, " ")
  plan.fields = spec
  spec.key, spec.keep, spec.age = of.threads and "tid" or "any", of.keep or nil, of.age or nil
  plan.open = pending(spec)
  if of.nested then plan.nested = nesting(of.nested, plan.open) end

  local set, add = handlers_of "the pairs"
  if of.records then
    for _, own in ipairs(own_handlers(of.records, plan.open)) do
      add({ entry = entry_of(own[1]) }, own[2])
    end
  else
    if of.strict then error("between: strict needs records = function(open) … end", 0) end
    -- An event of both sides is an end before it is a start.
    for _, side in ipairs(finishes) do add(side, finish_handler(side, plan)) end
    for _, side in ipairs(drops) do add(side, drop_handler(side, plan)) end
    for _, side in ipairs(starts) do add(side, start_handler(side, plan)) end
  end
  local number = declared {
    target = plan.target, sums = plan.sums, adds_starts = plan.adds_starts,
    open = plan.open, starts = starts, finishes = finishes, drops = drops,
    present = plan.present, fields = fields, counts = plan.counts,
    threads = of.threads and true or false, strict = of.strict and true or false,
    cut_texts = of.cut_texts and true or false,
    longer = plan.longer, nested = of.nested,
    histogram = plan.histogram, room = of.room, than = plan.than,
    needs = (of.pair or of.records) and of.needs
      or of.pair and not plan.than and "a handler takes the pairs"
      or of.age and "a maximum age of starts" or nil,
  }
  if plan.than then add_takers(number, starts, finishes, plan, of.keep or nil) end
  set()
end

--- Declares the pairs of a plan: its `target`, the `parameters` of the target, one for each column,
--- and `keys`, the number of columns before sums. Returns the pending of the starts.
local function between(plan, start, finish, of)
  if type(of) ~= "table" then error(exports.between_usage, 4) end
  local room = of.room
  local is_number = type(room) == "number" and room % 1 == 0 and room >= 1 and room <= 2 ^ 24
  if room ~= nil and not is_number then
    error("between: room is a whole number of starts from 1 to 16777216", 4)
  end
  plan.columns, plan.present, plan.wanted = #plan.parameters, {}, {}
  plan.counts, plan.longer, plan.pair = of.counts or {}, of.longer or nil, of.pair or nil
  local is_number = type(of.than) == "number" and of.than == of.than
  if of.than and not (is_number and type(of.pair) == "function") then
    error("between: than needs a number of nanoseconds, and pair = function", 4)
  end
  plan.than = not of.needs and of.than or nil
  local ok, why = pcall(function()
    check_options("between", of, plan.options)
    for _, count in ipairs(plan.counts) do
      if type(count) ~= "table" or type(rawget(count, 1)) ~= "table" then
        error("between: counts takes a list of tables: { { rows, at = \"pair\", … } }", 0)
      end
      check_options("between: an entry of counts", count, "at where key")
    end
    local starts = paired_events(start, of, plan, {})
    local drops = of.drops and paired_events(of.drops, of, plan, {}) or {}
    local finishes = paired_events(finish, of, plan, of)
    for i, sides in ipairs { starts, finishes, drops } do
      for _, side in ipairs(sides) do
        if side.once and i > 1 then error("between: only a start has once", 0) end
        if side.last and i < 3 then error("between: only an event in drops has last", 0) end
      end
    end
    declare_pairs(plan, starts, finishes, drops, of)
  end)
  if not ok then error(why, 4) end
  return plan.open
end

--- Adds the delays between the events `start` and `finish` to `times`, a latency with the plan
--- `spec`: see `latency:between` in meta/aggregate.lua. Returns the pending of the starts.
function exports.between(times, spec, start, finish, of)
  local parameters = { unpack(spec.parameters, 2) }
  local histogram = type(of) == "table" and of.histogram or nil
  local open = between({ target = times, parameters = parameters, keys = #parameters,
    options = OF_LATENCY, histogram = histogram }, start, finish, of)
  return open
end

--- Adds a row for each pair of the events `start` and `finish` to `rows`, a kv with the plan
--- `spec`: see `kv:between` in meta/aggregate.lua. `adding(first, n, types)` returns the function
-- that adds a row. Returns the pending of the starts.
function exports.rows_between(rows, spec, start, finish, of, adding)
  local starts = type(of) == "table" and of.starts and true or false
  local open = between({ target = rows, parameters = spec.parameters, keys = spec.keys,
    options = OF_KV, sums = spec.sums, adding = adding, adds_starts = starts }, start, finish, of)
  return open
end
