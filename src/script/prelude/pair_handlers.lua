--- The handlers of records of events that the kernel could pair or measure, and those of the long
-- pairs that it writes. Trusted code, as pairs.lua.
local _, _, native, exports = ...

local compile, fill, pending = native.compile, native.fill, native.pending
local is_handled, count_with = exports.is_handled, exports.count_with

local error, ipairs, pairs, setmetatable = error, ipairs, pairs, setmetatable
local tonumber, unpack = tonumber, unpack
local concat, loadstring = table.concat, loadstring

-- Ends without a start before a note that the calls nest.
local MANY = 20

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

-- The end of a long pair that the kernel has written. The start is the previous slot.
local LONG = [[

return function(e)
  local s = up_open:close(1, e)
  if not s then return end
  local delay = s.delay
  $own
  up_pair(s, e, $arguments)
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
    pair = plan.pair, than = plan.than, histogram = plan.histogram and plan.histogram[1],
    key = (compiled(side.key, side)) }
  local own, columns = own_columns(side, plan)
  if plan.sums then up.add = adder(side, plan) end
  if side.same then up.same = compiled({ side.same }, side) end
  local list = concat(columns, ", ")
  local with_delay = concat({ "delay", unpack(columns) }, ", ")
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
    pair = plan.pair and ("%s up_pair(s, e, %s) %s"):format(
      plan.than and "if delay > up_than then" or "", with_delay, plan.than and "end" or "") or "",
  }, up)
end

-- Takers of events that the kernel writes, by the number of their side: that within the declaration
-- and, above SIDE_BITS, that of the declaration (run/kernel_counts/long_pairs.rs).
local takers, SIDE_BITS = {}, 16

--- Takes an event that the kernel has written: its address is the number of its side.
function exports.take_written(e) takers[e._addr](e) end

--- Adds the takers of the long pairs of a declaration. The start and the end of a pair are
--- consecutive. With `keep`, the event of the start is kept.
local function add_takers(number, starts, finishes, plan, keep)
  local fields = { unpack(plan.fields) }
  fields.key, fields.keep, fields.lost, fields.counted = "any", keep, "keep", false
  local open, first = pending(fields), number * 2 ^ SIDE_BITS
  local of_start = setmetatable({ open = open, counts = {}, nested = false, adds_starts = false },
    { __index = plan })
  for i, side in ipairs(starts) do
    local plain = setmetatable({ key = { "1" }, where = false, once = false }, { __index = side })
    takers[first + i - 1] = start_handler(plain, of_start)
  end
  for i, side in ipairs(finishes) do
    local up = { open = open, pair = plan.pair }
    local own, columns = own_columns(side, plan)
    takers[first + #starts + i - 1] = handler({ entry = side.entry }, LONG, {
      own = own_code(own, side, up), arguments = concat({ "delay", unpack(columns) }, ", ") }, up)
  end
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

exports.pairing = { compiled = compiled, handler = handler, histogram_code = histogram_code,
  start_handler = start_handler, drop_handler = drop_handler, finish_handler = finish_handler,
  add_takers = add_takers, nesting = nesting, handlers_of = handlers_of }
