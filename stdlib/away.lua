--- Time in which a CPU ran none of its tasks: steal time, in which a hypervisor ran other virtual
--- machines, and idle time. A delay that is measured on a CPU includes both.
local away = {}

local EVERY = 1e9                                          -- nanoseconds between readings
local SHARE = 1 / 4                                        -- error of a base, relative to its age
local SLACK = 0.5e9                                        -- maximum delay of a reading

--- Removes readings that are close to each other relative to their age. The number that remains
--- grows with the logarithm of the run's duration: about 70 after a day.
local function thin_out(readings, time)
  for i = #readings - 1, 2, -1 do
    local gap = readings[i + 1].time - readings[i - 1].time
    if gap <= SHARE * (time - readings[i + 1].time) then table.remove(readings, i) end
  end
end

--- Starts to read the kernel's accounting once a second. Returns a function that returns two upper
--- bounds in nanoseconds, for the time since `from`, a time of the run: the steal time of the CPU,
--- and its idle time. Both are counted from a reading before `from` to one after all events of the
--- current batch, so they may be too large, but not too small. Both are 0 in a replay.
---
---     local since = away.watch()
---     …
---     if late - since(e._cpu, e._time - late) > limit then emit(e) end
---@return fun(cpu: integer, from: number): number, number
function away.watch()
  -- The first reading is older than all events.
  local readings, latest, latest_at = { { time = -math.huge, cpus = cpu_times() } }, {}, nil
  every(EVERY / 1e9, function(time)
    readings[#readings + 1] = { time = time, cpus = cpu_times() }
    thin_out(readings, time)
  end)
  return function(cpu, from)
    if latest_at ~= now() then latest, latest_at = cpu_times(), now() end    -- once per batch
    local base = readings[1]
    for _, reading in ipairs(readings) do
      if reading.time <= from - SLACK then base = reading end
    end
    local before, after = base.cpus[cpu], latest[cpu]
    if not before or not after then return 0, 0 end
    return after.stolen - before.stolen, after.idle - before.idle
  end
end

return away
