--- Late ticks of a clock that is sampled on each CPU, and how long interrupts were off before them.
local away = require "away"

local ticks = {}

-- A tick this close to its due time is on time. Records of one interrupt lie within 1 ms.
local ON_TIME, ONE_INTERRUPT = 5e4, 1e6
-- Number of successive ticks that the kernel may count without writing a sample.
local UNWRITTEN = 2
-- CPUs that were paused together run again within this time.
local TOGETHER = 5e6
-- Duration without a timer, in periods, from which a CPU is silent.
local LATE = 1.1

---@class perilune.ticks.Ticks
---@field missing integer ticks on time that had missing ticks before them
---@field explained integer late ticks explained by steal or idle time
---@field period number
---@field limit number
---@field everywhere boolean whether to judge ticks in user mode and in idle CPUs, too
---@field away fun(cpu: integer, from: number): number, number
---@field idles table<integer, number> 1 if the CPU had a tick while it was idle
---@field last table<integer, number> time of the last tick, per CPU
---@field alive table<integer, number> time of the last interrupt handled
---@field before table<integer, number> time without an interrupt before that
---@field silent table<integer, number> duration without an interrupt that ended at the last one
---@field paused { count: integer, longest: number, at: number } pauses of all CPUs at once
local Ticks = {}
Ticks.__index = Ticks

--- Returns a judge of ticks whose period is half of `limit`, in nanoseconds; the kernel's minimum
--- is 10us. It judges only ticks in the kernel unless `everywhere`.
---@return perilune.ticks.Ticks
function ticks.late_by(limit, everywhere)
  local period = math.floor(limit / 2)
  return setmetatable({
    period = period, limit = limit, everywhere = everywhere, missing = 0, explained = 0,
    away = away.watch(), idles = per_cpu(0),
    last = per_cpu(math.huge), alive = per_cpu(math.huge), before = per_cpu(0),
    silent = per_cpu(0), paused = { count = 0, longest = 0, at = -math.huge },
  }, Ticks)
end

--- Handles an interrupt of any timer, which proves that interrupts are on.
function Ticks:interrupted(e)
  local cpu, now = e._cpu, e._time
  self:handled(cpu, now)
  self.before[cpu], self.alive[cpu] = now - self.alive[cpu], now
end

--- Stores how long a CPU handled no timer before one that it handles now.
function Ticks:handled(cpu, now)
  local silent = now - self.alive[cpu]
  if silent > ONE_INTERRUPT then self.silent[cpu] = silent end
end

--- Returns whether all CPUs, and more than one, have handled no timer for about the `silent`
--- nanoseconds before `time`. Events must be ordered.
---@return boolean
function Ticks:all_silent(time, silent)
  local cpus = 0
  for cpu, alive in pairs(self.alive) do
    if alive < math.huge then
      local since = time - alive
      if since < TOGETHER then since = self.silent[cpu] end
      local differs = math.abs(since - silent) > self.period + TOGETHER
      if since < LATE * self.period or differs then return false end
      cpus = cpus + 1
    end
  end
  return cpus > 1
end

--- Counts a pause of all CPUs once, though each of them is late after it.
function Ticks:count_pause(time, least)
  local paused = self.paused
  if time - paused.at > TOGETHER then paused.count = paused.count + 1 end
  paused.longest, paused.at = math.max(paused.longest, least), time
end

--- Handles a tick. Returns how long interrupts were off before it, in nanoseconds: at least (since
--- a tick was due) and at most (since the previous interrupt). The times before the first tick of a
--- CPU are not known: returns 0 and at most the period.
---@return number least
---@return number most
function Ticks:off_before(e)
  local cpu, now, period = e._cpu, e._time, self.period
  local most, since_tick = now - self.alive[cpu], now - self.last[cpu]
  if most < ONE_INTERRUPT then most = math.min(most + self.before[cpu], since_tick) end
  self:handled(cpu, now)
  self.last[cpu], self.alive[cpu], self.before[cpu] = now, now, 0
  if since_tick < 0 or most <= period then return 0, math.min(most, period) end
  -- Ticks are due at whole periods after the last one.
  local due = period * (math.floor((since_tick - most) / period) + 1)
  local off_time = math.abs(since_tick - period * math.floor(since_tick / period + 0.5))
  if off_time < math.min(ON_TIME, period / 20) and since_tick < (UNWRITTEN + 1.5) * period then
    self.missing = self.missing + 1
    return 0, 0
  end
  return math.max(0, since_tick - due), most
end

--- Handles a tick. If it is judged and interrupts may have been off for longer than the limit,
--- returns how long they were off before it, in nanoseconds: at least (without steal and idle time)
--- and at most. Otherwise returns -1.
---@return number least
---@return number most
function Ticks:tick(e)
  local cpu, is_idle, limit = e._cpu, e._tid == 0, self.limit
  local least, most = self:off_before(e)
  if is_idle then self.idles[cpu] = 1 end
  if most <= limit or not self.everywhere and (is_idle or e._ip >= 0) then return -1, 0 end
  -- Some kernels stop writing records of the idle task, so its ticks are missing, too.
  local stolen, idle = self.away(cpu, e._time - most)
  local gone = self.idles[cpu] == 1 and stolen or stolen + idle
  if most - gone <= limit then
    self.explained = self.explained + 1
    return -1, 0
  end
  if self:all_silent(e._time, most) then
    self:count_pause(e._time, least)
    return -1, 0
  end
  return math.max(0, least - gone), most
end

--- Prints notes about the ticks that were ignored.
function Ticks:explain()
  local missing, explained, paused = self.missing, self.explained, self.paused
  if missing > 0 then note("ticks without a sample before one that was on time: %d", missing) end
  if explained > 0 then note("late ticks explained by steal or idle time: %d", explained) end
  if paused.count > 0 then
    note("times when all CPUs were late at once, as after a pause of a virtual machine or in " ..
      "stop_machine(): %d, the longest at least %.1f ms", paused.count, paused.longest / 1e6)
  end
end

return ticks
