--- What runs inside an interrupt: functions of timers and tasklets, other interrupts, packets,
--- requests that complete, and functions that a clock samples.
local inside = {}

-- Maximum number of entries that are kept for each CPU, and that are shown; and the sampling rate.
local KEPT, SHOWN, FREQ = 256, 6, 1000

-- Calls: their events `_entry` and `_exit`, the field and the expression of the name, and the text
-- before it.
local CALLS = {
  { "timer:timer_expire", "function", "ksymbol(function)", "" },
  { "timer:hrtimer_expire", "function", "ksymbol(function)", "" },
  { "irq:tasklet", "func", "ksymbol(func)", "" },
  { "irq:irq_handler", "name", "name", "irq " },
}
-- Events that are counted: the event, the field of the name, that of the amount or false, its unit.
local COUNTS = {
  { "napi:napi_poll", "dev_name", "work", "packets" },
  { "block:block_rq_complete", "rwbs", false, "requests" },
}

-- Soft interrupts by number: include/linux/interrupt.h.
---@type table<integer, string>
local SOFT = {
  [0] = "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL",
  "TASKLET", "SCHED", "HRTIMER", "RCU",
}

--- Returns the name of a soft interrupt.
---@param vec integer
---@return string
function inside.softirq(vec) return SOFT[vec] or tostring(vec) end

---@class perilune.Inside
---@field by table<integer, perilune.InsideCpu?>
---@field draw fun(stack: integer): string draws the number of a sampled function
local Inside = {}
Inside.__index = Inside

---@class perilune.InsideCpu the last entries of a CPU, by their number modulo `KEPT`
---@field count integer
---@field times number[] when each began or happened
---@field names any[] text, or the number of a sampled function
---@field units string[] `us` for calls
---@field amounts number[]

local function add(self, e, time, name, unit, amount)
  local log = self.by[e._cpu]
  if not log then
    log = { count = 0, times = {}, names = {}, units = {}, amounts = {} }
    self.by[e._cpu] = log
  end
  local at = log.count % KEPT
  log.count, log.times[at], log.names[at] = log.count + 1, time, name
  log.units[at], log.amounts[at] = unit, amount
end

--- Watches what runs inside interrupts.
---@return perilune.Inside
function inside.watch()
  local self = setmetatable({ by = {}, draw = stack.format "symbol" }, Inside)
  for _, call in ipairs(CALLS) do
    local event, field, expression, before = unpack(call)
    local entry = evsel(event .. "_entry", { optional = true }) ---@type perilune.Evsel?
    if entry and entry.fields[field] then
      local open, name = pending { "name", key = "cpu" }, expr_of(expression, entry, "text")
      entry:each(function(e) open:open(e._cpu, e, before .. name(e)) end)
      evsel(event .. "_exit", function(e)
        local began = open:close(e._cpu, e)
        if began then add(self, e, began.time, began.name, "us", began.delay / 1e3) end
      end)
    end
  end
  for _, count in ipairs(COUNTS) do
    local name, amount = count[2], count[3]
    local ev = evsel(count[1], { optional = true }) ---@type perilune.Evsel?
    if ev and (not amount or ev.fields[amount]) then
      ev:each(function(e) add(self, e, e._time, e[name], count[4], amount and e[amount] or 1) end)
    end
  end
  local clock = { freq = FREQ, functions = true, exclude = { user = true, idle = true },
    optional = true }
  evsel("cycles|cpu-clock", clock, function(e) add(self, e, e._time, e._function, "samples", 1) end)
  return self
end

--- Returns what ran on a CPU during a delay, the longest first, then what is only counted:
--- `tcp_write_timer 812.0us, process_timeout 3x 12.1us, eth0 64 packets, rcu_do_batch 2 samples`.
---@param cpu integer
---@param start perilune.State the start of the delay, with its `delay`
---@return string
function Inside:text(cpu, start)
  local log, rows, by = self.by[cpu], {}, {}
  if not log then return "" end
  -- A delay that the kernel has measured may come after entries that began behind its end.
  local since, ended = start.time, start.time + start.delay
  local oldest = math.max(log.count - KEPT, 0)
  for i = log.count - 1, oldest, -1 do
    local at = i % KEPT
    local time, unit, name = log.times[at], log.units[at], log.names[at]
    if time < since then break end
    if time > since and time <= ended then                 -- else the interrupt itself
      if unit == "samples" then name = self.draw(name) end
      local key = name .. "\0" .. unit
      local row = by[key] or { name = name, unit = unit, times = 0, amount = 0 }
      if not by[key] then by[key], rows[#rows + 1] = row, row end
      row.times, row.amount = row.times + 1, row.amount + log.amounts[at]
    end
  end
  table.sort(rows, function(a, b)
    if (a.unit == "us") ~= (b.unit == "us") then return a.unit == "us" end
    return a.amount > b.amount
  end)
  local texts = {}
  for i = 1, math.min(#rows, SHOWN) do
    local row = rows[i]
    local count = row.unit == "us" and row.times > 1 and row.times .. "x " or ""
    local amount = row.unit == "us" and ("%.1fus"):format(row.amount)
      or ("%d %s"):format(row.amount, row.unit)
    texts[i] = ("%s %s%s"):format(row.name, count, amount)
  end
  if #rows > SHOWN then texts[SHOWN + 1] = ("%d others"):format(#rows - SHOWN) end
  return table.concat(texts, ", ")
end

--- Returns what ran on a CPU during a delay as the value `ran` of an event; no value if nothing is
--- known.
---@param cpu integer
---@param start perilune.State the start of the delay, with its `delay`
---@return table[]
function Inside:values(cpu, start)
  local text = self:text(cpu, start)
  return text ~= "" and { { "ran", text } } or {}
end

return inside
