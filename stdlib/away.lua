--- Time in which a CPU ran none of its tasks: steal time, which a hypervisor gave to others, and
--- idle time. A delay that is measured on a CPU includes both.
local away = {}

local READINGS, EVERY = 8, 1e9
local SLACK = 0.5e9                                        -- by which a reading may be late

--- Begins to read the kernel's accounting once a second. Returns a function that returns two
--- times in nanoseconds: the most that a hypervisor took from the CPU since `from`, a time of the
--- run, and the most that the CPU was idle. Both count from a reading before `from`, so they may be
--- too large, but not too small. Both are 0 in a replay.
---
---     local since = away.watch()
---     …
---     if late - since(e._cpu, e._time - late) > limit then emit(e) end
---@return fun(cpu: integer, from: number): number, number
function away.watch()
  local readings = { { time = 0, cpus = cpu_times() } }
  every(EVERY / 1e9, function(time)
    readings[#readings + 1] = { time = time, cpus = cpu_times() }
    if #readings > READINGS then table.remove(readings, 1) end
  end)
  return function(cpu, from)
    local base = readings[1]
    for _, reading in ipairs(readings) do
      if reading.time <= from - SLACK then base = reading end
    end
    local before, after = base.cpus[cpu], cpu_times()[cpu]
    if not before or not after then return 0, 0 end
    return after.stolen - before.stolen, after.idle - before.idle
  end
end

return away
