--- Delays between two events: a table, a heat map, and the events of those longer than --than.
local delays = {}

--- Returns a function that decides whether --detail prints an event of the window from `a` to `b`.
local function chosen(detail, has_key, a, b, key)
  local cpu_a, pid_a, tid_a = a._cpu, a._pid, a._tid
  local cpu_b, pid_b, tid_b = b._cpu, b._pid, b._tid
  return function(x)
    if detail.samecpu and x._cpu ~= cpu_a and x._cpu ~= cpu_b then return false end
    if detail.samepid and x._pid ~= pid_a and x._pid ~= pid_b then return false end
    if detail.sametid and x._tid ~= tid_a and x._tid ~= tid_b then return false end
    if not detail.samekey then return true end
    if has_key then return has_key(x, key) end
    return x._instance == key
  end
end

--- Returns a function that prints all events between and around the two events of a delay, as
--- `detail`, an opt.detail, selects them, under a heading with `values`. `has_key(e, key)` returns
--- whether an event has the key of the delay; without it the key is compared with the event's
--- instance.
---@param detail perilune.Detail
---@param has_key? fun(e: perilune.Sample, key: any): boolean
---@return fun(start: perilune.State, e: perilune.Sample, key: any, values: table[])
function delays.window(detail, has_key)
  local past = history { before = detail.before or 0 }
  local selects = detail.samecpu or detail.samepid or detail.sametid or detail.samekey
  return function(start, e, key, values)
    past:between(start, e, { before = detail.before, after = detail.after, values = values,
      where = selects and chosen(detail, has_key, start.event, e, key) or nil })
  end
end

---@class perilune.delays.Look
---@field heading? fun(...): table[] pairs of name and value for the heading of --detail, from the
--- values of the columns; the delay is added to them
---@field has_key? fun(e: perilune.Sample, key: any): boolean
--- Returns further values of a delay, pairs of name and value, from its start and its columns.
---@field values? fun(start: perilune.State, ...: any): table[]
---@field span? fun(start: perilune.State, e: perilune.Sample, delay: number, ...: any) with
--- --perfetto, adds the delay to the timeline
--- Replaces the function of `delays.printer`.
---@field print? fun(start: perilune.State, e: perilune.Sample, delay: number, ...: any)

--- Returns a function that prints a delay longer than `opt.than` or `opt.only_than`, with the delay
--- as `delay_us`: the event that began it, which a `pending` kept, and the event `e` that ended it.
--- With `opt.detail` it prints the events of `delays.window`; the first value after the delay is
--- then the key. Without a threshold it prints nothing. Times are nanoseconds.
---
---     local print = delays.printer(opt)
---     …
---     print(start, e, start.delay)
---@param opt perilune.Options
---@param look? perilune.delays.Look
---@return fun(start: perilune.State, e: perilune.Sample, delay: number, ...: any)
function delays.printer(opt, look)
  local than = opt.than or opt.only_than
  if not than then return function() end end
  local further = look and look.values
  if not opt.detail then
    return function(start, e, delay, ...)
      if delay <= than then return end
      local values = { delay_us = delay / 1000 }
      for _, pair in ipairs(further and further(start, ...) or {}) do values[pair[1]] = pair[2] end
      emit(start.event, e, values)
    end
  end
  local heading, print = look and look.heading, delays.window(opt.detail, look and look.has_key)
  return function(start, e, delay, ...)
    if delay <= than then return end
    local values = heading and heading(...) or {}
    values[#values + 1] = { "delay_us", delay / 1000 }
    for _, pair in ipairs(further and further(start, ...) or {}) do values[#values + 1] = pair end
    print(start, e, (...), values)
  end
end

--- Returns the reason why `delays.beside` needs records; nil if it shows nothing, or only the two
--- events of each long delay.
---@param opt perilune.Options
---@return string?
function delays.needs_records(opt)
  if opt.heatmap then return "--heatmap needs records" end
  return (opt.than or opt.only_than) and opt.detail and "--detail prints records" or nil
end

--- Declares what is shown beside a table of delays: with --heatmap their heat map, with a threshold
--- the events, as `delays.printer` prints them, with --perfetto their spans. Returns the function
--- that adds a delay with the values of its columns; nil if nothing is shown.
---@param opt perilune.Options
---@param look? perilune.delays.Look
---@return (fun(start: perilune.State, e: perilune.Sample, delay: number, ...: any))?
function delays.beside(opt, look)
  local heat, print = opt.heatmap and heat_map {}, look and look.print ---@type any, function?
  if not print and (opt.than or opt.only_than) then print = delays.printer(opt, look) end
  local span = opt.perfetto and look and look.span
  if not (heat or print or span) then return nil end
  return function(start, e, delay, ...)
    if heat then heat:add(e._time, delay) end
    if span then span(start, e, delay, ...) end
    if print then print(start, e, delay, ...) end
  end
end

--- Declares a table of delays, `spec` as for `latency`, and what `delays.beside` shows. Returns a
--- function that adds a delay with the values of its columns; and the table.
---
---     local add = delays.table(opt, { perins "tid", "comm" })
---     …
---     add(start, e, start.delay, e._tid, e._comm)
---@param opt perilune.Options
---@param spec perilune.LatencySpec
---@param look? perilune.delays.Look
---@return fun(start: perilune.State, e: perilune.Sample, delay: number, ...: any) add
---@return perilune.Latency times
function delays.table(opt, spec, look)
  local times, beside = latency(spec), delays.beside(opt, look)
  if not beside then return function(_, _, delay, ...) times:add(delay, ...) end, times end
  return function(start, e, delay, ...)
    times:add(delay, ...)
    beside(start, e, delay, ...)
  end, times
end

return delays
