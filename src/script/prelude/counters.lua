--- The function `counters`, which makes a table of the counts of each interval.
local _, _, native, exports = ...

local type, error, ipairs, setmetatable = type, error, ipairs, setmetatable
local count_of, counted_instances, new_report =
  native.count_of, native.counted_instances, native.new_report

local declared = {}
exports.counter_tables = declared

--- Returns the function `n` of one instance, or of all: `n(ev)` returns a count, and the share of
-- the time during which it was counted; `n(ev, i)` those of the event `ev.names[i]`, or
-- nil if it is not counted there.
local function counts_on(instance)
  return function(ev, i)
    if ev == nil then return 0, 1 end
    local index = exports.index_of(ev) or error("n() takes an evsel that counts", 2)
    return count_of(index, instance, i)
  end
end

local Counters = {}

--- Iterates over the instances of the interval with their counts:
-- `for cpu, n in c:each() do … n(ev) … end`. With `each(false)` there is one iteration, for all
-- instances together.
function Counters.each(_, apart)
  local instances, i = apart == false and { "all" } or counted_instances(), 0
  return function()
    i = i + 1
    if instances[i] then return instances[i], counts_on(apart ~= false and instances[i] or nil) end
  end
end

--- Rows of counters, one per instance: `counters { ev… }` or
-- `counters { { "title", function(n) … end }… }`. With `wide = true`, text output adds a row of
-- sums, omits columns of zeros, and breaks lines that are too long for the terminal.
function exports.counters(columns)
  if type(columns) ~= "table" then
    error("counters takes a list of events or of { title, function }", 2)
  end
  local list = {}
  for _, c in ipairs(columns) do
    if exports.index_of(c) then
      list[#list + 1] =
        { c.title, function(n) return (n(c)) end, decimals = 0, metric = "counter" }
    elseif type(c) == "table" and type(c[2]) == "function" then
      list[#list + 1] = { c[1], c[2], decimals = c.decimals or 2, metric = "gauge" }
    else
      error("a column of counters is an evsel or { title, function(n) … end }", 2)
    end
  end
  local table = setmetatable({}, { __metatable = false, __index = Counters })
  declared[#declared + 1] = { table = table, columns = list, wide = columns.wide == true }
  return table
end

--- Returns the report of one counters{}; called by the host after reading the counts of the
-- interval. A NaN (an event that was not counted, or a ratio of zeros) is an empty cell.
function exports.draw_counters(entry, instances, per_thread)
  local instance_title = per_thread and "thread" or "cpu"
  local titles, rows = { { instance_title, align = "left", metric = "label" } }, {}
  for _, c in ipairs(entry.columns) do
    titles[#titles + 1] =
      { c[1], width = entry.wide and 0 or 8, decimals = c.decimals, metric = c.metric }
  end
  for _, instance in ipairs(instances) do
    local row, n = { instance }, counts_on(instance)
    for i, c in ipairs(entry.columns) do
      local value = c[2](n)
      row[i + 1] = value == value and value or nil
    end
    rows[#rows + 1] = row
  end
  return new_report(false, titles, rows)
end
