--- Shares in percent: those that add up to 100, and shares of a CPU's time.
local conflict, cpu_modes = require "conflict", require "cpu_modes"
local explore = require "explore"

local share = {}

local PROCESSES, FUNCTIONS = 5, 12

--- Returns the shares of `values`, in order, as percent with two decimals, by the method of the
--- largest remainder: each is rounded down, and the remaining hundredths go to the values with the
--- largest remainders. The shares add up to 100, and the error of each is at most 0.01.
function share.of(values)
  local total, shares, rests, left = 0, {}, {}, 10000
  for _, value in ipairs(values) do total = total + value end
  if total <= 0 then
    for i in ipairs(values) do shares[i] = 0 end
    return shares
  end
  for i, value in ipairs(values) do
    local exact = value * 10000 / total
    shares[i] = math.floor(exact)
    rests[i] = { i, exact - shares[i] }
    left = left - shares[i]
  end
  table.sort(rests, function(a, b)
    if a[2] ~= b[2] then return a[2] > b[2] end
    return a[1] < b[1]
  end)
  for i = 1, left do shares[rests[i][1]] = shares[rests[i][1]] + 1 end
  for i = 1, #shares do shares[i] = shares[i] / 100 end
  return shares
end

local function heavier(a, b)
  if a[1] ~= b[1] then return a[1] > b[1] end
  return a.key < b.key
end

--- Replaces the rows of `all` after the first `most` by their sums. Rows with the same comm and
--- function become one row, `make (others)`, if it is heavier than the last of the first `most`;
--- the rest is one row, `(others)`. The texts contain no numbers: a metric has them as labels.
local function fold(all, most)
  local count = #all - most
  if count < 2 then return end                             -- a sum of one row would save nothing
  local groups, by_name, least = {}, {}, all[most][1]
  for _ = 1, count do
    local row = table.remove(all)
    local name = row[3] .. "\0" .. (row[5] or "")
    local group = by_name[name]
    if not group then
      group = { 0, 0, row[3], nil, row[5], key = name, rows = 0 }
      by_name[name], groups[#groups + 1] = group, group
    end
    group[1], group[2], group.rows = group[1] + row[1], group[2] + row[2], group.rows + 1
  end
  table.sort(groups, heavier)
  local weight, samples, shown, rest = 0, 0, 0, false
  for _, group in ipairs(groups) do
    if group.rows > 1 and group[1] > least and shown < most then
      group[3], shown = group[3] .. " (others)", shown + 1
      all[#all + 1] = group
    else
      weight, samples, rest = weight + group[1], samples + group[2], true
    end
  end
  table.sort(all, heavier)
  if rest then all[#all + 1] = { weight, samples, "(others)" } end
end

--- Returns a report of shares. Each row is a weight, a count, a comm, a pid and optionally a
--- function. Rows with the same comm, pid and function are merged, the heaviest come first, and
--- those after the first `most` are added up.
local function shares_of(title, columns, rows, most, name)
  local merged, all = {}, {}
  for _, row in ipairs(rows) do
    row.key = table.concat(row, "\0", 3)
    local same = merged[row.key]
    if same then
      same[1], same[2] = same[1] + row[1], same[2] + row[2]
    else
      merged[row.key], all[#all + 1] = row, row
    end
  end
  table.sort(all, heavier)
  fold(all, most)
  local weights = {}
  for i, row in ipairs(all) do weights[i] = row[1] end
  for i, percent in ipairs(share.of(weights)) do all[i][1] = percent end
  local shown = { { "share %", width = 7, decimals = 2 }, { columns[1], width = 8 } }
  for i = 2, #columns do shown[i + 1] = { columns[i], align = "left" } end
  return report(title, shown, all, name)
end

local PRECISION = { [0] = "not precise", "constant skid", "precise", "exact" }

--- Fields that samples are counted by.
local KEYS = { process = "_pid", thread = "_tid", cpu = "_cpu" }

local TITLES = { process = "pid", thread = "tid", cpu = "cpu" }

--- Returns two reports of the samples of `ev`: of the first `PROCESSES` processes, of the first
--- threads or of all CPUs, as `by` says, and of the first `most` functions. Each row is a weight, a
--- count of samples, a comm, the number of the process, thread or CPU, and a function.
---@param ev perilune.Evsel
---@param by "process"|"thread"|"cpu"
function share.of_tasks(ev, rows, most, by)
  local title = ("%s, %s"):format(ev.name, PRECISION[#(ev.name:match ":.-(p+)" or "")])
  local first, id, count = {}, TITLES[by], by == "process" and PROCESSES or most
  for i, row in ipairs(rows) do first[i] = { unpack(row, 1, 4) } end
  if by == "cpu" then
    count = machine.cpus
    for _, row in ipairs(first) do row[3] = "" end
  end
  return shares_of(title, { "samples", "comm", id }, first, count,
    by == "process" and "processes" or by .. "s"),
    shares_of(false, { "samples", "comm", id, "function" }, rows, most, "functions")
end

--- Returns a report of the samples of idle CPUs, `idle`, and of running ones, which are in `rows`.
local function of_idle(idle, rows)
  local running = 0
  for _, row in ipairs(rows) do running = running + row[2] end
  if idle + running == 0 then return end
  local shares = share.of { idle, running }
  local columns = { { "share %", width = 7, decimals = 2 }, { "samples", width = 8 },
    { "state", align = "left" } }
  return report("CPUs", columns, { { shares[1], idle, "idle" }, { shares[2], running, "running" } })
end

---@class perilune.share.Table
---@field ev perilune.Evsel
---@field samples perilune.Kv by number, comm and function: the periods and the number of samples
---@field who fun(e: perilune.Sample): number
---@field symbol fun(stack: integer): string
---@field by "process"|"thread"|"cpu"
---@field most integer
---@field idle integer|false samples of idle CPUs in the interval; false: they are not counted apart
local Table = {}
Table.__index = Table

--- Returns a table of the samples of an event with `functions`, as shares of processes, threads or
--- CPUs (`opt.by`, or processes) and of the first `opt.rows` functions, or 12. With `opt.idle` the
--- samples of idle CPUs are counted apart.
---@param ev perilune.Evsel
---@return perilune.share.Table
function share.table(ev, opt)
  local symbol = stack.format "symbol"
  local sums, by, most = { "period", "samples" }, opt.by or "process", opt.rows or FUNCTIONS
  return setmetatable({
    samples = kv { "who", "comm", { "function", symbol }, sums = sums, top = most },
    ev = ev, symbol = symbol, by = by, most = most, who = expr_of(KEYS[by], ev),
    idle = opt.idle and 0,
  }, Table)
end

--- Counts a sample.
---@param e perilune.Sample
function Table:add(e)
  if self.idle and e._tid == 0 then self.idle = self.idle + 1
  else self.samples:add(self.who(e), e._comm, e._function, e._period, 1) end
end

--- Returns the reports of the samples since the last report, for `m.interval`: of idle and running
--- CPUs, if idle ones are counted, then those of `share.of_tasks`. Clears the table.
---@return perilune.Report? ...
function Table:report()
  local rows, apart = {}, nil
  for who, name, fn, period, n in self.samples:each() do
    rows[#rows + 1] = { period, n, name, who, self.symbol(fn) }
  end
  self.samples:clear()
  if self.idle then apart, self.idle = of_idle(self.idle, rows), 0 end
  return apart, share.of_tasks(self.ev, rows, self.most, self.by)
end

-- The first that opens is sampled; a share of the time needs a clock.
local SHARE = "ref-cycles|cpu-clock"
local SAMPLES = "cycles:ppp|cycles:pp|cycles:p|cycles|cpu-clock"

--- Returns the modes that the options exclude, and the idle tasks without --idle.
local function excluded(opt)
  local exclude = cpu_modes.excluded(opt)
  exclude.idle = not opt.idle
  return exclude
end

--- Returns whether an event measures how busy a CPU is: only clocks and cycles do.
local function measures_time(ev, opt)
  local name = ev.name
  return name:find "^ref%-cycles" or name:find "%-clock" or name:find "^cycles" and not opt.period
end

--- Declares the event of -e, else the most precise one that opens, with the function of each
--- sample, and with -g, --perfetto or --than its stack. Raises an error for --than with --idle, or
--- with an event that does not measure how busy a CPU is.
---@return perilune.Evsel
function share.sampled(opt)
  if opt.than then conflict.refuse(opt, { "idle" }, "--than prints samples of busy CPUs") end
  local stacks = opt.than or opt.perfetto or explore.is_wanted(opt)
  local ev = evsel(opt.event or opt.than and SHARE or SAMPLES, {
    freq = not opt.period and opt.freq, period = opt.period,
    stack = opt.call_graph or stacks and "fp", functions = true, exclude = excluded(opt),
  })
  if opt.than and not measures_time(ev, opt) then
    local why = "--than: %s does not measure how busy a CPU is; omit -e, or use -e cpu-clock"
    error(why:format(ev.name), 0)
  end
  return ev
end

--- Counts the time that was run, without samples (-F 0). Returns a function for `m.interval`, which
--- returns counters with its share of the interval. The share of a CPU is limited to 100. That of a
--- thread may be more: it includes children that run at the same time. Raises an error for options
--- of samples and tables, and for an event that does not measure how busy a CPU is, as clocks of a
--- whole CPU do not.
---@return fun(seconds: number): perilune.Counters
function share.counted(opt)
  if opt.call_graph or opt.than or opt.perfetto or opt.as_events or explore.is_wanted(opt) then
    error("-F 0 takes no samples: omit it, or omit the options that need stacks and --than", 0)
  end
  conflict.refuse(opt, { "by", "idle", "rows" }, "-F 0 takes no samples and shows no functions")
  -- Not sched_stat_runtime: the kernel counts it for the CPU and the task that account the time. A
  -- task that wakes another one accounts the time of the task that runs on the other CPU.
  if not opt.event and not per_thread() then
    local busy = counters { { "share%", cpu_modes.busy(opt) } }
    return function() return busy end
  end
  local ev = evsel(opt.event or "ref-cycles|task-clock", { count = true, exclude = excluded(opt) })
  if not measures_time(ev, opt) then
    error(("-F 0: %s does not measure how busy a CPU is; omit -e"):format(ev.name), 0)
  end
  if ev.name:find "%-clock" and not some_tasks() then
    error(("-F 0: %s of a CPU includes its idle time; omit -e, or use -p"):format(ev.name), 0)
  end
  local hz = ev.name:match "cycles" and machine.tsc_khz * 1e3 or 1e9
  local most, interval = per_thread() and math.huge or 100, nil
  local shares = counters { { "share%", function(n)
    return math.min(most, 100 * n(ev) / (interval * hz))
  end } }
  return function(seconds)
    interval = seconds
    return shares
  end
end

--- Returns a function of a sample that returns whether its CPU's share of the current second
--- reached `percent` before the sample. The share is the sum of `ref-cycles` relative to the
--- frequency of the time stamp counter, or the number of a clock's samples relative to its rate.
--- Samples of the idle task add nothing to it.
function share.busier(ev, percent)
  local hz = ev.freq or 1e9 / ev.period
  local cycles = ev.name:match "^ref%-cycles"
  local enough = percent / 100 * (cycles and machine.tsc_khz * 1e3 or hz)
  local second, spent = per_cpu(-1), per_cpu(0)
  return function(e)
    if e._tid == 0 then return false end
    local cpu, now = e._cpu, math.floor(e._time / 1e9)
    if second[cpu] ~= now then second[cpu], spent[cpu] = now, 0 end
    local before = spent[cpu]
    spent[cpu] = before + (cycles and e._period or 1)
    return before >= enough
  end
end

return share
