--- Time of each CPU by mode, in percent: user (nice included), system, guest, irq, softirq, steal
-- and idle (iowait included). With a PMU, user, system, guest and idle are ref-cycles relative to
-- the time stamp counter. Without one they are the kernel's accounting in /proc/stat, which every
-- user may read. A note names the source. irq, softirq and steal are always the kernel's
-- accounting. Its unit is a tick of 10 ms: 1 % at -i 1000, 10 % at -i 100, nothing below -i 10.
-- Most kernels charge a whole tick to what runs at its end, so work that is shorter than a tick is
-- right on average only. The shares of an interval are those of its ticks: none exceeds 100 %.
--   perilune cpu-util -i 1000
--   perilune cpu-util -C 0-7 -G
local cpu_modes = require "cpu_modes"

local m = monitor {
  summary = "CPU time by mode: user, system, guest, irq, softirq, steal, idle",
  group = "cpu",
  every = "1s",
  whole_cpus = true,
  options = { "exclude-user", "exclude-kernel", "exclude-guest", "guest" },
}

function m.init(opt)
  local modes, columns = cpu_modes.open(), {}
  for i, name in ipairs(cpu_modes.left(opt)) do columns[i] = { name .. "%", modes[name] } end
  counters(columns)
end
return m
