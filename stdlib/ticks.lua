--- Ticks of a clock that is sampled on each CPU: those that are late, and for how long interrupts
--- were off before them.
local away = require "away"

local ticks = {}

-- A tick within this of its due time is on time; and an interrupt's own records lie within one ms.
local ON_TIME, ONE_INTERRUPT = 5e4, 1e6
-- A kernel may write no sample of a tick or two, and count it all the same.
local UNWRITTEN = 2

---@class perilune.ticks.Ticks
---@field missing integer ticks that were missing in front of one that was on time
---@field explained integer late ticks of stolen or idle CPUs
---@field period number
---@field limit number
---@field everywhere boolean ticks in user mode and in idle CPUs are judged, too
---@field away fun(cpu: integer, from: number): number, number
---@field idles table<integer, number> 1 if the CPU had a tick while it was idle
---@field last table<integer, number> when each CPU last had a tick
---@field alive table<integer, number> when it last handled an interrupt
---@field before table<integer, number> how long before that it had handled none
local Ticks = {}
Ticks.__index = Ticks

--- Judges ticks whose period is half of `limit`, in nanoseconds. Only ticks in the kernel are judged,
--- or those `everywhere`.
---@return perilune.ticks.Ticks
function ticks.late_by(limit, everywhere)
  local period = math.floor(limit / 2)
  if period < 1e4 then error("-L: the timer fires each half of it, 10us at least: use 20us", 0) end
  return setmetatable({
    period = period, limit = limit, everywhere = everywhere, missing = 0, explained = 0,
    away = away.watch(), idles = per_cpu(0),
    last = per_cpu(math.huge), alive = per_cpu(math.huge), before = per_cpu(0),
  }, Ticks)
end

--- Takes an interrupt of any timer, which proves that interrupts are on.
function Ticks:interrupted(e)
  local cpu, now = e._cpu, e._time
  self.before[cpu], self.alive[cpu] = now - self.alive[cpu], now
end

--- Takes a tick. Returns how long interrupts were off before it, in nanoseconds: at least, since a
--- tick was due, and at most, since the interrupt before. The first tick of a CPU has no such time.
---@return number least
---@return number most
function Ticks:off_before(e)
  local cpu, now, period = e._cpu, e._time, self.period
  local most, since_tick = now - self.alive[cpu], now - self.last[cpu]
  if most < ONE_INTERRUPT then most = math.min(most + self.before[cpu], since_tick) end
  self.last[cpu], self.alive[cpu], self.before[cpu] = now, now, 0
  if since_tick < 0 or most <= period then return 0, math.min(most, period) end
  -- Ticks are due at whole periods behind the last one.
  local due = period * (math.floor((since_tick - most) / period) + 1)
  local off_time = math.abs(since_tick - period * math.floor(since_tick / period + 0.5))
  if off_time < math.min(ON_TIME, period / 20) and since_tick < (UNWRITTEN + 1.5) * period then
    self.missing = self.missing + 1
    return 0, 0
  end
  return math.max(0, since_tick - due), most
end

--- Takes a tick. If it is judged and late by more than the limit, returns how long interrupts were
--- off before it, in nanoseconds: at least, without the time that the CPU was stolen or idle, and at
--- most. Otherwise returns -1.
---@return number least
---@return number most
function Ticks:tick(e)
  local cpu, is_idle, limit = e._cpu, e._tid == 0, self.limit
  local least, most = self:off_before(e)
  if is_idle then self.idles[cpu] = 1 end
  if most <= limit or not self.everywhere and (is_idle or e._ip >= 0) then return -1, 0 end
  -- Some kernels stop to write records of a CPU's idle task: then its ticks are missing, too.
  local stolen, idle = self.away(cpu, e._time - most)
  local gone = self.idles[cpu] == 1 and stolen or stolen + idle
  if most - gone <= limit then
    self.explained = self.explained + 1
    return -1, 0
  end
  return math.max(0, least - gone), most
end

--- Notes the ticks that were left out.
function Ticks:explain()
  local missing, explained = self.missing, self.explained
  if missing > 0 then note("ticks without a sample before one that was on time: %d", missing) end
  if explained > 0 then note("late ticks of stolen or idle CPUs, left out: %d", explained) end
end

return ticks
