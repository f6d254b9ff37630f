--- Ticks of a clock that is sampled on each CPU, and how long before each of them interrupts may
--- have been off.
local ticks = {}

-- A tick within this of its due time is on time; and an interrupt's own records lie within one ms.
local ON_TIME, ONE_INTERRUPT = 5e4, 1e6
-- A kernel may write no sample of a tick or two, and count it all the same.
local UNWRITTEN = 2

---@class perilune.ticks.Ticks
---@field missing integer ticks that were missing in front of one that was on time
---@field period number
---@field last table<integer, number> when each CPU last had a tick
---@field alive table<integer, number> when it last handled an interrupt
---@field before table<integer, number> how long before that it had handled none
local Ticks = {}
Ticks.__index = Ticks

--- Returns the ticks of a clock with this period in nanoseconds.
---@return perilune.ticks.Ticks
function ticks.of(period)
  return setmetatable({
    period = period, missing = 0,
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
function Ticks:tick(e)
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

return ticks
