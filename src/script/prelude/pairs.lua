--- Pairs of two events: `between` of a latency, and values of single events: `measure`. Declares
-- them, so that the kernel may measure, and sets the handlers that do the same with records.
-- Trusted code.
local _, _, native, exports = ...

local compile, declared, fill, pending = native.compile, native.paired, native.fill, native.pending
local entry_of, is_handled, count_with = exports.entry_of, exports.is_handled, exports.count_with

local error, ipairs, next, pairs, pcall = error, ipairs, next, pairs, pcall
local tonumber, type = tonumber, type
local concat, loadstring = table.concat, loadstring

-- Ends without a start before a note that the calls nest.
local MANY = 20

local USAGE = "between takes two evsels and a table: "
  .. "calls:between(enter, exit, { key = \"_tid\" })"

local USAGE_OF_MEASURE = "measure takes an evsel and a table: "
  .. "sizes:measure(ev, { value = \"len\" })"

--- Returns the sides of a list: an evsel, a table with one and its own expressions, or a list of
--- such tables. `side_of(own)` returns a side without its event, or nil without an expression.
local function sides_of(list, usage, side_of)
  if entry_of(list) then list = { { list } }
  elseif type(list) == "table" and entry_of(list[1]) then list = { list } end
  if type(list) ~= "table" or #list == 0 then error(usage, 0) end
  local sides = {}
  for i, own in ipairs(list) do
    local entry = type(own) == "table" and entry_of(own[1])
    local side = entry and side_of(own)
    if not side then error(usage, 0) end
    side.entry, sides[i] = entry, side
  end
  return sides
end

--- Returns the sides of a start or an end, or those that drop starts.
local function paired_events(list, of)
  return sides_of(list, USAGE, function(own)
    local key = own.key or of.key
    if type(key) ~= "table" then key = { key } end
    if #key > 1 and not of.records then
      error("between: a key of several columns needs records = function(open) … end", 0)
    end
    return #key > 0 and { key = key, where = own.where, same = own.same or of.same,
      rows = own.rows or {}, once = own.once, last = own.last }
  end)
end

--- Returns the events of `measure`. They are not pairs, so all have the same key.
local function measured_events(list, of)
  return sides_of(list, USAGE_OF_MEASURE, function(own)
    local value = own.value or of.value
    return value and { key = { "0" }, value = value, where = own.where or of.where,
      rows = own.rows or of.rows or {} }
  end)
end

--- Compiles expressions over the record of a side.
local function compiled(list, side, kind, mixed)
  local f, types = compile(list, side.entry.index, kind, mixed)
  if not f then error(types, 0) end
  return f, types
end

--- Returns the code of the counts `at` a place, and adds their functions to `up`.
local function counts_code(side, counts, at, up)
  local code = {}
  for i, count in ipairs(counts) do
    if count.at == at then
      local names = {}
      for k = 1, #count.key do names[k] = ("c%dk%d"):format(i, k) end
      local list = concat(names, ", ")
      up["keys" .. i] = compiled(count.key, side)
      up["add" .. i] = count[1]:adding(1, 0)
      local text = ("local %s = up_keys%d(e) up_add%d(%s)"):format(list, i, i, list)
      if count.where then
        up["where" .. i] = compiled({ count.where }, side, "number")
        text = ("if up_where%d(e) ~= 0 then %s end"):format(i, text)
      end
      code[#code + 1] = "do " .. text .. " end"
    end
  end
  return concat(code, "\n")
end

--- Compiles the handler of a side, in which `up_NAME` is the value NAME of `up`.
local function handler(side, template, parts, up)
  parts.met = ""
  if side.where then
    up.met, parts.met = compiled({ side.where }, side, "number"),
      "if up_met(e) == 0 then return end"
  end
  local names = {}
  for name in pairs(up) do names[#names + 1] = name end
  for i, name in ipairs(names) do names[i] = ("local up_%s = up.%s"):format(name, name) end
  local code = fill(template, parts)
  return loadstring("local up = ...\n" .. concat(names, "\n") .. code, "=perilune:pairs")(up)
end

--- Returns the arguments of `add` behind the first one.
local function listed(columns)
  return #columns > 0 and ", " .. concat(columns, ", ") or ""
end

--- Returns the code that adds a variable to the histogram of a plan, if it has one.
local function histogram_code(variable, plan, columns)
  if not plan.histogram then return "" end
  local shown = {}
  for i, column in ipairs(plan.histogram.columns or {}) do shown[i] = columns[column] end
  return ("up_histogram:add(%s%s)"):format(variable, listed(shown))
end

local START = [[

return function(e)
  $met
  $before up_open:$open(up_key(e), e$kept) $after
  $counted
  $counts
end]]

local DROP = [[

return function(e)
  $met
  up_open:close(up_key(e), e)
end]]

local FINISH = [[

return function(e)
  $met
  local s = up_open:close(up_key(e), e)
  if not s then
    $counted
    $singles
    return
  end
  $paired
  local delay = s.delay
  $longer
  $same
  $own
  up_times:add(delay$columns)
  $histogram
  $counts
  $pair
end]]

local VALUE = [[

return function(e)
  $met
  $own
  local value = up_value(e)
  if up_type(value) == "string" then value = up_tonumber(value) end
  up_times:add(value$columns)
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
  return handler(side, VALUE, { own = concat(own, "\n"), columns = listed(columns),
    histogram = histogram_code("value", plan, columns) }, up)
end

--- Returns the handler of a start, which keeps the values of the expressions `kept`.
local function start_handler(side, plan, kept)
  local up = { open = plan.open, nested = plan.nested, key = (compiled(side.key, side)) }
  local names = {}
  for i = 1, #kept do names[i] = "v" .. i end
  local passed = #kept > 0 and ", up_kept(e)" or ""
  if #kept > 0 then up.kept = compiled(kept, side) end
  local counts = counts_code(side, plan.counts, "start", up)
  local once = side.once
  return handler(side, START, { open = once and "open_once" or "open", kept = passed,
    before = once and "if not" or "", after = once and "then return end" or "",
    counted = plan.nested and "up_nested.starts = up_nested.starts + 1" or "",
    counts = counts }, up)
end

--- Returns the handler of an event that drops a start.
local function drop_handler(side, plan)
  if side.last then compiled({ side.last }, side, "number") end
  return handler(side, DROP, {}, { open = plan.open, key = (compiled(side.key, side)) })
end

--- Returns the handler of an end.
local function finish_handler(side, plan)
  local up = { open = plan.open, times = plan.times, nested = plan.nested, longer = plan.longer,
    pair = plan.pair, histogram = plan.histogram and plan.histogram[1],
    key = (compiled(side.key, side)) }
  local own, names, columns = {}, {}, {}
  for i = 1, plan.columns do
    if not plan.wanted[i] then columns[i] = "0"
    elseif side.rows[i] then
      own[#own + 1], names[#names + 1] = side.rows[i], "v" .. i
      columns[i] = "v" .. i
    else columns[i] = "s.column" .. i end
  end
  if #own > 0 then up.own = compiled(own, side) end
  if side.same then up.same = compiled({ side.same }, side) end
  local list = listed(columns)
  return handler(side, FINISH, {
    counted = plan.nested and "up_nested.single()" or "",
    paired = plan.nested and "up_nested.pairs = up_nested.pairs + 1" or "",
    longer = plan.longer and "if delay <= up_longer then return end" or "",
    same = side.same and "if s.same ~= up_same(e) then return end" or "",
    own = #own > 0 and ("local %s = up_own(e)"):format(concat(names, ", ")) or "",
    columns = list,
    histogram = histogram_code("delay", plan, columns),
    singles = counts_code(side, plan.counts, "single", up),
    counts = counts_code(side, plan.counts, "pair", up),
    pair = plan.pair and ("up_pair(s, e, delay%s)"):format(list) or "",
  }, up)
end

--- Returns the counters with which a note that calls nest is printed once.
local function nesting(text, open)
  local n, singles, is_noted = { starts = 0, pairs = 0 }, 0, false
  function n.single()
    singles = singles + 1
    if is_noted or singles % MANY > 0 then return end
    if n.starts - n.pairs - open:len() < singles / 2 then return end
    is_noted = true
    exports.note(text)
  end
  return n
end

--- Returns the names of the values that a start keeps, and adds their expressions to the sides.
local function keep_values(starts, finishes, plan)
  local fields = {}
  if finishes[1].same then fields[1] = "same" end
  for i = 1, plan.columns do
    local has_all = true
    for _, finish in ipairs(finishes) do has_all = has_all and finish.rows[i] end
    if plan.wanted[i] and not has_all then fields[#fields + 1] = "column" .. i end
  end
  for _, start in ipairs(starts) do
    start.kept = {}
    for i, field in ipairs(fields) do
      local column = tonumber(field:match "%d+$")
      start.kept[i] = column and start.rows[column] or not column and start.same or nil
      if not start.kept[i] then
        error(("between: %s has no expression for %s"):format(start.entry.ev.name,
          column and "column " .. column or "same"), 0)
      end
    end
  end
  return fields
end

--- Returns a function that sets the handlers of events, and one that adds a handler to those of an
--- event before.
local function handlers_of(what)
  local handlers, order = {}, {}
  local function set()
    for _, entry in ipairs(order) do count_with(entry, handlers[entry]) end
    if exports.changed then exports.changed() end
  end
  local function add(side, f)
    local entry = side.entry
    if is_handled(entry) then
      error("this event has a handler; call evsel again for " .. what, 0)
    end
    local before = handlers[entry]
    if not before then order[#order + 1] = entry end
    handlers[entry] = before and function(e) before(e) f(e) end or f
  end
  return set, add
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
  for i = 1, plan.columns do
    plan.present[i] = plan.spec.parameters[i + 1].is ~= "ignored"
    -- A function takes all columns.
    plan.wanted[i] = plan.present[i] or plan.pair ~= nil
  end
  for _, side in ipairs(finishes) do
    if next(side.rows) == nil and of.rows then side.rows = of.rows end
  end
  local spec = keep_values(starts, finishes, plan)
  local fields = concat(spec, " ")
  spec.key, spec.keep, spec.age = of.threads and "tid" or "any", of.keep or nil, of.age or nil
  plan.open = pending(spec)
  if of.nested then plan.nested = nesting(of.nested, plan.open) end

  local set, add = handlers_of "the pairs"
  if of.records then
    for _, own in ipairs(own_handlers(of.records, plan.open)) do
      add({ entry = entry_of(own[1]) }, own[2])
    end
  else
    -- An event of both sides is an end before it is a start.
    for _, side in ipairs(finishes) do add(side, finish_handler(side, plan)) end
    for _, side in ipairs(drops) do add(side, drop_handler(side, plan)) end
    for _, side in ipairs(starts) do add(side, start_handler(side, plan, side.kept)) end
  end
  declared {
    times = plan.times, open = plan.open, starts = starts, finishes = finishes, drops = drops,
    present = plan.present, fields = fields, counts = plan.counts,
    threads = of.threads and true or false, longer = plan.longer, nested = of.nested,
    histogram = plan.histogram,
    needs = (of.pair or of.records) and of.needs or of.pair and "a handler takes the pairs"
      or of.age and "a maximum age of starts" or nil,
  }
  set()
end

--- Adds the delays between the events `start` and `finish` to `times`, a latency with the plan
--- `spec`: see `latency:between` in meta/aggregate.lua. Returns the pending of the starts.
function exports.between(times, spec, start, finish, of)
  if type(of) ~= "table" then error(USAGE, 3) end
  local plan = { times = times, spec = spec, columns = #spec.parameters - 1, present = {},
    wanted = {}, counts = of.counts or {}, longer = of.longer or nil, pair = of.pair or nil,
    histogram = of.histogram or nil }
  local ok, why = pcall(function()
    local starts = paired_events(start, of)
    local drops = of.drops and paired_events(of.drops, of) or {}
    local finishes = paired_events(finish, of)
    for i, sides in ipairs { starts, finishes, drops } do
      for _, side in ipairs(sides) do
        if side.once and i > 1 then error("between: only a start has once", 0) end
        if side.last and i < 3 then error("between: only an event in drops has last", 0) end
      end
    end
    declare_pairs(plan, starts, finishes, drops, of)
  end)
  if not ok then error(why, 3) end
  return plan.open
end

--- Adds values of single events to `times`, a latency with the plan `spec`: see `latency:measure`
--- in meta/aggregate.lua.
function exports.measure(times, spec, events, of)
  if type(of) ~= "table" then error(USAGE_OF_MEASURE, 3) end
  local plan = { times = times, columns = #spec.parameters - 1, present = {},
    histogram = of.histogram or nil, mixed = of.mixed or nil }
  for i = 1, plan.columns do plan.present[i] = spec.parameters[i + 1].is ~= "ignored" end
  local ok, why = pcall(function()
    local sides = measured_events(events, of)
    local set, add = handlers_of "the values"
    for _, side in ipairs(sides) do add(side, value_handler(side, plan)) end
    declared { times = times, starts = {}, finishes = sides, drops = {}, present = plan.present,
      fields = "", counts = {}, threads = false, histogram = plan.histogram,
      needs = plan.mixed and "values of different types share a column" or nil }
    set()
  end)
  if not ok then error(why, 3) end
end
