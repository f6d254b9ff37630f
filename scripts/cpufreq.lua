--- Frequencies of the CPUs: the time at each, and the changes.
-- The kernel reports what it requests from the hardware. A CPU has rows from its first change on:
-- its frequency before is not known. `time%` is relative to the time since then in this interval.
-- Drivers that leave the choice to the hardware (intel_pstate with HWP) report nothing, nor does a
-- virtual machine. With -C, the events of all CPUs are read: any CPU may change the frequency.
--   perilune cpufreq -i 1000
--   perilune cpufreq -C 0-3
local grouped = require "grouped"

local m = monitor {
  summary = "frequencies of the CPUs: time at each, and changes",
  group = "cpu", order = true, whole_cpus = true,
  idle = "no driver reported a change; see /sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
}

local times, changed, khz ---@type perilune.Kv, table<integer, number>, table<integer, number>

function m.init()
  times, changed, khz = kv { "cpu", "MHz", sums = { "ns", "changes" } }, per_cpu(-1), per_cpu(0)
  local watched = {}
  for _, cpu in ipairs(cpus()) do watched[cpu] = true end
  evsel("power:cpu_frequency", { all_tasks = true }, function(e)
    local cpu, state = e.cpu_id, e.state
    if not watched[cpu] then return end
    if changed[cpu] >= 0 then times:add(cpu, khz[cpu] / 1e3, e._time - changed[cpu], 0) end
    times:add(cpu, state / 1e3, 0, khz[cpu] ~= state and 1 or 0)
    changed[cpu], khz[cpu] = e._time, state
  end)
end

local COLUMNS =
  { "cpu", { "MHz", decimals = 0, width = 6 }, { "time%", decimals = 2, width = 6 }, "changes to" }

function m.interval()
  for _, cpu in ipairs(cpus()) do
    if changed[cpu] >= 0 then times:add(cpu, khz[cpu] / 1e3, now() - changed[cpu], 0) end
    changed[cpu] = changed[cpu] >= 0 and now() or -1
  end
  local rows, whole = {}, {}
  for cpu, mhz, ns, changes in times:each() do
    rows[#rows + 1], whole[cpu] = { cpu, mhz, ns, changes }, (whole[cpu] or 0) + ns
  end
  times:clear()
  for _, row in ipairs(rows) do row[3] = 100 * row[3] / whole[row[1]] end
  rows = grouped.rows(rows,
    { by = 1, ascending = true, weight = 3, sums = { 3, 4 }, text = 2, most = 16 })
  return report(false, COLUMNS, rows, "cpufreq")
end
return m
