--- Pairs of two events: `between` of a latency, and of a kv. Declares them, so that the kernel may
-- pair, and sets the handlers that do the same with records. Trusted code.
local _, _, native, exports = ...

local compile, declared, fill, pending = native.compile, native.paired, native.fill, native.pending
local entry_of, is_handled, count_with = exports.entry_of, exports.is_handled, exports.count_with
local check_options, paired_events = exports.check_options, exports.paired_events

local error, ipairs, pairs, pcall = error, ipairs, pairs, pcall
local rawget, tonumber, type, unpack = rawget, tonumber, type, unpack
local concat, loadstring = table.concat, loadstring

-- Ends without a start before a note that the calls nest.
local MANY = 20

-- The options of pairs, and those of a latency or a kv.
local OPTIONS = "key same rows room threads drops longer age counts nested records pair needs keep "
local OF_LATENCY, OF_KV = OPTIONS .. "histogram", OPTIONS .. "sums starts"

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

--- Returns the code that adds a variable to the histogram of a plan, if it has one.
local function histogram_code(variable, plan, columns)
  if not plan.histogram then return "" end
  local shown = {}
  for i, column in ipairs(plan.histogram.columns or {}) do shown[i] = columns[column] end
  return ("up_histogram:add(%s)"):format(concat({ variable, unpack(shown) }, ", "))
end

local START = [[

return function(e)
  $met
  $own
  $before up_open:$open($passed) $after
  $counted
  $added
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
  $add($arguments)
  $histogram
  $counts
  $pair
end]]

--- Returns the expressions of a side, and for each column the name of its value: one of them, a
--- kept value, or "0" for a column that is not there.
local function own_columns(side, plan)
  local own, columns = {}, {}
  for i = 1, plan.columns do
    if not plan.wanted[i] then columns[i] = "0"
    elseif side.rows[i] then
      own[#own + 1] = side.rows[i]
      columns[i] = "v" .. #own
    else columns[i] = "s.column" .. i end
  end
  return own, columns
end

--- Returns the function that adds a row of a kv: its sums have the types of the side's
-- expressions, or of those that a start keeps.
local function adder(side, plan)
  local types = {}
  for i = 1, plan.sums do
    local column = plan.keys + i
    types[i] = side.types[column] or plan.kept_types[column]
  end
  return plan.adding(1, plan.sums, types)
end

--- Returns the code that sets the values of the expressions `own`, and adds their function to `up`.
local function own_code(own, side, up)
  if #own == 0 then return "" end
  up.own = compiled(own, side)
  local names = {}
  for i = 1, #own do names[i] = "v" .. i end
  return ("local %s = up_own(e)"):format(concat(names, ", "))
end

--- Returns the handler of a start, which keeps the values of the expressions `side.kept`.
local function start_handler(side, plan)
  local up = { open = plan.open, target = plan.target, nested = plan.nested,
    key = (compiled(side.key, side)) }
  local own, columns, passed = {}, {}, { "up_key(e)", "e" }
  if plan.adds_starts then
    own, columns = own_columns(side, plan)
    up.add = adder(side, plan)
  end
  for i, field in ipairs(plan.fields) do
    local value = columns[tonumber(field:match "%d+$")]
    if not value then
      own[#own + 1] = side.kept[i]
      value = "v" .. #own
    end
    passed[#passed + 1] = value
  end
  local once = side.once
  return handler(side, START, { own = own_code(own, side, up),
    open = once and "open_once" or "open", passed = concat(passed, ", "),
    before = once and "if not" or "", after = once and "then return end" or "",
    counted = plan.nested and "up_nested.starts = up_nested.starts + 1" or "",
    added = plan.adds_starts and ("up_add(%s)"):format(concat(columns, ", ")) or "",
    counts = counts_code(side, plan.counts, "start", up) }, up)
end

--- Returns the handler of an event that drops a start.
local function drop_handler(side, plan)
  if side.last then compiled({ side.last }, side, "number") end
  return handler(side, DROP, {}, { open = plan.open, key = (compiled(side.key, side)) })
end

--- Returns the handler of an end.
local function finish_handler(side, plan)
  local up = { open = plan.open, target = plan.target, nested = plan.nested, longer = plan.longer,
    pair = plan.pair, histogram = plan.histogram and plan.histogram[1],
    key = (compiled(side.key, side)) }
  local own, columns = own_columns(side, plan)
  if plan.sums then up.add = adder(side, plan) end
  if side.same then up.same = compiled({ side.same }, side) end
  local list = concat(columns, ", ")
  local with_delay = #columns > 0 and "delay, " .. list or "delay"
  return handler(side, FINISH, {
    counted = plan.nested and "up_nested.single()" or "",
    paired = plan.nested and "up_nested.pairs = up_nested.pairs + 1" or "",
    longer = plan.longer and "if delay <= up_longer then return end" or "",
    same = side.same and "if s.same ~= up_same(e) then return end" or "",
    own = own_code(own, side, up),
    add = plan.sums and "up_add" or "up_target:add",
    arguments = plan.sums and list or with_delay,
    histogram = histogram_code("delay", plan, columns),
    singles = counts_code(side, plan.counts, "single", up),
    counts = counts_code(side, plan.counts, "pair", up),
    pair = plan.pair and ("up_pair(s, e, %s)"):format(with_delay) or "",
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

--- Returns a function that sets the handlers of events, and one that adds a handler to those of an
--- event before.
local function handlers_of(what)
  local handlers, order = {}, {}
  local function set()
    for _, entry in ipairs(order) do count_with(entry, handlers[entry]) end
    exports.take_together(order)
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
    -- An event of both sides is an end before it is a start.
    for _, side in ipairs(finishes) do add(side, finish_handler(side, plan)) end
    for _, side in ipairs(drops) do add(side, drop_handler(side, plan)) end
    for _, side in ipairs(starts) do add(side, start_handler(side, plan)) end
  end
  declared {
    target = plan.target, sums = plan.sums, adds_starts = plan.adds_starts,
    open = plan.open, starts = starts, finishes = finishes, drops = drops,
    present = plan.present, fields = fields, counts = plan.counts,
    threads = of.threads and true or false, longer = plan.longer, nested = of.nested,
    histogram = plan.histogram, room = of.room,
    needs = (of.pair or of.records) and of.needs or of.pair and "a handler takes the pairs"
      or of.age and "a maximum age of starts" or nil,
  }
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

exports.pairing = { compiled = compiled, handler = handler,
  histogram_code = histogram_code, handlers_of = handlers_of }
