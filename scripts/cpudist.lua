--- How long tasks stay on a CPU each time: from the switch to a task until the switch away from it.
-- The histogram is of all stays, the table by program, with --perins by thread. Short stays cost
-- switches, long ones make others wait. A stay that began before the run, and one that has not
-- ended at its end, is not counted. Interrupts, and the time that a hypervisor took, are included.
--   perilune cpudist -i 1000
--   perilune cpudist -p 1234 --perins
local running = require "running"

local m = monitor {
  summary = "how long tasks stay on a CPU each time",
  group = "cpu", order = true,
  idle = "a task that neither sleeps nor is preempted has no stay that ends",
  options = {
    "perins", integer { "rows", default = 20, help = "rows of the table; the histogram has all" },
  },
}

function m.init(opt)
  local stays = hist.log2 { title = "time on a CPU", unit = "ns" }
  local times = latency { perins "tid", "comm", count = "stays", top = opt.rows }
  running.measure(times, stays)
end
return m
