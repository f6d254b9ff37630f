--- Time of each CPU by mode, in percent: user (nice included), system, guest, irq, softirq, steal
-- and idle (iowait included). With a PMU, user, system, guest and idle are ref-cycles relative to
-- the time stamp counter. Without one they are the kernel's accounting in /proc/stat, in ticks of
-- 10 ms: a percentage point of -i 1000. A note names the source. irq, softirq and steal are always
-- the kernel's accounting. `tasks` is the time that tasks ran by the scheduler's clock, in any
-- mode: exact, up to the last tick of the interval.
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
  local kernel = opt.exclude_kernel or opt.guest
  local hidden = {
    user = opt.exclude_user or opt.guest, guest = opt.exclude_guest,
    system = kernel, irq = kernel, softirq = kernel, tasks = kernel or opt.exclude_user,
  }
  local modes, columns = cpu_modes.open(), {}
  for name in ("user system guest irq softirq steal idle tasks"):gmatch "%a+" do
    local shown = modes[name] and not hidden[name]
    if shown then columns[#columns + 1] = { name .. "%", modes[name] } end
  end
  counters(columns)
end
return m
