--- Metrics: numbers computed from the counts of events, such as `ipc=instructions/cycles`.
local cpu_modes, flat = require "cpu_modes", require "flat"

local metric = {}

--- The default events, which exist on every machine.
local USUAL = { "task-clock", "context-switches", "cpu-migrations", "page-faults" }

--- Returns the name of an event at the start of `text`: the longest of `known`, else the longest
--- match of the syntax. `-` without a blank before it belongs to the name: `context-switches`, but
--- `a - b`.
local function name_at(text, known)
  local longest = ""
  for _, name in ipairs(known) do
    if #name > #longest and text:sub(1, #name) == name then longest = name end
  end
  if longest ~= "" then return longest end
  return text:match "^[%a_][%w_%.%-]*:[%w_%.%-]+" or text:match "^[%a_][%w_%.%-]*"
end

--- Translates an expression into Lua source, in which the events are arguments. Returns the source
--- and the names of the events, or nil and the error.
local function translate(expression, known)
  local source, names, places, rest = {}, {}, {}, expression
  -- Whether an operand has just ended: only an operator or `)` may follow.
  local ended = false
  while rest ~= "" do
    local sign, number = rest:match "^[%s%+%-%*/%(%)]", rest:match "^%d+%.?%d*"
    local plain = sign or number
    local name = not plain and name_at(rest, known)
    if ended and (sign == "(" or number or name) then
      return nil, ("an operator is missing before '%s'"):format(rest)
    end
    if not (sign and sign:find "%s") then ended = sign == ")" or not sign end
    if name then
      if not places[name] then
        names[#names + 1] = name
        places[name] = "v" .. #names
      end
      plain = name
      source[#source + 1] = places[name]
    elseif plain then
      source[#source + 1] = plain
    else
      local why = "'%s' cannot be read; write names of events, numbers, + - * / and parentheses"
      return nil, why:format(rest)
    end
    rest = rest:sub(#plain + 1)
  end
  return table.concat(source), names
end

--- Returns whether a function of `count` values is infinite or NaN for two different lists of them.
local function never_finite(of, count)
  local low, high = {}, {}
  for i = 1, count do low[i], high[i] = i + 0.5, 2 * i * i + 0.25 end
  local one, other = of(low), of(high)
  return not (math.abs(one) < math.huge) and not (math.abs(other) < math.huge)
end

--- Parses `NAME=EXPR,…`. `known` are names of events that may contain more than letters, digits,
--- `_`, `.`, `-` and a colon. Each metric has a `name`, the names of its `events`, and
--- `of(values)`, which returns its value for their counts in that order.
function metric.parse(text, known)
  local all = {}
  for part in (text or ""):gmatch "[^,]+" do
    local name, expression = part:match "^%s*([%w_%-%%]+)%s*=%s*(.-)%s*$"
    if not name then
      local why = "--metric: '%s' is not NAME=EXPRESSION, such as ipc=instructions/cycles"
      error(why:format(part), 0)
    end
    local source, names = translate(expression, known)
    if not source then error(("--metric: %s: %s"):format(name, names), 0) end
    if #names == 0 then error(("--metric: %s: '%s' names no event"):format(name, expression), 0) end
    local arguments = {}
    for i = 1, #names do arguments[i] = "v" .. i end
    local text = "return function(%s) return %s end"
    local chunk = load(text:format(table.concat(arguments, ","), source), "=metric")
    if not chunk then
      error(("--metric: %s: '%s' is not an expression"):format(name, expression), 0)
    end
    local f = chunk() ---@type fun(...: number): number
    local function of(values) return f(unpack(values, 1, #names)) end
    if never_finite(of, #names) then
      error(("--metric: %s: divides by 0; correct the expression"):format(name), 0)
    end
    all[#all + 1] = { name = name, events = names, of = of }
  end
  return all
end

--- Returns the events with these names in a group, or nil if it lacks one.
local function members(group, names)
  local evs = {}
  for i, name in ipairs(names) do
    if not group[name] then return nil end
    evs[i] = group[name]
  end
  return evs
end

--- Returns the events of a metric, which are counted at the same times: those of a group of `-e`
--- that has them all, else they are opened as a group. `groups` has the events of groups by name.
local function events_of(one, options, groups)
  for _, group in pairs(groups) do
    local evs = members(group, one.events)
    if evs then return evs end
  end
  local evs, each = {}, { group = "metric " .. one.name }
  for key, value in pairs(options) do each[key] = value end
  for i, name in ipairs(one.events) do evs[i] = evsel(name, each) end
  return evs
end

--- Returns the name of a metric of these events, and the function of its value in an interval,
--- which is NaN for a division by zero. The first NaN is explained by a note.
local function opened(one, evs)
  local explained = false
  return { name = one.name, value = function(n)
    local values, uncounted = {}, nil
    for i, ev in ipairs(evs) do
      values[i] = n(ev)
      if values[i] ~= values[i] then uncounted = ev.name end
    end
    local value = one.of(values)
    if math.abs(value) < math.huge then return value end
    if not explained then
      local why = uncounted and uncounted .. " was not counted" or "a division by 0"
      note("metric %s has no value: %s; its value is empty then", one.name, why)
      explained = true
    end
    return 0 / 0
  end }
end

--- The events and metrics of one cgroup, or of all tasks.
---@class perilune.CountedSet
---@field cgroup string|false
---@field events perilune.Evsel[]
---@field metrics { name: string, value: fun(n: function): number }[]

--- Returns the paths of the cgroups that `--cgroup PATH,…` names, each once.
local function paths_of(list)
  local paths, seen = {}, {}
  for pattern in list:gmatch "[^,]+" do
    local matching, why = cgroups(pattern)
    for _, path in ipairs(matching or error(why, 0)) do
      local name = path:match "^/*(.-)/*$"
      if not seen[name] then paths[#paths + 1] = path end
      seen[name] = true
    end
  end
  if #paths == 0 then
    local why = "--cgroup: '%s' names no cgroup; pass paths, such as system.slice, or omit it"
    error(why:format(list), 0)
  end
  return paths
end

--- Declares the events of -e and --metric, once for each cgroup of --cgroup.
---@return perilune.CountedSet[]
function metric.sets(opt)
  local exclude = cpu_modes.excluded(opt)
  local sets = {}
  for _, cgroup in ipairs(opt.cgroup and paths_of(opt.cgroup) or { false }) do
    local options = { count = true, cgroup = cgroup, exclude = exclude, pinned = opt.pinned }
    local set, known, groups = { cgroup = cgroup, events = {}, metrics = {} }, {}, {}
    for i, s in ipairs(flat.selectors(opt.event)) do
      local ev = evsel(s, options)
      set.events[i], known[i] = ev, ev.name
      -- A weak group may be split, and a filter or CPUs change what is counted.
      if s.group and not (s.weak or s.filter or s.attr.cpus) then
        groups[s.group] = groups[s.group] or {}
        groups[s.group][ev.name] = ev
      end
    end
    for i, one in ipairs(metric.parse(opt.metric, known)) do
      set.metrics[i] = opened(one, events_of(one, options, groups))
    end
    options.optional = true
    for _, name in ipairs(#set.events + #set.metrics == 0 and USUAL or {}) do
      set.events[#set.events + 1] = evsel(name, options)
    end
    sets[#sets + 1] = set
  end
  return sets
end

--- Tracepoints whose counts are nanoseconds.
local TIMES = {}
for name in ("wait sleep iowait blocked runtime"):gmatch "%a+" do
  TIMES["sched:sched_stat_" .. name] = "ns"
end

--- Returns the alias of an event, or its full name, with the unit of its counts.
local function title(ev)
  local name = ev.title == ev.name:match ":([^:]+)$" and ev.name or ev.title
  local unit = #ev.names == 1 and TIMES[ev.name] or ev.unit
  return unit and unit ~= "" and ("%s [%s]"):format(name, unit) or name
end

--- Returns the rows of an event: a name, and the places in `ev.names` that are added up, or nil for
--- all. A glob may match events that count nanoseconds: each of these has a row of its own.
local function rows_of(ev, by_event)
  local rows, others = {}, {}
  for i, name in ipairs(#ev.names > 1 and ev.names or {}) do
    if by_event or TIMES[name] then
      rows[#rows + 1] = { TIMES[name] and name .. " [ns]" or name, { i } }
    else
      others[#others + 1] = i
    end
  end
  if #rows == 0 then return { { title(ev) } } end
  if #others > 0 then table.insert(rows, 1, { title(ev), others }) end
  return rows
end

--- Returns the count of events of a glob, and the share of the time in which they were counted.
local function added(n, ev, places)
  local sum, share = nil, nil
  for _, i in ipairs(places) do
    local count, counted = n(ev, i)
    if count then
      sum, share = (sum or 0) + count, share or counted
    end
  end
  return sum, share
end

--- Returns the decimals of counts: some if an event of `sets` has a unit.
function metric.decimals(sets)
  for _, set in ipairs(sets) do
    for _, ev in ipairs(set.events) do
      if ev.unit then return 3 end
    end
  end
  return 0
end

local function known(value) return value == value and value or nil end

--- Returns the rows of an interval for the events, and those for the metrics. Both begin with the
--- cgroup and the instance.
--- With `by_event`, each event of a glob and each box of a PMU has a row of its own.
function metric.rows(all, sets, seconds, apart, by_event)
  local counts, ratios = {}, {}
  for _, set in ipairs(sets) do
    for instance, n in all:each(apart) do
      for _, ev in ipairs(set.events) do
        for _, row in ipairs(rows_of(ev, by_event)) do
          local name, places = unpack(row)
          local count, share
          if places then count, share = added(n, ev, places) else count, share = n(ev) end
          local rate = count and known(count / seconds)
          counts[#counts + 1] = count
            and { set.cgroup, instance, name, known(count), rate, 100 * share }
        end
      end
      for _, one in ipairs(set.metrics) do
        ratios[#ratios + 1] = { set.cgroup, instance, one.name, known(one.value(n)) }
      end
    end
  end
  return counts, ratios
end

return metric
